"""Rows that are read through an index array are fetched ahead.

    for p { j = idx(p); for c in a tile { sum[c] += a(p)*B[j, c] } }

Where B is more than the first cache holds, and not much more than the second, each row comes from there, a line after
the other: what a later p reads is fetched into the first cache. With 32 to 256 columns that saves up to a quarter of
the time. With a larger B some matrices gain and others lose as much. Where neighbours lead to the same few rows, as in
a band, these are in the first cache already, and asking for them takes time: samples of the array tell.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial, reduce

from spfgen.facts.formula import ONE, ZERO, Bin, Call, Compare, Expr, Num, Var, substitute, variables
from spfgen.ir import rewrite, walk
from spfgen.plan.nodes import PLANS, Ahead, Load, Locate, Plan, Scan, Spread, Tile, chain
from spfgen.space.nodes import Read

LATER = 4
"""How far ahead rows are read."""
NEAR = 1 << 20
"""Values that the second cache holds, or nearly."""
LINES = 4
"""Lines of the cache that the width of a tile has: spfgen/plan/tile.py."""
FIRST = 192
"""Widths of a tile that the first cache holds."""

Shapes = Mapping[str, tuple[Expr, ...]]
"""The extents of the index arrays."""


def rows_fetched(plan: Plan, shapes: Shapes, sizes: Collection[str]) -> Plan:
    """The plan with such rows fetched in its tiles, where `sizes` alone say how many there are: it is asked once."""
    result: Plan = rewrite(lambda n: _fetching(n, shapes, sizes) if isinstance(n, Tile) else None, plan, PLANS)
    return result


def _fetching(tile: Tile, shapes: Shapes, sizes: Collection[str]) -> Plan | None:
    """The tile with its innermost loop fetching what the loop around it reads later."""
    nodes = list(chain(tile.body))
    loops = [k for k, n in enumerate(nodes) if isinstance(n, Scan)]
    if len(loops) < 2 or len(tile.high) != 1 or tile.low != (ZERO,) or not variables(tile.high[0]) <= {*sizes}:
        return None
    around, innermost = nodes[loops[-2]], nodes[loops[-1]]
    assert isinstance(around, Scan)
    assert isinstance(innermost, Scan)
    if around.down or innermost.dim != tile.dim or innermost.ahead is not None:
        return None
    columns = tile.high[0]
    later, spread = dict[str, Expr](), list[Spread]()
    for node in nodes[loops[-2] + 1 : loops[-1]]:
        match node:
            case Load(dim, call) if variables(call) & {around.dim, *later}:
                found = _later(call, around.dim, shapes)
                if found is None:
                    return None
                later[dim] = found
                spread.append(_spread(call, Bin("quot", Num(FIRST * tile.width), columns), shapes))
            case Locate(dim, value) if variables(value) & later.keys():
                later[dim] = substitute(value, later)
    rows = [
        o
        for o in (n.operand for n in walk(innermost.body) if isinstance(n, Read))
        if o.place[-1:] == (Var(tile.dim),)
        and any(variables(e) & later.keys() for e in o.place)
        and not any(around.dim in variables(e) for e in o.place)
    ]
    if not rows:
        return None
    values = reduce(partial(Bin, "+"), (reduce(partial(Bin, "*"), o.extents) for o in rows))
    line = max(tile.width // LINES, 1)
    when = (Compare(">", columns, Num(2 * line)), Compare("<=", values, Num(NEAR)))
    why = "rows that the second cache holds, but not the first: those that come later are fetched"
    fetched = tuple(substitute(o, later) for o in rows)
    ahead = Ahead(fetched, 0, when, line, spread=tuple(spread), because=why, name="near")
    fetching = replace(innermost, ahead=ahead)
    result: Plan = rewrite(lambda n: fetching if n == innermost else None, tile, PLANS)
    return result


def _later(call: Call, dim: str, shapes: Shapes) -> Call | None:
    """What an index array says a few places further on, or at its last place: all of it may be read. None where the
    loop does not go along the array."""
    *above, position = call.arguments
    if call.function not in shapes or position != Var(dim) or any(dim in variables(e) for e in above):
        return None
    last = Bin("-", shapes[call.function][-1], ONE)
    found: Call = substitute(call, {dim: Bin("min", Bin("+", position, Num(LATER)), last)})
    return found


def _spread(call: Call, window: Expr, shapes: Shapes) -> Spread:
    """Whether the array leads further apart than so many rows."""
    first = replace(call, arguments=tuple(ZERO for _ in call.arguments))
    return Spread(first, reduce(partial(Bin, "*"), shapes[call.function]), window)
