"""Steps: loops as they are written, or driven by what their body needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from typing import Any

from spfgen.errors import InternalError, SpecError, Unsupported
from spfgen.facts.formula import Expr, Formula, Var, conjuncts, variables
from spfgen.ir import children, walk
from spfgen.lang import nodes as lang
from spfgen.lang.fills import fill_text
from spfgen.lang.types import TYPES
from spfgen.lang.typing import settled
from spfgen.plan.analyse.comparisons import compares_all
from spfgen.plan.choices import GUARDED, HASHED, IN_ORDER, LOOP_FISSION
from spfgen.plan.nodes import Assign, Block, Break, Clear, Find, If, Let, Plan, Refuse, Repeat
from spfgen.plan.steps.earlier import earlier_writers
from spfgen.plan.steps.env import LOST, OUTSIDE, Env, Leaf, OutOfOrder, accesses_of, operator_name
from spfgen.plan.steps.invariant import LOOPS
from spfgen.plan.steps.loop_order import (
    are_independent,
    changed_by,
    ends_early,
    in_pieces,
    in_sides,
    order_is_free,
    read_by,
    with_gaps_asked,
    with_lets_inside,
)
from spfgen.plan.steps.places import OverflowChecks
from spfgen.plan.steps.product_nests import as_products
from spfgen.plan.steps.rewrites import PlannedStatement, PlannedSteps, rewritten
from spfgen.plan.verify.check_steps import check_steps
from spfgen.space.pattern_overflow import is_seen_later
from spfgen.space.regions import Region, smallest, union
from spfgen.space.steps import Equation, Gathered, GatherLink
from spfgen.space.typed import Holds, Scalar


class Loops(OverflowChecks):
    """Steps: loops as they are written, or driven by what their body needs."""

    def plan(self) -> Block:
        declared = len(self.before)
        parts = [p for s in self.steps.body for p in self.step(s, Env())]
        written = {n.target for s in self.steps.body for n in walk(s) if isinstance(n, Equation) and n not in self.sums}
        cleared = [Clear(name, f"`=` overwrites {name}") for name in sorted(self.assembled & written)]
        self.before[declared:declared] = cleared
        for name in self.collected:
            if name in self.assembled:
                parts += self.delivered(name)
        for name, status, is_asked in ((OUTSIDE, "RANGE", self.refuses), (LOST, "PLACE", self.loses)):
            if is_asked:
                self.before.insert(0, Let(name, "bool", lang.Constant(False)))
                parts.append(Refuse(name, status))
        given = PlannedStatement(
            self.context,
            tuple(self.grouped),
            self.tells_apart,
            self.fresh,
            self.kinds,
            self.sizes,
            {*self.program.size_names},
            self.axes,
            self.is_serial,
        )
        planned = PlannedSteps(tuple(self.before), tuple(parts))
        return rewritten(given, planned, lambda plan: check_steps(plan, self.program))

    def is_serial(self, dim: str) -> bool:
        """Whether the iterations of a loop run on one thread, whatever is known of them."""
        return self.context.is_serial(self.named.get(dim, dim))

    @property
    def axes(self) -> dict[str, int]:
        """Along which coordinate results can be packed by intervals."""
        assembled = [(t.name, t.assembled.layout) for t in self.program.tensors if t.assembled is not None]
        if not assembled:
            return {}
        from spfgen.layout.intervals import interval_axis  # with numpy, which dense results do not need

        axes = {name: interval_axis(layout) for name, layout in assembled}
        return {name: axis for name, axis in axes.items() if axis is not None}

    def step(self, step: Any, env: Env) -> list[Plan]:
        match step:
            case Equation():
                while_running = not any(step is s for s in self.steps.body)
                while_running = while_running or is_seen_later(step, self.steps, self.collected)
                asks = while_running or self.is_asked(step)
                has_places = not asks or step.target in self.dense or step.target in self.assembled
                products = as_products(self, step, env) if has_places else None
                if products is None:
                    return self.by_regions(step, env, asks, while_running)
                if self.compares_all(products) and self.may_be_by_regions(step):
                    restore = self.kept()
                    with suppress(SpecError, Unsupported):
                        by_regions = self.by_regions(step, env, asks, while_running)
                        if not self.compares_all(*self.before, *by_regions):
                            return by_regions
                    restore()
                self.sums.add(step)
                return [Block((products,), step.text)]
            case lang.For():
                return self.loops(step, env)
            case lang.If(condition, then, otherwise):
                lines, test, env = self.computed(condition, env)
                env = self.settled(env)
                match test:
                    case lang.Constant(known):
                        return [*lines, self.block(then if known else otherwise, env)]
                otherwise_block = self.block(otherwise, env) if otherwise else None
                return [*lines, If(test, self.block(then, env), otherwise_block)]
            case lang.Let(name, value):
                lines, computed_value, _ = self.computed(value, env)
                self.called[name] = self.fresh(name)
                return [*lines, Let(self.called[name], settled(self.scalars[name]).name, computed_value)]
            case lang.Set(name, op, value):
                lines, computed_value, _ = self.computed(value, env)
                scalar = Scalar(self.called[name], settled(self.scalars[name]).name)
                if op != "=":
                    computed_value = lang.Apply(operator_name(op), (scalar, computed_value), step.span, step.function)
                return [*lines, Assign(scalar.name, scalar.type, computed_value)]
            case lang.While(condition, body):
                lines, test, inner = self.computed(condition, env)
                ends = If(lang.Apply("logical_not", (test,)), Break())
                repeated = replace(self.settled(inner), again=True)
                return [Repeat(Block((*lines, ends, *self.block(body, repeated).parts)))]
            case lang.Break():
                return [Break()]
        raise InternalError(f"no plan of {step!r}")

    def by_regions(self, step: Equation, env: Env, asks: bool, while_running: bool) -> list[Plan]:
        """An equation region by region; where it `asks` whether all that is computed has a place, before that."""
        step = self.once(step)
        asked = self.asked_for_place(step, env) if asks else []
        env = replace(env, earlier=tuple(earlier_writers(self.steps.body, step)))
        computed = Block(tuple(self.equation(step, env)), step.text)
        if not asked or while_running:
            return [*asked, computed]
        return [*asked, If(lang.Apply("logical_not", (Scalar(LOST, "bool"),)), computed)]

    def compares_all(self, *plans: Plan) -> bool:
        """Whether all that one tensor stores is compared with all that another does, where entries could be looked up
        in hash tables."""
        return self.context.makes(HASHED) and compares_all(plans, self.nest_context.stored)

    def may_be_by_regions(self, eq: Equation) -> bool:
        """Whether a sum of products may be planned otherwise: not where its order matters, or the text says it."""
        read = [a for a in accesses_of(eq.value) if a.tensor == eq.target]
        return not (self.context.named or self.context.forced or any(a.subscripts != eq.subscripts for a in read))

    def block(self, steps: Sequence[Any], env: Env) -> Block:
        return Block(tuple(p for s in steps for p in self.step(s, env)))

    def loops(self, step: lang.For, env: Env) -> list[Plan]:
        """A loop as written: where its body does nothing but where some tensors store something, these drive."""
        if not order_is_free(step.body, step.indices, self.written):
            step = with_gaps_asked(step)
        parts = self.taken_apart(step, env) if self.context.makes(LOOP_FISSION) else []
        if parts:
            return [p for part in parts for p in self.loops(part, env)]
        effects = self.effects(step.body, env.known | set(step.indices), changed_in(step.body))
        asked = self.where_asked(step, effects, env) if self.context.makes(GUARDED) else []
        return asked or self.over(step, effects, env)

    def over(self, step: lang.For, regions_of_body: Sequence[Region] | None, env: Env) -> list[Plan]:
        """A loop whose body does nothing but in these regions."""
        conditions = () if step.where is None else tuple(conjuncts(step.where))
        free_range = set(step.indices) & self.steps.free
        for access in (a for s in step.body for a in accesses_of(s) if free_range & self.indices_in(a)):
            conditions = (*conditions, *self.inside(access))
        inner = replace(env, parallel=False)
        everywhere = [Region((), ())]

        def leaf(env: Env) -> Plan:
            return self.block(step.body, self.settled(env))

        if order_is_free(step.body, step.indices, self.written):
            apart = self.apart(step, env)
            regions = everywhere if regions_of_body is None else regions_of_body
            return self.passes(regions, step.indices, conditions, leaf, env if apart else inner, apart)
        if regions_of_body is not None and self.context.makes(IN_ORDER):
            in_order = self.in_order(step, regions_of_body, conditions, leaf, inner)
            if in_order is not None:
                return in_order
        return self.passes(everywhere, step.indices, conditions, leaf, inner)

    def where_asked(self, step: lang.For, regions: Sequence[Region] | None, env: Env) -> list[Plan]:
        """A loop under a condition that is one truth at all points at which nothing is stored along the loop: where it
        is false, as `A[i,k] > A[i,j]` for a positive A[i,j], the loop has only the others. [] where there is no such
        condition, or what is stored along the loop drives it anyway."""
        only = with_lets_inside(step.body)
        if only is None or only.otherwise or self.is_along(regions, step.indices):
            return []
        condition = only.condition
        known = env.known | set(step.indices)
        if not self.free(condition) <= known or any(a.tensor in self.written for a in accesses_of(condition)):
            return []
        beyond = self.regions.beyond(condition, step.indices)
        if beyond is None or isinstance(beyond[1], lang.Constant) or not self.is_along(beyond[0], step.indices):
            return []
        lines, holds_elsewhere, _ = self.computed(beyond[1], env)
        whole, part = (Block(tuple(self.over(step, f, env))) for f in (regions, beyond[0]))
        return [*lines, If(holds_elsewhere, whole, part, "it is the same at all points where nothing is stored")]

    def in_order(
        self, step: lang.For, regions: Sequence[Region], conditions: Sequence[Formula], leaf: Leaf, env: Env
    ) -> list[Plan] | None:
        """A loop whose order matters, driven by what its body needs; None where that is not proved to come in order."""
        if any(a.tensor in self.written for r in regions for a in r.accesses):
            return None  # it could grow meanwhile
        bodies: list[Plan] = []

        def body(env: Env) -> Plan:
            bodies.append(leaf(env))
            return bodies[-1]

        restore = self.kept()
        try:
            nests = self.passes(regions, step.indices, conditions, body, replace(env, order=step.indices))
        except OutOfOrder:
            restore()
            return None
        around = [loop for p in nests for body in bodies for loop in _loops_around(p, body)]
        if ends_early(step.body) and (len(around) != 1 or isinstance(around[0], Find)):
            restore()
            return None
        return nests

    def taken_apart(self, step: lang.For, env: Env) -> list[lang.For]:
        """A loop that asks in its body where it is, as several that need not: where tensors drive them, each begins and
        ends where its part of them does. [] where that is not so, or would change the order of what is done."""
        known, changed = env.known | set(step.indices), changed_in(step.body)
        free = order_is_free(step.body, step.indices, self.written)
        only = with_lets_inside(step.body)
        asked: Any = only.condition if only is not None and only.otherwise else None
        if only is not None and isinstance(asked, Holds):
            condition = asked.condition
            sparse = any(self.effects(part, known, changed) is not None for part in (only.then, only.otherwise))
            in_any_order = free or are_independent(only.then, only.otherwise)
            if sparse and self.is_affine(condition) and in_any_order:
                return in_sides(step, only, condition)
        return [] if free or self.effects(step.body, known, changed) is None else in_pieces(step)

    def apart(self, step: lang.For, env: Env) -> tuple[Expr, ...] | None:
        """What tells iterations apart that have nothing to do with one another: an index of the loop that is the same
        subscript of all that is written, and of what of it is read."""
        accesses = [a for s in step.body for a in accesses_of(s) if a.tensor in self.written]
        accesses += [lang.Access(n.target, n.subscripts) for s in step.body for n in walk(s) if isinstance(n, Equation)]
        local_scalars = {n.name for s in step.body for n in walk(s) if isinstance(n, lang.Let)}
        sets = {n.name for s in step.body for n in walk(s) if isinstance(n, lang.Set)}
        local = {t.name for t in self.program.temporaries} | {*self.collected, *self.collected.values()}
        if not accesses or not sets <= local_scalars or any(a.tensor in local for a in accesses):
            return None
        for index in step.indices:
            places: dict[str, set[int]] = {}
            for access in accesses:
                here = {k for k, s in enumerate(access.subscripts) if s == Var(index)}
                places[access.tensor] = places.get(access.tensor, here) & here
            if all(places.values()):
                return (Var(index),)
        return None

    def effects(self, steps: Sequence[Any], known: Set[str], changed: Set[str]) -> list[Region] | None:
        """The regions in which steps of a loop that changes these names do anything; None: everywhere."""
        return union([self.effect(s, known, changed) for s in steps])

    def effect(self, step: Any, known: Set[str], changed: Set[str]) -> list[Region] | None:
        def outer(regions: list[Region] | None, *values: Any) -> list[Region] | None:
            """The regions of these values."""
            return self.outer(regions, known, {n for v in values for n in led_to(v, changed)})

        match step:
            case lang.Let():
                return []
            case lang.Break():
                return None
            case Equation(updates=updates, value=value, indices=indices) if updates is not None and not step.at:
                neutral = updates.operator.identity_of(TYPES[self.kinds[step.target]])
                if neutral is not None and self.regions.fill(value) == neutral:
                    return outer(self.regions.of(value), value)
            case Equation(target=target, updates=None, value=value) if target in self.entries and not step.at:
                fill_of_value = self.regions.fill(value)
                if fill_of_value is not None and fill_text(fill_of_value) == fill_text(
                    self.tensors[target].layout.fill
                ):
                    before = [self.entries_of(w, step) for w in earlier_writers(self.steps.body, step)]
                    return outer(union([self.regions.of(value), *before]), value)
            case lang.Set(_, op, value) if op != "=":
                operator = lang.Apply(operator_name(op), (), function=step.function).operator
                neutral = operator.identity_of(settled(self.scalars[step.name]))
                if neutral is not None and self.regions.fill(value) == neutral:
                    return outer(self.regions.of(value), value)
            case lang.If(condition, then, otherwise):
                fill = self.regions.fill(condition)
                inside = _without_links(self.effects(then, known, changed))  # there it is looked at only if this holds
                if otherwise:
                    return union([inside, _without_links(self.effects(otherwise, known, changed))])
                asked = outer(self.regions.of(condition), condition) if fill is not None and not fill else None
                return smallest([asked, inside])
            case lang.For(indices, body):
                return outer(self.effects(body, {*known, *indices}, changed))
        return None

    def outer(self, regions: list[Region] | None, known: Set[str], leading: Set[str]) -> list[Region] | None:
        """Regions in terms of known indices only: accesses with others are left out. Values that lead to an access do
        so before the loop, if they are among those that may."""
        if regions is None:
            return None
        result = []
        for region in regions:
            gathers = [k for k in region.links if isinstance(k, GatherLink)]
            links = tuple(k for k in gathers if k.name in leading and self.free(k.at) <= known)
            later = {k.name for k in gathers if k not in links}
            kept = tuple(a for a in region.accesses if self.indices_in(a) <= known and not spoken_of(a) & later)
            where = tuple(c for c in region.where if self.indices_of(c) <= known and not variables(c) & later)
            if len(gathers) < len(region.links) or not (kept or where):
                return None
            spoken = {v for a in kept for v in spoken_of(a)}
            result.append(Region(kept, tuple(k for k in links if k.name in spoken), where))
        return list(dict.fromkeys(result))


def _without_links(regions: list[Region] | None) -> list[Region] | None:
    return None if regions is None or any(r.links for r in regions) else regions


def spoken_of(access: lang.Access) -> set[str]:
    """The names in the subscripts of an access."""
    return variables(*access.subscripts)


def changed_in(steps: Sequence[Any]) -> set[str]:
    """What steps of a loop change or have for themselves: tensors, and scalars as `let x`."""
    return changed_by(steps) | {f"let {n.name}" for s in steps for n in walk(s) if isinstance(n, lang.Let)}


def led_to(value: Any, changed: Set[str]) -> Iterator[str]:
    """The names of gathers within a value whose place is looked at in each iteration of a loop, and is the same in all
    of them, if the loop changes no more than that."""
    match value:
        case Gathered(name, at, inner):
            if not read_by((at,)) & changed:
                yield name
            yield from led_to(inner, changed)
        case lang.Apply(op, arguments):
            for argument in arguments[:1] if op in ("where", "logical_and", "logical_or") else arguments:
                yield from led_to(argument, changed)


def _loops_around(plan: Plan, body: Plan) -> list[Plan]:
    """The loops that stand around a body."""
    if plan is body or not any(n is body for n in walk(plan, Plan)):
        return []
    outer = [plan] if isinstance(plan, LOOPS) else []
    return outer + [loop for n in children(plan) if isinstance(n, Plan) for loop in _loops_around(n, body)]
