"""Loops that add to places which an array names, where no two of their iterations add to one place:

    for q in [f(j), f(j + 1)) { C[i, g(q)] += A[p]*B[q] }

A compiler must take it that one iteration reads what the one before has stored. Where it is proved that it does not
(the array rises within a segment, say), several iterations read and add before the first one stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spfgen.facts.formula import Compare, Num, Or, Var, rename, variables
from spfgen.facts.prove import implied
from spfgen.ir import walk
from spfgen.plan.analyse.known import Around, known_in, rewritten
from spfgen.plan.nodes import DISTINCT, PLANS, Accumulate, Define, Load, Plan, Scan, Store, Versions, chain
from spfgen.space.nodes import Instance, Operand, Read


def with_distinct_places(instance: Instance, plan: Plan) -> Plan:
    """The plan in which such loops say so."""
    kept = {n.target.tensor for n in walk(plan, PLANS) if isinstance(n, Accumulate)}

    def change(node: Plan, around: Around) -> Plan | None:
        if isinstance(node, Versions) and node.by_cost:
            return node
        if not isinstance(node, Scan):
            return None
        target = _target(node, instance.target.tensor)
        if target is None:
            return None
        return replace(node, partial=DISTINCT) if _differ(instance, node, target, around) else node

    return plan if instance.target.tensor in kept else rewritten(change, plan)


def _target(scan: Scan, tensor: str) -> Operand | None:
    """What the loop adds to, if it does nothing else, an array says where, and nothing of it is read."""
    if scan.parallel or scan.down or scan.vector or scan.unroll or scan.collapse or scan.segment_keys or scan.flatten:
        return None
    *inside, do = chain(scan.body)
    if not isinstance(do, Store) or do.op != "+=" or do.target.tensor != tensor:
        return None
    if any(isinstance(e, Num) for e in scan.high) or not all(isinstance(n, Load | Define) for n in inside):
        return None
    if any(isinstance(n, Read) and n.operand.tensor == tensor for n in walk(do.value)):
        return None
    loaded = {n.dim for n in inside if isinstance(n, Load)}
    for node in inside:
        if isinstance(node, Define) and variables(node.value) & loaded:
            loaded.add(node.dim)
    return do.target if any(variables(e) & loaded for e in do.target.place) else None


def _differ(instance: Instance, scan: Scan, target: Operand, above: Sequence[Plan]) -> bool:
    """Whether two iterations of the loop add to different places, by what is declared of the arrays it reads."""
    inside = [n for n in chain(scan.body) if isinstance(n, Load | Define)]
    varying = {scan.dim, *(n.dim for n in inside)}
    one = [f for node in (scan, *inside) for f in known_in(node)]
    spoken = variables(*one) - varying
    outside = [*instance.sizes_known]
    for node in reversed(above):  # what the bounds are made of
        if isinstance(node, Load | Define | Scan) and node.dim in spoken:
            conditions = known_in(node)
            outside += conditions
            spoken |= variables(*conditions)
    other = {n: f"{n}'" for n in varying}
    same = [Compare("=", e, rename(e, other)) for e in target.place if variables(e) & varying]
    two = [rename(f, other) for f in one]
    assumptions = [*outside, *one, *two, Compare("<", Var(scan.dim), Var(other[scan.dim])), *same]
    about = f"iterations of {scan.dim} that add to one place of {target.tensor}"
    return implied(assumptions, instance.axioms, Or(()), about=about).proved
