"""numpy's functions that move elements, on entries: each entry gets new coordinates, and the fill stays the fill.

Work follows from the entries. Only where something else than the fill value is put at coordinates without an entry
(`pad` with another number, `tril` where the fill is not 0) these are stored.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, TypeVar

import numpy as np

from spfgen.errors import ArgumentError, ConversionError, DataError
from spfgen.lang.fills import plain_fill
from spfgen.layout.fill import typed_fill
from spfgen.run.arrays.contract import contracted
from spfgen.run.arrays.elementwise import elementwise, expanded
from spfgen.run.arrays.entries import MOST, Entries, normal, numbered, same
from spfgen.run.arrays.reductions import axes_of, axis_of
from spfgen.run.arrays.words import integer
from spfgen.run.coordinates import Coordinates
from spfgen.run.tensor import Array

Parts = TypeVar("Parts", Entries, Coordinates)


def moved(entries: Entries, shape: Sequence[int], coords: Sequence[Array]) -> Entries:
    """The same values at other coordinates, which differ, too."""
    return normal(tuple(shape), coords, entries.values, entries.fill, once=True)


def of_dense(array: Array, fill: Any) -> Entries:
    """The entries of a dense array: what differs from the fill value."""
    kept = ~same(array, fill)
    at = np.nonzero(kept) if array.ndim else ()
    values = array[kept] if array.ndim else np.atleast_1d(array)
    return normal(array.shape, [c.astype(np.int64) for c in at], values, fill, once=True)


def refilled(entries: Parts, fill: Any) -> Parts:
    """The same elements with another fill value: what was the fill is stored where it is another number.

    Raises DataError for a number that the type does not have.
    """
    number = typed_fill(plain_fill(fill), entries.values.dtype)
    if same(np.asarray(entries.fill), number):
        return entries
    entries_anew = of_dense(entries.to_dense(), number)
    return replace(entries, coords=entries_anew.coords, values=entries_anew.values, fill=entries_anew.fill)


def typed(entries: Parts, kind: np.dtype[Any]) -> Parts:
    if entries.values.dtype == kind:
        return entries
    return replace(entries, values=entries.values.astype(kind), fill=np.asarray(entries.fill).astype(kind)[()])


# --- the same elements in another order -----------------------------------------------------------------------------


def reshape(entries: Entries, shape: Any, order: str = "C") -> Entries:
    """numpy.reshape; order "C" or "F"."""
    if order not in ("C", "F"):
        raise ArgumentError(f"expected the order `C` or `F`, but it is {order!r}")
    extents = _wanted(entries.shape, shape)
    if prod(entries.shape) > MOST:
        raise DataError(f"expected fewer than 2^63 elements to reshape, but the shape is {entries.shape}")
    step = -1 if order == "F" else 1
    (place,) = numbered(entries.shape[::step], [len(entries.values)], [entries.coords[::step]])
    coords = np.unravel_index(place, extents[::step])[::step] if extents and place.size else [place[:0]] * len(extents)
    return moved(entries, extents, [c.astype(np.int64) for c in coords])


def _wanted(old: Sequence[int], shape: Any) -> tuple[int, ...]:
    try:
        extents = [operator.index(n) for n in (shape if isinstance(shape, Iterable) else (shape,))]
    except TypeError:
        raise ConversionError(f"expected integers as a shape, but it is {shape!r}") from None
    size, open_ = prod(old), [d for d, n in enumerate(extents) if n == -1]
    known_size = prod(n for n in extents if n != -1)
    if len(open_) == 1 and known_size > 0 and size % known_size == 0:
        extents[open_[0]] = size // known_size
    if prod(extents) != size or any(n < 0 for n in extents):
        raise DataError(f"expected a shape of {size} elements, but it is {tuple(extents)}")
    return tuple(extents)


def transpose(entries: Entries, order: Sequence[int]) -> Entries:
    return moved(entries, [entries.shape[d] for d in order], [entries.coords[d] for d in order])


def flip(entries: Entries, axis: Any = None) -> Entries:
    """numpy.flip."""
    axes = axes_of(axis, entries.ndim)
    coords = [entries.shape[d] - 1 - c if d in axes else c for d, c in enumerate(entries.coords)]
    return moved(entries, entries.shape, coords)


def roll(entries: Entries, shift: Any, axis: Any = None) -> Entries:
    """numpy.roll."""
    if axis is None:
        line = roll(reshape(entries, -1), integer(np.sum(shift), "a shift"), 0)
        return reshape(line, entries.shape)
    axes = tuple(axis) if isinstance(axis, Sequence) else (axis,)
    shifts = tuple(shift) if isinstance(shift, Sequence) else (shift,)
    if len(shifts) == 1 or len(axes) == 1:
        shifts, axes = shifts * (len(axes) if len(shifts) == 1 else 1), axes * (len(shifts) if len(axes) == 1 else 1)
    if len(shifts) != len(axes):
        raise ArgumentError(f"expected a shift for each axis, but they are {shift!r} and {axis!r}")
    coords = list(entries.coords)
    for by, one in zip(shifts, axes, strict=True):
        d = axis_of(one, entries.ndim)
        coords[d] = (coords[d] + integer(by, "a shift")) % max(1, entries.shape[d])
    return moved(entries, entries.shape, coords)


def expand_dims(entries: Parts, axis: Any) -> Parts:
    """numpy.expand_dims."""
    rank = len(entries.shape) + (len(axis) if isinstance(axis, Sequence) else 1)
    axes = axes_of(axis, rank)
    old = iter(zip(entries.shape, entries.coords, strict=True))
    zero = np.zeros(len(entries.values), np.int64)
    parts = [(1, zero) if d in axes else next(old) for d in range(rank)]
    return replace(entries, shape=tuple(n for n, _ in parts), coords=tuple(c for _, c in parts))


def squeeze(entries: Entries, axis: Any = None) -> Entries:
    """numpy.squeeze."""
    ones = [d for d, n in enumerate(entries.shape) if n == 1]
    axes = ones if axis is None else axes_of(axis, entries.ndim)
    if any(entries.shape[d] != 1 for d in axes):
        raise DataError(f"expected axes of extent 1 to drop, but the shape is {entries.shape} and axis is {axis!r}")
    kept = [d for d in range(entries.ndim) if d not in axes]
    shape, coords = tuple(entries.shape[d] for d in kept), tuple(entries.coords[d] for d in kept)
    return Entries(shape, coords, entries.values, entries.fill)


# --- elements more than once ----------------------------------------------------------------------------------------


def take(entries: Entries, places: Array, axis: int) -> Entries:
    """`places` of one dimension, in that order; they may stand more than once."""
    column = entries.coords[axis]
    order = np.argsort(places, kind="stable")
    begin, end = np.searchsorted(places[order], column, "left"), np.searchsorted(places[order], column, "right")
    counts = end - begin
    at = np.repeat(np.arange(len(column)), counts)
    taken = order[np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts) + begin[at]]
    shape = tuple(len(places) if d == axis else n for d, n in enumerate(entries.shape))
    coords = [taken if d == axis else c[at] for d, c in enumerate(entries.coords)]
    return normal(shape, coords, entries.values[at], entries.fill, once=True)


def repeat(entries: Entries, repeats: Any, axis: Any = None) -> Entries:
    """numpy.repeat."""
    if axis is None:
        return repeat(reshape(entries, -1), repeats, 0)
    d = axis_of(axis, entries.ndim)
    try:
        places = np.repeat(np.arange(entries.shape[d]), repeats)
    except (ValueError, TypeError) as error:
        raise ArgumentError(f"expected numbers of repetitions, but numpy says: {error}") from None
    return take(entries, places, d)


def tile(entries: Entries, reps: Any) -> Entries:
    """numpy.tile."""
    counts = tuple(reps) if isinstance(reps, Iterable) else (reps,)
    tiled = at_least(entries, len(counts))
    counts = (1,) * (tiled.ndim - len(counts)) + counts
    for d, count in enumerate(counts):
        if integer(count, "a number of repetitions") < 0:
            raise ArgumentError(f"expected numbers of repetitions, but it is {reps!r}")
        if count != 1:
            tiled = take(tiled, np.tile(np.arange(tiled.shape[d]), count), d)
    return tiled


def broadcast_to(entries: Entries, shape: Any) -> Entries:
    """numpy.broadcast_to; what is repeated is stored again."""
    extents = tuple(integer(n, "an extent") for n in (shape if isinstance(shape, Iterable) else (shape,)))
    padded = (1,) * (len(extents) - entries.ndim) + entries.shape
    if len(padded) != len(extents) or any(n not in (1, e) for n, e in zip(padded, extents, strict=True)):
        raise DataError(f"expected a shape to which {entries.shape} can be broadcast, but it is {extents}")
    coords, count = expanded(entries, extents)
    index = np.arange(len(entries.values)).repeat(count // max(1, len(entries.values)))
    return normal(extents, coords, entries.values[index], entries.fill, once=True)


def at_least(entries: Parts, ndim: int) -> Parts:
    """With dimensions of extent 1 in front where there are fewer."""
    rank = len(entries.shape)
    return expand_dims(entries, tuple(range(ndim - rank))) if ndim > rank else entries


def pad(entries: Entries, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Entries:
    """numpy.pad with mode "constant", "edge" or "wrap"."""
    widths = _pairs(pad_width, entries.ndim)
    values = np.broadcast_to(np.asarray(constant_values), (entries.ndim, 2))
    for d, (before, after) in enumerate(widths):
        extent = entries.shape[d]
        match mode:
            case "constant":
                entries = _with_border(entries, d, before, after, values[d])
            case "edge" | "wrap":
                if not extent and (before or after):
                    raise DataError(f"expected elements to pad with in dimension {d}, but its extent is 0")
                places = np.arange(-before, extent + after)
                places = np.clip(places, 0, extent - 1) if mode == "edge" else places % max(1, extent)
                entries = take(entries, places, d)
            case _:
                raise ArgumentError(f"expected the mode `constant`, `edge` or `wrap`, but it is {mode!r}")
    return entries


def _pairs(value: Any, ndim: int) -> list[tuple[int, int]]:
    try:
        pairs = np.broadcast_to(np.asarray(value), (ndim, 2))
    except ValueError:
        raise ArgumentError(
            f"expected pad_width as a number or a pair for each dimension, but it is {value!r}"
        ) from None
    if pairs.dtype.kind not in "iu" or (pairs < 0).any():
        raise ArgumentError(f"expected numbers of elements as pad_width, but it is {value!r}")
    return [(int(a), int(b)) for a, b in pairs]


def _with_border(entries: Entries, d: int, before: int, after: int, values: Array) -> Entries:
    shape = tuple(n + before + after if k == d else n for k, n in enumerate(entries.shape))
    coords = [c + before if k == d else c for k, c in enumerate(entries.coords)]
    bordered = moved(entries, shape, coords)
    fill = entries.fill
    sides = [(0, before, values[0]), (shape[d] - after, shape[d], values[1])]
    for low, high, value in sides:
        number = np.asarray(value).astype(entries.dtype)[()]
        if low < high and not same(np.asarray(number), fill):
            part = tuple(high - low if k == d else n for k, n in enumerate(shape))
            at = [c.reshape(-1) + (low if k == d else 0) for k, c in enumerate(np.indices(part))]
            columns = [np.concatenate([c, more]) for c, more in zip(bordered.coords, at, strict=True)]
            border = np.full(prod(part), number, entries.dtype)
            bordered = normal(shape, columns, np.concatenate([bordered.values, border]), fill, once=True)
    return bordered


# --- several tensors ------------------------------------------------------------------------------------------------


def concatenate(parts: Sequence[Any], axis: Any = 0) -> Any:
    """numpy.concatenate; the fill is that of the first. Of entries in any order they come one after the other."""
    if not parts:
        raise ArgumentError("expected tensors to concatenate, but there are none")
    kind = np.result_type(*[p.values.dtype for p in parts])
    parts = [typed(reshape(p, -1) if axis is None else p, kind) for p in parts]
    first = parts[0]
    rank = len(first.shape)
    along = axis_of(0 if axis is None else axis, rank) if rank else 0
    for part in parts:
        others = [n for d, n in enumerate(part.shape) if d != along]
        if not rank or len(part.shape) != rank or others != [n for d, n in enumerate(first.shape) if d != along]:
            shapes = ", ".join(str(p.shape) for p in parts)
            raise DataError(f"expected shapes that agree but in dimension {along}, but they are {shapes}")
    parts = [refilled(p, first.fill) for p in parts]
    starts = np.cumsum([0, *(p.shape[along] for p in parts)])
    shape = tuple(int(starts[-1]) if d == along else n for d, n in enumerate(first.shape))
    coords = [np.concatenate([p.coords[d] for p in parts]) for d in range(rank)]
    ends = np.cumsum([len(p.values) for p in parts])
    for start, begin, end in zip(starts[1:], ends, ends[1:], strict=False):
        coords[along][begin:end] += start
    values = np.concatenate([p.values for p in parts])
    if isinstance(first, Coordinates):
        return Coordinates(shape, tuple(coords), values, first.fill)
    return normal(shape, coords, values, first.fill, once=True)


def stack(parts: Sequence[Parts], axis: Any = 0) -> Any:
    """numpy.stack."""
    if len({p.shape for p in parts}) > 1:
        raise DataError(
            f"expected tensors of one shape to stack, but they are {', '.join(str(p.shape) for p in parts)}"
        )
    return concatenate([expand_dims(p, axis) for p in parts], axis)


def vstack(parts: Sequence[Parts]) -> Any:
    """numpy.vstack."""
    return concatenate([at_least(p, 2) for p in parts], 0)


def hstack(parts: Sequence[Parts]) -> Any:
    """numpy.hstack."""
    widened = [at_least(p, 1) for p in parts]
    return concatenate(widened, 0 if widened and len(widened[0].shape) == 1 else 1)


def block(parts: Any, entries_of: Callable[[Any], Entries]) -> Entries:
    """numpy.block: nested lists, the innermost side by side along the last dimension."""
    depth = _depth(parts)
    entries = [entries_of(x) for x in leaves(parts)]
    ndim = max([depth, *(e.ndim for e in entries)])
    remaining = iter(entries)

    def joined(part: Any, level: int) -> Entries:
        if not isinstance(part, list):
            return at_least(next(remaining), ndim)
        row: Entries = concatenate([joined(p, level + 1) for p in part], level - depth)
        return row

    return joined(parts, 0)


def _depth(parts: Any) -> int:
    if not isinstance(parts, list):
        return 0
    depths = {_depth(p) for p in parts}
    if len(depths) != 1:
        raise ArgumentError("expected nested lists of one depth with something in each, but they are not")
    return 1 + depths.pop()


def leaves(parts: Any) -> Iterable[Any]:
    """What stands in nested lists, in its order."""
    if not isinstance(parts, list):
        yield parts
        return
    for part in parts:
        yield from leaves(part)


# --- parts of matrices ----------------------------------------------------------------------------------------------


def triangle(entries: Entries, k: int, lower: bool) -> Entries:
    """numpy.tril or numpy.triu: what is outside becomes 0."""
    k = integer(k, "a diagonal")
    if entries.ndim < 2:
        raise DataError(f"expected a tensor of two dimensions or more, but the shape is {entries.shape}")
    entries = refilled(entries, 0)
    beyond = entries.coords[-1] - entries.coords[-2]
    kept = beyond <= k if lower else beyond >= k
    return normal(entries.shape, [c[kept] for c in entries.coords], entries.values[kept], entries.fill, once=True)


def diag(entries: Entries, k: int = 0) -> Entries:
    """numpy.diag: the matrix with a diagonal, or the diagonal of a matrix."""
    k = integer(k, "a diagonal")
    if entries.ndim == 1:
        (column,), n = refilled(entries, 0).coords, entries.shape[0] + abs(k)
        return moved(refilled(entries, 0), (n, n), [column + max(0, -k), column + max(0, k)])
    if entries.ndim != 2:
        raise DataError(f"expected a vector or a matrix, but the shape is {entries.shape}")
    return diagonal(entries, k, 0, 1)


def diagonal(entries: Entries, k: int, first: int, second: int) -> Entries:
    """numpy.diagonal: the k-th diagonal along two axes is the last dimension."""
    k, shape = integer(k, "a diagonal"), entries.shape
    rows, columns = entries.coords[first], entries.coords[second]
    kept = columns - rows == k
    length = max(0, min(shape[first] - max(0, -k), shape[second] - max(0, k)))
    other_dims = [d for d in range(entries.ndim) if d not in (first, second)]
    coords = [*(entries.coords[d][kept] for d in other_dims), rows[kept] - max(0, -k)]
    return normal((*(shape[d] for d in other_dims), length), coords, entries.values[kept], entries.fill, once=True)


def kron(left: Entries, right: Entries) -> Entries:
    """numpy.kron."""
    ndim = max(left.ndim, right.ndim)
    left, right = at_least(left, ndim), at_least(right, ndim)
    shape = tuple(a * b for a, b in zip(left.shape, right.shape, strict=True))
    if left.fill == 0 and right.fill == 0:
        letters = "abcdefghijklmnopqrstuvwxyz"
        left_letters, right_letters = letters[:ndim], letters[ndim : 2 * ndim]
        both = contracted(
            left,
            right,
            (left_letters, right_letters, "".join(x + y for x, y in zip(left_letters, right_letters, strict=True))),
        )
        coords = [both.coords[2 * d] * right.shape[d] + both.coords[2 * d + 1] for d in range(ndim)]
        return moved(both, shape, coords)
    wide = expand_dims(left, tuple(range(1, 2 * ndim, 2)))
    deep = expand_dims(right, tuple(range(0, 2 * ndim, 2)))
    products = elementwise(None, [wide, deep], np.multiply)
    assert isinstance(products, Entries)
    return reshape(products, shape)
