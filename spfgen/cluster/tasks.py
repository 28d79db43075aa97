"""What single tasks do: pack a block, put parts of blocks together, run the kernel, combine results.

Blocks are tensors, or numpy arrays where they are dense without a layout. All is plain functions of plain values: dask
sends them to workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from spfgen.cluster.cuts import Bounds, Box, boxes, shown
from spfgen.cluster.sliced import cut_along, joined_along, moved_along
from spfgen.errors import DataError, SpfgenError, Unsupported
from spfgen.facts.formula import Var
from spfgen.lang import nodes as lang
from spfgen.lang.ops import OPERATORS, ufunc
from spfgen.lang.show import show_statement
from spfgen.lang.signs import PLACES
from spfgen.lang.spec import builtin_names
from spfgen.layout.fill import same_fill
from spfgen.layout.measure import measure
from spfgen.run.arrays.made import of_coordinates
from spfgen.run.calls.bind import coordinates
from spfgen.run.calls.entries import own_entries, pack_object, summed
from spfgen.run.calls.evaluate import Written
from spfgen.run.coordinates import Coordinates
from spfgen.run.tensor import Tensor


@contextmanager
def saying(where: str) -> Iterator[None]:
    """Whatever goes wrong says where: errors of ours in a note, others, such as a lack of memory or those of a
    person's function, in one of Python's, which tracebacks show."""
    try:
        yield
    except SpfgenError as error:
        error.notes = (*error.notes, where)
        raise
    except Exception as error:
        error.add_note(where)
        raise


def packed(entries: Coordinates, layout: Any, strict: bool) -> Tensor:
    """The entries in a layout, with its fill value if it says one; where it has no place for them and is only
    preferred, as coordinates."""
    from spfgen.run.handles import handle_of

    try:
        return pack_object(handle_of(advised(entries) if layout == AUTO else layout), entries, None, "sum")
    except (DataError, Unsupported):
        if strict:
            raise
    return pack_object(handle_of(of_coordinates(len(entries.shape))), entries, None, "sum")


def fill_in(layout: Any, rank: int) -> Any:
    """The value of what is not stored in a layout; 0 where it is chosen later."""
    from spfgen.run.handles import handle_of

    return 0 if layout is None or layout == AUTO else handle_of(layout).layout(rank).fill


AUTO = "auto"
"""In place of a layout: that which takes the least memory for a block."""


def advised(entries: Coordinates) -> Any:
    """Of the layouts that other libraries have, too, that in which entries take the least memory."""
    from spfgen.lang.parse import parse_layout_use
    from spfgen.lang.spec import SpecTree
    from spfgen.run.handles import LayoutHandle

    entries = summed(entries)
    best: tuple[float, Any] | None = None
    for name in of_libraries(len(entries.shape)):
        handle = LayoutHandle(SpecTree(), parse_layout_use(name))
        try:
            size = measure(handle.layout(len(entries.shape)), entries.shape, entries.coords, entries.values).bytes
        except (DataError, Unsupported):
            continue
        if best is None or size < best[0]:
            best = size, handle
    return of_coordinates(len(entries.shape)) if best is None else best[1]


@cache
def of_libraries(rank: int) -> tuple[str, ...]:
    """The names of the layouts of that rank that other libraries have, too; those that promise most of their arrays
    first."""
    from spfgen.run.handles import handle_of

    promises: dict[str, int] = {}
    for name in builtin_names():
        try:
            layout = handle_of(name).layout(rank)
        except SpfgenError:
            continue
        if layout.bindings and layout.rank == rank:
            promises[name] = sum(len(a.properties) for a in layout.indexes)
    return tuple(sorted(promises, key=lambda n: -promises[n]))


def split(entries: Coordinates, bounds: Sequence[Bounds]) -> dict[tuple[int, ...], Coordinates]:
    """The entries of each block, with coordinates that begin at 0 there; they are put in order once."""
    counts = [len(b) - 1 for b in bounds]
    which = [np.searchsorted(b, c, "right") - 1 for b, c in zip(bounds, entries.coords, strict=True)]
    flat = np.zeros(len(entries.values), np.int64)
    for count, numbers in zip(counts, which, strict=True):
        flat = flat * count + numbers
    order = np.argsort(flat, kind="stable")
    ends = np.searchsorted(flat[order], np.arange(int(np.prod(counts)) + 1))
    entries_of = {}
    for k, (place, box) in enumerate(boxes(bounds).items()):
        some = order[ends[k] : ends[k + 1]]
        coords = tuple(c[some] - low for c, (low, _) in zip(entries.coords, box, strict=True))
        shape = tuple(high - low for low, high in box)
        entries_of[place] = Coordinates(shape, coords, entries.values[some], entries.fill)
    return entries_of


def within(value: Any, box: Box) -> Any:
    """The part of a block in a box, in its own coordinates."""
    if all(low == 0 and high == n for (low, high), n in zip(box, value.shape, strict=True)):
        return value
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(value[tuple(slice(low, high) for low, high in box)])
    for axis, (low, high) in enumerate(box):
        if (low, high) == (0, value.shape[axis]):
            continue
        cut = cut_along(value, axis)
        part = moved_along(value, axis, low, high) if cut is None else cut.part(low, high)
        if part is not None:
            remaining_box = tuple((0, high - low) if k == axis else side for k, side in enumerate(box))
            return within(part, remaining_box)
    return packed(_inside(own_entries(value), box), value.layout, False)


def parts_of(tensor: Tensor, bounds: Sequence[Bounds], layout: Any) -> dict[tuple[int, ...], Tensor]:
    """The blocks of a tensor in a layout, its own without one: cut without copies of values where its relation says
    how, else put in order by its entries."""
    for axis, cut_bounds in enumerate(bounds):
        cut = cut_along(tensor, axis) if len(cut_bounds) > 2 else None
        if cut is None:
            continue
        parts = {}
        for k, (low, high) in enumerate(pairwise(cut_bounds)):
            whole = [(0, high - low) if a == axis else b for a, b in enumerate(bounds)]
            for place, part in parts_of(cut.part(low, high), whole, layout).items():
                parts[(*place[:axis], k, *place[axis + 1 :])] = part
        return dict(sorted(parts.items()))
    if all(len(b) == 2 for b in bounds) and (layout is None or is_in(tensor, layout)):
        return {(0,) * len(bounds): tensor}
    wanted = tensor.layout if layout is None else layout
    return {k: packed(e, wanted, layout is not None) for k, e in split(own_entries(tensor), bounds).items()}


def is_in(tensor: Tensor, layout: Any) -> bool:
    """Whether a tensor is in a layout as it is asked for, with its types."""
    from spfgen.run.handles import handle_of

    if layout == AUTO:
        return False

    handle = handle_of(layout)
    use = handle.use
    if use.value_type or use.index_type or use.array_types or use.fill is not None:
        return False
    return bool(handle.layout(tensor.ndim) == replace(tensor.layout, fill=0))


def _inside(entries: Coordinates, box: Box) -> Coordinates:
    kept = np.ones(len(entries.values), bool)
    for column, (low, high) in zip(entries.coords, box, strict=True):
        kept &= (column >= low) & (column < high)
    coords = tuple(c[kept] - low for c, (low, _) in zip(entries.coords, box, strict=True))
    return Coordinates(tuple(h - w for w, h in box), coords, entries.values[kept], entries.fill)


@dataclass(frozen=True)
class TakeBox:
    """What a block has in a box."""

    box: Box

    def __call__(self, block: Any) -> Any:
        return owned(within(block, self.box), block)


def owned(part: Any, block: Any) -> Any:
    """A part that does not keep the arrays of the block in memory, if it is less than half of them: a halo of a few
    rows would hold all of the block, of which the scheduler knows nothing."""
    if part is block or 2 * part.nbytes > block.nbytes:
        return part
    if isinstance(part, Tensor):
        return Tensor(part.layout, part.sizes, {n: _apart(a) for n, a in part.arrays.items()})
    return _apart(part)


def _apart(array: Any) -> Any:
    return array if array.base is None else array.copy()


@dataclass(frozen=True)
class JoinBlocks:
    """Puts blocks into one tensor of `shape`: the k-th begins at `starts[k]`. The result is in `layout`, or in that of
    the first block; a numpy array where a block is one."""

    shape: tuple[int, ...]
    starts: tuple[tuple[int, ...], ...]
    layout: Any = None

    def __call__(self, *parts: Any) -> Any:
        if len(parts) == 1 and parts[0].shape == self.shape:
            return parts[0]
        if any(isinstance(p, np.ndarray) for p in parts):
            return self._dense(parts)
        by_arrays = self._by_arrays(parts)
        if by_arrays is not None:
            return by_arrays
        fill = parts[0].fill_value
        entries = [own_entries(p) for p in parts]
        if any(not same_fill(fill, e.fill, e.values.dtype) for e in entries):
            entries = [coordinates(p.to_numpy(), "a block", fill) for p in parts]
        columns = tuple(
            np.concatenate([e.coords[d] + start[d] for e, start in zip(entries, self.starts, strict=True)])
            for d in range(len(self.shape))
        )
        values = np.concatenate([e.values for e in entries])
        whole = Coordinates(self.shape, columns, values, fill)
        return packed(whole, self.layout or parts[0].layout, self.layout is not None)

    def _by_arrays(self, parts: Sequence[Tensor]) -> Tensor | None:
        """The arrays of parts put one after another, axis by axis, in their own layout; None where that does not say
        how, or is not the one that is wanted."""
        some = [(s, p) for s, p in zip(self.starts, parts, strict=True) if 0 not in p.shape]
        for axis in reversed(range(len(self.shape))):
            groups: dict[tuple[int, ...], list[Tensor]] = {}
            for start, part in some:
                groups.setdefault((*start[:axis], 0, *start[axis + 1 :]), []).append(part)
            some = []
            for start, group in groups.items():
                joined_group = group[0] if len(group) == 1 else joined_along(group, axis)
                if joined_group is None:
                    return None
                some.append((start, joined_group))
        whole = some[0][1] if len(some) == 1 else None
        is_wanted = whole is not None and (self.layout is None or is_in(whole, self.layout))
        return whole if is_wanted and whole is not None and whole.shape == self.shape else None

    def _dense(self, parts: Sequence[Any]) -> Any:
        arrays = [p if isinstance(p, np.ndarray) else p.to_numpy() for p in parts]
        result = np.empty(self.shape, np.result_type(*arrays))
        for array, start in zip(arrays, self.starts, strict=True):
            result[tuple(slice(s, s + n) for s, n in zip(start, array.shape, strict=True))] = array
        return result


def joined(blocks: Any, bounds: Sequence[Bounds], layout: Any) -> Any:
    """All blocks, in nested lists as dask delivers them, as one tensor or array; a number where there is no axis."""
    flat = list(_flat(blocks, len(bounds)))
    if not bounds:
        return flat[0]
    all_boxes = [*boxes(bounds).values()]
    shape = tuple(b[-1] for b in bounds)
    starts = tuple(tuple(low for low, _ in box) for box in all_boxes)
    return JoinBlocks(shape, starts, layout)(*flat)


def _flat(blocks: Any, depth: int) -> Any:
    if depth <= 0:
        yield from (blocks if isinstance(blocks, list) else [blocks])
    elif depth == 1:
        yield from blocks
    else:
        for some in blocks:
            yield from _flat(some, depth - 1)


@dataclass(frozen=True)
class MakeBlock:
    """Packs what a function makes of the bounds of a block, or what is given."""

    layout: Any
    shape: tuple[int, ...]
    function: Callable[[Box], Any] | None = None
    box: Box = ()

    def __call__(self, *given: Any) -> Any:
        from spfgen.run.calls.entries import pack

        with saying(f"in the block {shown(self.box)}"):
            value = self.function(self.box) if self.function else given[0]
            shape = self.shape if isinstance(value, tuple) else None
            block = value
            if self.layout == AUTO:
                entries = own_entries(pack(value, of_coordinates(len(self.shape)), shape=shape))
                block = packed(entries, AUTO, strict=True)
            elif self.layout is not None:
                block = pack(value, self.layout, shape=shape)
            if tuple(block.shape) != self.shape:
                raise DataError(f"expected a block of shape {self.shape}, but it is {tuple(block.shape)}")
        return block


@dataclass(frozen=True)
class RunKernel:
    """Runs statements on parts of operands, with one thread unless another number is said: tasks run side by side.

    The result is that of the one target, or a dict of those of all. `started` are targets among the operands: what they
    hold is where the computation starts, and stays as it is. `best` says which result has the best values of `argmin`,
    and where its index begins: then the result is an array of both.
    """

    written: Written
    names: tuple[str, ...]
    targets: tuple[str, ...]
    sizes: tuple[tuple[str, int], ...] = ()
    given: tuple[tuple[str, Any], ...] = ()
    out: Any = None
    threads: int | None = None
    where: str = ""
    validate: str = "once"
    deterministic: bool = False
    prune: bool = False
    started: tuple[str, ...] = ()
    best: tuple[str, int] | None = None

    @property
    def text(self) -> str:
        """The statements of the block of work."""
        return "; ".join(map(show_statement, self.written.steps))

    def __call__(self, *parts: Any) -> Any:
        results = self.carried_out(*parts)
        if self.best is not None:
            name, start = self.best
            return found_best(results[self.targets[0]], results[name], start)
        if not isinstance(results, dict):
            return results
        return results[self.targets[0]] if len(self.targets) == 1 else {t: results[t] for t in self.targets}

    def carried_out(self, *parts: Any) -> Any:
        """The result, or a dict of several."""
        from spfgen.run.calls.evaluate import evaluate

        operands: dict[str, Any] = {**dict(self.given), **dict(zip(self.names, parts, strict=True))}
        operands |= {n: _copied(operands[n]) for n in self.started}
        with saying(f"in the block of work {self.where} of `{self.text}`"):
            return evaluate(self.written, operands, dict(self.sizes) or None, self.threads or 1, self.validate,
                            self.out, self.prune or None, self.deterministic)  # fmt: skip


def _copied(value: Any) -> Any:
    """One that may be written: an array, a tensor, or a number as an array without axes."""
    return value.copy() if hasattr(value, "copy") and not np.isscalar(value) else np.array(value)


@dataclass(frozen=True)
class PickResult:
    """One of the results of a task."""

    target: str

    def __call__(self, results: Mapping[str, Any]) -> Any:
        return results[self.target]


@dataclass(frozen=True)
class Empty:
    """A block without places."""

    shape: tuple[int, ...]
    dtype: Any
    layout: Any = None

    def __call__(self) -> Any:
        if self.layout is None:
            return np.zeros(self.shape, self.dtype)
        columns = tuple(np.empty(0, np.int64) for _ in self.shape)
        fill = fill_in(self.layout, len(self.shape))
        return packed(Coordinates(self.shape, columns, np.empty(0, self.dtype), fill), self.layout, False)


@dataclass(frozen=True)
class Full:
    """An array of one value."""

    shape: tuple[int, ...]
    dtype: Any
    value: Any

    def __call__(self) -> Any:
        return np.full(self.shape, self.value, self.dtype)


@dataclass(frozen=True)
class Combine:
    """Results of two blocks of work as one, by an operator that may take them in any order, or a function of the
    user."""

    op: str
    layout: Any = None
    function: lang.Function | None = None

    def __call__(self, a: Any, b: Any) -> Any:
        if self.function is None and not (isinstance(a, Tensor) and self.layout is not None):
            return getattr(np, OPERATORS[self.op].name)(a, b)
        try:
            return self._by_kernel(a, b)  # numpy would take many times the memory of sparse blocks
        except Unsupported:
            if self.function is not None:
                raise
        combined = getattr(np, OPERATORS[self.op].name)(a, b)
        return packed(own_entries(combined), self.layout, True)

    def _by_kernel(self, a: Any, b: Any) -> Any:
        from spfgen.run.calls.evaluate import evaluate

        indices = tuple(Var(f"i{k}") for k in range(np.ndim(a) if np.isscalar(a) else len(a.shape)))
        both = tuple(lang.Access(n, indices) for n in ("first", "second"))
        value = lang.Apply(self.op, both, None, self.function)
        step = lang.Statement(lang.Access("both", indices), "=", value)
        layout = self.layout if indices else None
        return evaluate(Written((step,)), {"first": a, "second": b}, None, 1, "once", layout)


def found_best(places: Any, values: Any, start: int) -> Any:
    """The places of the best values of a part, counted from the beginning of the whole, beside the values; -1 where
    there are none."""
    places, values = np.asarray(places), np.asarray(values)
    pairs = np.empty(places.shape, [("place", np.int64), ("value", values.dtype)])
    pairs["place"] = np.where(places < 0, -1, places + start)
    pairs["value"] = values
    return pairs


@dataclass(frozen=True)
class Better:
    """The better of what `argmin` or `argmax` found in two parts: nan before all, as numpy has it, and the first among
    equals."""

    op: str

    def __call__(self, a: Any, b: Any) -> Any:
        first, second = a["value"], b["value"]
        is_better = ufunc(PLACES[self.op])(second, first)
        if first.dtype.kind == "f":
            is_better = (is_better | np.isnan(second)) & ~np.isnan(first)
        return np.where((b["place"] >= 0) & ((a["place"] < 0) | is_better), b, a)


@dataclass(frozen=True)
class BestPlaces:
    """The places alone, in the layout of the result."""

    layout: Any
    dtype: Any

    def __call__(self, best: Any) -> Any:
        from spfgen.run.calls.entries import pack

        places = np.asarray(best["place"] if best.dtype.names else best).astype(self.dtype)  # else a block without any
        return places[()] if self.layout is None or not places.shape else pack(places, self.layout)


@dataclass(frozen=True)
class Start:
    """What a result held before, zeros if it was not there, updated by what was computed for it; or only its type."""

    op: str
    layout: Any = None
    function: lang.Function | None = None
    is_set: bool = False

    def __call__(self, reduced: Any, before: Any = None) -> Any:
        if before is None:
            before = np.zeros(np.shape(reduced), reduced.dtype)
        result = reduced if self.is_set else Combine(self.op, self.layout, self.function)(before, reduced)
        dtype = getattr(before, "dtype", None)
        return result if dtype is None or result.dtype == dtype else result.astype(dtype)


@dataclass(frozen=True)
class ApplyFunction:
    """A function of numpy, or of Python, block by block."""

    function: Any
    given: tuple[Any, ...]
    options: tuple[tuple[str, Any], ...] = ()
    box: Box = ()

    def __call__(self, *blocks: Any) -> Any:
        left = iter(blocks)
        with saying(f"in the block {shown(self.box)}"):
            return self.function(*[next(left) if g is BLOCK else g for g in self.given], **dict(self.options))


@dataclass(frozen=True)
class SplitPairs:
    """What a partition of a bag has for each block. Its elements are pairs of coordinates, one array or number for each
    axis, and values."""

    bounds: tuple[Bounds, ...]

    def __call__(self, pairs: Any) -> dict[tuple[int, ...], Coordinates]:
        shape, pairs = tuple(b[-1] for b in self.bounds), list(pairs)
        some = [(tuple(map(np.atleast_1d, p[0])), np.atleast_1d(p[1])) for p in pairs if _is_pair(p)]
        if len(some) < len(pairs) or any(len(c) != len(shape) or any(len(a) != len(v) for a in c) for c, v in some):
            hint = ("an element of the bag is ((i, j), value), of numbers or of arrays that are as long as each other",)
            raise DataError(f"expected {len(shape)} coordinates for each value, but there are others", None, hint)
        columns = tuple(np.concatenate([np.empty(0, np.int64), *[c[d] for c, _ in some]]) for d in range(len(shape)))
        values = np.concatenate([v for _, v in some]) if some else np.empty(0, bool)
        for axis, (column, extent) in enumerate(zip(columns, shape, strict=True)):
            wrong = column[(column < 0) | (column >= extent)]
            if wrong.size:
                raise DataError(f"expected coordinates below {extent} along axis {axis}, but one is {wrong[0]}")
        return split(Coordinates(shape, tuple(c.astype(np.int64) for c in columns), values), self.bounds)


def _is_pair(element: Any) -> bool:
    return isinstance(element, tuple | list) and len(element) == 2 and np.iterable(element[0])


@dataclass(frozen=True)
class GatherPairs:
    """A block, of what all partitions have for it."""

    place: tuple[int, ...]
    layout: Any

    def __call__(self, parts: Sequence[Coordinates]) -> Any:
        full = [p for p in parts if len(p.values)] or parts[:1]
        columns = tuple(np.concatenate([p.coords[d] for p in full]) for d in range(len(full[0].shape)))
        fill = fill_in(self.layout, len(columns))
        entries = Coordinates(full[0].shape, columns, np.concatenate([p.values for p in full]), fill)
        with saying(f"in the block at {self.place}"):
            return packed(entries, self.layout, strict=True)


@dataclass(frozen=True)
class PickPart:
    """What a partition has for one block."""

    place: tuple[int, ...]

    def __call__(self, parts: Mapping[tuple[int, ...], Any]) -> Any:
        return parts[self.place]


class _Block:
    """Stands for the place of a block; one object in each process."""

    def __reduce__(self) -> str:
        return "BLOCK"


BLOCK = _Block()
