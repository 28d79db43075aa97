"""Tiles of several widths (cir/lower/register_tile.py) are two functions, put into their callers: one tile, and those
of all widths.

    from = low;
    for (width = 32; width > 0; width = width / 2) { while (from + width <= end) { ... from += width; } }

    ->  while (from + 32 <= end) { tile(32, from, ...); from += 32; }
        if (from + 16 <= end) { tile(16, from, ...); from += 16; } ...

and tiles of 64 before them where registers are wide.

Compilers know the numbers there, so that the sums of a tile are vectors in registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.build import INT
from spfgen.cir.tree.outline import INLINE, can_move, names_in, params_for, types_of
from spfgen.ir import fresh, rewrite


def with_tile_functions(function: c.Function) -> list[c.Function]:
    """The function, behind those of its tiles."""
    types, taken = types_of(function), names_in(function)
    tile_functions: list[c.Function] = []
    known: dict[c.Stmt, c.Stmt | None] = {}

    def outlined(word: str, indices: Sequence[str], lines: Sequence[c.Stmt], doc: str) -> c.Function | None:
        params = params_for(lines, indices, types)
        if params is None:
            return None
        name = fresh(f"{function.name}_{word}", taken)
        taken.add(name)
        given = (*(c.Param(INT, n) for n in indices), *params)
        return c.Function(f"inline {INLINE} void", name, given, c.Block(tuple(lines)), doc, static=True)

    def called(begin: c.Stmt, widths: c.For, at: c.Expr, end: c.Expr, lines: Sequence[c.Stmt]) -> c.Stmt | None:
        tile = outlined("tile", [widths.variable], lines, "One tile of so many places.")
        if tile is None:
            return None
        calls = [begin, *_calls(tile, widths.start, at, end)]
        tiles = outlined("tiles", [], calls, "Tiles for all places: wide ones, then what is left.")
        if tiles is None:
            return None
        tile_functions.extend((tile, tiles))
        return c.Do(c.Call(tiles.name, tuple(c.Name(p.name) for p in tiles.params)))

    def rule(node: object) -> c.Stmt | None:
        match node:
            case c.Braces(
                c.Block(
                    (
                        c.Declare() as begin,
                        c.For(
                            variable=width,
                            start=c.Int() | c.Select(c.Name(), c.Int(), c.Int()),
                            step=c.Bin("/", c.Name(), c.Int(2)),
                            body=c.Block(
                                (c.While(c.Bin("<=", c.Bin("+", at, c.Name(added)), end), c.Block((*lines, _))),)
                            ),
                        ) as widths,
                    )
                )
            ) if added == width and can_move(lines, (width,)):
                if node not in known:
                    known[node] = called(begin, widths, at, end, lines)
                return known[node]
        return None

    body: c.Block = rewrite(rule, function.body, c.Stmt)
    return [*tile_functions, replace(function, body=body)] if tile_functions else [function]


def _calls(tile: c.Function, widest: c.Expr, at: c.Expr, end: c.Expr) -> Iterator[c.Stmt]:
    """As many of the widest tile as there are; of each smaller one there is one at most."""

    def fits(width: int) -> c.Expr:
        return c.Bin("<=", c.Bin("+", at, c.Int(width)), end)

    def one(width: int) -> c.Block:
        given = (c.Int(width), *(c.Name(p.name) for p in tile.params[1:]))
        return c.Block((c.Do(c.Call(tile.name, given)), c.Assign(at, "+=", c.Int(width))))

    if isinstance(widest, c.Select):
        assert isinstance(widest.yes, c.Int)
        yield c.While(c.Bin("&&", widest.condition, fits(widest.yes.value)), one(widest.yes.value))
        widest = widest.no
    assert isinstance(widest, c.Int)
    yield c.While(fits(widest.value), one(widest.value))
    width = widest.value // 2
    while width > 0:
        yield c.If(fits(width), one(width))
        width //= 2
