"""What operators give for numbers and for arrays of numpy: numpy's results in the types of lang/typing.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from spfgen.lang.nodes import Constant
from spfgen.lang.ops import OPERATORS
from spfgen.lang.types import TYPES, ElementType
from spfgen.lang.typing import Kind, argument_kinds, literal_kind, loop


def applied(op: str, values: Sequence[Any]) -> Any:
    """The value of an operator of the table for numbers or arrays. Numbers of Python are literals, and what is made of
    literals alone is one again. Raises SpecError where numpy refuses.

    Two answers are not numpy's: an integer to a negative power is the quotient 1/a**n without its fraction, where numpy
    raises an error, and the reciprocal of the integer 0 is 0, where numpy leaves it open.
    """
    import numpy as np

    literals = all(isinstance(v, bool | int | float | complex) and not isinstance(v, np.generic) for v in values)
    held = [v if hasattr(v, "dtype") else Constant(v) for v in values]
    kinds = argument_kinds(op, held, _kind)
    found = loop(op, kinds)
    converted = [_converted(v, k) for v, k in zip(values, found.arguments, strict=True)]
    with np.errstate(all="ignore"):
        result = _converted(_function(op, found.arguments)(*converted), found.result)
    return result.item() if literals and op not in TYPES else result[()]


def _kind(value: Any) -> Kind:
    return literal_kind(value)


def _converted(value: Any, kind: ElementType) -> Any:
    import numpy as np

    array = np.asarray(value)
    if array.dtype.kind == "c" and kind.kind in "iuf":
        array = array.real
    with np.errstate(all="ignore"):
        return array.astype(kind.name)


def _function(op: str, arguments: Sequence[ElementType]) -> Callable[..., Any]:
    import numpy as np

    if op in TYPES:
        return lambda a: a
    integers = arguments[0].kind in "iu"
    if op == "power" and integers:
        return _integer_power
    if op == "reciprocal" and integers:
        return lambda a: np.where((a == 1) | ((a + 1 == 0) & (a < 0)), a, 0)
    return getattr(np, OPERATORS[op].name)  # type: ignore[no-any-return]


def _integer_power(a: Any, b: Any) -> Any:
    import numpy as np

    down = np.where((a == 1) | ((a + 1 == 0) & (a < 0)), a, 0)
    return np.where(b < 0, np.power(down, np.abs(b) & 1) * (down != 0), np.power(a, np.maximum(b, 0)))


def folded(value: Any) -> Any:
    """The value of a tree of constants."""
    if isinstance(value, Constant):
        return value.value
    return applied(value.op, [folded(a) for a in value.arguments])
