"""Which statements are sums of products, whatever their operands are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spfgen.facts.formula import Expr, Formula
from spfgen.ir import walk
from spfgen.lang.nodes import Access, Apply, Constant, Reduce, Statement

OPERATORS = ("add", "subtract", "multiply", "divide", "negative")


def first_beyond(steps: Sequence[Any]) -> Any | None:
    """The first node that is none of a sum of products, quotients or sums; None where all are."""
    for step in steps:
        if not isinstance(step, Statement) or step.op not in ("=", "+="):
            return step
        for node in (step.target, *walk(step.value)):
            if not _is_plain(node):
                return node
    return None


def is_sum_of_products(value: Any) -> bool:
    """Whether a value is made of sums, products and quotients alone."""
    return all(_is_plain(node) for node in walk(value))


def _is_plain(node: Any) -> bool:
    match node:
        case Access(_, subscripts):
            return all(isinstance(s, Expr) for s in subscripts)
        case Apply(op, function=function):
            return op in OPERATORS and function is None
        case Reduce(op, function=function):
            return op == "add" and function is None
        case Constant(value):
            return not isinstance(value, bool)
    return isinstance(node, Expr | Formula)
