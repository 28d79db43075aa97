"""Lookups move to the outermost loop in which their keys are known: the row of a tensor is found once, not for each
entry.

A value is looked up level by level at a point, in the innermost loop. Each find that speaks of nothing that a loop
changes is made before that loop, if it has an iteration; what it found is kept in a scalar, which is -1 where there is
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

from spfgen.facts.formula import ZERO, Call, Compare, Var
from spfgen.ir import rewrite, walk
from spfgen.lang import nodes as lang
from spfgen.plan.nodes import (
    Assign,
    Block,
    Define,
    Find,
    If,
    Let,
    Load,
    Plan,
    Probe,
    Scan,
    lookups_of,
    with_body,
)
from spfgen.plan.steps.invariant import written
from spfgen.space.typed import Holds, Scalar

Around = Callable[[Plan], Plan]


def with_lookups_outside(plan: Plan, fresh: Callable[[str], str]) -> Plan:
    """The plan with finds before the loops that they have nothing to do with."""
    lookups = _Lookups(fresh)
    moved: Plan = rewrite(lambda n: lookups.parted(n) if isinstance(n, Scan) else None, plan, Plan)
    return moved if moved is plan else rewrite(_as_one, moved, Plan)


@dataclass
class _Lookups:
    """`made` says of each scalar that stands before a loop how the position that it holds is found."""

    fresh: Callable[[str], str]
    made: dict[str, Plan] = field(default_factory=dict)

    def parted(self, scan: Scan) -> Plan | None:
        """The finds that move, then the loop; None where nothing does."""
        around, inside = lookups_of(scan.body)
        if scan.collapse:
            return None
        changed = changed_in_iterations(scan)
        moved: dict[str, Plan] = {}
        parts: list[Plan] = []
        for part in inside.parts if isinstance(inside, Block) else (inside,):
            name = self.position(part)
            if not name:
                parts.append(self.lifted(part, changed, moved, lambda p: p))
            elif name in moved:
                pass
            elif _free(self.made[name]) & changed:
                parts.append(part)
            else:
                moved[name] = self.made[name]
                changed.discard(name)
        if not moved:
            return None
        self.made |= moved
        body: Plan = replace(inside, parts=tuple(parts)) if isinstance(inside, Block) else parts[0]
        for node in reversed(around):
            body = with_body(node, body)
        some = Holds(scan.has_iterations)
        why = f"it is the same for all {scan.dim}"
        lets = [Let(name, "int64", lang.Constant(-1)) for name in moved]
        return Block((*lets, *(If(some, find, None, why) for find in moved.values()), replace(scan, body=body)))

    def position(self, part: Plan) -> str:
        """The scalar that a part declares or gives its value, if it was made here."""
        match part:
            case Let(name) if name in self.made:
                return name
            case If(then=then):
                return next((name for name, find in self.made.items() if find is then), "")
        return ""

    def lifted(self, part: Plan, changed: Collection[str], moved: dict[str, Plan], around: Around) -> Plan:
        """The part with positions in place of finds, which are added to `moved`, with what they need `around`."""
        if not isinstance(part, Find) or not _may_move(part, changed):
            return part
        name = self.fresh(f"{part.dim.replace('.', '_')}_found")
        moved[name] = around(replace(part, hit=Assign(name, "int64", lang.Index(Var(part.dim)))))
        known = set(changed) - {part.dim, *part.calls()}
        there = Holds(Compare(">=", Var(name), ZERO))
        loads: list[Load | Define] = [Load(dim, call, Block(())) for dim, call in part.calls().items()]
        inner = part.hit
        while isinstance(inner, Load | Define) and not _free(with_body(inner, Block(()))) & known:
            loads.append(inner)
            known.discard(inner.dim)
            inner = inner.body

        def where_found(plan: Plan) -> Plan:
            """The plan where the position is known, with what is loaded there."""
            for load in reversed(loads):
                plan = with_body(load, plan) if load.dim in _free(plan) else plan
            defined = (Define(part.dim, Var(name)),) if part.dim in _free(plan) else ()
            return If(there, Block((*defined, plan)))

        lifted = self.lifted(inner, known, moved, lambda p: around(where_found(p)))
        if lifted is inner:
            return where_found(inner)
        speaks = _free(lifted) & {part.dim, *(load.dim for load in loads)}
        return where_found(lifted) if speaks else lifted


def _may_move(find: Find, changed: Collection[str]) -> bool:
    """Whether it has one position at most, keeps nothing for the next one, and is the same in all iterations."""
    alone = find.miss is None and not find.place and not find.parallel
    return alone and find.key is not None and find.key.unique and not _free(replace(find, hit=Block(()))) & {*changed}


def changed_in_iterations(scan: Scan) -> set[str]:
    """What has another value in each iteration, or may have."""
    nodes = list(walk(scan, Plan))
    changed = {n.name for n in nodes if isinstance(n, Let | Assign | Probe)}
    return changed | {p.name for p in scan.private} | {*written(nodes)} | _bound(nodes)


def _bound(nodes: Collection[Plan]) -> set[str]:
    """Names that nodes have for what they compute."""
    return {s.name for n in nodes for s in n.computed() if s.name}


def _free(plan: Plan) -> set[str]:
    """The names that a plan speaks of, and tables, but for those of its own."""
    nodes = list(walk(plan))
    bound_names = _bound([n for n in nodes if isinstance(n, Plan)])
    bound_names |= {n.name for n in nodes if isinstance(n, Let)} | {n.dim for n in nodes if isinstance(n, Probe)}
    used = {n.name for n in nodes if isinstance(n, Var | Scalar)}
    return (used - bound_names) | {n.function.partition(".")[0] for n in nodes if isinstance(n, Call)}


def _as_one(node: Any) -> Plan | None:
    """What one condition decides, part after part, together."""
    if not isinstance(node, Block):
        return None
    parts: list[Plan] = []
    for part in node.parts:
        last = parts[-1] if parts else None
        if isinstance(part, If) and isinstance(last, If) and _is_same(part, last):
            parts[-1] = replace(last, then=Block((*_parts(last.then), *_parts(part.then))))
        else:
            parts.append(part)
    return replace(node, parts=tuple(parts)) if len(parts) < len(node.parts) else None


def _is_same(one: If, other: If) -> bool:
    alone = one.otherwise is None and other.otherwise is None and bool(one.because)
    return alone and (one.condition, one.because) == (other.condition, other.because)


def _parts(plan: Plan) -> tuple[Plan, ...]:
    return plan.parts if isinstance(plan, Block) else (plan,)
