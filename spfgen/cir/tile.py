"""Register tiles in C: full ones whose widths the compiler knows, so that their sums are vectors in registers, then
what is left.

A long loop inside is cut: all tiles take a few of its iterations, then the next few. What these read for one tile lies
beside what they read for the next one, which is then still near; a tile that went through the whole loop would find
nothing of it in the cache. Between two pieces the sums are kept where they are stored in the end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spfgen.cir import nodes as c
from spfgen.cir.build import INT, in_braces, loop, minus
from spfgen.cir.elements import zero
from spfgen.cir.scope import Scope
from spfgen.facts.formula import ZERO, Bin, Expr, Num, Var, substitute
from spfgen.ir import rewrite
from spfgen.lang.types import ElementType
from spfgen.plan.nodes import Do, Guard, Load, Locate, Plan, Scan, Tile, chain

if TYPE_CHECKING:
    from spfgen.cir.from_plan import Lowering

SIMD = "omp simd"
FEW, MANY, WIDE = 12, 48, 4
"""Iterations of the loop inside that all tiles take before the next ones, with more than so many of the widest tiles
and with fewer: what they read fits into the first cache, and the sums are in memory only so often in between."""


def tile(low: Lowering, plan: Tile, scope: Scope) -> list[c.Stmt]:
    """The tiles, for one piece after another of a loop that may be cut."""
    scan = _cut(low, plan)
    return _tiles(low, plan, scope) if scan is None else _in_pieces(low, plan, scan, scope)


def _cut(low: Lowering, plan: Tile) -> Scan | None:
    """The loop inside, where it is the only one and the sums lose nothing when they are stored in between."""
    scan, *others = chain(plan.body)
    if not isinstance(scan, Scan) or low.compute_type(plan.body, plan.target) != low.kinds[plan.target.tensor]:
        return None
    if any((scan.parallel, scan.down, scan.vector, scan.unroll, scan.collapse, scan.runs, scan.ahead, scan.share)):
        return None
    if any(isinstance(e, Num) and e.value <= 2 * FEW for e in scan.high):
        return None
    loops = [n for n in others if isinstance(n, Scan)]
    plain = all(isinstance(n, Load | Locate | Guard | Scan | Do) for n in others)
    return scan if plain and len(loops) == 1 and loops[0].dim == plan.dim else None


def _in_pieces(low: Lowering, plan: Tile, scan: Scan, scope: Scope) -> list[c.Stmt]:
    """The first piece stores its sums, later ones add to them. A short loop, or one for a single tile, is all one."""
    name = low.names[scan.dim]
    start, end = f"{scan.dim} from", f"{scan.dim} to"
    low.names.table[start] = low.names.new(f"{name}_from")
    piece, cut = c.Name(low.names[start]), c.Name(low.names.new(f"{name}_cut"))
    lines: list[c.Stmt] = []
    first, high = low.fold("spfgen_max", scan.low, scope), low.fold("spfgen_min", scan.high, scope)
    if not isinstance(high, c.Name | c.Int):
        stop = c.Name(low.names.new(f"{name}_stop"))
        lines.append(c.Declare(f"const {INT}", stop.name, high))
        high = stop
    columns = minus(low.fold("spfgen_min", plan.high, scope), low.fold("spfgen_max", plan.low, scope))
    several, wide = (c.Bin(">", columns, c.Int(n * plan.widths[0])) for n in (1, WIDE))
    step = c.Name(low.names.new(f"{name}_piece"))
    long = c.Bin(">", minus(high, first), c.Bin("*", c.Int(2), step))
    further = c.Bin("+", piece, step)
    second = step if first == c.Int(0) else c.Bin("+", first, step)
    lines += [
        c.Comment(f"a few {name} at a time for all tiles: what these read lies side by side"),
        c.Declare(f"const {INT}", step.name, c.Select(wide, c.Int(FEW), c.Int(MANY))),
        c.Declare(f"const {INT}", cut.name, c.Select(c.Bin("&&", several, long), second, high)),
    ]
    low.names.table[end] = cut.name
    begin = replace(scan, high=(Var(end),))
    lines += in_braces(_tiles(low, replace(plan, body=begin), scope))
    low.names.table[end] = low.names.new(f"{name}_to")
    later = replace(scan, low=(Var(start),), high=(Var(end),))
    body = [
        c.Declare(f"const {INT}", low.names[end], c.Call("spfgen_min", (further, high))),
        *_tiles(low, replace(plan, op="+=", body=later), scope),
    ]
    return [*lines, c.For(INT, piece.name, cut, c.Bin("<", piece, high), further, c.Block(tuple(body)))]


def _tiles(low: Lowering, plan: Tile, scope: Scope) -> list[c.Stmt]:
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
    first = zero(kind)
    total: c.Expr = value
    if kind.kind == "f":
        first = _unknown_zero(low, kind)
        total = c.Bin("-", value, first) if plan.op == "=" else value
    stored = low.combine(low.place(target, scope), plan.op, total, low.kinds[plan.target.tensor], kind)
    return [
        c.Declare(kind.c, row, length=width),
        loop(name, c.Int(0), stop, [c.Assign(value, "=", first)], SIMD),
        *low.plan(rewrite(from_zero, plan.body), inside),
        loop(name, c.Int(0), stop, [stored], SIMD),
    ]


def _unknown_zero(low: Lowering, kind: ElementType) -> c.Expr:
    """Zero, so that compilers take the sums of a tile for sums (rt/zero.h)."""
    why = "with a zero that compilers do not know they keep sums in registers"
    found = c.Call("spfgen_zero", ())
    return low.chosen(f"const {kind.c}", "zero", found if kind.bytes == 8 else c.Cast(kind.c, found), why)
