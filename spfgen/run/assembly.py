"""Results whose pattern is computed: from the entries that a kernel delivers in C to a tensor in its layout."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from spfgen.cir.lower.layout import FIELD, MOST_RANK
from spfgen.errors import DataError
from spfgen.layout.fill import differs
from spfgen.layout.intervals import one_by_one
from spfgen.layout.nodes import ENTRIES, Layout
from spfgen.run.files.read import Coordinates
from spfgen.run.tensor import Array, Tensor, named
from spfgen.space.nodes import Tensor as Declared

NARROW = 2**31 - 1
SPARE = 2**16
"""Bytes that are not worth giving back."""


class EntriesStruct(ctypes.Structure):
    """rt/entries_type.h"""

    _fields_ = (
        ("count", ctypes.c_int64),
        ("capacity", ctypes.c_int64),
        ("failed", ctypes.c_int64),
        ("most", ctypes.c_int64),
        ("taken", ctypes.c_int64),
        ("narrow", ctypes.c_int64),
        ("may_group", ctypes.c_int64),
        ("grouped", ctypes.c_int64),
        ("groups", ctypes.c_int64),
        ("group_capacity", ctypes.c_int64),
        ("ends", ctypes.c_void_p),
        ("expected", ctypes.c_double),
        ("whole", ctypes.c_void_p),
        ("at", ctypes.c_void_p * MOST_RANK),
        ("values", ctypes.c_void_p),
    )


class Delivered(Coordinates):
    """What a kernel delivers: within the extents, and int32 where these allow it."""

    def __post_init__(self) -> None:
        """There is nothing to look at."""


@dataclass(frozen=True)
class DeliveredRows(Delivered):
    """The same row by row, or column by column: coordinate number `common` is one of the rows, of which row r has the
    entries up to `ends[r]` that are in none before it."""

    common: int = 0
    ends: Array = field(default_factory=lambda: np.empty(0, np.int64))

    def one_by_one(self) -> Delivered:
        """All coordinates of each entry."""
        coords = [np.repeat(c, self.lengths) if k == self.common else c for k, c in enumerate(self.coords)]
        return Delivered(self.shape, tuple(coords), self.values)

    @property
    def lengths(self) -> Array:
        """How many entries each row has."""
        return np.diff(self.ends, prepend=0)


@dataclass(frozen=True)
class DeliveredIntervals(Delivered):
    """The same of intervals: entry p stands for all coordinates along `axis` from its own to `last[p]`."""

    axis: int = 0
    last: Array = field(default_factory=lambda: np.empty(0, np.int64))

    def one_by_one(self) -> Delivered:
        """An entry for each coordinate."""
        return Delivered(self.shape, *one_by_one(self.axis, self.coords, self.last, self.values))


def pending(declared: Declared, sizes: Mapping[str, int], dtype: str) -> Tensor:
    """What stands for a result until the kernel has run: its extents and its type, and no entries."""
    return Tensor(declared.layout, dict(sizes), {ENTRIES: np.empty(0, dtype)})


def is_pending(tensor: Tensor) -> bool:
    return tensor.layout.values[0].name == ENTRIES


@dataclass(frozen=True)
class Assembly:
    """How entries become a tensor: its layout, the types of its index arrays, and whether these are fixed; else they
    are wide where the extents or the number of entries need it. `prune`: what equals the fill value is left out.
    `most`: the bytes that entries and workspaces may take (0: as many as there are). Entries at one place add up: they
    are terms of a sum, and all else is combined in a table before."""

    layout: Layout
    index_types: Mapping[str, str]
    is_fixed: bool
    prune: bool = False
    most: int = 0

    def tensor(self, name: str, entries: Coordinates, dtype: np.dtype[Any], threads: int) -> Tensor:
        """Raises DataError where the layout has no place for an entry, or there is no memory."""
        if isinstance(entries, DeliveredIntervals):
            found = self._of_intervals(entries, dtype)
            if found is not None:
                return found
            entries = entries.one_by_one()
        try:
            made = self._of_rows(entries) if isinstance(entries, DeliveredRows) else None
            if made is None:
                entries = entries.one_by_one() if isinstance(entries, DeliveredRows) else entries
                made = self._placed(name, entries, threads)
            if made.dtype != entries.values.dtype:
                return self._of_what_differs(name, entries, threads)
            if self.prune:
                made = self._pruned(name, made, dtype, threads)
        except DataError as error:
            raise named(error, name) from error
        if made.dtype != dtype:
            made = _cast(made, dtype)
        return made

    def _of_intervals(self, entries: DeliveredIntervals, dtype: np.dtype[Any]) -> Tensor | None:
        """None where it takes the coordinates one by one."""
        from spfgen.run.calls.bind import of_intervals

        values = entries.values
        with np.errstate(all="ignore"):  # what does not fit is cast as in C
            typed = values.astype(dtype, copy=False)
        coords, last = entries.coords, entries.last
        if self.prune:
            kept = differs(typed, self.layout.fill)
            coords, last, typed = tuple(c[kept] for c in coords), last[kept], typed[kept]
        return of_intervals(self.layout, entries.shape, coords, last, typed, self.index_types, self.is_fixed)

    def _of_rows(self, entries: DeliveredRows) -> Tensor | None:
        """None where all coordinates are needed."""
        from spfgen.run.calls.bind import of_rows

        if self.layout.is_pattern:
            return None
        coords = entries.common, entries.coords, entries.lengths
        return of_rows(self.layout, entries.shape, *coords, entries.values, self.index_types, self.is_fixed)

    def _placed(self, name: str, entries: Coordinates, threads: int) -> Tensor:
        """What equals the fill value need not be stored: where the layout has no place for all, it is left out."""
        from spfgen.run.calls.entries import summed

        try:
            return self._packed(name, entries, threads)
        except DataError:
            found = summed(entries)
            kept = differs(found.values, self.layout.fill)
            if kept.all():
                raise
            columns = tuple(c[kept] for c in found.coords)
            return self._packed(name, Delivered(found.shape, columns, found.values[kept]), threads)

    def _packed(self, name: str, entries: Coordinates, threads: int) -> Tensor:
        from spfgen.run.calls.bind import appended, packed

        if isinstance(entries, Delivered) and not self.layout.is_pattern:
            made = appended(self.layout, entries, self.index_types, self.is_fixed, "sum", threads)
            if made is not None:
                return made
        return packed(self.layout, entries, name, self.index_types, self.is_fixed, "sum", threads)

    def _of_what_differs(self, name: str, entries: Coordinates, threads: int) -> Tensor:
        """In a layout that has no values of its own: what is stored differs from the fill, and nothing else does."""
        from spfgen.run.calls.entries import summed

        found = summed(entries)
        kept = found.values != found.values.dtype.type(self.layout.fill)
        columns = tuple(c[kept] for c in found.coords)
        return self._packed(name, Delivered(found.shape, columns, found.values[kept]), threads)

    def _pruned(self, name: str, made: Tensor, dtype: np.dtype[Any], threads: int) -> Tensor:
        found = made.to_coo()  # with what the layout stores along with others: it may be there for a fill value alone
        kept = differs(found.values.astype(dtype), self.layout.fill)
        if kept.all():
            return made
        entries = Coordinates(found.shape, tuple(c[kept] for c in found.coords), found.values[kept])
        return self._packed(name, entries, threads)


def _cast(tensor: Tensor, dtype: np.dtype[Any]) -> Tensor:
    own = {v.name for v in tensor.layout.values}
    with np.errstate(all="ignore"):  # what does not fit is cast as in C
        arrays = {n: a.astype(dtype) if n in own else a for n, a in tensor.arrays.items()}
    return Tensor(tensor.layout, tensor.sizes, arrays)


def ready(struct: ctypes.Structure, shape: tuple[int, ...], most: int) -> None:
    """Before a call: coordinates are narrow where the extents allow it, and rows may be groups."""
    entries: EntriesStruct = getattr(struct, FIELD)
    entries.most = most
    entries.narrow = int(max(shape, default=0) <= NARROW)
    entries.may_group = 1


def taken(struct: ctypes.Structure, shape: tuple[int, ...], dtype: str, axis: int | None) -> Coordinates:
    """The entries, over the memory that the C has allocated, which lives as long as one of the arrays does; intervals
    along the axis."""
    entries: EntriesStruct = getattr(struct, FIELD)
    kind = np.dtype(np.int32 if entries.narrow else np.int64)
    count, capacity = entries.count, entries.capacity
    rank, common, rows = len(shape) + (axis is not None), entries.grouped - 1, (entries.groups, entries.group_capacity)
    sizes = [rows if k == common else (count, capacity) for k in range(rank)]
    columns = tuple([_owned(entries.at[k], *size, kind) for k, size in enumerate(sizes)])
    values = _owned(entries.values, count, capacity, np.dtype(dtype))
    ends = _owned(entries.ends, *rows, np.dtype(np.int64))
    ctypes.memset(ctypes.byref(entries), 0, ctypes.sizeof(entries))
    if axis is not None:
        return DeliveredIntervals(shape, columns[:-1], values, axis=axis, last=columns[-1])
    if common >= 0:
        return DeliveredRows(shape, columns, values, common=common, ends=ends)
    return Delivered(shape, columns, values)


class _Memory:
    """Memory of the C library, given back when nobody has it any more."""

    __slots__ = ("__array_interface__", "pointer")

    def __init__(self, pointer: int, interface: dict[str, Any]) -> None:
        self.pointer = pointer
        self.__array_interface__ = interface

    def __del__(self) -> None:
        _library().free(self.pointer)


def _owned(pointer: int | None, count: int, capacity: int, dtype: np.dtype[Any]) -> Array:
    """Of memory for `capacity` elements the first ones; much that is left over is given back at once."""
    if pointer is None:
        return np.empty(0, dtype)
    size = dtype.itemsize
    if (capacity - count) * size > SPARE and count:
        pointer = _library().realloc(pointer, count * size) or pointer
    interface = {"data": (pointer, False), "shape": (count,), "typestr": dtype.str, "version": 3}
    whole: Array = np.asarray(_Memory(pointer, interface))
    return whole[:]  # whose base is an array, as scipy takes for granted


@cache
def _library() -> Any:
    library = ctypes.CDLL(None)
    library.free.argtypes, library.free.restype = (ctypes.c_void_p,), None
    library.realloc.argtypes, library.realloc.restype = (ctypes.c_void_p, ctypes.c_size_t), ctypes.c_void_p
    return library
