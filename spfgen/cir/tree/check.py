"""Whether a C tree makes sense: names in scope, legal identifiers, known operators.

It is run on every file before it is printed, so that a slip of the compiler is an InternalError with a name
in it and not an error of gcc. Scopes are those of the printed C: a Block inside a Block has no braces, so it
does not open one; the bodies of For, While and If do. A name may come again where the first one is out of
scope (the counters of two loops in a row), but it may not hide another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from spfgen.cir.tree.nodes import (
    Assign,
    Bin,
    Block,
    Braces,
    Break,
    Call,
    Cast,
    Comment,
    Declare,
    Do,
    Expr,
    Field,
    File,
    Float,
    For,
    Function,
    If,
    Int,
    Load,
    Name,
    Pragma,
    Return,
    Select,
    Stmt,
    Struct,
    Text,
    Un,
    While,
)
from spfgen.cir.tree.print import ASSIGNMENTS, OPERATORS, UNARY_OPERATORS
from spfgen.errors import InternalError
from spfgen.ir import children

_KEYWORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int long
register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
_Bool _Complex _Imaginary
"""
C99_KEYWORDS = frozenset(_KEYWORDS.split())
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_Scope = frozenset[str]


def check(file: File, known: frozenset[str] = frozenset()) -> None:
    """Raise InternalError if the file is no sensible C.

    `known` are the variables, constants and macros that come from includes or from Text, such as NULL.
    Functions that are called need not be known: most come from headers.
    """
    if file.guard:
        _identifier(file.guard, "the include guard")
    seen = known
    for item in file.items:
        match item:
            case Struct():
                _struct(item)
            case Function():
                seen = _declare(item.name, seen, "the file")
                _function(item, seen)
            case Text():
                pass
            case _:
                raise InternalError(f"expected a struct, function or text, but got {type(item).__name__}")


def _struct(struct: Struct) -> None:
    _identifier(struct.name, "a struct")
    _declare_all((f.name for f in struct.fields), frozenset(), f"struct {struct.name}")


def _function(function: Function, known: _Scope) -> None:
    where = f"function {function.name}"
    scope = _declare_all((p.name for p in function.params), known, where)
    _statement(function.body, scope, where)


# --- names ---------------------------------------------------------------------------------------


def _identifier(name: str, where: str) -> None:
    if not _IDENTIFIER.fullmatch(name):
        raise InternalError(f"expected a C identifier in {where}, but got {name!r}")
    if name in C99_KEYWORDS:
        raise InternalError(f"expected a C identifier in {where}, but {name!r} is a keyword of C99")


def _declare(name: str, scope: _Scope, where: str) -> _Scope:
    _identifier(name, where)
    if name in scope:
        raise InternalError(f"expected a new name in {where}, but {name!r} is declared already")
    return scope | {name}


def _declare_all(names: Iterable[str], scope: _Scope, where: str) -> _Scope:
    for name in names:
        scope = _declare(name, scope, where)
    return scope


# --- statements ----------------------------------------------------------------------------------


def _statement(s: Stmt, scope: _Scope, where: str) -> _Scope:
    """Check a statement; answers what is in scope after it."""
    match s:
        case Braces(body):
            _statement(body, scope, where)
            return scope
        case Block(statements):
            for inner in statements:
                scope = _statement(inner, scope, where)
            return scope
        case Declare(_, name, value):
            # In C the name is in scope in its own value, but never holds anything there.
            _expressions((value,), scope, where)
            return _declare(name, scope, where)
        case Assign(target, op, value):
            _expect_operator(op, ASSIGNMENTS, "assignment", where)
            _expressions((target, value), scope, where)
        case For():
            _expressions((s.start,), scope, where)
            inside = _declare(s.variable, scope, where)
            _expressions((s.condition, s.step if isinstance(s.step, Expr) else None), inside, where)
            _statement(s.body, inside, where)
        case While(condition, body):
            _expressions((condition,), scope, where)
            _statement(body, scope, where)
        case If(condition, then, orelse):
            _expressions((condition,), scope, where)
            _statement(then, scope, where)
            if orelse is not None:
                _statement(orelse, scope, where)
        case Return(value):
            _expressions((value,), scope, where)
        case Do(expression):
            _expressions((expression,), scope, where)
        case Break() | Comment() | Pragma():
            pass
        case _:
            raise InternalError(f"expected a statement of C in {where}, but got {type(s).__name__}")
    return scope


# --- expressions ---------------------------------------------------------------------------------


def _expressions(expressions: Iterable[Expr | None], scope: _Scope, where: str) -> None:
    for e in expressions:
        if e is not None:
            _expression(e, scope, where)


def _expression(e: Expr, scope: _Scope, where: str) -> None:
    match e:
        case Name(name):
            _identifier(name, where)
            if name not in scope:
                raise InternalError(f"expected a name in scope in {where}, but {name!r} is not declared")
        case Bin(op):
            _expect_operator(op, OPERATORS, "binary", where)
        case Un(op):
            _expect_operator(op, UNARY_OPERATORS, "unary", where)
        case Field(_, name):
            _identifier(name, where)
        case Call("sizeof"):
            return  # the one keyword that looks like a function: `sizeof(*p)`, `sizeof(double)`
        case Call(function):
            _identifier(function, where)
        case Int() | Float() | Load() | Select() | Cast():
            pass
        case _:
            raise InternalError(f"expected an expression of C in {where}, but got {type(e).__name__}")
    _expressions(children(e), scope, where)


def _expect_operator(op: str, allowed: Iterable[str], kind: str, where: str) -> None:
    if op not in allowed:
        raise InternalError(f"expected a known {kind} operator in {where}, but got {op!r}")
