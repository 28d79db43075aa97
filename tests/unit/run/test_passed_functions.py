"""Functions that are passed with the text."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import spfgen
from spfgen.errors import SpecError, UsageError
from spfgen.facts.prove import recorded

x, y = np.array([1.0, -2.0, 3.0]), np.array([0.5, 0.0, 2.0])


def test_functions_are_operands() -> None:
    relu = spfgen.function(lambda a, b: np.maximum(a, 0) * 2 + b)
    assert np.array_equal(spfgen.evaluate("z[i] = f(x[i], y[i])", x=x, y=y, f=relu), np.maximum(x, 0) * 2 + y)
    assert np.allclose(spfgen.evaluate("z[i] = g(x[i], y[i])", x=x, y=y, g=np.hypot), np.hypot(x, y))


def test_another_function_of_the_same_name_is_another_kernel() -> None:
    for factor in (2, 3):
        found = spfgen.evaluate("z[i] = f(x[i])", x=x, f=lambda a, factor=factor: factor * a)
        assert np.array_equal(found, factor * x)


def test_on_sparse_operands() -> None:
    a = sparse.random_array((5, 7), density=0.4, random_state=np.random.default_rng(1), format="csr")
    found = spfgen.evaluate("z[i, j] = f(A[i, j])", A=a, f=lambda v: np.where(v > 0.5, v, -1))
    assert np.array_equal(found, np.where(a.toarray() > 0.5, a.toarray(), -1))


def test_compiled() -> None:
    kernel = spfgen.compile("z[i] = f(x[i])", f=lambda a: a * a + 1, x="dense", z="dense")
    assert np.array_equal(kernel(x=x), x * x + 1)


def test_what_is_not_called_is_refused() -> None:
    with pytest.raises(UsageError, match="expected a function that the statements call, but `f` is not one"):
        spfgen.evaluate("z[i] = x[i]*y[i]", x=x, y=y, f=np.hypot)


def test_what_is_declared_is_checked_where_it_is_used() -> None:
    wrong = spfgen.function(lambda a, b: a - b, associative=True, commutative=True)
    a = sparse.random_array((5, 7), density=0.4, random_state=np.random.default_rng(1), format="csr")
    with pytest.raises(SpecError, match="expected `f` to be as declared"):
        spfgen.evaluate("y[i] = f(j: A[i, j])", A=a, f=wrong)
    larger = spfgen.function(np.maximum, 2, associative=True, commutative=True, idempotent=True, identity=-np.inf)
    assert np.array_equal(spfgen.evaluate("y[i] = f(j: A[i, j])", A=a, f=larger), a.toarray().max(axis=1))


def test_what_was_proved_and_what_was_tried_is_known() -> None:
    for f, kind, word in ((lambda a, b: a & b, "int64", "proved"), (lambda a, b: a + b, "float64", "sampled")):
        one = spfgen.function(f, name="f", commutative=True)
        layout = f"dense<{kind}>"
        with recorded() as found:
            spfgen.compile("z[i] = f(x[i], y[i])", f=one, x=layout, y=layout, z=layout).generated  # noqa: B018
        assert [a.word for a in found if a.goal == "commutative"] == [word]
