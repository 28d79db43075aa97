"""Reductions by each function of the table are numpy's `ufunc.reduce`: from the first value to the last."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import spfgen
from spfgen.errors import SpecError
from spfgen.lang.interpret import interpret
from spfgen.lang.ops import OPERATORS, ufunc
from spfgen.lang.parse import parse_statements

Array = npt.NDArray[Any]
REDUCING = [o.name for o in OPERATORS.values() if o.arity == 2 and o.name != "ldexp"]
TYPES = ("bool", "int8", "uint8", "int64", "uint64", "float32", "float64", "complex128")


def operand(name: str, kind: str, length: int, stored: str) -> Array:
    rng = np.random.default_rng(length)
    low = 0 if kind[0] in "bu" or name == "power" else -4
    values = rng.integers(low, 5, (3, length))
    mask = {"some": rng.random((3, length)) < 0.5, "all": np.ones((3, length), bool), "none": False}[stored]
    return np.where(mask, np.where(values == 0, 1, values), 0).astype(kind)


def reduced(name: str, array: Array) -> Array | None:
    """What numpy's `reduce` says, one step after another: that of numpy 2 is wrong for `arctan2` and `power` of floats
    on some machines. None where numpy refuses. float16 is float32 here."""
    function = ufunc(name)
    try:
        kind = function.reduce(array[:, :1], axis=1).dtype
    except (TypeError, ValueError):
        return None
    kind = np.dtype(np.float32) if kind == np.float16 else kind
    truth = name.startswith("logical")
    columns = list(array.T) if truth else list(array.astype(kind).T)
    first = columns[:1] if function.identity is None else [np.full(len(array), function.identity).astype(kind)]
    return np.asarray(reduce(function, columns[len(first) * (function.identity is None) :], first[0])).astype(kind)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", REDUCING)
def test_a_reduction_is_that_of_numpy(name: str, kind: str) -> None:
    text = f"y[i] = {name}(j: A[i, j])"
    for length, stored in ((1, "all"), (2, "some"), (5, "some"), (5, "all"), (5, "none")):
        array = operand(name, kind, length, stored)
        with np.errstate(all="ignore"):
            wanted = reduced(name, array)
            if wanted is None:
                with pytest.raises(SpecError):
                    spfgen.evaluate(text, A=array)
                continue
            meant = interpret(parse_statements(text), {"A": array}, {"A": 0})["y"]
        for given in (array, spfgen.pack(array, "csr")):
            found = spfgen.evaluate(text, A=given)
            assert found.dtype == wanted.dtype
            assert np.allclose(found, wanted, rtol=1e-5, equal_nan=True), (length, stored)
        assert np.allclose(meant, wanted, rtol=1e-5, equal_nan=True), (length, stored)


D = np.array([[0, 3.0, 0, 1, 0], [2, 0, 0, 0, 5], [0, 0, 0, 0, 0], [1, 2, 3, 4, 5]])
OWN = {
    "return y  property associative  property idempotent": lambda x, y: y,
    "return x  property idempotent": lambda x, y: x,
    "return where(y > 2, y, x)  property associative  property idempotent": lambda x, y: y if y > 2 else x,
    "if x != 0 { return x }  return y  property identity 0": lambda x, y: x if x != 0 else y,
    "return x - y": lambda x, y: x - y,
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("layout", ["csr", "csc", "coo_unsorted"])
@pytest.mark.parametrize("body", OWN)
def test_a_function_that_does_not_commute_takes_values_in_their_order(body: str, layout: str) -> None:
    text = f"function f(x, y) {{ {body} }}\ny[i] = f(j: A[i, j])\nz = f(j, i: A[i, j])"
    found = spfgen.evaluate(text, A=spfgen.pack(D, layout))
    assert np.array_equal(found["y"], [reduce(OWN[body], row) for row in D])
    assert found["z"] == reduce(OWN[body], D.T.reshape(-1))


def test_an_order_that_is_proved_is_kept_without_looking_at_all_points() -> None:
    text = "function f(x, y) { if x != 0 { return x }  return y  property identity 0 }\ny[i] = f(j: A[i, j])"
    assert "A_colidx" in spfgen.compile(text, A="csr", y="dense").source
    loops = spfgen.compile(text, A="csr", y="dense").source.count("for (")
    assert loops == spfgen.compile("y[i] = any(j: A[i, j] > 0)", A="csr", y="dense").source.count("for (")


def test_a_function_that_widens_its_argument() -> None:
    x = np.array([1, 2, 4, 8])
    found = spfgen.evaluate("function half(p, q) { return (p + q)/2 }\ns = half(i: x[i])", x=x)
    assert found == reduce(lambda p, q: (p + q) / 2, x)


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_an_update_that_does_not_associate_is_made_for_each_value(layout: str) -> None:
    shifts = np.array([[1, 0, 2], [0, 0, 1]])
    given = shifts if layout == "dense" else spfgen.pack(shifts, layout)
    found = spfgen.evaluate("y[i] <<= A[i, j]", A=given, y=np.array([3, 5]))
    assert found.tolist() == [3 << 3, 5 << 1]
    found = spfgen.evaluate("function f(p, q) { return 2*p + q }\ns f= A[i, j]", A=given, s=np.array(1))
    assert found == reduce(lambda p, q: 2 * p + q, shifts.reshape(-1), 1)


@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
def test_the_shortest_ways_of_two_steps(layout: str) -> None:
    """The first reads of rows of C are fetched ahead: that gives no name a value."""
    rng = np.random.default_rng(5)
    b, c = (np.where(rng.random(s) < 0.3, rng.integers(1, 9, s), np.inf) for s in ((7, 6), (6, 8)))
    packed = {n: spfgen.pack(v, f"{layout} fill inf") for n, v in {"B": b, "C": c}.items()}
    found = spfgen.evaluate("A[i,j] = min(k: B[i,k] + C[k,j])", **packed)
    np.testing.assert_array_equal(found, (b[:, :, None] + c[None]).min(axis=1))


@pytest.mark.parametrize("layout", ["csr", "csc", "dense"])
def test_a_sum_over_a_slice(layout: str) -> None:
    """The extent of the slice is known before memory of threads is taken."""
    a = np.arange(42.0).reshape(6, 7) * (np.arange(42).reshape(6, 7) % 3 > 0)
    found = spfgen.evaluate("y[j] = A[i(1:4), j]", A=spfgen.pack(a, layout))
    np.testing.assert_array_equal(found, a[1:4].sum(axis=0))


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("max(j: A[i,j]) where abs(i - j) <= 1", lambda a, i, j: np.where(abs(i - j) <= 1, a, -np.inf).max(1)),
        (
            "max(j: A[i,j]) + min(j: A[i,j]) where j <= 2",
            lambda a, i, j: np.where(j <= 2, a, -np.inf).max(1) + np.where(j <= 2, a, np.inf).min(1),
        ),
        ("2*prod(j: A[i,j] + 1) where j < i and i > 1", lambda a, i, j: 2 * np.where(j < i, a + 1, 1).prod(1)),
    ],
)
def test_a_condition_of_the_statement_may_be_about_the_index_of_a_reduction(value: str, wanted: Any) -> None:
    a = np.where(np.random.default_rng(3).random((6, 6)) < 0.5, np.arange(36.0).reshape(6, 6) - 18, 0)
    i, j = np.arange(6)[:, None], np.arange(6)[None]
    expected = wanted(a, i, j)
    if "i > 1" in value:
        expected[:2] = 2  # what the value is where nothing is stored
    np.testing.assert_array_equal(spfgen.evaluate(f"y[i] = {value}", A=spfgen.pack(a, "csr")), expected)


def test_a_condition_about_two_reductions_is_refused() -> None:
    with pytest.raises(SpecError, match="one reduction over `j` and `k`"):
        spfgen.compile("y[i] = max(j: A[i,j]*min(k: A[j,k])) where j < k", A="csr", y="dense")
