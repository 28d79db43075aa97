"""Packing, unpacking and converting with generated C, where the layout's ranks are those of one key (layout/keys.py).

Everything else, data that the layout has no place for, and whatever is too small to be worth a compilation goes the
way of layout/pack.py and layout/points.py, which also word what is wrong. The results are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from spfgen import tuning
from spfgen.cir import pack as code
from spfgen.cir.pack import ArrayTypes
from spfgen.errors import ToolError
from spfgen.lang.types import INDEX_TYPES
from spfgen.layout.duplicates import Duplicates
from spfgen.layout.fill import differs
from spfgen.layout.keys import NoKey
from spfgen.layout.nodes import Layout, coordinate_list, numbered_list
from spfgen.layout.pack import Packed, pack
from spfgen.layout.points import Array, to_coordinates
from spfgen.run.by_kernel import CopyFailed
from spfgen.run.calls.functions import Function, address, loaded
from spfgen.run.calls.layout_signature import LayoutSignature, form_of, refilled
from spfgen.run.conversion import NotApplicable, pads, prepared
from spfgen.run.packing_interpreter import by_table
from spfgen.run.threads import threads_allowed, threads_by_default


def pack_entries(
    layout: Layout,
    shape: tuple[int, ...],
    coords: tuple[Array, ...],
    values: Array,
    index_types: Mapping[str, str] | None = None,
    duplicates: Duplicates = "sum",
    *,
    threads: int = 0,
    small: int = tuning.PACK_BY_NUMPY,
) -> Packed:
    """As layout.pack.pack, faster; coordinates may be int32 too.

    Fewer than `small` entries are packed by a table where the layout has one, else with numpy, until there have been
    many. So are more, if they come in the order of the layout: the table does not sort them then.
    """
    values = np.asarray(values)
    form, count = form_of(layout), len(values)
    if count < small or (small and form.in_order + count < tuning.CONVERT_COMPILED):
        small_result = by_table(layout, shape, coords, values, index_types or {}, duplicates, small)
        if small_result is not None:
            form.in_order += count if count >= small else 0
            return small_result
    with suppress(NotApplicable, NoKey, ToolError):
        return _packed(layout, shape, coords, values, index_types or {}, duplicates, threads, small)
    wide = tuple(np.asarray(c).astype(np.int64, copy=False) for c in coords)
    return pack(layout, shape, wide, values, index_types, duplicates)


def convert_arrays(
    source: Layout,
    sizes: Mapping[str, int],
    arrays: Mapping[str, Array],
    target: Layout,
    index_types: Mapping[str, str] | None = None,
    *,
    threads: int = 0,
    small: int = tuning.PACK_BY_NUMPY,
) -> Packed:
    """The arrays of another layout with the same entries.

    What a layout stores only because it stores whole blocks, diagonals or everything is left out where it is the fill
    value; explicit entries are kept. Entries stored twice are added. Raises as layout.pack.pack does.
    """
    with suppress(NotApplicable, NoKey, ToolError):
        return _converted(source, sizes, arrays, target, index_types or {}, threads, small)
    coords, values = coordinates(source, sizes, arrays, threads=threads, small=small)
    if pads(source):
        kept = differs(values, source.fill)
        coords, values = tuple(c[kept] for c in coords), values[kept]
    shape = tuple(sizes[p] for p in source.parameters)
    return pack_entries(target, shape, coords, values, index_types, threads=threads, small=small)


def coordinates(
    layout: Layout,
    sizes: Mapping[str, int],
    arrays: Mapping[str, Array],
    *,
    threads: int = 0,
    small: int = tuning.PACK_BY_NUMPY,
) -> tuple[tuple[Array, ...], Array]:
    """As layout.points.to_coordinates, faster (the order of the entries may differ)."""
    stored = _stored(layout, arrays)
    if stored >= small and not layout.value_transforms:
        with suppress(ToolError):
            return _coordinates(layout, sizes, arrays, team(threads, stored))
    values = {v.name: arrays[v.name] for v in layout.values}
    return to_coordinates(layout, dict(sizes), dict(arrays), values)


def _stored(layout: Layout, arrays: Mapping[str, Array]) -> int:
    return sum([arrays[v.name].size for v in layout.values])


def team(wanted: int, entries: int) -> int:
    """As many as are wanted (0: as OpenMP has by default), none of them for few entries."""
    most = entries // tuning.PACK_PER_THREAD
    return threads_allowed(min(wanted or threads_by_default(), most) if most > 1 else 1)


@lru_cache(maxsize=64)
def _unpacking(layout: Layout, types: ArrayTypes) -> list[Function]:
    compiled = [code.count_function(layout, types), code.coordinates_function(layout, types)]
    return loaded(compiled, f"Unpacking {layout.name}")


def given_of(form: LayoutSignature, sizes: Mapping[str, int], arrays: Mapping[str, Array]) -> dict[str, int]:
    """A layout's sizes and arrays for C; the arrays are contiguous, and kept by the caller."""
    of_sizes, of_arrays = form.given
    given = dict(zip(of_sizes, [sizes[n] for n in form.sizes], strict=True))
    given.update(zip(of_arrays, [address(arrays[n]) for n in form.arrays], strict=True))
    return given


def _contiguous(form: LayoutSignature, arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {n: np.ascontiguousarray(arrays[n]) for n in form.arrays}


def _coordinates(
    layout: Layout, sizes: Mapping[str, int], arrays: Mapping[str, Array], threads: int
) -> tuple[tuple[Array, ...], Array]:
    form = form_of(layout)
    contiguous = _contiguous(form, arrays)
    kinds = tuple((a.name, contiguous[a.name].dtype.name) for a in layout.indexes)
    dtype = contiguous[layout.values[0].name].dtype
    counting, writing = _unpacking(layout, ArrayTypes(dtype.name, kinds))
    given = given_of(form, sizes, contiguous)
    start = np.zeros(threads + 1, np.int64)
    counting({**given, "parts": threads, "count": address(start[1:])})
    np.cumsum(start, out=start)
    count = int(start[-1])
    columns = [np.empty(count, np.int64) for _ in layout.coordinates]
    values = np.empty(count, dtype)
    more = {f"column:{k}": address(column) for k, column in enumerate(columns)}
    writing({**given, **more, "parts": threads, "start": address(start), "value": address(values)})
    return tuple(columns), values


def _packed(
    layout: Layout,
    shape: tuple[int, ...],
    coords: tuple[Array, ...],
    values: Array,
    index_types: Mapping[str, str],
    duplicates: Duplicates,
    threads: int,
    small: int,
) -> Packed:
    """From arrays of coordinates, which are a layout as any other."""
    if len(shape) != layout.rank or len(coords) != layout.rank or not layout.rank or values.ndim != 1:
        raise NotApplicable
    columns = [np.asarray(c) for c in coords]
    columns = [c if c.dtype.name in INDEX_TYPES else c.astype(np.int64) for c in columns]
    if any(c.shape != values.shape for c in columns):
        raise NotApplicable
    source = _list_for(layout)
    arrays = dict(zip(source.arrays, (*columns, values), strict=True))
    sizes = dict(zip(source.parameters, map(int, shape), strict=True)) | {source.sizes[0]: len(values)}
    count = len(values)
    packed = _converted(source, sizes, arrays, layout, index_types, threads, small, count)
    if duplicates == "sum" or (not pads(layout) and _stored(layout, packed.arrays) == count):
        return packed
    return _combined(sizes, arrays, layout, index_types, threads, small, duplicates)


def _combined(
    sizes: Mapping[str, int],
    arrays: Mapping[str, Array],
    target: Layout,
    index_types: Mapping[str, str],
    threads: int,
    small: int,
    duplicates: Duplicates,
) -> Packed:
    """Of entries at one coordinate the least or largest value, or the first or last one: that of the least or largest
    number. Raises NotApplicable, NoKey, ToolError."""
    *_, values = arrays.values()
    combining = {"first": "min", "last": "max"}.get(duplicates) if isinstance(duplicates, str) else None
    by_number = combining is not None
    combining = combining or ("max" if duplicates is np.maximum else "min" if duplicates is np.minimum else None)
    if combining is None or pads(target) or values.dtype.kind not in "fiu":
        raise NotApplicable
    keys = np.arange(len(values)) if by_number else np.ascontiguousarray(values)
    worst = _worst(keys.dtype, combining)
    source = refilled(numbered_list(len(arrays) - 1), worst)
    given = {**_contiguous(form_of(source), {**arrays, source.values[0].name: keys})}
    kinds = tuple([str(index_types.get(a.name, a.types[0])) for a in target.indexes])
    types = tuple([a.dtype for a in given.values()])
    entries = len(values) if small else tuning.CONVERT_COMPILED
    copy = prepared(source, refilled(target, worst), types, kinds, packs=True, combining=combining, entries=entries)
    try:
        packed = copy(sizes, given, team(threads, len(values)))
    except CopyFailed as error:
        raise NotApplicable from error
    if by_number:
        name = target.values[0].name
        packed.arrays[name] = values[packed.arrays[name]]
    return packed


def _worst(dtype: np.dtype[Any], combining: str) -> Any:
    """The value that every other one is taken before."""
    if dtype.kind == "f":
        return -np.inf if combining == "max" else np.inf
    limits = np.iinfo(dtype)
    return int(limits.min if combining == "max" else limits.max)


_LISTS: dict[tuple[int, str], Layout] = {}


def _list_for(layout: Layout) -> Layout:
    """Coordinates and values, with the layout's fill value: what is not given has it."""
    name = layout.rank, layout.fill_text
    if name not in _LISTS:
        _LISTS[name] = replace(coordinate_list(layout.rank), fill=layout.fill)
    return _LISTS[name]


def _converted(
    source: Layout,
    sizes: Mapping[str, int],
    arrays: Mapping[str, Array],
    target: Layout,
    index_types: Mapping[str, str],
    threads: int = 0,
    small: int = 0,
    expected: int | None = None,
) -> Packed:
    """`expected` is the number of entries, where an entry that is left out is one outside of the extents.

    Raises NotApplicable, NoKey, ToolError.
    """
    stored = _stored(source, arrays)
    if source.value_transforms or target.value_transforms:
        raise NotApplicable
    contiguous = _contiguous(form_of(source), arrays)
    types = tuple([a.dtype for a in contiguous.values()])
    kinds = tuple([str(index_types.get(a.name, a.types[0])) for a in target.indexes])
    entries = stored if small else tuning.CONVERT_COMPILED
    copy = prepared(source, target, types, kinds, packs=expected is not None, entries=entries)
    if expected is not None and not _is_inside(source, sizes, contiguous):
        raise NotApplicable
    try:
        return copy(sizes, contiguous, team(threads, stored))
    except CopyFailed as error:
        raise NotApplicable from error


def _is_inside(source: Layout, sizes: Mapping[str, int], arrays: Mapping[str, Array]) -> bool:
    """Whether the coordinates that a user gave lie within the extents."""
    columns = [(arrays[a.name], sizes[p]) for a, p in zip(source.indexes, source.parameters, strict=True)]
    return all(not len(column) or (column.min() >= 0 and column.max() < extent) for column, extent in columns)
