"""Evaluates operators on numbers and arrays: numpy's results, in the types of lang/typing.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spfgen.errors import InternalError, SpecError
from spfgen.lang import nodes as n
from spfgen.lang.ops import OPERATORS, ufunc
from spfgen.lang.types import TYPES, ElementType
from spfgen.lang.typing import (
    Kind,
    argument_kinds,
    function_scalars,
    function_type,
    literal_kind,
    loop,
    settled,
    updated,
)

LONGEST = 10_000
"""So often the loops of a function may run before it is taken to have no end."""


def applied(op: str, values: Sequence[Any]) -> Any:
    """The value of an operator of the table for numbers or arrays. Numbers of Python are literals, and what is made of
    literals alone is one again. Raises SpecError where numpy refuses.

    Two answers are not numpy's: an integer to a negative power is the quotient 1/a**n without its fraction, where numpy
    raises an error, and the reciprocal of the integer 0 is 0, where numpy leaves it open.
    """
    import numpy as np

    arguments = [v if hasattr(v, "dtype") else n.Constant(v) for v in values]
    kinds = argument_kinds(op, arguments, _kind)
    signature = loop(op, kinds)
    literals = all(isinstance(k, type) for k in kinds)
    operands = [converted(v, k) for v, k in zip(values, signature.arguments, strict=True)]
    with np.errstate(all="ignore"):
        result = converted(_function(op, signature.arguments)(*operands), signature.result)
    return result.item() if literals and op not in TYPES else result[()]


def _kind(value: Any) -> Kind:
    return literal_kind(value)


def converted(value: Any, kind: ElementType) -> Any:
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
    return ufunc(OPERATORS[op].name)  # type: ignore[no-any-return]


def _integer_power(a: Any, b: Any) -> Any:
    import numpy as np

    down = np.where((a == 1) | ((a + 1 == 0) & (a < 0)), a, 0)
    return np.where(b < 0, np.power(down, np.abs(b) & 1) * (down != 0), np.power(a, np.maximum(b, 0)))


def evaluated(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """The number that a value is. `leaf` gives what is no Constant and no Apply."""
    match value:
        case n.Constant(number):
            return number
        case n.Apply(op, arguments):
            numbers = [evaluated(a, leaf) for a in arguments]
            return applied(op, numbers) if value.function is None else called(value.function, numbers)
    return leaf(value)


class _Returned(Exception):
    """Ends the run of a function."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class _Ended(Exception):
    """Ends a loop."""


def called(function: n.Function, values: Sequence[Any]) -> Any:
    """What a function of the user gives for numbers, by carrying out its body in numpy's types."""
    arguments = [typed(v, settled(literal_kind(v))) for v in values]
    kinds = function_scalars(function, [settled(literal_kind(v)) for v in arguments])
    scalars = {name: _held(v, kinds[name]) for name, v in zip(function.parameters, arguments, strict=True)}
    run = _Run(function, scalars, kinds)
    try:
        run.steps(function.body)
    except _Returned as returned:
        return typed(returned.value, function_type(function, [settled(literal_kind(v)) for v in arguments]))
    raise SpecError(
        f"expected `{function.name}` to return a value in every case, but it may end without one", function.span
    )


def typed(value: Any, kind: ElementType) -> Any:
    """A number as one of numpy's of that type."""
    return converted(value, kind)[()]


def _held(value: Any, kind: Kind) -> Any:
    """A value as a scalar of that type holds it; a literal's is a number of Python."""
    scalar = typed(value, settled(kind))
    return scalar if isinstance(kind, ElementType) else scalar.item()


class _Run:
    """A run of a function's body."""

    def __init__(self, function: n.Function, scalars: dict[str, Any], kinds: Mapping[str, Kind]) -> None:
        self.function, self.scalars, self.kinds = function, scalars, kinds
        self.left = LONGEST

    def value(self, tree: Any) -> Any:
        return evaluated(tree, lambda local: self.scalars[local.name])

    def steps(self, steps: Sequence[Any]) -> None:
        for step in steps:
            match step:
                case n.Let(name, tree):
                    self.scalars[name] = _held(self.value(tree), self.kinds[name])
                case n.Set(name, op, tree):
                    tree = tree if op == "=" else updated(step)
                    self.scalars[name] = _held(self.value(tree), self.kinds[name])
                case n.If(condition, then, otherwise):
                    self.steps(then if self.value(condition) else otherwise)
                case n.While(condition, body):
                    self.repeat(condition, body)
                case n.Break():
                    raise _Ended
                case n.Return(tree):
                    raise _Returned(self.value(tree))
                case _:
                    raise InternalError(f"no run of {step!r} in function {self.function.name}")

    def repeat(self, condition: Any, body: Sequence[Any]) -> None:
        try:
            while self.value(condition):
                self.left -= 1
                if self.left < 0:
                    raise SpecError(
                        f"expected `{self.function.name}` to end, but its loops ran {LONGEST} times",
                        self.function.span,
                    )
                self.steps(body)
        except _Ended:
            pass
