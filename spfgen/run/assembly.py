"""Results whose pattern is computed: from the entries that a kernel delivers in C to a tensor in its layout."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from spfgen.cir.layout import FIELD, MOST_RANK
from spfgen.errors import DataError
from spfgen.layout.nodes import ENTRIES, Layout
from spfgen.run.read import Coordinates
from spfgen.run.tensor import Array, Tensor, named
from spfgen.space.nodes import Tensor as Declared


class EntriesStruct(ctypes.Structure):
    """rt/entries_type.h"""

    _fields_ = (
        ("count", ctypes.c_int64),
        ("capacity", ctypes.c_int64),
        ("failed", ctypes.c_int64),
        ("most", ctypes.c_int64),
        ("taken", ctypes.c_int64),
        ("whole", ctypes.c_void_p),
        ("at", ctypes.c_void_p * MOST_RANK),
        ("values", ctypes.c_void_p),
    )


def pending(declared: Declared, sizes: Mapping[str, int], dtype: str) -> Tensor:
    """What stands for a result until the kernel has run: its extents and its type, and no entries."""
    return Tensor(declared.layout, dict(sizes), {ENTRIES: np.empty(0, dtype)})


def is_pending(tensor: Tensor) -> bool:
    return tensor.layout.values[0].name == ENTRIES


@dataclass(frozen=True)
class Assembly:
    """How entries become a tensor: its layout, the types of its index arrays, and whether these are fixed; else they
    are wide where the extents or the number of entries need it. `prune`: what equals the fill value is left out.
    `update`: numpy's name of the operator that combines entries at one place. `most`: the bytes that entries and
    workspaces may take (0: as many as there are)."""

    layout: Layout
    index_types: Mapping[str, str]
    is_fixed: bool
    prune: bool = False
    update: str = "add"
    most: int = 0

    def tensor(self, name: str, entries: Coordinates, dtype: np.dtype[Any], threads: int) -> Tensor:
        """Raises DataError where the layout has no place for an entry, or there is no memory."""
        try:
            made = self._packed(name, entries, threads)
            if made.dtype != entries.values.dtype:
                return self._of_what_differs(name, entries, threads)
            if self.prune:
                made = self._pruned(name, made, dtype, threads)
        except DataError as error:
            raise named(error, name) from error
        if made.dtype != dtype:
            made = _cast(made, dtype)
        return made

    def _packed(self, name: str, entries: Coordinates, threads: int) -> Tensor:
        from spfgen.run.bind import packed

        combine: Any = "sum" if self.update == "add" else getattr(np, self.update)
        return packed(self.layout, entries, name, self.index_types, self.is_fixed, combine, threads)

    def _of_what_differs(self, name: str, entries: Coordinates, threads: int) -> Tensor:
        """In a layout that has no values of its own: what is stored differs from the fill, and nothing else does."""
        from spfgen.run.entries import summed

        found = summed(entries, self.update)
        kept = found.values != found.values.dtype.type(self.layout.fill)
        columns = tuple(c[kept] for c in found.coords)
        return self._packed(name, Coordinates(found.shape, columns, found.values[kept]), threads)

    def _pruned(self, name: str, made: Tensor, dtype: np.dtype[Any], threads: int) -> Tensor:
        from spfgen.run.entries import own_entries

        found = own_entries(made)
        kept = found.values.astype(dtype) != dtype.type(self.layout.fill)
        if kept.all():
            return made
        entries = Coordinates(found.shape, tuple(c[kept] for c in found.coords), found.values[kept])
        return self._packed(name, entries, threads)


def _cast(tensor: Tensor, dtype: np.dtype[Any]) -> Tensor:
    own = {v.name for v in tensor.layout.values}
    with np.errstate(all="ignore"):  # what does not fit is cast as in C
        arrays = {n: a.astype(dtype) if n in own else a for n, a in tensor.arrays.items()}
    return Tensor(tensor.layout, tensor.sizes, arrays)


@contextmanager
def taken(struct: ctypes.Structure, shape: tuple[int, ...], dtype: str) -> Iterator[Coordinates]:
    """The entries over the memory of the C, which is given back afterwards, whatever happens."""
    entries: EntriesStruct = getattr(struct, FIELD)
    try:
        count = entries.count
        columns = tuple(_view(entries.at[k], count, np.dtype(np.int64)) for k in range(len(shape)))
        yield Coordinates(shape, columns, _view(entries.values, count, np.dtype(dtype)))
    finally:
        free = _free()
        for pointer in (*entries.at, entries.values):
            free(pointer)
        ctypes.memset(ctypes.byref(entries), 0, ctypes.sizeof(entries))


def _view(pointer: int | None, count: int, dtype: np.dtype[Any]) -> Array:
    if not count or pointer is None:
        return np.empty(0, dtype)
    memory: Any = (ctypes.c_char * (count * dtype.itemsize)).from_address(pointer)
    found: Array = np.frombuffer(memory, dtype)
    return found


@cache
def _free() -> Any:
    free = ctypes.CDLL(None).free
    free.argtypes = (ctypes.c_void_p,)
    free.restype = None
    return free
