"""The types of values, as numpy determines them.

A literal takes the type of what it meets, as in numpy 2: `x + 1` of int8 is int8, `x + 0.5` of float32 is float32, of
int8 float64. A value of literals alone is a literal, too. numpy's float16 and longdouble are not there: what is float16
in numpy (the root of an int8) is float32.

While types are derived a literal's is a type of Python: `int`, `float` or `complex`. A literal that has a type, as a
fill value does, is a Constant with a number of numpy's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from spfgen.errors import InternalError, Span, SpecError
from spfgen.lang import nodes as n
from spfgen.lang.blocks import all_steps
from spfgen.lang.ops import COMPARED, OPERATORS, ufunc
from spfgen.lang.signs import PLACES
from spfgen.lang.types import DEFAULT_VALUE, DEFAULT_WHOLE, TYPES, ElementType

Kind = ElementType | type
"""The type of an argument: an element type, or that of a literal."""
BOOL = TYPES["bool"]
INDEX = TYPES[DEFAULT_WHOLE]
TRUTH = ("logical_and", "logical_or", "logical_xor")
"""What takes any arguments as truth values."""
_LITERALS = {int: TYPES[DEFAULT_WHOLE], float: TYPES[DEFAULT_VALUE], complex: TYPES["complex128"]}


@dataclass(frozen=True, slots=True)
class Signature:
    """To which types numpy converts the arguments of a function, and of which the result is."""

    arguments: tuple[ElementType, ...]
    result: ElementType


def settled(kind: Kind) -> ElementType:
    """The type of a value that stands alone: a literal is int64, float64 or complex128."""
    return kind if isinstance(kind, ElementType) else _LITERALS[kind]


def literal_kind(number: Any) -> Kind:
    """The type of the number of a Constant."""
    if hasattr(number, "dtype"):
        return TYPES[number.dtype.name]
    if isinstance(number, bool):
        return BOOL
    if isinstance(number, int) and not fits(number, INDEX):
        return TYPES["uint64"]
    return next(t for t in (int, float, complex) if isinstance(number, t))


def result_type(op: str, arguments: Sequence[Kind], span: Span | None = None) -> ElementType:
    """The type of the result of an operator of the table. Raises SpecError where numpy refuses."""
    return loop(op, tuple(arguments), span).result


def loop(op: str, arguments: Sequence[Kind], span: Span | None = None) -> Signature:
    """What an operator of the table computes with. Raises SpecError where numpy refuses."""
    operator = OPERATORS[op]
    if len(arguments) != operator.arity:
        wanted = f"{operator.arity} argument{'s' * (operator.arity > 1)}"
        raise SpecError(f"expected {wanted} of `{op}`, but there are {len(arguments)}", span)
    signature = _loop(op, tuple(arguments))
    if signature is None:
        names = [settled(a).name for a in arguments]
        alone = "these are " if len(names) > 1 else "this is "
        raise SpecError(
            f"expected {_taken(op)} in `{op}`, but {alone}{' and '.join(names)}",
            span,
            (*(("a power is written `**`",) if op == "bitwise_xor" else ()), *_as_numpy(op)),
        )
    return signature


def _as_numpy(op: str) -> tuple[str, ...]:
    import numpy as np

    return ("numpy refuses it, too",) if hasattr(np, op) else ()


def _taken(op: str) -> str:
    """What numpy has the function for, in words."""
    words = {"b": "booleans", "i": "integers", "f": "floating-point numbers", "c": "complex numbers"}
    taken = {t.kind for t in TYPES.values() if _loop(op, (t,) * OPERATORS[op].arity) is not None}
    *words_before, last = [word for kind, word in words.items() if kind in taken] or ["an integer as the last argument"]
    return f"{', '.join(words_before)} or {last}" if words_before else last


ARITHMETIC = {"add": "iufc", "subtract": "iufc", "multiply": "iufc", "divide": "fc"}
"""Operators of two values of one type, of these kinds, whose result has that type."""


@cache
def _loop(op: str, arguments: tuple[Kind, ...]) -> Signature | None:
    if op in TYPES:
        return Signature((settled(arguments[0]),), TYPES[op])
    first, *others = arguments
    if op in ARITHMETIC and isinstance(first, ElementType) and first.kind in ARITHMETIC[op] and others == [first]:
        return Signature((first, first), first)  # most kernels do without numpy
    match op:
        case "where":
            value = promoted(arguments[1:])
            return Signature((settled(arguments[0]), value, value), value)
        case "clip":
            value = promoted(arguments)
            return Signature((value,) * 3, value)
        case "round":
            value = settled(arguments[0])
            value = TYPES["float32"] if value == BOOL else value
            return Signature((value,), value)
        case "real" | "imag":
            value = settled(arguments[0])
            return Signature((value,), _part(value))
        case "angle":
            value = settled(arguments[0])
            if value.kind != "c":
                value = _asked("arctan2", (int, value)).arguments[0]  # type: ignore[union-attr]
            return Signature((value,), _part(value))
    return _asked(op, arguments)


def _part(kind: ElementType) -> ElementType:
    return TYPES[f"float{4 * kind.bytes}"] if kind.kind == "c" else kind


def _asked(op: str, arguments: tuple[Kind, ...]) -> Signature | None:
    import numpy as np

    if all(isinstance(a, type) for a in arguments):
        arguments = tuple(settled(a) for a in arguments)
    dtypes = tuple(np.dtype(a.name) if isinstance(a, ElementType) else a for a in arguments)
    try:
        type_names = [d.name for d in ufunc(op).resolve_dtypes((*dtypes, None))]
    except TypeError:
        return None
    *taken, result = [TYPES["float32" if name == "float16" else name] for name in type_names]
    if not hasattr(np, op) and not any(taken[0].kind in kinds for kinds, _ in OPERATORS[op].code):
        return None  # scipy has it for these types, C has not
    return Signature(tuple(taken), result)


def promoted(kinds: Sequence[Kind]) -> ElementType:
    """The type that holds values of all of these types."""
    first, *others = kinds
    if isinstance(first, ElementType) and all(k == first for k in others):
        return first
    import numpy as np

    if all(isinstance(k, type) for k in kinds):
        kinds = [settled(k) for k in kinds]
    operands: list[Any] = [np.dtype(k.name) if isinstance(k, ElementType) else k(0) for k in kinds]
    return TYPES[np.result_type(*operands).name]


def joined(kinds: Sequence[Kind]) -> Kind:
    """The same, but a literal's where all are literals."""
    if all(isinstance(k, type) for k in kinds):
        return max(kinds, key=list(_LITERALS).index)  # type: ignore[arg-type]
    return promoted(kinds)


def reduction_type(value: n.Reduce, kind: ElementType) -> ElementType:
    """The type in which `sum(j: value)` and all other reductions of values of a type are made, as in numpy's `reduce`:
    sums and products of integers and of booleans are of 64 bits. What a function of the user gives is its argument
    again, so it has to hold both."""
    op = value.op
    if value.function is not None:
        accumulated = kind
        while (
            wider := promoted([accumulated, function_type(value.function, [accumulated, accumulated])])
        ) != accumulated:
            accumulated = wider
        return accumulated
    if op in PLACES:
        return INDEX
    if op in ("add", "multiply") and kind.kind in "biu":
        return TYPES["uint64" if kind.kind == "u" else "int64"]
    combined = loop(op, (kind, kind), value.span)
    if combined.result != combined.arguments[0] and op not in TRUTH:
        raise SpecError(
            f"expected a reduction by a function of booleans, but `{op}` makes one of two {kind.name}",
            value.span,
            ("numpy refuses it, too; compare first, as in `any(j: A[i, j] < 1)`",),
        )
    return combined.result


def type_of(value: Any, leaf: Callable[[Any], Kind]) -> ElementType:
    """The type of a value. `leaf` says it of what holds numbers: an Access or a Local, or whatever stands there."""
    return settled(kind_of(value, leaf))


def kind_of(value: Any, leaf: Callable[[Any], Kind]) -> Kind:
    """The type of a value, a literal's where it is of literals alone."""
    match value:
        case n.Constant(number):
            return literal_kind(number)
        case n.Index():
            return INDEX
        case n.Apply(op, arguments, span):
            kinds = [kind_of(a, leaf) for a in arguments]
            if value.function is not None:
                return function_type(value.function, [settled(k) for k in kinds])
            result_type = loop(op, fitting(op, arguments, kinds), span).result
            literal = all(isinstance(k, type) for k in kinds) and op not in TYPES
            return weak(result_type) if literal else result_type
        case n.Reduce(_, _, inner):
            return reduction_type(value, type_of(inner, leaf))
        case n.Coalesce(arguments):
            return joined([kind_of(a, leaf) for a in arguments])
        case n.Concat(parts):
            return joined([kind_of(a, leaf) for a in parts])
        case n.Collapse(inner) | n.Split(inner) | n.Slice(inner):
            return kind_of(inner, leaf)
    return leaf(value)


def weak(kind: ElementType) -> Kind:
    """What a function of literals gives."""
    return {"i": int, "u": int, "f": float, "c": complex}.get(kind.kind, kind)


def argument_kinds(op: str, arguments: Sequence[Any], leaf: Callable[[Any], Kind]) -> list[Kind]:
    """The types that arguments have in a call of an operator of the table."""
    return fitting(op, arguments, [kind_of(a, leaf) for a in arguments])


def fitting(op: str, arguments: Sequence[Any], kinds: list[Kind]) -> list[Kind]:
    """The types of the arguments. A literal is compared with what it does not fit into, and otherwise refused."""
    kinds = [int if is_large(a) else k for a, k in zip(arguments, kinds, strict=True)]
    strong = [k for k in kinds if isinstance(k, ElementType)]
    if not strong or op in TYPES:
        return [literal_kind(a.value) if is_large(a) else k for a, k in zip(arguments, kinds, strict=True)]
    result = list(kinds)
    for k, (argument, kind) in enumerate(zip(arguments, kinds, strict=True)):
        number = literal(argument) if kind is int else None
        if number is None:
            continue
        wanted = loop(op, kinds, argument.span).arguments[k]
        if wanted.kind not in "iu" or fits(number, wanted):
            continue
        if OPERATORS[op].precedence != COMPARED or not -(2**63) <= number < 2**64:
            raise SpecError(
                f"expected a number that {wanted.name} holds in `{op}`, but this is {number}",
                argument.span,
                ("numpy refuses it, too; convert the other argument, as in `int64(a)`",),
            )
        result[k] = TYPES["int64" if fits(number, TYPES["int64"]) else "uint64"]
    return result


def is_large(value: Any) -> bool:
    """Whether it is a number of the text that only uint64 holds: it takes the type of what it meets, as any."""
    return isinstance(value, n.Constant) and type(value.value) is int and not fits(value.value, INDEX)


def literal(value: Any) -> Any:
    """The number that a value of literals is, or None."""
    match value:
        case n.Constant(number):
            return number
        case n.Apply("negative" | "positive" as op, (n.Constant(number),)) if not isinstance(number, bool):
            return -number if op == "negative" else number
    return None


def fits(number: int, kind: ElementType) -> bool:
    """Whether an integer type holds the number."""
    most: int = 2 ** (8 * kind.bytes - (kind.kind == "i")) - 1
    return (-most - 1 if kind.kind == "i" else 0) <= number <= most


# --- functions and scalars of blocks -----------------------------------------------------------------


def scalar_types(
    steps: Sequence[Any], leaf: Callable[[Any], Kind], known: dict[str, Kind] | None = None
) -> dict[str, Kind]:
    """The types of the scalars that steps introduce by `let`: each holds all that is ever assigned to it. They are
    added to those that are `known`."""
    types: dict[str, Kind] = {} if known is None else known

    def local(value: Any) -> Kind:
        return types[value.name] if isinstance(value, n.Local) and value.name in types else leaf(value)

    lets = [s for s in all_steps(steps) if isinstance(s, n.Let | n.Set)]
    changed = True
    while changed:
        changed = False
        for step in lets:
            match step:
                case n.Let(name, value):
                    kind = kind_of(value, local)
                case n.Set(name, op, value):
                    kind = kind_of(value if op == "=" else updated(step), local)
            kind = joined([types[name], kind]) if name in types else kind
            changed |= types.get(name) != kind
            types[name] = kind
    return types


def updated(step: n.Set) -> Any:
    """`s += v` as `s + v`."""
    op = "add" if step.op == "+=" else step.op
    return n.Apply(op, (n.Local(step.name), step.value), step.span, step.function)


def function_type(function: n.Function, arguments: Sequence[ElementType]) -> ElementType:
    """The type of the result of a user's function: that which holds all that it returns."""
    kinds = function_scalars(function, arguments)

    def local(value: Any) -> Kind:
        if isinstance(value, n.Local) and value.name in kinds:
            return kinds[value.name]
        raise InternalError(f"no type for {value!r} in function {function.name}")

    returned = [s.value for s in all_steps(function.body) if isinstance(s, n.Return)]
    return settled(joined([kind_of(v, local) for v in returned]))


def function_scalars(function: n.Function, arguments: Sequence[ElementType]) -> dict[str, Kind]:
    """The types of the parameters and of the scalars within. A parameter that is assigned to may get another one."""
    if len(arguments) != len(function.parameters):
        wanted = len(function.parameters)
        raise SpecError(
            f"expected {wanted} argument{'s' * (wanted != 1)} of `{function.name}`, but there are {len(arguments)}"
        )

    def none(value: Any) -> Kind:
        raise InternalError(f"no type for {value!r} in function {function.name}")

    known: dict[str, Kind] = dict(zip(function.parameters, arguments, strict=True))
    return scalar_types(function.body, none, known)
