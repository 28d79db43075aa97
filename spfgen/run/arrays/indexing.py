"""Subscripts as numpy's on tensors: `T[1, 2:9:3, ::-1]`, `T[..., None]`, `T[[3, 1, 1]]`, `T[mask]`.

What is behind a subscript is a layout over the same arrays (layout/view.py), so a scan of it goes through what is asked
for alone. Where it cannot, as through the rows of a layout that is stored by columns, it passes over all entries once,
and each goes to the places that ask for it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from types import EllipsisType
from typing import Any

import numpy as np

from spfgen import tuning
from spfgen.layout.points import TooLarge, expanded, room_for, to_coordinates
from spfgen.layout.proofs import stored_once
from spfgen.layout.view import Along, Fixed, Listed, Part, View, rising, sizes_of, view_of
from spfgen.run.arrays.entries import Entries, entries_of, normal, numbered, own_entries, same
from spfgen.run.arrays.made import tensor_from
from spfgen.run.arrays.segments import Segments, segments_of
from spfgen.run.arrays.words import OutOfRange
from spfgen.run.calls.bind import is_scipy
from spfgen.run.calls.detect_layout import tensor_of
from spfgen.run.calls.layout_signature import remember
from spfgen.run.conversion import pads
from spfgen.run.coordinates import Coordinates
from spfgen.run.pack import coordinates
from spfgen.run.tensor import Array, Tensor, check_unchanged

ARRAYS = -1
"""The place of the common dimensions of arrays of subscripts among those of a result."""

APART = -2
"""Nothing, but it sets arrays of subscripts apart that stand before it and behind."""

_WAITED: dict[View, int] = {}
"""How many entries numpy went through, of views that C may go through."""

SAMPLES = 32
"""At so many places of an array of subscripts it is tried how much a scan looks at there."""


@dataclass(frozen=True)
class _Pick:
    """What becomes of one dimension of the operand: `start + k*step` for k below `length`; `drop`: one of it."""

    start: int
    step: int
    length: int
    drop: bool = False

    @property
    def part(self) -> Part:
        return Fixed() if self.drop else Along(self.step)


@dataclass(frozen=True)
class _Places:
    """An array of subscripts; `extent` is that of the mask which it comes from."""

    array: Array
    extent: int | None = None


@dataclass(frozen=True)
class _Group:
    """Arrays of subscripts that go along the same axes, one for each of the `dims`: each has a place for each point.

    Of arrays that share no axis, as those of numpy.ix_, any place of one meets any place of the other.
    """

    dims: tuple[int, ...]
    axes: tuple[int, ...]
    points: tuple[int, ...]
    places: tuple[Array, ...]

    @property
    def count(self) -> int:
        return prod(self.points)


@dataclass(frozen=True)
class Subscript:
    """What a subscript asks of a tensor: of each dimension a part, or in `arrays` places. `made` has the dimensions of
    the result: those of the operand, None for a new one."""

    tensor: Tensor
    picks: Sequence[_Pick]
    arrays: Mapping[int, Array]
    made: Sequence[int | None]

    def entries(self) -> Coordinates:
        """The entries, each once."""
        where, groups = _grouped(self.arrays)
        picks = list(self.picks)
        for d, array in self.arrays.items():
            if array.size == 1:
                picks[d] = _Pick(int(array.reshape(-1)[0]), 1, 1, drop=True)
        return _Access(self.tensor, picks, groups).entries(_order(self.made, self.arrays), where)

    def of_segments(self) -> Any:
        """The result, where the tensor is in segments (segments.py) that are asked for as they are: a tensor, entries
        or a number; else None."""
        dims = [m for m in self.made if m is not None]
        segments = segments_of(self.tensor) if len(dims) == len(self.made) else None
        arrays = self._apart()
        if segments is None or arrays is None:
            return None
        along, across = self.picks[segments.form.along], self.picks[1 - segments.form.along]
        array, columns = arrays.get(segments.form.along), arrays.get(1 - segments.form.along)
        if along.drop and columns is None:
            return self._of_one(segments, along.start, across)
        if along.drop or across.drop or (across.step < 0 and across.length > 1) or dims != [0, 1]:
            return None
        part: Segments | None = segments
        if array is not None or along.step != 1:
            places = along.start + along.step * np.arange(along.length) if array is None else array
            taken = segments.taken(places)
        elif along.length < segments.count:
            taken = segments.range(along.start, along.start + along.length)
        else:
            taken = self.tensor
        if taken is None or (columns is None and across.length == segments.width):
            return taken.copy() if taken is self.tensor else taken
        part = segments_of(taken)
        if columns is not None:
            return None if part is None else part.picked(columns)
        high = across.start + across.step * (across.length - 1) + 1 if across.length else across.start
        return None if part is None else part.within(across.start, high, across.step)

    def _apart(self) -> Mapping[int, Array] | None:
        """The arrays of subscripts by dimension, where each goes along its own dimension of the result: one of one
        dimension, or two as those of numpy.ix_."""
        shapes = [a.shape for a in self.arrays.values()]
        if len(shapes) == 2 and shapes[0][1:] == (1,) and len(shapes[1]) == 2 and shapes[1][0] == 1:
            return {d: a.reshape(-1) for d, a in self.arrays.items()}
        return self.arrays if len(shapes) < 2 and all(len(s) == 1 for s in shapes) else None

    def _of_one(self, segments: Segments, place: int, across: _Pick) -> Any:
        """Of one segment an element, or those of a part."""
        column, values = segments.one(place)
        if across.drop:
            there = values[column == across.start]
            if len(there) > 1:
                return np.add.reduce(there, dtype=values.dtype)
            return there[0] if len(there) else self.tensor.fill_value
        if across.step != 1 or across.length < segments.width:
            at = (column.astype(np.int64) - across.start) * np.sign(across.step)
            step = abs(across.step)
            kept = (at >= 0) & (at < step * across.length) & (at % step == 0)
            column, values = at[kept] // step, values[kept]
        return _once(self.tensor, (across.length,), [column.astype(np.int64)], values)


def item(tensor: Tensor, key: Any) -> Any:
    """`tensor[key]`: a number, or a tensor in the same layout where that can be."""
    wanted = asked(tensor, key)
    selected = wanted.of_segments()
    if selected is None or isinstance(selected, Coordinates):
        selected = tensor_from(wanted.entries() if selected is None else selected, [tensor.layout])
    return selected


def rows(tensor: Tensor) -> Iterator[Any]:
    """The elements along the first dimension, one after the other."""
    if not tensor.ndim:
        raise TypeError("iteration over a tensor without dimensions")
    entries = own_entries(tensor)
    begin = np.searchsorted(entries.coords[0], np.arange(entries.shape[0] + 1))
    for k in range(entries.shape[0]):
        entries_of_row = slice(begin[k], begin[k + 1])
        coords = tuple(c[entries_of_row] for c in entries.coords[1:])
        yield tensor_from(
            Entries(entries.shape[1:], coords, entries.values[entries_of_row], entries.fill), [tensor.layout]
        )


def subscript(tensor: Tensor, key: Any) -> Coordinates:
    """The entries of `tensor[key]`, each once. Raises OutOfRange, UsageError."""
    return asked(tensor, key).entries()


def asked(tensor: Tensor, key: Any) -> Subscript:
    """What `key` means. Raises OutOfRange, UsageError."""
    picks: list[_Pick] = []
    dims: list[int | None] = []
    arrays: dict[int, Array] = {}
    d = 0
    for part in _complete(tensor.ndim, key if isinstance(key, tuple) else (key,)):
        if part is None:
            dims.append(None)
            continue
        if isinstance(part, EllipsisType):
            dims.append(APART)
            continue
        extent = tensor.shape[d]
        if isinstance(part, _Places):
            if part.extent not in (None, extent):
                raise OutOfRange(f"expected a mask of extent {extent} in dimension {d}, but it is {part.extent}")
            arrays[d] = _inside(part.array, extent, d)
            picks.append(_Pick(0, 1, extent))
            dims.append(d)
        elif isinstance(part, slice):
            picks.append(_sliced(part, extent))
            dims.append(d)
        else:
            picks.append(_Pick(_number(part, extent, d), 1, 1, drop=True))
        d += 1
    if not arrays:
        dims = [m for m in dims if m != APART]
    return Subscript(tensor, picks, arrays, dims)


def whole(tensor: Tensor) -> Coordinates:
    """The entries, each once: many as they are stored, the order in which their layout takes them."""
    stored = tensor.to_coo()
    return _once(tensor, stored.shape, stored.coords, stored.values, tuning.PACK_BY_NUMPY)


def transpose(tensor: Tensor, order: Sequence[int]) -> Coordinates:
    """The entries with the dimensions in another order, each once."""
    stored = tensor.to_coo()
    return _once(tensor, tuple(tensor.shape[d] for d in order), [stored.coords[d] for d in order], stored.values)


def _order(dims: Sequence[int | None], arrays: Mapping[int, Array]) -> list[int | None]:
    """The dimensions of the result: those of the operand, None for a new one, `arrays` for those of arrays, which stand
    where they stood, or first when they were apart."""
    places = [k for k, m in enumerate(dims) if m in arrays]
    if not places:
        return [m for m in dims if m != APART]
    sliced = [m for m in dims if m not in arrays and m != APART]
    before = sum(m != APART for m in dims[: places[0]]) if places[-1] - places[0] + 1 == len(places) else 0
    return [*sliced[:before], ARRAYS, *sliced[before:]]


def _grouped(arrays: Mapping[int, Array]) -> tuple[tuple[int, ...], list[_Group]]:
    """(the common dimensions of the arrays, those of more than one place in groups that share no axis)."""
    try:
        where = np.broadcast_shapes(*(a.shape for a in arrays.values()))
    except ValueError:
        shapes = ", ".join(str(a.shape) for a in arrays.values())
        raise OutOfRange(f"expected arrays of subscripts that broadcast together, but they are {shapes}") from None
    parts: list[tuple[set[int], set[int]]] = []
    for d, array in arrays.items():
        if array.size == 1:
            continue
        dims, axes = {d}, {k + len(where) - array.ndim for k, n in enumerate(array.shape) if n != 1}
        for other in [p for p in parts if p[1] & axes]:
            parts.remove(other)
            dims, axes = dims | other[0], axes | other[1]
        parts.append((dims, axes))
    groups: list[_Group] = []
    for dims, axes in parts:
        points = tuple(n if k in axes else 1 for k, n in enumerate(where))
        places = tuple(np.broadcast_to(arrays[d], points).reshape(-1).astype(np.int64) for d in sorted(dims))
        group_axes = tuple(sorted(axes))
        groups.append(_Group(tuple(sorted(dims)), group_axes, tuple(where[k] for k in group_axes), places))
    return where, groups


@dataclass(frozen=True)
class _Access:
    """A tensor with what becomes of each of its dimensions; those of the groups are picked whole."""

    tensor: Tensor
    picks: Sequence[_Pick]
    groups: Sequence[_Group]

    def entries(self, order: Sequence[int | None], where: tuple[int, ...]) -> Coordinates:
        """With the dimensions in this order, the common dimensions of arrays where ARRAYS stands."""
        check_unchanged(self.tensor)
        led = next((g for g in self.groups if self.leads(g)), None)
        shape, columns, values = self.scanned(led, self.groups)
        for group in self.groups:
            if group is not led:
                columns, values = _joined(self.tensor.shape, columns, values, group)
        front = {a: c for g in self.groups for a, c in zip(g.axes, _axes_of(columns, g), strict=True)}
        zero = np.zeros(len(values), np.int64)
        extents: list[int] = []
        coords: list[Array] = []
        for one in order:
            if one == ARRAYS:
                extents += where
                coords += [front.get(k, zero) for k in range(len(where))]
            else:
                extents.append(1 if one is None else shape[one])
                coords.append(zero if one is None else columns[one])
        return _once(self.tensor, tuple(extents), coords, values)

    def leads(self, group: _Group) -> bool:
        """Whether a scan that begins with the places of the group looks at about as many entries as lie there, or at
        fewer than a scan of all: seen of some of the places."""
        some = np.unique(np.linspace(0, group.count - 1, min(group.count, SAMPLES)).astype(np.int64))
        if not some.size:
            return True
        stored = sum(self.tensor.arrays[v.name].size for v in self.tensor.layout.values)
        most = max(self.tensor.shape[d] for d in group.dims)
        room = len(some) * max(8 * stored / max(1, most) + 4, stored / group.count)
        sample = replace(group, points=(len(some),), axes=(0,), places=tuple(p[some] for p in group.places))
        try:
            with room_for(int(room)):
                self.scanned(sample, (sample,), numpy=True)
        except TooLarge:
            return False
        return True

    def scanned(
        self, led: _Group | None, groups: Sequence[_Group], numpy: bool = False
    ) -> tuple[dict[int, int], dict[Any, Array], Array]:
        """(extents by dimension, columns by dimension or by the dimensions of the group, values) from a scan that
        begins with the places of one group."""
        if led is None and all(p == _Pick(0, 1, n) for p, n in zip(self.picks, self.tensor.shape, strict=True)):
            everything = self.tensor.to_coo()
            return dict(enumerate(self.tensor.shape)), dict(enumerate(everything.coords)), everything.values
        led_dims = () if led is None else led.dims
        parts = tuple(Listed(0) if d in led_dims else p.part for d, p in enumerate(self.picks))
        search = None if led is not None else self.searched()
        view = view_of(self.tensor.layout, parts, None if search is None else search[0])
        kept = [d for d, p in enumerate(self.picks) if not p.drop and d not in led_dims]
        names: list[Any] = [*([led_dims] if led else []), *kept]
        shape = {d: self.picks[d].length for d in kept}
        extents = [*([led.count] if led else []), *shape.values()]
        starts = [p.start for p in self.picks]
        places = {} if led is None else dict(zip(led.dims, led.places, strict=True))
        limits = {} if search is None or view.limits is None else dict(zip(view.limits, search[1], strict=True))
        columns, values = _scanned(self.tensor, view, starts, extents, places, numpy, limits)
        return shape, dict(zip(names, columns, strict=True)), values

    def searched(self) -> tuple[str, tuple[int, int]] | None:
        """A position of which a search says between which of its values the coordinates of one dimension lie."""
        tensor = self.tensor
        if all(tensor.arrays[a.name].size < tuning.PACK_BY_NUMPY for a in tensor.layout.indexes):
            return None
        for one in rising(tensor.layout):
            array, pick = tensor.arrays[one.array], self.picks[one.dimension]
            if array.size < tuning.PACK_BY_NUMPY or pick.length in (0, tensor.shape[one.dimension]):
                continue
            ends = sorted((pick.start, pick.start + pick.step * (pick.length - 1)))
            low, high = (array.dtype.type(min(e, np.iinfo(array.dtype).max)) for e in ends)  # of its type: no copy
            begin = int(np.searchsorted(array, low))
            return one.position, (begin, int(np.searchsorted(array, high, "right")))
        return None


def _scanned(
    tensor: Tensor,
    view: View,
    starts: Sequence[int],
    extents: Sequence[int],
    places: Mapping[int, Array],
    numpy: bool,
    limits: Mapping[str, int],
) -> tuple[tuple[Array, ...], Array]:
    """(a column for each dimension of the view, values): few with numpy, many with generated C, if not `numpy`; until
    there have been so many that it pays to compile it."""
    sizes = {**sizes_of(view, tensor.sizes, starts, extents), **limits}
    arrays = {**tensor.arrays, **{n: places[d] for d, n in enumerate(view.places) if n is not None}}
    values = {v.name: tensor.arrays[v.name] for v in tensor.layout.values}
    if numpy:
        return to_coordinates(view.layout, sizes, arrays, values)
    most = max(tuning.PACK_BY_NUMPY, tuning.CONVERT_COMPILED - _WAITED.get(view, 0))
    try:
        with room_for(most):
            entries = to_coordinates(view.layout, sizes, arrays, values)
    except TooLarge:
        remember(_WAITED, view, tuning.CONVERT_COMPILED)
        return coordinates(view.layout, sizes, arrays, small=0)
    if len(entries[1]) >= tuning.PACK_BY_NUMPY:
        remember(_WAITED, view, _WAITED.get(view, 0) + len(entries[1]) + tuning.CONVERT_START)
    return entries


def _joined(
    shape: Sequence[int], columns: Mapping[Any, Array], values: Array, group: _Group
) -> tuple[dict[Any, Array], Array]:
    """Every entry once for each point of the group at its coordinate: the column of these points takes the place of
    those of the dimensions."""
    extents = tuple(shape[d] for d in group.dims)
    group_columns = tuple(columns[d] for d in group.dims)
    have, want = numbered(extents, [len(values), group.count], [group_columns, group.places])
    order = np.argsort(want, kind="stable")
    if prod(extents) <= 4 * (len(have) + len(want)) + 1000:  # a table of where each place begins
        begins = np.zeros(prod(extents) + 1, np.int64)
        np.cumsum(np.bincount(want, minlength=prod(extents)), out=begins[1:])
        begin, end = begins[have], begins[have + 1]
    else:
        sorted_ = want[order]
        begin, end = np.searchsorted(sorted_, have, "left"), np.searchsorted(sorted_, have, "right")
    at, place = expanded(begin, end - begin)
    other_columns = {name: column[at] for name, column in columns.items() if name not in group.dims}
    return {**other_columns, group.dims: order[place]}, values[at]


def _axes_of(columns: Mapping[Any, Array], group: _Group) -> Sequence[Array]:
    """The coordinates of the group's points in the axes that it goes along."""
    point = columns[group.dims]
    if not point.size:
        return [point] * len(group.axes)
    return np.unravel_index(point, group.points) if len(group.axes) > 1 else [point]


def _once(
    tensor: Tensor,
    shape: tuple[int, ...],
    coords: Sequence[Array],
    values: Array,
    most_sorted: int = tuning.CONVERT_COMPILED,
) -> Coordinates:
    """Entries in any order, without padding; those at one coordinate are added. From `most_sorted` on they are left in
    their order where each is known to stand once."""
    fill = tensor.fill_value
    kept = ~same(values, fill) if pads(tensor.layout) else np.ones(len(values), bool)
    if not kept.all():
        values, coords = values[kept], [c[kept] for c in coords]
    if len(values) < most_sorted or not stored_once(tensor.layout.unfilled).proved:
        entries = normal(shape, coords, values, fill)
        return Coordinates(shape, tuple(entries.coords), entries.values, entries.fill)
    return Coordinates(shape, tuple(np.asarray(c, np.int64) for c in coords), values, fill)


def _complete(ndim: int, key: tuple[Any, ...]) -> list[Any]:
    """One part for each dimension, and None for each new one; masks are the coordinates where they are true. An
    ellipsis that stands for no dimension stays: it sets arrays of subscripts apart."""
    parts: list[Any] = []
    for part in key:
        if part is None or isinstance(part, slice | EllipsisType):
            parts.append(part)
        elif isinstance(part, Tensor) or is_scipy(part) or np.ndim(part) or isinstance(part, bool | np.bool_):
            parts += _places(part)
        else:
            parts.append(part)
    if sum(isinstance(p, EllipsisType) for p in parts) > 1:
        raise OutOfRange("expected one ellipsis in a subscript, but there are more")
    used = sum(p is not None and not isinstance(p, EllipsisType) for p in parts)
    if used > ndim:
        raise OutOfRange(f"expected at most {ndim} subscripts, but there are {used}")
    missing: list[Any] = [slice(None)] * (ndim - used)
    at = next((k for k, p in enumerate(parts) if isinstance(p, EllipsisType)), None)
    if at is None:
        parts += missing
    else:
        parts[at : at + 1] = missing or [...]
    return _with_numbers_among_arrays(parts)


def _with_numbers_among_arrays(parts: list[Any]) -> list[Any]:
    """Beside arrays a number is an array, too."""
    if not any(isinstance(p, _Places) for p in parts):
        return parts
    apart = slice | _Places | EllipsisType
    return [p if p is None or isinstance(p, apart) else _Places(np.asarray(_index(p))) for p in parts]


def _places(part: Any) -> list[_Places]:
    """A mask as the coordinates where it is true; integers as they are."""
    if isinstance(part, Tensor) or is_scipy(part):
        entries = entries_of(tensor_of(part, "the subscript"))
        if entries.dtype == bool and entries.ndim and not entries.fill:
            return [_Places(c[entries.values], n) for c, n in zip(entries.coords, entries.shape, strict=True)]
        part = entries.to_dense()
    array = np.asarray(part)
    if array.size == 0 and array.dtype == np.float64:
        array = array.astype(np.int64)  # what numpy makes of an empty list
    if array.dtype == bool:
        if not array.ndim:
            raise OutOfRange("expected a mask with dimensions, but it is a number")
        return [_Places(a.astype(np.int64), n) for a, n in zip(np.nonzero(array), array.shape, strict=True)]
    if array.dtype.kind not in "iu":
        raise OutOfRange(f"expected integers or a mask as a subscript, but it is an array of {array.dtype}")
    return [_Places(array.astype(np.int64))]


def _index(part: Any) -> int:
    try:
        return operator.index(part)
    except TypeError:
        message = "expected integers, slices, `...`, None, or arrays of integers or bool as subscripts"
        raise OutOfRange(f"{message}, but this is {part!r}") from None


def _number(part: Any, extent: int, dimension: int) -> int:
    number = _index(part)
    if not -extent <= number < extent:
        message = f"expected a subscript from {-extent} to {extent - 1} in dimension {dimension}, but it is {number}"
        raise OutOfRange(
            message if extent else f"dimension {dimension} has the extent 0, but the subscript is {number}"
        )
    return number % extent


def _inside(array: Array, extent: int, dimension: int) -> Array:
    wrong = (array < -extent) | (array >= extent)
    if wrong.any():
        _number(array[wrong].flat[0], extent, dimension)
    return np.where(array < 0, array + extent, array)


def _sliced(part: slice, extent: int) -> _Pick:
    try:
        start, stop, step = part.indices(extent)
    except (TypeError, ValueError) as error:
        raise OutOfRange(f"expected a slice of integers, but {error}") from None
    length = len(range(start, stop, step))
    return _Pick(start if length else 0, step if length > 1 else 1, length)
