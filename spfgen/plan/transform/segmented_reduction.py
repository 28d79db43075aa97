"""Positions of one place that lie side by side: what they add is summed first, and added to the place once.

    for p { y[f(p)] += A[p]*x[g(p)] }   with f that never falls: a list of coordinates, sorted

Else each addition would wait for the one before to come back from memory. Where f stays the same the sum goes on. That
takes longer where a processor does not foresee how far: whether it does is asked of the data (cir/lower/sums.py).

CPU time without the pass by that with it, one thread, best of 9 or more on a busy machine, one run:
`y[i] = A[i,j]*x[j]` in coo 1.24 for a stencil, 2.78 for rows of 32, 1.04 for random rows of 10.
"""

from __future__ import annotations

from dataclasses import replace

from spfgen.facts.formula import Call, Expr, Num, Var, calls, substitute, variables
from spfgen.ir import rewrite
from spfgen.plan.nodes import PLANS, Define, Load, Plan, Scan, Store, chain


def with_segmented_reductions(plan: Plan) -> Plan:
    """The plan whose loops that add place after place, in order, sum what belongs to one place."""
    result: Plan = rewrite(lambda n: _run(n) if isinstance(n, Scan) else None, plan, PLANS)
    return result


def _run(scan: Scan) -> Plan | None:
    if scan.partition is None or scan.partition.adds != "segments":
        return None
    *above, do = chain(scan.body)
    if not isinstance(do, Store) or do.op != "+=" or not all(isinstance(n, Load | Define) for n in above):
        return None
    place = written_out(scan.body, do.target.place)
    keys = tuple(dict.fromkeys(c for p in place for c in calls(p)))
    if not keys or any(k.arguments != (Var(scan.dim),) for k in keys):
        return None
    fixed: list[Expr] = [rewrite(lambda n: Num(0) if isinstance(n, Call) else None, p) for p in place]
    return None if any(scan.dim in variables(p) for p in fixed) else replace(scan, segment_keys=keys)


def written_out(body: Plan, place: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The subscripts with what is loaded and computed in the body put in."""
    values: dict[str, Expr] = {}
    for node in chain(body):
        match node:
            case Load(dim, call):
                values[dim] = call
            case Define(dim, value):
                values[dim] = value
    while any(variables(p) & values.keys() for p in place):
        place = tuple(substitute(p, values) for p in place)
    return place
