"""Checks run with numpy: their loops are columns of values, all rows of a growing table at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from spfgen.facts.formula import Expr, conjunction
from spfgen.layout.checks import Check, CheckPart, GroupCheck
from spfgen.layout.instances import Broken, Data, satisfied
from spfgen.layout.loops import Loop
from spfgen.layout.points import Array, Columns, expanded, rows_of, sorted_order

CHUNK = 1 << 18
"""Rows of a table that are looked at together."""


@dataclass
class _Work:
    """How many instances may still be looked at."""

    left: int


class _TooMuch(Exception):
    """There are more instances than may be looked at."""


def run(data: Data, check: Check, limit: int) -> Broken | bool | None:
    """The first instance that does not hold; otherwise whether all were looked at (None), or there are more than
    `limit` of them (False)."""
    work = _Work(limit)
    try:
        for part in check.parts:
            if not satisfied(data, conjunction(part.scan.before), {}, 1, False).all():
                continue
            broken = _grouped(data, part, work) if isinstance(part, GroupCheck) else _broken(data, part, work)
            if broken is not None:
                return broken
    except _TooMuch:
        return False
    return None if check.parts else False


def _broken(data: Data, part: CheckPart, work: _Work) -> Broken | None:
    for columns, count in _tables(data, part.scan.loops, {}, 1, work):
        good = satisfied(data, part.scan.body, columns, count, True)
        if not good.all():
            row = int(np.argmin(good))
            one = {**data.sizes, **{n: c[row : row + 1] for n, c in columns.items()}}
            return Broken({n: _number(e, one, data) for n, e in part.values})
    return None


def _number(expr: Expr, columns: Columns, data: Data) -> int:
    value, _ = rows_of(expr, columns, data.arrays, 1)
    return int(np.asarray(value).reshape(-1)[0])


def _grouped(data: Data, part: GroupCheck, work: _Work) -> Broken | None:
    """Rows are sorted by their keys, so that those with equal keys that follow one another are neighbours."""
    tables = [(c, n) for c, n in _tables(data, part.scan.loops, {}, 1, work)]
    count = sum(n for _, n in tables)
    names = [loop.variable for loop in part.scan.loops]
    columns = {n: np.concatenate([c[n] for c, _ in tables]) if tables else np.zeros(0, np.int64) for n in names}
    keys = [columns[n] for n in names if n != part.first]
    keys += [np.broadcast_to(rows_of(k, {**data.sizes, **columns}, data.arrays, count)[0], count) for k in part.keys]
    order = sorted_order(keys, count)
    if order is None:
        order = np.arange(count)
    same = np.ones(max(count - 1, 0), dtype=bool)
    for key in keys:
        same &= key[order[1:]] == key[order[:-1]]
    earlier, later = order[:-1][same], order[1:][same]
    rows = {n: c[later] for n, c in columns.items()}
    rows[part.first], rows[part.second] = columns[part.first][earlier], columns[part.first][later]
    good = satisfied(data, part.body, rows, len(later), True)
    if good.all():
        return None
    bad = np.flatnonzero(~good)
    row = int(bad[np.argmin(later[bad])])
    return Broken({n: int(c[row]) for n, c in rows.items()})


def _tables(
    data: Data, loops: Sequence[Loop], columns: Columns, count: int, work: _Work
) -> Iterator[tuple[dict[str, Array], int]]:
    """(columns of the loops' variables, number of rows), in the order of the loops."""
    if not loops:
        yield dict(columns), count
        return
    loop, *inner_loops = loops
    everything = {**data.sizes, **columns}
    low = _extreme(np.maximum, loop.low, everything, data, count)
    high = _extreme(np.minimum, loop.high, everything, data, count)
    for first, start, lengths in _blocks(low, np.maximum(high - low, 0)):
        row, place = expanded(start, lengths)
        work.left -= len(place)
        if work.left < 0:
            raise _TooMuch
        inner = {n: c[first : first + len(start)][row] for n, c in columns.items()}
        yield from _tables(data, inner_loops, {**inner, loop.variable: place}, len(place), work)


def _extreme(ufunc: np.ufunc, bounds: Sequence[Expr], columns: Columns, data: Data, count: int) -> Array:
    values = [np.broadcast_to(rows_of(b, columns, data.arrays, count)[0], count).astype(np.int64) for b in bounds]
    result = values[0]
    for other in values[1:]:
        result = ufunc(result, other)
    return result


def _blocks(low: Array, lengths: Array) -> Iterator[tuple[int, Array, Array]]:
    """(first row, starts, lengths): pieces that together cover all values, each of a bounded number of them."""
    total = np.concatenate([[0], np.cumsum(lengths)])
    row = 0
    while row < len(lengths):
        end = int(np.searchsorted(total, total[row] + CHUNK, side="right")) - 1
        if end > row:
            yield row, low[row:end], lengths[row:end]
            row = end
            continue
        for begin in range(0, int(lengths[row]), CHUNK):
            size = min(CHUNK, int(lengths[row]) - begin)
            yield row, low[row : row + 1] + begin, np.array([size], dtype=np.int64)
        row += 1
