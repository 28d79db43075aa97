"""Matrices whose entries lie in segments, a row or a column each, one behind the other: parts of them without a scan.

Which layouts these are is said by how they are packed (layout/table.py): an array says where segments begin. They are
copied whole, so that work follows from what is taken.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from spfgen import tuning
from spfgen.lang.fills import plain_fill
from spfgen.layout.fill import differs
from spfgen.layout.keys import key_plan
from spfgen.layout.nodes import Layout
from spfgen.layout.order import in_order
from spfgen.layout.pack import key_orders
from spfgen.layout.proofs import stored_once
from spfgen.run.arrays.reductions import Groups
from spfgen.run.by_table import as_they_are, fit, table
from spfgen.run.calls.functions import address, has_shared, shared
from spfgen.run.calls.layout_signature import refilled, remember
from spfgen.run.calls.validation_cache import trust
from spfgen.run.conversion import Fall
from spfgen.run.tensor import Array, Tensor, check_unchanged

_MEMORY = threading.local()
"""What `scratch` gives, of each thread."""


def scratch(name: str, count: int, dtype: np.dtype[Any]) -> Array:
    """Memory that holds anything, until the next call with this name: to be given new pages for a large array can take
    longer than a merge does."""
    if not tuning.SCRATCH_LEAST <= count * dtype.itemsize <= tuning.SCRATCH_MOST:
        return np.empty(count, dtype)
    found: Array | None = _MEMORY.__dict__.get(name)
    if found is None or found.nbytes < count * dtype.itemsize:
        found = _MEMORY.__dict__[name] = np.empty(count * dtype.itemsize + 64, np.uint8)
    begin = -address(found) % 16
    return found[begin : begin + count * dtype.itemsize].view(dtype)


@dataclass(frozen=True)
class CompressedAxis:
    """The names of the arrays: of where segments begin, of the coordinates in them, of the values. `along` is the
    dimension that has a segment for each coordinate."""

    begin: str
    column: str
    value: str
    along: int


_FORMS: dict[Layout, CompressedAxis | None] = {}


def form_of(layout: Layout) -> CompressedAxis | None:
    """None for layouts that are no segments."""
    if layout not in _FORMS:
        remember(_FORMS, layout, _form(layout))
    return _FORMS[layout]


def _form(layout: Layout) -> CompressedAxis | None:
    found = table(layout) if layout.rank == 2 else None
    shaped = None if found is None else found.at((4, 4))
    if shaped is None or not shaped.numbers.lead or len(layout.arrays) != 3 or len(shaped.numbers.columns) != 1:
        return None
    numbers, lead = shaped.numbers, shaped.numbers.lead
    (column, other), key = next(iter(numbers.columns.items())), shaped.table.key
    along = numbers.slots[key.fields[0].name]
    assert lead is not None
    begin = layout.index(lead)
    if other == along or len(begin.extents) != 1 or {lead, column, layout.values[0].name} != {*layout.arrays}:
        return None
    return CompressedAxis(lead, column, layout.values[0].name, along)


@dataclass(frozen=True)
class Segments:
    """A tensor as segments: those of `begin[k]` to `begin[k + 1]`."""

    tensor: Tensor
    form: CompressedAxis
    begin: Array
    column: Array
    values: Array

    @property
    def count(self) -> int:
        return self.tensor.shape[self.form.along]

    @property
    def width(self) -> int:
        """The extent of what lies in a segment."""
        return self.tensor.shape[1 - self.form.along]

    def one(self, place: int) -> tuple[Array, Array]:
        """The coordinates and the values of a segment."""
        low, high = int(self.begin[place]), int(self.begin[place + 1])
        return self.column[low:high], self.values[low:high]

    def range(self, low: int, high: int) -> Tensor | None:
        """The segments from `low` to below `high`."""
        first, last = int(self.begin[low]), int(self.begin[high])
        begin = self.begin[low : high + 1] - self.begin[low]
        return self.made(begin, self.column[first:last], self.values[first:last], self.width)

    def taken(self, places: Array) -> Tensor | None:
        """Those segments, in that order."""
        start = self.begin[places]
        lengths = self.begin[places + 1] - start
        begin = np.zeros(len(places) + 1, np.int64)
        np.cumsum(lengths, out=begin[1:])
        column, values = np.empty(begin[-1], self.column.dtype), np.empty(begin[-1], self.values.dtype)
        if self.column.dtype == self.begin.dtype and has_shared(len(values)):
            given = (np.ascontiguousarray(places, np.int64), self.begin, begin, self.column, column)
            copied = (self.values, values)
            take = shared(f"segments_taken_{column.dtype.name}")
            take(len(places), *map(address, given), values.itemsize, *map(address, copied))
        else:
            at = np.repeat(start - begin[:-1], lengths)
            at += np.arange(len(at))
            np.take(self.column, at, out=column)
            np.take(self.values, at, out=values)
        return self.made(begin, column, values, self.width)

    def within(self, low: int, high: int, step: int = 1) -> Tensor | None:
        """Of each segment what lies from `low` to below `high`, at each `step`."""
        kept = (self.column >= low) & (self.column < high)
        if step != 1:
            kept &= (self.column - low) % step == 0
        before = np.zeros(len(kept) + 1, np.int64)
        np.cumsum(kept, out=before[1:])
        column = (self.column[kept] - low) // step
        return self.made(before[self.begin], column, self.values[kept], len(range(low, high, step)))

    def reduced(self, function: np.ufunc, dtype: Any, own: np.dtype[Any]) -> Groups:
        """Of each segment that has entries."""
        lengths = np.diff(self.begin)
        there = np.flatnonzero(lengths)
        return function.reduceat(self.values, self.begin[there], dtype=dtype), lengths[there], (there,)

    def reduced_across(self, function: np.ufunc, dtype: Any, own: np.dtype[Any]) -> Groups:
        """Of what stands at one coordinate of the segments. The first value begins, as in numpy."""
        counts = np.bincount(self.column, minlength=self.width)
        there = np.flatnonzero(counts)
        if function is np.add and own == np.float64 and self.values.dtype == own:
            return np.bincount(self.column, self.values, self.width)[there], counts[there], (there,)
        found = np.zeros(self.width, own)
        values = self.values.astype(own, copy=False)
        if function.identity is None:  # max and its like: what is there twice changes nothing
            found[self.column[::-1]] = values[::-1]
        elif function.identity:
            found[there] = np.asarray(function.identity).astype(found.dtype)  # -1 of unsigned integers, too
        function.at(found, self.column, values)
        return found[there], counts[there], (there,)

    def times(self, dense: Array, kind: np.dtype[Any]) -> Array:
        """The product with a vector or a matrix, where segments are rows."""
        there = np.flatnonzero(np.diff(self.begin))
        found = np.zeros((self.count, *dense.shape[1:]), kind)
        if len(there):
            values = self.values if dense.ndim == 1 else self.values[:, None]
            terms = np.multiply(values, dense[self.column], dtype=kind)
            found[there] = np.add.reduceat(terms, self.begin[there], dtype=kind)
        return found

    def made(
        self, begin: Array, column: Array, values: Array, width: int, layout: Layout | None = None
    ) -> Tensor | None:
        """A tensor in the same layout, or with another fill value; None where it does not say so much."""
        layout, form = layout or self.tensor.layout, self.form
        extents = (len(begin) - 1, width)
        found = table(layout)
        shaped = None if found is None else found.at(extents if form.along == 0 else extents[::-1])
        if shaped is None:
            return None
        kinds = tuple([(a.name, self.tensor.arrays[a.name].dtype.name) for a in layout.indexes])
        if not fit(shaped, kinds):
            return None
        try:
            own = as_they_are(shaped, {form.column: column}, np.ascontiguousarray(values), kinds, (len(values),))
        except Fall:
            return None
        if own is None or own.arrays[form.begin].shape != begin.shape:
            return None
        own.arrays[form.begin][...] = begin
        trust(layout, own.sizes, own.arrays)
        return Tensor(layout, own.sizes, own.arrays)


def segments_of(tensor: Tensor) -> Segments | None:
    """None where it is not in segments that lie one behind the other."""
    form = form_of(tensor.layout)
    if form is None:
        return None
    check_unchanged(tensor)
    begin, column, values = (tensor.arrays[n] for n in (form.begin, form.column, form.value))
    if len(begin) != tensor.shape[form.along] + 1 or begin[0] != 0 or begin[-1] != len(values) or column.ndim != 1:
        return None
    return Segments(tensor, form, begin, column, values)


def merged(first: Tensor, second: Tensor, only_first: bool, only_second: bool) -> Merged | None:
    """What two tensors in one layout of segments have in common, and what only one of them has; None for others, and
    where their columns are not known to rise."""
    if first.layout.name != second.layout.name or first.shape != second.shape or not rises(first.layout):
        return None
    a, b = segments_of(first), segments_of(second)
    if a is None or b is None or a.form != b.form or not has_shared(len(a.values) + len(b.values)):
        return None
    kinds = {x.dtype for x in (a.begin, a.column, b.begin, b.column)}
    if len(kinds) != 1:
        return None
    (kind,) = kinds
    most = len(a.values) + len(b.values)
    if most > np.iinfo(kind).max:
        return None
    begin, column = np.empty(a.count + 1, kind), scratch("column", most + 1, kind)
    own = [scratch(n, most + 1, p.values.dtype) for n, p in (("a", a), ("b", b))]
    fills = [np.array([p.tensor.fill_value]) for p in (a, b)]
    given: list[int] = []
    for part, fill in zip((a, b), fills, strict=True):
        held = [address(x) for x in (part.begin, part.column, part.values)]
        given += (*held, part.values.itemsize, address(fill))
    merge = shared(f"segments_merged_{kind.name}")
    count = merge(a.count, *given, int(only_first), int(only_second), *map(address, (begin, column, *own)))
    return Merged(a, begin, column[:count], [v[:count] for v in own])


@dataclass(frozen=True)
class Merged:
    """The entries of two tensors side by side: `values` are those of each, its fill where it has none. They and the
    columns lie in memory that the next call uses again."""

    first: Segments
    begin: Array
    column: Array
    values: Sequence[Array]

    def with_values(self, values: Array, fill: Any) -> Tensor | None:
        """A tensor in the layout of the first, without what equals the fill."""
        begin, column = self.begin, self.column
        kept = differs(values, plain_fill(fill))
        if kept.all():
            column = column.copy()
            values = values.copy() if any(np.may_share_memory(values, v) for v in self.values) else values
        else:
            before = np.zeros(len(kept) + 1, np.int64)
            np.cumsum(kept, out=before[1:])
            begin, column, values = before[begin], column[kept], values[kept]
        layout = refilled(self.first.tensor.layout, plain_fill(fill))
        return self.first.made(begin, column, values, self.first.width, layout)


@lru_cache(maxsize=256)
def rises(layout: Layout) -> bool:
    """Whether the columns of each segment are proved to rise: each is there once, and packing has nothing to sort."""
    found = form_of(layout)
    if found is None or not stored_once(layout).proved:
        return False
    key = key_plan(layout, key_orders(layout))
    return in_order(layout, key)


def joined(tensors: Sequence[Tensor], axis: int) -> Tensor | None:
    """Tensors in one layout of segments one behind the other, or side by side; None for others."""
    parts = [segments_of(t) for t in tensors]
    known = [p for p in parts if p is not None]
    if len(known) < len(parts) or len({t.layout for t in tensors}) != 1 or len({t.dtype for t in tensors}) != 1:
        return None
    first, values = known[0], np.concatenate([p.values for p in known])
    if first.form.along == axis:
        if len({p.width for p in known}) != 1:
            return None
        ends = np.cumsum([0, *(len(p.values) for p in known)])
        begin = np.concatenate([np.zeros(1, np.int64), *(p.begin[1:] + e for p, e in zip(known, ends, strict=False))])
        return first.made(begin, np.concatenate([p.column for p in known]), values, first.width)
    if len({p.count for p in known}) != 1:
        return None
    begin = np.asarray(np.sum([p.begin for p in known], axis=0, dtype=np.int64))
    column = np.empty(len(values), np.int64)
    free: Array = begin[:-1].copy()
    shift = 0
    for part in known:
        lengths = np.diff(part.begin)
        at = np.arange(len(part.values)) + np.repeat(free - part.begin[:-1], lengths)
        column[at], values[at] = part.column + np.int64(shift), part.values
        free = free + lengths
        shift += part.width
    return first.made(begin, column, values, shift)
