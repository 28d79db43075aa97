"""Loops that add to places which an array names, where no two of their iterations add to one place:

    for q in [f(j), f(j + 1)) { C[i, g(q)] += A[p]*B[q] }

A compiler must take it that one iteration reads what the one before has stored. Where it is proved that it does not
(the array rises within a segment, say), several iterations read and add before the first one stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spfgen.facts.formula import Num, variables
from spfgen.ir import rewrite, walk
from spfgen.plan.analyse.depend import INDEPENDENT, meetings
from spfgen.plan.analyse.scan import Step
from spfgen.plan.nodes import DISTINCT, PLANS, Accumulate, Do, Load, Locate, Plan, Scan, chain
from spfgen.space.nodes import Instance, Read


def with_distinct_places(instance: Instance, steps: Sequence[Step], plan: Plan) -> Plan:
    """The plan in which such loops say so."""
    kept = {n.target.tensor for n in walk(plan, PLANS) if isinstance(n, Accumulate)}
    loops = {s.dim for s in steps if s.kind == "scan"}

    def rule(node: object) -> Plan | None:
        if not isinstance(node, Scan) or node.dim not in loops or not _adds(node, instance.target.tensor):
            return None
        distinct = meetings(instance, steps, node.dim).kind == INDEPENDENT
        return replace(node, partial=DISTINCT) if distinct else None

    result: Plan = plan if instance.target.tensor in kept else rewrite(rule, plan, PLANS)
    return result


def _adds(scan: Scan, tensor: str) -> bool:
    """Whether the loop does nothing but add to the tensor where an array says, and reads nothing of it."""
    if scan.parallel or scan.down or scan.vector or scan.unroll or scan.collapse or scan.segment_keys or scan.flatten:
        return False
    *above, do = chain(scan.body)
    if not isinstance(do, Do) or do.op != "+=" or do.target.tensor != tensor or any(map(_is_number, scan.high)):
        return False
    if any(isinstance(n, Read) and n.operand.tensor == tensor for n in walk(do.value)):
        return False
    moving, loaded = {scan.dim}, set[str]()
    for node in above:
        if not isinstance(node, Load | Locate):
            return False
        spoken = variables(node.call if isinstance(node, Load) else node.value)
        if spoken & moving:
            moving.add(node.dim)
            loaded |= {node.dim} if isinstance(node, Load) or spoken & loaded else set()
    return any(variables(e) & loaded for e in do.target.place)


def _is_number(expr: object) -> bool:
    return isinstance(expr, Num)
