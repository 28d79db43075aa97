"""Loops that look at everything that a tensor stores."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from spfgen.facts.formula import variables
from spfgen.ir import walk
from spfgen.plan.nodes import PLANS, Collect, Find, Plan, Scan
from spfgen.space.own import COUNT


def looks_at_all(node: object, stored: Collection[str]) -> bool:
    """Whether a loop goes through everything that a tensor stores, of which there are as many as one of these sizes."""
    if not isinstance(node, Find | Scan):
        return False
    bounds = {v for e in (*node.low, *node.high) for v in variables(e)}
    everything = bool(bounds) and bounds <= {*stored}
    return everything and (isinstance(node, Scan) or node.key is None)


def compares_all(plans: Iterable[Plan], stored: Collection[str]) -> bool:
    """Whether such a loop stands within another loop: all that one tensor stores is compared with all of another."""
    nodes = [n for p in plans for n in walk(p, PLANS)]
    stored = {*stored, *(f"{n.name}.{COUNT}" for n in nodes if isinstance(n, Collect))}
    loops = (n for n in nodes if isinstance(n, Scan | Find))
    return any(looks_at_all(n, stored) for loop in loops if loop.inner for n in walk(loop.inner, PLANS))
