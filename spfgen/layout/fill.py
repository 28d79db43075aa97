"""The fill value of a layout in the type of a tensor's values, and what of an array differs from it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from spfgen.errors import DataError
from spfgen.lang.fills import fill_number, fill_text, plain_fill

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]


def typed_fill(fill: Any, dtype: Any) -> Any:
    """A fill value as a numpy number of that type. Raises DataError when it does not fit."""
    import numpy as np

    return _typed_fill(fill_text(fill), np.dtype(dtype))


@lru_cache(maxsize=1024)
def _typed_fill(text: str, kind: np.dtype[Any]) -> Any:
    import numpy as np

    fill = fill_number(text)
    if not fits(fill, kind):
        message = f"expected a fill value that {kind} has, but it is {text}"
        raise DataError(message, None, ("use another type of values, or another fill value",))
    return np.asarray(fill).astype(kind)[()]


def fits(fill: Any, dtype: Any) -> bool:
    """Whether values of that type can be the fill value, rounded as floats are."""
    import numpy as np

    kind, fill = np.dtype(dtype), plain_fill(fill)
    match kind.kind:
        case "b":
            return fill in (0, 1) and isinstance(fill, int | np.bool_)
        case "i" | "u":
            info = np.iinfo(kind)
            return isinstance(fill, int) and info.min <= fill <= info.max
    if isinstance(fill, complex) and kind.kind != "c":
        return False
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.asarray(fill).astype(kind)) == np.isfinite(complex(fill)))


def same_fill(one: Any, other: Any, dtype: Any) -> bool:
    """Whether tensors of that type with these fill values are filled alike. Raises DataError when one does not fit."""
    return fill_text(typed_fill(one, dtype)) == fill_text(typed_fill(other, dtype))


def differs(values: Array, fill: Any) -> Array:
    """Where an array is not its fill value, bit by bit; but nan is nan. Raises DataError when the fill does not fit."""
    import numpy as np

    typed = typed_fill(fill, values.dtype)
    if typed != typed:
        return np.asarray(values == values)
    different = np.asarray(values != typed)
    if values.dtype.kind == "f" and typed == 0:
        different |= np.signbit(values) != np.signbit(typed)
    if values.dtype.kind == "c":
        for parts, part in ((values.real, typed.real), (values.imag, typed.imag)):
            if part == 0:
                different |= np.signbit(parts) != np.signbit(part)
    return different


def differ(values: Array, fill: Any) -> bool:
    """Whether all of an array differ from its fill value; where it is plain that they do, without a look at signs."""
    plain = values.all() if fill == 0 else fill == fill and (values != fill).all()  # nan differs from itself
    return bool(plain or differs(values, fill).all())


def filled(shape: tuple[int, ...], fill: Any, dtype: Any) -> Array:
    """A new array that holds the fill value everywhere. Raises MemoryError, ValueError; DataError."""
    import numpy as np

    typed = typed_fill(fill, dtype)
    return np.zeros(shape, dtype) if fill_text(typed) == "0" else np.full(shape, typed, dtype)


def summed(shape: tuple[int, ...], coords: tuple[Array, ...], values: Array, fill: Any) -> Array:
    """The dense array of entries: those of one coordinate are added (`or` for bool), the fill value is elsewhere."""
    import numpy as np

    dense = filled(shape, fill, values.dtype)
    nothing: Any = -0.0 if values.dtype.kind == "f" else complex(-0.0, -0.0) if values.dtype.kind == "c" else 0
    if len(values) and shape:
        dense[coords] = nothing  # which leaves the sign of a zero that is added to it
        np.add.at(dense, coords, values)
    elif len(values):
        dense[()] = np.add.reduce(values, initial=nothing)
    return dense


def differs_as_number(values: Array, fill: Any) -> Array:
    """Where an array is another number than its fill value: 0 and -0 are one number."""
    different: Array = differs(values, fill) & (values != fill)
    return different


def other_zeros(values: Array, fill: Any) -> Array:
    """Where an array differs from its fill value, but only in the sign of a zero."""
    different: Array = differs(values, fill) & ~differs_as_number(values, fill)
    return different
