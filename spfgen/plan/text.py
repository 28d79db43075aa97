"""Parts of plans in words: bounds, operands, values, conditions."""

from __future__ import annotations

from typing import Any

from spfgen.errors import InternalError
from spfgen.facts.formula import Expr, Formula, show
from spfgen.lang.nodes import Apply, Constant, Index
from spfgen.lang.ops import SHIFTED, show_applied
from spfgen.space.nodes import Operand, Read
from spfgen.space.typed import Holds, Scalar


def interval(low: tuple[Expr, ...], high: tuple[Expr, ...]) -> str:
    a = show(low[0]) if len(low) == 1 else f"max({', '.join(map(show, low))})"
    b = show(high[0]) if len(high) == 1 else f"min({', '.join(map(show, high))})"
    return f"[{a}, {b})"


def show_operand(operand: Operand) -> str:
    if not operand.place:
        return operand.tensor
    return f"{operand.tensor}.{operand.array}[{', '.join(map(show, operand.place))}]"


def show_value(value: Any, level: int = 0) -> str:
    match value:
        case Constant(number):
            return str(number)
        case Read(operand):
            return show_operand(operand)
        case Scalar(name):
            return name
        case Index(expr):
            return show(expr)
        case Holds(condition):
            return f"({show(condition)})"
        case Apply(name, arguments) if value.function is not None:
            return f"{name}({', '.join(show_value(a) for a in arguments)})"
        case Apply(name, arguments):
            return show_applied(name, value.operator, arguments, show_value, level, SHIFTED)
    raise InternalError(f"no text for {value!r}")


def show_conditions(conditions: tuple[Formula, ...]) -> str:
    return " and ".join(map(show, conditions))
