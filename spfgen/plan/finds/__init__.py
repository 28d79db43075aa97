"""Finds: loops that only look for the positions at which an index array holds a known value.

A scan whose body loads by its position and compares with what is known answers "at which positions does this array
hold this value?" (Zhao et al. 2022, section 6.2). Recognised here, it has a hit and a miss branch; how the positions
are found is for an algorithm, of which the plain loop needs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from spfgen.facts.formula import Compare, Formula, variables
from spfgen.ir import rewrite
from spfgen.plan.nodes import PLANS, Find, Guard, Load, Loaded, Plan, Scan


def with_finds(plan: Plan) -> Plan:
    """A scan whose body only loads by its position and compares with what is known is a find."""

    def rule(node: object) -> Plan | None:
        if not isinstance(node, Scan):
            return None
        loads: list[Loaded] = []
        conditions: list[Formula] = []
        body = node.body
        loaded: set[str] = set()
        while True:
            match body:
                case Load(dim, call, inner) if node.dim in variables(call) and not variables(call) & loaded:
                    if not _guarded_next(inner, dim):
                        break
                    loads.append(Loaded(dim, call))
                    loaded.add(dim)
                    body = inner
                case Guard(formulas, inner) if all(variables(c) & loaded for c in formulas):
                    conditions += formulas
                    body = inner
                case _:
                    break
        if not _pins(conditions, loaded):
            return None
        return Find(
            node.dim,
            node.low,
            node.high,
            tuple(loads),
            tuple(conditions),
            "plain loop",
            body,
            None,
            node.parallel,
            node.because or "every position is compared",
        )

    result = rewrite(rule, plan, PLANS)
    assert isinstance(result, Plan)
    return result


def _pins(conditions: Sequence[Formula], loaded: set[str]) -> bool:
    """Whether the conditions fix a loaded value: an equality, or bounds on both sides."""
    for dim in loaded:
        about = [c for c in conditions if isinstance(c, Compare) and dim in variables(c)]
        if any(c.op == "=" for c in about):
            return True
        low = any((c.op in ("<", "<=")) == (dim in variables(c.left)) for c in about)
        high = any((c.op in ("<", "<=")) == (dim in variables(c.right)) for c in about)
        if low and high and all(len(variables(c)) > 1 for c in about):
            return True
    return False


def _guarded_next(plan: Plan, dim: str) -> bool:
    """Whether the value just loaded is compared before anything else happens."""
    return isinstance(plan, Guard) and all(dim in variables(c) for c in plan.conditions)
