"""Loops that only add to one sum: a processor need not wait for one addition before it starts the next.

    for p { s += a[p]*x[f(p)] }   ->   s_1 += a[p]*x[f(p)]; s_2 += a[p + 1]*x[f(p + 1)]; ... s = s_1 + s_2

Where the values stand side by side there is a vector of partial sums; where they are reached through an index array,
which vectors gain nothing from, a few. What is taken off a value that was just computed comes last, one after the
other: then there is no other way between it and what is computed next. Either way the order of the additions is another
than the text's, and the same whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from spfgen import tuning
from spfgen.facts.formula import ZERO, Num, Var, variables
from spfgen.ir import rewrite, walk, with_children
from spfgen.lang.types import TYPES, ElementType
from spfgen.plan.analyse.value_types import sum_type
from spfgen.plan.nodes import (
    ACROSS,
    EACH,
    FEW_LEFT,
    IN_TURN,
    LEFT,
    PLANS,
    SEVERAL,
    Accumulate,
    Block,
    Define,
    Find,
    Guard,
    Load,
    Plan,
    Scan,
    Store,
    Variable,
    chain,
    stores_in,
)
from spfgen.space.nodes import Operand, Read


@dataclass(frozen=True)
class _Sum:
    """The variable of a sum: its type, whether what is added is taken off it, and whether a loop around the one that is
    looked at goes on with it."""

    type: ElementType
    falls: bool
    carried: bool = False


_Sums = Mapping[tuple[str, object], _Sum]


def with_partial_sums(plan: Plan, types: Mapping[str, str]) -> Plan:
    """The plan in which such loops say how they add; `types` are those of the tensors."""
    return _within(plan, {}, types)


def _within(plan: Plan, sums: _Sums, types: Mapping[str, str]) -> Plan:
    match plan:
        case Accumulate(target, op, body, Variable()):
            target_type = TYPES[types[target.tensor]]
            kind = target_type if not op else sum_type(body, target_type, types)
            if plan.monoid is not None:
                kind = TYPES[plan.monoid.type]
            place = target.place if op else None
            sums = {**sums, (target.tensor, place): _Sum(kind, plan.start is not None)}
        case Scan():
            plan = _in_parts(replace(plan, partial=_partial(plan, sums) or plan.partial), types)
            sums = {k: replace(s, carried=True) for k, s in sums.items()}
    result: Plan = with_children(lambda inner: _within(inner, sums, types), plan, PLANS)
    return result


def _in_parts(scan: Scan, types: Mapping[str, str]) -> Scan:
    """The loop that says how its parts add to a sum of what they have of a place that two of them share."""
    partition = scan.partition
    if partition is None or partition.slice is None or partition.adds != "segments":
        return scan
    if any(offset != ZERO for offset in partition.slice.rest):
        return scan  # there are several places
    target = next(n.target for n in stores_in(scan))
    body = rewrite(
        lambda n: replace(n, op="+=") if isinstance(n, Accumulate) and n.op == "=" else None, scan.body, PLANS
    )
    part_loop = Scan(scan.dim, scan.low, scan.high, body)
    kind = sum_type(part_loop, TYPES[types[target.tensor]], types)
    summed = _within(part_loop, {(target.tensor, None): _Sum(kind, falls=False)}, types)
    partial = tuple((n.dim, n.partial) for n in walk(summed, PLANS) if isinstance(n, Scan) and n.partial)
    return replace(scan, partition=replace(partition, partial=partial))


def _partial(scan: Scan, sums: _Sums) -> str:
    """How the loop adds; as it stands where the schedule says how it is written out."""
    if scan.unroll or scan.vector:
        return ""
    *nodes, last = chain(scan.body)
    if isinstance(last, Store):
        total = _sum(last.target, sums)
        if total is None or not _combines(last, total.type) or total.type.kind not in "fc":
            return ""
        if total.falls:
            return _taken_off(scan, nodes, total)
        short = any(isinstance(e, Num) and e.value < tuning.VECTOR_SUM_SHORT for e in scan.high)
        if short or not all(map(_is_plain, nodes)):
            return ""
        return ACROSS if _side_by_side(scan) else IN_TURN
    dos = scan.body.parts if isinstance(scan.body, Block) else ()
    several = [_sum(n.target, sums) for n in dos if isinstance(n, Store)]
    if not dos or len(several) != len(dos) or None in several:
        return ""
    kinds = {s.type.name if s.type.kind in "fciu" else "" for s in several if s is not None}
    return SEVERAL if len(kinds) == 1 and "" not in kinds and _side_by_side(scan) else EACH


def _combines(does: Store, kind: ElementType) -> bool:
    """Whether it adds, or combines with what the target has in a way for which the order does not matter."""
    return does.op == "+=" or (does.monoid is not None and does.monoid.operator.operator.is_orderless(kind))


def _taken_off(scan: Scan, nodes: list[Plan], total: _Sum) -> str:
    """A loop that is known to be short gains only where one around goes on with the sum."""
    if not all(isinstance(n, Load | Define) for n in nodes):
        return ""
    if any(isinstance(e, Num) and e.value < tuning.PREFETCH_LONG for e in scan.high):
        return FEW_LEFT if total.carried else ""
    return LEFT


def _sum(target: Operand, sums: _Sums) -> _Sum | None:
    return sums.get((target.tensor, target.place)) or sums.get((target.tensor, None))


def _is_plain(node: Plan) -> bool:
    return isinstance(node, Load | Define | Guard) or (isinstance(node, Find) and node.algorithm == "scatter")


def _side_by_side(plan: Scan) -> bool:
    """Whether all that changes in the loop are values that stand one behind the other."""
    reads = (n.operand for n in walk(plan.body) if isinstance(n, Read))
    looked_up = any(isinstance(n, Load | Find | Guard) for n in chain(plan.body))
    return not looked_up and all(_stands_in_order(r, plan.dim) for r in reads)


def _stands_in_order(read: Operand, dim: str) -> bool:
    """Whether it is the same in a loop over this dimension, or its neighbours stand side by side."""
    *others, last = [dim in variables(p) for p in read.place] or [False]
    return not any(others) and (not last or read.place[-1] == Var(dim))
