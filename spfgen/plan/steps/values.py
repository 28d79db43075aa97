"""Values at a point: what drives is at hand, all else is looked up, and its fill where nothing is found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

from spfgen.errors import InternalError
from spfgen.facts.formula import ZERO, Compare, Expr, Formula, Var, conjunction, variables, within
from spfgen.ir import walk
from spfgen.lang import nodes as lang
from spfgen.lang.typing import settled
from spfgen.layout.proofs import stored_once
from spfgen.plan.analyse.comparisons import looks_at_all
from spfgen.plan.nodes import Assign, Block, If, Let, Plan, Probe, goes_on
from spfgen.plan.steps.env import (
    OUTSIDE,
    Env,
    Leaf,
    OutOfOrder,
    accesses_of,
    cast,
    joined,
    key_of,
    number_of,
    where_taken,
)
from spfgen.plan.steps.merge import Merging
from spfgen.space.local_tensors import COUNT
from spfgen.space.nodes import Operand, Read, extent_value, value_of
from spfgen.space.regions import SHORT, Region, apart
from spfgen.space.steps import Chosen, Gathered, Linked
from spfgen.space.typed import Holds, Scalar


class PointValues(Merging):
    """Values at a point: what drives is at hand, all else is looked up, and its fill where nothing is found."""

    def passes(
        self,
        regions: Sequence[Region],
        indices: Sequence[str],
        conditions: Sequence[Formula],
        leaf: Leaf,
        env: Env,
        distinct: Sequence[Expr] | None = None,
    ) -> list[Plan]:
        """The leaf once at each point of the indices that any of the regions has and where the conditions hold."""
        common = tuple(c for c in regions[0].where if all(c in r.where for r in regions)) if regions else ()
        if common and not any(r.links for r in regions):
            conditions = (*conditions, *(c for c in common if c not in conditions))
            regions = [replace(r, where=tuple(c for c in r.where if c not in common)) for r in regions]
        merged = self.merged(regions, indices, conditions, leaf, env, distinct)
        if merged is not None:
            return merged
        if env.order and len(regions) > 1:
            raise OutOfOrder
        parts: list[Plan] = []
        for k, region in enumerate(regions):
            earlier = [r for r in regions[:k] if not apart(r, region)]

            def once(inner: Env, earlier: Sequence[Region] = tuple(earlier)) -> Plan:
                return self.unless(earlier, leaf, inner)

            nest = self.driven_by(region, indices, conditions, once, env, distinct)
            shared = len(regions) > 1 and any(isinstance(p, Let) or goes_on(p) for p in nest)
            parts += [Block(tuple(nest))] if shared else nest  # another region may find the same by a loop
        return parts

    def unless(self, earlier: Sequence[Region], leaf: Leaf, env: Env) -> Plan:
        """The leaf, where none of these regions is at the point."""
        if not earlier:
            return leaf(env)
        first, *others = earlier
        lines, present, env, alone = self.present(first, env)
        if alone:
            env = replace(env, absent=env.absent | {key_of(a) for a in first.accesses})
        inner = self.unless(others, leaf, env)
        return Block(
            (*lines, If(lang.Apply("logical_not", (present,)), inner, None, "an earlier nest has computed the others"))
        )

    def present(self, region: Region, env: Env) -> tuple[list[Plan], Any, Env, bool]:
        """Whether all accesses of a region store something at the point; and whether that is the only question. Under
        a condition nothing is looked up where it does not hold: it may be what keeps the places within their arrays."""
        if region.where:
            lines, env = self.linked(region.links, env)  # which the condition may speak of
            here, is_there, _, _ = self.present(replace(region, where=()), env)
            present = Scalar(self.fresh("present"), "bool")
            holds = joined("logical_and", [Holds(c) for c in region.where])
            inside = Block((*here, Assign(present.name, "bool", is_there)))
            return [*lines, Let(present.name, "bool", lang.Constant(False)), If(holds, inside)], present, env, False
        lines, env = self.linked(region.links, env)
        flags: list[Any] = []
        for access in region.accesses:
            more, flag, env = self.looked_up(access, env)
            lines += more
            flags.append(flag)
        result = joined("logical_and", flags) if flags else lang.Constant(True)
        return lines, result, env, len(region.accesses) == 1 and not region.links

    def point_value(self, value: Any, env: Env) -> tuple[list[Plan], Any]:
        """The value at a point, and what is done for it first."""
        lines, computed, _ = self.computed(value, env)
        return lines, computed

    def computed(self, value: Any, env: Env) -> tuple[list[Plan], Any, Env]:
        match value:
            case lang.Constant():
                return [], value, env
            case lang.Index():
                return [], value, env
            case Holds(condition):
                return [], env.decided(condition, value), env
            case lang.Local(name):
                return [], Scalar(self.called[name], settled(self.scalars[name]).name), env
            case lang.Access():
                lines, _, env = self.looked_up(value, env)
                return lines, env.values[key_of(value)], env
            case lang.Apply(op, arguments, function=None) if op in SHORT:
                return self.short(value, env)
            case lang.Apply(_, arguments):
                lines = []
                values = []
                tracked = env.tracks_choices
                env = replace(env, tracks_choices=tracked or bool(not env.plain and self.types.conventions(value)))
                for argument in arguments:
                    more, one, env = self.computed(argument, env)
                    lines += more
                    values.append(one)
                env = replace(env, tracks_choices=tracked)
                applied = replace(value, arguments=tuple(values))
                return lines, applied if env.plain else self.decided(value, applied, env), env
            case Chosen(condition, then, otherwise):
                match env.decided(condition, None):
                    case lang.Constant(known):
                        side, wanted = then if known else otherwise, self.types.of(value)
                        lines, found_side, env = self.computed(side, env)
                        env = env.taking(value, self.absent(side, env)) if env.tracks_choices else env
                        as_whole = found_side if self.types.kind(side) == wanted else cast(found_side, wanted.name)
                        return lines, as_whole, env
                return self.chosen(value, Holds(condition), (then, otherwise), env)
            case Linked(link, inner):
                lines, env = self.linked((link,), env)
                more, found_value, env = self.computed(inner, env)
                return [*lines, *more], found_value, env
            case Gathered(name, at, inner, checked=checked):
                if name in env.known:  # it led here
                    return self.computed(inner, env)
                access = next(a for a in accesses_of(inner) if any(name in variables(e) for e in a.subscripts))
                lines, within_env = self.placed(name, at, access, env, checked)
                more, found_value, _ = self.computed(inner, within_env)
                return [*lines, *more], found_value, env
            case lang.Reduce():
                lines, found_value = self.reduction(value, replace(env, plain=False))
                return lines, found_value, env
        raise InternalError(f"no plan of {value!r}")

    def short(self, value: lang.Apply, env: Env) -> tuple[list[Plan], Any, Env]:
        """`and`, `or` and `where`: what is done for an argument that the first one excludes is not done."""
        lines, first, env = self.computed(value.arguments[0], env)
        if value.op == "where":
            more, chosen, env = self.chosen(value, first, value.arguments[1:], env)
            return [*lines, *more], chosen, env
        others = [self.computed(a, env)[:2] for a in value.arguments[1:]]
        if not any(more for more, _ in others):
            applied = replace(value, arguments=(first, *(v for _, v in others)))
            return lines, applied if env.plain else self.decided(value, applied, env), env
        decided = Scalar(self.fresh("chosen"), "bool")
        then = Block(tuple(p for more, v in others for p in (*more, Assign(decided.name, "bool", cast(v, "bool")))))
        told: Any = decided if value.op == "logical_and" else lang.Apply("logical_not", (decided,))
        return [*lines, Let(decided.name, "bool", cast(first, "bool")), If(told, then)], decided, env

    def chosen(
        self, value: lang.Apply | Chosen, condition: Any, choices: Sequence[Any], env: Env
    ) -> tuple[list[Plan], Any, Env]:
        """One of two values. What is done for the other one is not done; where one asks for it, it is noted whether
        what is taken is made of nothing that is stored."""
        parts = [self.computed(c, env) for c in choices]
        gone = [self.absent(c, e) if env.tracks_choices else None for c, (_, _, e) in zip(choices, parts, strict=True)]
        if not any(lines for lines, *_ in parts):
            env = env.taking(value, where_taken(condition, *gone))
            return [], lang.Apply("where", (condition, *(v for _, v, _ in parts)), value.span), env
        kind = self.types.of(value).name
        chosen = Scalar(self.fresh("chosen"), kind)
        branches = [[*lines, Assign(chosen.name, kind, cast(v, kind))] for lines, v, _ in parts]
        lines: list[Plan] = [Let(chosen.name, kind, number_of(0, kind))]
        if any(g is not None for g in gone):
            flag = Scalar(self.fresh("chosen_absent"), "bool")
            lines += [Let(flag.name, "bool", lang.Constant(False))]
            for branch, one in zip(branches, gone, strict=True):
                branch += [] if one is None else [Assign(flag.name, "bool", one)]
            env = env.taking(value, flag)
        then, otherwise = (Block(tuple(b)) for b in branches)
        asked = condition if isinstance(condition, Holds) else cast(condition, "bool")
        return [*lines, If(asked, then, otherwise)], chosen, env

    def decided(self, value: lang.Apply, computed: Any, env: Env) -> Any:
        """What an operator makes of its arguments, or what one of them alone decides by convention where nothing is
        stored of it: 0 times x is 0 there, also if x is infinite."""
        by_convention = self.types.conventions(value)
        if not by_convention:
            return computed
        kind, applied = self.types.of(value).name, computed
        for place, number, result in self.deciding(value):
            others = [a for k, a in enumerate(value.arguments) if k != place]
            if place not in by_convention or all(self.is_harmless(value, a) for a in others):
                continue
            gone = self.absent(value.arguments[place], env)
            if gone is not None and number is not None:  # a choice of two fills
                zero = number_of(number, self.types.of(value.arguments[place]).name)
                gone = joined("logical_and", [gone, lang.Apply("equal", (computed.arguments[place], zero))])
            match gone:
                case lang.Constant(True):
                    return number_of(result, kind)
                case None:
                    continue
            applied = lang.Apply("where", (gone, number_of(result, kind), applied), value.span)
        return applied

    def deciding(self, value: lang.Apply) -> list[tuple[int, Any, Any]]:
        """The arguments that decide where they are absent, with what they make of the value: (place, number, result).
        The number is what such an argument has to be for that, None where its fill value is known to be so. A dense
        tensor is absent where it is read outside: it has its fill value there."""
        regions = replace(self.regions, dense=frozenset())
        fills = [regions.fill(a) for a in value.arguments]
        several = [any(map(chooses, walk(a))) for a in value.arguments]  # fill values, of what it takes
        always = [(p, None, r) for p, r in regions.deciding(value, fills) if not several[p]]
        if any(f is not None and not isfinite(abs(f)) for f in fills):
            return always  # what fills give together is what numpy says
        choices = ((p, n, r) for p, n, r in self.types.known(value) if fills[p] is None or several[p])
        return [
            *always,
            *(c for c in choices if isfinite(abs(c[1])) or self.types.of(value.arguments[c[0]]).kind in "fc"),
        ]

    def is_harmless(self, value: lang.Apply, other: Any) -> bool:
        """Whether the operator makes nothing else of the other argument than what the convention says: it is finite,
        and no divisor that may be 0."""
        if isinstance(other, lang.Constant):
            return bool(isfinite(abs(other.value))) and not (value.operator.is_quotient and other.value == 0)
        return not value.operator.is_quotient and self.types.of(other).kind in "biu"

    def absent(self, value: Any, env: Env) -> Any:
        """A condition: the value, computed before, is made of nothing that is stored. None where it never is; numbers
        that someone wrote do not matter."""
        match value:
            case lang.Access():
                flag = env.values.get((f"{value.tensor}?", value.subscripts), lang.Constant(True))
                if key_of(value) in env.absent:
                    return lang.Constant(True)
                return None if flag == lang.Constant(True) else lang.Apply("logical_not", (flag,))
            case Linked(_, inner):
                return self.absent(inner, env)
            case Chosen() | lang.Apply("where", function=None):
                return env.takes_absent.get(value)
            case lang.Apply(_, arguments):
                places = [p for p, number, _ in self.deciding(value) if number is None]
                alone = [a for p in places if (a := self.absent(arguments[p], env)) is not None]
                if alone:
                    return lang.Constant(True) if lang.Constant(True) in alone else joined("logical_or", alone)
                every = [self.absent(a, env) for a in arguments if not isinstance(a, lang.Constant)]
                if places or not every or None in every:
                    return None
                asked = [a for a in every if a != lang.Constant(True)]
                return joined("logical_and", asked) if asked else lang.Constant(True)
        return None

    def reduction(self, node: lang.Reduce, env: Env) -> tuple[list[Plan], Any]:
        """What is done for a reduction at a point, and its value: reductions.py."""
        raise NotImplementedError

    def looked_up(self, access: lang.Access, env: Env) -> tuple[list[Plan], Any, Env]:
        """The value of an access at a point where its indices are known; whether anything is stored there."""
        key = key_of(access)
        tensor = self.tensors[access.tensor]
        kind = tensor.value_type
        fill = number_of(tensor.layout.fill, kind)
        if key in env.absent:
            return [], lang.Constant(False), env.having({key: fill})
        if key in env.values:
            flag = env.values.get((f"{access.tensor}?", access.subscripts), lang.Constant(True))
            return [], flag, env
        if not tensor.layout.rank:
            (instance,) = self.instances((access,), (), (), env)
            return [], lang.Constant(True), env.having({key: value_of(instance.reads[0])})
        name = self.fresh(f"{access.tensor}_value")
        flag_name = self.fresh(f"{access.tensor}_there")
        once = stored_once(tensor.layout).proved
        value, there = Scalar(name, kind), Scalar(flag_name, "bool")

        def leaf(inner: Env) -> Plan:
            read = inner.values[key]
            if not once:  # what is stored several times counts as the sum
                old = lang.Apply("where", (there, value, number_of(0, kind)))
                read = lang.Apply("add", (old, read))
            return Block((Assign(name, kind, read), Assign(flag_name, "bool", lang.Constant(True))))

        nests = self.nests((access,), (), (), leaf, replace(env, parallel=False, order=()))
        if access.tensor in self.collected.values():
            return self.probed(access, env)
        if access.tensor not in self.written and any(
            looks_at_all(n, self.nest_context.stored) for p in nests for n in walk(p, Plan)
        ):
            return self.probed(access, env)
        plain = self.plainly(nests, name)
        if plain is not None:
            return [], lang.Constant(True), env.having({key: plain})
        lines: list[Plan] = [Let(name, kind, fill), Let(flag_name, "bool", lang.Constant(False)), *nests]
        return lines, there, env.having({key: value, (f"{access.tensor}?", access.subscripts): there})

    def probed(self, access: lang.Access, env: Env) -> tuple[list[Plan], Any, Env]:
        """The same by a hash table of all that the tensor stores."""
        names = {t: n for n, t in self.tables.items()}
        table = access.tensor if access.tensor in names else self.table(access.tensor)
        tensor = self.tensors[table]
        entry = self.fresh(f"{access.tensor}_entry")
        (value,) = tensor.layout.values
        place = Operand(table, table, value.name, (Var(entry),), (Var(f"{table}.{COUNT}"),), (), (), True)
        there = Holds(Compare(">=", Var(entry), ZERO))
        name = self.fresh(f"{access.tensor}_value")
        probed_value = Scalar(name, tensor.value_type)
        lines: list[Plan] = [
            Probe(entry, table, access.subscripts),
            Let(name, tensor.value_type, number_of(tensor.layout.fill, tensor.value_type)),
            If(there, Assign(name, tensor.value_type, Read(place))),
        ]
        key = key_of(access)
        return lines, there, env.having({key: probed_value, (f"{access.tensor}?", access.subscripts): there})

    def plainly(self, nests: Sequence[Plan], name: str) -> Any:
        """The value itself, where nothing has to be looked for and nothing asked."""
        if len(nests) == 1 and isinstance(nests[0], Block):
            first = nests[0].parts[0]
            if isinstance(first, Assign) and isinstance(first.value, Read):
                return first.value
        return None

    def placed(self, name: str, at: Any, access: lang.Access, env: Env, checked: bool = True) -> tuple[list[Plan], Env]:
        """`name` is the place that a value says, which has to lie within the tensor where that is `checked`."""
        lines, place, env = self.computed(at, env)
        self.indices.add(name)
        lines = [*lines, Let(name, "int64", place)]
        if not checked:
            return lines, env.knowing([name])
        tensor = self.tensors[access.tensor]
        inside = [
            within(s, ZERO, extent_value(e, self.program.sizes.fixed))
            for s, e in zip(access.subscripts, tensor.extents, strict=True)
            if name in variables(s)
        ]
        missed = Block((Assign(OUTSIDE, "bool", lang.Constant(True)), Assign(name, "int64", lang.Constant(0))))
        test = lang.Apply("logical_not", (Holds(conjunction([Compare("<=", ZERO, Var(name)), *inside])),))
        self.refuses = True
        return [*lines, If(test, missed, None, "an error at the end of the call")], env.knowing([name])


def chooses(value: Any) -> bool:
    """Whether it takes one of several values."""
    return isinstance(value, Chosen) or (isinstance(value, lang.Apply) and value.op == "where" and not value.function)
