"""Pieces of C that several writers need: operators of the language, folds, loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from spfgen.cir.tree import nodes as c
from spfgen.facts.formula import Expr

INT = "int64_t"
FUNCTIONS = {"/": "spfgen_floor_div", "%": "spfgen_floor_mod", "min": "spfgen_min", "max": "spfgen_max"}
"""Division rounds down; the divisor is positive."""
QUOTIENTS = {"/": "spfgen_quotient", "quot": "spfgen_quotient", "%": "spfgen_remainder", "rem": "spfgen_remainder"}
"""The same with a divisor of which nobody knows that: C would end the process."""


def operation(op: str, a: c.Expr, b: c.Expr) -> c.Expr:
    """An operation of the language on integers."""
    if op in QUOTIENTS and not (isinstance(b, c.Int) and b.value > 0):
        return c.Call(QUOTIENTS[op], (a, b))
    if op in FUNCTIONS:
        return c.Call(FUNCTIONS[op], (a, b))
    return c.Bin({"quot": "/", "rem": "%"}.get(op, op), a, b)


def joined(op: str, parts: Sequence[c.Expr]) -> c.Expr:
    """The parts with the operator between them; nothing is true (or 0)."""
    if not parts:
        return c.Int(int(op in ("&", "&&")))
    result = parts[0]
    for part in parts[1:]:
        result = c.Bin(op, result, part)
    return result


def any_of(parts: Sequence[c.Expr]) -> c.Expr:
    return joined("||", parts)


def folded(function: str, values: Sequence[c.Expr]) -> c.Expr:
    """A function of two arguments over all values, of which there is at least one."""
    result = values[0]
    for value in values[1:]:
        result = c.Call(function, (result, value))
    return result


def linear_index(subscripts: Iterable[c.Expr], extents: Sequence[Expr], size: Callable[[Expr], c.Expr]) -> c.Expr:
    """The place in an array that is read row by row; `size` writes an extent, where it is needed."""
    index: c.Expr = c.Int(0)
    for subscript, extent in zip(subscripts, extents, strict=True):
        index = subscript if index == c.Int(0) else c.Bin("+", c.Bin("*", index, size(extent)), subscript)
    return index


def added_pairwise(parts: Sequence[c.Expr]) -> c.Expr:
    """The sum of the parts, those of the first half with those of the second: few additions wait for another."""
    while len(parts) > 1:
        half = len(parts) // 2
        added = [c.Bin("+", a, b) for a, b in zip(parts[:half], parts[half : 2 * half], strict=True)]
        parts = [*added, *parts[2 * half :]]
    return parts[0]


def minus(a: c.Expr, b: c.Expr) -> c.Expr:
    return a if b == c.Int(0) else c.Bin("-", a, b)


def loop(variable: str, low: c.Expr, high: c.Expr, body: Sequence[c.Stmt], pragma: str = "", kind: str = INT) -> c.For:
    """The body for each value from `low` to before `high`."""
    less = c.Bin("<", c.Name(variable), high)
    return c.For(kind, variable, low, less, 1, c.Block(tuple(body)), (pragma,) if pragma else ())


def downwards(variable: str, low: c.Expr, high: c.Expr, body: Sequence[c.Stmt], pragma: str = "") -> c.For:
    """The body for each value from before `high` to `low`."""
    last = c.Bin("-", high, c.Int(1))
    more = c.Bin(">=", c.Name(variable), low)
    return c.For(INT, variable, last, more, -1, c.Block(tuple(body)), (pragma,) if pragma else ())


def first_of(cases: Iterable[tuple[c.Expr, c.Block]], otherwise: c.Stmt) -> c.Stmt:
    """What stands with the first condition that is true."""
    chain = otherwise
    for condition, lines in reversed(list(cases)):
        chain = c.If(condition, lines, chain)
    return chain


def in_braces(lines: list[c.Stmt]) -> list[c.Stmt]:
    """In braces of their own, if they declare something that other lines might declare too."""
    return [c.Braces(c.Block(tuple(lines)))] if any(isinstance(s, c.Declare) for s in lines) else lines
