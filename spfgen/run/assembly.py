"""Results whose pattern is computed: the C makes their arrays, which become a tensor's without a copy."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import Any

import numpy as np

from spfgen.cir.lower.layout import field_name
from spfgen.errors import DataError
from spfgen.lang.types import INDEX_TYPES
from spfgen.layout.fill import differ, differs
from spfgen.layout.nodes import ENTRIES, Layout, as_entries
from spfgen.run.coordinates import Coordinates
from spfgen.run.tensor import Array, Tensor, extents_of, named
from spfgen.space.nodes import Tensor as Declared

NARROW = 2**31 - 1


class Memory(ctypes.Structure):
    """rt/allocator_type.h: without functions of its own it is malloc's, and a bound of workspaces."""

    _fields_ = (
        ("allocate", ctypes.c_void_p),
        ("resize", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("max_workspace", ctypes.c_int64),
    )


def pending(declared: Declared, sizes: Mapping[str, int], dtype: str) -> Tensor:
    """What stands for a result until the kernel has run: its extents and its type, and no entries."""
    layout = declared.layout if declared.assembled is not None else as_entries(declared.layout)
    return Tensor(layout, dict(sizes), {ENTRIES: np.empty(0, dtype)})


def is_pending(tensor: Tensor) -> bool:
    return tensor.layout.values[0].name == ENTRIES


@dataclass(frozen=True)
class ResultAssembly:
    """How a result is made: its layout, the types of its index arrays, and whether these are fixed; else they are wide
    where the extents or the number of entries need it. `prune`: what equals the fill value is left out. `most`: the
    bytes that entries and workspaces may take (0: as many as there are). `target`: what the result is packed in by
    numpy, where the C has made coordinates of it."""

    layout: Layout
    index_types: Mapping[str, str]
    is_fixed: bool
    prune: bool = False
    most: int = 0
    target: ResultAssembly | None = None

    def kinds(self, shape: tuple[int, ...], wide: bool = False) -> tuple[tuple[str, str], ...]:
        """The types of the index arrays of a result with these extents; `wide` where there are many entries."""
        if self.is_fixed or (not wide and max(shape, default=0) <= NARROW):
            return tuple((a.name, self.index_types.get(a.name, a.types[0])) for a in self.layout.indexes)
        open_ = {a.name: "int64" for a in self.layout.indexes if a.types == INDEX_TYPES}
        return tuple((a.name, open_.get(a.name, a.types[0])) for a in self.layout.indexes)

    def taken(self, struct: ctypes.Structure, kinds: Mapping[str, str], dtype: np.dtype[Any]) -> Tensor:
        """The tensor over the arrays of a struct, which live as long as somebody has them."""
        from spfgen.run.calls.bind import trusted

        layout = self.layout
        sizes = {n: int(getattr(struct, field_name(n))) for n in (*layout.parameters, *layout.sizes)}
        types = {n: np.dtype(k) for n, k in kinds.items()} | {v.name: dtype for v in layout.values}
        memories = {n: _Memory(getattr(struct, field_name(n))) for n in layout.arrays}
        arrays = {n: m.array(extents_of(layout, n, sizes), types[n]) for n, m in memories.items()}
        if layout.is_pattern and layout.fill_text == "0":  # all that it stores is true
            arrays |= {v.name: np.ones(1, bool) for v in layout.values}
        return trusted(layout, sizes, arrays)

    def finished(self, name: str, tensor: Tensor, threads: int) -> Tensor:
        """Packed where that is left to do, without what equals the fill value where that is asked for. Raises DataError
        where the layout has no place for an entry."""
        if self.target is not None:
            try:
                tensor = self.target.packed(name, tensor.to_coo(), threads)
            except DataError as error:
                raise named(error, name) from error
            return self.target.finished(name, tensor, threads)
        plain = not self.layout.is_pattern and not self.layout.value_transforms
        if not self.prune or (
            plain and all(differ(tensor.arrays[v.name], self.layout.fill) for v in self.layout.values)
        ):
            return tensor
        stored = (
            tensor.to_coo()
        )  # with what the layout stores along with others: it may be there for a fill value alone
        kept = differs(stored.values, self.layout.fill)
        return tensor if kept.all() else self.packed(name, _those(stored, kept), threads)

    def packed(self, name: str, entries: Coordinates, threads: int) -> Tensor:
        """What equals the fill value need not be stored: where the layout has no place for all, it is left out."""
        from spfgen.run.calls.bind import packed

        settings = self.index_types, self.is_fixed, "sum", threads
        try:
            return packed(self.layout, entries, name, *settings)
        except DataError:
            kept = differs(entries.values, self.layout.fill)
            if kept.all():
                raise
            return packed(self.layout, _those(entries, kept), name, *settings)


def _those(entries: Coordinates, kept: Array) -> Coordinates:
    return replace(entries, coords=tuple(c[kept] for c in entries.coords), values=entries.values[kept])


class _Memory:
    """Memory of the C library, given back when no array over it is left. Nobody else has it (`is_owned`)."""

    is_owned = True

    def __init__(self, pointer: int) -> None:
        self.pointer = pointer

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        data, count = (self.pointer, False), (prod(shape),)
        self.__array_interface__ = {"data": data, "shape": count, "typestr": dtype.str, "version": 3}
        whole: Array = np.asarray(self)
        array = whole[:].reshape(shape)  # whose base is an array, as scipy takes for granted
        whole.flags.writeable = False
        return array

    def __del__(self) -> None:
        _free()(self.pointer)


@cache
def _free() -> Any:
    free = ctypes.CDLL(None).free
    free.argtypes, free.restype = (ctypes.c_void_p,), None
    return free
