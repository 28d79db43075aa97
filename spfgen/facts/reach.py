"""How far integers reach that C computes with 64 bits: interval arithmetic over expressions, in exact integers.

Proofs hold over all integers. So that they hold for C too, each expression that a kernel computes must stay within 64
bits, and so must each part of a sum, in whatever order it is added up. Which expressions those are is known when the
kernel is generated (plan/analyse/limits.py); how far they reach, when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from spfgen.facts.formula import Bin, Call, Compare, Expr, Formula, Num, Var, apply_operator
from spfgen.ir import walk

LEAST, MOST = -(2**63), 2**63 - 1
IN_MEMORY = 2**48
"""No array has so many elements: what is a place in one stays below."""

Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class HeldValues:
    """What an index array holds: values of a type, between bounds over sizes where it declares any."""

    least: int
    most: int
    low: tuple[Expr, ...] = ()
    high: tuple[Expr, ...] = ()

    @property
    def is_bounded(self) -> bool:
        """Whether more is known of the values than that 64 bits hold them."""
        return (self.least > LEAST or bool(self.low)) and (self.most < MOST or bool(self.high))


@dataclass(frozen=True, slots=True)
class RangeStep:
    """Something is computed: `exprs`, which must fit; `name` then has the value of the last one, or with `high` lies
    between the `low` ones and those, which it may reach where it is an `end`."""

    exprs: tuple[Expr, ...]
    name: str = ""
    low: tuple[Expr, ...] = ()
    high: tuple[Expr, ...] = ()
    end: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """All that a kernel computes, in its order; what its index arrays hold. Sizes up to `safe` need no look."""

    steps: tuple[RangeStep, ...] = ()
    arrays: tuple[tuple[str, HeldValues], ...] = ()
    safe: int = MOST

    def beyond(
        self, sizes: Mapping[str, Interval], values: Callable[[str], Interval] | None = None
    ) -> tuple[Expr, int] | None:
        """The first expression that does not fit, with how far it reaches; `values` gives what an array holds that
        declares nothing of it."""
        reach = _Reach(dict(sizes), dict(self.arrays), values)
        return next(iter(_beyond(self.steps, reach)), None)


def interval(expr: Expr, ranges: Mapping[str, Interval]) -> Interval:
    """Where the values of an expression lie; what has no range is a place in an array."""
    return _Reach(dict(ranges), {}, None).of(expr)


def _beyond(steps: tuple[RangeStep, ...], reach: _Reach) -> Iterator[tuple[Expr, int]]:
    for step in steps:
        interval: Interval = (0, IN_MEMORY)
        for expr in (*step.exprs, *step.low, *step.high):
            interval = reach.of(expr)
            yield from reach.broken
            reach.broken.clear()
        if step.low or step.high:
            low = max((reach.of(e)[0] for e in step.low), default=0)
            high = min((reach.of(e)[1] for e in step.high), default=IN_MEMORY)
            interval = (low, max(low, high if step.end else high - 1))
        if step.name:
            reach.ranges[step.name] = interval


@dataclass(slots=True)
class _Reach:
    """`ranges` of what is known so far; `broken` are the expressions met that do not fit."""

    ranges: dict[str, Interval]
    arrays: Mapping[str, HeldValues]
    values: Callable[[str], Interval] | None
    broken: list[tuple[Expr, int]] = field(default_factory=list)

    def of(self, expr: Expr) -> Interval:
        """The interval in which an expression lies. What is not known is a place in an array."""
        match expr:
            case Num(value):
                return value, value
            case Var(name):
                return self.ranges.get(name, (0, IN_MEMORY))
            case Call(function, arguments):
                for argument in arguments:
                    self.of(argument)
                return self.held(function)
            case Bin("+" | "-"):
                terms = [self.term(sign, e) for sign, e in _terms(expr, 1)]
                ends = (sum(min(low, 0) for low, _ in terms), sum(max(high, 0) for _, high in terms))
                self.check(expr, ends)
                return sum(low for low, _ in terms), sum(high for _, high in terms)
            case Bin("*" as op, left, right):
                return self.check(expr, _corners(op, self.of(left), self.of(right)))
            case Bin("/" | "%" | "quot" | "rem" as op, left, right):
                a, b = self.of(left), self.of(right)
                if op in ("%", "rem"):
                    return (min(a[0], 0) if op == "rem" else 0), max(b[1] - 1, 0)
                return _corners("/", a, (max(b[0], 1), max(b[1], 1)))
            case Bin("min" | "max" as op, left, right):
                return _corners(op, self.of(left), self.of(right))
        return 0, IN_MEMORY

    def term(self, sign: int, expr: Expr) -> Interval:
        low, high = self.of(expr)
        return (low, high) if sign > 0 else (-high, -low)

    def check(self, expr: Expr, ends: Interval) -> Interval:
        for end in ends:
            if not LEAST <= end <= MOST:
                self.broken.append((expr, end))
                break
        return ends

    def held(self, function: str) -> Interval:
        array = self.arrays.get(function)
        if array is None:
            return 0, IN_MEMORY
        if self.values is not None and not array.is_bounded:
            return self.values(function)
        bounds = _Reach(self.ranges, {}, None)  # C does not compute them
        low = max([array.least, *(bounds.of(e)[0] for e in array.low)])
        return low, max(low, min([array.most, *(bounds.of(e)[1] for e in array.high)]))


def _terms(expr: Expr, sign: int) -> Iterator[tuple[int, Expr]]:
    """The terms of a sum, with their signs."""
    match expr:
        case Bin("+" | "-" as op, left, right):
            yield from _terms(left, sign)
            yield from _terms(right, sign if op == "+" else -sign)
        case _:
            yield sign, expr


def _corners(op: str, a: Interval, b: Interval) -> Interval:
    """The interval of an operator that is monotone in each operand."""
    corners = [apply_operator(op, x, y) for x, y in product(a, b)]
    return min(corners), max(corners)


def compared(formulas: tuple[Formula, ...]) -> Iterator[Expr]:
    """What is computed to answer formulas: both sides of each comparison, and their difference."""
    for formula in formulas:
        for node in walk(formula):
            if isinstance(node, Compare):
                yield from (node.left, node.right, Bin("-", node.left, node.right))
