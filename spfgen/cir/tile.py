"""Register tiles in C: full ones whose widths the compiler knows, so that their sums are vectors in registers, then
what is left."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spfgen.cir import nodes as c
from spfgen.cir.build import INT, loop
from spfgen.cir.elements import zero
from spfgen.cir.scope import Scope
from spfgen.facts.formula import Bin, Expr, Num, Var, substitute
from spfgen.plan.nodes import Plan, Tile

if TYPE_CHECKING:
    from spfgen.cir.from_plan import Lowering

SIMD = "omp simd"


def tile(low: Lowering, plan: Tile, scope: Scope) -> list[c.Stmt]:
    """A loop for each width, and a last tile of what is left."""
    at, high = c.Name(low.names[plan.start]), low.fold("spfgen_min", plan.high, scope)
    sizes = ", ".join(str(w) for w in plan.widths)
    lines: list[c.Stmt] = [
        c.Comment(f"tiles of {sizes} or fewer {low.names[plan.dim]}: {plan.because}"),
        c.Declare(INT, at.name, low.fold("spfgen_max", plan.low, scope)),
    ]
    if not isinstance(high, c.Name | c.Int):
        lines.append(c.Declare(f"const {INT}", low.names[plan.end], high))
        high = c.Name(low.names[plan.end])
    for width in plan.widths:
        whole = c.Bin("<=", c.Bin("+", at, c.Int(width)), high)
        end = Bin("+", Var(plan.start), Num(width))
        body = [*_sums(low, plan, scope, end, width), c.Assign(at, "+=", c.Int(width))]
        lines.append(c.While(whole, c.Block(tuple(body))))
    rest = _sums(low, plan, scope, plan.high[0] if len(plan.high) == 1 else Var(plan.end), plan.widths[-1])
    return [*lines, c.If(c.Bin("<", at, high), c.Block(tuple(rest)))]


def _sums(low: Lowering, plan: Tile, scope: Scope, end: Expr, width: int) -> list[c.Stmt]:
    """One tile: zeros, the loops that add, the sums stored."""
    kind = low.compute_type(plan.body, plan.target)
    name, row = low.names[plan.dim], low.names.new(f"{plan.target.tensor}_tile")
    first, last = low.expr(Var(plan.start), scope), low.expr(end, scope)
    value = c.Load(c.Name(row), c.Bin("-", c.Name(name), first))
    inside = replace(scope, rows={**scope.rows, (plan.target.tensor, plan.target.place): (value, kind)}, looped=True)
    body: Plan = substitute(plan.body, {plan.end: end})
    stored = low.combine(low.place(plan.target, scope), plan.op, value, low.kinds[plan.target.tensor], kind)
    return [
        c.Declare(kind.c, row, length=width),
        loop(name, first, last, [c.Assign(value, "=", zero(kind))], SIMD),
        *low.plan(body, inside),
        loop(name, first, last, [stored], SIMD),
    ]
