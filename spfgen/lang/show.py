"""IR 1 as text."""

from __future__ import annotations

from spfgen.errors import InternalError
from spfgen.facts.formula import Compare, Var, show
from spfgen.lang.nodes import Access, Apply, Constant, Reduce, Statement, Value
from spfgen.lang.ops import ADDED, show_applied


def show_value(value: Value, level: int = 0) -> str:
    match value:
        case Constant(number):
            return str(number)
        case Access(tensor, ()):
            return tensor
        case Access(tensor, subscripts):
            return f"{tensor}[{', '.join(show(s) for s in subscripts)}]"
        case Apply(name, arguments):
            return show_applied(name, value.operator, arguments, show_value, level, ADDED)
        case Reduce():
            return _show_sum(value)
    raise InternalError(f"no text for {value!r}")


def _show_sum(total: Reduce) -> str:
    """The condition stands in front where the indices can be read off it, else behind."""
    inner, where = show_value(total.value), total.where
    sides = (where.left, where.right) if isinstance(where, Compare) else ()
    if where is not None and {s.name for s in sides if isinstance(s, Var)} >= set(total.indices):
        return f"sum({show(where)}: {inner})"
    condition = "" if where is None else f" where {show(where)}"
    return f"sum({', '.join(total.indices)}: {inner}{condition})"


def show_statement(statement: Statement) -> str:
    text = f"{show_value(statement.target)} {statement.op} {show_value(statement.value)}"
    text = text if statement.where is None else f"{text} where {show(statement.where)}"
    return f"{text} within {statement.target.tensor}" if statement.within else text
