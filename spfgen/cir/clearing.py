"""A large result to which little is added is cleared as a whole, before the loop that would clear it part by part."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spfgen.cir import nodes as c
from spfgen.cir.build import joined
from spfgen.cir.cost import cost_expr
from spfgen.cir.scope import Scope
from spfgen.plan.nodes import Clear, Scan, chain

if TYPE_CHECKING:
    from spfgen.cir.from_plan import Lowering

LARGE = 64 << 20
"""Bytes of a result that caches do not hold."""
FEW = 16
"""Places for each line of 8 numbers that is added to: such a line is then read and written once more."""


def cleared_first(low: Lowering, plan: Scan, scope: Scope) -> tuple[list[c.Stmt], Scope]:
    """What stands before a parallel loop, and the scope that says whether that has cleared the result."""
    clear = next((n for n in chain(plan) if isinstance(n, Clear) and n.lines is not None), None)
    if not plan.parallel or clear is None or clear.lines is None:
        return [], scope
    layout = low.program.tensor(clear.tensor).layout
    if len(layout.values) != 1:
        return [], scope
    extents = [low.layout_expr(e, clear.tensor) for e in layout.values[0].extents]
    places = c.Cast("double", joined("*", extents))
    most = LARGE // low.kinds[clear.tensor].bytes
    few = c.Bin("<", c.Bin("*", c.Float(float(FEW)), cost_expr(clear.lines, low, scope)), places)
    name = c.Name(low.names.new(f"{clear.tensor}_cleared"))
    lines: list[c.Stmt] = [
        c.Comment(
            f"where little is added to a large {clear.tensor}, one pass over it takes less than clearing parts of it"
        ),
        c.Declare("const bool", name.name, c.Bin("&&", c.Bin(">", joined("*", extents), c.Int(most)), few)),
        c.If(name, c.Block(tuple(low.clear(clear.tensor)))),
    ]
    return lines, replace(scope, cleared_first=name)
