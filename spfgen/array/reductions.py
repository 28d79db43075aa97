"""Statistics and truth: what is not stored counts as the fill value. Results are dense."""

from __future__ import annotations

from typing import Any

import numpy as np

from spfgen.array.operands import AnyArray, array_operand, as_array, dense, numeric_operand
from spfgen.errors import ArgumentError
from spfgen.run.arrays.reductions import axis_of

Axis = int | tuple[int, ...] | None


def sum(x: Any, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> AnyArray:
    """The sum, in at least 64 bits for integers.

    Shapes: any; the axes are left out, or have extent 1 with `keepdims`. Types: any; of small integers and bool 64
    bits. Fill: counts wherever nothing is stored; the result is dense. Cost: a pass over what is stored, and a
    group for each element of the result.

    >>> xp.sum(A, axis=0).to_numpy()
    array([1. , 0.5])
    """
    return as_array(np.sum(numeric_operand(x, "biufc", "sum"), axis=axis, dtype=dtype, keepdims=keepdims))


def prod(x: Any, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> AnyArray:
    """The product, in at least 64 bits for integers.

    Shapes: any; the axes are left out, or have extent 1 with `keepdims`. Types: any; of small integers and bool 64
    bits. Fill: counts wherever nothing is stored; the result is dense. Cost: a pass over what is stored, and a
    group for each element of the result.

    >>> xp.prod(A).item()
    0.0
    """
    return as_array(np.prod(numeric_operand(x, "biufc", "prod"), axis=axis, dtype=dtype, keepdims=keepdims))


def max(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> AnyArray:
    """The largest value. Raises ArgumentError where there is none.

    Shapes: any; the axes are left out, or have extent 1 with `keepdims`. Types: real numbers, which stay. Fill:
    counts wherever nothing is stored; the result is dense. Cost: a pass over what is stored, and a group for each
    element of the result.

    >>> xp.max(A).item()
    1.0
    """
    return as_array(np.max(numeric_operand(x, "iuf", "max"), axis=axis, keepdims=keepdims))


def min(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> AnyArray:
    """The smallest value. Raises ArgumentError where there is none.

    Shapes: any; the axes are left out, or have extent 1 with `keepdims`. Types: real numbers, which stay. Fill:
    counts wherever nothing is stored; the result is dense. Cost: a pass over what is stored, and a group for each
    element of the result.

    >>> xp.min(A, axis=1).to_numpy()
    array([0., 0.])
    """
    return as_array(np.min(numeric_operand(x, "iuf", "min"), axis=axis, keepdims=keepdims))


def mean(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> AnyArray:
    """The arithmetic mean.

    Shapes: any; the axes are left out, or have extent 1 with `keepdims`. Types: floating-point, which stay. Fill:
    counts wherever nothing is stored; the result is dense. Cost: a pass over what is stored, and a group for each
    element of the result.

    >>> xp.mean(A).item()
    0.375
    """
    return as_array(np.mean(numeric_operand(x, "fc", "mean"), axis=axis, keepdims=keepdims))


def var(x: Any, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> AnyArray:
    """The variance: the sum of squares of deviations over their number less `correction`.

    Shapes: any; the axes are left out, or have extent 1 with `keepdims`. Types: real floating-point, which stay.
    Fill: counts wherever nothing is stored; the result is dense. Cost: a pass over what is stored, and a group for
    each element of the result, twice.

    >>> xp.var(A).item()
    0.171875
    """
    return as_array(np.var(numeric_operand(x, "f", "var"), axis=axis, ddof=correction, keepdims=keepdims))


def std(x: Any, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> AnyArray:
    """The square root of `var`.

    Shapes: any; the axes are left out, or have extent 1 with `keepdims`. Types: real floating-point, which stay.
    Fill: counts wherever nothing is stored; the result is dense. Cost: a pass over what is stored, and a group for
    each element of the result, twice.

    >>> xp.std(xp.asarray([1.0, 3.0])).item()
    1.0
    """
    return as_array(np.std(numeric_operand(x, "f", "std"), axis=axis, ddof=correction, keepdims=keepdims))


def all(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> AnyArray:
    """Whether all elements are true.

    Shapes: any; the axes are left out, or have extent 1 with `keepdims`. Types: any; bool. Fill: counts wherever
    nothing is stored; the result is dense. Cost: a pass over what is stored, and a group for each element of the
    result.

    >>> xp.all(A).item()
    False
    """
    return as_array(np.all(array_operand(x), axis=axis, keepdims=keepdims))


def any(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> AnyArray:
    """Whether an element is true.

    Shapes: any; the axes are left out, or have extent 1 with `keepdims`. Types: any; bool. Fill: counts wherever
    nothing is stored; the result is dense. Cost: a pass over what is stored, and a group for each element of the
    result.

    >>> xp.any(A).item()
    True
    """
    return as_array(np.any(array_operand(x), axis=axis, keepdims=keepdims))


def count_nonzero(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> AnyArray:
    """How many elements differ from 0.

    Shapes: any; the axes are left out, or have extent 1 with `keepdims`. Types: any; int64. Fill: counts wherever
    nothing is stored; the result is dense. Cost: a pass over what is stored, and a group for each element of the
    result.

    >>> xp.count_nonzero(A).item()
    2
    """
    return as_array(np.count_nonzero(array_operand(x), axis=axis, keepdims=keepdims))


def argmax(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> AnyArray:
    """The first place of the largest value.

    Shapes: any; the axes are left out, or have extent 1 with `keepdims`. Types: real numbers; int64. Fill: counts
    wherever nothing is stored; the result is dense. Cost: a sort of what is stored.

    >>> xp.argmax(A).item()
    2
    """
    return as_array(np.argmax(numeric_operand(x, "iuf", "argmax"), axis=axis, keepdims=keepdims))


def argmin(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> AnyArray:
    """The first place of the smallest value.

    Shapes: any; the axes are left out, or have extent 1 with `keepdims`. Types: real numbers; int64. Fill: counts
    wherever nothing is stored; the result is dense. Cost: a sort of what is stored.

    >>> xp.argmin(A, axis=1).to_numpy()
    array([0, 1])
    """
    return as_array(np.argmin(numeric_operand(x, "iuf", "argmin"), axis=axis, keepdims=keepdims))


def cumulative_sum(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> AnyArray:
    """Sums of the elements up to each along an axis: of a dense copy, as the result is dense.

    Shapes: those of `x`, one more with `include_initial`. Types: numbers; of small integers 64 bits. Fill: none,
    the result is dense. Cost: a dense copy.

    >>> xp.cumulative_sum(A, axis=1).to_numpy()
    array([[0. , 0.5],
           [1. , 1. ]])
    """
    return as_array(np.cumulative_sum(dense(x), axis=_one(x, axis), dtype=dtype, include_initial=include_initial))


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> AnyArray:
    """Products of the elements up to each along an axis: of a dense copy, as the result is dense.

    Shapes: those of `x`, one more with `include_initial`. Types: numbers; of small integers 64 bits. Fill: none,
    the result is dense. Cost: a dense copy.

    >>> xp.cumulative_prod(xp.asarray([1, 2, 3])).to_numpy()
    array([1, 2, 6])
    """
    return as_array(np.cumulative_prod(dense(x), axis=_one(x, axis), dtype=dtype, include_initial=include_initial))


def _one(x: Any, axis: int | None) -> int:
    ndim = array_operand(x).ndim
    if axis is None and ndim > 1:
        raise ArgumentError(f"expected an axis of an array with {ndim} dimensions, but there is none")
    return 0 if axis is None else axis_of(axis, ndim)
