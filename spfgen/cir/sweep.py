"""Sweeps in C: all positions of many segments in one loop of blocks (plan/sweep.py)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spfgen.cir import finds, parallel
from spfgen.cir import nodes as c
from spfgen.cir.build import INT
from spfgen.cir.scope import Scope
from spfgen.facts.formula import Call, Num, Var, substitute
from spfgen.plan.nodes import Sweep

if TYPE_CHECKING:
    from spfgen.cir.from_plan import Lowering

HITS = 48
"""Room for the positions that are done together."""
MANY = 2**31 - 1
"""More keys than it is worth comparing with one by one."""


def sweep(low: Lowering, plan: Sweep, scope: Scope) -> list[c.Stmt]:
    """A part of the rows for each thread; all its positions in blocks."""
    row, end = low.names[plan.row], low.names.new(f"{low.names[plan.row]}_end")
    first, last = low.fold("spfgen_max", plan.low, scope), low.fold("spfgen_min", plan.high, scope)
    comment = c.Comment(
        f"all positions {low.names[plan.dim]} of the segments of {row} in one loop; blocks of them none of whose keys "
        "is in the bitmap are passed over"
    )
    if plan.parallel:
        about = c.Comment(f"parallel over {row}: {plan.because}")
        return [about, *parallel.on_threads(low, plan, scope)]
    lines = (c.Declare(f"const {INT}", end, last), c.Declare(INT, row, first))
    return [comment, c.Scope(c.Block((*lines, *blocks(low, plan, end, replace(scope, looped=True)))))]


def blocks(low: Lowering, plan: Sweep, end: str, scope: Scope) -> list[c.Stmt]:
    """The positions from the row's first to the last before `end`: those that hit are collected, so that what they
    read can be on its way together, and done when there are enough."""
    name = low.names[plan.dim]
    following, last, hits, count, hit = (
        low.names.new(n) for n in (f"{name}_next", f"{name}_end", "hits", "count", "hit")
    )
    first = low.expr(Call(plan.pointer, (Var(plan.row),)), scope)
    keys = low.expr(substitute(plan.call, {plan.dim: Num(0)}), scope)
    assert isinstance(first, c.Load)
    assert isinstance(keys, c.Load)
    function, array = plan.call.function.split(".", 1)
    kind = dict(low.program.tensor(function).index_types)[array]
    built = scope.tables[plan.table]
    stored, number = finds.stored_keys(low, built, kind, scope) or (keys.array, c.Int(MANY))
    more = c.Call(
        f"spfgen_collect_{kind}",
        (
            built.arrays["bits"],
            stored,
            number,
            keys.array,
            c.Un("&", c.Name(following)),
            c.Name(last),
            c.Name(hits),
        ),
    )
    body = low.plan(plan.body, replace(scope, known=scope.known | {plan.table}))
    position = c.Declare(f"const {INT}", name, c.Load(c.Name(hits), c.Name(hit)))
    each = c.For("int", hit, c.Int(0), c.Bin("<", c.Name(hit), c.Name(count)), 1, c.Block((position, *body)))
    collected = c.Declare("const int", count, more)
    loop = c.While(c.Bin("<", c.Name(following), c.Name(last)), c.Block((collected, each)))
    whole = c.Declare(f"const {INT}", last, c.Load(first.array, c.Name(end)))
    places = (c.Declare(INT, hits, length=HITS), c.Declare(INT, following, first))
    return [c.If(c.Bin("<", c.Name(low.names[plan.row]), c.Name(end)), c.Block((whole, *places, loop)))]
