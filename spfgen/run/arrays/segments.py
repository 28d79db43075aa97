"""Matrices whose entries lie in segments, a row or a column each, one behind the other: parts of them without a scan.

Which layouts these are is said by `ordered.form_of`: an array says where segments begin. They are copied whole, so that
work follows from what is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spfgen import tuning
from spfgen.layout.nodes import Layout
from spfgen.run.arrays import ordered
from spfgen.run.calls.detect_layout import candidates
from spfgen.run.calls.functions import address, has_shared, shared
from spfgen.run.calls.layout_signature import refilled, remember
from spfgen.run.tensor import Array, Tensor, check_unchanged

Groups = tuple[Array, Array, tuple[Array, ...]]
"""(reductions of the entries with equal coordinates in some dimensions, how many they are, the coordinates)."""


@dataclass(frozen=True)
class CompressedAxis:
    """The names of the arrays: of where segments begin, "" where a column says it; of the coordinates in them, of the
    values. `along` is the dimension that has a segment for each coordinate."""

    begin: str
    column: str
    value: str
    along: int


_FORMS: dict[Layout, CompressedAxis | None] = {}

MOST_PICKED = 2**31 - 1
"""Results of more entries are for those who find out before whether there is room."""


def form_of(layout: Layout) -> CompressedAxis | None:
    """None for layouts that are no segments."""
    if layout not in _FORMS:
        form = ordered.form_of(layout) if layout.rank == 2 else None
        axis = None
        if form is not None and (form.begin or ordered.rises(layout)):
            axis = CompressedAxis(form.begin, form.columns[-1], form.value, form.dims[0])
        remember(_FORMS, layout, axis)
    return _FORMS[layout]


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

    def picked(self, places: Array) -> Tensor | None:
        """Of each segment what lies at those places, in that order; None where there are far more places than
        entries."""
        count = len(self.values)
        if max(self.width, len(places)) > tuning.CONVERT_EMPTY_GROUPS * count + 2**16:
            return None
        order, times = np.argsort(places, kind="stable"), np.bincount(places, minlength=self.width)
        first = np.cumsum(times) - times
        wanted = times[self.column]
        before = np.zeros(count + 1, np.int64)
        np.cumsum(wanted, out=before[1:])
        begin = before[self.begin]
        if begin[-1] > MOST_PICKED:
            return None
        at = np.repeat(np.arange(count), wanted) if times.max(initial=0) > 1 else np.flatnonzero(wanted)
        column = order[first[self.column[at]] + (np.arange(len(at)) - before[at])]
        if np.any(np.diff(order) < 0):
            segment = np.repeat(np.arange(self.count), np.diff(begin))
            turn = ordered.places_in_order((column, segment), (len(places), self.count), len(at))
            if turn is None:
                turn = np.argsort(segment * len(places) + column, kind="stable")
            at, column = at[turn], column[turn]
        return self.made(begin, column, self.values[at], len(places))

    def reduced(self, function: np.ufunc, dtype: Any, result_type: np.dtype[Any]) -> Groups:
        """Of each segment that has entries."""
        lengths = np.diff(self.begin)
        there = np.flatnonzero(lengths)
        return function.reduceat(self.values, self.begin[there], dtype=dtype), lengths[there], (there,)

    def reduced_across(self, function: np.ufunc, dtype: Any, result_type: np.dtype[Any]) -> Groups:
        """Of what stands at one coordinate of the segments. The first value begins, as in numpy."""
        counts = np.bincount(self.column, minlength=self.width)
        there = np.flatnonzero(counts)
        if function is np.add and result_type == np.float64 and self.values.dtype == result_type:
            return np.bincount(self.column, self.values, self.width)[there], counts[there], (there,)
        totals = np.zeros(self.width, result_type)
        values = self.values.astype(result_type, copy=False)
        if function.identity is None:  # max and its like: what is there twice changes nothing
            totals[self.column[::-1]] = values[::-1]
        elif function.identity:
            totals[there] = np.asarray(function.identity).astype(totals.dtype)  # -1 of unsigned integers, too
        function.at(totals, self.column, values)
        return totals[there], counts[there], (there,)

    def times(self, dense: Array, kind: np.dtype[Any]) -> Array:
        """The product with a vector or a matrix, where segments are rows."""
        there = np.flatnonzero(np.diff(self.begin))
        products = np.zeros((self.count, *dense.shape[1:]), kind)
        if len(there):
            values = self.values if dense.ndim == 1 else self.values[:, None]
            terms = np.multiply(values, dense[self.column], dtype=kind)
            products[there] = np.add.reduceat(terms, self.begin[there], dtype=kind)
        return products

    def made(self, begin: Array, column: Array, values: Array, width: int) -> Tensor | None:
        """A tensor in the same layout; None where it does not say so much."""
        layout, form = self.tensor.layout, ordered.form_of(self.tensor.layout)
        assert form is not None
        extents = (len(begin) - 1, width) if self.form.along == 0 else (width, len(begin) - 1)
        if max(len(values), *extents) > np.iinfo(self.column.dtype).max:
            return None
        if form.begin:
            first, columns = begin.astype(self.tensor.arrays[form.begin].dtype, copy=False), [column]
        else:
            first, columns = None, [np.repeat(np.arange(len(begin) - 1, dtype=column.dtype), np.diff(begin)), column]
        return ordered.made(
            layout, form, extents, first, [c.astype(self.column.dtype, copy=False) for c in columns], values
        )


def segments_of(tensor: Tensor) -> Segments | None:
    """None where it is not in segments that lie one behind the other."""
    form = form_of(tensor.layout)
    if form is None:
        return None
    check_unchanged(tensor)
    column, values = tensor.arrays[form.column], tensor.arrays[form.value]
    if column.ndim != 1:
        return None
    if form.begin:
        begin: Array | None = tensor.arrays[form.begin]
    else:
        ordered_form = ordered.form_of(tensor.layout)
        assert ordered_form is not None
        begin = ordered.begins(tensor.arrays[ordered_form.columns[0]], tensor.shape[form.along], column.dtype)
    if begin is None or len(begin) != tensor.shape[form.along] + 1 or begin[0] != 0 or begin[-1] != len(values):
        return None
    return Segments(tensor, form, begin, column, values)


def as_rows(tensor: Any) -> Any:
    """A list of entries as compressed rows, over the same columns and values: kernels find rows there; all else as it
    is."""
    form = form_of(tensor.layout) if isinstance(tensor, Tensor) else None
    if form is None or form.begin or form.along != 0:
        return tensor
    segments, layout = segments_of(tensor), refilled(candidates("scipy.csr", 2)[0].layout(), tensor.layout.fill)
    rows = ordered.form_of(layout)
    if segments is None or rows is None:
        return tensor
    row_tensor = ordered.made(layout, rows, tensor.shape, segments.begin, [segments.column], segments.values)
    return tensor if row_tensor is None else row_tensor


def as_list(rows: Tensor, layout: Layout) -> Tensor | None:
    """Compressed rows as a list of entries in this layout, over the same columns and values."""
    form, segments = ordered.form_of(layout), segments_of(rows)
    if form is None or form.begin or form.dims != (0, 1) or segments is None or segments.form.along != 0:
        return None
    first = np.repeat(np.arange(segments.count, dtype=segments.column.dtype), np.diff(segments.begin))
    return ordered.made(
        refilled(layout, rows.layout.fill), form, rows.shape, None, [first, segments.column], segments.values
    )


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
