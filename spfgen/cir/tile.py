"""Register tiles in C: full ones whose widths the compiler knows, so that their sums are vectors in registers, then
what is left."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spfgen.cir import nodes as c
from spfgen.cir.build import INT, loop
from spfgen.cir.elements import zero
from spfgen.cir.scope import Scope
from spfgen.facts.formula import ZERO, Bin, Expr, Num, Var, substitute
from spfgen.ir import rewrite
from spfgen.plan.nodes import Plan, Scan, Tile

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
    low.names.table[_inside(plan)] = low.names.new(f"{low.names[plan.dim]}_in")
    for width in plan.widths:
        whole = c.Bin("<=", c.Bin("+", at, c.Int(width)), high)
        body = [*_sums(low, plan, scope, Num(width), width), c.Assign(at, "+=", c.Int(width))]
        lines.append(c.While(whole, c.Block(tuple(body))))
    end = plan.high[0] if len(plan.high) == 1 else Var(plan.end)
    rest = _sums(low, plan, scope, Bin("-", end, Var(plan.start)), plan.widths[-1])
    return [*lines, c.If(c.Bin("<", at, high), c.Block(tuple(rest)))]


def _inside(plan: Tile) -> str:
    """The dimension within a tile."""
    return f"{plan.dim} in"


def _sums(low: Lowering, plan: Tile, scope: Scope, count: Expr, width: int) -> list[c.Stmt]:
    """One tile: zeros, the loops that add, the sums stored. Its loops run from 0 to `count`: where that is a number,
    compilers are sure of it."""
    kind = low.compute_type(plan.body, plan.target)
    name, row = low.names[_inside(plan)], low.names.new(f"{plan.target.tensor}_tile")
    further = {plan.dim: Bin("+", Var(plan.start), Var(_inside(plan)))}
    target = substitute(plan.target, further)
    value = c.Load(c.Name(row), c.Name(name))
    inside = replace(scope, rows={**scope.rows, (target.tensor, target.place): (value, kind)}, looped=True)

    def from_zero(node: object) -> Plan | None:
        if isinstance(node, Scan) and node.dim == plan.dim:
            return replace(node, dim=_inside(plan), low=(ZERO,), high=(count,), body=substitute(node.body, further))
        return None

    stop = low.expr(count, scope)
    stored = low.combine(low.place(target, scope), plan.op, value, low.kinds[plan.target.tensor], kind)
    return [
        c.Declare(kind.c, row, length=width),
        loop(name, c.Int(0), stop, [c.Assign(value, "=", zero(kind))], SIMD),
        *low.plan(rewrite(from_zero, plan.body), inside),
        loop(name, c.Int(0), stop, [stored], SIMD),
    ]
