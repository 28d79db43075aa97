"""Is a numerical result right? The tolerance follows from the error bound of a sum."""

from __future__ import annotations

from typing import Any

import numpy as np


def sum_tolerance(length: Any, magnitude: Any) -> Any:
    """How far two float64 sums of the same products may be apart, whatever their order.

    Each is within (length + 1) * eps * magnitude of the true value, where `magnitude` is the sum of the
    absolute products; both may err, hence the factor two. An empty sum must be exactly zero.
    """
    return 2.0 * (np.asarray(length, dtype=np.float64) + 1.0) * np.finfo(np.float64).eps * magnitude


def compare(result: Any, expected: Any, tolerance: Any) -> str:
    """A complaint, or "" when every element is within its tolerance. NaN is never within."""
    result, expected = np.asarray(result), np.asarray(expected)
    if result.shape != expected.shape:
        return f"shape {result.shape}, expected {expected.shape}"
    with np.errstate(invalid="ignore"):
        bad = ~(np.abs(result - expected) <= tolerance)
    count = int(np.count_nonzero(bad))
    if count == 0:
        return ""
    first = tuple(int(i) for i in np.argwhere(bad)[0])
    return (
        f"{count} of {bad.size} elements differ; first at {first}: "
        f"{float(result[first])!r}, expected {float(expected[first])!r}"
    )
