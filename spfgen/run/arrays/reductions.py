"""Reductions of entries as numpy's: the fill values count, too. Results are dense arrays, and numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from spfgen.errors import DataError, UsageError
from spfgen.run.arrays.entries import MOST, Entries, filled, groups, normal, numbered
from spfgen.run.tensor import Array

SPARSE = "ask for a sparse result: spfgen.asarray(T).sum(axis).compute(layout=...)"
IDEMPOTENT = frozenset("maximum minimum fmax fmin logical_or logical_and bitwise_or bitwise_and gcd lcm".split())


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """The dimensions that numpy means by `axis`; all for None."""
    return tuple(range(ndim)) if axis is None else tuple(normalize_axis_tuple(axis, ndim, "axis"))


def reduced(
    function: np.ufunc, entries: Entries, axis: Any, keepdims: bool, dtype: Any = None, initial: Any = None
) -> Any:
    """`function.reduce` of the array that the entries stand for. Raises DataError when the result is too large."""
    found = of_groups(function, entries, axis, keepdims, dtype, initial)
    if found is None:
        more = {} if initial is None else {"initial": initial}
        return function.reduce(entries.to_dense(), axis=axis, keepdims=keepdims, dtype=dtype, **more)
    try:
        result = found.to_dense()
    except DataError as error:
        raise DataError(error.message, None, (SPARSE,)) from error
    return result if found.ndim else result[()]


def of_groups(
    function: np.ufunc, entries: Entries, axis: Any, keepdims: bool, dtype: Any = None, initial: Any = None
) -> Entries | None:
    """The same as entries: what differs from the reduction of fill values alone. None for functions of which that is
    not known."""
    axes, repeat = axes_of(axis, entries.ndim), _repeated(function)
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
        own = np.asarray(function.reduce(np.zeros(1, entries.dtype), dtype=dtype)).dtype
        unit = entries.fill.astype(own)
        fill = np.asarray(repeat(unit, np.asarray(length)))[()]
        order, first, where = groups(shape, [entries.coords[d] for d in kept], len(entries.values))
        values = function.reduceat(entries.values[order], first, dtype=dtype) if len(first) else np.zeros(0, own)
        if len(first):
            absent = length - np.diff(np.append(first, len(order)))
            some = absent > 0
            values[some] = function(values[some], repeat(unit, absent[some]), dtype=dtype)
        fill = np.asarray(fill).astype(values.dtype)[()]
        if initial is not None:
            values, fill = function(values, initial, dtype=dtype), function(fill, initial, dtype=dtype)
    if keepdims:
        zero, at = np.zeros(len(values), np.int64), iter(where)
        where = tuple(zero if d in axes else next(at) for d in range(entries.ndim))
        shape = tuple(1 if d in axes else n for d, n in enumerate(entries.shape))
    return normal(shape, where, np.asarray(values), fill, once=True)


def _repeated(function: np.ufunc) -> Callable[[Any, Array], Array] | None:
    """What the reduction of so many equal values is; None for functions of which that is not known."""
    match function.__name__:
        case "add":
            return lambda fill, count: np.asarray(fill * count if fill else np.zeros_like(fill * count))
        case "multiply":
            return lambda fill, count: np.asarray(fill**count)
        case "bitwise_xor" | "logical_xor":
            return lambda fill, count: np.where(count % 2 == 1, fill, np.zeros_like(fill))
        case name if name in IDEMPOTENT and name not in ("gcd", "lcm"):
            return lambda fill, count: np.broadcast_to(fill, count.shape)
    return None


def _shaped(result: Array, entries: Entries, axes: Sequence[int], keepdims: bool) -> Any:
    if keepdims:
        return result.reshape([1 if d in axes else n for d, n in enumerate(entries.shape)])
    return result[()] if not result.ndim else result


def mean(entries: Entries, axis: Any, keepdims: bool, dtype: Any = None) -> Any:
    """numpy.mean."""
    length = prod(entries.shape[d] for d in axes_of(axis, entries.ndim))
    if dtype is None and entries.dtype.kind in "biu":
        dtype = np.float64
    total = reduced(np.add, entries, axis, keepdims, dtype)
    return np.true_divide(total, length, dtype=np.asarray(total).dtype)


def place_of(which: str, entries: Entries, axis: Any, keepdims: bool) -> Any:
    """numpy.argmax or numpy.argmin: the first place of the largest (smallest) value; nan is more than any."""
    if axis is None:
        size = prod(entries.shape)
        if size > 2**63 - 1:
            raise DataError(f"expected fewer than 2^63 elements, but the shape is {entries.shape}")
        (flat,) = _flat(entries)
        line = Entries((size,), (flat,), entries.values, entries.fill)
        found = place_of(which, line, 0, False)
        return np.full([1] * entries.ndim, found) if keepdims else found
    (along,) = axes_of(axis, entries.ndim)
    length = entries.shape[along]
    if not length:
        raise UsageError(f"expected a dimension with elements for {which}, but its extent is 0")
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
        found = places[best][begin]
        result[where if where else ()] = found if where else found[0]
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
