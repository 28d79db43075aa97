"""What the loops of a plan carry, for people who ask: the relations between iterations, loop by loop."""

from __future__ import annotations

from collections.abc import Iterator

from spfgen.errors import SpfgenError
from spfgen.facts.formula import Var
from spfgen.plan.analyse.depend import KINDS, Meeting, meetings, relation
from spfgen.plan.analyse.injective import with_equal_positions
from spfgen.plan.analyse.order import scan_order
from spfgen.plan.analyse.scan import Step, scan_steps
from spfgen.plan.context import Context
from spfgen.plan.from_space import looked_for, scanned
from spfgen.plan.nodes import Plan
from spfgen.sets.named import Space
from spfgen.space.nodes import Group, Instance, Operand


def dependences(group: Group, plan: Plan, context: Context) -> Iterator[tuple[Meeting, str]]:
    """For each loop of each nest of a statement, outermost first, what its iterations share, and the relation in isl's
    notation. `plan` is that of the statement: its loops are meant. Of the sums within one value, which run in the same
    loops, the strictest counts."""
    if group.point is None:
        for instance in group.instances:
            yield from _of_instance(instance, None, plan, context)
        return
    strictest: dict[str, tuple[Meeting, str]] = {}
    for instance in group.instances:
        for meeting, text in _of_instance(instance, group.point.target, plan, context):
            known = strictest.setdefault(meeting.loop, (meeting, text))
            if KINDS.index(meeting.kind) > KINDS.index(known[0].kind):
                strictest[meeting.loop] = meeting, text
    yield from strictest.values()


def _of_instance(
    instance: Instance, written: Operand | None, plan: Plan, context: Context
) -> Iterator[tuple[Meeting, str]]:
    loops = set(scanned(plan)) - set(looked_for(plan))
    instance = with_equal_positions(instance)
    steps = _steps(instance, plan, context)
    names = _shown(instance, steps, context)
    for step in steps:
        if step.kind == "scan" and names.get(step.dim, step.dim) in loops:
            meeting = meetings(instance, steps, step.dim, written)
            yield meeting.renamed(names), relation(steps, meeting, names)


def _steps(instance: Instance, plan: Plan, context: Context) -> list[Step]:
    """The steps of the instance in the order of the plan's loops."""
    loops = [d for d in scanned(plan) if d in instance.domain.space.position]
    try:
        dims = scan_order(instance, loops, context.outside, context.named)
    except SpfgenError:  # another nest of the statement has another order
        dims = scan_order(instance, (), context.outside, context.named)
    return scan_steps(instance, instance.domain.reordered(Space((*instance.sizes, *dims))), dims)


def _shown(instance: Instance, steps: list[Step], context: Context) -> dict[str, str]:
    """Positions that an index is a copy of are shown as the index, unless the schedule has a name for them."""
    names: dict[str, str] = {}
    for step in steps:
        copied = step.value.name if step.kind == "locate" and isinstance(step.value, Var) else ""
        if copied and step.dim in instance.indices and copied not in context.named:
            names.setdefault(copied, step.dim)
    return names
