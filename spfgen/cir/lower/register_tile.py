"""Register tiles in C: wide ones, then one of each smaller width that is left, so that the sums of each are vectors in
registers:

    for (width = 32; width > 0; width = width / 2) { while (from + width <= end) { ... from += width; } }

Where registers are wide (rt/wide.h) there is room for the sums of twice as many. cir/rewrite/tile_widths.py makes a
function of what is inside, and calls it with numbers.

A tile whose loop inside runs in pieces (plan/transform/register_tile.py) keeps its sums between two of them where they
are stored in the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from spfgen import tuning
from spfgen.cir.lower.finish import finished
from spfgen.cir.lower.scope import Accumulator, Scope
from spfgen.cir.lower.state import Lowering
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import openmp
from spfgen.cir.tree.build import INT, loop, minus
from spfgen.cir.tree.elements import converted
from spfgen.facts.formula import ZERO, Bin, Var, substitute, variables
from spfgen.ir import fresh, rewrite
from spfgen.lang.types import TYPES, ElementType
from spfgen.plan.nodes import Accumulate, Finish, Plan, RegisterTile, Scan

REGISTERS = c.Name("SPFGEN_WIDE")
"""Whether registers are wide: rt/wide.h."""


def widest(width: int) -> c.Expr:
    """How many places the widest tile has: so many, or twice as many where registers are wide."""
    return c.Select(REGISTERS, c.Int(2 * width), c.Int(width))


def tile(low: Lowering, plan: Accumulate, tiles: RegisterTile, scope: Scope) -> list[c.Stmt]:
    """The tiles, for one piece after another of a loop that may be cut."""
    if not tiles.in_pieces:
        return _tiles(low, plan, tiles, scope)
    assert isinstance(plan.body, Scan)
    return _in_pieces(low, plan, tiles, plan.body, scope)


def _in_pieces(low: Lowering, plan: Accumulate, tiles: RegisterTile, scan: Scan, scope: Scope) -> list[c.Stmt]:
    """The first piece stores its sums, later ones add to them. A short loop, or one for a single tile, is all one; one
    without iterations stores zeros."""
    name = low.names[scan.dim]
    bounds = frozenset(v for e in (*scan.low, *scan.high) for v in variables(e))  # a search has such names, too
    start, end = fresh(f"{scan.dim} from", bounds), fresh(f"{scan.dim} to", bounds)
    low.names.table |= {start: low.names.new(f"{name}_from"), end: low.names.new(f"{name}_to")}
    at, after, few = c.Name(low.names[start]), c.Name(low.names[end]), c.Name(low.names.new(f"{name}_few"))
    lines: list[c.Stmt] = []
    limits = [low.fold("spfgen_max", scan.low, scope), low.fold("spfgen_min", scan.high, scope)]
    for k, word in enumerate(("start", "stop")):
        if not isinstance(limits[k], c.Name | c.Int):
            lines.append(c.Declare(f"const {INT}", low.names.new(f"{name}_{word}"), limits[k]))
            limits[k] = c.Name(lines[-1].name)  # type: ignore[attr-defined]
    first, high = limits
    columns = minus(low.fold("spfgen_min", tiles.high, scope), low.fold("spfgen_max", tiles.low, scope))
    several: c.Expr = c.Bin(">", columns, widest(tiles.width))
    wide = c.Bin(">", columns, c.Int(tuning.TILE_MANY * tiles.width))
    if variables(*tiles.low, *tiles.high) <= low.program.sizes.readings.keys():
        several = low.chosen("const bool", "several", several, f"more {low.names[tiles.dim]} than one tile has")
    body = replace(scan, low=(Var(start),), high=(Var(end),))
    pieces_of = _Pieces(c.Bin("==", at, first), c.Bin("==", after, high))
    tiles_of_piece = _tiles(low, replace(plan, body=body), tiles, scope, pieces_of)
    some = c.If(c.Bin("<", at, after), c.Block(tuple(tiles_of_piece)))
    nothing = c.Block((c.Comment("nothing is added"), _of_nothing(low, plan, tiles, scope))) if plan.op == "=" else None
    step, length = c.Name(low.names.new(f"{name}_piece")), minus(high, first)
    long = c.Bin(">", length, c.Bin("*", c.Int(2), few))
    further = c.Bin("+", at, step)
    piece = c.Block((c.Declare(f"const {INT}", after.name, c.Call("spfgen_min", (further, high))), some))
    fetched = _fetched(low, plan, tiles, scope)
    pieces = (
        *fetched,
        *([] if nothing is None else [c.If(c.Bin(">=", first, high), nothing)]),
        c.Comment(f"a few {name} at a time for all register tiles: their operands are contiguous"),
        c.Declare(
            f"const {INT}", few.name, c.Select(wide, c.Int(tuning.TILE_ROUND), c.Int(tuning.TILE_ROUND_FEW_TILES))
        ),
        c.Declare(f"const {INT}", step.name, c.Select(long, few, length)),
        c.For(INT, at.name, first, c.Bin("<", at, high), further, piece),
    )
    from_to = c.Declare(INT, at.name, first), c.Declare(f"const {INT}", after.name, high)
    whole = (*fetched, *from_to, replace(some, orelse=nothing))
    return [*lines, c.If(several, c.Block(pieces), c.Block(whole))]


@dataclass(frozen=True)
class _Pieces:
    """Whether a piece of the loop inside is the first one, which stores its totals, and whether it is the last one."""

    first: c.Expr
    last: c.Expr


def _of_nothing(low: Lowering, plan: Accumulate, tiles: RegisterTile, scope: Scope) -> c.Stmt:
    """What totals of nothing store."""
    kind = low.kinds[plan.target.tensor]
    start, end = low.fold("spfgen_max", tiles.low, scope), low.fold("spfgen_min", tiles.high, scope)
    stored = c.Assign(low.place(plan.target, scope), "=", _nothing(low, plan, kind))
    if plan.finish is not None:
        made = finished(low, plan.finish, low.nothing(kind, plan.monoid), kind, scope, [stored])
        return loop(low.names[tiles.dim], start, end, made)
    return loop(low.names[tiles.dim], start, end, [stored], openmp.SIMD)


def _tiles(
    low: Lowering, plan: Accumulate, tiles: RegisterTile, scope: Scope, pieces: _Pieces | None = None
) -> list[c.Stmt]:
    """Wide tiles, then one of each smaller width that is left."""
    at, high = c.Name(low.names[tiles.start]), low.fold("spfgen_min", tiles.high, scope)
    lines: list[c.Stmt] = [
        c.Comment(
            f"tiles of {tiles.width}, {tiles.width // 2}, ... {low.names[tiles.dim]}, and of {2 * tiles.width} where "
            f"registers are wide: {plan.because}"
        )
    ]
    if not isinstance(high, c.Name | c.Int):
        lines.append(c.Declare(f"const {INT}", low.names[tiles.end], high))
        high = c.Name(low.names[tiles.end])
    low.names.table[_inside(tiles)] = low.names.new(f"{low.names[tiles.dim]}_in")
    low.names.table[_width(tiles)] = low.names.new("width")
    width = c.Name(low.names[_width(tiles)])
    body = c.Block((*_sums(low, plan, tiles, scope, width, pieces), c.Assign(at, "+=", width)))
    several = c.While(c.Bin("<=", c.Bin("+", at, width), high), body)
    half, some = c.Bin("/", width, c.Int(2)), c.Bin(">", width, c.Int(0))
    widths = c.For(INT, width.name, widest(tiles.width), some, half, c.Block((several,)))
    begin = c.Declare(INT, at.name, low.fold("spfgen_max", tiles.low, scope))
    return [*lines, c.Braces(c.Block((begin, widths)))]


def _inside(tiles: RegisterTile) -> str:
    """The dimension within a tile."""
    return f"{tiles.dim} in"


def _width(tiles: RegisterTile) -> str:
    """How many there are of it."""
    return f"{tiles.dim} width"


def _sums(
    low: Lowering, plan: Accumulate, tiles: RegisterTile, scope: Scope, width: c.Name, pieces: _Pieces | None
) -> list[c.Stmt]:
    """One tile: zeros, the loops that add, the sums stored."""
    kind = low.compute_type(plan.body, plan.target) if plan.monoid is None else TYPES[plan.monoid.type]
    name, row = low.names[_inside(tiles)], low.names.new(f"{plan.target.tensor}_tile")
    further = {tiles.dim: Bin("+", Var(tiles.start), Var(_inside(tiles)))}
    target = substitute(plan.target, further)
    value = c.Load(c.Name(row), c.Name(name))
    inside = replace(scope.accumulating(target, at=Accumulator(value, kind, monoid=plan.monoid)), looped=True)

    def from_zero(node: object) -> Plan | None:
        if isinstance(node, Scan) and node.dim == tiles.dim:
            body, ahead = substitute(node.body, further), node.ahead
            if ahead is not None:
                ahead = replace(ahead, arrays=tuple(substitute(a, further) for a in ahead.arrays))
            return replace(node, dim=_inside(tiles), low=(ZERO,), high=(Var(_width(tiles)),), body=body, ahead=ahead)
        return None

    nothing = _nothing(low, plan, kind)
    total = c.Bin("-", value, nothing) if _is_zero_sum(plan, kind) else value
    place = Accumulator(low.place(target, scope), low.kinds[plan.target.tensor], monoid=plan.monoid)

    def stored(op: str) -> c.Stmt:
        return low.added(place, op, total if op == "=" else value, kind)

    if plan.finish is not None:
        finish = substitute(plan.finish, further)
        end: c.Stmt = loop(name, c.Int(0), width, _finished(low, finish, place, value, kind, scope, pieces))
    else:
        end = loop(name, c.Int(0), width, [stored(plan.op)], openmp.SIMD)
        if pieces is not None and plan.op == "=":
            added = loop(name, c.Int(0), width, [stored("+=")], openmp.SIMD)
            end = c.If(pieces.first, c.Block((end,)), c.Block((added,)))
    return [
        c.Declare(kind.c, row, length=2 * tiles.width),
        loop(name, c.Int(0), width, [c.Assign(value, "=", nothing)], openmp.SIMD),
        *low.plan(rewrite(from_zero, plan.body), inside),
        end,
    ]


def _finished(
    low: Lowering,
    finish: Finish,
    place: Accumulator,
    value: c.Expr,
    kind: ElementType,
    scope: Scope,
    pieces: _Pieces | None,
) -> list[c.Stmt]:
    """What is made of a total of the tile; before the last piece it is kept in its place."""
    part = [low.added(place, "=", value, kind)]
    if pieces is None:
        return finished(low, finish, value, kind, scope, part)
    both = low.together(converted(place.place, place.type, kind), value, place.monoid)
    more = c.If(c.Un("!", pieces.first), c.Block((c.Assign(value, "=", both),)))
    goes_on = c.Un("!", pieces.last) if scope.partly is None else c.Bin("||", c.Un("!", pieces.last), scope.partly)
    return [more, *finished(low, finish, value, kind, replace(scope, partly=goes_on), part)]


def _fetched(low: Lowering, plan: Accumulate, tiles: RegisterTile, scope: Scope) -> list[c.Stmt]:
    """What is stored later is fetched, line by line."""
    if tiles.ahead is None or tiles.when is None:
        return []
    place, size = low.place(plan.target, scope), low.kinds[plan.target.tensor].bytes
    assert isinstance(place, c.Load)
    why = "few values are added up for each row: what a later one stores is fetched"
    soon = low.chosen("const bool", "soon", low.condition(tiles.when, scope), why)
    there = c.Bin("*", c.Bin("+", place.index, low.expr(tiles.ahead, scope)), c.Int(size))
    start, end = low.fold("spfgen_max", tiles.low, scope), low.fold("spfgen_min", tiles.high, scope)
    fetch = c.Block((c.Do(c.Call("spfgen_prefetch_stored", (place.array, there))),))
    name = low.names[tiles.dim]
    lines = c.For(INT, name, start, c.Bin("<", c.Name(name), end), max(tuning.CACHE_LINE // size, 1), fetch)
    return [c.If(soon, c.Block((lines,)))]


def _is_zero_sum(plan: Accumulate, kind: ElementType) -> bool:
    """Whether the totals are sums, which begin as a zero that compilers do not know."""
    return plan.monoid is None and kind.kind == "f"


def _nothing(low: Lowering, plan: Accumulate, kind: ElementType) -> c.Expr:
    """What the totals begin with; zero so that compilers take the sums of a tile for sums (rt/zero.h)."""
    if not _is_zero_sum(plan, kind):
        return low.nothing(kind, plan.monoid)
    why = "with a zero that compilers do not know they keep sums in registers"
    zero_call = c.Call("spfgen_zero", ())
    return low.chosen(f"const {kind.c}", "zero", zero_call if kind.bytes == 8 else c.Cast(kind.c, zero_call), why)
