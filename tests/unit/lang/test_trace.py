"""Functions of Python, traced: they give what they give in Python."""

from __future__ import annotations

import math

import numpy as np
import pytest

from spfgen.errors import UsageError
from spfgen.ir import walk
from spfgen.lang.fold import called
from spfgen.lang.nodes import Apply, Let
from spfgen.lang.trace import function

FUNCTIONS = [
    lambda x, y: np.maximum(x, 0) - 2 * y,
    lambda x, y: np.where((x > y) & (y >= 0), x ** 2, np.sqrt(abs(y))),
    lambda x, y: (x + y) / (1 + np.exp(-x)) if True else 0,
    lambda x, y: np.clip(x, -1, y) + round(x) + math.floor(y) * np.hypot(x, 3.0),
    lambda x, y: -x % 3 + 7 // (y * y + 1) + np.logaddexp(x, y),
    lambda x, y: np.float32(2.5) * x.real + np.conj(y),
    lambda x, y: np.where(np.isnan(x) | ~(x == y), 1.5, 2),
]  # fmt: skip


@pytest.mark.parametrize("f", FUNCTIONS)
def test_the_same_as_in_python(f) -> None:
    traced = function(f, 2)
    for x in (0.5, -2.25, 3.0, 0.0):
        for y in (0.5, 2.0, -1.5):
            given = np.float64(x), np.float64(y)
            assert called(traced, given) == np.asarray(f(*given))


def test_what_is_used_twice_is_computed_once() -> None:
    def f(x):
        for _ in range(40):
            x = x * x + 0.25
        return x

    traced = function(f)
    assert traced.name == "f"
    assert sum(isinstance(s, Let) for s in traced.body) == 39
    assert sum(isinstance(v, Apply) for v in walk(traced)) == 80
    assert called(traced, [np.float64(0.1)]) == f(np.float64(0.1))


def test_properties_and_names() -> None:
    traced = function(np.maximum, 2, name="larger", commutative=True, identity=-np.inf, annihilator=np.inf)
    assert (traced.name, len(traced.parameters)) == ("larger", 2)
    assert traced.operator.commutative
    assert traced.operator.annihilators == ((0, np.inf), (1, np.inf))
    assert function(lambda double: double + 1).parameters == ("double_",)
    assert called(function(lambda x: 3), [np.float64(1)]) == 3


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda x: x if x > 0 else 0, "a value as a condition"),
        (lambda x: max(x, 0), "a value as a condition"),
        (lambda x: math.sqrt(x), "a function of Python's numbers"),
        (lambda x: np.sum(x), "numpy.sum"),
        (lambda x: np.add.reduce(x), "numpy.add.reduce"),
        (lambda x: np.frexp(x), "numpy.frexp"),
        (lambda x: (x, x), "expected a number from `function`, but it returns tuple"),
        (lambda x: x + "a", "`add` of str"),
        (lambda x: list(x), "a value as a sequence"),
    ],
)
def test_refused(f, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        function(f, 1)
