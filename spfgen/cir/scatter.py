"""Short loops that add to places which an array names, written out four at a time:

    for q in [f(j), f(j + 1)) { C[i, idx(q)] += A[p]*B[q] }

The positions q may be those of a find, too, where they stand side by side and a table has the first and the last.

No compiler runs such iterations side by side, as two of the places might be one, so that each takes its own counting
and comparing: with 20 to 70 entries a segment, all in the caches, four at a time take 5 to 15 % less. The order of the
additions stays as it is (rounds.py).
"""

from __future__ import annotations

from spfgen.facts.formula import Num, variables
from spfgen.plan.nodes import Do, Find, Load, Locate, Plan, Scan, chain

TIMES = 4


def scatters(plan: Scan) -> bool:
    """Whether a loop over a segment has nothing inside but an addition to a place that an index array holds for each
    iteration. A loop from 0 on is as good as it is: it is long, or a part of loops that run as one."""
    if plan.parallel or plan.down or plan.vector or plan.unroll or plan.runs:
        return False
    if not all(variables(e) for e in plan.low) or any(isinstance(e, Num) for e in plan.high):
        return False
    return _adds(plan.body, plan.dim, set())


def hits_scatter(plan: Find) -> bool:
    """The same of a find: whether its hits have nothing inside but such an addition."""
    if plan.parallel or plan.conditions or plan.miss is not None:
        return False
    return _adds(plan.hit, plan.dim, {d for d, _ in plan.loads})


def _adds(body: Plan, dim: str, held: set[str]) -> bool:
    """Whether the body only adds to a place that an index array holds for each value of `dim`; `held` are the values
    that arrays are known to hold for it."""
    *above, do = chain(body)
    if not isinstance(do, Do) or do.op != "+=":
        return False
    moving = {dim, *held}
    for node in above:
        if not isinstance(node, Load | Locate):
            return False
        spoken = variables(node.call if isinstance(node, Load) else node.value)
        if spoken & moving:
            moving.add(node.dim)
            if isinstance(node, Load) or spoken & held:
                held.add(node.dim)
    return any(variables(e) & held for e in do.target.place)
