"""Functions of numpy and of the user, on arrays and on literals, and the types of what they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from spfgen.lang import nodes as n
from spfgen.lang.blocks import all_steps
from spfgen.lang.ops import OPERATORS, ufunc
from spfgen.lang.signs import PLACES

Array = npt.NDArray[Any]
LEAST, GREATEST = "least", "greatest"
IDENTITIES: Mapping[str, Any] = {
    "add": 0,
    "multiply": 1,
    "logical_or": False,
    "logical_and": True,
    "logical_xor": False,
    "bitwise_or": 0,
    "bitwise_xor": 0,
    "bitwise_and": -1,
    "maximum": LEAST,
    "minimum": GREATEST,
    "fmax": LEAST,
    "fmin": GREATEST,
    "gcd": 0,
    "hypot": 0,
    "logaddexp": LEAST,
    "logaddexp2": LEAST,
}


UNLIKE_ITS_IDENTITY = ("gcd", "hypot")
"""What numpy has an identity for that changes numbers: the gcd of one number is its absolute value."""


class BreakLoop(Exception):
    """`break` was met."""


class Endless(Exception):
    """A loop of a function that seems to have no end, as Euclid's with a nan."""


MOST_TURNS = 1000
"""Of a loop of a function, for one value."""


def call(op: str, function: n.Function | None, values: Sequence[Any]) -> Any:
    """A function of arrays and literals. One of literals alone is a literal."""
    if function is not None:
        return own(function, values)
    literal = all(is_literal(v) for v in values)
    match op:
        case "where":
            result = np.where(np.asarray(values[0]).astype(bool), values[1], values[2])
        case "clip":
            result = np.minimum(np.maximum(values[0], values[1]), values[2])
        case "round" | "real" | "imag" | "angle":
            result = getattr(np, op)(values[0])
        case _ if op in OPERATORS:
            result = ufunc(op)(*values)
        case _:
            return np.asarray(values[0]).astype(dtype_of(op))
    if np.asarray(result).dtype == np.float16:
        wider = [np.asarray(v).astype(np.float32) for v in values]
        return call(op, None, wider)
    return np.asarray(result).item() if literal and np.asarray(result).dtype != np.bool_ else result


def own(function: n.Function, values: Sequence[Any]) -> Any:
    """A function of the user, point by point; bodies without branches all points at once."""
    arrays = [np.asarray(v) for v in values]
    kind = _result_type(function, tuple(a.dtype for a in arrays))
    if all(isinstance(s, n.Let | n.Return | n.Set) for s in function.body) and not function.cases:
        return np.asarray(_body(function, arrays)).astype(kind)
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    result = np.empty(shape, kind)
    for place in np.ndindex(*shape):
        result[place] = _body(function, [np.broadcast_to(a, shape)[place] for a in arrays])
    return result if shape else result[()]


@lru_cache(maxsize=1024)
def _result_type(function: n.Function, kinds: tuple[np.dtype[Any], ...]) -> np.dtype[Any]:
    return NumpyTypes({}).of_function(function, kinds)


class _Returned(Exception):
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


def _body(function: n.Function, values: Sequence[Any]) -> Any:
    scalars = dict(zip(function.parameters, values, strict=True))
    for case in function.cases:
        pairs = zip(case.arguments, values, strict=True)
        if all(wanted is None or bool(is_fill(np.asarray(v), wanted)) for wanted, v in pairs):
            return evaluate_scalar(case.value, scalars)
    try:
        _run_body(function.body, scalars)
    except _Returned as returned:
        return returned.value
    raise ValueError(f"expected a value of `{function.name}`, but it ends without one")


def _run_body(steps: Sequence[Any], scalars: dict[str, Any]) -> None:
    for step in steps:
        match step:
            case n.Let(name, value):
                scalars[name] = evaluate_scalar(value, scalars)
            case n.Set(name, op, value, _, function):
                assigned = evaluate_scalar(value, scalars)
                scalars[name] = assigned if op == "=" else call(operator_of(op), function, (scalars[name], assigned))
            case n.If(condition, then, otherwise):
                _run_body(then if bool(evaluate_scalar(condition, scalars)) else otherwise, scalars)
            case n.While(condition, body):
                turns = 0
                try:
                    while bool(evaluate_scalar(condition, scalars)):
                        _run_body(body, scalars)
                        turns += 1
                        if turns > MOST_TURNS:
                            raise Endless
                except BreakLoop:
                    pass
            case n.Break():
                raise BreakLoop
            case n.Return(value):
                raise _Returned(evaluate_scalar(value, scalars))


def evaluate_scalar(value: Any, scalars: Mapping[str, Any]) -> Any:
    """A value of numbers: of what is called by a name, and of functions."""
    match value:
        case n.Constant(number):
            return number
        case n.Local(name):
            return scalars[name]
        case n.Apply(op, arguments, _, function):
            return call(op, function, [evaluate_scalar(a, scalars) for a in arguments])
    raise ValueError(f"expected a value of a function, not {type(value).__name__}")


@dataclass
class NumpyTypes:
    """Types of values, found by computing with ones."""

    tensors: dict[str, np.dtype[Any]]
    scalars: dict[str, Any] = field(default_factory=dict)

    def of_targets(self, steps: Sequence[Any], missing: Sequence[str]) -> dict[str, np.dtype[Any]]:
        types: dict[str, np.dtype[Any]] = {}
        for _ in range(4):
            for step in all_steps(steps):
                self.step(step)
                if isinstance(step, n.Statement) and step.target.tensor in missing:
                    name = step.target.tensor
                    one = np.asarray(self.of(step.value)).dtype
                    types[name] = np.result_type(types[name], one) if name in types else one
                    self.tensors[name] = types[name]
        return types

    def step(self, step: Any) -> None:
        match step:
            case n.Let(name, value):
                self.join(name, self.of(value))
            case n.Set(name, op, value, _, function):
                one = self.of(value)
                self.join(name, one if op == "=" else call(operator_of(op), function, (self.scalars[name], one)))

    def join(self, name: str, sample: Any) -> None:
        old = self.scalars.get(name, sample)
        self.scalars[name] = one_of(np.result_type(weak(old), weak(sample)), old, sample)

    def of_function(self, function: n.Function, kinds: Sequence[np.dtype[Any]]) -> np.dtype[Any]:
        self.scalars = {p: np.ones((), k) for p, k in zip(function.parameters, kinds, strict=True)}
        returned: list[Any] = []
        for _ in range(4):
            for step in all_steps(function.body):
                self.step(step)
            returned = [self.of(s.value) for s in all_steps(function.body) if isinstance(s, n.Return)]
        return np.result_type(*(weak(r) for r in returned))

    def of(self, value: Any) -> Any:
        match value:
            case n.Constant(number):
                return number
            case n.Local(name):
                return self.scalars.get(name, 1)
            case n.Index():
                return np.int64(1)
            case n.Access(tensor):
                return np.ones((), self.tensors.get(tensor, np.dtype(np.bool_)))
            case n.Apply(op, arguments, _, function):
                return call(op, function, [self.of(a) for a in arguments])
            case n.Reduce(op, _, inner):
                if op in PLACES:
                    return np.int64(1)
                one = np.asarray(self.of(inner))
                if op in ("add", "multiply") and value.function is None and one.dtype.kind in "biu":
                    return np.ones((), np.uint64 if one.dtype.kind == "u" else np.int64)
                return np.ones((), reduced_type(op, value.function, one.dtype))
            case n.Coalesce(parts) | n.Concat(parts):
                part_types = [self.of(p) for p in parts]
                if all(is_literal(f) for f in part_types):
                    return sum(part_types)
                return np.ones((), np.result_type(*(weak(f) for f in part_types)))
            case n.Collapse(inner) | n.Split(inner) | n.Slice(inner):
                return self.of(inner)
        raise ValueError(f"expected a value, not {type(value).__name__}")


def reduced_type(op: str, function: n.Function | None, kind: np.dtype[Any]) -> np.dtype[Any]:
    """The type of what reduces values of a type, which is an argument again: a function of the user may widen it."""
    if function is None:
        one = np.ones((), kind)
        return np.asarray(call(op, None, (one, one))).dtype
    while (wider := np.result_type(kind, _result_type(function, (kind, kind)))) != kind:
        kind = wider
    return kind


def weak(sample: Any) -> Any:
    return sample if is_literal(sample) else np.asarray(sample).dtype


def one_of(kind: np.dtype[Any], *parts: Any) -> Any:
    """A one of that type; a literal where all parts are."""
    if all(is_literal(p) and not isinstance(p, bool) for p in parts):
        return 1.0 if any(isinstance(p, float) for p in parts) else 1
    return np.ones((), kind)


def operator_of(op: str) -> str:
    return "add" if op == "+=" else op


def dtype_of(name: str) -> str:
    return {"float": "float32", "double": "float64", "int": "int32", "complex": "complex128"}.get(name, name)


def plain(value: Any) -> Any:
    """A scalar without its array."""
    return value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value


def is_literal(value: Any) -> bool:
    """Whether a number is one of the text: it takes the type of what it meets."""
    return type(value) in (bool, int, float, complex)


def converted(value: Any, kind: np.dtype[Any]) -> Any:
    """Numbers of another type, as C converts them."""
    array = np.asarray(value)
    if array.dtype.kind == "c" and kind.kind != "c":
        array = array.real
    return array.astype(kind)


def is_fill(array: Array, fill: Any) -> Any:
    """Where an array has its fill value, bit by bit, nan equal to nan."""
    one = np.asarray(fill).astype(array.dtype)
    equal = np.asarray(array == one)
    if array.dtype.kind in "fc":
        equal = (equal & (np.signbit(array.real) == np.signbit(one.real))) | (np.isnan(array) & np.isnan(one))
    return equal


def identity_of(op: str, function: n.Function | None, kind: np.dtype[Any]) -> Any:
    if function is not None:
        identity = function.operator.identity
        return identity if is_literal(identity) else None
    identity = IDENTITIES.get(op)
    if op == "bitwise_and" and kind.kind in "bu":
        return True if kind.kind == "b" else np.iinfo(kind).max
    if identity not in (LEAST, GREATEST) or not isinstance(identity, str):
        return identity
    if kind.kind == "b":
        return identity == GREATEST
    if kind.kind in "iu":
        return np.iinfo(kind).min if identity == LEAST else np.iinfo(kind).max
    if op in ("fmax", "fmin"):
        return np.nan
    return -inf if identity == LEAST else inf
