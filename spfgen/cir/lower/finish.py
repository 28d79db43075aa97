"""What is made of totals, in C."""

from __future__ import annotations

from dataclasses import replace

from spfgen.cir.lower.scope import Accumulator, Scope
from spfgen.cir.lower.state import Lowering
from spfgen.cir.tree import nodes as c
from spfgen.lang.types import ElementType
from spfgen.plan.nodes import Finish


def finished(
    low: Lowering, plan: Finish, total: c.Expr, kind: ElementType, scope: Scope, part: list[c.Stmt]
) -> list[c.Stmt]:
    """What is made of a total, which gets a name if it has none; where it is only a part of one, that is kept."""
    if isinstance(total, c.Name):
        name, declared = total, []
    else:
        name = c.Name(low.names.new(plan.name))
        declared = [c.Declare(kind.c, name.name, total)]
    low.names.table[plan.name] = name.name
    whole = {**scope.accumulators, (plan.name, None): Accumulator(name, kind)}
    lines = [*declared, *low.plan(plan.body, replace(scope, accumulators=whole, partly=None))]
    if scope.partly is None:
        return lines
    return [c.If(scope.partly, c.Block(tuple(part)), c.Block(tuple(lines)))]
