"""Integer expressions and formulas, as layouts, constraints and properties are written.

    Expr    ::= Num | Var | Call(function, arguments) | Bin(+ - * / % min max)       integers; `/` rounds down
                (`quot` and `rem` are `/` and `%` where neither operand is negative: a plan says so)
    Formula ::= Compare(= != < <= > >=) | And | Or | Not | Forall(variables, body) | Exists(variables, body)

`a => b` is `not a or b`. `span` says where the text stood; it never takes part in comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from spfgen.errors import InternalError, Span
from spfgen.ir import rewrite, walk


def _span() -> Any:
    return field(default=None, compare=False, repr=False)


class Expr:
    """An integer."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Num(Expr):
    value: int
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Var(Expr):
    """A size, an index, or a call that has become a dimension."""

    name: str
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """The value that index array `function` holds at `arguments`."""

    function: str
    arguments: tuple[Expr, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Bin(Expr):
    """`left op right`; `/` is division rounded down and `%` its remainder (never negative for a positive divisor)."""

    op: str
    left: Expr
    right: Expr
    span: Span | None = _span()


class Formula:
    """True or false."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Compare(Formula):
    op: str
    left: Expr
    right: Expr
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class And(Formula):
    """All of `parts`; with none of them, true."""

    parts: tuple[Formula, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Or(Formula):
    """One of `parts`; with none of them, false."""

    parts: tuple[Formula, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Not(Formula):
    part: Formula
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Forall(Formula):
    variables: tuple[str, ...]
    body: Formula
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Exists(Formula):
    variables: tuple[str, ...]
    body: Formula
    span: Span | None = _span()


TRUE = And(())
ZERO = Num(0)
ONE = Num(1)


def conjunction(parts: list[Formula] | tuple[Formula, ...]) -> Formula:
    """`And` of the parts, flattened."""
    flat: list[Formula] = []
    for part in parts:
        flat += part.parts if isinstance(part, And) else (part,)
    return flat[0] if len(flat) == 1 else And(tuple(flat))


def conjuncts(formula: Formula) -> Iterator[Formula]:
    """The parts of a conjunction, outermost `And`s opened."""
    if isinstance(formula, And):
        for part in formula.parts:
            yield from conjuncts(part)
    else:
        yield formula


def sides(part: Formula) -> Iterator[Formula]:
    """A comparison with a bound of several parts opened: `a < min(b, c)` says a < b and a < c."""
    match part:
        case Compare(("<" | "<=") as op, left, Bin("min", a, b)) | Compare((">" | ">=") as op, left, Bin("max", a, b)):
            yield from sides(Compare(op, left, a))
            yield from sides(Compare(op, left, b))
        case Compare(("<" | "<=") as op, Bin("max", a, b), c) | Compare((">" | ">=") as op, Bin("min", a, b), c):
            yield from sides(Compare(op, a, c))
            yield from sides(Compare(op, b, c))
        case _:
            yield part


def implies(condition: Formula, conclusion: Formula, span: Span | None = None) -> Formula:
    if condition == TRUE:
        return conclusion
    return Or((Not(condition), conclusion), span)


def chain(*items: Any) -> Formula:
    """`chain(a, "<=", b, "<", c)` is a <= b and b < c."""
    operands, operators = items[::2], items[1::2]
    return conjunction([Compare(op, a, b) for op, (a, b) in zip(operators, pairwise(operands), strict=True)])


def within(value: Expr, low: Expr, high: Expr) -> Formula:
    """low <= value < high."""
    return chain(low, "<=", value, "<", high)


def opened(formula: Formula) -> tuple[tuple[str, ...], Formula]:
    """(the variables that it is for all values of, what it says of them)."""
    return (formula.variables, formula.body) if isinstance(formula, Forall) else ((), formula)


def variables(*nodes: Expr | Formula) -> set[str]:
    """All variable names that occur, bound ones too."""
    return {n.name for node in nodes for n in walk(node) if isinstance(n, Var)}


def other_arguments(call: Call, name: str) -> tuple[Expr, ...]:
    """The arguments of a call but the one that is this variable."""
    return tuple(a for a in call.arguments if a != Var(name))


def calls(node: Expr | Formula) -> list[Call]:
    """All calls that occur, outer ones before those in their arguments."""
    return [n for n in walk(node) if isinstance(n, Call)]


def substitute(node: Any, values: Mapping[str, Expr]) -> Any:
    """Replace variables by expressions (simultaneously). Bound variables must not be among them."""

    def rule(n: Any) -> Any:
        return values.get(n.name) if isinstance(n, Var) else None

    return rewrite(rule, node)


def rename(node: Any, names: Mapping[str, str], functions: Mapping[str, str] | None = None) -> Any:
    """Replace variable names, and function names where given."""
    functions = functions or {}

    def rule(n: Any) -> Any:
        match n:
            case Var(name) if name in names:
                return replace(n, name=names[name])
            case Call(function) if function in functions:
                return replace(n, function=functions[function])
            case Forall(bound) | Exists(bound) if any(b in names for b in bound):
                return replace(n, variables=tuple(names.get(b, b) for b in bound))
        return None

    return rewrite(rule, node)


def evaluate(expr: Expr, lookup: Callable[[str], Any], call: Callable[[str, tuple[Any, ...]], Any]) -> Any:
    """The value of an expression. Works for Python integers and, elementwise, for numpy arrays."""
    match expr:
        case Num(value):
            return value
        case Var(name):
            return lookup(name)
        case Call(function, arguments):
            return call(function, tuple(evaluate(a, lookup, call) for a in arguments))
        case Bin(op, left, right):
            a, b = evaluate(left, lookup, call), evaluate(right, lookup, call)
            return apply_operator(op, a, b)
    raise InternalError(f"no value for {expr!r}")


def apply_operator(op: str, a: Any, b: Any) -> Any:
    """One integer operator on Python integers or numpy arrays."""
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/" | "quot" | "%" | "rem":
            return _divided(op, a, b)
        case "min" | "max":
            if isinstance(a, int) and isinstance(b, int):
                return min(a, b) if op == "min" else max(a, b)
            import numpy as np

            return np.minimum(a, b) if op == "min" else np.maximum(a, b)
    raise InternalError(f"unknown operator {op!r}")


def _divided(op: str, a: Any, b: Any) -> Any:
    """Rounded down, or its remainder; 0 where the divisor is not positive, as in C (rt/quotient.h)."""
    if isinstance(b, int):
        return a // b if b > 0 and op in ("/", "quot") else a % b if b > 0 else a * 0
    import numpy as np

    positive = np.maximum(b, 1)
    return np.where(b > 0, a // positive if op in ("/", "quot") else a % positive, 0)


def divisible(expr: Expr) -> list[Formula]:
    """That each divisor in it is positive, factor by factor."""
    divisors = [n.right for n in walk(expr) if isinstance(n, Bin) and n.op in ("/", "quot", "%", "rem")]
    return [Compare(">=", factor, Num(1)) for d in dict.fromkeys(divisors) for factor in _factors(d)]


def _factors(expr: Expr) -> Iterator[Expr]:
    match expr:
        case Num(value) if value >= 1:
            pass
        case Bin("*", left, right):
            yield from _factors(left)
            yield from _factors(right)
        case _:
            yield expr


MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
NEGATED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}

_LEVEL = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2}


def show(node: Expr | Formula, level: int = 0) -> str:
    """The text of an expression or formula, as a person would write it in a spec file."""
    match node:
        case Num(value):
            return str(value) if value >= 0 or level < 2 else f"({value})"
        case Var(name):
            return name
        case Call(function, arguments):
            return f"{function}({', '.join(show(a) for a in arguments)})"
        case Bin("quot" | "rem" as op, left, right):
            return show(Bin("/" if op == "quot" else "%", left, right), level)
        case Bin("max", left, Bin("-", Num(0), right)) if left == right:
            return f"abs({show(left)})"
        case Bin("min" | "max" as op, left, right):
            return f"{op}({show(left)}, {show(right)})"
        case Bin("-", Num(0), right):
            return f"-{show(right, 2)}" if level < 2 else f"(-{show(right, 2)})"
        case Bin("/", Bin("-", Bin("+", above, Num(one)), Num(1)), Num(other)) if one == other:
            return f"ceil({show(above, _LEVEL['/'])}/{other})"
        case Bin(op, left, right):
            precedence = _LEVEL[op]
            sign = " mod " if op == "%" else f" {op} " if precedence == 1 else op
            text = f"{show(left, precedence)}{sign}{show(right, precedence + 1)}"
            if op == "/":
                return f"floor({text})"
            return f"({text})" if precedence < level else text
        case Compare(op, left, right):
            return f"{show(left)} {op} {show(right)}"
        case And(()):
            return "true"
        case Or(()):
            return "false"
        case And(parts):
            text = " and ".join(show(p, 3) for p in _chained(parts))
            return f"({text})" if level > 3 else text
        case Or((Not(condition), conclusion)):
            text = f"{show(condition, 3)} => {show(conclusion, 3)}"
            return f"({text})" if level > 0 else text
        case Or(parts):
            text = " or ".join(show(p, 3) for p in parts)
            return f"({text})" if level > 2 else text
        case Not(part):
            return f"not ({show(part)})"
        case Forall(names, body) | Exists(names, body):
            word = "forall" if isinstance(node, Forall) else "exists"
            text = f"{word} {', '.join(names)} : {show(body)}"
            return f"({text})" if level > 0 else text
    return str(node)


@dataclass(frozen=True, slots=True)
class _Text(Formula):
    """A finished piece of text inside `show`."""

    text: str

    def __str__(self) -> str:
        return self.text


def _chained(parts: tuple[Formula, ...]) -> list[Formula]:
    """Neighbouring `a <= b` and `b < c` become one chain, as people write them."""
    result: list[Formula] = []
    end: Expr | None = None
    for part in parts:
        if isinstance(part, Compare) and part.op in ("<", "<=") and end is not None and part.left == end:
            result[-1] = _Text(f"{show(result[-1])} {part.op} {show(part.right)}")
            end = part.right
        else:
            result.append(part)
            end = part.right if isinstance(part, Compare) and part.op in ("<", "<=") else None
    return result
