"""Early exit: loops end once their condition cannot hold any more.

    for p in [0, width) { j = f(i, p); if j >= 0 { y[i] += A[i, p]*x[j] } }

Where Z3 proves from the declared properties that the condition, once false, is false for all later p (unused places
come last, columns rise), nothing is left to do: the loop is left rather than run to its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spfgen.facts.formula import Compare, Formula, Num, Var, rename, show, variables
from spfgen.facts.prove import implied
from spfgen.plan.analyse.known import known_in
from spfgen.plan.nodes import Define, Guard, Load, Plan, Scan, chain, with_body
from spfgen.space.nodes import Instance


def with_early_exits(instance: Instance, nest: Plan) -> Plan:
    """The nest whose loops end at such conditions."""
    nodes = list(chain(nest))
    result = nodes[-1]
    for k in range(len(nodes) - 2, -1, -1):
        node = nodes[k]
        loop = _loop_around(nodes, k) if isinstance(node, Guard) else None
        if isinstance(node, Guard) and loop is not None:
            last = {f: _holds_before(instance, nodes[: loop + 1], nodes[loop + 1 : k], f) for f in node.conditions}
            others = tuple(f for f in node.conditions if not last[f])
            if others:
                result = replace(node, conditions=others, body=result)
            node = replace(node, conditions=tuple(f for f in node.conditions if last[f]), exits=True)
            if not node.conditions:
                continue
        result = with_body(node, result)
    return result


def _loop_around(nodes: Sequence[Plan], guard: int) -> int | None:
    """The loop whose iterations do nothing but what is guarded, if it runs upwards, one iteration after the other."""
    k = guard - 1
    while k >= 0 and isinstance(nodes[k], Load | Define):
        k -= 1
    node = nodes[k] if k >= 0 else None
    if not isinstance(node, Scan) or node.parallel or node.down or node.vector or node.unroll or node.collapse:
        return None
    if any(isinstance(e, Num) for e in node.high):
        return None  # compilers write out loops of a few iterations, if these do not end before
    return None if node.segment_keys or node.partition is not None else k


def _holds_before(instance: Instance, around: Sequence[Plan], inside: Sequence[Plan], condition: Formula) -> bool:
    """Whether, where the condition holds, it holds in all earlier iterations of the last loop of `around` too."""
    loop = around[-1]
    assert isinstance(loop, Scan)
    varying = {loop.dim, *(n.dim for n in inside if isinstance(n, Load | Define))}
    if not varying & variables(condition):
        return False
    outside = [*instance.sizes_known]
    outside += [f for f in instance.facts if variables(f) <= {*instance.sizes}]
    for node in around[:-1]:
        outside += known_in(node)
    one = [f for node in (loop, *inside) for f in known_in(node)]
    later = {n: f"{n}'" for n in varying}
    assumptions = [
        *outside,
        *one,
        *(rename(f, later) for f in one),
        Compare("<", Var(loop.dim), Var(later[loop.dim])),
        rename(condition, later),
    ]
    about = f"the loop over {loop.dim} ends where {show(condition)} no longer holds"
    return implied(assumptions, instance.axioms, condition, about=about).proved
