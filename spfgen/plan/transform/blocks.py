"""Blocking: a result that is traversed repeatedly is computed block by block.

    for p { for j { y[j - f(p)] += A[p, j]*x[j] } }

goes through all of y once for each p. Instead the places of y are cut into blocks that stay in the first cache:

    for blocks of i { for p { for j with i = j - f(p) in the block { y[i] += A[p, j]*x[j] } } }

All terms are the same, and each place gets them in the same order. Iterations of the new loop write different places,
so that they may run in parallel. What is read once, A above, comes in many short stretches: what a later block reads is
fetched ahead where it is more than caches hold.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from spfgen import tuning
from spfgen.facts.formula import Bin, Call, Compare, Expr, Num, Var, variables, within
from spfgen.ir import fresh, rewrite, walk
from spfgen.plan.analyse.depend import distinct_by_facts, distinct_places
from spfgen.plan.analyse.order import scan_order
from spfgen.plan.analyse.scan import Step
from spfgen.plan.build.drivers import steps_in_order
from spfgen.plan.nodes import PLANS, Ahead, Define, Load, Plan, Scan, Store, chain
from spfgen.sets.affine import NotAffine
from spfgen.sets.named import Constraint
from spfgen.sets.uf import linear, with_floors
from spfgen.space.nodes import Change, Instance, Operand, Read
from spfgen.space.transform import changed


def blocked(instance: Instance, steps: Sequence[Step]) -> tuple[Instance, list[Step]] | None:
    """The instance with blocks and the steps of its scan; None where it has no such loops."""
    scans = [s for s in steps if s.kind == "scan"]
    place = instance.target.place
    if len(scans) < 2 or len(place) != 1 or instance.guards or any(s.guards for s in steps):
        return None
    (subscript,) = place
    if not isinstance(subscript, Var) or not _runs_along(instance, steps, subscript, scans):
        return None
    outermost = scans[0].dim
    if distinct_places(instance, outermost) or distinct_by_facts(instance, outermost, steps):
        return None  # each of its iterations has places of its own: none is gone through again
    equal = (
        n for n in instance.indices if instance.domain.implies(Constraint(True, linear(subscript) - linear(Var(n))))
    )
    subscript = Var(next(equal, subscript.name))
    block = fresh(f"{subscript.name}_block", {*instance.domain.space.names, *instance.indices})
    start = Bin("*", Num(tuning.BLOCK_PLACES), Var(block))
    change = Change((subscript.name,), (block,), within(subscript, start, Bin("+", start, Num(tuning.BLOCK_PLACES))))
    blocked_instance = changed(instance, change)
    blocked_steps = steps_in_order(blocked_instance, scan_order(blocked_instance, (block, *(s.dim for s in scans))))
    same = [s.dim for s in blocked_steps if s.kind == "scan"] == [block, *(s.dim for s in scans)]
    if not same or any(s.guards for s in blocked_steps) or not distinct_places(blocked_instance, block):
        return None
    return blocked_instance, blocked_steps


def _runs_along(instance: Instance, steps: Sequence[Step], subscript: Var, scans: Sequence[Step]) -> bool:
    """Whether the innermost loop runs along the target, place by place, and the others only shift where it begins: each
    time it is as long as an extent. Where an index array says how long it is, it may be short, and each block would go
    through all of them."""
    inner = scans[-1]
    if any(isinstance(e, Num) for e in inner.high):
        return False
    values: dict[str, Expr] = {s.dim: s.value for s in steps if s.kind == "locate" and isinstance(s.value, Expr)}
    expr: Expr = subscript
    while variables(expr) & values.keys():
        expr = rewrite(lambda n: values.get(n.name) if isinstance(n, Var) else None, expr)
    try:
        along = linear(expr)
        lows, highs = ([linear(with_floors(e)) for e in bounds] for bounds in (inner.low, inner.high))
    except NotAffine:
        return False
    sizes = {*instance.sizes}
    if not all(any((high - low).names() <= sizes for low in lows) for high in highs):
        return False
    names = along.names()
    shifting = {s.dim for s in steps if isinstance(s.value, Call) and inner.dim not in variables(s.value)}
    return abs(along.coefficient(inner.dim)) == 1 and names <= {inner.dim, *shifting, *sizes}


def fetched(plan: Plan) -> Plan:
    """The plan of blocks whose innermost loop fetches ahead what is read there and nowhere else."""

    def rule(node: object) -> Plan | None:
        if not isinstance(node, Scan):
            return None
        inside = list(chain(node.body))
        if not all(isinstance(n, Load | Define | Store) for n in inside):
            return None
        reads = {n.operand for n in walk(inside[-1]) if isinstance(n, Read)}
        here = {node.dim, *(n.dim for n in inside if isinstance(n, Load | Define))}
        once = [o for o in reads if len(o.place) > 1 and _goes_along(o, node.dim, here)]
        if len(once) != 1:
            return None
        (operand,) = once
        total = operand.extents[0]
        for extent in operand.extents[1:]:
            total = Bin("*", total, extent)
        return replace(
            node,
            ahead=Ahead(
                (operand,),
                2 * tuning.BLOCK_PLACES,
                (Compare(">=", total, Num(tuning.PREFETCH_VALUES)),),
                tuning.PREFETCH_SHORT,
            ),
        )

    result: Plan = rewrite(rule, plan, PLANS)
    return result


def _goes_along(operand: Operand, dim: str, here: Collection[str]) -> bool:
    """Whether the loop over `dim` reads places that lie side by side: no other subscript changes `here`."""
    *others, last = operand.place
    return last == Var(dim) and not any(variables(o) & set(here) for o in others)
