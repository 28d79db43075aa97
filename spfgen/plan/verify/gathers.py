"""Rows that are gathered: what is appended in one has its coordinates, and the workspace has a place for each."""

from __future__ import annotations

from spfgen.facts.formula import variables
from spfgen.ir import walk
from spfgen.plan.nodes import PLANS, Append, Plan, RowWorkspace
from spfgen.plan.verify.meaning import Fault
from spfgen.space.nodes import Program, extent_value


def check_gathers(plan: Plan, program: Program) -> None:
    """Raises Fault where an entry is not one of the row that it is gathered in, the row changes while it is, or the
    workspace is not as long as the rows of the tensor are."""
    for node in (n for n in walk(plan, PLANS) if isinstance(n, RowWorkspace)):
        _check(node, program)


def _check(node: RowWorkspace, program: Program) -> None:
    extents = program.tensor(node.tensor).extents
    if not 0 <= node.axis < len(extents) or len(node.common) != len(extents) - 1:
        raise Fault(f"{node.tensor} has no rows along axis {node.axis}")
    if node.extent != extent_value(extents[node.axis], program.sizes.fixed):
        raise Fault(f"the rows of {node.tensor} along axis {node.axis} are of another length")
    inside = {s.name for n in walk(node.body, PLANS) if isinstance(n, Plan) for s in n.computed()}
    if any(variables(e) & inside for e in node.common):
        raise Fault(f"the row of {node.tensor} changes while it is gathered")
    for append in (n for n in walk(node.body, PLANS) if isinstance(n, Append) and n.tensor == node.tensor):
        at = append.coordinates
        if (*at[: node.axis], *at[node.axis + 1 :]) != node.common or append.last is not None:
            raise Fault(f"an entry of {node.tensor} is not one of the row that it is gathered in")
