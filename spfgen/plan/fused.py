"""Statements whose value is an expression over sums: the sums are made where the point is known, then it is stored.

The loops over the target's points are those of the statement; inside of them each sum has a nest of its own, whose
first steps are the same (parts.py). A sum whose steps go along with those of another one is fused into its loops
(reduction_fusion.py). Loops that nothing sparse depends on stay inside the sums, which then have one value for each of
their iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard

from spfgen.errors import InternalError, SpecError, Unsupported
from spfgen.facts.formula import ZERO, Compare, Var, variables
from spfgen.facts.prove import Facts
from spfgen.ir import rewrite, walk
from spfgen.lang.nodes import Apply
from spfgen.lang.types import TYPES
from spfgen.plan.analyse.depend import INDEPENDENT, covers, distinct_by_facts, distinct_places, is_apart, meetings
from spfgen.plan.analyse.order import scan_order
from spfgen.plan.analyse.recurrence import DOWN, Need, needs, order_text, running
from spfgen.plan.analyse.scan import Step, wrapped
from spfgen.plan.build import parts
from spfgen.plan.build.nest import guarded, known_at, stored_at
from spfgen.plan.build.own_names import own_names, used_names, with_own_names
from spfgen.plan.build.parts import SumNest, steps_of
from spfgen.plan.build.reduction_fusion import FusedNest, alike, fused, step_of
from spfgen.plan.choices import STARTED
from spfgen.plan.context import Context
from spfgen.plan.nodes import (
    Accumulate,
    Block,
    Clear,
    Find,
    FindTable,
    Guard,
    LevelLoop,
    Plan,
    Row,
    Scan,
    SearchState,
    Variable,
    Version,
    Workspace,
    is_temporary,
    stores_in,
    with_body,
)
from spfgen.plan.transform.legal import SharedPlaces, refused
from spfgen.plan.transform.passes import VALUE, Given, Nests, Within, passed, passes_of
from spfgen.plan.verify.compared import note_apart
from spfgen.plan.verify.meaning import Fault, Path, Wanted, compare_all
from spfgen.plan.verify.parallel import check_parallel
from spfgen.sets.affine import Affine
from spfgen.sets.named import Constraint, Piece
from spfgen.space.nodes import Group, Instance, Mark, Monoid, Operand, Read, Value

INSIDE, AFTER, BEFORE = "inside", "after", "before"
IN_ORDER = ("serial", "vectorize", "unroll", "fuse", "prefetch")
"""Words for a loop that is not to run level by level."""
Separate = Callable[[Instance, Context, bool], list[Plan]]
"""Plans an instance in loops of its own."""


def plan_value(group: Group, context: Context, separate: Separate) -> Plan:
    """One statement. Raises Unsupported when it needs values before it writes them."""
    assert group.point is not None
    point = group.point
    order = _Order(group, point, context)
    context = replace(context, falling=order.falling)
    places, waiting = _places(group, point, order, context)
    parts_of = _parts(group, order, places, context)
    nests = _nests(parts_of, order)
    alone = [k for k in waiting if any(n.carrier is parts_of[k] and not n.riders for n in nests)]
    if alone:
        places = [BEFORE if k in alone else place for k, place in enumerate(places)]
        parts_of = _parts(group, order, places, context)
        nests = _nests(parts_of, order)
    kept = _kept(group, places)
    fusion = _Fusion(group, order, [*parts_of.values()], nests, kept, context)
    (plan,) = passed(passes_of(VALUE), fusion.given, fusion.nests(), context, fusion.verify).plans
    before = [i for i, place in zip(group.instances, places, strict=True) if place == BEFORE]
    first = [n for i in before for n in separate(i, context, False)]
    if group.op == "=" and not order.covers:
        first.append(Clear(group.target, "not every place is reached exactly once"))
    whole = Block((*first, plan)) if first else plan
    for target in reversed(kept.values()):
        whole = Accumulate(target, "", whole, Workspace(), monoid=_monoid(group, target.tensor))
    return whole


def _monoid(group: Group, tensor: str) -> Monoid | None:
    """How values come to a temporary."""
    return next(i.monoid for i in group.instances if i.target.tensor == tensor)


def _facts(group: Group) -> Facts:
    """What all tensors of the statement declare."""
    axioms = [i.axioms for i in group.all]
    formulas = dict.fromkeys(f for a in axioms for f in a.formulas)
    return Facts(tuple(formulas), {function: e for a in axioms for function, e in a.extents.items()})


def _indices(group: Group) -> tuple[str, ...]:
    return tuple(dict.fromkeys(n for i in group.all for n in i.indices))


class _Order:
    """The steps of the point: `outer` are those that the sums share, `inner` those of loops further in and of what the
    value reads."""

    def __init__(self, group: Group, point: Instance, context: Context) -> None:
        names = [set(i.domain.space.names) for i in group.instances]
        shared = [
            n
            for n in point.domain.space.names
            if n not in point.sizes and all(n in dims_of_instance for dims_of_instance in names)
        ]
        self.found = needs(group, shared)
        order = scan_order(point, context.order, context.outside, context.named)
        loops = [s.dim for s in steps_of(point, tuple(n for n in order if n in shared)) if s.kind == "scan"]
        self.running = running(group, self.found, loops, bool(context.order))
        wanted = [loop for loop, _ in self.running.loops]
        if wanted != loops:
            order = scan_order(point, wanted, context.outside, context.named)
        dims = [n for n in order if n in shared]
        self.steps = steps_of(point, (*dims, *(n for n in order if n not in shared)))
        self.loops = [s.dim for s in self.steps if s.kind == "scan" and s.dim in shared]
        self.place = point.target.place
        self.rows = self._rows(group, context)
        last = next((k for k, s in enumerate(self.steps) if s.dim in self.rows), len(self.steps))
        self.outer = [s for s in self.steps[:last] if s.dim in shared or not s.dim]
        self.inner = [s for s in self.steps if s not in self.outer]
        self.falling = frozenset(d for d, way in self.running.loops if way == DOWN)
        self.parallel = self._parallel(point, context)
        known = self.steps[-1].known if self.steps else point.domain.space.universe()
        data_free = not any(s.kind == "load" for s in self.steps)
        self.covers = data_free and not point.guards and covers(point, known, self.loops)

    def _rows(self, group: Group, context: Context) -> list[str]:
        """The innermost loops over which the sums are made side by side: nothing sparse has them, they run fastest
        where values are read, and each subscript of the place belongs to them or to the loops outside. Threads do not
        share them out."""
        assert group.point is not None
        rows: list[str] = []
        separate = {d for m in context.marks if m.word in ("fuse", "parallel") for d in (m.dim, *m.inner)}
        ordered = context.order
        for loop in (d for d in self.loops if d in ordered):
            at = ordered.index(loop)
            if all(d in self.loops for d in ordered[:at]) or any(d not in self.loops for d in ordered[at:]):
                separate.add(loop)  # the schedule wants the loops of the sums inside
        if all(set(i.indices) <= set(group.point.indices) for i in group.instances):
            return rows
        for loop in reversed(self.loops[1:]):
            if loop in self.running.carried or loop in separate or not all(_is_row(i, loop) for i in group.instances):
                break
            rows.insert(0, loop)
        if not rows:
            return rows
        known = self.steps[-1].known
        for expr in group.point.target.place:
            equal_loops = {d for d in self.loops for n in variables(expr) if _is_equal(known, n, d)}
            if len(equal_loops) != 1:
                return []
        return rows

    def _parallel(self, point: Instance, context: Context) -> tuple[str, str] | None:
        """The outermost loop, or that which the schedule says, if no iteration needs another one and they write
        different places. Raises SpecError when the schedule wants another one."""
        marks = [m for d in self.loops if (m := context.marked("parallel", d)) is not None]
        if not self.loops or (context.is_serial(self.loops[0]) and not marks):
            return None
        loop = marks[0].dim if marks else self.loops[0]
        fused = [m for m in context.marks if m.word == "fuse"]
        for mark in (*marks[:1], *(replace(m, dim=d) for m in fused for d in (m.dim, *m.inner) if d in self.loops)):
            self.check_free(mark, "run in any order")
        if loop in self.running.carried:
            return None
        for mark in (replace(m, dim=d) for m in fused if m.dim == loop for d in m.inner if d in self.loops):
            meeting = meetings(point, self.steps, mark.dim)
            if meeting.kind != INDEPENDENT:
                raise refused(self.steps, mark, meeting, "run in any order")
        text = f"its iterations write different places of {point.target.tensor}"
        if distinct_places(point, loop):
            return loop, text
        if distinct_by_facts(point, loop, self.steps):
            return loop, f"{text} (by Z3 from the declared properties)"
        return None

    def check_free(self, mark: Mark, what: str) -> None:
        """Raises SpecError when iterations of the loop need what others write."""
        if mark.dim in self.running.carried:
            carries = f"`{mark.dim}` carries a dependence{self.running.example(mark.dim)}"
            message = f"expected a loop whose iterations can {what}, but {carries}"
            raise SpecError(message, mark.span, (self.because(mark.dim),))

    def need(self, instance: Instance) -> Need | None:
        """What an instance needs of the target, if it reads it."""
        return next((n for n in self.found if n.instance is instance), None)

    def row(self, target: Operand) -> Operand:
        """The part of a place that the rows decide."""
        known = self.steps[-1].known
        names = [variables(e) for e in self.place]
        subscripts = [
            k
            for k, names_of_subscript in enumerate(names)
            if any(_is_equal(known, n, d) for n in names_of_subscript for d in self.rows)
        ]
        return replace(
            target,
            place=tuple(target.place[k] for k in subscripts),
            extents=tuple(target.extents[k] for k in subscripts),
        )

    def single(self, group: Group, instance: Instance, kept: Collection[str]) -> str:
        """How the target of an instance is kept: in a variable, in a row of them, or with all its places."""
        tensor = instance.target.tensor
        if tensor in kept:
            return "all"
        alike = [i for i in group.instances if i.target.tensor == tensor]
        return "variable" if all(parts.without(i, self.rows) for i in alike) or not self.rows else "row"

    def because(self, loop: str) -> str:
        """Why a loop runs as it does."""
        carried = self.running.carried.get(loop)
        if not carried:
            return ""
        return f"it runs {self.running.way(loop)}, one iteration after another: {order_text(carried, self.loops)}"

    def is_chained(self, loop: str) -> bool:
        """Whether it is the outermost loop, and index arrays decide which iterations need which."""
        carried = self.running.carried.get(loop, ())
        return self.loops[:1] == [loop] and any(n.instance.calls for n in carried)

    def placed(self, step: Step, body: Plan) -> Plan:
        """The node of a step around its body, run as the order says."""
        node = wrapped(step, body, self.parallel)
        if isinstance(node, Scan) and node.dim in self.loops:
            why = self.because(node.dim) or node.because
            return replace(node, down=node.dim in self.falling, because=why, chained=self.is_chained(node.dim))
        return node


def _is_row(instance: Instance, loop: str) -> bool:
    """Whether no sparse operand has the loop, and it runs fastest in the others that have it."""
    for operand in instance.reads:
        if any(loop in variables(s) for s in operand.subscripts):
            last = variables(operand.place[-1]) if operand.place else set()
            if operand.sparse or not any(_is_equal(instance.domain, n, loop) for n in last):
                return False
    return True


def _is_equal(known: Piece, one: str, two: str) -> bool:
    return one == two or known.implies(Constraint(True, Affine(((one, 1), (two, -1)))))


def _places(group: Group, point: Instance, order: _Order, context: Context) -> tuple[list[str], list[int]]:
    """Where each sum is made: inside of the loops of the point, after what it needs is written, or before all. And
    which of those inside are better made before, unless they ride."""
    inside_parts = [parts.inside(i, point, order.outer, context) for i in group.instances]
    places = [INSIDE] * len(inside_parts)
    for k, instance in enumerate(group.instances):
        need = order.need(instance)
        if need is not None and not order.rows and sum(n.instance is instance for n in order.found) == 1:
            after = parts.after(need, point, order.outer, context)
            if after is not None and parts.cheaper(inside_parts[k], after, context):
                places[k] = AFTER
    waiting = []
    for k, instance in enumerate(group.instances):
        if order.need(instance) is None and parts.cheaper(inside_parts[k], parts.alone(instance, context), context):
            carriers = (inside_parts[n] for n in range(len(inside_parts)) if n != k and places[n] == INSIDE)
            if any(alike(c, inside_parts[k], len(order.outer)) for c in carriers):
                waiting.append(k)
            else:
                places[k] = BEFORE
    return places, waiting


def _kept(group: Group, places: Sequence[str]) -> dict[str, Operand]:
    """The temporaries that are kept with all their places."""
    placed = zip(group.instances, places, strict=True)
    return {i.target.tensor: i.target for i, place in placed if place != INSIDE}


def _parts(group: Group, order: _Order, places: Sequence[str], context: Context) -> dict[int, SumNest]:
    """The sums that are not made before, each with its nest."""
    assert group.point is not None
    kept = _kept(group, places)
    parts_of = {}
    for k, (instance, place) in enumerate(zip(group.instances, places, strict=True)):
        if place != BEFORE:
            single = AFTER if place == AFTER else order.single(group, instance, kept)
            part = _part(instance, group.point, order, context, single)
            parts_of[k] = parts.chosen(part, order.placed, len(order.outer), context)
    nests = with_own_names(p.nest for p in parts_of.values())
    return {k: replace(part, nest=nest) for (k, part), nest in zip(parts_of.items(), nests, strict=True)}


def _nests(parts_of: Mapping[int, SumNest], order: _Order) -> list[FusedNest]:
    """The nests of those inside."""
    return fused([p for p in parts_of.values() if p.place == INSIDE], len(order.outer))


def _part(instance: Instance, point: Instance, order: _Order, context: Context, single: str) -> SumNest:
    """The sum in its place; `single` says how its target is kept."""
    need = order.need(instance)
    if need is not None and single == AFTER:
        after = parts.after(need, point, order.outer, context)
        assert after is not None
        return after
    if single == "variable":
        instance = (parts.without(instance, order.rows) if order.rows else None) or instance
    elif single == "row":
        instance = replace(instance, target=order.row(instance.target))
    return replace(parts.inside(instance, point, order.outer, context), need=need)


class _Fusion:
    """The loops of the point, with the sums and then the value inside. `kept` are temporaries with all their places."""

    def __init__(
        self,
        group: Group,
        order: _Order,
        all_parts: Sequence[SumNest],
        nests: Sequence[FusedNest],
        kept: Collection[str],
        context: Context,
    ) -> None:
        assert group.point is not None
        self.group = group
        self.point = group.point
        self.order = order
        self.found = all_parts
        self.found_nests = nests
        self.context = context
        sizes = [Compare(">=", Var(s), ZERO) for i in group.all for s in i.sizes]
        own_sums = frozenset(i.target.tensor for i in group.instances)
        within = Within(_indices(group), _facts(group), tuple(sizes), self.sharing, own_sums)
        self.given = Given(self.point, tuple(order.steps), context, within=within)
        self.rows: dict[str, Operand] = {}
        self.sums: list[str] = []
        for part in all_parts:
            target = part.instance.target
            if target.tensor in kept or target.tensor in self.sums:
                continue
            if order.rows and target.place:
                self.rows[target.tensor] = replace(order.row(self.point.target), array=target.array)
            else:
                self.sums.append(target.tensor)

    def nests(self) -> Nests:
        """The one nest of the statement."""
        return Nests((Version((), self.plan()),))

    def plan(self) -> Plan:
        inside = [p for p in self.found if p.place == INSIDE]
        last = [p for p in self.found if p.place == AFTER]
        setups: dict[str, list[Plan]] = {}
        for part in (*(n.carrier for n in self.found_nests), *last):
            for loop, nodes in part.setups().items():
                known = setups.setdefault(loop, [])
                known += [n for n in nodes if not any(_is_same(n, other) for other in known)]
        then = self.value(self.point.value)
        value, starts = self.started(inside)
        if starts:
            then = self.stored(value)
        if self.found:
            added = [n.body for n in self.found_nests]
            then = self.accumulated(_joined([*added, then, *(p.body for p in last)]), starts)
        for step in reversed(self.order.inner if starts else ()):
            then = self.order.placed(step, then)
        if not last:
            levels = self.levels(then, setups)
            if levels is not None:
                return self.checked(levels, value)
        return self.checked(self.folded(then, setups), value)

    def accumulated(self, plan: Plan, starts: Mapping[str, Value]) -> Plan:
        """The accumulators of the sums around what adds to them and reads them."""
        targets = {p.instance.target.tensor: p.instance.target for p in self.found}
        for tensor in reversed(self.sums):
            target = replace(targets[tensor], place=(), extents=(), subscripts=())
            plan = Accumulate(target, "", plan, start=starts.get(tensor), monoid=_monoid(self.group, tensor))
        for tensor, row in reversed(self.rows.items()):
            plan = Accumulate(replace(row, tensor=tensor), "", plan, Row(), monoid=_monoid(self.group, tensor))
        return plan

    def checked(self, plan: Plan, value: Value) -> Plan:
        """The plan, read back: the value and each sum at their points, in the loops that they share."""
        wanted = [w for n in self.found_nests for w in n.wanted()]
        wanted += [Wanted(p.instance, p.does) for p in self.found if p.place == AFTER]
        does = next(stores_in(self.stored(value)))
        self.known: set[tuple[Path, ...]] = set()
        self.wanted = [*wanted, Wanted(self.point, does)]
        try:
            self.compare(plan)
        except Fault as fault:
            raise InternalError(str(fault)) from None
        return plan

    def verify(self, nests: Nests) -> None:
        """The check after each pass."""
        (plan,) = nests.plans
        self.compare(plan)

    def compare(self, plan: Plan) -> None:
        compare_all(self.wanted, plan, self.known)
        check_parallel(plan, self.apart)

    def apart(self, loop: Scan | Find, tensor: str) -> bool:
        """Whether a loop is the one that threads may share, also by another name: no iteration needs what another one
        writes."""
        is_shared = self.order.parallel is not None and (
            loop.dim == self.order.parallel[0] or is_apart(self.point, self.order.steps, loop.dim)
        )
        for wanted in self.wanted if is_shared else ():
            if wanted.does.target.tensor == tensor:
                note_apart(wanted.instance, loop.dim)
        return is_shared

    def sharing(self, scan: Scan, mark: Mark) -> list[SharedPlaces]:
        """What iterations of a loop have to do with one another in the value and in each sum inside."""
        point, loop = self.point, mark.dim
        inside = {n.target.tensor for n in stores_in(scan.body)}
        inside -= {n.target.tensor for n in walk(scan.body) if _is_variable(n)}  # each iteration has its own
        shared = []
        if point.target.tensor in inside:
            self.order.check_free(mark, "be vectorized")
            shared.append(SharedPlaces(meetings(point, self.order.steps, loop), self.order.steps, False))
        for part in (p for p in self.found if p.instance.target.tensor in inside):
            own_loop = step_of(part, loop, self.found_nests)
            if own_loop is None:
                hint = "write its sums into tensors by statements of their own"
                raise Unsupported(f"`{loop}` cannot be vectorized: several sums run in it", mark.span, (hint,))
            written = point.target if part.place == INSIDE else None  # the value is known before what comes after
            meeting = meetings(part.instance, part.steps, own_loop, written)
            shared.append(SharedPlaces(meeting, part.steps, part.instance.target.tensor in self.sums))
        return shared

    def value(self, value: Value) -> Plan:
        """The value stored at the point, in its inner steps."""
        result = self.stored(value)
        for step in reversed(self.order.inner):
            result = self.order.placed(step, result)
        return result

    def stored(self, value: Value) -> Plan:
        """The value, stored at the point."""
        order, point = self.order, self.point
        known = known_at(point, order.steps)
        return guarded(point, known, stored_at(point, known, "=", self.with_rows(value)))

    def started(self, inside: Sequence[SumNest]) -> tuple[Value, dict[str, Value]]:
        """The value in which a difference `b - sum` is one variable that starts at b, where the sum is of what was
        just written: one operation less between it and what is written next; and what it starts at."""
        value = self.point.value
        waiting = {p.instance.target.tensor for p in inside if p.need is not None} & set(self.sums)
        dense = {p.instance.target.tensor for p in inside if not p.instance.calls}  # their sums are vectors
        waiting = {t for t in waiting - dense if TYPES[self.context.types[t]].kind in "fc"}
        if not self.context.makes(STARTED) or self.rows or any(s.kind == "scan" or s.guards for s in self.order.inner):
            return value, {}
        reads = [n.operand.tensor for n in walk(value) if isinstance(n, Read)]
        sums = {*self.sums, *(p.instance.target.tensor for p in self.found)}
        for node in walk(value):
            match node:
                case Apply("subtract", (first, Read(Operand(tensor=name)) as last)) if (
                    name in waiting and reads.count(name) == 1
                ):
                    if not any(isinstance(n, Read) and n.operand.tensor in sums for n in walk(first)):
                        return _replaced(value, node, last), {name: first}
        return value, {}

    def with_rows(self, value: Value) -> Value:
        """The value with the sums of rows read there."""

        def rule(node: object) -> Operand | None:
            if isinstance(node, Operand) and node.tensor in self.rows:
                return replace(self.rows[node.tensor], tensor=node.tensor)
            return None

        result: Value = rewrite(rule, value)
        return result

    def folded(self, plan: Plan, setups: Mapping[str, Sequence[Plan]]) -> Plan:
        """The loops of the point around a plan, with what finds inside need above them."""
        return self.around(plan, self.order.outer, setups)

    def around(self, plan: Plan, steps: Sequence[Step], setups: Mapping[str, Sequence[Plan]]) -> Plan:
        for step in reversed(steps):
            plan = self.order.placed(step, plan)
            for setup in reversed(setups.get(step.dim, ()) if step.kind == "scan" else ()):
                plan = with_body(setup, plan)
        return plan

    def levels(self, plan: Plan, setups: Mapping[str, Sequence[Plan]]) -> Plan | None:
        """The same level by level: where the outermost loop carries what index arrays decide, and nothing that finds
        need is kept from one iteration to any other."""
        order = self.order
        loop = order.loops[0] if order.loops else ""
        if not order.is_chained(loop):
            return None
        carried = order.running.carried[loop]
        if (
            order.parallel is not None
            or self.context.is_serial(loop)
            or any(self.context.marked(word, loop) is not None for word in IN_ORDER)
        ):
            return None
        if any(isinstance(s, SearchState) and s.extents for s in setups.get(loop, ())):
            return None
        inspected = [p.inspected(loop) for p in self.found if p.need in carried]
        if len(inspected) < len(carried) or any(f is None for f in inspected):
            return None
        at = next(k for k, s in enumerate(order.outer) if s.dim == loop)
        step = order.outer[at]
        looked_for = _joined([f for f in inspected if f is not None])
        inspect = self.around(looked_for, order.outer[at + 1 :], _needed(looked_for, setups))
        body = self.around(plan, order.outer[at + 1 :], setups)
        if step.guards:
            body, inspect = Guard(step.guards, body), Guard(step.guards, inspect)
        why = f"{order.because(loop)}; independent iterations run concurrently"
        wanted = self.context.marked("levels", loop) is not None
        result: Plan = LevelLoop(loop, step.low, step.high, body, inspect, loop in order.falling, why, wanted)
        for setup in reversed(setups.get(loop, ())):
            result = with_body(setup, result)
        return self.around(result, order.outer[:at], setups)


def _needed(plan: Plan, setups: Mapping[str, Sequence[Plan]]) -> dict[str, list[Plan]]:
    """Those setups whose names the plan uses, or one of those inside of them."""
    used = used_names(plan)
    setups_needed: dict[str, list[Plan]] = {}
    for loop, nodes in reversed([*setups.items()]):
        for node in reversed(nodes):
            if own_names(node) & used:
                setups_needed.setdefault(loop, []).insert(0, node)
                used |= used_names(node)
    return setups_needed


def _is_same(one: Plan, other: Plan) -> bool:
    """Whether two nests need the same table."""
    return isinstance(one, FindTable) and isinstance(other, FindTable) and one.name == other.name


def _is_variable(node: object) -> TypeGuard[Accumulate]:
    """Whether it is a temporary that each iteration around has for itself."""
    return is_temporary(node) and isinstance(node.storage, Variable)


def _joined(plans: Sequence[Plan]) -> Plan:
    return plans[0] if len(plans) == 1 else Block(tuple(plans))


def _replaced(value: Value, old: Value, new: Value) -> Value:
    result: Value = rewrite(lambda n: new if n == old else None, value)
    return result
