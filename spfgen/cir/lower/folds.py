"""Sums within a value, in C: a variable for each, a row of them, or all of them in a workspace."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spfgen.cir.lower import hoist
from spfgen.cir.lower.scope import Scope
from spfgen.cir.lower.workspaces import Workspace
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.build import in_braces, joined, loop
from spfgen.cir.tree.elements import zero
from spfgen.plan.nodes import Fold, Materialized, Plan, Seq
from spfgen.space.nodes import Operand

if TYPE_CHECKING:
    from spfgen.cir.lower.from_plan import Lowering


def fold(low: Lowering, plan: Fold, scope: Scope) -> list[c.Stmt]:
    """The sums start at 0, the nests add to them, then they are used."""
    lines: list[c.Stmt] = []
    for row in plan.rows:
        lines += _row(low, row, scope)
    starts = {s.tensor: s.value for s in plan.starts}
    for tensor in plan.sums:
        kind = low.kinds[tensor]
        name = low.names.new(tensor)
        first = low.value(starts[tensor], scope, kind) if tensor in starts else zero(kind)
        lines.append(c.Declare(kind.c, name, first))
        scope = replace(scope, folded={**scope.folded, tensor: (name, kind)})
    scope = replace(scope, falling=scope.falling | starts.keys())
    body = _nests(low, plan.body, scope)
    then = in_braces(low.plan(plan.then, scope))
    after = [] if plan.after is None else _nests(low, plan.after, scope)
    return [*lines, *(in_braces(body) if after else body), *then, *in_braces(after)]


def _nests(low: Lowering, plan: Plan, scope: Scope) -> list[c.Stmt]:
    if not isinstance(plan, Seq):
        return low.plan(plan, scope)
    return [s for part in plan.parts for s in in_braces(low.plan(part, scope))]


def _row(low: Lowering, row: Operand, scope: Scope) -> list[c.Stmt]:
    """A row of sums for each thread, which becomes 0."""
    kind = low.kinds[row.tensor]
    count = joined("*", [low.expr(e, scope) for e in row.extents])
    made = hoist.workspace(low, Workspace(low.names.new(row.tensor), kind.c, count), scope)
    lines, pointer = hoist.own_part(low, made, scope)
    assert isinstance(pointer, c.Name)
    low.array_names[row.tensor, row.array] = pointer.name
    counter = low.names.new("p")
    cleared = c.Assign(c.Load(pointer, c.Name(counter)), "=", zero(kind))
    return [*lines, loop(counter, c.Int(0), count, [cleared])]


def materialized(low: Lowering, plan: Materialized, scope: Scope) -> list[c.Stmt]:
    """The sums of all places in a workspace that is 0 at first."""
    for operand in plan.sums:
        name = low.names.new(operand.tensor)
        low.array_names[operand.tensor, operand.array] = name
        count = joined("*", [low.expr(e, scope) for e in operand.extents])
        low.workspaces.append(Workspace(name, low.kinds[operand.tensor].c, count, when=scope.when))
    return _nests(low, plan.body, scope)
