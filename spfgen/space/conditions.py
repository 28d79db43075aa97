"""Conditions that contain only indices: they are known before anything is computed.

`i <= j and abs(i - j) < 3` as a value is a condition on the points, so a loop can start and end where it holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spfgen.facts.formula import NEGATED, ZERO, And, Bin, Compare, Expr, Formula, Not, Num, Or, conjunction, conjuncts
from spfgen.lang import nodes as lang
from spfgen.lang.expressions import LARGEST

COMPARED: Mapping[str, str] = {
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "equal": "=",
    "not_equal": "!=",
}
COMPUTED: Mapping[str, str] = {"add": "+", "subtract": "-", "multiply": "*"}
DIVIDED: Mapping[str, str] = {"floor_divide": "/", "remainder": "%"}


def condition_of(value: Any) -> Formula | None:
    """The condition that a value is, if nothing but affine expressions of indices and sizes is in it."""
    match value:
        case lang.Apply("logical_and" | "bitwise_and" | "logical_or" | "bitwise_or" as op, arguments):
            parts = [condition_of(a) for a in arguments]
            if any(p is None for p in parts):
                return None
            conditions = tuple(p for p in parts if p is not None)
            return conjunction([c for p in conditions for c in conjuncts(p)]) if op.endswith("and") else Or(conditions)
        case lang.Apply("logical_not" | "invert", (inner,)):
            inner_condition = condition_of(inner)
            return None if inner_condition is None else negated(inner_condition)
        case lang.Apply(op, (one, other)) if op in COMPARED:
            left, right = _integer(one), _integer(other)
            if left is None or right is None or not (_moves(one) or _moves(other)):
                return _absolute(one, other, op)
            return conjunction(list(conjuncts(Compare(COMPARED[op], left, right))))
    return None


def negated(condition: Formula) -> Formula:
    match condition:
        case Compare(op, left, right):
            return Compare(NEGATED[op], left, right)
        case And(parts):
            return Or(tuple(negated(p) for p in parts))
        case Or(parts):
            return conjunction([negated(p) for p in parts])
        case Not(inner):
            return inner
    return Not(condition)


def _absolute(one: Any, other: Any, op: str) -> Formula | None:
    """abs(e) < n is -n < e < n."""
    match one, _integer(other):
        case lang.Apply("absolute", (inner,)), Expr() as most:
            value = _integer(inner)
            if value is None or not _moves(inner):
                return None
            least = Bin("-", ZERO, most)
            match op:
                case "less" | "less_equal":
                    return conjunction([Compare(COMPARED[op], value, most), Compare(COMPARED[op], least, value)])
                case "greater" | "greater_equal":
                    return Or((Compare(COMPARED[op], value, most), Compare(COMPARED[op], least, value)))
    return None


def _integer(value: Any) -> Expr | None:
    """The affine expression of indices and sizes that a value is."""
    match value:
        case lang.Index(expr):
            return expr
        case lang.Constant(bool()):
            return None
        case lang.Constant(int(number)):
            return Num(number) if abs(number) <= LARGEST else None
        case lang.Apply("negative", (inner,)):
            negated_value = _integer(inner)
            return None if negated_value is None else Bin("-", ZERO, negated_value)
        case lang.Apply(op, (one, other)) if op in COMPUTED:
            left, right = _integer(one), _integer(other)
            if (
                left is None
                or right is None
                or (op == "multiply" and not isinstance(left, Num) | isinstance(right, Num))
            ):
                return None
            return Bin(COMPUTED[op], left, right)
        case lang.Apply(op, (one, other)) if op in DIVIDED:
            left, right = _integer(one), _integer(other)
            if left is None or not isinstance(right, Num) or right.value < 1:
                return None
            return Bin(DIVIDED[op], left, right)
    return None


def _moves(value: Any) -> bool:
    """Whether there is an index or a size in it."""
    match value:
        case lang.Index():
            return True
        case lang.Apply(_, arguments):
            return any(_moves(a) for a in arguments)
    return False
