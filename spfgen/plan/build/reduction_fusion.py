"""Sums that ride in the loops of another one: what is read once need not be read again.

A sum rides where its steps begin like those of the other one and need no other loop. That only proposes a place: the
nest is then read back, and the sum stays apart unless it is reached at each of its points, once, and nowhere else. The
finds, conditions and loads above the place are part of that: a search for one entry does not go through a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spfgen.facts.formula import rename, variables
from spfgen.ir import rewrite
from spfgen.plan.analyse.scan import Step, wrapped
from spfgen.plan.build.parts import SumNest, renamed, renamed_all
from spfgen.plan.nodes import Block, Define, Find, Guard, Load, Plan, Scan, chain, is_sum, with_body
from spfgen.plan.verify.meaning import Fault, Wanted, compare_all


@dataclass(frozen=True)
class Ride:
    """A sum that rides, and what the nest calls the dimensions that both go through."""

    part: SumNest
    names: Mapping[str, str]


@dataclass(frozen=True)
class FusedNest:
    """What the nest of a sum, the carrier, has inside of the point's loops, with the sums that ride in it."""

    carrier: SumNest
    body: Plan
    riders: tuple[Ride, ...] = ()

    def wanted(self) -> list[Wanted]:
        """What it must do."""
        result = [Wanted(self.carrier.instance, self.carrier.does)]
        for rider in self.riders:
            does = rename(rider.part.does, rider.names)
            result.append(Wanted(renamed(rider.part.instance, rider.names), does))
        return result

    def whole(self) -> Plan:
        """With the point's loops around it."""
        result = self.body
        above = list(chain(self.carrier.nest))
        first = next(k for k, n in enumerate(above) if is_sum(n))
        for node in reversed(above[: first + 1]):
            result = with_body(node, result)
        return result


def fused(parts: Sequence[SumNest], outer: int) -> list[FusedNest]:
    """Nests of all parts: those that can ride in others do. A part that carries does not ride, nor does one that reads
    the target."""
    nests = {k: FusedNest(part, part.body) for k, part in enumerate(parts)}
    for k, part in reversed([*enumerate(parts)]):
        if part.need is not None or nests[k].riders:
            continue
        for other, nest in nests.items():
            fused_nest = None if other == k else _with_rider(nest, part, outer)
            if fused_nest is not None:
                nests[other] = fused_nest
                del nests[k]
                break
    return list(nests.values())


def step_of(part: SumNest, loop: str, nests: Sequence[FusedNest]) -> str | None:
    """The part's own name for a loop that it runs in; it may be that of a carrier."""
    names = next((r.names for n in nests for r in n.riders if r.part is part), {})
    own_name = next((own_name for own_name, name in names.items() if name == loop), loop)
    return own_name if any(s.dim == own_name for s in part.steps) else None


def alike(carrier: SumNest, rider: SumNest, outer: int) -> tuple[list[Step], dict[str, str]] | None:
    """The first steps of the rider that the carrier has too, and its names for them; None where the rider needs loops
    besides."""
    rider_steps, other = rider.steps[outer:], carrier.steps[outer:]
    if rider.instance.guards or (other[0].guards and other[0].guards != rider_steps[0].guards):
        return None
    names: dict[str, str] = {}
    matched: list[Step] = []
    at = 1
    for step in rider_steps[1:]:
        mine = _form(step, names)
        while at < len(other) and _form(other[at], {}) != mine and other[at].kind != "scan" and not other[at].guards:
            at += 1  # something else that the carrier computes here
        if at == len(other) or _form(other[at], {}) != mine:
            break
        names[step.dim] = other[at].dim
        matched.append(step)
        at += 1
        if renamed_all(step.guards, names) != other[at - 1].guards:
            break
    unmatched = rider_steps[1 + len(matched) :]
    is_one = any(s.kind == "scan" for s in matched) and not any(s.kind == "scan" for s in unmatched)
    return (matched, names) if is_one else None


def _with_rider(nest: FusedNest, rider: SumNest, outer: int) -> FusedNest | None:
    """The nest with the rider's value inside, read back; None where it does not belong there."""
    shared = alike(nest.carrier, rider, outer)
    if shared is None:
        return None
    matched, names = shared
    kept = [names.get(n, n) for n in rider.instance.domain.space.names]
    if len({*kept}) < len(kept):
        return None
    value: Plan = rider.does
    for step in reversed(rider.steps[outer + 1 + len(matched) :]):
        value = wrapped(step, value)
    first = () if nest.carrier.steps[outer].guards else rider.steps[outer].guards
    guards = matched[-1].guards + first
    value = rename(Guard(guards, value) if guards else value, names)
    body = _with_value(nest.body, names[matched[-1].dim], value)
    if body is None:
        return None
    result = replace(nest, body=body, riders=(*nest.riders, Ride(rider, names)))
    try:
        compare_all(result.wanted(), result.whole(), set())
    except Fault:
        return None
    return result


def _with_value(body: Plan, dim: str, value: Plan) -> Plan | None:
    """The nest with a value where this dimension is known; None where it has no such place of its own."""
    body = _loaded_apart(body, dim)
    nodes = list(chain(body))
    at = next((k for k, n in enumerate(nodes) if isinstance(n, Scan | Load | Define) and n.dim == dim), None)
    if at is None:
        return None
    result: Plan = with_body(nodes[at], Block((nodes[at + 1], value)))
    for above in reversed(nodes[:at]):
        result = with_body(above, result)
    return result


def _loaded_apart(plan: Plan, dim: str) -> Plan:
    """A find that loads this dimension last, not as its key, with the load and its conditions in the hit instead."""

    def rule(node: object) -> Plan | None:
        if not isinstance(node, Find) or len(node.loads) < 2 or node.loads[-1].dim != dim or node.miss is not None:
            return None
        if node.key is None or node.key.dim == dim:
            return None
        last = tuple(c for c in node.conditions if dim in variables(c))
        others = tuple(c for c in node.conditions if c not in last)
        hit = Load(dim, node.loads[-1].call, Guard(last, node.hit) if last else node.hit)
        return replace(node, loads=node.loads[:-1], conditions=others, hit=hit)

    result: Plan = rewrite(rule, plan)
    return result


def _form(step: Step, names: Mapping[str, str]) -> tuple[Any, ...]:
    value = None if step.value is None else rename(step.value, names)
    return step.kind, value, renamed_all(step.low, names), renamed_all(step.high, names)
