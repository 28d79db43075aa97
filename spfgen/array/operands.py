"""What goes into a function of the namespace, and what comes out: tensors, or lazy arrays where there was one.

What is dense, as a sum along an axis, is a tensor in a dense layout; a number is a tensor without dimensions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spfgen.errors import ArgumentError, ConversionError, a_type
from spfgen.run.arrays.entries import Entries
from spfgen.run.arrays.lazy import LazyArray
from spfgen.run.arrays.made import of_coordinates, packed_in
from spfgen.run.calls.detect_layout import tensor_of
from spfgen.run.tensor import Array, Tensor

AnyArray = Any
"""A Tensor or a LazyArray."""


def as_array(result: Any) -> Any:
    """A result as an array of the standard; a tuple of results as a tuple."""
    if isinstance(result, Tensor | LazyArray):
        return result
    if isinstance(result, tuple | list):
        return tuple([as_array(f) for f in result])
    return tensor_of(np.asarray(result), "the array")


def array_operand(value: Any) -> AnyArray:
    """An operand that has to be an array. Raises ConversionError for a number of Python."""
    if isinstance(value, Tensor | LazyArray):
        return value
    if isinstance(value, np.generic):  # some of which are numbers of Python, too
        return as_array(value)
    if isinstance(value, bool | int | float | complex | str | list | tuple) or value is None:
        message = f"expected an array, but this is {a_type(value)}"
        raise ConversionError(message, None, ("write spfgen.array.asarray(...)",))
    return tensor_of(value, "the array")


def operand(value: Any) -> Any:
    """An operand beside others: an array, or a number of Python."""
    return value if type(value) in (bool, int, float, complex) else array_operand(value)


def computed(value: Any) -> Tensor:
    """The tensor that an array is."""
    value = array_operand(value)
    tensor: Tensor = as_array(value.compute()) if isinstance(value, LazyArray) else value
    return tensor


def dense(value: Any) -> Array:
    """The dense numpy array that it stands for: what functions work on that have no sparse way."""
    return np.asarray(array_operand(value))


def sparse(shape: tuple[int, ...], coords: Any, values: Array, fill: Any) -> Tensor:
    """A tensor in coordinates of sorted entries, each once."""
    if not shape:
        value = values[-1] if len(values) else fill
        number: Tensor = as_array(np.asarray(value, values.dtype))
        return number
    entries = Entries(shape, tuple(coords), values, values.dtype.type(fill))
    return packed_in(of_coordinates(len(shape)), entries)


def on_device(device: Any) -> None:
    """Raises ArgumentError for another device than that of the processor."""
    if device not in (None, "cpu"):
        raise ArgumentError(f'expected the device "cpu", which is the only one, but it is {device!r}')


def numeric_operand(x: Any, kinds: str, name: str) -> Any:
    """An array of one of numpy's kinds of types. Raises ConversionError for others."""
    x = array_operand(x)
    if x.dtype.kind not in kinds:
        raise ConversionError(f"expected a type of numbers that {name} takes, but it is {x.dtype}")
    return x
