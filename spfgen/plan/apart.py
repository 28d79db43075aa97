"""Loops that add to places which an array names, where no two of their iterations add to one place:

    for q in [f(j), f(j + 1)) { C[i, idx(q)] += A[p]*B[q] }

A compiler must take it that the second iteration reads what the first one stored. Where Z3 proves from the declared
properties that it does not (the array rises within a segment), several iterations may read, add and store together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache, partial

from spfgen.facts.formula import variables
from spfgen.ir import rewrite, walk
from spfgen.plan.depend import adds_apart
from spfgen.plan.nodes import PLANS, Do, Find, Load, Locate, Plan, Scan, chain
from spfgen.plan.scan import Step
from spfgen.space.nodes import Instance, Read


def with_apart(instance: Instance, plans: Iterable[Plan], steps: Sequence[Step]) -> list[Plan]:
    """The plans in which such loops are marked; what is the same in several of them is proved once."""
    loops = {s.dim for s in steps if s.kind == "scan"}
    proved = cache(partial(adds_apart, instance, steps))

    def rule(node: object) -> Plan | None:
        if not isinstance(node, Scan | Find) or node.dim not in loops or not _adds_alone(node, instance):
            return None
        return replace(node, apart=True) if proved(node.dim) else None

    return [rewrite(rule, plan, PLANS) for plan in plans]


def _adds_alone(loop: Scan | Find, instance: Instance) -> bool:
    """Whether the loop only adds to the target of the instance, where an array says, and reads nothing of it."""
    body = loop.body if isinstance(loop, Scan) else loop.hit
    held = {d for d, _ in loop.loads} if isinstance(loop, Find) else set()
    do = list(chain(body))[-1]
    if not isinstance(do, Do) or do.target.tensor != instance.target.tensor or not named(body, loop.dim, held):
        return False
    return all(n.operand.tensor != do.target.tensor for n in walk(do.value) if isinstance(n, Read))


def named(body: Plan, dim: str, held: set[str]) -> bool:
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
