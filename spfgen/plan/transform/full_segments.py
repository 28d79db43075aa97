"""Rows of slots, of which unused ones come last: the last slot is tested for all of them.

    for p in [0, width) { j = f(i, p); if j < 0 { break }; s += a[i, p]*x[j] }

Where the condition holds at the last position it holds at all, as was proved where the early exit was found
(early_exit.py): the loop asks nothing, and how often it runs does not depend on what it reads.

CPU time without the pass by that with it, one thread, best of 9 or more on a busy machine:
`y[i] = A[i,j]*x[j]` in ell 1.00, 1.05 and 1.11 in three runs for a stencil of 400 by 400 points, 1.06 to 1.22 for
smaller ones (one or two runs each); 0.92 to 1.06 in five runs for matrices with other rows.
"""

from __future__ import annotations

from dataclasses import replace

from spfgen.facts.formula import ONE, Bin, Compare, Expr, show, substitute, variables
from spfgen.ir import rewrite, walk
from spfgen.plan.nodes import PLANS, Define, Guard, Load, Plan, Scan, Store, chain, lookups_of, specialised, with_body
from spfgen.plan.transform.simplify import without_unused


def with_full_segments(plan: Plan) -> Plan:
    """The plan with a version of such loops for segments that are full."""
    inside = {n.dim for n in walk(plan, PLANS) if isinstance(n, Scan | Load | Define)}
    result: Plan = rewrite(lambda n: _loop(n, inside) if isinstance(n, Scan) else None, plan, PLANS)
    return result


def _loop(scan: Scan, inside: set[str]) -> Plan | None:
    """The versions of a loop that does nothing but what is guarded; `inside` are the dimensions of the nest."""
    looked_up, node = lookups_of(scan.body)
    if not isinstance(node, Guard) or not node.exits or len(scan.low) != 1 or len(scan.high) != 1:
        return None
    if not all(isinstance(n, Load | Define | Store) for n in chain(node.body)):
        return None
    (low,), (high,) = scan.low, scan.high
    if (variables(low) | variables(high)) & inside:
        return None  # nothing says that the part of a segment that is asked for is mostly all of it
    last: dict[str, Expr] = {scan.dim: Bin("-", high, ONE)}
    for known in looked_up:
        last[known.dim] = substitute(known.call if isinstance(known, Load) else known.value, last)
    body = node.body
    for known in reversed(looked_up):
        body = with_body(known, body)
    there = tuple(substitute(f, last) for f in node.conditions)
    why = f"what holds at the last {scan.dim} holds at all: {' and '.join(map(show, node.conditions))}"
    full = without_unused(replace(scan, body=body))
    return specialised((Compare("<", low, high), *there), full, scan, why, by_order=True)
