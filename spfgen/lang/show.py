"""IR 1 as text. What is read again from the text is the same."""

from __future__ import annotations

from collections.abc import Sequence

from spfgen.errors import InternalError
from spfgen.facts.formula import Compare, Expr, Var, show
from spfgen.lang import signs
from spfgen.lang.nodes import (
    Access,
    Apply,
    Break,
    Case,
    Coalesce,
    Collapse,
    Concat,
    Constant,
    For,
    Function,
    If,
    Index,
    Let,
    Local,
    Range,
    Reduce,
    Return,
    Set,
    Slice,
    Split,
    Statement,
    Step,
    Value,
    While,
)
from spfgen.lang.ops import ADDED, COMPARED, MULTIPLIED, POWER, REDUCTIONS, SIGNED

_REDUCTIONS = {REDUCTIONS[name]: name for name in ("sum", "prod", "max", "min", "any", "all")}
_UPDATES = {op: sign for sign, op in signs.UPDATES.items()} | {"logical_or": "or", "logical_and": "and"}


def show_value(value: Value, level: int = 0) -> str:
    """The text of a value; in parentheses where it binds less than `level`."""
    match value:
        case Constant(number):
            return f"({number})" if level > MULTIPLIED and str(number).startswith("-") else str(number)
        case Local(name):
            return name
        case Index(expr):
            return show(expr) if isinstance(expr, Var) else f"({show(expr)})"
        case Access(tensor, ()):
            return tensor
        case Access(tensor, subscripts):
            return f"{tensor}[{', '.join(_subscript(s) for s in subscripts)}]"
        case Apply():
            return _show_applied(value, level)
        case Reduce():
            return _show_reduction(value)
        case Coalesce(arguments):
            return f"coalesce({_values(arguments)})"
        case Collapse(inner, old, new):
            return f"collapse({show_value(inner)}, {_names(old)} -> {new})"
        case Split(inner, old, new):
            return f"split({show_value(inner)}, {old} -> {_names(new)})"
        case Concat(values, old, new):
            return f"concat(({_values(values)}), {_names(old)} -> {new})"
        case Slice(inner, old, new, start, stop, step):
            return f"slice({show_value(inner)}, {old} -> {new}, ({show(start)}, {show(stop)}, {step}))"
    raise InternalError(f"no text for {value!r}")


def _values(values: Sequence[Value]) -> str:
    return ", ".join(show_value(v) for v in values)


def _names(names: Sequence[str]) -> str:
    return f"({', '.join(names)})"


def _subscript(subscript: object) -> str:
    match subscript:
        case Range(index, start, stop, step):
            first, last = ("" if b is None else show(b) for b in (start, stop))
            return f"{index}({first}:{last}{'' if step == 1 else f':{step}'})"
        case Expr():
            return show(subscript)
    return show_value(subscript)  # type: ignore[arg-type]


def _show_applied(value: Apply, level: int) -> str:
    op, arguments = value.op, value.arguments
    if value.function is None and op in signs.UNARY and len(arguments) == 1:
        sign, precedence = signs.UNARY[op]
        text = f"{sign}{show_value(arguments[0], precedence)}"
        return f"({text})" if precedence < level else text
    if value.function is None and op in signs.BINARY and len(arguments) == 2:
        sign, precedence = signs.BINARY[op]
        # a comparison has no other beside it, a power is one to the right
        left = precedence + 1 if precedence in (COMPARED, POWER) else precedence
        right = SIGNED if precedence == POWER else precedence + 1
        between = f" {sign} " if precedence <= ADDED else sign
        text = f"{show_value(arguments[0], left)}{between}{show_value(arguments[1], right)}"
        return f"({text})" if precedence < level else text
    return f"{op}({_values(arguments)})"


def _show_reduction(total: Reduce) -> str:
    """The condition stands in front where the indices can be read off it, else behind."""
    inner, where = show_value(total.value), total.where
    name = total.op if total.function is not None else _REDUCTIONS.get(total.op, total.op)
    sides = (where.left, where.right) if isinstance(where, Compare) else ()
    if where is not None and {s.name for s in sides if isinstance(s, Var)} >= set(total.indices):
        return f"{name}({show(where)}: {inner})"
    condition = "" if where is None else f" where {show(where)}"
    return f"{name}({', '.join(total.indices)}: {inner}{condition})"


def _update(op: str, function: Function | None) -> str:
    """The sign of an assignment."""
    return op if op in ("=", "+=") else f"{op if function is not None else _UPDATES.get(op, op)}="


def show_statement(step: Step) -> str:
    """The text of a step."""
    match step:
        case Statement(target, op, value, where, _, within, function):
            text = f"{show_value(target)} {_update(op, function)} {show_value(value)}"
            text = text if where is None else f"{text} where {show(where)}"
            return f"{text} within {target.tensor}" if within else text
        case For(indices, body, where):
            condition = "" if where is None else f" where {show(where)}"
            return f"for {', '.join(indices)}{condition} {_block(body)}"
        case If(condition, then, otherwise):
            text = f"if {show_value(condition)} {_block(then)}"
            return f"{text} else {_block(otherwise)}" if otherwise else text
        case Let(name, value):
            return f"let {name} = {show_value(value)}"
        case Set(name, op, value, _, function):
            return f"{name} {_update(op, function)} {show_value(value)}"
        case While(condition, body):
            return f"while {show_value(condition)} {_block(body)}"
        case Break():
            return "break"
        case Return(value):
            return f"return {show_value(value)}"
    raise InternalError(f"no text for {step!r}")


def _block(steps: Sequence[Step]) -> str:
    return f"{{ {'; '.join(show_statement(s) for s in steps)} }}" if steps else "{ }"


def show_function(function: Function) -> str:
    """The text of a declaration."""
    lines = [*(_case(function.parameters, c) for c in function.cases), *(show_statement(s) for s in function.body)]
    operator = function.operator
    words = ("commutative", "associative", "idempotent")
    lines += [f"property {word}" for word in words if getattr(operator, word)]
    if operator.identity is not None:
        lines.append(f"property identity {operator.identity}")
    lines += [f"property annihilator {value} at {place + 1}" for place, value in operator.annihilators]
    if function.space is not None:
        lines.append(f"space {show_value(function.space)}")
    inner = "".join(f"    {line}\n" for line in lines)
    return f"function {function.name}({', '.join(function.parameters)}) {{\n{inner}}}"


def _case(parameters: Sequence[str], case: Case) -> str:
    pairs = zip(parameters, case.arguments, strict=True)
    return f"case {', '.join(p if a is None else str(a) for p, a in pairs)} : {show_value(case.value)}"
