"""Segments that lie one behind the other: positions [f(i), f(i + 1)) for each i."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from spfgen.facts.formula import ONE, Bin, Call, Expr, Var
from spfgen.plan.nodes import Load, Plan, Scan


def segments(rows: Scan, positions: Scan, between: Iterable[Plan]) -> str:
    """f where the loop over positions runs over [f(i), f(i + 1)) for each i of the loop around it; else nothing.
    `between` are the nodes that stand between the two."""
    if not len(positions.low) == len(positions.high) == 1:
        return ""
    loads = {n.dim: n.call for n in between if isinstance(n, Load)}
    low, high = (_loaded(e, loads) for e in (positions.low[0], positions.high[0]))
    if not isinstance(low, Call) or not isinstance(high, Call) or not are_neighbours(low, high, (rows.dim,)):
        return ""
    return low.function


def are_neighbours(low: Call, high: Call, names: Collection[str]) -> bool:
    """f(i) and f(i + 1), for one of these i."""
    match low.arguments:
        case (Var(name) as first,) if name in names and low.function == high.function:
            return high.arguments == (Bin("+", first, ONE),)
    return False


def _loaded(expr: Expr, loads: dict[str, Call]) -> Expr:
    return loads.get(expr.name, expr) if isinstance(expr, Var) else expr
