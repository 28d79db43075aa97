"""Sums over segments: two inner loops, of which a call takes one for all of its segments.

Where segments are long, or about as long as their neighbours: unrolled by four, and a remainder loop. A
processor foresees when the first one ends. Where segments are short and of many lengths it does not: four values are
added in turn then, each of which may be the last one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from spfgen import tuning
from spfgen.facts.formula import Bin, Compare, Num, Var, variables
from spfgen.ir import rewrite, walk
from spfgen.lang.types import TYPES
from spfgen.plan.nodes import PLANS, Do, Find, Guard, Load, Plan, Scan, UnrollWhen, chain
from spfgen.space.nodes import Operand, Read


def unrolled(plan: Plan, sizes: Collection[str], types: Mapping[str, str]) -> Plan:
    """The plan in which loops that only add up numbers with a fraction have both, if sizes tell how long segments
    are."""

    def rule(node: object) -> Plan | None:
        if not isinstance(node, Scan) or node.unroll or node.vector:  # as the schedule says
            return None
        when = _unroll_when(node, sizes, types)
        return None if when is None else replace(node, unroll_when=when)

    result: Plan = rewrite(rule, plan, PLANS)
    return result


def _unroll_when(scan: Scan, sizes: Collection[str], types: Mapping[str, str]) -> UnrollWhen | None:
    *_, does = chain(scan.body)
    if scan.ahead is None or not isinstance(scan.ahead.long, Compare) or not isinstance(does, Do) or side_by_side(scan):
        return None
    long, rows = scan.ahead.long, scan.ahead.rows
    if not variables(long) <= {*sizes} or TYPES[types[does.target.tensor]].kind not in "fc":
        return None
    return UnrollWhen(
        long, scan.ahead.begins, rows, Compare("<", long.left, Bin("*", Num(tuning.VERY_SHORT_SEGMENT), rows))
    )


def side_by_side(plan: Scan) -> bool:
    """Whether all that changes in the loop are values that stand one behind the other."""
    reads = (n.operand for n in walk(plan.body) if isinstance(n, Read))
    looked_up = any(isinstance(n, Load | Find | Guard) for n in chain(plan.body))
    return not looked_up and all(stands_in_order(r, plan.dim) for r in reads)


def stands_in_order(read: Operand, dim: str) -> bool:
    """Whether it is the same in a loop over this dimension, or its neighbours stand side by side."""
    *others, last = [dim in variables(p) for p in read.place] or [False]
    return not any(others) and (not last or read.place[-1] == Var(dim))
