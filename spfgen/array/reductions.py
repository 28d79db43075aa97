"""Statistics and truth: what is not stored counts as the fill value. Results are dense."""

from __future__ import annotations

from typing import Any

import numpy as np

from spfgen.array.held import Held, asked, dense, held, taken
from spfgen.errors import ArgumentError
from spfgen.run.arrays.reductions import axis_of

Axis = int | tuple[int, ...] | None


def sum(x: Any, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Held:
    """The sum, in at least 64 bits for integers."""
    return held(np.sum(asked(x, "biufc", "sum"), axis=axis, dtype=dtype, keepdims=keepdims))


def prod(x: Any, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Held:
    """The product, in at least 64 bits for integers."""
    return held(np.prod(asked(x, "biufc", "prod"), axis=axis, dtype=dtype, keepdims=keepdims))


def max(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Held:
    """The largest value. Raises ArgumentError where there is none."""
    return held(np.max(asked(x, "iuf", "max"), axis=axis, keepdims=keepdims))


def min(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Held:
    """The smallest value. Raises ArgumentError where there is none."""
    return held(np.min(asked(x, "iuf", "min"), axis=axis, keepdims=keepdims))


def mean(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Held:
    """The arithmetic mean."""
    return held(np.mean(asked(x, "fc", "mean"), axis=axis, keepdims=keepdims))


def var(x: Any, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Held:
    """The variance: the sum of squares of deviations over their number less `correction`."""
    return held(np.var(asked(x, "f", "var"), axis=axis, ddof=correction, keepdims=keepdims))


def std(x: Any, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Held:
    """The square root of `var`."""
    return held(np.std(asked(x, "f", "std"), axis=axis, ddof=correction, keepdims=keepdims))


def all(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Held:
    """Whether all elements are true."""
    return held(np.all(taken(x), axis=axis, keepdims=keepdims))


def any(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Held:
    """Whether an element is true."""
    return held(np.any(taken(x), axis=axis, keepdims=keepdims))


def count_nonzero(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Held:
    """How many elements differ from 0."""
    return held(np.count_nonzero(taken(x), axis=axis, keepdims=keepdims))


def argmax(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Held:
    """The first place of the largest value."""
    return held(np.argmax(asked(x, "iuf", "argmax"), axis=axis, keepdims=keepdims))


def argmin(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Held:
    """The first place of the smallest value."""
    return held(np.argmin(asked(x, "iuf", "argmin"), axis=axis, keepdims=keepdims))


def cumulative_sum(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Held:
    """Sums of the elements up to each along an axis: of a dense copy, as the result is dense."""
    return held(np.cumulative_sum(dense(x), axis=_one(x, axis), dtype=dtype, include_initial=include_initial))


def cumulative_prod(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Held:
    """Products of the elements up to each along an axis: of a dense copy, as the result is dense."""
    return held(np.cumulative_prod(dense(x), axis=_one(x, axis), dtype=dtype, include_initial=include_initial))


def _one(x: Any, axis: int | None) -> int:
    ndim = taken(x).ndim
    if axis is None and ndim > 1:
        raise ArgumentError(f"expected an axis of an array with {ndim} dimensions, but there is none")
    return 0 if axis is None else axis_of(axis, ndim)
