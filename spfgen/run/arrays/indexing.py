"""Subscripts as numpy's on entries: `T[1, 2:9:3, ::-1]`, `T[..., None]`, `T[[3, 1, 1]]`, `T[mask]`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any

import numpy as np

from spfgen.errors import UsageError
from spfgen.run.arrays.entries import Entries, entries_of, normal, numbered
from spfgen.run.calls.bind import is_scipy
from spfgen.run.calls.foreign import tensor_of
from spfgen.run.tensor import Array, Tensor


class OutOfRange(UsageError, IndexError):
    """A subscript outside of the extents; an IndexError too, as numpy's."""


@dataclass(frozen=True)
class _Pick:
    """What becomes of one dimension of the operand: `start + k*step` for k below `length`; `drop`: one of it."""

    start: int
    step: int
    length: int
    drop: bool = False


@dataclass(frozen=True)
class _Places:
    """An array of subscripts; `extent` is that of the mask which it comes from."""

    array: Array
    extent: int | None = None


def subscript(entries: Entries, key: Any) -> Entries:
    """Raises OutOfRange, UsageError."""
    parts = _complete(entries, key if isinstance(key, tuple) else (key,))
    picks: list[_Pick] = []
    made: list[int | None] = []
    """The dimensions of the result: those of the operand, None for a new one."""
    arrays: dict[int, Array] = {}
    d = 0
    for part in parts:
        if part is None:
            made.append(None)
            continue
        extent = entries.shape[d]
        if isinstance(part, _Places):
            if part.extent not in (None, extent):
                raise OutOfRange(f"expected a mask of extent {extent} in dimension {d}, but it is {part.extent}")
            arrays[d] = _inside(part.array, extent, d)
            picks.append(_Pick(0, 1, extent))
            made.append(d)
        elif isinstance(part, slice):
            picks.append(_sliced(part, extent))
            made.append(d)
        else:
            picks.append(_Pick(_number(part, extent, d), 1, 1, drop=True))
        d += 1
    picked = _picked(entries, picks)
    kept = [k for k, p in enumerate(picks) if not p.drop]
    if arrays:
        return _gathered(picked, {kept.index(k): a for k, a in arrays.items()}, _new(made, kept))
    return _with_new(picked, _new(made, kept))


def _new(made: Sequence[int | None], kept: Sequence[int]) -> list[int | None]:
    return [None if m is None else kept.index(m) for m in made]


def _complete(entries: Entries, key: tuple[Any, ...]) -> list[Any]:
    """One part for each dimension, and None for each new one; masks are the coordinates where they are true."""
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
    if used > entries.ndim:
        raise OutOfRange(f"expected at most {entries.ndim} subscripts, but there are {used}")
    rest = [slice(None)] * (entries.ndim - used)
    at = next((k for k, p in enumerate(parts) if isinstance(p, EllipsisType)), None)
    if at is None:
        parts += rest
    else:
        parts[at : at + 1] = rest
    return _with_numbers_among_arrays(parts)


def _with_numbers_among_arrays(parts: list[Any]) -> list[Any]:
    """Beside arrays a number is an array, too."""
    if not any(isinstance(p, _Places) for p in parts):
        return parts
    return [p if p is None or isinstance(p, slice | _Places) else _Places(np.asarray(_index(p))) for p in parts]


def _places(part: Any) -> list[_Places]:
    """A mask as the coordinates where it is true; integers as they are."""
    if isinstance(part, Tensor) or is_scipy(part):
        found = entries_of(tensor_of(part, "the subscript"))
        if found.dtype == bool and found.ndim and not found.fill:
            return [_Places(c, n) for c, n in zip(found.coords, found.shape, strict=True)]
        part = found.to_dense()
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
    return _Pick(start, step, len(range(start, stop, step)))


def _picked(entries: Entries, picks: Sequence[_Pick]) -> Entries:
    columns, inside = list(entries.coords), np.ones(len(entries.values), bool)
    for d, pick in enumerate(picks):
        place, rest = np.divmod(columns[d] - pick.start, pick.step)
        inside &= (rest == 0) & (place >= 0) & (place < pick.length)
        columns[d] = place
    kept = [d for d, p in enumerate(picks) if not p.drop]
    shape = tuple(picks[d].length for d in kept)
    return normal(shape, [columns[d][inside] for d in kept], entries.values[inside], entries.fill, once=True)


def _with_new(entries: Entries, made: Sequence[int | None]) -> Entries:
    shape = tuple(1 if m is None else entries.shape[m] for m in made)
    zero = np.zeros(len(entries.values), np.int64)
    coords = tuple(zero if m is None else entries.coords[m] for m in made)
    return Entries(shape, coords, entries.values, entries.fill)


def _gathered(entries: Entries, arrays: dict[int, Array], made: Sequence[int | None]) -> Entries:
    """numpy's subscripts by arrays: their common dimensions stand where they stood, or first when they were apart."""
    try:
        points = np.broadcast_arrays(*arrays.values())
    except ValueError:
        shapes = ", ".join(str(a.shape) for a in arrays.values())
        raise OutOfRange(f"expected arrays of subscripts that broadcast together, but they are {shapes}") from None
    where, count = points[0].shape, points[0].size
    own = list(arrays)
    # The points that want each coordinate, together; then every entry goes to all points of its coordinate.
    extents = tuple(entries.shape[d] for d in own)
    asked = tuple(p.reshape(-1) for p in points)
    have, want = numbered(extents, [len(entries.values), count], [tuple(entries.coords[d] for d in own), asked])
    order = np.argsort(want, kind="stable")
    begin, end = np.searchsorted(want[order], have, "left"), np.searchsorted(want[order], have, "right")
    counts = end - begin
    at = np.repeat(np.arange(len(have)), counts)
    point = order[np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts) + begin[at]]
    front = np.unravel_index(point, where) if where else ()
    places = [k for k, m in enumerate(made) if m in arrays]
    together = places[-1] - places[0] + 1 == len(places)
    rest = [k for k, m in enumerate(made) if m not in arrays]
    before = [k for k in rest if together and k < places[0]]
    after = [k for k in rest if k not in before]

    def column(k: int) -> Array:
        m = made[k]
        return np.zeros(len(at), np.int64) if m is None else entries.coords[m][at]

    def extent(k: int) -> int:
        m = made[k]
        return 1 if m is None else entries.shape[m]

    shape = (*map(extent, before), *where, *map(extent, after))
    coords = [*map(column, before), *(c.astype(np.int64) for c in front), *map(column, after)]
    return normal(shape, coords, entries.values[at], entries.fill, once=True)
