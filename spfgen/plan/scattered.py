"""Places all over the memory, named by an index array, are fetched ahead.

    for p in [f(j), f(j + 1)) { y[g(p)] += A[p]*x[j] }

Where y is larger than caches each addition waits for its own place, and an atomic one lets all behind it wait as well.
The places of later p are known: fetching them takes a third to a half of the time off, most where additions are
atomic. Where neighbouring p lead to neighbouring places, as in a band, it would be in vain: samples of g tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from functools import partial, reduce

from spfgen.facts.formula import ZERO, Bin, Compare, Expr, Num, Var, calls, substitute, variables
from spfgen.ir import rewrite, walk
from spfgen.plan.nodes import PLANS, Ahead, Do, Load, Locate, Plan, Prefetch, Scan, Spread, chain
from spfgen.space.nodes import Instance, Operand

LATER = 32
"""How far ahead: more accesses than a core has on their way at once."""
MUCH = 1 << 19
"""Values that caches near to the core do not hold: below that, short segments take longer with it."""
WINDOW = 1 << 16
"""How far apart places are that lie all over: spfgen/rt/spread.h."""
WHY = "places all over more memory than caches hold: those that are added to later are fetched"

Shapes = Mapping[str, tuple[Expr, ...]]
"""The extents of the index arrays."""


def with_scattered(instance: Instance, plan: Plan, shapes: Shapes) -> Plan:
    """The plan whose loops know which such places they may fetch."""
    own = {n.dim for n in walk(plan, PLANS) if isinstance(n, Scan | Load | Locate)}

    def rule(node: object) -> Plan | None:
        return _scattered(node, shapes, own, {*instance.sizes}) if isinstance(node, Scan) else None

    result: Plan = rewrite(rule, plan, PLANS)
    return result


def fetching(scan: Scan) -> Scan:
    """The loop that fetches them."""
    assert scan.scattered is not None
    (spread,), later = scan.scattered.spread, Bin("+", Var(scan.dim), Num(LATER))
    body = Prefetch(scan.dim, LATER, (spread.count,), scan.dim, later, scan.scattered.arrays, scan.body)
    return replace(scan, scattered=None, body=body)


def _scattered(scan: Scan, shapes: Shapes, own: Set[str], sizes: Set[str]) -> Plan | None:
    """The loop with the place that is added to, if an index array says where for each iteration, and nothing else that
    is known only inside of loops does."""
    *above, do = chain(scan.body)
    if not isinstance(do, Do) or scan.down or scan.vector or scan.unroll or scan.runs or scan.collapse:
        return None
    made = dict[str, Expr]()
    for node in above:
        if not isinstance(node, Load | Locate):
            return None
        made[node.dim] = substitute(node.call if isinstance(node, Load) else node.value, made)
    target: Operand = substitute(do.target, made)
    found = {c for e in target.place for c in calls(e)}
    call = found.pop() if len(found) == 1 else None
    if call is None or call.function not in shapes or call.arguments != (Var(scan.dim),):
        return None
    others: Operand = rewrite(lambda n: ZERO if n == call else None, target)
    values = reduce(partial(Bin, "*"), target.extents)
    if {v for e in others.place for v in variables(e)} & own or not variables(values) <= sizes:
        return None
    spread = Spread(replace(call, arguments=(ZERO,)), shapes[call.function][0], Num(WINDOW))
    much = Compare(">=", values, Num(MUCH))
    return replace(scan, scattered=Ahead((target,), 0, (much,), spread=(spread,), because=WHY, name="scattered"))
