"""Arguments within their arrays: a position for which an index array has no value is not stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spfgen.errors import InternalError
from spfgen.facts.formula import (
    NEGATED,
    ZERO,
    And,
    Call,
    Compare,
    Exists,
    Expr,
    Forall,
    Formula,
    Not,
    Or,
    calls,
    conjunction,
    within,
)

Limits = Mapping[str, tuple[Expr, ...]]
"""The extents of each function's arguments."""


def arguments_inside(calls_in_terms: Iterable[Call], limits: Limits) -> list[Formula]:
    """0 <= argument < extent, for every argument of every call."""
    return [
        within(argument, ZERO, extent)
        for call in calls_in_terms
        for argument, extent in zip(call.arguments, limits[call.function], strict=True)
    ]


def inside_arrays(formula: Formula, limits: Limits) -> Formula:
    """The formula where each comparison also asks that its calls are defined.

    Negations are pushed down to the comparisons first, so that `not f(p) = 0` asks it too.
    """
    match formula:
        case And(parts):
            return conjunction([inside_arrays(p, limits) for p in parts])
        case Or(parts):
            return Or(tuple(inside_arrays(p, limits) for p in parts))
        case Compare():
            return _defined(formula, limits)
        case Not(part):
            return (
                inside_arrays(_negated(part), limits)
                if not isinstance(part, Exists | Forall)
                else _defined(formula, limits)
            )
        case Exists() | Forall():
            return _defined(formula, limits)
    raise InternalError(f"unknown formula {formula!r}")


def _defined(formula: Formula, limits: Limits) -> Formula:
    calls_in_formula = calls(formula)
    return conjunction([formula, *arguments_inside(calls_in_formula, limits)]) if calls_in_formula else formula


def _negated(formula: Formula) -> Formula:
    match formula:
        case And(parts):
            return Or(tuple(Not(p) for p in parts))
        case Or(parts):
            return And(tuple(Not(p) for p in parts))
        case Compare(op, left, right, span):
            return Compare(NEGATED[op], left, right, span)
        case Not(part):
            return part
    raise InternalError(f"unknown formula {formula!r}")
