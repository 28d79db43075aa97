"""Loops whose iterations may write one place, but only add: parallel with atomic additions.

Needs nothing of the data: addition may come in any order. Taken where the place is read from an index array (the
additions are scattered anyway), no search or table is involved, and C can add atomically in the type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from spfgen.facts.formula import variables
from spfgen.plan.nodes import Do, Guard, Load, Locate, Plan, Scan, chain, with_body
from spfgen.space.nodes import Instance

ATOMIC = frozenset({"float32", "float64", "int32", "int64", "uint32", "uint64"})
"""Types that OpenMP adds atomically in one instruction or a short loop."""


def with_atomic(instance: Instance, plan: Plan, types: Mapping[str, str]) -> Plan:
    """The nest with its outermost loop parallel, or as it is."""
    nodes = list(chain(plan))
    do = nodes[-1]
    if not isinstance(do, Do) or do.op != "+=" or not do.target.place:
        return plan
    kinds = {types.get(o.tensor, "") for o in (instance.target, *instance.reads)}
    if len(kinds) != 1 or not kinds <= ATOMIC or not _scattered(nodes, do):
        return plan
    if not all(isinstance(n, Scan | Load | Locate | Guard | Do) for n in nodes):
        return plan
    first = next((k for k, n in enumerate(nodes) if isinstance(n, Scan)), None)
    if first is None:
        return plan
    loop = nodes[first]
    assert isinstance(loop, Scan)
    why = f"its iterations only add to {do.target.tensor}, atomically where two may add to one place"
    result: Plan = replace(loop, parallel=True, because=why, atomic=True)
    for node in reversed(nodes[:first]):
        result = with_body(node, result)
    return result


def _scattered(nodes: list[Plan], do: Do) -> bool:
    """Whether the last subscript of the place is made of what an index array holds."""
    loaded: set[str] = set()
    for node in nodes:
        match node:
            case Load(dim):
                loaded.add(dim)
            case Locate(dim, value) if variables(value) & loaded:
                loaded.add(dim)
    return bool(variables(do.target.place[-1]) & loaded)
