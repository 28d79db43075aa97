"""What is cleared before a loop: what lies between the places of its iterations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from spfgen.cir import nodes as c
from spfgen.cir.scope import Scope
from spfgen.facts.formula import Expr, substitute
from spfgen.plan.nodes import Clear, Plan, Scan, body, chain

if TYPE_CHECKING:
    from spfgen.cir.from_plan import Lowering


def spans(plan: Plan) -> Clear | None:
    """What is cleared once for neighbouring iterations of a loop."""
    inside = takewhile(lambda n: not isinstance(n, Scan), chain(body(plan) or plan))
    return next((n for n in inside if isinstance(n, Clear) and n.span is not None), None)


def cleared_span(low: Lowering, plan: Plan, first: Sequence[Expr], past: Sequence[Expr], scope: Scope) -> list[c.Stmt]:
    """What stands before the iterations of a loop from the first one on, before another."""
    clear = spans(plan)
    if clear is None or clear.span is None or clear.part is None:
        return []
    part = substitute(clear.part, dict(zip(clear.span, (*first, *past), strict=True)))
    return [c.Comment(f"{clear.tensor} is cleared here: {clear.because}"), *low.plan(part, scope)]
