"""What ranges of index arrays say of positions: where i = 4*b + f(p) and 0 <= f(p) < 4, b is the quotient of i.

Such a relation has no condition on i and b alone. With the one that follows, 4*b <= i < 4*b + 4, b is a function of i,
and no loop over all b is needed to find an i.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from spfgen.facts.formula import (
    MIRRORED,
    And,
    Call,
    Compare,
    Formula,
    Num,
    Or,
    conjunction,
    conjuncts,
    show,
    substitute,
    within,
)
from spfgen.layout.nodes import IndexArray, Layout
from spfgen.sets.affine import NotAffine, affine, expression


@lru_cache(maxsize=256)
def with_digits(layout: Layout, relation: Formula) -> Formula:
    """The relation, and what follows from it for positions by ranges between two numbers."""
    limits = {a.name: interval for a in layout.indexes if (interval := _limits(a)) is not None}
    return _with(relation, layout, limits) if limits else relation


def _with(relation: Formula, layout: Layout, limits: Mapping[str, tuple[int, int]]) -> Formula:
    match relation:
        case Or(parts):
            return Or(tuple(_with(p, layout, limits) for p in parts))
        case And() | Compare():
            parts = tuple(_with(p, layout, limits) if isinstance(p, Or) else p for p in conjuncts(relation))
            more = [c for p in parts for c in _between(p, layout, limits)]
            return conjunction([*parts, *more]) if more else relation
    return relation


def _limits(array: IndexArray) -> tuple[int, int] | None:
    """The least and the largest element, where both are numbers."""
    low, high = None, None
    for bound in array.ranges:
        body = bound.formula.body if hasattr(bound.formula, "body") else bound.formula
        for part in conjuncts(body):
            match part:
                case Compare(op, Call(array.name), Num(number)):
                    pass
                case Compare(op, Num(number), Call(array.name)) if op in MIRRORED:
                    op = MIRRORED[op]
                case _:
                    continue
            if op in (">", ">="):
                low = number + (op == ">")
            elif op in ("<", "<="):
                high = number - (op == "<")
    return None if low is None or high is None else (low, high)


def _between(part: Formula, layout: Layout, limits: Mapping[str, tuple[int, int]]) -> Iterator[Formula]:
    """The bounds of what an equation has beside the only call whose range is between numbers."""
    if not isinstance(part, Compare) or part.op != "=":
        return
    calls: dict[str, Call] = {}

    def named(call: Call) -> str:
        calls[show(call)] = call
        return show(call)

    try:
        value = affine(part.left, named) - affine(part.right, named)
    except NotAffine:
        return
    occurring = [n for n in calls if value.coefficient(n)]
    limited = [n for n in occurring if calls[n].function in limits]
    if len(limited) != 1 or not value.names() & {*layout.positions, *(n for n in occurring if n not in limited)}:
        return
    (name,) = limited
    factor, others = value.coefficient(name), value.without(name)
    low, high = limits[calls[name].function]
    other = expression(others.scaled(-1) if factor > 0 else others)
    yield within(substitute(other, calls), Num(abs(factor) * low), Num(abs(factor) * high + 1))
