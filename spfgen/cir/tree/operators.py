"""Operators of values as C: what numpy computes, for all types.

The arguments are converted to what numpy's loop for their types takes. C widens narrow integers, so that their results
are cast back; kernels with integers are compiled with -fwrapv.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.elements import converted
from spfgen.errors import InternalError
from spfgen.ir import walk
from spfgen.lang import nodes as n
from spfgen.lang.fold import applied as folded
from spfgen.lang.ops import OPERATORS
from spfgen.lang.types import TYPES, ElementType
from spfgen.lang.typing import BOOL, Kind, fitting, literal_kind, loop, settled, weak

Typed = tuple[c.Expr, Kind]
"""An expression and its type. One of a literal's type (`let half = 0.5`) is held as float64 or int64, and adopts the
type of what it meets."""
Caller = Callable[[n.Function, Sequence[tuple[c.Expr, ElementType]]], tuple[c.Expr, ElementType]]
_WRAPS = frozenset(("+", "-", "*", "~"))
"""Operators whose result may leave a narrow type that C has widened."""


def applied(op: str, arguments: Sequence[Typed]) -> tuple[c.Expr, ElementType]:
    """An operator of the table applied to expressions of C with their types: the result and its type."""
    signature = loop(op, [kind for _, kind in arguments])
    given = [
        cast(e, settled(kind_of), wanted) for (e, kind_of), wanted in zip(arguments, signature.arguments, strict=True)
    ]
    return _applied(op, given, signature.arguments, signature.result), signature.result


def value(tree: Any, leaf: Callable[[Any], Typed], call: Caller | None = None) -> tuple[c.Expr, ElementType]:
    """A value as C, with its type: literals adopt the types of what they meet. `leaf` gives what is no Constant and no
    Apply, `call` what a function of the user gives (cir/tree/functions.py)."""
    result, kind = _value(tree, leaf, call)
    return result if isinstance(result, c.Expr) else literal(result, settled(kind)), settled(kind)


def _value(tree: Any, leaf: Callable[[Any], Typed], call: Caller | None) -> tuple[Any, Kind]:
    """The same; what is of literals alone is a number."""
    match tree:
        case n.Constant(number):
            kind = literal_kind(number)
            return (literal(number, kind), kind) if isinstance(kind, ElementType) else (number, kind)
        case n.Apply(op, arguments):
            parts = [_value(a, leaf, call) for a in arguments]
            kinds = [kind for _, kind in parts]
            if tree.function is not None:
                if call is None:
                    raise InternalError(f"no C for the function {op}")
                return call(tree.function, [(_as(p, k, settled(k)), settled(k)) for p, k in parts])
            numbers = [None if isinstance(p, c.Expr) else p for p, _ in parts]
            if None not in numbers and op not in TYPES:
                number = folded(op, numbers)
                kind = literal_kind(number)
                return (literal(number, kind), kind) if isinstance(kind, ElementType) else (number, kind)
            given = [tree if number is None else n.Constant(number, tree.span) for number in numbers]
            signature = loop(op, fitting(op, given, kinds), tree.span)
            wanted = zip(parts, signature.arguments, strict=True)
            result = (
                signature.result
                if op in TYPES or any(isinstance(k, ElementType) for k in kinds)
                else weak(signature.result)
            )
            return _applied(op, [_as(p, k, w) for (p, k), w in wanted], signature.arguments, signature.result), result
    return leaf(tree)


def _as(part: Any, kind: Kind, wanted: ElementType) -> c.Expr:
    """A value, which is a number where it is a literal's, as one of that type."""
    return cast(part, settled(kind), wanted) if isinstance(part, c.Expr) else literal(part, wanted)


def literal(number: Any, kind: ElementType) -> c.Expr:
    """A number as a constant of the type: C computes with it as with any value of the type."""
    number = number.item() if hasattr(number, "item") else number
    if kind.kind == "c":
        parts = [c.Float(float(p), kind.name == "complex64") for p in (complex(number).real, complex(number).imag)]
        return c.Call(f"spfgen_complex_{kind.name}", tuple(parts))
    if kind.kind == "f":
        return c.Float(float(number.real if isinstance(number, complex) else number), kind.name == "float32")
    if kind.kind == "b":
        return c.Name("true" if number else "false")
    constant = c.Int(int(number))
    wide = kind.bytes == 4 and not -(2**31) < int(number) < 2**31
    return c.Cast(kind.c, constant) if wide else constant


def cast(e: c.Expr, source: ElementType, wanted: ElementType) -> c.Expr:
    """The expression as one of another type."""
    if source == wanted:
        return e
    if isinstance(e, c.Int | c.Float) and wanted.kind in "fc" and source.kind != "c":
        return literal(e.value, wanted)
    return converted(e, source, wanted)


def truth(e: c.Expr, kind: ElementType) -> c.Expr:
    """Whether the number is not 0."""
    return cast(e, kind, BOOL)


def _applied(op: str, given: Sequence[c.Expr], kinds: Sequence[ElementType], result: ElementType) -> c.Expr:
    kind = kinds[-1 if op == "where" else 0]
    if op == "power" and (shorter := _POWERS.get(_exponent(given[1]))):
        return _applied(shorter, given[:1], kinds[:1], result)
    how = OPERATORS[op].how(kind.kind)
    match how:
        case "self" | "cast":
            return cast(given[0], kind, result)
        case "0" | "1":
            return literal(int(how), result)
        case "select":
            return c.Select(truth(given[0], kinds[0]), given[1], given[2])
        case "truth !":
            return c.Bin("==", given[0], literal(0, kind))
        case "truth &&" | "truth ||" | "truth !=":
            return _both(how.split()[1], truth(given[0], kinds[0]), truth(given[1], kinds[1]))
        case "&&" | "||":
            return _both(how, given[0], given[1])
        case "rt":
            return c.Call(f"spfgen_{_RT.get((op, kind.kind), op)}_{kind.name}", tuple(given))
        case "":
            raise InternalError(f"no C for `{op}` of {', '.join(k.name for k in kinds)}")
    if how.endswith("()"):
        single = "f" if kind.name in ("float32", "complex64") else ""
        if how in _MACROS:
            return c.Bin("!=", c.Call(how[:-2], tuple(given)), c.Int(0))
        return c.Call(how[:-2] + single, tuple(given))
    if {k.name for k in kinds} == {"int64", "uint64"}:
        return _between(how, given, kinds)
    whole = result.kind in "iu" and how in _WRAPS
    if whole and all(isinstance(g, c.Int) for g in given):
        return literal(_made_of_numbers(op, given, kinds), result)  # C would compute with int: ~3 is none of uint64
    expression = c.Un(how, given[0]) if len(given) == 1 else c.Bin(how, given[0], given[1])
    # The constants of two sums of int32 would be joined to one that is wider.
    wide = result.bytes < 4 or (result.bytes == 4 and any(isinstance(g, c.Int) for g in given))
    return c.Cast(result.c, expression) if whole and wide else expression


def _made_of_numbers(op: str, given: Sequence[c.Expr], kinds: Sequence[ElementType]) -> Any:
    """What numpy makes of integer constants of these types."""
    import numpy as np

    numbers = [np.dtype(k.name).type(g.value) for g, k in zip(given, kinds, strict=True) if isinstance(g, c.Int)]
    return np.asarray(folded(op, numbers)).item()


def _both(sign: str, a: c.Expr, b: c.Expr) -> c.Expr:
    """Two truth values joined. Compilers do not vectorise loops in which b is asked for only after a: both are
    computed where that is cheap."""
    cheap = not any(isinstance(node, c.Call) for node in walk(b))
    return c.Bin({"&&": "&", "||": "|"}.get(sign, sign) if cheap else sign, a, b)


_POWERS: dict[float | None, str] = {-1.0: "reciprocal", 0.5: "sqrt", 1.0: "positive", 2.0: "square"}
"""Powers of floating-point numbers that numpy computes in another way."""


def _exponent(e: c.Expr) -> float | None:
    match e:
        case c.Float(number) | c.Call(_, (c.Float(number), c.Float(0.0))):
            return number
    return None


_MACROS = ("isnan()", "isinf()", "isfinite()", "signbit()")
"""These answer yes by any number but 0."""
_RT = {("fmax", "i"): "maximum", ("fmax", "u"): "maximum", ("fmin", "i"): "minimum", ("fmin", "u"): "minimum",
       ("round", "c"): "rint", ("float_power", "c"): "power"}  # fmt: skip
"""Functions that are the same as another one for a kind."""
_MIXED = {"<": "less", "<=": "less_equal", "==": "equal"}


def _between(sign: str, given: Sequence[c.Expr], kinds: Sequence[ElementType]) -> c.Expr:
    """A comparison of an int64 with a uint64, in either order."""
    a, b = given
    if kinds[0].kind == "u":
        a, b = b, a
        sign = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(sign, sign)
    opposite = {">": "<=", ">=": "<", "!=": "=="}
    call = c.Call(f"spfgen_{_MIXED[opposite.get(sign, sign)]}_int64_uint64", (a, b))
    return c.Un("!", call) if sign in opposite else call
