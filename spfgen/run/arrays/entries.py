"""Tensors as sorted entries: what numpy works on when an operation is carried out by coordinates.

`Entries` is a normal form: coordinates ascend in row-major order, and each stands once. A value may equal the fill:
what is stored is computed with, a 0 that is stored times inf is nan. Of what is `computed` no value does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, TypeVar

import numpy as np

from spfgen import tuning
from spfgen.errors import DataError
from spfgen.lang.fills import plain_fill
from spfgen.lang.types import TYPES
from spfgen.layout.fill import differs, differs_as_number
from spfgen.layout.fill import filled as full
from spfgen.run.calls.functions import address, has_shared, shared
from spfgen.run.coordinates import Coordinates
from spfgen.run.tensor import DTYPES, Array, Tensor

MOST = 2**63 - 1
Stored = TypeVar("Stored", bound="Entries | Coordinates")


@dataclass(frozen=True, eq=False)
class Entries:
    """`coords` has an int64 array for each dimension; `fill`, a numpy number, is the value of all other coordinates."""

    shape: tuple[int, ...]
    coords: tuple[Array, ...]
    values: Array
    fill: Any

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    def to_dense(self) -> Array:
        """A new array. Raises DataError when it does not fit in memory."""
        dense = filled(self.shape, self.fill, self.dtype)
        dense[self.coords] = self.values if self.coords else self.values[-1] if len(self.values) else self.fill
        return dense


def filled(shape: tuple[int, ...], fill: Any, dtype: np.dtype[Any]) -> Array:
    """numpy.full. Raises DataError when it does not fit in memory."""
    try:
        return full(shape, plain_fill(fill), dtype)
    except (MemoryError, ValueError) as error:
        extents = " x ".join(map(str, shape))
        raise DataError(f"expected a dense array that fits in memory, but it is {extents}") from error


def shape_of(value: Any) -> tuple[int, ...]:
    """numpy.shape, which asks a tensor by way of all functions that it knows."""
    return value.shape if isinstance(value, Entries | Tensor | np.ndarray) else np.shape(value)


def nonzero_count(tensor: Tensor) -> int:
    """The number of elements that differ from the fill value."""
    return int(np.count_nonzero(differs_as_number(entries_of(tensor).values, tensor.layout.fill)))


def entries_of(tensor: Tensor) -> Entries:
    """All that a tensor stores, padding included; entries at one coordinate are added, as everywhere."""
    stored = tensor.to_coo()
    return normal(stored.shape, stored.coords, stored.values, tensor.fill_value)


def own_entries(tensor: Tensor) -> Entries:
    """What a tensor stores, to be put elsewhere: padding is only there because of its layout, and stays behind."""
    from spfgen.run.conversion import pads

    entries = entries_of(tensor)
    return pruned(entries) if pads(tensor.layout) else entries


def normal(shape: tuple[int, ...], coords: Sequence[Array], values: Array, fill: Any, *, once: bool = False) -> Entries:
    """The normal form of entries in any order; `once` says that no coordinate stands twice."""
    columns = tuple(coords)
    (key,) = numbered(shape, [len(values)], [columns])
    if key.size > 1 and not (key[1:] > key[:-1]).all():
        order, key = sorting(key)
        values, columns = values[order], tuple(c[order] for c in columns)
        first = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
        if not once and len(first) < len(key):
            values = np.asarray(np.add.reduceat(values, first), dtype=values.dtype)
            columns = tuple(c[first] for c in columns)
    return Entries(shape, columns, values, fill)


def computed(shape: tuple[int, ...], coords: Sequence[Array], values: Array, fill: Any) -> Entries:
    """The normal form of what a function gives, in a type that C has, without what equals the fill; no coordinate
    stands twice."""
    return pruned(normal(shape, coords, *in_c(values, fill), once=True))


def pruned(entries: Stored) -> Stored:
    """Without what equals the fill, bit by bit: a stored -0.0 stays."""
    kept = differs(entries.values, plain_fill(entries.fill))
    if kept.all():
        return entries
    return replace(entries, coords=tuple(c[kept] for c in entries.coords), values=entries.values[kept])


def in_c(values: Any, fill: Any) -> tuple[Any, Any]:
    """Both in a type that C has too (float16 becomes float32), the zero of the fill without a sign."""
    if values.dtype not in DTYPES and values.dtype.name not in TYPES:
        if values.dtype == np.float16:
            values = values.astype(np.float32)
        elif values.dtype.kind not in "biufc":
            raise DataError(f"expected numbers, but they are {values.dtype}")
        else:
            values = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)
    number = fill if type(fill) is values.dtype.type else np.asarray(fill).astype(values.dtype)[()]
    return values, values.dtype.type(0) if number == 0 else number


def same(values: Array, fill: Any) -> Array:
    """Where values equal the fill, bit by bit; but nan equals nan."""
    return ~differs(values, plain_fill(fill))


def numbered(shape: tuple[int, ...], counts: Sequence[int], sets: Sequence[tuple[Array, ...]]) -> list[Array]:
    """A number for each coordinate of several sets of `counts` coordinates: equal for equal ones, in row-major order.

    The row-major index where int64 holds it; else coordinates are ranked among those that occur.
    """
    if prod(shape) <= MOST:
        return [_row_major(shape, count, columns) for count, columns in zip(counts, sets, strict=True)]
    key, most = np.zeros(sum(counts), np.int64), 1
    for d, extent in enumerate(shape):
        column = np.concatenate([columns[d] for columns in sets])
        if most * extent > MOST:
            key, most = _ranked(key)
        if most * extent > MOST:
            column, extent = _ranked(column)
        key, most = key * extent + column, most * extent
    return np.split(key, np.cumsum(counts)[:-1])


def _row_major(shape: tuple[int, ...], count: int, columns: tuple[Array, ...]) -> Array:
    key = columns[0].astype(np.int64) if columns else np.zeros(count, np.int64)
    for extent, column in zip(shape[1:], columns[1:], strict=True):
        key *= extent
        key += column
    return key


def sorting(key: Array) -> tuple[Array, Array]:
    """(a stable order of numbers of which none is negative, the numbers in that order)."""
    if tuning.SORT_BY_NUMPY <= len(key) < 2**32 and has_shared(len(key)):
        words = key.astype(np.uint64)
        return _sorted_words(words, int(key.max()).bit_length()), words.view(np.int64)
    order = np.argsort(key, kind="stable")
    return order, key[order]


def _sorted_words(words: Array, bits: int) -> Array:
    """Sort the keys in place; where each was before."""
    count = len(words)
    of_place = max(1, (count - 1).bit_length())
    lead = min(bits, max(0, bits + of_place - 64, min(11, of_place - 5)))
    places, room = np.empty(count, np.uint32), np.empty(count, np.uint64)
    start = np.empty((1 << lead) + 1, np.int64)
    pointers = [address(a) for a in (words, places, room, start)]
    shared("keys_sort")(count, bits, lead, *pointers, 1)
    return places


def _ranked(column: Array) -> tuple[Array, int]:
    distinct, ranks = np.unique(column, return_inverse=True)
    return ranks.astype(np.int64), max(1, len(distinct))


def found_at(entries: Entries, coords: tuple[Array, ...], count: int) -> Array:
    """The values at other coordinates: the fill where there is no entry."""
    there, place = _looked_up(entries, coords, count)
    if not len(entries.values):
        return np.full(count, entries.fill, entries.dtype)
    return np.where(there, entries.values[place], entries.fill)


def stored_at(entries: Entries, coords: tuple[Array, ...], count: int) -> Array:
    """At which coordinates there is an entry."""
    return _looked_up(entries, coords, count)[0]


def _looked_up(entries: Entries, coords: tuple[Array, ...], count: int) -> tuple[Array, Array]:
    """Whether there is an entry at coordinates, and the place of one."""
    stored, asked = numbered(entries.shape, [len(entries.values), count], [entries.coords, coords])
    if not stored.size:
        return np.zeros(count, bool), np.zeros(count, np.int64)
    place = np.minimum(np.searchsorted(stored, asked), stored.size - 1)
    return np.asarray(stored[place] == asked), place


def groups(shape: tuple[int, ...], coords: Sequence[Array], count: int) -> tuple[Array, Array, tuple[Array, ...]]:
    """Entries with equal coordinates together: (an order of the entries, where in it a group begins, the coordinates
    of the groups). Within a group the order stays."""
    columns = tuple(coords)
    (key,) = numbered(shape, [count], [columns])
    order, ordered = (np.arange(count), key) if (key[1:] >= key[:-1]).all() else sorting(key)
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if count else np.zeros(0, np.int64)
    at = order[first]
    return order, first, tuple(c[at] for c in columns)
