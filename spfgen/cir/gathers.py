"""Sums of products of what stands in order with what lies scattered, by vectors that gather.

    for p in [begin, end) { sum += a[p]*x[f(p)] }

Some processors read a vector of scattered values, or a part of one, as fast as they read the values one by one. Then
segments of any length need no question but how many vectors there are, which is foreseen more often than where each of
them ends (rt/gathers.h, rt/dot_float64.h).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from spfgen.cir import nodes as c
from spfgen.cir.build import minus
from spfgen.cir.scope import Scope
from spfgen.facts.formula import ZERO, Expr, Var, substitute, variables
from spfgen.lang.nodes import Apply
from spfgen.lang.types import INDEX_TYPES, ElementType
from spfgen.plan.nodes import Do, Load, Scan
from spfgen.space.nodes import Operand, Read

if TYPE_CHECKING:
    from spfgen.cir.from_plan import Lowering

GATHERS = c.Name("SPFGEN_GATHERS")
TYPES = ("float32", "float64")
VECTOR = 8
"""Values that one vector has, or a part of one."""
LAST = 8
"""Values, at least, that are left where the last ones may be just computed."""


def dot(
    low: Lowering, plan: Scan, scope: Scope, total: tuple[str, ElementType], limits: tuple[c.Expr, c.Expr]
) -> c.Stmt | None:
    """What adds all of the segment to the sum; None where that is not such a sum, or nothing tells how long segments
    are, and so when this pays."""
    long = plan.ahead.long if plan.ahead is not None else None
    told = long is not None and variables(long) <= low.program.size_of.keys()
    return sum_of_products(low, plan, scope, total, limits) if told else None


def sum_of_products(
    low: Lowering, plan: Scan, scope: Scope, total: tuple[str, ElementType], limits: tuple[c.Expr, c.Expr]
) -> c.Stmt | None:
    """The same, whatever tells how long segments are."""
    found = _products(low, plan, scope, total[1], limits[0])
    if found is None:
        return None
    kinds, arrays = found
    given = (*arrays, minus(limits[1], limits[0]), large(low, plan, scope) or c.Name("false"))
    return c.Assign(c.Name(total[0]), "+=", c.Call(f"spfgen_dot_{kinds}", given))


def _products(
    low: Lowering, plan: Scan, scope: Scope, kind: ElementType, first: c.Expr
) -> tuple[str, tuple[c.Expr, ...]] | None:
    """The types of what stands in order and of the index array; then what stands in order, what lies scattered, and
    where, each from the `first` position on. None where the loop does not add such products."""
    match plan.body:
        case Load(dim, call, Do(value=Apply("multiply", (Read(one), Read(other))))):
            pass
        case _:
            return None
    if dim in _names(one):
        one, other = other, one
    if dim in _names(one) or plan.dim in _names(other):
        return None
    runs = (_along(one.place, plan.dim), _along(other.place, dim), _along(call.arguments, plan.dim))
    places = low.element_type(call).name
    if not all(runs) or kind.name not in TYPES or places not in INDEX_TYPES:
        return None
    if low.element_type(one) != kind or low.element_type(other) != kind:
        return None
    if any(read in known for read in (one, other) for known in (scope.copied, scope.held)):
        return None
    if any((o.tensor, o.place) in scope.rows or scope.running(o) is not None for o in (one, other)):
        return None
    here: dict[str, Expr] = {plan.dim: ZERO, dim: ZERO}

    def begin(place: c.Expr, offset: c.Expr) -> c.Expr:
        assert isinstance(place, c.Load)
        start = offset if place.index == c.Int(0) else c.Bin("+", place.index, offset)
        return place.array if start == c.Int(0) else c.Bin("+", place.array, start)

    return f"{kind.name}_{places}", (
        begin(low.place(substitute(one, here), scope), first),
        begin(low.place(substitute(other, here), scope), c.Int(0)),
        begin(low.expr(substitute(call, here), scope), first),
    )


def all_but_last(
    low: Lowering, plan: Scan, scope: Scope, total: tuple[str, ElementType], left: tuple[c.Name, c.Expr]
) -> list[c.Stmt]:
    """What takes all but the last values of a long segment off a sum, eight at a time; `left` are where it begins, or
    ends where the loop runs downwards, which is moved, and its other end. Nothing where they are no products. The last
    values may be just computed: single loads get them from where they wait to be stored, those of a vector wait."""
    at, limit = left
    far = c.Name(low.names.new("far"))
    found = _products(low, plan, scope, total[1], c.Bin("-", at, far) if plan.down else at)
    if found is None:
        return []
    kinds, arrays = found
    count = c.Bin("-", at, limit) if plan.down else c.Bin("-", limit, at)
    eights = c.Bin("*", c.Bin("/", c.Bin("-", count, c.Int(LAST)), c.Int(VECTOR)), c.Int(VECTOR))
    lines: list[c.Stmt] = [
        c.Comment("the last values may be just computed: vectors of those would wait for them"),
        c.Declare("const int64_t", far.name, eights),
        c.Assign(c.Name(total[0]), "-=", c.Call(f"spfgen_eights_{kinds}", (*arrays, far))),
        c.Assign(at, "-=" if plan.down else "+=", far),
    ]
    return [c.If(GATHERS, c.Block(tuple(lines)))]


def _names(operand: Operand) -> set[str]:
    return {v for p in operand.place for v in variables(p)}


def _along(place: Sequence[Expr], dim: str) -> bool:
    """Whether the last subscript is the dimension, and no other one speaks of it."""
    return bool(place) and place[-1] == Var(dim) and not any(dim in variables(p) for p in place[:-1])


def large(low: Lowering, plan: Scan, scope: Scope) -> c.Name | None:
    """Whether the arrays are more than caches hold; None where nothing says so."""
    ahead = plan.ahead
    if ahead is None or not ahead.when or not variables(ahead.when[0]) <= low.program.size_of.keys():
        return None
    why = "more than caches hold: where segments are of many lengths, all that comes next is fetched"
    return low.chosen("const bool", "large", low.condition(ahead.when[0], scope), why)
