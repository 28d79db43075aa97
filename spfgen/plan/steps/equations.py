"""Equations: region by region, each point once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from spfgen.facts.formula import ZERO, Compare, Formula, Var, conjunction, conjuncts, substitute
from spfgen.ir import rewrite
from spfgen.lang import nodes as lang
from spfgen.lang.fills import fill_text
from spfgen.lang.products import is_sum_of_products
from spfgen.lang.types import TYPES
from spfgen.lang.uses import divides, outside_of_reductions
from spfgen.layout.proofs import stored_once
from spfgen.plan.nodes import Block, Clear, If, Let, Plan, Probe
from spfgen.plan.steps.env import Env, Leaf, accesses_of, cast, joined, number_of
from spfgen.plan.steps.hoisting import Hoisting
from spfgen.plan.steps.reduction_nests import in_one_nest
from spfgen.plan.steps.stores import writes_all
from spfgen.space.nodes import Tensor
from spfgen.space.regions import Region, union
from spfgen.space.steps import Chosen, Equation, GatherLink
from spfgen.space.typed import Holds, Scalar


class Equations(Hoisting):
    """Equations: region by region, each point once."""

    def equation(self, eq: Equation, env: Env) -> list[Plan]:
        nest = None if eq.value is None else in_one_nest(self, eq, env)
        if nest is not None:
            return nest
        if eq.rest is None and eq.value is not None and eq.updates is None and eq.target in self.dense:
            eq = replace(eq, rest=self.rest_of(eq))  # before reductions become tables
        first = self.reductions_first(eq, env)
        if first is not None:
            return first
        if eq.selects and eq.where is not None and eq.target in self.collected and eq.updates is None:
            old = lang.Access(self.collected[eq.target], eq.subscripts, eq.span)
            return self.equation(replace(eq, value=Chosen(eq.where, eq.value, old), where=None), env)
        if eq.indices and any(a.tensor == self.collected.get(eq.target) for a in accesses_of(eq.value)):
            return self.from_table_before(eq, env)
        if eq.at:
            is_read = bool(eq.indices) and any(a.tensor == eq.target for a in accesses_of(eq.value))
            return self.from_copy(eq, env) if is_read and eq.target in self.dense else self.scattered(eq, env)
        if eq.target in self.assembled or eq.target in self.collected:
            return self.to_entries(eq, env)
        in_pattern = eq.target not in self.dense or eq.within
        return self.to_pattern(eq, env) if in_pattern else self.to_dense(eq, env)

    def reductions_first(self, eq: Equation, env: Env) -> list[Plan] | None:
        """The equation behind the reductions of its value that are made before it, if there are any."""
        if eq.value is None:
            return None
        if not env.known and not env.point_by_point:
            lines, value, needed = self.nested(eq.value, env)
            if lines:
                return self.unless_empty(eq, lines, value, needed, env)
        first, value = self.made_once(eq.value, eq.indices, env)
        return [*first, *self.equation(replace(eq, value=value), env)] if first else None

    def to_pattern(self, eq: Equation, env: Env) -> list[Plan]:
        """A result of which only what it stores is computed."""
        access = lang.Access(eq.target, eq.subscripts, eq.span)
        reads, some = _own_reads(eq), _leaves_some(eq, env)
        first, eq = ([], eq) if reads else self.hoisted(eq, env)
        if first:
            return [*first, *self.equation(eq, env)]
        emptied = eq.updates is None and not eq.selects and not eq.within and (some or eq.where is not None)
        if emptied and reads:
            return self.from_copy(eq, env)
        empty = lang.Constant(self.tensors[eq.target].layout.fill)
        if emptied and some:
            return [*self.emptied(eq.target), *([] if eq.value == empty else self.within(eq, access, env))]
        first = self.filled(eq, access, empty, env) if emptied else []
        return [*first, *self.within(eq, access, env)]

    def to_dense(self, eq: Equation, env: Env) -> list[Plan]:
        """A result with a value everywhere."""
        reads, some = _own_reads(eq), _leaves_some(eq, env)
        elsewhere = reads - {(eq.target, eq.subscripts)}
        if (elsewhere and eq.indices) or (some and reads):  # one place is read before it is written anyhow
            return self.from_copy(eq, env)
        if some:
            others = replace(eq, selects=True)  # all else has been made empty
            alike = isinstance(eq.value, lang.Constant) and fill_text(eq.value.value) == fill_text(eq.rest)
            return [*self.emptied(eq.target, eq.rest), *([] if alike else self.equation(others, env))]
        first, eq = self.hoisted(eq, env)
        if first:
            return [*first, *self.equation(eq, env)]
        access = lang.Access(eq.target, eq.subscripts, eq.span)
        env = replace(env, plain=self.is_as_in_numpy(eq.value))
        conditions = self.where_it_runs(eq, access)
        parts, regions = self.fills_first(eq, access, conditions, env, known=not reads)

        def leaf(inner: Env) -> Plan:
            lines, value = self.point_value(eq.value, inner)
            return Block((*lines, *self.stored(eq, access, value, inner)))

        return [*parts, *self.passes(regions, eq.indices, conditions, leaf, env, eq.subscripts)]

    def fills_first(
        self, eq: Equation, access: lang.Access, conditions: Sequence[Formula], env: Env, known: bool
    ) -> tuple[list[Plan], list[Region]]:
        """What is stored before, where the value is what fill values alone give, and the regions of all other points:
        one with all points where that is not `known`."""
        regions = replace(self.regions, exact=env.plain)
        regions_of_value = regions.of(eq.value) if known else None
        fill = regions.fill(eq.value) if known else None
        parts: list[Plan] = []
        if eq.updates is not None:
            neutral = eq.updates.operator.identity_of(TYPES[self.tensors[eq.target].value_type])
            if fill is None or neutral is None or fill != neutral:
                regions_of_value = None
        elif regions_of_value is None or fill is None:
            regions_of_value = None
            if conditions and not eq.selects:
                parts += self.filled(eq, access, lang.Constant(eq.rest), env)
        else:
            apart = bool(conditions) and not eq.selects and fill_text(eq.rest) != fill_text(fill)
            parts += self.filled(eq, access, lang.Constant(eq.rest), env) if apart else []
            parts += self.filled(eq, access, lang.Constant(fill), env, conditions if eq.selects or apart else ())
        return parts, [Region((access,))] if regions_of_value is None else regions_of_value

    def is_as_in_numpy(self, value: Any) -> bool:
        """Whether a dense result is what numpy computes at every point, where what is not stored decides nothing: it
        divides, or adds something to an infinity that is not stored, outside of reductions."""
        return divides(value) or any(self.regions.is_endless(n) for n in outside_of_reductions(value))

    def rest_of(self, eq: Equation) -> Any:
        """What a dense result is where an equation does not compute it: its fill value if it declares one, else what
        constants and fill values alone say that the value is where nothing is stored; 0 where they do not."""
        declared_fill = self.tensors[eq.target].layout.fill
        if declared_fill != 0 or self.leaves_zeros(eq.value):
            return declared_fill
        fill = replace(self.regions, exact=self.is_as_in_numpy(eq.value)).fill(eq.value)
        return declared_fill if fill is None else fill

    def leaves_zeros(self, value: Any) -> bool:
        """Whether what is not computed is 0, whatever the value is where nothing is stored: of sums of products."""
        read = {a.tensor for a in accesses_of(value)}
        return is_sum_of_products(value) and all(self.tensors[t].layout.fill == 0 for t in read)

    def unless_empty(self, eq: Equation, lines: list[Plan], value: Any, needed: list[str], env: Env) -> list[Plan]:
        """The equation with tables of its reductions; where an extent is 0 that has to have something, without."""
        fast = [*lines, *self.equation(replace(eq, value=value), env)]
        if not needed:
            return fast
        some = conjunction([Compare("<", ZERO, self.extents[i]) for i in dict.fromkeys(needed)])
        point_by_point = self.equation(eq, replace(env, point_by_point=True))
        return [If(Holds(some), Block(tuple(fast)), Block(tuple(point_by_point)))]

    def where_it_runs(self, eq: Equation, access: lang.Access) -> tuple[Formula, ...]:
        """The condition of an equation, and that its target is inside where nothing else bounds an index."""
        conditions = [] if eq.where is None else [*conjuncts(eq.where)]
        if self.indices_in(access) & self.steps.free & {*eq.indices}:
            conditions += self.inside(access)
        return tuple(dict.fromkeys(conditions))

    def within(self, eq: Equation, access: lang.Access, env: Env) -> list[Plan]:
        """A target that stores some points only: those drive."""

        def leaf(inner: Env) -> Plan:
            lines, value = self.point_value(eq.value, inner)
            return Block((*lines, *self.stored(eq, access, value, inner)))

        conditions = self.where_it_runs(eq, access)
        region = Region((access, *self.alike(access, eq.value)))
        return self.passes([region], eq.indices, conditions, leaf, env, eq.subscripts)

    def alike(self, access: lang.Access, value: Any) -> list[lang.Access]:
        """The accesses of a value that store something wherever this one does, and nowhere else: all index arrays of
        their tensors are the same."""
        tensor = self.tensors[access.tensor]
        accesses = dict.fromkeys(a for a in accesses_of(value) if a.subscripts == access.subscripts and a != access)
        return [a for a in accesses if tensor.arrays and _has_pattern_of(self.tensors[a.tensor], tensor)]

    def scattered(self, eq: Equation, env: Env) -> list[Plan]:
        """A target whose places are values: each point of the indices is met, and its place looked at."""
        target = self.tensors[eq.target]
        access = lang.Access(eq.target, eq.subscripts, eq.span)
        conditions = self.where_it_runs(eq, access)
        env = replace(env, plain=eq.target in self.dense and self.is_as_in_numpy(eq.value))
        regions: list[Region] | None = None
        if eq.updates is not None:
            neutral = eq.updates.operator.identity_of(TYPES[target.value_type])
            if neutral is not None and self.regions.fill(eq.value) == neutral:
                regions = self.regions.of(eq.value)
        writers: list[tuple[GatherLink, str]] = []
        whole = eq.updates is None and eq.where is None and not (env.known or env.again or eq.selects or conditions)
        if whole and self.is_fill_of(self.regions.fill(eq.value), target):
            writers = self.last_writers(eq, access) or []
            regions = self.regions.of(eq.value) if writers else None
        parts: list[Plan] = []
        if eq.updates is None and not env.known and not env.again and not eq.selects:
            if eq.target in self.collected:
                parts += [Clear(self.collected[eq.target], f"`=` overwrites {eq.target}")]
            elif eq.target not in self.assembled:
                parts += self.emptied(eq.target, eq.rest)

        def leaf(inner: Env) -> Plan:
            lines: list[Plan] = []
            for place in eq.at:
                more, inner = self.placed(place.name, place.value, access, inner)
                lines += more
            more, value = self.point_value(eq.value, inner)
            done = Block((*more, *self.stored(eq, access, value, inner)))
            if not writers:
                return Block((*lines, *done.parts))
            asked, tests = self.is_last(writers, inner)
            return Block((*lines, *asked, If(joined("logical_and", tests), done, None, "the last one counts")))

        return [*parts, *self.passes([Region(())] if regions is None else regions, eq.indices, conditions, leaf, env)]

    def is_fill_of(self, number: Any, target: Tensor) -> bool:
        """Whether a number is what the target holds where nothing is stored."""
        stored = None if number is None else number_of(number, target.value_type).value
        return stored is not None and fill_text(stored) == fill_text(target.layout.fill)

    def from_copy(self, eq: Equation, env: Env) -> list[Plan]:
        """A statement that reads its target elsewhere: what it reads is the target before the statement. Of an index
        that is the same subscript everywhere only its own part is copied."""
        tensor = self.tensors[eq.target]
        name = self.fresh(f"{eq.target}_before")
        self.own(name, tensor.value_type, None, tensor.extents)
        every = [eq.subscripts, *(a.subscripts for a in accesses_of(eq.value) if a.tensor == eq.target)]
        indices, subscripts = [], []
        for index, (first, *others) in zip(self.indices_for(tensor), zip(*every, strict=True), strict=True):
            is_one = isinstance(first, Var) and first.name in env.known and all(s == first for s in others)
            subscripts.append(first if is_one else Var(index))
            indices += [] if is_one else [index]
        old = lang.Access(eq.target, tuple(subscripts))
        copy = lang.Access(name, tuple(subscripts))
        copied = Equation(name, copy.subscripts, tuple(indices), old)

        def leaf(inner: Env) -> Plan:
            lines, value = self.point_value(old, inner)
            return Block((*lines, *self.stored(copied, copy, value, inner)))

        def rule(node: Any) -> Any:
            if isinstance(node, lang.Access) and node.tensor == eq.target:
                return replace(node, tensor=name)
            return None

        alone = replace(env, parallel=not env.known)
        first = self.passes([Region((copy,))], indices, (), leaf, alone, copy.subscripts)
        return [*first, *self.equation(replace(eq, value=rewrite(rule, eq.value)), env)]

    def from_table_before(self, eq: Equation, env: Env) -> list[Plan]:
        """The same of a target whose entries are kept in a table: the table of before is another one."""
        name, tensor = self.fresh(f"{eq.target}_before"), self.tensors[eq.target]
        self.tensors[name], self.kinds[name] = tensor, self.kinds[eq.target]
        self.keep(name)
        table, before = self.collected[eq.target], self.collected[name]
        indices = self.indices_for(tensor)
        access = lang.Access(table, tuple(Var(i) for i in indices))
        copied = Equation(name, access.subscripts, indices, access)

        def leaf(inner: Env) -> Plan:
            lines, value = self.point_value(access, inner)
            return Block((*lines, *self.kept_entry(copied, lang.Access(name, access.subscripts), value)))

        def rule(node: Any) -> Any:
            return replace(node, tensor=before) if isinstance(node, lang.Access) and node.tensor == table else None

        alone = replace(env, parallel=False)  # one table, which grows
        first = self.passes([Region((access,))], indices, (), leaf, alone, access.subscripts)
        return [
            Clear(before, "it holds what was there before the equation"),
            *first,
            *self.equation(replace(eq, value=rewrite(rule, eq.value)), env),
        ]

    def to_entries(self, eq: Equation, env: Env) -> list[Plan]:
        """A result whose pattern is computed: what may differ from its fill is an entry."""
        access = lang.Access(eq.target, eq.subscripts, eq.span)
        tensor = self.tensors[eq.target]
        if eq.where is not None and eq.updates is None and not eq.selects and env.earlier and env.known:
            value = Chosen(eq.where, eq.value, number_of(tensor.layout.fill, tensor.value_type))
            eq = replace(eq, value=value, where=None)  # what an iteration does not compute is the fill again
        if eq.target in self.collected:
            env = replace(env, parallel=False)  # one table, which grows
        first, eq = self.tabled(eq, env)
        more, eq = self.hoisted(eq, env)
        first += more
        fill = tensor.layout.fill
        regions_of_value, fill_of_value = self.regions.of(eq.value), self.regions.fill(eq.value)
        neutral = fill_of_value
        if eq.updates is not None:
            neutral = eq.updates.operator.identity_of(TYPES[tensor.value_type])
        same = fill_of_value is not None and neutral is not None and fill_text(fill_of_value) == fill_text(neutral)
        if eq.updates is None:
            stored_fill = None if fill_of_value is None else number_of(fill_of_value, tensor.value_type).value
            same = stored_fill is not None and fill_text(stored_fill) == fill_text(fill)
        kept = eq.target in self.collected
        empties = kept and eq.updates is None and (_sets_all(eq) or not (env.known or eq.selects))
        rewritten = () if empties or eq.updates is not None else env.earlier
        before = union([self.entries_of(w, eq) for w in rewritten])
        regions = union([regions_of_value if same else None, before])
        if regions is None or (rewritten and not eq.indices):
            regions = [Region(())]
        alone = False
        if regions == [Region(())] and eq.updates is not None and kept:
            some, alone = self.of_update(eq, env)
            regions = some or regions
        everywhere = regions == [Region(())]
        conditions = self.where_it_runs(eq, access)
        fewer = replace(self.regions, apart=True).of(eq.value) if same and not before else None

        def leaf(inner: Env) -> Plan:
            if fewer and regions == regions_of_value and {*fewer} != {*regions}:
                return self.where_one_is(fewer, entry, inner)
            return entry(inner)

        def entry(inner: Env) -> Plan:
            lines, value = self.point_value(eq.value, inner)
            if alone and everywhere:
                return Block((*lines, *self.if_entry(eq, Block(tuple(self.stored(eq, access, value, inner))))))
            if eq.updates is not None or not (everywhere or rewritten):
                return Block((*lines, *self.stored(eq, access, value, inner)))
            new_value = Scalar(self.fresh("value"), tensor.value_type)
            kept_value = Block(tuple(self.stored(eq, access, new_value, inner)))
            otherwise: Plan | None = None
            if rewritten:
                otherwise = Block(self.if_entry(eq, kept_value))
            test = If(self.differs(new_value, fill), kept_value, otherwise)
            return Block((*lines, Let(new_value.name, new_value.type, cast(value, new_value.type)), test))

        emptied = [Clear(self.collected[eq.target], f"`=` overwrites {eq.target}")] if empties else []
        self.rewritten |= {eq.target} if rewritten else set()
        return [*first, *emptied, *self.passes(regions, eq.indices, conditions, leaf, env, eq.subscripts)]

    def if_entry(self, eq: Equation, inside: Plan) -> tuple[Plan, ...]:
        """What is done where the target has an entry."""
        entry = self.fresh(f"{eq.target}_entry")
        probe = Probe(entry, self.collected[eq.target], eq.subscripts)
        return (probe, If(Holds(Compare(">=", Var(entry), ZERO)), inside))

    def of_update(self, eq: Equation, env: Env) -> tuple[list[Region] | None, bool]:
        """Where an update by a function may change something, if that is not everywhere: not where target and value are
        their fill values and the function gives that of the target. Whether it is only where the target has entries:
        the function gives the fill value again whatever the value is."""
        update = eq.updates
        assert update is not None
        fill, kind = self.tensors[eq.target].layout.fill, self.tensors[eq.target].value_type

        def keeps(value: Any) -> bool:
            updated = replace(update, arguments=(number_of(fill, kind), value))
            fill_of_update = self.regions.fill(updated) if self.regions.of(updated) == [] else None
            return fill_of_update is not None and fill_text(number_of(fill_of_update, kind).value) == fill_text(fill)

        empty = self.regions.fill(eq.value)
        apart = empty is not None and keeps(lang.Constant(empty))
        known = update.operator.annihilators_of(TYPES[kind], stored=False)
        whatever = any(place == 0 and fill_text(value) == fill_text(fill) for place, value in known)
        alone = (whatever and (empty is None or apart)) or keeps(eq.value)
        if alone and not env.known and all(isinstance(s, Var) for s in eq.subscripts):
            return [Region((lang.Access(self.collected[eq.target], eq.subscripts, eq.span),))], alone
        if not env.earlier or not (alone or apart):
            return None, alone
        regions = [] if alone else self.regions.of(eq.value)
        return union([regions, *(self.entries_of(w, eq) for w in env.earlier)]), alone

    def where_one_is(self, regions: Sequence[Region], leaf: Leaf, env: Env) -> Plan:
        """The leaf where one of the regions is at the point, so that a computed pattern has no more entries than
        needed."""
        lines: list[Plan] = []
        flags: list[Any] = []
        for region in regions:
            more, flag, env, _ = self.present(region, env)
            lines += more
            flags.append(flag)
        return Block((*lines, If(joined("logical_or", flags), leaf(env))))

    def entries_of(self, writer: Equation, eq: Equation) -> list[Region] | None:
        """Where an equation may have made entries of the target of another one, at whose places the regions are."""
        fill = self.tensors[eq.target].layout.fill
        empty: Any = self.regions.fill(writer.value)
        if empty is not None and writer.updates is None:
            empty = number_of(empty, self.kinds[eq.target]).value
        elif empty is not None and writer.updates is not None:
            neutral = writer.updates.operator.identity_of(TYPES[self.kinds[eq.target]])
            empty = fill if neutral is not None and empty == neutral else None
        regions = self.regions.of(writer.value)
        if writer.at or regions is None or empty is None or fill_text(empty) != fill_text(fill):
            return None
        at = {s.name: e for s, e in zip(writer.subscripts, eq.subscripts, strict=True) if isinstance(s, Var)}
        result = []
        for region in regions:
            if any(a.tensor in self.written for a in region.accesses):
                return None  # it may have been another one then
            accesses = tuple(substitute(a, at) for a in region.accesses if self.indices_in(a) <= set(at))
            where = tuple(substitute(c, at) for c in region.where if self.indices_of(c) <= set(at))
            if region.links or not (accesses or where):
                return None
            result.append(Region(accesses, (), where))
        return result


def _has_pattern_of(one: Tensor, other: Tensor) -> bool:
    return (
        (one.arrays, one.extents, one.sizes) == (other.arrays, other.extents, other.sizes)
        and one.layout.relation == other.layout.relation
        and stored_once(one.layout).proved
    )


def _sets_all(eq: Equation) -> bool:
    """Whether each index of the equation is a subscript of its own, and there are no others."""
    spoken = {s.name for s in eq.subscripts if isinstance(s, Var)}
    return eq.where is None and len(spoken) == len(eq.subscripts) and spoken <= {*eq.indices}


def _own_reads(eq: Equation) -> set[tuple[str, tuple[Any, ...]]]:
    """Which places of its target an equation reads."""
    return {(a.tensor, a.subscripts) for a in accesses_of(eq.value) if a.tensor == eq.target}


def _leaves_some(eq: Equation, env: Env) -> bool:
    """Whether an equation gives its target a value at other places than it runs over."""
    return eq.updates is None and not eq.selects and not env.known and not writes_all(eq)
