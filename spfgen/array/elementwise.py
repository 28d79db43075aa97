"""Functions of single values: those of numpy on tensors, under the standard's names.

The pattern of one operand stays, and its fill value is the function of the fill value. That of several is where one of
them has an entry, or where the fill of one does not decide.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from spfgen.array.operands import AnyArray, array_operand, as_array, computed, numeric_operand, operand
from spfgen.errors import ArgumentError, ConversionError
from spfgen.run.arrays.eager import applied
from spfgen.run.arrays.lazy import LazyArray

_BOOL, _INTEGER, _REAL, _FLOAT, _ANY = "b", "iu", "iuf", "fc", "biufc"
_NUMBER = "iufc"
_KINDS = {
    "b": "bool",
    "iu": "integers",
    "biu": "bool and integers",
    "f": "real floating-point numbers",
    "fc": "floating-point numbers",
    "iuf": "real numbers",
    "iufc": "numbers",
    "biufc": "all",
}
_FILL_OF_ONE = """Fill: the function of the fill. Cost: a pass over the stored values; the pattern stays."""
_FILL_OF_TWO = """Fill: the function of both fills. Where one decides alone, what only the other stores is left out.
    Cost: a merge of what both store; beside a dense array all elements, unless the fill decides."""


def _of_one(name: str, kinds: str, theirs: str = "") -> Callable[[Any], AnyArray]:
    function = getattr(np, theirs or name)

    def of_one(x: Any, /) -> AnyArray:
        return as_array(function(numeric_operand(x, kinds, name)))

    function_of_one: Callable[[Any], AnyArray] = _named(of_one, name, function, kinds, _FILL_OF_ONE)
    return function_of_one


def _of_two(name: str, kinds: str, theirs: str = "") -> Callable[[Any, Any], AnyArray]:
    function = getattr(np, theirs or name)
    exactly = partial(_exactly, function) if name in _BY_CONVENTION else function

    def of_two(x1: Any, x2: Any, /) -> AnyArray:
        first, second = _pair(x1, x2)
        for x in (first, second):
            if hasattr(x, "dtype"):
                numeric_operand(x, kinds, name)
        return as_array(exactly(first, second))

    function_of_two: Callable[[Any, Any], AnyArray] = _named(of_two, name, function, kinds, _FILL_OF_TWO)
    return function_of_two


_BY_CONVENTION = ("multiply", "divide", "floor_divide", "remainder")
"""Of which the signs of tensors say that a 0 that is not stored decides. The standard knows no such zeros."""


def _exactly(function: np.ufunc, first: Any, second: Any) -> Any:
    """Where nothing is stored, 0 times infinity is nan, and so is 0 by 0. Lazy arrays are computed where there are
    floating-point numbers."""
    given = [first, second]
    if any(isinstance(o, LazyArray) for o in given):
        if _leaves_zeros(function, given):
            return function(first, second)
        given = [computed(o) if isinstance(o, LazyArray) else o for o in given]
    return applied(function, given, {}, exact=True)


def _leaves_zeros(function: np.ufunc, given: list[Any]) -> bool:
    """Whether the function makes 0 of 0, whatever an array holds, as of integers, or beside a number."""
    if any(not hasattr(o, "dtype") for o in given):
        trial = [np.zeros(1, o.dtype) if hasattr(o, "dtype") else o for o in given]
        with np.errstate(all="ignore"):
            return bool((function(*trial) == 0).all())
    return function is np.multiply and all(o.dtype.kind in "biu" for o in given)


def _named(wrapper: Any, name: str, function: Any, kinds: str, fill: str) -> Any:
    wrapper.__name__ = wrapper.__qualname__ = name
    shapes = "that of `x`" if function.nin == 1 else "those of both, broadcast"
    like = "M" if kinds == _BOOL else "I" if "f" not in kinds else "A"
    given = ", ".join([like] * function.nin)
    theirs = ", ".join([f"{like}.to_numpy()"] * function.nin)
    wrapper.__doc__ = f"""numpy.{function.__name__} of each element.

    Shapes: {shapes}. Types: {_KINDS[kinds]}; the result has that of numpy's function.
    {fill}

    >>> np.array_equal(xp.{name}({given}), np.{function.__name__}({theirs}), equal_nan=True)
    True
    """
    return wrapper


def _pair(x1: Any, x2: Any) -> tuple[Any, Any]:
    first, second = operand(x1), operand(x2)
    if not hasattr(first, "dtype") and not hasattr(second, "dtype"):
        message = "expected an array beside a number, but there are two numbers"
        raise ConversionError(message, None, ("write spfgen.array.asarray(...)",))
    return first, second


abs = _of_one("abs", _NUMBER, "absolute")
acos, acosh = _of_one("acos", _FLOAT, "arccos"), _of_one("acosh", _FLOAT, "arccosh")
asin, asinh = _of_one("asin", _FLOAT, "arcsin"), _of_one("asinh", _FLOAT, "arcsinh")
atan, atanh = _of_one("atan", _FLOAT, "arctan"), _of_one("atanh", _FLOAT, "arctanh")
bitwise_invert = _of_one("bitwise_invert", "biu", "invert")
ceil, floor, trunc = (_of_one(n, _REAL) for n in ("ceil", "floor", "trunc"))
conj = _of_one("conj", _NUMBER, "conjugate")
cos, cosh, sin, sinh, tan, tanh = (_of_one(n, _FLOAT) for n in ("cos", "cosh", "sin", "sinh", "tan", "tanh"))
exp, expm1 = _of_one("exp", _FLOAT), _of_one("expm1", _FLOAT)
isfinite, isinf, isnan = (_of_one(n, _NUMBER) for n in ("isfinite", "isinf", "isnan"))
log, log1p, log2, log10 = (_of_one(n, _FLOAT) for n in ("log", "log1p", "log2", "log10"))
logical_not = _of_one("logical_not", _BOOL)
negative, positive = _of_one("negative", _NUMBER), _of_one("positive", _NUMBER)
reciprocal, sqrt = _of_one("reciprocal", _FLOAT), _of_one("sqrt", _FLOAT)
sign, square, signbit = _of_one("sign", _NUMBER), _of_one("square", _NUMBER), _of_one("signbit", "f")

add, subtract, multiply = (_of_two(n, _NUMBER) for n in ("add", "subtract", "multiply"))
atan2 = _of_two("atan2", "f", "arctan2")
bitwise_and, bitwise_or, bitwise_xor = (_of_two(n, "biu") for n in ("bitwise_and", "bitwise_or", "bitwise_xor"))
bitwise_left_shift = _of_two("bitwise_left_shift", _INTEGER, "left_shift")
bitwise_right_shift = _of_two("bitwise_right_shift", _INTEGER, "right_shift")
copysign, hypot, logaddexp, nextafter = (_of_two(n, "f") for n in ("copysign", "hypot", "logaddexp", "nextafter"))
divide = _of_two("divide", _NUMBER, "true_divide")
equal, not_equal = _of_two("equal", _ANY), _of_two("not_equal", _ANY)
floor_divide, remainder = _of_two("floor_divide", _REAL), _of_two("remainder", _REAL)
greater, greater_equal = _of_two("greater", _REAL), _of_two("greater_equal", _REAL)
less, less_equal = _of_two("less", _REAL), _of_two("less_equal", _REAL)
logical_and, logical_or, logical_xor = (_of_two(n, _BOOL) for n in ("logical_and", "logical_or", "logical_xor"))
maximum, minimum = _of_two("maximum", _REAL), _of_two("minimum", _REAL)
pow = _of_two("pow", _NUMBER, "power")


def real(x: Any, /) -> AnyArray:
    """The real parts.

    Shapes: those of `x`. Types: numbers; real ones of the same width. Fill: its real part. Cost: a pass over the
    stored values.

    >>> xp.real(A).fill
    np.float64(0.0)
    """
    return as_array(np.real(numeric_operand(x, _NUMBER, "real")))


def imag(x: Any, /) -> AnyArray:
    """The imaginary parts of an array of complex numbers.

    Shapes: those of `x`. Types: complex; real ones of the same width. Fill: its imaginary part. Cost: a pass over
    the stored values.

    >>> xp.imag(xp.asarray([1 + 2j])).to_numpy()
    array([2.])
    """
    return as_array(np.imag(numeric_operand(x, "c", "imag")))


def round(x: Any, /) -> AnyArray:
    """To the next integer, to the even one of two.

    Shapes: those of `x`. Types: numbers, which stay. Fill: rounded, too. Cost: a pass over the stored values.

    >>> xp.round(A).nse
    1
    """
    return as_array(np.round(numeric_operand(x, _NUMBER, "round")))


def clip(x: Any, /, min: Any = None, max: Any = None) -> AnyArray:
    """Between two bounds, numbers or arrays; in the type of `x`.

    Shapes: those of `x`, with which bounds are broadcast. Types: real numbers, which stay. Fill: between the
    bounds, too. Cost: a pass over what is stored; with bounds other than numbers, of their patterns.

    >>> xp.clip(A, 0.75).fill
    np.float64(0.75)
    """
    x = numeric_operand(x, _REAL, "clip")
    bounds = [None if b is None else operand(b) for b in (min, max)]
    if bounds == [None, None]:
        return x
    clipped = as_array(np.clip(x, *bounds))
    return clipped if clipped.dtype == x.dtype else clipped.astype(x.dtype)


def where(condition: Any, x1: Any, x2: Any, /) -> AnyArray:
    """`x1` where the condition holds, else `x2`.

    Shapes: those of the three, broadcast. Types: bool; the others as numpy promotes them. Fill: what the choice of
    the three fills is. Cost: a merge of what the three store.

    >>> xp.where(M, A, 2.0).fill
    np.float64(2.0)
    """
    if kind := array_operand(condition).dtype.kind != "b":
        raise ArgumentError(f"expected a condition of bool, but it is {kind}")
    return as_array(np.where(array_operand(condition), *_pair(x1, x2)))
