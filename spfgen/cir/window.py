"""Windows in C: a few neighbouring places of a result in an array of their own, which is stored in the end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spfgen.cir import nodes as c
from spfgen.cir.build import loop, minus
from spfgen.cir.elements import zero
from spfgen.cir.scope import Scope
from spfgen.facts.formula import Expr, Var
from spfgen.ir import walk
from spfgen.plan.nodes import PLANS, Clear, Do, Scan

if TYPE_CHECKING:
    from spfgen.cir.from_plan import Lowering


def window(low: Lowering, plan: Clear, scope: Scope) -> list[c.Stmt]:
    """Zeros, the loops that add to them, then what is stored."""
    part, body = plan.part, plan.body
    assert isinstance(part, Scan)
    assert isinstance(part.body, Do)
    assert body is not None
    kind = low.kinds[plan.tensor]
    name, at = c.Name(low.names.new(f"{plan.tensor}_window")), low.names[part.dim]
    first = low.fold("spfgen_max", part.low, scope)

    def within(place: Expr) -> c.Load:
        return c.Load(name, minus(low.expr(place, scope), first))

    targets = {n.target for n in walk(body, PLANS) if isinstance(n, Do)}
    rows = {(t.tensor, t.place): (within(t.place[-1]), kind) for t in targets}
    stored = c.Assign(low.place(part.body.target, scope), "=", within(Var(part.dim)))
    return [
        c.Comment(f"{plan.window} places of {plan.tensor}, which are stored when all is added to them:"),
        c.Comment(plan.because),
        c.Declare(kind.c, name.name, length=plan.window),
        loop(at, c.Int(0), c.Int(plan.window), [c.Assign(c.Load(name, c.Name(at)), "=", zero(kind))]),
        *low.plan(body, replace(scope, rows={**scope.rows, **rows})),
        loop(at, first, low.fold("spfgen_min", part.high, scope), [stored]),
    ]
