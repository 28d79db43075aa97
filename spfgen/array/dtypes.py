"""Types of the standard: those of numpy, by their names."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import Any

import numpy as np

from spfgen.array.operands import AnyArray, array_operand, as_array, on_device, operand
from spfgen.run.tensor import Tensor

bool = np.dtype("bool")
int8, int16, int32, int64 = map(np.dtype, ("int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = map(np.dtype, ("uint8", "uint16", "uint32", "uint64"))
float32, float64 = np.dtype("float32"), np.dtype("float64")
complex64, complex128 = np.dtype("complex64"), np.dtype("complex128")

DTYPES = {
    "bool": (bool,),
    "signed integer": (int8, int16, int32, int64),
    "unsigned integer": (uint8, uint16, uint32, uint64),
    "real floating": (float32, float64),
    "complex floating": (complex64, complex128),
}
"""By the standard's names of kinds."""


@dataclass(frozen=True)
class finfo_object:  # noqa: N801
    """What `finfo` gives, in numbers of Python."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Any


@dataclass(frozen=True)
class iinfo_object:  # noqa: N801
    """What `iinfo` gives."""

    bits: int
    max: int
    min: int
    dtype: Any


def finfo(type: Any, /) -> finfo_object:
    """The limits of a floating type, or of that of an array; of a complex type those of its parts.

    Shapes: any. Types: floating-point, real or complex. Fill: plays no part. Cost: none.

    >>> xp.finfo(xp.float32).bits
    32
    """
    limits = np.finfo(_type_of(type))
    eps, most, least, normal = (float(n) for n in (limits.eps, limits.max, limits.min, limits.smallest_normal))
    return finfo_object(limits.bits, eps, most, least, normal, np.dtype(limits.dtype))


def iinfo(type: Any, /) -> iinfo_object:
    """The limits of an integer type, or of that of an array.

    Shapes: any. Types: integers. Fill: plays no part. Cost: none.

    >>> xp.iinfo(xp.int8).max
    127
    """
    kind = np.dtype(_type_of(type))
    limits = np.iinfo(kind)
    return iinfo_object(limits.bits, int(limits.max), int(limits.min), kind)


def isdtype(dtype: Any, kind: Any) -> builtins.bool:
    """Whether a type is of a kind ("bool", "integral", "numeric", ...), is another type, or one of several.

    Shapes: none. Types: any. Fill: plays no part. Cost: none.

    >>> xp.isdtype(xp.int8, "integral")
    True
    """
    return builtins.bool(np.isdtype(np.dtype(dtype), kind))


def can_cast(from_: Any, to: Any, /) -> builtins.bool:
    """Whether a type, or that of an array, goes into another one by the rules of promotion.

    Shapes: any. Types: any. Fill: plays no part. Cost: none.

    >>> xp.can_cast(xp.int8, xp.float32)
    True
    """
    return builtins.bool(np.can_cast(np.dtype(_type_of(from_)), np.dtype(_type_of(to))))


def result_type(*arrays_and_dtypes: Any) -> Any:
    """The type that arrays, types and numbers of Python have together.

    Shapes: any. Types: any. Fill: plays no part. Cost: none.

    >>> xp.result_type(A, xp.float32)
    dtype('float64')
    """
    return np.result_type(*[_type_of(a) for a in arrays_and_dtypes])


def astype(x: Any, dtype: Any, /, *, copy: builtins.bool = True, device: Any = None) -> AnyArray:
    """The same pattern with values, and the fill, of another type. Without `copy` an array of the type is itself.

    Shapes: those of `x`. Types: any but complex ones into real ones. Fill: cast, too. Cost: a pass over the stored
    values.

    >>> xp.astype(A, xp.int32).to_numpy()
    array([[0, 0],
           [1, 0]], dtype=int32)
    """
    on_device(device)
    x = array_operand(x)
    if x.dtype == np.dtype(dtype):
        return x.copy() if copy and isinstance(x, Tensor) else x
    return as_array(x.astype(dtype))


def _type_of(value: Any) -> Any:
    if isinstance(value, type | np.dtype | str) or type(value) in (builtins.bool, int, float, complex):
        return value
    return operand(value).dtype
