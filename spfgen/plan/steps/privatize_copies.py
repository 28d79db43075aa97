"""Updates of an array on several threads: each part of the loop has a copy, and the copies are combined after it.

Right where all that a loop does is to combine values with places of arrays by functions that are commutative and
associative, and it reads nothing of these arrays otherwise. How many copies pay is decided when the kernel is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from spfgen.facts.formula import Expr, substitute
from spfgen.ir import walk
from spfgen.lang import nodes as lang
from spfgen.lang.types import TYPES
from spfgen.plan.nodes import (
    Assign,
    Block,
    Copy,
    Define,
    Find,
    Guard,
    If,
    Let,
    Load,
    Partition,
    Plan,
    Repeat,
    Scan,
    Segment,
    Store,
)
from spfgen.plan.steps.env import FLAGS
from spfgen.plan.steps.invariant import MOVABLE, ends_loop
from spfgen.plan.steps.privatize_totals import may_share
from spfgen.space.nodes import Monoid, Operand, Read

WHY = "its iterations only update {}; each part has a copy of it if copies pay"


def with_copies(
    plan: Plan, kinds: Mapping[str, str], sizes: Mapping[str, Expr], is_serial: Callable[[str], bool], exactly: bool
) -> Plan:
    """The plan, with copies for its outermost loops where they allow it. `sizes` are extents that are made of others;
    `exactly`: results may not depend on the number of threads."""

    def inside(part: Plan) -> Plan:
        return with_copies(part, kinds, sizes, is_serial, exactly)

    match plan:
        case Block(parts):
            return replace(plan, parts=tuple(inside(p) for p in parts))
        case If(_, then, otherwise):
            return replace(plan, then=inside(then), otherwise=None if otherwise is None else inside(otherwise))
        case Repeat(body) | Load(body=body) | Define(body=Plan() as body) | Guard(body=body):
            return replace(plan, body=inside(body))
        case Scan(dim, parallel=False) if not is_serial(dim):
            copies = _copies(plan, kinds, sizes, exactly)
            if copies:
                names = " and ".join(c.target.tensor for c in copies)
                partition = Partition(None, adds="copies", copies=copies)
                return replace(plan, parallel=True, because=WHY.format(names), partition=partition)
    return plan


def _copies(scan: Scan, kinds: Mapping[str, str], sizes: Mapping[str, Expr], exactly: bool) -> tuple[Copy, ...]:
    """What a loop updates; nothing where it does more than that."""
    nodes = [*walk(scan.body)]
    local_scalars = {n.name for n in nodes if isinstance(n, Let)}
    stores = [n for n in nodes if isinstance(n, Store)]
    for node in nodes:
        kept = isinstance(node, Find | Segment) and bool(node.place)
        if isinstance(node, Plan) and (kept or not isinstance(node, MOVABLE | Store) or _combines(node)):
            return ()
        if isinstance(node, Assign) and node.name not in local_scalars and node.name not in FLAGS:
            return ()
    if ends_loop(scan.body):
        return ()
    copies: dict[tuple[str, str], Copy] = {}
    for store in stores:
        copy = _copy(store, kinds, sizes, exactly)
        key = store.target.tensor, store.target.array
        if copy is None or copies.setdefault(key, copy).monoid != copy.monoid:
            return ()
    reads = sum(isinstance(n, Operand) and (n.tensor, n.array) in copies for n in nodes)
    return tuple(copies.values()) if reads == 2 * len(stores) else ()  # in each store: its place, and what was there


def _copy(store: Store, kinds: Mapping[str, str], sizes: Mapping[str, Expr], exactly: bool) -> Copy | None:
    target, value = store.target, store.value
    if not isinstance(value, lang.Apply) or len(value.arguments) != 2 or value.arguments[0] != Read(target):
        return None
    kind = TYPES[kinds[target.tensor]]
    neutral = value.operator.identity_of(kind)
    if neutral is None or not may_share(value, kind, exactly):
        return None
    extents = tuple(substitute(e, dict(sizes)) for e in target.extents)
    whole = replace(target, place=(), subscripts=(), positions=(), extents=extents)
    operator: Any = replace(value, arguments=(), span=None)
    return Copy(whole, Monoid(operator, kind.name, neutral))


def _combines(node: Plan) -> bool:
    return isinstance(node, Store) and (node.op != "=" or node.monoid is not None)
