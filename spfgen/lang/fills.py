"""Fill values as written and compared: bit by bit, but nan equals nan, and the type of the number says nothing.

`True`, `1` and `1.0` are one fill, which a tensor holds in its own value type; 0 and -0.0 are two.
"""

from __future__ import annotations

from math import copysign, isfinite, isnan, nan
from typing import Any

LARGEST_WHOLE = 2.0**64
"""Floats up to here are written as the integers that they are."""


def plain_fill(value: Any) -> int | float | complex:
    """The number, of the simplest type of Python that holds it. Raises TypeError for what is no number."""
    number = value.item() if hasattr(value, "item") else value
    if not isinstance(number, int | float | complex) and hasattr(number, "__float__"):
        number = complex(number) if hasattr(number, "__complex__") else float(number)  # a long double
    if isinstance(number, int):
        return int(number)
    if isinstance(number, complex):
        plain_imaginary = number.imag == 0 and copysign(1.0, number.imag) > 0
        return plain_fill(number.real) if plain_imaginary else number
    if not isinstance(number, float):
        raise TypeError(f"no number: {value!r}")
    if isnan(number):
        return nan
    is_whole = isfinite(number) and number == int(number) and abs(number) < LARGEST_WHOLE
    return int(number) if is_whole and (number or copysign(1.0, number) > 0) else number


def fill_text(value: Any) -> str:
    """The fill value as text: two are the same when their texts are."""
    return repr(plain_fill(value))


def fill_number(text: str) -> int | float | complex:
    """The number of such a text. Raises ValueError."""
    for kind in (int, float, complex):
        try:
            return plain_fill(kind(text))
        except ValueError:
            continue
    raise ValueError(f"no number: {text}")
