"""Sorting, sets and places. Sorted along an axis is what is dense; distinct values come from what is stored."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spfgen.array.operands import AnyArray, as_array, computed, dense, numeric_operand
from spfgen.errors import ArgumentError
from spfgen.run.arrays.entries import entries_of
from spfgen.run.tensor import Array


class unique_all_result(NamedTuple):  # noqa: N801
    """What `unique_all` gives."""

    values: AnyArray
    indices: AnyArray
    inverse_indices: AnyArray
    counts: AnyArray


class unique_counts_result(NamedTuple):  # noqa: N801
    """What `unique_counts` gives."""

    values: AnyArray
    counts: AnyArray


class unique_inverse_result(NamedTuple):  # noqa: N801
    """What `unique_inverse` gives."""

    values: AnyArray
    inverse_indices: AnyArray


def nonzero(x: Any, /) -> tuple[AnyArray, ...]:
    """The coordinates of what differs from 0, an array for each dimension, in row-major order.

    Shapes: any but that of a number; lines. Types: any; int64. Fill: none, the results are dense. Cost: a pass over
    what is stored; all elements where the fill is not 0.

    >>> [c.to_numpy() for c in xp.nonzero(A)]
    [array([0, 1]), array([1, 0])]
    """
    x = computed(x)
    if not x.ndim:
        raise ArgumentError("expected an array with dimensions, but it is a number")
    return tuple([as_array(c) for c in np.nonzero(x)])


def searchsorted(x1: Any, x2: Any, /, *, side: Any = "left", sorter: Any = None) -> AnyArray:
    """numpy.searchsorted, of dense copies.

    Shapes: a line; those of `x2`. Types: real numbers; int64. Fill: none, the result is dense. Cost: dense copies.

    >>> xp.searchsorted(xp.asarray([1, 3]), xp.asarray([2])).to_numpy()
    array([1])
    """
    return as_array(np.searchsorted(dense(x1), dense(x2), side, None if sorter is None else dense(sorter)))


def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> AnyArray:
    """Sorted along an axis, in a dense copy.

    Shapes: those of `x`. Types: real numbers, which stay. Fill: none, the result is dense. Cost: a dense copy.

    >>> xp.sort(A, descending=True).to_numpy()
    array([[0.5, 0. ],
           [1. , 0. ]])
    """
    sorted_array = np.sort(dense(numeric_operand(x, "iuf", "sort")), axis=axis, stable=stable)
    return as_array(np.flip(sorted_array, axis) if descending else sorted_array)


def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> AnyArray:
    """The places of the elements in their order along an axis, by a dense copy. Equal ones stay in order.

    Shapes: those of `x`. Types: real numbers; int64. Fill: none, the result is dense. Cost: a dense copy.

    >>> xp.argsort(A).to_numpy()
    array([[0, 1],
           [1, 0]])
    """
    array = dense(numeric_operand(x, "iuf", "argsort"))
    if not descending:
        return as_array(np.argsort(array, axis=axis, stable=stable))
    places = np.argsort(np.flip(array, axis), axis=axis, stable=stable)
    return as_array(array.shape[axis] - 1 - np.flip(places, axis))


def unique_values(x: Any, /) -> AnyArray:
    """The distinct values; each nan is one.

    Shapes: any; a line. Types: any, which stay. Fill: is one of the values where something is not stored. Cost: a
    sort of what is stored.

    >>> xp.unique_values(A).to_numpy()
    array([0. , 0.5, 1. ])
    """
    return as_array(_distinct(x)[0])


def unique_counts(x: Any, /) -> unique_counts_result:
    """The distinct values, and how often each is there.

    Shapes: any; lines. Types: any, which stay, and int64. Fill: is one of the values where something is not stored.
    Cost: a sort of what is stored.

    >>> xp.unique_counts(A).counts.to_numpy()
    array([2, 1, 1])
    """
    return unique_counts_result(*map(as_array, _distinct(x)))


def unique_inverse(x: Any, /) -> unique_inverse_result:
    """The distinct values, and which of them each element is: of a dense copy.

    Shapes: any; a line and that of `x`. Types: any, which stay, and int64. Fill: is an element as all others. Cost:
    a dense copy.

    >>> xp.unique_inverse(A).inverse_indices.to_numpy()
    array([[0, 1],
           [2, 0]])
    """
    distinct = np.unique_inverse(dense(x))
    return unique_inverse_result(*map(as_array, distinct))


def unique_all(x: Any, /) -> unique_all_result:
    """The distinct values, their first places, which of them each element is, and how often: of a dense copy.

    Shapes: any; lines and that of `x`. Types: any, which stay, and int64. Fill: is an element as all others. Cost:
    a dense copy.

    >>> xp.unique_all(A).indices.to_numpy()
    array([0, 1, 2])
    """
    return unique_all_result(*map(as_array, np.unique_all(dense(x))))


def _distinct(x: Any) -> tuple[Array, Array]:
    x = computed(x)
    entries = entries_of(x)
    missing = x.size - len(entries.values)
    if missing and entries.fill != entries.fill:
        distinct = np.unique_counts(dense(x))
        return distinct.values, distinct.counts
    stored = np.append(entries.values, entries.fill) if missing else entries.values
    values, counts = np.unique(stored, return_counts=True, equal_nan=False)
    if missing:
        counts[values == entries.fill] += missing - 1
    return values, counts
