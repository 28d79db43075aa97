"""An equation that makes something of one reduction at each of its points, as one nest: `y[i] = max(j: A[i,j]*x[j])`,
`y[i] = abs(sum(j: A[i,j]*x[j]))`.

The points of the equation and of the reduction are those of an instance, as of a sum of products, and so its nest is
made and rewritten by the passes that those have (from_space.py): each value is combined with the total of its place;
what is made of a total, and of all points at which nothing is stored, comes when it is whole (Finish). That is right
where the operator takes values in any order, and the nest comes by each place once, with all that is combined there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spfgen.facts.formula import Expr, Var, variables
from spfgen.ir import rewrite, walk
from spfgen.lang import nodes as lang
from spfgen.lang.types import TYPES
from spfgen.plan.choices import ONE_REDUCTION
from spfgen.plan.context import Context
from spfgen.plan.from_space import plan_instance, plan_reduction
from spfgen.plan.fused import plan_value
from spfgen.plan.nodes import PLANS, Assign, Block, Finish, Let, Plan, Scan, Store, chain
from spfgen.plan.steps.annihilator_exit import ends, shortened
from spfgen.plan.steps.env import Env, accesses_of, accumulator, cast, key_of, number_of
from spfgen.plan.steps.reductions import Combined, operator_of_reduction
from spfgen.plan.steps.schedule_clauses import names_in_text, scheduled_nests
from spfgen.plan.transform.simplify import without_unused
from spfgen.space.local_tensors import OWN, own_tensor
from spfgen.space.nodes import Group, Instance, Monoid, Read, value_of
from spfgen.space.regions import Region
from spfgen.space.steps import Chosen, Counted, Equation, Gathered, Linked
from spfgen.space.typed import Holds, Scalar

if TYPE_CHECKING:
    from spfgen.plan.steps.equations import Equations


def in_one_nest(planner: Equations, eq: Equation, env: Env) -> list[Plan] | None:
    """The equation as such a nest; None where it is none."""
    node = _reduction(planner, eq, env)
    if node is None:
        return None
    restore, names = planner.kept(), set(planner.names)
    nest = _planned(planner, eq, node, env)
    if nest is None or any(_repeats(p, eq.target) for p in nest):
        restore()
        nest = None
        planner.names = names
    return nest


def _repeats(plan: Plan, target: str) -> bool:
    """Whether an innermost loop combines one value of the target again and again, as along a run: that is done at once
    elsewhere."""
    for scan in (n for n in walk(plan, PLANS) if isinstance(n, Scan)):
        *inside, last = chain(scan.body)
        if isinstance(last, Store) and not any(isinstance(n, Scan) for n in inside):
            moving = {scan.dim, *(s.name for n in inside for s in n.computed())}
            if last.monoid is not None and last.target.tensor == target and not variables(last.value) & moving:
                return True
    return False


def _reduction(planner: Equations, eq: Equation, env: Env) -> lang.Reduce | None:
    """The one reduction of which an equation makes something at each place of a dense result."""
    if env.known or env.again or not planner.context.makes(ONE_REDUCTION):
        return None
    if eq.updates is not None or eq.selects or eq.where is not None or eq.at or eq.within:
        return None
    names = [s.name for s in eq.subscripts if isinstance(s, Var)]
    if len({*names}) != len(eq.subscripts) or {*names} != {*eq.indices} or not names:
        return None
    if eq.target not in planner.dense or eq.target in planner.assembled or eq.target in planner.collected:
        return None
    if any(isinstance(n, Chosen | Counted | Gathered | Linked) for n in walk(eq.value)):
        return None
    reductions = [n for n in walk(eq.value) if isinstance(n, lang.Reduce)]
    if len(reductions) != 1 or any(a.tensor == eq.target for a in accesses_of(eq.value)):
        return None
    (node,) = reductions
    if ends(operator_of_reduction(node), planner.types.reduced(node)):
        return None  # most loops would be left early
    is_right = planner.types.is_orderless(node) and planner.types.identity(node) is not None
    return node if is_right and planner.free(node) == {*eq.indices} else None


def _planned(planner: Equations, eq: Equation, node: lang.Reduce, env: Env) -> list[Plan] | None:
    inner = replace(env.knowing(eq.indices), parallel=False, plain=False)
    counts = planner.what_counts(node, inner)
    if counts.regions is None or len(counts.regions) != 1 or counts.regions[0].links:
        return None
    (region,) = counts.regions
    accesses = _accesses(planner, node, region)
    if accesses is None:
        return None
    target = lang.Access(eq.target, eq.subscripts, eq.span)
    unknown = [*eq.indices, *node.indices]
    where = (*counts.conditions, *(c for c in region.where if c not in counts.conditions))
    if not all(map(planner.is_affine, where)):
        return None
    kind = planner.types.reduced(node)
    monoid = Monoid(operator_of_reduction(node), kind.name, planner.types.identity(node))
    instances = []
    for one in planner.instances(accesses, unknown, where, replace(env, parallel=True), target):
        at_hand = {key_of(a): value_of(o) for a, o in zip(accesses, one.reads, strict=True)}
        lines, value = planner.point_value(node.value, inner.knowing(unknown).having(at_hand))
        if lines or any(isinstance(n, lang.Index | Holds) for n in walk(value)):
            return None
        instances.append(replace(one, value=cast(value, kind.name), monoid=monoid))
    if len(instances) == 1:
        (instance,) = instances
        total = Scalar(planner.fresh(accumulator(node.op)), kind.name)
        body = _finish(planner, eq, node, total, counts, inner.having({key_of(target): Read(instance.target)}))
        finish = Finish(total.name, total.type, body)
        plans = plan_reduction(replace(instance, finish=total.name), finish, _context(planner, instance))
        if plans is not None:
            return plans
    if planner.context.named:
        return None  # the schedule says what the loops are, which totals in memory have others than
    in_result = _in_result(planner, eq, node, instances, counts, env)
    return in_result or _in_value(planner, eq, node, instances, counts, env)


def _context(planner: Equations, *instances: Instance) -> Context:
    """What the schedule says of nests."""
    for instance in instances:
        planner.named |= names_in_text(instance, planner.steps.called)
    return replace(scheduled_nests(instances, planner.context, planner.steps.called), types=planner.kinds)


def _in_result(
    planner: Equations, eq: Equation, node: lang.Reduce, instances: Sequence[Instance], counts: Combined, env: Env
) -> list[Plan] | None:
    """Totals in the places of the result, which begin as what changes nothing; then what is made of each. Each nest is
    planned for itself, with tiles and blocks. None where the result could not hold them."""
    target = lang.Access(eq.target, eq.subscripts, eq.span)
    kind = planner.types.reduced(node)
    if planner.kinds[eq.target] != kind.name or not instances:
        return None
    parts = planner.filled(eq, target, number_of(planner.types.identity(node), kind.name), env)
    for instance in instances:
        parts += plan_instance(instance, _context(planner, instance), store=False)
    whole: Any = target
    if counts.rest is not None:
        visited = lang.Access(planner.fresh("visited"), eq.subscripts)
        planner.own(visited.tensor, "int64", 0, planner.tensors[eq.target].extents)
        for instance in _counted(planner, visited, node, counts):
            parts += plan_instance(instance, _context(planner, instance), store=False)
        whole = _with_rest(planner, node, target, visited, counts)
    value = rewrite(lambda n: whole if n == node else None, eq.value)
    return parts if value == target else [*parts, *planner.equation(replace(eq, value=value), env)]


def _in_value(
    planner: Equations, eq: Equation, node: lang.Reduce, instances: Sequence[Instance], counts: Combined, env: Env
) -> list[Plan] | None:
    """What is made of totals, as a value over them (fused.py): those of a row, or of all places, are in memory. None
    where the value needs more than totals and what has a value everywhere."""
    target = lang.Access(eq.target, eq.subscripts, eq.span)
    kinds: dict[str, str] = {}

    def kept(name: str, of: Sequence[Instance]) -> tuple[lang.Access, list[Instance]]:
        """Totals in memory, and what is combined in them."""
        total = lang.Access(planner.fresh(name), eq.subscripts)
        kinds.update((total.tensor, i.monoid.type) for i in of if i.monoid is not None)
        return total, [replace(i, target=replace(i.target, tensor=total.tensor, array=OWN)) for i in of]

    total, combined = kept(accumulator(node.op), instances)
    whole: Any = total
    if counts.rest is not None:
        visited, counted = kept("visited", _counted(planner, target, node, counts))
        combined += counted
        whole = _with_rest(planner, node, total, visited, counts)
    value = rewrite(lambda n: whole if n == node else None, eq.value)
    others = [a for a in dict.fromkeys(accesses_of(value)) if a.tensor not in kinds]
    if not kinds or any(a.tensor not in planner.dense or planner.inside(a) for a in others):
        return None
    points = [*planner.instances(others, eq.indices, (), replace(env, parallel=True), target)]
    if len(points) != 1:
        return None
    (point,) = points
    at_hand = {key_of(a): value_of(o) for a, o in zip(others, point.reads, strict=True)}
    at_hand |= {key_of(replace(target, tensor=n)): Read(replace(point.target, tensor=n, array=OWN)) for n in kinds}
    planner.kinds |= kinds
    planner.tensors |= {n: own_tensor(n, k, planner.tensors[eq.target].extents) for n, k in kinds.items()}
    lines, value = planner.point_value(value, env.knowing(eq.indices).having(at_hand))
    if lines:
        return None
    point = replace(point, value=cast(value, planner.kinds[eq.target]))
    context = _context(planner, *combined, point)
    return [plan_value(Group(eq.text, "=", eq.target, tuple(combined), point, eq.span), context, plan_instance)]


def _with_rest(
    planner: Equations, node: lang.Reduce, total: lang.Access, visited: lang.Access, counts: Combined
) -> lang.Apply:
    """A total with the points at which nothing is stored."""
    assert counts.points is not None
    kind, points = planner.types.reduced(node).name, lang.Index(counts.points)
    fill_part = cast(planner.power(node, counts.rest, lang.Apply("subtract", (points, visited)), kind), kind)
    whole = cast(replace(operator_of_reduction(node), arguments=(total, fill_part)), kind)
    return lang.Apply("where", (lang.Apply("less", (visited, points)), whole, total))


def _counted(planner: Equations, target: lang.Access, node: lang.Reduce, counts: Combined) -> list[Instance]:
    """The points whose values are combined, each as a one."""
    assert counts.regions is not None
    monoid = Monoid(lang.Apply("add", ()), "int64", 0)
    (region,) = counts.regions
    where = (*counts.conditions, *(c for c in region.where if c not in counts.conditions))
    names = [s.name for s in target.subscripts if isinstance(s, Var)]
    points = planner.instances(region.accesses, [*names, *node.indices], where, Env(), target)
    return [replace(i, value=cast(lang.Constant(1), "int64"), monoid=monoid) for i in points]


def _accesses(planner: Equations, node: lang.Reduce, region: Region) -> list[lang.Access] | None:
    """All that the reduction reads: what leads to its points, and what has a value everywhere. None where something
    else has to be looked up."""
    reads = list(dict.fromkeys((*region.accesses, *accesses_of(node.value))))
    for access in reads:
        kept = access.tensor in planner.tables.values() or access.tensor in planner.collected.values()
        if kept or not all(isinstance(s, Expr) for s in access.subscripts):
            return None
        if access not in region.accesses and (access.tensor not in planner.dense or planner.inside(access)):
            return None
    return reads if region.accesses else None


def _finish(planner: Equations, eq: Equation, node: lang.Reduce, total: Scalar, counts: Combined, env: Env) -> Plan:
    """What is stored for a point: what is made of the total, and of the points at which nothing is stored."""
    lines = [] if counts.rest is None else _rest(planner, node, total, counts, env)
    planner.called[total.name], planner.scalars[total.name] = total.name, TYPES[total.type]
    planner.constants.add(total.name)
    value_of_total = rewrite(lambda n: lang.Local(total.name, node.span) if n is node or n == node else None, eq.value)
    more, value = planner.point_value(value_of_total, env)
    target = lang.Access(eq.target, eq.subscripts, eq.span)
    return Block((*lines, *more, *planner.stored(eq, target, value, env)))


def _rest(planner: Equations, node: lang.Reduce, total: Scalar, counts: Combined, env: Env) -> list[Plan]:
    """The points at which nothing is stored, combined with the total: as many as are not counted."""
    counted = Scalar(planner.fresh("visited"), "int64")
    operator = operator_of_reduction(node)

    def one_more(inner: Env) -> Plan:
        return Assign(counted.name, "int64", lang.Apply("add", (counted, lang.Constant(1))))

    def combined(value: Any) -> list[Plan]:
        new = replace(operator, arguments=(total, cast(value, total.type)))
        return [Assign(total.name, total.type, new)]

    assert counts.regions is not None
    points = planner.passes(counts.regions, node.indices, counts.conditions, one_more, env)
    visited = [shortened(without_unused(p), counted) for p in points]
    last = planner.rest_combined(node, counts, counted, combined, env)
    return [Let(counted.name, "int64", lang.Constant(0)), *visited, last]
