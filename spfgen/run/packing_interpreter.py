"""Packing by a table (layout/table.py): no numpy but for the arrays themselves, no compiler, and no sets.

The kernel that copies does the same once it is compiled (conversion.py): its call takes 200 us, one of the table 30.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spfgen.errors import ToolError
from spfgen.layout.duplicates import Duplicates, combined_values
from spfgen.layout.keys import solved_sizes
from spfgen.layout.nodes import Layout
from spfgen.layout.pack import Packed, check_fill
from spfgen.layout.points import Array
from spfgen.layout.table import PackingTable, Shaped, table_of
from spfgen.run.calls.functions import address, has_shared, shared
from spfgen.run.calls.layout_signature import form_of, remember
from spfgen.run.conversion import NotApplicable, TargetArrays, room_of

ROW = 34
"""Numbers of an array for C: its address, the bytes of an element, its extents."""
NOTHING = (0,) * (ROW - 2)


def table(layout: Layout) -> PackingTable | None:
    """The table of a layout, which is known by identity."""
    form = form_of(layout)
    if form.table is False:
        form.table = table_of(layout)
    known: PackingTable | None = form.table
    return known


def by_table(
    layout: Layout,
    shape: tuple[int, ...],
    coords: Sequence[Array],
    values: Array,
    index_types: Mapping[str, str],
    duplicates: Duplicates = "sum",
    most_sorted: int | None = None,
) -> Packed | None:
    """As layout.pack.pack; None where the table is not for these entries: what is wrong with them is for others to say.

    More than `most_sorted` entries are not sorted. Coordinates are int32 or int64.
    """
    kinds = tuple([(a.name, index_types.get(a.name, a.types[0])) for a in layout.indexes])
    shaped = _shaped(layout, shape, values, kinds)
    if shaped is None or len(coords) != layout.rank or any(c.shape != values.shape for c in coords):
        return None
    if not has_shared(len(values)):
        return None
    try:
        entries = _ready(_Entries.of(shaped, coords, values), duplicates, most_sorted)
        return None if entries is None else _filled(entries, kinds)
    except (NotApplicable, ToolError):
        return None


def _shaped(layout: Layout, shape: tuple[int, ...], values: Array, kinds: tuple[tuple[str, str], ...]) -> Shaped | None:
    """The table for these extents, if there is one and all indices fit these types."""
    layout_table = table(layout)
    if layout_table is None or len(shape) != layout.rank or values.ndim != 1:
        return None
    shaped = layout_table.at(tuple([int(n) for n in shape]))
    if shaped is None:
        return None
    if values.dtype.char not in layout_table.fills:
        check_fill(layout, values.dtype)
        layout_table.fills.add(values.dtype.char)
    if kinds not in shaped.fits:
        shaped.fits[kinds] = fit(shaped, kinds)
    return shaped if shaped.fits[kinds] else None


def fit(shaped: Shaped, kinds: Sequence[tuple[str, str]]) -> bool:
    """Whether all digits that there may be fit the types of the index arrays."""
    limits = shaped.numbers.limits
    for name, kind in kinds:
        low, high = limits.get(name, (0, 0))
        info = np.iinfo(kind)
        if low < info.min or high > info.max:
            return False
    return True


@dataclass(frozen=True, slots=True)
class _Entries:
    """Columns of coordinates in one type, values, and what C says of them (rt/table.h)."""

    shaped: Shaped
    columns: tuple[Array, ...]
    values: Array
    pointers: Array
    found: tuple[int, ...]
    counts: Array

    @staticmethod
    def of(shaped: Shaped, coords: Sequence[Array], values: Array) -> _Entries:
        narrow = all(c.dtype == np.int32 for c in coords)
        kind = np.int32 if narrow else np.int64
        columns = tuple([np.ascontiguousarray(c, kind) for c in coords])
        pointers = np.array([address(c) for c in columns], np.int64)
        counts = np.empty(3 + 2 * len(shaped.table.key.levels), np.int64)
        words = (address(shaped.words), len(values), address(pointers), int(narrow), address(counts))
        if shared("table_look")(*words):
            raise NotApplicable
        return _Entries(shaped, columns, values, pointers, tuple(counts.tolist()), counts)

    @property
    def narrow(self) -> int:
        return int(self.columns[0].dtype == np.int32)

    def taken(self, order: Array, values: Array) -> _Entries:
        return _Entries.of(self.shaped, [c[order] for c in self.columns], values)


def _ready(entries: _Entries, duplicates: Duplicates, most_sorted: int | None) -> _Entries | None:
    """In the order of the digits, each coordinate once; None where an entry has no place."""
    wrong, falls, twice = entries.found[:3]
    if wrong:
        return None
    if falls:
        if most_sorted is not None and len(entries.values) > most_sorted:
            return None
        order = _order(entries)
        entries = entries.taken(order, entries.values[order])
        wrong, falls, twice = entries.found[:3]
    if not twice:
        return None if wrong or falls else entries
    if duplicates == "error":
        return None
    new = np.zeros(len(entries.values), bool)
    new[:1] = True
    for column in entries.columns:
        new[1:] |= column[1:] != column[:-1]
    first = np.flatnonzero(new)
    entries = entries.taken(first, combined_values(entries.columns, entries.values, first, duplicates))
    return None if any(entries.found[:3]) else entries


def _order(entries: _Entries) -> Array:
    """The places of the entries in the order of their digits."""
    key, count = entries.shaped.table.key, len(entries.values)
    digits = np.empty((len(key.fields), count), np.int64)
    words = (address(entries.shaped.words), count, address(entries.pointers), entries.narrow, address(digits))
    if shared("table_digits")(*words):
        raise NotApplicable
    order: Array = np.lexsort(digits[::-1])
    return order


def _filled(entries: _Entries, kinds: tuple[tuple[str, str], ...]) -> Packed | None:
    """The arrays. Raises NotApplicable when a position might not fit its type."""
    shaped, layout = entries.shaped, entries.shaped.table.layout
    room = _room(shaped, kinds, entries.values.dtype, entries.found[3::2], entries.found[4::2])
    if room is None:
        return None
    filled = Packed(dict(room.sizes), room.made(layout))
    numbers: list[int] = []
    for name in shaped.arrays:
        array = filled.arrays[name]
        numbers += (address(array), array.itemsize, *array.shape, *NOTHING[array.ndim :])
    rows = np.array(numbers, np.int64)
    values = np.ascontiguousarray(entries.values)
    words = (address(shaped.words), len(values), address(entries.pointers), entries.narrow, address(values))
    if shared("table_fill")(*words, address(rows), address(entries.counts)):
        raise NotApplicable
    _end(shaped, filled.arrays, entries.found[3::2])
    return filled


def _room(
    shaped: Shaped,
    kinds: tuple[tuple[str, str], ...],
    dtype: np.dtype[Any],
    totals: Sequence[int],
    widths: Sequence[int],
) -> TargetArrays | None:
    """What the arrays are like; None where sizes do not follow. Raises NotApplicable."""
    name = (kinds, dtype.char, *totals, *widths)
    if name not in shaped.rooms:
        key = shaped.table.key
        sizes = solved_sizes(key, shaped.numbers.sizes, totals, widths)
        remember(shaped.rooms, name, None if sizes is None else room_of(key, kinds, dtype.name, sizes, totals))
    room: TargetArrays | None = shaped.rooms[name]
    return room


def _end(shaped: Shaped, arrays: Mapping[str, Array], totals: Sequence[int]) -> None:
    """Where segments end, or their lengths, next to where they begin."""
    key = shaped.table.key
    calls = key.plan.encoded.calls
    for level, total in zip(key.levels, totals, strict=True):
        rank = level.rank
        if rank.other:
            begin = arrays[calls[rank.begin].function].reshape(-1)
            ends = np.append(begin[1:], rank.low + total)
            arrays[calls[rank.other].function].reshape(-1)[...] = ends - begin if rank.kind == "counts" else ends
