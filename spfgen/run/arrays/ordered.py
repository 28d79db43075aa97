"""Tensors whose entries lie in the order of their coordinates, each once: rows one behind the other, or lists.

Which layouts these are is said by how they are packed (layout/table.py): arrays hold the coordinates as they are, and
one may say where the segments of the first of them begin. Two such tensors are merged without a search.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from spfgen import tuning
from spfgen.facts.formula import Bin, Num, Var
from spfgen.lang.fills import plain_fill
from spfgen.layout.fill import differ, differs
from spfgen.layout.keys import key_plan
from spfgen.layout.nodes import Layout
from spfgen.layout.order import in_order
from spfgen.layout.pack import key_orders
from spfgen.layout.proofs import stored_once
from spfgen.run.calls.bind import NARROW
from spfgen.run.calls.functions import address, has_shared, shared
from spfgen.run.calls.layout_signature import form_of as signature_of
from spfgen.run.calls.layout_signature import refilled
from spfgen.run.calls.validation_cache import trust
from spfgen.run.packing_interpreter import table
from spfgen.run.tensor import Array, Tensor, check_unchanged

MOST_COLUMNS = 32
LARGEST = 2**63 - 1
_MEMORY = threading.local()
"""What `scratch` gives, of each thread."""


def scratch(name: str, count: int, dtype: np.dtype[Any]) -> Array:
    """Memory that holds anything, until the next call with this name: to be given new pages for a large array can take
    longer than a merge does."""
    if not tuning.SCRATCH_LEAST <= count * dtype.itemsize <= tuning.SCRATCH_MOST:
        return np.empty(count, dtype)
    memory: Array | None = _MEMORY.__dict__.get(name)
    if memory is None or memory.nbytes < count * dtype.itemsize:
        memory = _MEMORY.__dict__[name] = np.empty(count * dtype.itemsize + 64, np.uint8)
    begin = -address(memory) % 16
    return memory[begin : begin + count * dtype.itemsize].view(dtype)


@lru_cache(maxsize=16)
def _largest(kind: np.dtype[Any]) -> int:
    return int(np.iinfo(kind).max)


@lru_cache(maxsize=64)
def _merging(kind: np.dtype[Any]) -> str:
    """Of the function for that type; numpy takes long to say how a type is called."""
    return f"merged_{kind.name}"


def _plain(array: Array, kind: np.dtype[Any]) -> Array:
    """numpy.ascontiguousarray, which takes its time for arrays that are so already."""
    return array if array.dtype == kind and array.flags.c_contiguous else np.ascontiguousarray(array, kind)


@dataclass(frozen=True)
class Form:
    """The names of the arrays: of where segments begin, "" where there are none; of the coordinates; of the values.
    `dims` are the dimensions in the order that counts: with segments the first one is theirs. `size` is how many."""

    begin: str
    columns: tuple[str, ...]
    dims: tuple[int, ...]
    value: str
    size: str

    @property
    def own_dims(self) -> tuple[int, ...]:
        """Those of the columns."""
        return self.dims[len(self.dims) - len(self.columns) :]


def form_of(layout: Layout) -> Form | None:
    """None for other layouts."""
    known = signature_of(layout)
    if known.form is False:
        known.form = _form(layout.unfilled)
    form: Form | None = known.form
    return form


@lru_cache(maxsize=256)
def _form(layout: Layout) -> Form | None:
    key_table = table(layout)
    shaped = None if key_table is None else key_table.at((4,) * layout.rank)
    if shaped is None or shaped.numbers.lead is None or layout.rank > MOST_COLUMNS or len(layout.sizes) != 1:
        return None
    numbers, lead, (size,) = shaped.numbers, shaped.numbers.lead, layout.sizes
    dims = tuple([numbers.slots[f.name] for f in shaped.table.key.fields])
    of_dim = {d: n for n, d in numbers.columns.items()}
    column_dims = dims[1:] if lead else dims
    if len(of_dim) != len(column_dims) or set(of_dim) != set(column_dims):
        return None
    columns, value = tuple([of_dim[d] for d in column_dims]), layout.values[0].name
    if {lead, *columns, value} - {""} != {*layout.arrays} or any(
        tuple(layout.extents(n)) != (Var(size),) for n in (*columns, value)
    ):
        return None
    if lead and tuple(layout.extents(lead)) != (Bin("+", Var(layout.parameters[dims[0]]), Num(1)),):
        return None
    return Form(lead, columns, dims, value, size)


def rises(layout: Layout) -> bool:
    """Whether it is proved that entries lie in order, each once: packing has nothing to sort."""
    known = signature_of(layout)
    if known.rises is None:
        known.rises = _rises(layout.unfilled)
    return known.rises


@lru_cache(maxsize=256)
def _rises(layout: Layout) -> bool:
    if form_of(layout) is None or not stored_once(layout).proved:
        return False
    return in_order(layout, key_plan(layout, key_orders(layout)))


def are_whole(form: Form, tensor: Tensor) -> bool:
    """Whether the entries are all that the arrays hold."""
    arrays = tensor.arrays
    if not form.begin:
        return True
    begin = arrays[form.begin]
    return bool(begin[0] == 0 and begin[-1] == len(arrays[form.value]))


def made(
    layout: Layout, form: Form, shape: Sequence[int], begin: Array | None, columns: Sequence[Array], values: Array
) -> Tensor | None:
    """A tensor of such arrays, in the types of index arrays that the layout has; None where a number does not fit."""
    signature, count = signature_of(layout), len(values)
    given = dict(zip(form.columns, columns, strict=True))
    if begin is not None:
        given[form.begin] = begin
    arrays: dict[str, Array] = {}
    for name in signature.indexes:
        array = given[name]
        kind = array.dtype if array.dtype in signature.types[name] else np.dtype(layout.index(name).types[0])
        if max(count, *shape) > _largest(kind):
            return None
        arrays[name] = _plain(array, kind)
        arrays[name].flags.writeable = False
    arrays[form.value] = np.ascontiguousarray(values)
    sizes = dict(zip(layout.parameters, map(int, shape), strict=True)) | {form.size: count}
    ready = {n: arrays[n] for n in signature.arrays}
    trust(layout, sizes, ready)
    return Tensor(layout, sizes, ready)


def of_rows(layout: Layout, shape: tuple[int, ...], coords: Sequence[Array], values: Array) -> Tensor | None:
    """A tensor of entries in row-major order, each once, in a layout that has them in this order; None in others."""
    form = form_of(layout)
    if form is None or form.dims != tuple(range(layout.rank)) or not rises(layout):
        return None
    kind = np.dtype(np.int32 if max(len(values), *shape) <= NARROW else np.int64)
    begin = begins(coords[0], shape[0], kind) if form.begin else None
    if form.begin and begin is None:
        return None
    return made(layout, form, shape, begin, [coords[d].astype(kind) for d in form.own_dims], values)


def begins(column: Array, extent: int, kind: np.dtype[Any]) -> Array | None:
    """Where the segments of a column that never falls begin, and the last one ends; None where most would be empty."""
    if extent > tuning.CONVERT_EMPTY_GROUPS * len(column) + 2**16:
        return None
    starts = np.zeros(extent + 1, kind)
    np.cumsum(np.bincount(column, minlength=extent), out=starts[1:])
    return starts


def transposed(tensor: Tensor, order: Sequence[int]) -> Tensor | None:
    """numpy.transpose of lists of coordinates: they are counted, one dimension after the other; None of others."""
    form = form_of(tensor.layout)
    if form is None or form.begin or not rises(tensor.layout):
        return None
    check_unchanged(tensor)
    values = tensor.arrays[form.value]
    columns = {d: tensor.arrays[n] for d, n in zip(form.dims, form.columns, strict=True)}
    new = [order[d] for d in form.dims]  # the old dimensions in the order in which they count then
    counted = _to_count(new, form.dims)
    place = places_in_order([columns[d] for d in counted], [tensor.shape[d] for d in counted], len(values))
    if place is None:
        return None
    shape = [tensor.shape[d] for d in order]
    return made(tensor.layout, form, shape, None, [columns[d][place] for d in new], values[place])


def places_in_order(columns: Sequence[Array], extents: Sequence[int], count: int) -> Array | None:
    """The places of entries in the order of the last of these columns, where that is equal of the one before, and so
    on: they are counted, one column after the other. None where numpy is to do it (run/later.py), and where most
    numbers would be of no entry."""
    most, kinds = max(extents, default=0), {c.dtype for c in columns}
    if len(kinds) > 1 or most > tuning.CONVERT_EMPTY_GROUPS * count + 2**16 or not has_shared(count):
        return None
    kind = kinds.pop() if kinds else np.dtype(np.int64)
    place, start = np.arange(count, dtype=kind), np.empty(most + 1, kind)
    for column, extent in zip(columns, extents, strict=True):
        before, place = place, np.empty(count, kind)
        shared(f"counted_{kind.name}")(count, extent, *[address(a) for a in (column, before, start, place)])
    return place


def _to_count(new: Sequence[int], old: Sequence[int]) -> list[int]:
    """The dimensions to count by, in turn: not those at the end, which are in order as they are."""
    kept = len(new)
    while kept > 0 and (kept == len(new) or old.index(new[kept - 1]) < old.index(new[kept])):
        kept -= 1
    return list(new[:kept])[::-1]


# --- two side by side ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Side:
    """One of two that are merged: its segments (None: one of all entries), columns of one type, values, fill."""

    begin: Array | None
    columns: Sequence[Array]
    values: Array
    fill: Any


@dataclass(frozen=True, slots=True)
class Sides:
    """The entries of both: `values` are those of each, its fill where it has none. They and the columns may lie in
    memory that the next call uses again."""

    begin: Array | None
    columns: Sequence[Array]
    values: Sequence[Array]

    def without(self, values: Array, fill: Any) -> tuple[Array | None, Sequence[Array], Array]:
        """(begin, columns, values) of what differs from the fill, in memory of its own."""
        if differ(values, fill):
            kept_values = values.copy() if any(np.may_share_memory(values, v) for v in self.values) else values
            return self.begin, [c.copy() for c in self.columns], kept_values
        begin, kept = self.begin, differs(values, fill)
        if begin is not None:
            before = np.zeros(len(kept) + 1, begin.dtype)
            np.cumsum(kept, out=before[1:])
            begin = before[begin]
        return begin, [c[kept] for c in self.columns], values[kept]


def sides(extents: Sequence[int], first: Side, second: Side, only: tuple[bool, bool]) -> Sides | None:
    """What two have in common, and what only one of them has where that is asked for. `extents` are those of the
    columns. None where numbers do not fit, and where numpy is to do it (run/later.py)."""
    most = len(first.values) + len(second.values)
    if prod(extents) > LARGEST or not has_shared(most):
        return None
    kind = first.columns[0].dtype
    parts = [p for s in (first, second) for p in (s.begin, *s.columns) if p is not None]
    if any(p.dtype != kind for p in parts):
        kind = np.dtype(np.int64)
    if most > _largest(kind):
        return None
    count = 1 if first.begin is None else len(first.begin) - 1
    words: list[int] = [count, len(first.columns), *map(int, only)]
    kept_alive: list[Array] = []
    for side in (first, second):
        begin = np.array([0, len(side.values)]) if side.begin is None else side.begin
        values, fill = _words(side)
        arrays_of_side = [_plain(begin, kind), values, fill, *[_plain(c, kind) for c in side.columns]]
        kept_alive += arrays_of_side
        words += map(address, arrays_of_side)
    begin = np.empty(count + 1, kind)
    columns = [scratch(f"column {d}", most + 1, kind) for d in range(len(first.columns))]
    places = [scratch(n, most + 1, np.dtype(np.uint64)) for n in "ab"]
    words += map(address, (begin, *places, *columns))
    words += extents
    given = np.array(words, np.int64)
    total = shared(_merging(kind))(address(given))
    both = [_values(s, w[:total]) for s, w in zip((first, second), places, strict=True)]
    return Sides(None if first.begin is None else begin, [c[:total] for c in columns], both)


def _words(side: Side) -> tuple[Array, Array]:
    """Values of eight bytes as they are, else the numbers of their places, from 1 on; and the fill, or 0."""
    if side.values.dtype.itemsize == 8:
        return np.ascontiguousarray(side.values).view(np.uint64), np.array([side.fill], side.values.dtype)
    return np.arange(1, len(side.values) + 1, dtype=np.uint64), np.zeros(1, np.uint64)


def _values(side: Side, words: Array) -> Array:
    if side.values.dtype.itemsize == 8:
        return words.view(side.values.dtype)
    numbered: Array = np.concatenate([np.array([side.fill], side.values.dtype), side.values])[words.view(np.int64)]
    return numbered


@dataclass(frozen=True, slots=True)
class Merged:
    """Two tensors in one layout side by side."""

    first: Tensor
    form: Form
    both: Sides

    @property
    def values(self) -> Sequence[Array]:
        return self.both.values

    def with_values(self, values: Array, fill: Any) -> Tensor | None:
        """A tensor in the layout of the first, without what equals the fill."""
        number = plain_fill(fill)
        begin, columns, kept_values = self.both.without(values, number)
        return made(refilled(self.first.layout, number), self.form, self.first.shape, begin, columns, kept_values)


def merged(first: Tensor, second: Tensor, only: tuple[bool, bool]) -> Merged | None:
    """What two tensors in one layout have in common, and what only one of them has; None for others."""
    form = form_of(first.layout)
    if form is None or first.layout.name != second.layout.name or first.shape != second.shape:
        return None
    if form_of(second.layout) != form or not rises(first.layout):
        return None
    for tensor in (first, second):
        check_unchanged(tensor)
        if not are_whole(form, tensor):
            return None
    extents = [first.shape[d] for d in form.own_dims]
    both = sides(extents, _side(form, first), _side(form, second), only)
    return None if both is None else Merged(first, form, both)


def _side(form: Form, tensor: Tensor) -> Side:
    arrays = tensor.arrays
    begin = arrays[form.begin] if form.begin else None
    return Side(begin, [arrays[n] for n in form.columns], arrays[form.value], tensor.fill_value)
