"""Statements whose value is an expression over sums: the sums are made where the point is known, then it is stored.

The loops over the target's points are those of the statement; inside of them each sum has a nest of its own, whose
first steps are the same. A sum whose steps go along with those of another one rides in its loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spfgen.errors import SpecError, Unsupported
from spfgen.facts.formula import rename
from spfgen.ir import walk
from spfgen.plan.check import check_nest
from spfgen.plan.context import Context
from spfgen.plan.depend import covers, distinct_by_facts, distinct_places
from spfgen.plan.finds import with_finds
from spfgen.plan.finds.choose import choose_finds
from spfgen.plan.injective import with_equal_positions
from spfgen.plan.nodes import (
    Clear,
    Do,
    Fold,
    Guard,
    Load,
    Locate,
    Plan,
    Reduce,
    Scan,
    Segment,
    Seq,
    State,
    Table,
    chain,
    with_body,
)
from spfgen.plan.order import scan_order
from spfgen.plan.recurrence import DOWN, Running, needs, order_text, running
from spfgen.plan.scan import Step, scan_steps, with_quotients, wrapped
from spfgen.plan.share import weighted
from spfgen.plan.simplify import simplify
from spfgen.sets.named import Space
from spfgen.space.nodes import Group, Instance


@dataclass(frozen=True)
class _Part:
    """A sum within the loops of the point: its instance, its steps (those of the point first), its nest with finds."""

    instance: Instance
    steps: tuple[Step, ...]
    nest: Plan


def plan_expression(group: Group, context: Context) -> Plan:
    """One statement. Raises Unsupported when it needs values before it writes them."""
    assert group.point is not None
    point = group.point
    names = [set(i.domain.space.names) for i in group.instances]
    shared = [n for n in point.domain.space.names if n not in point.sizes and all(n in own for own in names)]
    order = _Order(group, point, shared, context)
    context = replace(context, falling=order.falling)
    parts = [_part(i, point, order, context) for i in group.instances]
    plan = _fused(point, order, parts)
    plan = weighted(simplify(plan, (*_indices(group), *context.named)))
    _check_marks(plan, context)
    if group.op == "=" and not order.covers:
        return Seq((Clear(group.target, "not every place is reached exactly once"), plan))
    return plan


def _check_marks(plan: Plan, context: Context) -> None:
    """Raises Unsupported when the schedule says of a loop what only sums of products can have."""
    loops = {n.dim for n in walk(plan) if isinstance(n, Scan)}
    for mark in context.marks:
        if mark.dim in loops and mark.word in ("vectorize", "unroll", "fuse", "prefetch"):
            raise Unsupported(
                f"`{mark.word}` is not compiled for a value that is more than a sum of products",
                mark.span,
                ("write its sums into tensors by statements of their own",),
            )


def _indices(group: Group) -> tuple[str, ...]:
    assert group.point is not None
    return tuple(dict.fromkeys(n for i in (group.point, *group.instances) for n in i.indices))


class _Order:
    """The steps of the point: those that the sums share, and how their loops run; then those of its own reads."""

    def __init__(self, group: Group, point: Instance, shared: Sequence[str], context: Context) -> None:
        self.found = needs(group, shared)
        order = scan_order(point, context.order, context.outside, context.named)
        loops = self._loops(point, [n for n in order if n in shared])
        self.running: Running = running(group, self.found, loops, bool(context.order))
        wanted = [loop for loop, _ in self.running.loops]
        if wanted != loops:
            order = scan_order(point, wanted, context.outside, context.named)
        self.shared = [n for n in order if n in shared]
        rest = [n for n in order if n not in shared]
        self.steps = _steps(point, (*self.shared, *rest))
        self.outer = [s for s in self.steps if s.dim in self.shared or not s.dim]
        self.inner = [s for s in self.steps if s.dim and s.dim not in self.shared]
        self.loops = [s.dim for s in self.outer if s.kind == "scan"]
        self.falling = frozenset(d for d, way in self.running.loops if way == DOWN)
        self.parallel = self._parallel(point, context)
        known = self.steps[-1].known if self.steps else point.domain.space.universe()
        data_free = not any(s.kind == "load" for s in self.steps)
        self.covers = data_free and not point.guards and covers(point, known, self.loops)

    @staticmethod
    def _loops(point: Instance, dims: Sequence[str]) -> list[str]:
        return [s.dim for s in _steps(point, tuple(dims)) if s.kind == "scan"]

    def _parallel(self, point: Instance, context: Context) -> tuple[str, str] | None:
        """The outermost loop, or that which the schedule says, if no iteration needs another one and they write
        different places. Raises SpecError when the schedule wants another one."""
        marks = [m for d in self.loops if (m := context.marked("parallel", d)) is not None]
        if not self.loops or (context.marked("serial", self.loops[0]) is not None and not marks):
            return None
        loop = marks[0].dim if marks else self.loops[0]
        if loop in self.running.carried:
            if marks:
                message = f"expected a loop whose iterations can run in any order, but `{loop}` carries a dependence"
                raise SpecError(message, marks[0].span, (self.because(loop),))
            return None
        text = f"its iterations write different places of {point.target.tensor}"
        if distinct_places(point, loop):
            return loop, text
        if distinct_by_facts(point, loop, self.steps):
            return loop, f"{text} (by Z3 from the declared properties)"
        return None

    def because(self, loop: str) -> str:
        """Why a loop runs as it does."""
        carried = self.running.carried.get(loop)
        if not carried:
            return ""
        return f"it runs {self.running.way(loop)}, one iteration after another: {order_text(carried, self.loops)}"


def _steps(instance: Instance, dims: tuple[str, ...], outer: Sequence[Step] = ()) -> list[Step]:
    missing = [n for n in instance.domain.space.names if n not in dims and n not in instance.sizes]
    domain = instance.domain if not missing else instance.domain.project({*instance.sizes, *dims})
    return scan_steps(instance, domain.reordered(Space((*instance.sizes, *dims, *missing))), dims, outer)


def _with_sizes(instance: Instance, sizes: Sequence[str]) -> Instance:
    """The instance with further sizes, of which it says nothing."""
    more = [s for s in sizes if s not in instance.sizes]
    if not more:
        return instance
    space = Space((*instance.sizes, *more, *(n for n in instance.domain.space.names if n not in instance.sizes)))
    return replace(instance, sizes=(*instance.sizes, *more), domain=instance.domain.reordered(space))


def _part(instance: Instance, point: Instance, order: _Order, context: Context) -> _Part:
    """The nest of a sum: the steps of the point, then its own."""
    instance = with_equal_positions(_with_sizes(instance, point.sizes))
    dims = scan_order(instance, context.order, context.outside, context.named, order.shared)
    steps = _steps(instance, dims, order.outer)
    known = steps[-1].known
    target = replace(instance.target, place=tuple(with_quotients(p, known) for p in instance.target.place))
    body: Plan = Do(target, "+=", with_quotients(instance.value, known))
    if instance.guards:
        conditions = tuple(with_quotients(g, known) for g in instance.guards)
        body = Guard(conditions, body, "the place in the value array could not be proved to lie within it")
    for k in range(len(steps) - 1, -1, -1):
        if k == len(order.outer) - 1:
            body = Reduce(target, "+=", body)
        body = _placed(steps[k], body, order)
    if not order.outer:
        body = Reduce(target, "+=", body)
    nest = choose_finds(instance, with_finds(body), steps, context)[0].body
    check_nest(instance, nest)
    return _Part(instance, tuple(steps), nest)


def _placed(step: Step, body: Plan, order: _Order) -> Plan:
    """The node of a step around its body, run as the order says."""
    node = wrapped(step, body, order.parallel)
    if isinstance(node, Scan) and node.dim in order.loops:
        why = order.because(node.dim) or node.because
        return replace(node, down=node.dim in order.falling, because=why)
    return node


def _fused(point: Instance, order: _Order, parts: Sequence[_Part]) -> Plan:
    """The loops of the point, with the sums and then the value inside."""
    known = order.steps[-1].known if order.steps else point.domain.space.universe()
    target = replace(point.target, place=tuple(with_quotients(p, known) for p in point.target.place))
    then: Plan = Do(target, "=", with_quotients(point.value, known))
    if point.guards:
        then = Guard(tuple(with_quotients(g, known) for g in point.guards), then, "the place may not lie within it")
    for step in reversed(order.inner):
        then = wrapped(step, then)
    check_nest(point, _folded(order, then, {}))
    setups: dict[str, list[Plan]] = {}
    bodies = {number: _inside(part) for number, part in enumerate(parts)}
    for rider in list(bodies):
        for carrier in bodies:
            body = rider != carrier and _ridden(parts[carrier], bodies[carrier], parts[rider], len(order.outer))
            if body:
                bodies[carrier] = body
                del bodies[rider]
                break
    for number in bodies:
        _gather(parts[number], setups)
    result: Plan = then
    if parts:
        sums = tuple(dict.fromkeys(p.instance.target.tensor for p in parts))
        nests = tuple(bodies.values())
        result = Fold(sums, nests[0] if len(nests) == 1 else Seq(nests), then)
    return _folded(order, result, setups)


def _folded(order: _Order, plan: Plan, setups: Mapping[str, Sequence[Plan]]) -> Plan:
    """The loops of the point around a plan, with what finds inside need above them."""
    for step in reversed(order.outer):
        plan = _placed(step, plan, order)
        for setup in reversed(setups.get(step.dim, ()) if step.kind == "scan" else ()):
            plan = with_body(setup, plan)
    return plan


def _inside(part: _Part) -> Plan:
    """What a nest has inside of the point's loops."""
    return next(n.body for n in chain(part.nest) if isinstance(n, Reduce))


def _gather(part: _Part, setups: dict[str, list[Plan]]) -> None:
    """What the finds of a nest need above the point's loops, by loop."""
    waiting: list[Plan] = []
    for node in chain(part.nest):
        match node:
            case Reduce():
                return
            case State() | Table() | Segment():
                waiting.append(node)
            case Scan(dim):
                setups.setdefault(dim, []).extend(waiting)
                waiting = []


def _ridden(carrier: _Part, body: Plan, rider: _Part, outer: int) -> Plan | None:
    """The carrier's nest with the rider's value inside, where its steps begin like the carrier's and need no other
    loop; None where they do not."""
    own, other = rider.steps[outer:], carrier.steps[outer:]
    names: dict[str, str] = {}
    last = 0
    if other[0].guards and other[0].guards != own[0].guards:
        return None
    for k in range(1, min(len(own), len(other))):
        a, b = own[k], other[k]
        mine = (a.kind, rename(a.value, names), _renamed(a.low, names), _renamed(a.high, names))
        if mine != (b.kind, b.value, b.low, b.high):
            break
        names[a.dim] = b.dim
        last = k
        if _renamed(a.guards, names) != b.guards:
            break
    if not any(s.kind == "scan" for s in own[: last + 1]) or any(s.kind == "scan" for s in own[last + 1 :]):
        return None
    reduce = next(n for n in chain(rider.nest) if isinstance(n, Reduce))
    do = next(n for n in walk(reduce) if isinstance(n, Do))
    if rider.instance.guards:
        return None
    rest: Plan = do
    for step in reversed(own[last + 1 :]):
        rest = wrapped(step, rest)
    guards = own[last].guards + (own[0].guards if not other[0].guards else ())
    rest = rename(Guard(guards, rest) if guards else rest, names)
    at = next((n for n in chain(body) if isinstance(n, Scan | Load | Locate) and n.dim == other[last].dim), None)
    if at is None:
        return None
    result: Plan = with_body(at, Seq((at.body, rest)))
    nodes = list(chain(body))
    for node in reversed(nodes[: nodes.index(at)]):
        result = with_body(node, result)
    return result


def _renamed(nodes: tuple[Any, ...], names: Mapping[str, str]) -> tuple[Any, ...]:
    return tuple(rename(n, names) for n in nodes)
