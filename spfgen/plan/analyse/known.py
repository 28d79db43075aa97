"""What is known inside the nodes of a plan, and simplification with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from spfgen.facts.formula import Compare, Formula, Var
from spfgen.plan.nodes import (
    Block,
    BoundSearch,
    Cheapest,
    Define,
    Guard,
    LevelLoop,
    Load,
    Plan,
    Scan,
    Versions,
    body,
    with_body,
)

Around = tuple[Plan, ...]
"""The nodes around one, from the outside in. The conditions of a version are a guard."""


def known_in(node: Plan) -> list[Formula]:
    """What a node says of what it defines, for all that is inside of it."""
    match node:
        case Scan(dim, low, high) | LevelLoop(dim, low, high):
            return [*(Compare(">=", Var(dim), e) for e in low), *(Compare("<", Var(dim), e) for e in high)]
        case Load(dim, value) | Define(dim, value):
            return [Compare("=", Var(dim), value)]
        case BoundSearch(name, _, low):
            return [Compare(">=", Var(name), e) for e in low]
    return []


def known_within(around: Iterable[Plan]) -> list[Formula]:
    """What holds inside of all these nodes."""
    return [f for n in around for f in (n.conditions if isinstance(n, Guard) else known_in(n))]


def rewritten(change: Callable[[Plan, Around], Plan | None], plan: Plan, around: Around = ()) -> Plan:
    """The plan with what `change` makes of its nodes, given those around them. It is asked from the outside in; None
    means that it is to be asked of what is inside."""
    changed = change(plan, around)
    if changed is not None:
        return changed
    match plan:
        case Block(parts):
            return Block(tuple(rewritten(change, p, around) for p in parts))
        case Versions(versions):
            rewritten_versions = []
            for version in versions:
                guards = () if isinstance(version.when, Cheapest) else (Guard(version.when, plan),)
                rewritten_versions.append(replace(version, body=rewritten(change, version.body, (*around, *guards))))
            return replace(plan, versions=tuple(rewritten_versions))
    inner = body(plan)
    return plan if inner is None else with_body(plan, rewritten(change, inner, (*around, plan)))
