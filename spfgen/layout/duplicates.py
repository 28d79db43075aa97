"""Combines entries with equal coordinates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from itertools import pairwise
from typing import Any

import numpy as np

from spfgen.errors import DataError, UsageError
from spfgen.layout.points import Array

Duplicates = str | Callable[[Any, Any], Any]
"""`sum` adds them, `last` and `first` keep one in the order of the input, `error` refuses them; a function of two
values (numpy.maximum, operator.mul, ...) is applied from the first to the last."""

WORDS = ("sum", "last", "first", "error")


def combined_values(columns: Sequence[Array], values: Array, first: Array, duplicates: Duplicates) -> Array:
    """One value for each coordinate, of the dtype of `values`.

    `columns` and `values` are sorted by coordinate, equal ones in the order of the input; `first` are the places where
    a new coordinate begins. Raises DataError for `error` (there are duplicates), UsageError for an unknown word.
    """
    match duplicates:
        case "sum":
            return np.asarray(np.add.reduceat(values, first), dtype=values.dtype)
        case "first":
            return values[first]
        case "last":
            kept: Array = values[np.append(first[1:], len(values)) - 1]
            return kept
        case "error":
            again = int(np.flatnonzero(np.diff(np.append(first, len(values))) > 1)[0])
            at = tuple(int(c[first[again]]) for c in columns)
            raise DataError(
                f"expected each coordinate once, but {at} occurs more than once",
                None,
                ("say how to combine duplicates: `sum`, `last`, `first` or a function of two values",),
            )
    function = checked_duplicates(duplicates)
    if isinstance(function, np.ufunc) and function.nin == 2 and function.nout == 1:
        return np.asarray(function.reduceat(values, first), dtype=values.dtype)
    starts = [*first.tolist(), len(values)]
    result = values[first].copy()
    for k, (start, end) in enumerate(pairwise(starts)):
        for value in values[start + 1 : end]:
            combined = function(result[k], value)  # type: ignore[operator]
            try:
                result[k] = combined
            except (TypeError, ValueError):
                message = f"expected a function of duplicates that gives a number, but it gives {combined!r}"
                raise UsageError(message) from None
    return result


def checked_duplicates(duplicates: object) -> Duplicates:
    """What was given, when it means something. Raises UsageError otherwise."""
    if (isinstance(duplicates, str) and duplicates in WORDS) or (callable(duplicates) and _takes_two(duplicates)):
        return duplicates
    words = ", ".join(f"`{w}`" for w in WORDS)
    raise UsageError(f"expected {words} or a function of two values for duplicates, but it is {duplicates!r}")


def _takes_two(function: Callable[..., Any]) -> bool:
    """Whether a function can be called with two values, as far as it can be told without a call."""
    if isinstance(function, np.ufunc):
        return (function.nin, function.nout) == (2, 1)
    try:
        signature(function).bind(0, 0)
    except TypeError:
        return False
    except ValueError:  # some functions in C do not tell
        return True
    return True
