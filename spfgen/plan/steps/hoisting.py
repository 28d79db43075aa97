"""Reductions of all points at once, in the order in which their operands are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from spfgen.facts.formula import Var
from spfgen.ir import walk
from spfgen.lang import nodes as lang
from spfgen.lang.signs import PLACES
from spfgen.lang.typing import settled
from spfgen.plan.context import Context
from spfgen.plan.nodes import Block, Clear, Collect, Find, If, Let, Plan, Scan, Segment, UpdateEntry
from spfgen.plan.steps.env import Env, Leaf, accumulator, cast, key_of, number_of
from spfgen.plan.steps.inverses import Inverses
from spfgen.plan.steps.reductions import conditions_of, one_index, outermost
from spfgen.plan.steps.scalarize_tables import Grouped
from spfgen.space.local_tensors import entries_of, own_tensor
from spfgen.space.nodes import Program, Steps
from spfgen.space.regions import Region
from spfgen.space.steps import Chosen, Equation, Gathered
from spfgen.space.typed import Scalar

AGAIN = "its entries are totals of this run"


class Hoisting(Inverses):
    """Reductions of all points at once, in the order in which their operands are stored."""

    def __init__(self, steps: Steps, program: Program, context: Context) -> None:
        super().__init__(steps, program, context)
        self.grouped: list[Grouped] = []
        """Tables of reductions."""

    def hoisted(self, eq: Equation, env: Env) -> tuple[list[Plan], Equation]:
        """Reductions whose operand cannot be gone through point by point without looking for each entry are made for
        all points first, in the operand's own order."""
        if env.known:
            return [], eq
        always = (eq.target in self.dense or eq.target in self.entries) and not eq.within
        always = always and eq.where is None and not any(isinstance(n, Chosen) for n in walk(eq.value))
        parts: list[Plan] = []
        somewhere = self.regions.of(eq.value) is not None

        def rule(node: Any) -> Any:
            if not isinstance(node, lang.Reduce) or (somewhere and self.is_wider(node)):
                return None
            if not always and any(isinstance(n, Gathered) for n in walk(node)):
                return None  # what a value says is looked at only where it counts
            if self.is_scattered(node, eq):
                all_points = self.arguments if node.op in PLACES else self.of_all_points
                more, access = all_points(node, env.again)
            elif self.repeats(node, eq):
                more, access = self.in_memory(node, env)
            else:
                return None
            parts.extend(more)
            return access

        value = outermost(rule, eq.value)
        return (parts, replace(eq, value=value)) if parts else ([], eq)

    def is_wider(self, node: lang.Reduce) -> bool:
        """Whether it has something to combine at more points than those at which anything is stored: what asks for it
        at some points makes it there."""
        spoken = self.free(node) | {*node.indices}
        regions = [r for r in self.regions.of(node.value) or () if not r.links]
        return any(spoken - {i for a in r.accesses for i in self.indices_in(a)} for r in regions)

    def is_scattered(self, node: lang.Reduce, eq: Equation) -> bool:
        """Whether, with the indices around it known, a nest of the reduction would look for entries in a loop that runs
        over everything."""
        if not (node.op in PLACES or self.types.is_orderless(node)) or not self.may_be_made_first(node):
            return False
        known = self.free(node) & set(eq.indices)
        if not known or not self.free(node) <= set(eq.indices):
            return False
        regions = self.regions.of(node.value)
        if not regions or self.regions.fill(node.value) is None:
            return False
        if node.op in PLACES:
            counts = True
        else:
            counts = self.types.identity(node) != self.regions.fill(node.value)
        if counts and (conditions_of(node) or not (node.op in PLACES or self.has_power(node))):
            return False
        return any(self.looks_everywhere(n) for nest in self.tried(node, regions) for n in walk(nest, Plan))

    def repeats(self, node: lang.Reduce, eq: Equation) -> bool:
        """Whether a nest of the equation runs over all values of the indices that the reduction speaks of, in a loop
        inside of one over another index: it would be made again and again."""
        free = self.free(node)
        if not free or not free < set(eq.indices) or not self.may_be_made_first(node):
            return False
        target = lang.Access(eq.target, eq.subscripts, eq.span)
        if (
            eq.target not in self.dense
            or self.indices_in(target) != set(eq.indices)
            or self.regions.of(eq.value) is not None
        ):
            return False
        labels = set(self.labels)
        nests = self.nests((target,), eq.indices, (), lambda _: Block(()), Env(parallel=False))
        self.labels = labels
        order = [[n.dim for n in walk(nest, Plan) if isinstance(n, Scan)] for nest in nests]
        return any(set(dims) == set(eq.indices) and set(dims[: len(free)]) != free for dims in order)

    def in_memory(self, node: lang.Reduce, env: Env) -> tuple[list[Plan], lang.Access]:
        """The reduction at all points of the indices around it, one after another, in memory of the kernel's."""
        indices = tuple(sorted(self.free(node)))
        name, kind = self.fresh(accumulator(node.op)), self.types.of(node)
        self.own(name, kind.name, None, [self.extent_name(i) for i in indices])
        access = lang.Access(name, tuple(Var(i) for i in indices))
        return self.equation(Equation(name, access.subscripts, indices, node), env), access

    def equation(self, eq: Equation, env: Env) -> list[Plan]:
        """What is done for an equation: equations.py."""
        raise NotImplementedError

    def nested(self, value: Any, env: Env) -> tuple[list[Plan], Any, list[str]]:
        """Reductions within reductions whose entries would have to be looked for, at points that are mostly not stored,
        become tables of the points that are; the indices over which a point has to have something, for its fill to be
        that of what it combines."""
        lines: list[Plan] = []
        needed: list[str] = []

        def rule(node: Any) -> Any:
            if not isinstance(node, lang.Reduce):
                return None
            somewhere = self.regions.of(node.value) is not None
            inner = outermost(lambda n: within(n, somewhere), node.value)
            return node if inner == node.value else replace(node, value=inner)

        def within(node: Any, somewhere: bool) -> Any:
            if not isinstance(node, lang.Reduce) or (somewhere and self.is_wider(node)):
                return None
            limited = self.regions.of(node.value) is not None
            inner = outermost(lambda n: within(n, limited), node.value)
            node = node if inner == node.value else replace(node, value=inner)
            regions, free = self.regions.of(node.value), tuple(sorted(self.free(node)))
            if any(isinstance(n, Gathered) for n in walk(node)):
                return node  # what a value says is looked at only where it counts
            if not regions or not free or not self.is_looked_for(node, regions):
                return node
            more, access, fills = self.as_table(node, free, regions, env.again)
            lines.extend(more)
            needed.extend(node.indices if fills else ())
            return access

        result = outermost(rule, value)
        return lines, result, needed

    def is_looked_for(self, node: lang.Reduce, regions: Sequence[Region]) -> bool:
        """Whether a reduction can be a table, and has to look for its entries where the indices around are known."""
        if not self.types.is_orderless(node) or not self.may_be_made_first(node):
            return False
        fill, neutral = self.regions.fill(node.value), self.types.identity(node)
        operator = lang.Apply(node.op, (), node.span, node.function).operator
        if fill is None or neutral is None:
            return False
        if fill != neutral and (conditions_of(node) or not operator.is_idempotent(self.types.reduced(node))):
            return False
        return any(isinstance(n, Find | Segment) for nest in self.tried(node, regions) for n in walk(nest, Plan))

    def tried(self, node: lang.Reduce, regions: Sequence[Region]) -> list[Plan]:
        """The nests of a reduction where the indices around are known, with nothing in them."""
        labels, env = set(self.labels), Env(frozenset(self.free(node)), parallel=False)
        empty = Block(())
        nests = [p for r in regions for p in self.driven_by(r, node.indices, conditions_of(node), lambda _: empty, env)]
        self.labels = labels
        return nests

    def may_be_made_first(self, node: lang.Reduce) -> bool:
        """Whether its points are known beforehand, and its values are the same then. An index that only accesses bound
        has no extent."""
        if any(self.is_of_a_step(n) for n in walk(node)):
            return False
        return self.free(node) <= self.extents.keys()

    def is_of_a_step(self, node: Any) -> bool:
        """Whether it is a scalar of a `let`, which steps may change."""
        return isinstance(node, lang.Local) and node.name not in self.constants

    def of_all_points(self, node: lang.Reduce, again: bool) -> tuple[list[Plan], lang.Access]:
        """The reduction at all points of the indices around it, into memory of the kernel's, which holds what was there
        before where this runs `again`."""
        indices = tuple(sorted(self.free(node)))
        kind = self.types.reduced(node)
        neutral, fill = self.types.identity(node), self.regions.fill(node.value)
        name = self.fresh(accumulator(node.op))
        names = [self.extent_name(i) for i in indices]
        self.own(name, kind.name, 0 if neutral is None else neutral, names)
        counter = ""
        if neutral is None or neutral != fill:
            counter = self.fresh("visited")
            self.own(counter, "int64", 0, names)
        subscripts = tuple(Var(i) for i in indices)
        total, count = lang.Access(name, subscripts), lang.Access(counter, subscripts)
        operator = lang.Apply(node.op, (), node.span, node.function)
        adding = Equation(name, subscripts, (), None, operator)
        counting = Equation(counter, subscripts, (), None, lang.Apply("add", ()))
        first = Equation(name, subscripts, (), None)

        def combined(value: Any, inner: Env) -> list[Plan]:
            value = cast(value, kind.name)
            more = self.stored(adding, total, value, inner)
            if neutral is None:
                lines, seen, _ = self.computed(count, inner)
                never = lang.Apply("equal", (seen, lang.Constant(0)))
                more = [*lines, If(never, Block(tuple(self.stored(first, total, value, inner))), Block(tuple(more)))]
            return more

        def leaf(inner: Env) -> Plan:
            lines, value = self.point_value(node.value, inner)
            done = combined(value, inner)
            if counter:
                done += self.stored(counting, count, lang.Constant(1), inner)
            return Block((*lines, *done))

        conditions = conditions_of(node)
        regions = self.regions.of(node.value)
        assert regions is not None
        parts: list[Plan] = []
        for access, start in ((total, 0 if neutral is None else neutral), (count, 0)) if again else ():
            if access.tensor:
                number = number_of(start, self.kinds[access.tensor])
                parts += self.filled(Equation(access.tensor, subscripts, indices, None), access, number, Env())
        parts += self.passes(regions, (*indices, *node.indices), conditions, leaf, Env(), subscripts)
        if counter:
            whole = self.whole(node.indices)

            def last(inner: Env) -> Plan:
                lines, seen, inner = self.computed(count, inner)
                missing = lang.Apply("subtract", (lang.Index(whole), seen))
                number = number_of(fill, settled(self.types.kind(node.value)).name)
                value = self.power(node, number, missing, kind.name)
                more = Block(tuple(combined(value, inner)))
                return Block((*lines, If(lang.Apply("less", (seen, lang.Index(whole))), more)))

            parts += self.passes([Region((count,))], indices, (), last, Env(), subscripts)
        return parts, total

    def arguments(self, node: lang.Reduce, again: bool) -> tuple[list[Plan], lang.Access]:
        """`argmin` or `argmax` at all points of the indices around it: the best value so far and its place are in
        memory, and how many were looked at."""
        indices = tuple(sorted(self.free(node)))
        index = one_index(node)
        kind = self.types.of(node.value).name
        names = [self.extent_name(i) for i in indices]
        subscripts = tuple(Var(i) for i in indices)
        kept: list[lang.Access] = []
        for wanted, element_type, start in (("best", kind, 0), (node.op, "int64", -1), ("visited", "int64", 0)):
            name = self.fresh(wanted)
            self.own(name, element_type, start, names)
            kept.append(lang.Access(name, subscripts))
        best, at, visited = kept

        def put(access: lang.Access, value: Any, env: Env, updates: lang.Apply | None = None) -> list[Plan]:
            return self.stored(Equation(access.tensor, subscripts, (), None, updates), access, value, env)

        def leaf(inner: Env) -> Plan:
            lines, value = self.point_value(node.value, inner)
            first, old, inner = self.computed(best, inner)
            second, place, inner = self.computed(at, inner)
            here = lang.Index(Var(index))
            taken = Block((*put(best, cast(value, kind), inner), *put(at, here, inner)))
            count = put(visited, lang.Constant(1), inner, lang.Apply("add", ()))
            return Block((*lines, *first, *second, If(self.is_better(node, value, here, old, place), taken), *count))

        def last(inner: Env) -> Plan:
            first, old, inner = self.computed(best, inner)
            second, place, inner = self.computed(at, inner)
            third, seen, inner = self.computed(visited, inner)
            last_place = Scalar(self.fresh("found"), "int64")
            remaining = self.first_of_the_rest(node, old, last_place, seen, inner)
            place_known = Let(last_place.name, "int64", place)
            return Block((*first, *second, *third, place_known, *remaining, *put(at, last_place, inner)))

        parts: list[Plan] = []
        for access, start in ((at, -1), (visited, 0)) if again else ():
            eq = Equation(access.tensor, subscripts, indices, None)
            parts += self.filled(eq, access, number_of(start, "int64"), Env())
        regions = self.regions.of(node.value)
        assert regions is not None
        parts += self.passes(regions, (*indices, *node.indices), (), leaf, Env(), subscripts)
        parts += self.passes([Region((visited,))], indices, (), last, Env(), subscripts)
        return parts, at

    def tabled(self, eq: Equation, env: Env) -> tuple[list[Plan], Equation]:
        """Reductions that are their identity at most points become tables of the others."""
        if env.known:
            return [], eq
        parts: list[Plan] = []

        somewhere = self.regions.of(eq.value) is not None

        def rule(node: Any) -> Any:
            if not isinstance(node, lang.Reduce) or any(self.is_of_a_step(n) for n in walk(node)):
                return None
            if somewhere and self.is_wider(node):
                return None
            free, neutral, fill = self.free(node), self.types.identity(node), self.regions.fill(node.value)
            regions = self.regions.of(node.value)
            if not free or not free <= set(eq.indices) or not regions or neutral is None or fill != neutral:
                return None
            if not self.types.is_orderless(node) or self.is_made_outside(node, eq, regions):
                return None
            more, access, _ = self.as_table(node, tuple(sorted(free)), regions, env.again)
            parts.extend(more)
            return access

        value = outermost(rule, eq.value)
        return (parts, replace(eq, value=value)) if parts else ([], eq)

    def is_made_outside(self, node: lang.Reduce, eq: Equation, regions: Sequence[Region]) -> bool:
        """Whether the loops over the points of an equation have the indices that a reduction speaks of outside, where
        it is made without looking for entries, and what it combines says nothing about which points these are."""
        points = self.regions.of(eq.value)
        if points is None or replace(self.regions, reduced=True).of(eq.value) != points:
            return False
        free = self.free(node)
        labels, env = set(self.labels), Env(parallel=False)
        nests = [p for r in points for p in self.driven_by(r, eq.indices, (), lambda _: Block(()), env)]
        self.labels = labels
        order = [[n.dim for n in walk(nest, Plan) if isinstance(n, Scan)] for nest in nests]
        return all(set(dims[: len(free)]) == free for dims in order) and not self.is_looked_for(node, regions)

    def as_table(
        self, node: lang.Reduce, indices: tuple[str, ...], regions: Sequence[Region], again: bool
    ) -> tuple[list[Plan], lang.Access, bool]:
        """A table of the points at which a reduction has anything to combine; whether its fill is that of what is
        combined, which is so where there is anything: then how many points were combined is counted, and the fill is
        combined last where it was not all of them."""
        kind, neutral, fill = self.types.reduced(node), self.types.identity(node), self.regions.fill(node.value)
        fills = neutral != fill
        table = self.new_table(accumulator(node.op), kind.name, indices, fill if fills else neutral)
        counts = self.new_table("visited", "int64", indices, 0) if fills else ""
        subscripts = tuple(Var(i) for i in indices)
        operator = lang.Apply(node.op, (), node.span, node.function)

        def entry(name: str, kind: str, start: Any, new: Any) -> Plan:
            old = Scalar(self.fresh("before"), kind)
            value = cast(replace(new, arguments=(old, *new.arguments)), kind)
            return UpdateEntry(name, kind, subscripts, value, old.name, number_of(start, kind).value)

        def leaf(inner: Env) -> Plan:
            lines, value = self.point_value(node.value, inner)
            done = [entry(table, kind.name, neutral, replace(operator, arguments=(cast(value, kind.name),)))]
            if counts:
                done.append(entry(counts, "int64", 0, lang.Apply("add", (lang.Constant(1),))))
            return Block((*lines, *done))

        alone = Env(parallel=False)
        body = self.passes(regions, (*indices, *node.indices), conditions_of(node), leaf, alone)
        why = f"{node.op} at the points at which there is anything to combine"
        extents = self.extents_of(self.tensors[table])
        total = lang.Access(table, subscripts)
        nests: list[Plan] = []
        names = [(table, kind.name), *([(counts, "int64")] if counts else [])]
        if again or counts:
            self.before += [Collect(name, element_type, extents, Block(()), why) for name, element_type in names]
            nests += [*(Clear(name, AGAIN) for name, _ in names), *body] if again else body
        else:
            nests.append(Collect(table, kind.name, extents, Block(tuple(body)), why))
        seen = "" if counts else self.fresh("seen")
        self.grouped.append(Grouped(table, kind.name, counts, seen, subscripts, extents))
        if counts:
            nests += self.nests((lang.Access(counts, subscripts),), (), (), self.completing(node, total, counts), alone)
        return nests, total, fills

    def completing(self, node: lang.Reduce, total: lang.Access, counts: str) -> Leaf:
        """What is done for an entry that has not combined all points: the others have the fill."""
        kind, fill = self.types.reduced(node), self.regions.fill(node.value)
        operator = lang.Apply(node.op, (), node.span, node.function)

        def leaf(inner: Env) -> Plan:
            seen = inner.values[key_of(lang.Access(counts, total.subscripts))]
            old = Scalar(self.fresh("before"), kind.name)
            value = cast(replace(operator, arguments=(old, number_of(fill, kind.name))), kind.name)
            last = UpdateEntry(
                total.tensor, kind.name, total.subscripts, value, old.name, number_of(fill, kind.name).value
            )
            return If(lang.Apply("less", (seen, lang.Index(self.whole(node.indices)))), last)

        return leaf

    def new_table(self, wanted: str, kind: str, indices: Sequence[str], fill: Any) -> str:
        """A table of entries at values of the indices, empty at first."""
        name = self.fresh(wanted)
        layout = own_tensor(name, kind, [self.extent_name(i) for i in indices])
        self.tensors[name] = entries_of(name, replace(layout, layout=replace(layout.layout, fill=fill)))
        self.kinds[name] = kind
        self.labels.add(name)
        self.tables[name] = name
        return name
