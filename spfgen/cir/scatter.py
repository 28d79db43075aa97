"""Short loops that add to places which an array names, written out four at a time:

    for q in [f(j), f(j + 1)) { C[i, idx(q)] += A[p]*B[q] }

No compiler runs such iterations side by side, as two of the places might be one, so that each takes its own counting
and comparing: with 20 to 70 entries a segment, all in the caches, four at a time take 5 to 15 % less. The order of the
additions stays as it is (rounds.py).
"""

from __future__ import annotations

from spfgen.facts.formula import Num, variables
from spfgen.plan.nodes import Do, Load, Locate, Scan, chain

TIMES = 4


def scatters(plan: Scan) -> bool:
    """Whether a loop over a segment has nothing inside but an addition to a place that an index array holds for each
    iteration. A loop from 0 on is as good as it is: it is long, or a part of loops that run as one."""
    if plan.parallel or plan.down or plan.vector or plan.unroll or plan.runs:
        return False
    if not all(variables(e) for e in plan.low) or any(isinstance(e, Num) for e in plan.high):
        return False
    *above, do = chain(plan.body)
    if not isinstance(do, Do) or do.op != "+=":
        return False
    moving, held = {plan.dim}, set[str]()
    for node in above:
        if not isinstance(node, Load | Locate):
            return False
        spoken = variables(node.call if isinstance(node, Load) else node.value)
        if spoken & moving:
            moving.add(node.dim)
            if isinstance(node, Load) or spoken & held:
                held.add(node.dim)
    return any(variables(e) & held for e in do.target.place)
