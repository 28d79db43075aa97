"""How far expressions reach: intervals that hold every value, also that of a part of a sum."""

from __future__ import annotations

from itertools import product

import pytest

from spfgen.facts.formula import Bin, Call, Expr, Num, Var, evaluate
from spfgen.facts.reach import MOST, HeldValues, Limits, RangeStep, interval

N, A, B = Var("n"), Var("a"), Var("b")


@pytest.mark.parametrize("op", ["+", "-", "*", "min", "max", "/", "%"])
def test_every_value_lies_in_the_interval(op: str) -> None:
    for low, high, more in product((-3, 0, 2), (3, 5), (1, 4)):
        ranges = {"a": (low, high), "b": (1, more) if op in "/%" else (-more, more)}
        first, last = interval(Bin(op, A, B), ranges)
        found = [
            evaluate(Bin(op, Num(one), Num(two)), lambda n: n, lambda f, _: f)
            for one in range(low, high + 1)
            for two in range(ranges["b"][0], more + 1)
        ]
        assert first <= min(found)
        assert max(found) <= last
        assert op == "%" or (first, last) == (min(found), max(found))


@pytest.mark.parametrize(
    ("expr", "largest"),
    [
        (Bin("*", Num(4), N), MOST // 4),
        (Bin("+", N, Num(3)), MOST - 3),
        (Bin("-", Bin("+", N, Num(3)), N), MOST - 3),  # a part of the sum
        (Bin("-", Bin("-", N, N), Num(3)), MOST - 2),  # from below
        (Bin("*", N, N), 3037000499),
        (Bin("/", Bin("+", N, Num(1)), Num(2)), MOST - 1),
    ],
    ids=str,
)
def test_what_fits_is_known_to_the_last_number(expr: Expr, largest: int) -> None:
    limits = Limits((RangeStep((expr,)),))
    assert limits.beyond({"n": (largest, largest)}) is None
    found = limits.beyond({"n": (largest + 1, largest + 1)})
    assert found is not None
    assert abs(found[1]) > MOST


def test_names_have_the_range_of_what_they_are() -> None:
    """A loop ends before its bound, what is loaded lies in the range that the array declares."""
    twice = RangeStep((Bin("*", Num(2), A),))
    loop = Limits((RangeStep((), "a", (Num(0),), (N, Var("m"))), twice))
    assert loop.beyond({"n": (2**62 + 1,) * 2, "m": (2**62,) * 2}) is None
    assert loop.beyond({"n": (2**62 + 1,) * 2, "m": (2**62 + 1,) * 2}) is not None
    loaded = (RangeStep((Call("f", (Num(0),)),), "a"), twice)
    declared = HeldValues(-(2**63), MOST, (Num(0),), (Bin("-", N, Num(1)),))
    assert Limits(loaded, (("f", declared),)).beyond({"n": (2**62,) * 2}) is None
    assert Limits(loaded, (("f", declared),)).beyond({"n": (2**62 + 1,) * 2}) is not None
    unknown = Limits(loaded, (("f", HeldValues(-(2**63), MOST)),))
    assert unknown.beyond({}) is not None
    assert unknown.beyond({}, lambda _: (0, 2**62 - 1)) is None
    assert Limits(loaded, (("f", HeldValues(-(2**31), 2**31 - 1)),)).beyond({}) is None
