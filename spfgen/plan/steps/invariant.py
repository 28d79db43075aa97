"""Loop-invariant code motion: what a loop does that is the same in all of its iterations is done before it.

Reductions at a point are made where all indices are known, in the innermost loop. Where they do not speak of its index
they move out, with the scalars that they are combined in, as far as they can: the greatest value of a row is found once
for the row. They run only where the loop has an iteration, which is what keeps the places that they read in bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from spfgen.facts.formula import Call, Var
from spfgen.ir import children, rewrite, walk
from spfgen.lang import nodes as lang
from spfgen.plan.nodes import (
    Assign,
    Block,
    Break,
    Define,
    Find,
    Guard,
    If,
    Let,
    Load,
    Plan,
    Probe,
    Repeat,
    Scan,
    Segment,
    with_body,
)
from spfgen.plan.steps.env import FLAGS
from spfgen.space.nodes import Operand
from spfgen.space.typed import Holds, Scalar

LOOPS = Scan | Find | Repeat
MOVABLE = Block | Let | Assign | Define | If | Guard | Scan | Find | Segment | Load | Repeat | Break | Probe
"""Nodes that change nothing but scalars."""


@dataclass
class Effects:
    """What a part of a block declares, changes and speaks of."""

    declared: set[str] = field(default_factory=set)
    assigned: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    plain: bool = True
    has_loop: bool = False


def with_invariants_outside(plan: Plan) -> Plan:
    """The plan with what is the same in all iterations of a loop before the loop."""

    def rule(node: Any) -> Plan | None:
        return _parted(node) if isinstance(node, Scan) and not node.collapse else None

    result: Plan = rewrite(rule, plan, Plan)
    return result


def _parted(scan: Scan) -> Plan | None:
    """What moves, then the loop with what is left of its body; None where nothing does."""
    around, inside = _chain(scan.body)
    if not isinstance(inside, Block):
        return None
    bound = {scan.dim, *(n.dim for n in around), *(p.name for p in scan.private)}
    effects = [_effects(p) for p in inside.parts]
    moves = _invariant(effects, bound, _changed(scan.body))
    if not any(effects[k].has_loop for k in moves):
        return None
    moves = _needed(effects, moves)
    lets = [p for k, p in enumerate(inside.parts) if k in moves and isinstance(p, Let)]
    done = [p for k, p in enumerate(inside.parts) if k in moves and not isinstance(p, Let)]
    left: Plan = Block(tuple(p for k, p in enumerate(inside.parts) if k not in moves), inside.because)
    for node in reversed(around):
        left = with_body(node, left)
    some = Holds(scan.has_iterations)
    why = f"it is the same for all {scan.dim}"
    return Block((*lets, If(some, Block(tuple(done)), None, why), replace(scan, body=left)))


def _chain(plan: Plan) -> tuple[list[Load | Define], Plan]:
    nodes: list[Load | Define] = []
    while isinstance(plan, Load | Define):
        nodes.append(plan)
        plan = plan.body
    return nodes, plan


def _invariant(effects: list[Effects], bound: set[str], changed: set[str]) -> set[int]:
    """The parts that may move: the most of them such that none needs what stays, or changes what stays before it and is
    read there."""
    moves = {k for k, e in enumerate(effects) if e.plain and not e.read & changed}
    shrunk = True
    while shrunk:
        staying = [e for k, e in enumerate(effects) if k not in moves]
        declared = set().union(*(effects[k].declared for k in moves))
        fixed = bound.union(*(e.declared | e.assigned for e in staying))
        kept = {
            k
            for k in moves
            if not effects[k].used & fixed
            and not effects[k].declared & fixed
            and effects[k].assigned <= declared
            and not any(effects[j].used & effects[k].assigned for j in range(k) if j not in moves)
        }
        shrunk = kept != moves
        moves = kept
    return moves


def _needed(effects: list[Effects], moves: set[int]) -> set[int]:
    """Those of the parts that loops need, or that change what loops do."""
    kept: set[int] = set()
    grown = {k for k in moves if effects[k].has_loop}
    while grown - kept:
        kept |= grown
        spoken = set().union(*(effects[k].used | effects[k].assigned for k in kept))
        grown = {k for k in moves if (effects[k].declared | effects[k].assigned) & spoken}
    return kept


def _effects(part: Plan) -> Effects:
    effects = Effects()
    inner: set[str] = set()
    for node in walk(part):
        match node:
            case Let(name) | Define(name, body=None) | Probe(name) if node is part:  # known in the rest of the block
                effects.declared.add(name)
                effects.plain = isinstance(node, Let) and isinstance(node.value, lang.Constant)
            case Let(name) | Define(name):
                inner.add(name)
            case Assign(name):
                effects.assigned.add(name)
            case Var(name):
                effects.used.add(name)
            case Scalar(name):
                effects.used.add(name)
            case Operand(tensor=tensor):
                effects.read.add(tensor)
            case Call(function):
                effects.read.add(function.split(".", 1)[0])
        if isinstance(node, Probe):
            effects.read.add(node.name)
            inner |= {node.dim} if node is not part else set()
        kept = isinstance(node, Find | Segment) and bool(node.place)  # from one iteration to the next
        if isinstance(node, Plan) and (kept or not isinstance(node, MOVABLE)):
            effects.plain = False
        if isinstance(node, LOOPS):
            effects.has_loop = True
        if isinstance(node, Plan):
            inner |= set(_bound_by(node))
    if ends_loop(part) or effects.assigned & {*FLAGS}:  # a place that does not exist may be no fault where nothing runs
        effects.plain = False
    effects.assigned -= inner
    effects.used -= inner
    return effects


def ends_loop(plan: Plan) -> bool:
    """Whether a `break` in it ends a loop around it."""
    inside = (n for n in children(plan) if isinstance(n, Plan) and not isinstance(n, LOOPS))
    return isinstance(plan, Break) or (not isinstance(plan, LOOPS) and any(ends_loop(n) for n in inside))


def _bound_by(node: Plan) -> Iterator[str]:
    match node:
        case Scan(dim) | Load(dim) | Define(dim):
            yield dim
            if isinstance(node, Scan):
                yield from (p.name for p in node.private)
        case Find(dim):
            yield dim
            yield from (load.dim for load in node.loads)
        case Segment(dim, start, end):
            yield from (dim, start, end)


def _changed(plan: Plan) -> set[str]:
    """The tensors and tables that something in the loop writes."""
    return set(written(walk(plan)))


def written(nodes: Iterable[Any]) -> Iterator[str]:
    """The tensors and tables that nodes change."""
    return (n.writes for n in nodes if isinstance(n, Plan) and n.writes)
