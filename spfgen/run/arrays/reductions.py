"""Reductions of entries as numpy's: the fill values count, too. Results are dense arrays, and numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from spfgen.errors import ArgumentError, ConversionError, DataError
from spfgen.run.arrays.entries import MOST, Entries, computed, filled, groups, numbered
from spfgen.run.arrays.segments import Groups
from spfgen.run.arrays.words import integer
from spfgen.run.tensor import Array


class AxisError(ArgumentError, np.exceptions.AxisError):
    """An axis that is not there; numpy's error, too."""


SPARSE = "ask for a sparse result: spfgen.asarray(T).sum(axis).compute(layout=...)"
IDEMPOTENT = frozenset("maximum minimum fmax fmin logical_or logical_and bitwise_or bitwise_and".split())


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """The dimensions that numpy means by `axis`; all for None. Raises AxisError, ArgumentError, ConversionError."""
    if axis is None:
        return tuple(range(ndim))
    if not isinstance(axis, tuple | list):
        axis = (integer(axis, "an axis"),)
    try:
        return tuple(normalize_axis_tuple(axis, ndim))
    except (np.exceptions.AxisError, OverflowError):
        axes = ", ".join(map(str, axis))
        there = f"from {-ndim} to {ndim - 1}" if ndim else "None, as there are no dimensions"
        raise AxisError(f"expected an axis {there}, but it is {axes}") from None
    except ValueError:
        raise ArgumentError(f"expected different axes, but they are {axis!r}") from None
    except TypeError:
        raise ConversionError(f"expected an integer, several or None as the axis, but it is {axis!r}") from None


def axis_of(axis: Any, ndim: int) -> int:
    """The one dimension that is meant. Raises AxisError, ConversionError."""
    return axes_of((integer(axis, "an axis"),), ndim)[0]


def reduced(
    function: np.ufunc,
    entries: Entries,
    axis: Any,
    keepdims: bool,
    dtype: Any = None,
    initial: Any = None,
    grouped: Callable[[np.ufunc, Any, np.dtype[Any]], Groups] | None = None,
) -> Any:
    """`function.reduce` of the array that the entries stand for. Raises DataError when the result is too large."""
    by_groups = of_groups(function, entries, axis, keepdims, dtype, initial, grouped)
    if by_groups is None:
        more = {} if initial is None else {"initial": initial}
        dense = entries.to_dense()
        if dtype is None and function.reduce(np.zeros(1, dense.dtype)).dtype == np.float16:
            dtype = np.float32
        return function.reduce(dense, axis=axis, keepdims=keepdims, dtype=dtype, **more)
    try:
        result = by_groups.to_dense()
    except DataError as error:
        raise DataError(error.message, None, (SPARSE,)) from error
    return result if by_groups.ndim else result[()]


def of_groups(
    function: np.ufunc,
    entries: Entries,
    axis: Any,
    keepdims: bool,
    dtype: Any = None,
    initial: Any = None,
    grouped: Callable[[np.ufunc, Any, np.dtype[Any]], Groups] | None = None,
) -> Entries | None:
    """The same as entries: what differs from the reduction of fill values alone. None for functions of which that is
    not known. `grouped` has the groups of entries that have no coordinates."""
    axes, repeat = axes_of(axis, entries.ndim), _repeated(function)
    dtype = np.float32 if dtype is not None and np.dtype(dtype) == np.float16 else dtype  # which C has not
    if repeat is None:
        return None
    kept = [d for d in range(entries.ndim) if d not in axes]
    shape, length = tuple(entries.shape[d] for d in kept), prod(entries.shape[d] for d in axes)
    if length > MOST:
        if entries.fill and function.__name__ in ("add", "multiply"):
            raise DataError(f"expected fewer than 2^63 elements with the fill value {entries.fill}, but it is {length}")
        length = MOST  # some, and that is all that counts
    more = {} if initial is None else {"initial": initial}
    trial = np.asarray(function.reduce(np.zeros(min(1, length), entries.dtype), dtype=dtype, **more))
    if not length:  # numpy says what that is, or that there is nothing
        fill, values, where = trial[()], np.zeros(0, trial.dtype), tuple(np.zeros(0, np.int64) for _ in kept)
    else:
        result_type = np.asarray(function.reduce(np.zeros(1, entries.dtype), dtype=dtype)).dtype
        unit = entries.fill.astype(result_type)
        fill = repeat(unit, np.asarray(length))[()]
        if grouped is not None and len(entries.values):
            values, counts, where = grouped(function, dtype, result_type)
        else:
            values, counts, where = _by_group(function, entries, kept, dtype, result_type)
        if len(values):
            absent = length - counts
            some = absent > 0
            own_values, fills = values[some], repeat(unit, absent[some])
            values[some] = function(own_values, fills, dtype=dtype)
            overflows = function is np.multiply and np.isfinite(unit) and not np.isfinite(values).all()
            if overflows and np.isfinite(entries.values).all():
                values[some] = _without_overflow(own_values, fills, values[some])
        if initial is not None:
            begin = result_type.type(initial)
            values, fill = function(begin, values, dtype=dtype), function(begin, fill, dtype=dtype)
    if keepdims:
        zero, at = np.zeros(len(values), np.int64), iter(where)
        where = tuple(zero if d in axes else next(at) for d in range(entries.ndim))
        shape = tuple(1 if d in axes else n for d, n in enumerate(entries.shape))
    return computed(shape, where, np.asarray(values), fill)


def total(function: np.ufunc, values: Array, fill: Any, size: int) -> Any:
    """`function.reduce` of so many elements: of these values, and else of the fill; None where numpy's rules for groups
    of values are needed (`of_groups`)."""
    repeat, absent = _repeated(function), size - len(values)
    if repeat is None or not len(values) or size > MOST or (function is np.multiply and absent):
        return None
    result = function.reduce(values)
    if result.dtype == np.float16:
        return None
    if absent:
        unit = fill if fill.dtype == result.dtype else fill.astype(result.dtype)
        of_fill = repeat(unit, np.asarray(absent))[()] if fill and function.__name__ not in IDEMPOTENT else unit
        result = function(result, of_fill)
    return result


def _by_group(
    function: np.ufunc, entries: Entries, kept: Sequence[int], dtype: Any, result_type: np.dtype[Any]
) -> Groups:
    """Of the entries with equal coordinates in these dimensions."""
    count = len(entries.values)
    if not count:
        none = np.zeros(0, np.int64)
        return np.zeros(0, result_type), none, (none,) * len(kept)
    if not kept:
        return np.array([function.reduce(entries.values, dtype=dtype)], result_type), np.array([count]), ()
    shape = tuple(entries.shape[d] for d in kept)
    order, first, where = groups(shape, [entries.coords[d] for d in kept], count)
    values = function.reduceat(entries.values[order], first, dtype=dtype)
    return values, np.diff(np.append(first, count)), where


def _without_overflow(one: Array, two: Array, products: Array) -> Array:
    """The products with 0 where one factor is 0 and the other one too large, both products of finite numbers: in parts
    that is nan, but the product is 0 wherever the 0 stands."""
    wrong = ~np.isfinite(products) & ((one == 0) | (two == 0))
    zeros = 0 if products.dtype.kind == "c" else np.copysign(0, one) * np.copysign(1, two)
    return np.where(wrong, zeros, products)


def is_by_groups(function: np.ufunc) -> bool:
    """Whether entries are reduced group by group; else all elements are needed, with the coordinates of the entries."""
    return _repeated(function) is not None


def _repeated(function: np.ufunc) -> Callable[[Any, Array], Array] | None:
    """What the reduction of so many equal values is; None for functions of which that is not known."""
    match function.__name__:
        case "add":
            return _times
        case "multiply":
            return _power
        case "bitwise_xor" | "logical_xor":
            return lambda fill, count: np.where(count % 2 == 1, fill, np.zeros_like(fill))
        case name if name in IDEMPOTENT:
            return lambda fill, count: np.broadcast_to(fill, count.shape)
    return None


def _times(value: Any, count: Array) -> Array:
    """The sum of so many equal values, one or more, in their type: of integers the last bits; of complex numbers part
    by part, so that an infinite part leaves the other one as it is."""
    if not value:
        return np.zeros(count.shape, value.dtype)
    if value.dtype.kind == "c":
        product = np.empty(count.shape, value.dtype)
        product.real, product.imag = _times(value.real, count), _times(value.imag, count)
        return product
    return np.asarray(value * count.astype(value.dtype))


def _power(value: Any, count: Array) -> Array:
    """The product of so many equal values, one or more, in their type: by squares."""
    power, begun, square, exponent = np.ones(count.shape, value.dtype), np.zeros(count.shape, bool), value, count
    with np.errstate(all="ignore"):
        while exponent.any():
            odd = exponent % 2 == 1
            power = np.where(odd, np.where(begun, power * square, square), power)
            begun, square, exponent = begun | odd, square * square, exponent // 2
    return power


def _shaped(result: Array, entries: Entries, axes: Sequence[int], keepdims: bool) -> Any:
    if keepdims:
        return result.reshape([1 if d in axes else n for d, n in enumerate(entries.shape)])
    return result[()] if not result.ndim else result


def mean(
    entries: Entries,
    axis: Any,
    keepdims: bool,
    dtype: Any = None,
    grouped: Callable[[np.ufunc, Any, np.dtype[Any]], Groups] | None = None,
) -> Any:
    """numpy.mean."""
    length = prod(entries.shape[d] for d in axes_of(axis, entries.ndim))
    kind = mean_type(entries.dtype, dtype)
    return quotient(reduced(np.add, entries, axis, keepdims, kind, None, grouped), float(length))


def variance(entries: Entries, axis: Any, keepdims: bool, dtype: Any = None, ddof: float = 0) -> Any:
    """numpy.var: the sum of squares of deviations over their number less `ddof`. Those of the elements that are not
    stored are one for each group."""
    axes, shape = axes_of(axis, entries.ndim), entries.shape
    count = prod(shape[d] for d in axes)
    middle = np.asarray(mean(entries, axes, True, dtype))
    at = tuple([np.zeros_like(c) if d in axes else c for d, c in enumerate(entries.coords)])
    with np.errstate(all="ignore"):
        of_stored = replace(entries, values=_squares(entries.values - middle[at]), fill=np.float64(0))
        stored = replace(entries, values=np.ones(len(entries.values), np.int64), fill=np.int64(0))
        absent = count - reduced(np.add, stored, axes, True)
        of_fill = np.where(absent > 0, absent * _squares(entries.fill - middle), 0)
        total = (reduced(np.add, of_stored, axes, True) + of_fill) / np.float64(max(count - ddof, 0))
    result = np.asarray(total).astype(middle.real.dtype)
    return result if keepdims else np.squeeze(result, axes)[()]


def _squares(values: Any) -> Any:
    return values.real**2 + values.imag**2 if values.dtype.kind == "c" else values**2


def mean_type(kind: np.dtype[Any], dtype: Any) -> Any:
    """The type of the sum that numpy.mean divides."""
    return np.float64 if dtype is None and kind.kind in "biu" else dtype


def quotient(total: Any, count: Any) -> Any:
    """A mean, in the type of the sum."""
    kind = np.asarray(total).dtype
    return np.asarray(np.true_divide(total, count)).astype(kind)[()]


def place_of(which: str, entries: Entries, axis: Any, keepdims: bool) -> Any:
    """numpy.argmax or numpy.argmin: the first place of the largest (smallest) value; nan is more than any."""
    if axis is None:
        size = prod(entries.shape)
        if size > 2**63 - 1:
            raise DataError(f"expected fewer than 2^63 elements, but the shape is {entries.shape}")
        (flat,) = _flat(entries)
        line = Entries((size,), (flat,), entries.values, entries.fill)
        first_place = place_of(which, line, 0, False)
        return np.full([1] * entries.ndim, first_place) if keepdims else first_place
    along = axis_of(axis, entries.ndim)
    length = entries.shape[along]
    if not length:
        raise ArgumentError(f"expected a dimension with elements for {which}, but its extent is 0")
    kept = [d for d in range(entries.ndim) if d != along]
    shape = tuple(entries.shape[d] for d in kept)
    result = filled(shape, 0, np.dtype(np.int64))
    count = len(entries.values)
    order, first, where = groups(shape, [entries.coords[d] for d in kept], count)
    if count:
        place, values = entries.coords[along][order], entries.values[order]
        group = np.repeat(np.arange(len(first)), np.diff(np.append(first, count)))
        rank = np.arange(count) - first[group]
        free = np.full(len(first), length)  # the first place of the fill
        np.minimum.at(free, group[place != rank], rank[place != rank])
        counts = np.diff(np.append(first, count))
        free = np.where((free == length) & (counts < length), counts, free)
        candidates = np.concatenate([values, np.full(len(first), entries.fill)])
        places = np.concatenate([place, free])
        owners = np.concatenate([group, np.arange(len(first))])
        real = places < length
        candidates, places, owners = candidates[real], places[real], owners[real]
        level = _levels(candidates, which)
        best = np.lexsort((places, level, owners))
        begin = np.flatnonzero(np.append(True, owners[best][1:] != owners[best][:-1]))
        first_place = places[best][begin]
        result[where if where else ()] = first_place if where else first_place[0]
    return _shaped(result, entries, (along,), keepdims)


def _levels(values: Array, which: str) -> Array:
    """Numbers that are the smaller the better a value is; equal for equal ones."""
    distinct, rank = np.unique(values, return_inverse=True)  # nan is the last one, and once
    if which == "argmax":
        return -rank
    missing = np.isnan(distinct) if distinct.dtype.kind in "fc" else np.zeros(len(distinct), bool)
    return np.where(missing[rank], -1, rank)


def _flat(entries: Entries) -> tuple[Array]:
    (key,) = numbered(entries.shape, [len(entries.values)], [entries.coords])
    return (key,)


def permutation(axes: Sequence[Any], ndim: int) -> tuple[int, ...]:
    """The order of the dimensions that numpy's transpose means."""
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], Sequence)):
        axes = axes[0] or ()
    if not axes:
        return tuple(reversed(range(ndim)))
    order = axes_of(tuple(axes), ndim)
    if len(order) != ndim:
        raise ArgumentError(f"expected an order of {ndim} dimensions, but it is {tuple(axes)}")
    return order
