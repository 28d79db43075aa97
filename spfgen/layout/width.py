"""Whether all that a check computes fits into 64 bits, for sizes and index types at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spfgen.facts.formula import (
    And,
    Bin,
    Call,
    Compare,
    Exists,
    Expr,
    Forall,
    Formula,
    Not,
    Num,
    Or,
    Var,
    conjuncts,
)
from spfgen.layout.checks import Check, GroupCheck
from spfgen.layout.loops import Extents, QuantifierLoops, scan

LEAST, MOST = -(2**63), 2**63 - 1

Interval = tuple[int, int]
"""The least and the greatest value."""


class TooWide(Exception):
    """Something may not fit, or divides by what may not be positive."""


def fits(
    check: Check, checks: Sequence[Check], sizes: Mapping[str, int], arrays: Mapping[str, Interval], extents: Extents
) -> bool:
    """`arrays` are the limits of the arrays' types. What earlier stages have found of their values counts."""
    width = _Width({n: (v, v) for n, v in sizes.items()}, dict(arrays), extents)
    try:
        for other in checks:
            if other.stage < check.stage:
                width.narrow(other)
        for part in check.parts:
            width.part(part)
    except TooWide:
        return False
    return True


class _Width:
    """Intervals of names and of arrays."""

    def __init__(self, names: dict[str, Interval], arrays: dict[str, Interval], extents: Extents) -> None:
        self.extents = extents
        self.names = names
        self.arrays = arrays

    def narrow(self, check: Check) -> None:
        """An array's values are between what a check that was passed compares each of them with."""
        for part in check.parts:
            loops = [loop.variable for loop in part.scan.loops]
            whole = [Var(v) for v in loops]
            if isinstance(part, GroupCheck) or part.scan.guards:
                continue
            for comparison in conjuncts(part.scan.body):
                match comparison:
                    case Compare("<=" | "<" | ">=" | ">" as op, Call(name, arguments), bound) if (
                        list(arguments) == whole
                    ):
                        inner = self.inside(part.scan)
                        if inner is None:
                            continue
                        least, most = inner.expr(bound)
                        low, high = self.arrays[name]
                        most, least = most - (op == "<"), least + (op == ">")
                        limits = (low, min(high, most)) if op in ("<=", "<") else (max(low, least), high)
                        if limits[0] <= limits[1]:
                            self.arrays[name] = limits

    def part(self, part: object) -> None:
        assert hasattr(part, "scan")
        inner = self.inside(part.scan)
        if inner is None:
            return
        for formula in (*part.scan.guards, part.scan.body):
            inner.formula(formula)
        if isinstance(part, GroupCheck):
            inner.names[part.second] = inner.names[part.first]
            for formula in (*part.inside, part.body):
                inner.formula(formula)
            if part.limits:
                self.expr(Bin("-", part.limits[1], part.limits[0]))

    def inside(self, scanned: QuantifierLoops) -> _Width | None:
        """With the loops' variables; None when a loop runs through nothing."""
        result = _Width(dict(self.names), self.arrays, self.extents)
        for formula in scanned.before:
            result.formula(formula)
        for loop in scanned.loops:
            lows, highs = [result.expr(e) for e in loop.low], [result.expr(e) for e in loop.high]
            low, high = max(e[0] for e in lows), min(e[1] for e in highs) - 1
            if low > high:
                return None
            result.names[loop.variable] = (low, high)
        return result

    def formula(self, formula: Formula) -> None:
        match formula:
            case Compare(_, left, right):
                self.expr(left)
                self.expr(right)
            case And(parts) | Or(parts):
                for part in parts:
                    self.formula(part)
            case Not(part):
                self.formula(part)
            case Exists(names, body) | Forall(names, body):
                scanned = scan(names, body, self.extents, some=isinstance(formula, Exists))
                inner = self.inside(scanned) if scanned else None
                if scanned is not None and inner is not None:
                    for inside in (*scanned.guards, scanned.body):
                        inner.formula(inside)

    def expr(self, expr: Expr) -> Interval:
        match expr:
            case Num(value):
                interval = value, value
            case Var(name):
                interval = self.names[name]
            case Call(function, arguments):
                for argument in arguments:
                    self.expr(argument)
                interval = self.arrays[function]
            case Bin(op, left, right):
                interval = _combined(op, self.expr(left), self.expr(right))
            case _:
                raise TooWide
        if interval[0] < LEAST or interval[1] > MOST:
            raise TooWide
        return interval


def _combined(op: str, a: Interval, b: Interval) -> Interval:
    match op:
        case "+":
            return a[0] + b[0], a[1] + b[1]
        case "-":
            return a[0] - b[1], a[1] - b[0]
        case "*":
            corners = [x * y for x in a for y in b]
            return min(corners), max(corners)
        case "min":
            return min(a[0], b[0]), min(a[1], b[1])
        case "max":
            return max(a[0], b[0]), max(a[1], b[1])
        case "/" if b[0] > 0:
            corners = [x // y for x in a for y in b]
            return min(corners), max(corners)
        case "%" if b[0] > 0:
            return 0, b[1] - 1
    raise TooWide
