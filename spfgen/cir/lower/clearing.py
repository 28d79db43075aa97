"""What is cleared in the loop that fills it, or before it: what lies between the places of its iterations."""

from __future__ import annotations

from collections.abc import Sequence

from spfgen.cir.lower.scope import Scope
from spfgen.cir.lower.state import Lowering
from spfgen.cir.tree import nodes as c
from spfgen.facts.formula import Expr, substitute
from spfgen.plan.nodes import Clear, Plan, Scan


def cleared_between(
    low: Lowering, plan: Plan, first: Sequence[Expr], past: Sequence[Expr], scope: Scope
) -> list[c.Stmt]:
    """What a part of a loop clears before its iterations, from the first one on, before another."""
    if not isinstance(plan, Scan) or plan.between is None or plan.between.part is None:
        return []
    ends = dict(zip(plan.ends_of_part, (*first, *past), strict=True))
    return cleared(low, plan.between, substitute(plan.between.part, ends), scope)


def cleared(low: Lowering, clear: Clear, part: Plan, scope: Scope) -> list[c.Stmt]:
    """The part becomes zero."""
    return [c.Comment(f"{clear.tensor} is cleared here: {clear.because}"), *low.plan(part, scope)]
