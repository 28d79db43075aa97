"""Packing by a table (layout/table.py): no numpy but for the arrays themselves, no compiler, and no sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spfgen import tuning
from spfgen.errors import ToolError
from spfgen.layout.duplicates import Duplicates, combined_values
from spfgen.layout.keys import solved_sizes
from spfgen.layout.nodes import Layout
from spfgen.layout.pack import Packed, check_fill
from spfgen.layout.points import Array
from spfgen.layout.table import Shaped, Table, table_of
from spfgen.run.calls.form import form_of, remember
from spfgen.run.calls.functions import address, has_shared, shared
from spfgen.run.conversion import Fall, Room, room_of

ROW = 34
"""Numbers of an array for C: its address, the bytes of an element, its extents."""
NOTHING = (0,) * (ROW - 2)


def table(layout: Layout) -> Table | None:
    """The table of a layout, which is known by identity."""
    form = form_of(layout)
    if form.table is False:
        form.table = table_of(layout)
    found: Table | None = form.table
    return found


def by_table(
    layout: Layout,
    shape: tuple[int, ...],
    coords: Sequence[Array],
    values: Array,
    index_types: Mapping[str, str],
    duplicates: Duplicates = "sum",
    most_sorted: int | None = None,
    is_own: bool = False,
    threads: int = 1,
) -> Packed | None:
    """As layout.pack.pack; None where the table is not for these entries: what is wrong with them is for others to say.

    More than `most_sorted` entries are not sorted. Coordinates are int32 or int64. Where the entries are in order, and
    nobody needs the arrays any more (`is_own`), those that the layout stores as they are become its arrays.
    """
    kinds = tuple([(a.name, index_types.get(a.name, a.types[0])) for a in layout.indexes])
    shaped = _shaped(layout, shape, values, kinds)
    if shaped is None or len(coords) != layout.rank or any(c.shape != values.shape for c in coords):
        return None
    if not has_shared(len(values)):
        return None
    try:
        if is_own and len(values) >= tuning.PACK_LOOKED_AT:
            made = _appended(shaped, coords, values, kinds, threads)
            if made is not None:
                return made
        entries = _ready(_Entries.of(shaped, coords, values), duplicates, most_sorted)
        return None if entries is None else _filled(entries, kinds, is_own)
    except (Fall, ToolError):
        return None


def by_rows(
    layout: Layout,
    shape: tuple[int, ...],
    common: int,
    coords: Sequence[Array],
    lengths: Array,
    values: Array,
    index_types: Mapping[str, str],
) -> Packed | None:
    """From entries that come row by row, or column by column, in each by rising coordinates, and whose arrays nobody
    else needs: for a layout that stores them as they are and says where rows begin, all rows or those that it lists.
    Coordinate number `common` is one of each row, which has so many entries. None for other layouts, and where rows
    do not rise."""
    kinds = tuple([(a.name, index_types.get(a.name, a.types[0])) for a in layout.indexes])
    shaped = _shaped(layout, shape, values, kinds)
    if shaped is None or len(coords) != 2 or coords[1 - common].dtype != np.int32:
        return None
    numbers, rows = shaped.numbers, coords[common]
    begins, listed = numbers.ranked or (numbers.lead, ())
    leads = numbers.slots[shaped.table.key.fields[0].name] == common
    if not begins or not leads or common in numbers.columns.values() or (rows[1:] <= rows[:-1]).any():
        return None
    columns = dict.fromkeys(numbers.columns, coords[1 - common])
    totals: tuple[int, ...] = (len(values),)
    if numbers.ranked is not None:  # a row is known by its number among those that have entries
        rows, lengths = rows[lengths > 0], lengths[lengths > 0]
        columns |= dict.fromkeys(listed, rows)
        totals, rows = (len(rows), len(values)), np.arange(len(rows))
    try:
        made = as_they_are(shaped, columns, values, kinds, totals)
    except Fall:
        return None
    if made is not None:
        begin = made.arrays[begins]
        inside = rows.astype(np.int64) + 1 < begin.size
        begin[...] = 0
        begin[rows[inside] + 1] = lengths[inside]
        np.cumsum(begin, dtype=begin.dtype, out=begin)
        _end(shaped, made.arrays, totals)
    return made


def _shaped(layout: Layout, shape: tuple[int, ...], values: Array, kinds: tuple[tuple[str, str], ...]) -> Shaped | None:
    """The table for these extents, if there is one and all indices fit these types."""
    found = table(layout)
    if found is None or len(shape) != layout.rank or values.ndim != 1:
        return None
    shaped = found.at(tuple([int(n) for n in shape]))
    if shaped is None:
        return None
    if values.dtype.char not in found.fills:
        check_fill(layout, values.dtype)
        found.fills.add(values.dtype.char)
    if kinds not in shaped.fits:
        shaped.fits[kinds] = fit(shaped, kinds)
    return shaped if shaped.fits[kinds] else None


def _appended(
    shaped: Shaped, coords: Sequence[Array], values: Array, kinds: tuple[tuple[str, str], ...], threads: int
) -> Packed | None:
    """From entries that are seen to come in order, each once, for a layout that stores them as they are, but for where
    segments begin. Raises Fall when a position might not fit its type."""
    numbers, count = shaped.numbers, len(values)
    if numbers.lead is None or any(c.dtype != np.int32 or not c.flags.c_contiguous for c in coords):
        return None
    digits = [coords[numbers.slots[f.name]] for f in shaped.table.key.fields]
    extents = [shaped.shape[numbers.slots[f.name]] for f in shaped.table.key.fields]
    leads = np.empty(1, np.int64)
    pointers = (address(digits[0]), address(digits[1]) if len(digits) > 1 else None)
    if not shared("table_rises")(count, *pointers, extents[0], extents[-1], threads, address(leads)):
        return None
    made = as_they_are(shaped, {name: coords[k] for name, k in numbers.columns.items()}, values, kinds, (count,))
    if made is not None and numbers.lead:
        begin = made.arrays[numbers.lead]
        shared("table_begins")(count, address(digits[0]), begin.size, address(begin), begin.itemsize, threads)
        _end(shaped, made.arrays, (count,))
    return made


def as_they_are(
    shaped: Shaped,
    columns: Mapping[str, Array],
    values: Array,
    kinds: tuple[tuple[str, str], ...],
    totals: tuple[int, ...],
) -> Packed | None:
    """The arrays with the columns and the values in place; `totals` are the positions of each level. Raises Fall when a
    position might not fit its type."""
    room = _room(shaped, kinds, values.dtype, totals, totals)
    if room is None:
        return None
    given = {**columns, shaped.table.layout.values[0].name: values}
    made = Packed(dict(room.sizes), room.made(shaped.table.layout, given))
    for name, own in given.items():
        if made.arrays[name] is not own:
            made.arrays[name][...] = own
    return made


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
            raise Fall
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
        raise Fall
    order: Array = np.lexsort(digits[::-1])
    return order


def _filled(entries: _Entries, kinds: tuple[tuple[str, str], ...], is_own: bool) -> Packed | None:
    """The arrays. Raises Fall when a position might not fit its type."""
    shaped, layout = entries.shaped, entries.shaped.table.layout
    room = _room(shaped, kinds, entries.values.dtype, entries.found[3::2], entries.found[4::2])
    if room is None:
        return None
    given: dict[str, Array] = {}
    if is_own and len(entries.values) >= tuning.PACK_LOOKED_AT:
        given = {name: entries.columns[k] for name, k in shaped.numbers.columns.items()}
        given |= {layout.values[0].name: entries.values} if shaped.numbers.is_column else {}
    made = Packed(dict(room.sizes), room.made(layout, given))
    numbers: list[int] = []
    for name in shaped.arrays:
        array = made.arrays[name]
        numbers += (
            0 if given.get(name) is array else address(array),
            array.itemsize,
            *array.shape,
            *NOTHING[array.ndim :],
        )
    rows = np.array(numbers, np.int64)
    values = np.ascontiguousarray(entries.values)
    words = (address(shaped.words), len(values), address(entries.pointers), entries.narrow, address(values))
    if shared("table_fill")(*words, address(rows), address(entries.counts)):
        raise Fall
    _end(shaped, made.arrays, entries.found[3::2])
    return made


def _room(
    shaped: Shaped,
    kinds: tuple[tuple[str, str], ...],
    dtype: np.dtype[Any],
    totals: Sequence[int],
    widths: Sequence[int],
) -> Room | None:
    """What the arrays are like; None where sizes do not follow. Raises Fall."""
    name = (kinds, dtype.char, *totals, *widths)
    if name not in shaped.rooms:
        key = shaped.table.key
        sizes = solved_sizes(key, shaped.numbers.sizes, totals, widths)
        remember(shaped.rooms, name, None if sizes is None else room_of(key, kinds, dtype.name, sizes, totals))
    found: Room | None = shaped.rooms[name]
    return found


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
