"""Small simplifications of the C tree, bottom-up. `a`, `b`, `c` are integer constants, `x`, `y` anything.

    a + b, a - b, a * b, -a           -> their value, if it fits into 64 bits
    a < b, a == b, ...                -> 0 or 1
    a / b, a % b                      -> their value, if a >= 0 and b > 0
    x + 0, 0 + x, x - 0               -> x
    x * 1, 1 * x, x / 1               -> x
    x + -c                            -> x - c
    x - -c                            -> x + c
    (x + a) + b, (a + x) + b          -> x + (a + b); the same with - for either + after x
    !a                                -> 0 or 1
    0 && x, 1 || x                    -> 0, 1
    x && 0, x || 1                    -> 0, 1, if x calls nothing
    1 && x, x && 1, 0 || x, x || 0    -> x, or x != 0 if x is not 0 or 1 by its form
    a ? x : y                         -> x or y
    if (a) s else t                   -> s or t (`if (1)` stays if its names would clash outside)
    if (x && y) { if (x) s }          -> if (x && y) { s }, if x compares names that do not change there
    if (x) {}                         -> nothing, if x calls nothing; an empty else goes
    for (...) {}                      -> nothing, if its head calls nothing
    { {s} t {} }                      -> { s t }

The tree has no types, so the rules rely on how it is built: a constant in a sum or product of floating
numbers is a Float, never an Int; both branches of a Select have one type; integers are signed and do not
overflow, nor would they in a wider type.
`x * 0 -> 0` is missing on purpose: it is wrong for infinities and NaN.

Each rule makes the tree smaller, or moves the sign of a constant once, or turns a connective into `!=`, which
no rule turns back: so it ends, and what comes out is left alone by a second run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar, cast

from spfgen.cir.tree.nodes import (
    Assign,
    Bin,
    Block,
    Call,
    Declare,
    Expr,
    File,
    For,
    Function,
    If,
    Int,
    Name,
    Param,
    Select,
    Stmt,
    Un,
)
from spfgen.errors import InternalError
from spfgen.ir import rewrite, walk

_Node = TypeVar("_Node")
_Repeated = frozenset[str]

_COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


def simplify(node: _Node) -> _Node:
    """The expression, statement, function or file with all rules applied; statements may become Block(())."""
    if isinstance(node, File):
        items = tuple(simplify(i) if isinstance(i, Function) else i for i in node.items)
        unchanged = all(new is old for new, old in zip(items, node.items, strict=True))
        return node if unchanged else replace(node, items=items)
    repeated = _repeated_names(node)
    return cast(_Node, rewrite(lambda n: _rule(n, repeated), node))


def _rule(node: Any, repeated: _Repeated) -> Any | None:
    """All rules at one node whose children are done; None if none fits."""
    changed = None
    while (new := _once(node if changed is None else changed, repeated)) is not None:
        changed = new
    return changed


def _once(node: Any, repeated: _Repeated) -> Any | None:
    match node:
        case Bin(op, Int(a), Int(b)) if (value := _folded(op, a, b)) is not None:
            return value
        case Bin("+" | "-"):
            return _sum(node)
        case Bin("*" | "/"):
            return _product(node)
        case Bin("&&" | "||"):
            return _connective(node)
        case Un():
            return _unary(node)
        case Select(Int(a), yes, no):
            return yes if a else no
        case If():
            return _if(node, repeated)
        case For(start=start, condition=condition, body=Block(())) if not _calls(start, condition):
            return Block(())
        case Block(statements) if any(isinstance(s, Block) for s in statements):
            return Block(tuple(_flat(statements)))
        case _:
            return None


# --- integers ------------------------------------------------------------------------------------


def _constant(value: int) -> Int | None:
    return Int(value) if _SMALLEST <= value <= _LARGEST else None


def _folded(op: str, a: int, b: int) -> Int | None:
    """The value of `a op b`, or None if it is left to C."""
    if _constant(a) is None or _constant(b) is None:
        return None  # such a constant is unsigned, and so would be the result
    if op in _COMPARISONS:
        return Int(int(_compared(op, a, b)))
    match op:
        case "+":
            return _constant(a + b)
        case "-":
            return _constant(a - b)
        case "*":
            return _constant(a * b)
        case "/" if a >= 0 and b > 0:
            return Int(a // b)
        case "%" if a >= 0 and b > 0:
            return Int(a % b)
        case _:
            return None


def _compared(op: str, a: int, b: int) -> bool:
    match op:
        case "<":
            return a < b
        case "<=":
            return a <= b
        case ">":
            return a > b
        case ">=":
            return a >= b
        case "==":
            return a == b
        case "!=":
            return a != b
        case _:
            raise InternalError(f"expected a comparison, but got {op!r}")


def _sum(e: Bin) -> Expr | None:
    match e:
        case Bin("+", Int(0), x) | Bin("+" | "-", x, Int(0)):
            return x
        case Bin(op, x, Int(c)) if _constant(c) is not None:
            return _sum_with_constant(x, c if op == "+" else -c, op)
        case _:
            return None


def _sum_with_constant(x: Expr, total: int, op: str) -> Expr | None:
    """`x + total`, with a constant in `x` joined; `op` is how it is written now."""
    match x:
        case Bin("+", inner, Int(a)) | Bin("+", Int(a), inner) if _constant(a) is not None:
            return _shifted(inner, total + a)
        case Bin("-", inner, Int(a)) if _constant(a) is not None:
            return _shifted(inner, total - a)
        case _:
            written = "+" if total >= 0 else "-"
            return _shifted(x, total) if written != op else None


def _shifted(x: Expr, total: int) -> Expr | None:
    """`x + total` in its plainest form, or None if the constant does not fit."""
    if total == 0:
        return x
    size = _constant(abs(total))
    return None if size is None else Bin("+" if total > 0 else "-", x, size)


def _product(e: Bin) -> Expr | None:
    match e:
        case Bin("*", Int(1), x) | Bin("*" | "/", x, Int(1)):
            return x
        case _:
            return None


def _unary(e: Un) -> Expr | None:
    match e:
        case Un("-", Int(a)) if _constant(a) is not None:
            return _constant(-a)
        case Un("!", Int(a)):
            return Int(int(a == 0))
        case _:
            return None


# --- conditions ----------------------------------------------------------------------------------


def _connective(e: Bin) -> Expr | None:
    match e:
        case Bin("&&", Int(0)):
            return Int(0)
        case Bin("||", Int(a)) if a != 0:
            return Int(1)
        case Bin(_, Int(), x):
            return _truth(x)
        case Bin(op, x, Int(a)) if (op == "&&") == (a != 0):
            return _truth(x)
        case Bin(op, x, Int()) if not _calls(x):
            return Int(int(op == "||"))
        case _:
            return None


def _truth(x: Expr) -> Expr:
    """`x` as 0 or 1."""
    match x:
        case Int(a):
            return Int(int(a != 0))
        case Bin(op) if op in _COMPARISONS or op in ("&&", "||"):
            return x
        case Un("!"):
            return x
        case _:
            return Bin("!=", x, Int(0))


def _calls(*expressions: Expr) -> bool:
    """Whether evaluating may do more than give a value."""
    return any(isinstance(n, Call) for e in expressions for n in walk(e))


# --- statements ----------------------------------------------------------------------------------


def _if(s: If, repeated: _Repeated) -> Stmt | None:
    match s:
        case If(condition, then, Block(())):
            return If(condition, then)
        case If(condition, Block(()), None) if not _calls(condition):
            return Block(())
        case If(Int(a), then, orelse):
            alive = then if a else orelse
            if alive is None:
                return Block(())
            if repeated.isdisjoint(_declared(alive)):
                return alive
            return None if a == 1 and orelse is None else If(Int(1), alive)
    inside = _asked_once(s.condition, s.then, repeated)
    return None if inside is s.then else replace(s, then=inside)


def _asked_once(condition: Expr, then: Stmt, repeated: _Repeated) -> Stmt:
    """What runs under a condition, without the questions that it answers."""
    known = {c for c in _conjuncts(condition) if all(isinstance(n, Bin | Name | Int) for n in walk(c))}
    asked = {n.condition for n in walk(then, Stmt) if isinstance(n, If) and n.condition in known}
    if not asked:
        return then
    changed = {name for n in walk(then) for name in _changed(n)}
    answered = {c for c in asked if changed.isdisjoint(n.name for n in walk(c) if isinstance(n, Name))}

    def rule(node: Any) -> Any | None:
        if not isinstance(node, If) or node.condition not in answered:
            return None
        return _rule(replace(node, condition=Int(1)), repeated)

    return cast(Stmt, rewrite(rule, then, Stmt))


def _conjuncts(condition: Expr) -> Iterator[Expr]:
    match condition:
        case Bin("&&", left, right):
            yield from _conjuncts(left)
            yield from _conjuncts(right)
        case _:
            yield condition


def _changed(node: Any) -> Iterator[str]:
    """The names that get another value, or another meaning, or may get one."""
    match node:
        case Assign(Name(name)) | Declare(_, name) | For(_, name) | Un("&", Name(name)):
            yield name


def _flat(statements: Iterable[Stmt]) -> Iterator[Stmt]:
    for s in statements:
        if isinstance(s, Block):
            yield from s.statements  # done already, so there is no Block in it
        else:
            yield s


def _declared(s: Stmt) -> set[str]:
    """The names that come into the scope around `s` when its braces go."""
    match s:
        case Declare(_, name):
            return {name}
        case Block(statements):
            return {name for inner in statements for name in _declared(inner)}
        case _:
            return set()


def _repeated_names(node: Any) -> _Repeated:
    """The names that are declared more than once in the tree: without their braces they might clash."""
    counts: Counter[str] = Counter()
    for n in walk(node):
        match n:
            case Declare(_, name) | Param(_, name) | For(_, name):
                counts[name] += 1
            case _:
                pass
    return frozenset(name for name, count in counts.items() if count > 1)
