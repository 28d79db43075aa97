"""What is cleared before a loop: what lies between the places of its iterations; or, where little is added to a large
result, all of that, which the loop would clear part by part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

from spfgen.cir import nodes as c
from spfgen.cir.build import INT, joined, loop
from spfgen.cir.cost import cost_expr
from spfgen.cir.scope import Scope
from spfgen.facts.formula import Expr, substitute
from spfgen.lang.types import ElementType
from spfgen.plan.nodes import Clear, Do, Guard, Load, Locate, Plan, Prefetch, Scan, body, chain

if TYPE_CHECKING:
    from spfgen.cir.from_plan import Lowering

LARGE = 64 << 20
"""Bytes of a result that caches do not hold."""
FEW = 16
"""Places for each line of 8 numbers that is added to: such a line is then read and written once more. This many where
lines are counted as often as they are added to; where they are told apart, three times as many: then the count is right
to a quarter, and it is not too high."""
APART = 3
SAMPLES = 8
"""Iterations whose lines are told apart."""
MOST = 4
"""Additions for each place: with more of them it takes no part of the time to clear the result."""
SIMPLE = Scan | Load | Locate | Guard | Clear | Prefetch | Do


def cleared_first(low: Lowering, plan: Scan, scope: Scope) -> tuple[list[c.Stmt], Scope]:
    """What stands before a parallel loop, and the scope that says whether that has cleared the result."""
    clear = next((n for n in chain(plan) if isinstance(n, Clear) and n.lines is not None), None)
    if not plan.parallel or clear is None or clear.lines is None:
        return [], scope
    layout = low.program.tensor(clear.tensor).layout
    if len(layout.values) != 1:
        return [], scope
    extents = [low.layout_expr(e, clear.tensor) for e in layout.values[0].extents]
    places, added = c.Cast("double", joined("*", extents)), cost_expr(clear.lines, low, scope)
    kind = low.kinds[clear.tensor]
    large = c.Bin(">", joined("*", extents), c.Int(LARGE // kind.bytes))
    name = c.Name(low.names.new(f"{clear.tensor}_cleared"))
    lines: list[c.Stmt] = [
        c.Comment(
            f"where little is added to a large {clear.tensor}, one pass over it takes less than clearing parts of it"
        )
    ]
    if all(isinstance(n, SIMPLE) for n in chain(plan.body)):
        few = c.Bin("<", added, c.Bin("*", c.Float(float(MOST)), places))
        lines += [
            c.Declare("bool", name.name, c.Bin("&&", large, few)),
            c.If(name, c.Block(tuple(_sampled(low, plan, scope, kind, name, places)))),
        ]
    else:
        few = c.Bin("<", c.Bin("*", c.Float(float(FEW)), added), places)
        lines.append(c.Declare("const bool", name.name, c.Bin("&&", large, few)))
    lines.append(c.If(name, c.Block(tuple(low.clear(clear.tensor)))))
    return lines, replace(scope, cleared_first=name)


def spans(plan: Plan) -> Clear | None:
    """What is cleared once for neighbouring iterations of a loop."""
    inside = takewhile(lambda n: not isinstance(n, Scan), chain(body(plan) or plan))
    return next((n for n in inside if isinstance(n, Clear) and n.span is not None), None)


def cleared_span(low: Lowering, plan: Plan, first: Sequence[Expr], past: Sequence[Expr], scope: Scope) -> list[c.Stmt]:
    """What stands before the iterations of a loop from the first one on, before another."""
    clear = spans(plan)
    if clear is None or clear.span is None or clear.part is None:
        return []
    part = substitute(clear.part, dict(zip(clear.span, (*first, *past), strict=True)))
    return [c.Comment(f"{clear.tensor} is cleared here: {clear.because}"), *low.plan(part, scope)]


def _sampled(
    low: Lowering, plan: Scan, scope: Scope, kind: ElementType, cleared: c.Name, places: c.Expr
) -> list[c.Stmt]:
    """Whether to clear first, from the lines that some iterations add to: many additions may be to the same few."""
    held, count, first, past, sample = (
        c.Name(low.names.new(n)) for n in ("lines_held", "lines_new", "first", "past", "sample")
    )
    length = c.Bin("-", past, first)
    at = c.Bin("/", c.Bin("*", length, c.Bin("+", c.Bin("*", c.Int(2), sample), c.Int(1))), c.Int(2 * SAMPLES))
    body = [low.declare(plan.dim, c.Bin("+", first, at)), *_counted(low, plan.body, scope, kind, held, count)]
    every = c.Bin("*", c.Cast("double", count), c.Bin("/", c.Cast("double", length), c.Float(float(SAMPLES))))
    return [
        c.Comment(f"lines of memory that {SAMPLES} iterations add to, each counted once, stand for those of all"),
        c.Declare(INT, held.name, length=4096),
        loop(sample.name, c.Int(0), c.Int(4096), [c.Assign(c.Load(held, sample), "=", c.Int(-1))]),
        c.Declare(INT, count.name, c.Int(0)),
        c.Declare(f"const {INT}", first.name, low.fold("spfgen_max", plan.low, scope)),
        c.Declare(f"const {INT}", past.name, low.fold("spfgen_min", plan.high, scope)),
        loop(sample.name, c.Int(0), c.Select(c.Bin("<", first, past), c.Int(SAMPLES), c.Int(0)), body),
        c.Assign(cleared, "=", c.Bin("<", c.Bin("*", c.Float(float(APART * FEW)), every), places)),
    ]


def _counted(low: Lowering, plan: Plan, scope: Scope, kind: ElementType, held: c.Name, count: c.Name) -> list[c.Stmt]:
    """The nest with lines counted in place of additions."""
    match plan:
        case Scan(dim, body=body):
            start, end = low.fold("spfgen_max", plan.low, scope), low.fold("spfgen_min", plan.high, scope)
            return [loop(low.names[dim], start, end, _counted(low, body, scope, kind, held, count))]
        case Load(dim, value, body) | Locate(dim, value, body):
            return [low.declare(dim, low.expr(value, scope)), *_counted(low, body, scope, kind, held, count)]
        case Guard(conditions, body):
            inside = _counted(low, body, scope, kind, held, count)
            return [c.If(low.all(conditions, scope), c.Block(tuple(inside)))]
        case Clear(body=inner) | Prefetch(body=inner) if inner is not None:
            return _counted(low, inner, scope, kind, held, count)
        case Do(target):
            place = low.place(target, scope)
            assert isinstance(place, c.Load)
            line = c.Bin("/", place.index, c.Int(max(64 // kind.bytes, 1)))
            return [c.Assign(count, "+=", c.Call("spfgen_new_line", (held, line)))]
    raise AssertionError(plan)
