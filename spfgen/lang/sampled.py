"""The oracle (interpret.py) for large operands: sums go along what is stored; results that are too large are computed
at some places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from spfgen.facts.formula import Bin, Call, Expr, Var, conjuncts, variables
from spfgen.ir import walk
from spfgen.lang import nodes as n
from spfgen.lang.interpret import Interpreter
from spfgen.lang.oracle.functions import UNLIKE_ITS_IDENTITY, converted, identity_of, operator_of
from spfgen.lang.oracle.tree import nodes_of
from spfgen.lang.oracle.values import Evaluated, Frame
from spfgen.lang.uses import leaves_the_rest

Array = npt.NDArray[Any]
MOST = 1 << 24
"""Points of a statement, or of a sum, that are computed at a time."""
MOST_STEPS = 1 << 30
"""Points that a recurrence computes: all of its points again for each."""


class TooManyPoints(ValueError):
    """What is asked for needs more points than that."""


@dataclass(frozen=True, eq=False)
class RowNumbers:
    """Distinct rows of integers, numbered. They are found again column by column: no number exceeds the square of
    how many rows there are. `columns`: of each the distinct values, and the distinct numbers of rows up to there."""

    columns: tuple[tuple[Array, Array], ...]

    def numbers(self, wanted: Sequence[Array]) -> Array:
        """int64: the number of each row, -1 of those that are not there."""
        numbers = np.zeros(np.broadcast_shapes(*(w.shape for w in wanted)), np.int64)
        for column, (values, ranks) in zip(wanted, self.columns, strict=True):
            place = _place(values, column)
            numbers = np.where((numbers < 0) | (place < 0), -1, _place(ranks, numbers * values.size + place))
        return numbers


def _place(known: Array, wanted: Array) -> Array:
    """Where the numbers stand in a sorted array, -1 where they do not."""
    if not known.size:
        return np.full(np.shape(wanted), -1, np.int64)
    at = np.minimum(np.searchsorted(known, wanted), known.size - 1)
    return np.where(known[at] == wanted, at, -1)


def rows_of(columns: Sequence[Array], count: int) -> tuple[RowNumbers, Array]:
    """The distinct rows of so many, and the number of each."""
    ranks = np.zeros(count, np.int64)
    stages = []
    for column in columns:
        values, place = np.unique(np.asarray(column, np.int64), return_inverse=True)
        numbers, ranks = np.unique(ranks * max(values.size, 1) + place.reshape(-1), return_inverse=True)
        ranks = ranks.reshape(-1)
        stages.append((values, numbers))
    return RowNumbers(tuple(stages)), ranks


@dataclass(frozen=True, eq=False)
class IndexedEntries:
    """Values at distinct coordinates, and the fill value elsewhere, subscripted as a dense array of the shape would be.
    Row k of `rows` is at `coords[:, k]` and has `values[k]`."""

    shape: tuple[int, ...]
    rows: RowNumbers
    coords: tuple[Array, ...]
    values: Array
    fill: Any

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    def __getitem__(self, at: Any) -> Array:
        place = self.rows.numbers([np.asarray(a) for a in at])
        fill = np.asarray(self.fill).astype(self.dtype)
        return np.where(place >= 0, self.values[place], fill) if self.values.size else np.full(place.shape, fill)

    def emptied(self) -> IndexedEntries:
        """With nothing stored."""
        return entries_of(self.shape, [c[:0] for c in self.coords], self.values[:0], self.fill)

    @cached_property
    def stored(self) -> IndexedEntries:
        """Which places are stored."""
        return replace(self, values=np.ones(self.values.size, np.bool_), fill=False)


def entries_of(shape: Sequence[int], coords: Sequence[Array], values: Array, fill: Any) -> IndexedEntries:
    """From a list in any order; the values of equal coordinates add up."""
    rows, ranks = rows_of(coords, values.size)
    first = np.unique(ranks, return_index=True)[1]
    total = np.zeros(first.size, values.dtype)
    with np.errstate(all="ignore"):
        np.add.at(total, ranks, values)
    return IndexedEntries(tuple(shape), rows, tuple(np.asarray(c, np.int64)[first] for c in coords), total, fill)


@dataclass
class SampledPoints:
    """Points of a sum in a list: to which point outside of it each belongs, and the values of the indices there."""

    outer: Array
    indices: dict[str, Array]


@dataclass
class Sampled(Interpreter):
    """The same meaning for large operands. Raises TooManyPoints where more than `most` points are needed at a time."""

    most: int = MOST
    lists: dict[str, tuple[Any, tuple[Array, ...]]] = field(default_factory=dict)
    """Tensors as they were when it was asked which coordinates they store, and these."""

    def is_stored(self, name: str) -> Any:
        array: Any = self.tensors[name]
        return array.stored if isinstance(array, IndexedEntries) else super().is_stored(name)

    def limited(self, points: int) -> None:
        if points > self.most:
            raise TooManyPoints(f"{points} points at a time are more than {self.most}")

    def count(self, indices: Sequence[str]) -> int:
        return prod(max(0, high - low) for low, high in map(self.range_of, indices))

    # --- statements -----------------------------------------------------------------------------------------

    def statement(self, step: n.Statement, frame: Frame, scalars: dict[str, Any]) -> None:
        if isinstance(self.tensors[step.target.tensor], IndexedEntries):
            raise TooManyPoints(f"{step.target.tensor} is not a dense array")
        self.limited(self.count(self.free(step.target, frame)))
        super().statement(step, frame, scalars)

    def recurrence(self, step: n.Statement, value: Any, frame: Frame, inner: Frame, scalars: dict[str, Any]) -> None:
        points = prod(inner.shape)
        if points * points > MOST_STEPS:
            raise TooManyPoints(f"{step.target.tensor}: a recurrence of {points} points")
        super().recurrence(step, value, frame, inner, scalars)

    def with_free(self, value: Any, frame: Frame, where: Any) -> Frame:
        self.limited(prod(frame.shape) * self.count(self.free(value, frame)))
        return super().with_free(value, frame, where)

    def values_at(self, step: n.Statement, places: Sequence[Array], before: Array, scalars: Mapping[str, Any]) -> Array:
        """What an equation gives to these places (an array for each subscript) of its target, which have the values
        `before`. Raises TooManyPoints where that is not known without all others."""
        name = step.target.tensor
        if any(v.tensor == name and v != step.target for v in nodes_of(step.value) if isinstance(v, n.Access)):
            raise TooManyPoints(f"{name} is read where other points write it")
        with np.errstate(all="ignore"):
            return self.computed_at(step, places, before, scalars)

    def computed_at(
        self, step: n.Statement, places: Sequence[Array], before: Array, scalars: Mapping[str, Any]
    ) -> Array:
        exact = self.is_exact(step, Frame())
        frame = self.frame_at(step, places, Frame(before.shape, {}, exact=exact))
        for part in conjuncts(step.where) if step.where is not None else ():
            if variables(part) <= {*frame.indices, *self.sizes}:
                frame = replace(frame, mask=frame.mask & self.formula(part, frame.indices))
        if step.op == "=":
            result = self.summed(step.value, frame, scalars, step.op, step.function, step.where)
            value: Any = converted(np.asarray(result.value), before.dtype)
            unwritten = before if step.within or leaves_the_rest(step) else self.cleared(step, Frame(exact=exact))
        else:
            result, value = self.updated(step, frame, before, scalars)
            unwritten = before
        inside = frame.mask & np.asarray(result.inside)
        return np.asarray(np.where(inside, value, converted(np.asarray(unwritten), before.dtype)))

    def updated(
        self, step: n.Statement, frame: Frame, before: Array, scalars: Mapping[str, Any]
    ) -> tuple[Evaluated, Any]:
        op = operator_of(step.op)
        kind = "add" if op == "subtract" else op
        several = self.free(step.value, frame)
        if several and (identity_of(kind, step.function, before.dtype) is None or kind in UNLIKE_ITS_IDENTITY):
            raise TooManyPoints(f"{step.target.tensor} is updated in an order")
        function = step.function
        operand = self.summed(step.value, frame, scalars, step.op if kind == "add" else kind, function, step.where)
        return operand, converted(np.asarray(self.apply(op, function, (before, operand.value))), before.dtype)

    def frame_at(self, step: n.Statement, places: Sequence[Array], frame: Frame) -> Frame:
        """The points of an equation that write these places; those that none writes are masked."""
        indices: dict[str, Array] = {}
        mask: Any = np.ones(frame.shape, np.bool_)
        shape = self.tensors[step.target.tensor].shape
        for subscript, place, extent in zip(step.target.subscripts, places, shape, strict=True):
            names, first, stride = self.line(subscript, extent)
            if not names:
                mask = mask & (place == first)
                continue
            (name,) = names
            index = (place - first) // stride
            low, high = self.range_of(name)
            mask = mask & (index * stride + first == place) & (index >= low) & (index < high)
            index = np.clip(index, low, max(high - 1, low))
            mask = mask & (indices.setdefault(name, index) == index)
        return replace(frame, indices=indices, mask=mask)

    def line(self, subscript: Any, extent: int) -> tuple[tuple[str, ...], int, int]:
        """Of a subscript `first + stride * name`: the name, if there is one, the first and the stride."""
        if isinstance(subscript, n.Range):
            return (subscript.index,), self.slice_of(subscript, extent).start, subscript.step
        if not isinstance(subscript, Expr):
            raise TooManyPoints("which points write a place is not known")
        names = tuple(variables(subscript) - self.sizes.keys())
        first, second, third = (int(self.expr(subscript, dict.fromkeys(names, k))) for k in (0, 1, 2))
        is_line = first != second and third - second == second - first
        if len(names) > 1 or (names and not is_line) or not _is_affine(subscript):
            raise TooManyPoints("which points write a place is not known")
        return names, first, second - first

    # --- sums along what is stored --------------------------------------------------------------------------

    def reduce(self, node: n.Reduce, frame: Frame, scalars: Any) -> Evaluated:
        if node.op == "add" and node.function is None:
            drivers = [*self.drivers(node.value, {*frame.indices, *node.indices})]
            if drivers:
                return self.along(node, drivers, frame, scalars)
        self.limited(prod(frame.shape) * self.count(node.indices))
        return super().reduce(node, frame, scalars)

    def drivers(self, value: Any, known: set[str]) -> Iterator[n.Access]:
        """The factors that make a product 0 where they are not stored: see «What is not stored» in interpret.py."""
        for factor in _factors(value):
            names = [s.name for s in factor.subscripts if isinstance(s, Var)]
            plain = len(names) == len(factor.subscripts) == len({*names} & known)
            fill = self.fills.get(factor.tensor)
            if plain and names and fill is not None and fill == 0:
                yield factor

    def along(self, node: n.Reduce, drivers: Sequence[n.Access], frame: Frame, scalars: Any) -> Evaluated:
        """A sum of products over the points at which the drivers are stored."""
        count = prod(frame.shape)
        mask = np.broadcast_to(np.asarray(frame.mask), frame.shape).reshape(-1)
        outer = np.flatnonzero(mask)
        flat = {k: np.broadcast_to(v, frame.shape).reshape(-1)[outer] for k, v in frame.indices.items()}
        points, dense_indices = self.joined(SampledPoints(outer, flat), node.indices, drivers)
        self.limited(points.outer.size * self.count(dense_indices))
        inner = Frame((points.outer.size,), points.indices).extended([(i, *self.range_of(i)) for i in dense_indices])
        inside: Any = np.asarray(True)
        if node.where is not None:
            inside = self.formula(node.where, inner.indices)
            inner = replace(inner, mask=inner.mask & inside)
        terms = self.value(node.value, inner, scalars)
        inside = np.broadcast_to(inside & np.asarray(terms.inside), inner.shape)
        value = np.broadcast_to(np.asarray(terms.value), inner.shape)
        absent = np.broadcast_to(np.asarray(False if terms.absent is None else terms.absent), inner.shape) | ~inside
        if value.dtype.kind in "biu":
            value = value.astype(np.uint64 if value.dtype.kind == "u" else np.int64)
        axes = tuple(range(1, len(inner.shape)))
        total = np.zeros(count, value.dtype)
        np.add.at(total, points.outer, np.where(inside, value, value.dtype.type(0)).sum(axis=axes, dtype=value.dtype))
        present = np.zeros(count, np.bool_)
        np.logical_or.at(present, points.outer, ~absent.all(axis=axes))
        return Evaluated(total.reshape(frame.shape), True, ~present.reshape(frame.shape))

    def joined(
        self, points: SampledPoints, indices: Sequence[str], drivers: Sequence[n.Access]
    ) -> tuple[SampledPoints, tuple[str, ...]]:
        """The points for each entry of the drivers that agrees with them, and the indices that no driver has."""
        left = [*drivers]
        while left:
            missing = {d: [s for s in d.subscripts if s.name not in points.indices] for d in left}
            best = min(left, key=lambda d: (len(missing[d]), len(self.listed(d.tensor)[0])))
            left.remove(best)
            if missing[best]:
                points = self.with_entries(points, best)
        return points, tuple(i for i in indices if i not in points.indices)

    def with_entries(self, points: SampledPoints, access: n.Access) -> SampledPoints:
        names = [s.name for s in access.subscripts if isinstance(s, Var)]
        coords = dict(zip(names, self.listed(access.tensor), strict=True))
        known = [i for i in names if i in points.indices]
        rows, ranks = rows_of([coords[i] for i in known], len(coords[names[0]]))
        order = np.argsort(ranks, kind="stable")
        at = rows.numbers([points.indices[i] for i in known]) if known else np.zeros(points.outer.size, np.int64)
        first, last = (np.searchsorted(ranks[order], at, side) for side in ("left", "right"))
        counts = np.where(at >= 0, last - first, 0)
        total = int(counts.sum())
        self.limited(total)
        repeated = np.repeat(np.arange(points.outer.size), counts)
        entry = order[np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(first, counts)]
        inner = {i: v[repeated] for i, v in points.indices.items()}
        inner |= {i: coords[i][entry] for i in names if i not in inner}
        return SampledPoints(points.outer[repeated], inner)

    def listed(self, name: str) -> tuple[Array, ...]:
        array: Any = self.tensors[name]
        if name not in self.lists or self.lists[name][0] is not array:
            coords = array.coords if isinstance(array, IndexedEntries) else np.nonzero(self.is_stored(name))
            self.lists[name] = array, coords
        return self.lists[name][1]


def _is_affine(expr: Expr) -> bool:
    return not any(isinstance(e, Call) or (isinstance(e, Bin) and e.op not in "+-*") for e in walk(expr, Expr))


def _factors(value: Any) -> Iterator[n.Access]:
    """The tensors of which each makes a value 0 where it is an unstored 0."""
    match value:
        case n.Access():
            yield value
        case n.Apply("multiply", (left, right), function=None):
            yield from _factors(left)
            yield from _factors(right)
        case n.Apply("negative" | "divide" | "floor_divide" | "remainder" | "fmod", (first, *_), function=None):
            yield from _factors(first)
