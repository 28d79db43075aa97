"""Reductions at a point, by any operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from spfgen.errors import SpecError
from spfgen.facts.formula import ZERO, Bin, Expr, Formula, Var, conjuncts
from spfgen.ir import walk
from spfgen.lang import nodes as lang
from spfgen.lang.signs import PLACES
from spfgen.lang.types import TYPES
from spfgen.lang.typing import settled
from spfgen.plan.choices import REDUCTION_EXITS
from spfgen.plan.nodes import Assign, Block, Break, If, Let, Plan
from spfgen.plan.steps.annihilator_exit import shortened
from spfgen.plan.steps.env import Env, Leaf, OutOfOrder, accumulator, cast, joined, number_of
from spfgen.plan.steps.privatize_totals import Total, may_share, with_own_totals
from spfgen.plan.steps.values import PointValues
from spfgen.sets.affine import expression
from spfgen.sets.uf import solved_for
from spfgen.space.names import unbounded
from spfgen.space.regions import Region
from spfgen.space.steps import Chosen, Counted, Gathered, Linked
from spfgen.space.typed import Scalar, operator_of


@dataclass(frozen=True)
class Combined:
    """What a reduction combines: its value at the points of these regions (None: everywhere) that satisfy the
    conditions; and the `rest`, if there is one, at all others of so many `points`."""

    regions: list[Region] | None
    conditions: tuple[Formula, ...]
    rest: Any = None
    points: Expr | None = None


class Reductions(PointValues):
    """Reductions at a point, by any operator."""

    def reduction(self, node: lang.Reduce, env: Env) -> tuple[list[Plan], Any]:
        """A reduction over the indices at a point: a scalar that each point of a region is combined with. What no
        region has, n equal values, is combined at last."""
        first, inside = self.made_once(node.value, node.indices, env)
        lines, total = self.at_points(replace(node, value=inside), env)
        return [*first, *lines], total

    def made_once(self, value: Any, indices: Sequence[str], env: Env) -> tuple[list[Plan], Any]:
        """Reductions within a value that are the same at all points of the indices: they are made before the loops over
        these, and the value speaks of the scalars that hold them."""
        lines: list[Plan] = []

        def rule(node: Any) -> Any:
            if not isinstance(node, lang.Reduce) or not self.free(node) <= env.known:
                return None
            if any(isinstance(n, Gathered) for n in walk(node)):  # what a value says is looked at only where it counts
                return None
            more, total = self.reduction(node, self.settled(env))
            lines.extend(more)
            self.called[total.name], self.scalars[total.name] = total.name, TYPES[total.type]
            self.constants.add(total.name)
            return lang.Local(total.name, node.span)

        return (lines, outermost(rule, value)) if set(indices) - env.known else ([], value)

    def at_points(self, node: lang.Reduce, env: Env) -> tuple[list[Plan], Any]:
        """The loops over the points of a reduction."""
        if node.op in PLACES:
            return self.argument(node, env)
        kind = self.types.reduced(node)
        neutral = self.types.identity(node)
        counts = self.what_counts(node, env)
        operator = operator_of_reduction(node)
        first = operator.operator.begins if neutral is None else neutral
        name = self.fresh(accumulator(node.op))
        total = Scalar(name, kind.name)
        counted = None if counts.rest is None else Scalar(self.fresh("visited"), "int64")
        started = None if first is not None else Scalar(self.fresh("started"), "bool")
        lines: list[Plan] = [Let(name, kind.name, number_of(0 if first is None else first, kind.name))]
        if started is not None:
            lines.append(Let(started.name, "bool", lang.Constant(False)))
        if counted is not None:
            lines.append(Let(counted.name, "int64", lang.Constant(0)))

        def combined(value: Any) -> list[Plan]:
            new = Assign(name, kind.name, replace(operator, arguments=(total, cast(value, kind.name))))
            if started is None:
                return [new]
            alone = Assign(name, kind.name, value)
            return [If(started, new, alone), Assign(started.name, "bool", lang.Constant(True))]

        def leaf(inner: Env) -> Plan:
            more, value = self.point_value(value_of_points(node), inner)
            count = []
            if counted is not None:
                count = [Assign(counted.name, "int64", lang.Apply("add", (counted, lang.Constant(1))))]
            return self.where_counted(node, Block((*more, *combined(value), *count)), inner)

        shares = neutral is not None and may_share(operator, kind, self.context.deterministic)
        inner = replace(env, parallel=env.parallel and shares, own=True)
        nests = self.in_their_order(node, counts.regions, counts.conditions, leaf, inner)
        if self.context.makes(REDUCTION_EXITS) and neutral is not None:
            nests = [shortened(p, total) for p in nests]
        totals = [Total(total, neutral, operator)]
        totals += [] if counted is None else [Total(counted, 0, lang.Apply("add", ()))]
        lines += [with_own_totals(p, totals, self.fresh) for p in nests]
        if counted is not None:
            lines.append(self.rest_combined(node, counts, counted, combined, env))
        return lines, total

    def what_counts(self, node: lang.Reduce, env: Env) -> Combined:
        """Where a reduction combines values, and with what else."""
        fill = self.regions.fill(node.value)
        regions = self.regions.of(node.value)
        conditions = conditions_of(node)
        neutral = self.types.identity(node)
        points = self.points(node.indices, conditions)
        beyond = None if self.is_along(regions, node.indices) and fill is not None else self.beyond(node, env)
        if beyond is not None and points is not None and self.has_power(node):
            regions, fill_value = beyond
            is_nothing = isinstance(fill_value, lang.Constant) and neutral is not None and fill_value.value == neutral
            return Combined(regions, conditions, None if is_nothing else fill_value, points)
        if regions is None or fill is None:
            return Combined(None, conditions)
        if neutral is not None and fill == neutral:
            return Combined(regions, conditions)
        if points is not None and self.has_power(node):
            return Combined(regions, conditions, number_of(fill, settled(self.types.kind(node.value)).name), points)
        return Combined(None, conditions)

    def rest_combined(
        self, node: lang.Reduce, counts: Combined, counted: Scalar, combined: Callable[[Any], list[Plan]], env: Env
    ) -> Plan:
        """What no region has, n equal values, is combined at last."""
        assert counts.points is not None
        points = lang.Index(counts.points)
        more, one = self.point_value(counts.rest, env)
        left = lang.Apply("subtract", (points, counted))
        last = Block((*more, *combined(self.power(node, one, left, self.types.reduced(node).name))))
        return If(lang.Apply("less", (counted, points)), last)

    def in_their_order(
        self, node: lang.Reduce, regions: Sequence[Region] | None, conditions: Sequence[Formula], leaf: Leaf, env: Env
    ) -> list[Plan]:
        """The leaf at each point of a reduction: where its operator asks for their order, in that."""
        everywhere = [Region(())]
        if regions is None or self.types.is_orderless(node):
            return self.passes(everywhere if regions is None else regions, node.indices, conditions, leaf, env)
        restore = self.kept()
        try:
            return self.passes(regions, node.indices, conditions, leaf, replace(env, order=node.indices))
        except OutOfOrder:
            restore()
            return self.passes(everywhere, node.indices, conditions, leaf, env)

    def is_along(self, regions: Sequence[Region] | None, indices: Sequence[str]) -> bool:
        """Whether something that is stored along the indices leads to all points of the regions."""
        return regions is not None and all(
            r.links or any({*indices} & self.indices_in(a) for a in r.accesses) for r in regions
        )

    def beyond(self, node: lang.Reduce, env: Env) -> tuple[list[Region], Any] | None:
        """The regions of what is reduced where all else is known, and what it is at all other points."""
        if not self.free(node) <= env.known or any(isinstance(n, Gathered | Linked) for n in walk(node.value)):
            return None
        return self.regions.beyond(node.value, node.indices)

    def points(self, indices: Sequence[str], conditions: Sequence[Formula]) -> Expr | None:
        """How many points a reduction has; None where no formula says it."""
        if not conditions:
            self.refuse_unbounded(indices)
            return self.whole(indices)
        if len(indices) != 1 or indices[0] not in self.extents:
            return None
        low: Expr = ZERO
        high = self.extents[indices[0]]
        for condition in conditions:
            bounds = bounds_of(condition, indices[0])
            if bounds is None:
                return None
            for bound in bounds[0]:
                low = Bin("max", low, bound)
            for bound in bounds[1]:
                high = Bin("min", high, bound)
        return Bin("max", Bin("-", high, low), ZERO)

    def refuse_unbounded(self, indices: Sequence[str]) -> None:
        """Raises SpecError for an index that has no extent, and whose reduction says nothing of it."""
        for index in indices:
            if index not in self.extents:
                raise unbounded(self.steps.called.get(index, index), self.steps.span)

    def argument(self, node: lang.Reduce, env: Env) -> tuple[list[Plan], Any]:
        """The first index at which the value is least (or greatest); a nan is less and greater than all numbers, as in
        numpy. What no region has counts only where it could be the one: then the first of them is looked for."""
        index = one_index(node)
        kind = self.types.of(node.value)
        regions = self.regions.of(node.value)
        conditions = conditions_of(node)
        best, at = Scalar(self.fresh("best"), kind.name), Scalar(self.fresh(node.op), "int64")
        lines: list[Plan] = [
            Let(best.name, kind.name, number_of(0, kind.name)),
            Let(at.name, "int64", lang.Constant(-1)),
        ]
        counted = Scalar(self.fresh("visited"), "int64") if regions is not None and not conditions else None
        if counted is not None:
            lines.append(Let(counted.name, "int64", lang.Constant(0)))
        else:
            regions = [Region(())]

        def leaf(inner: Env) -> Plan:
            more, value = self.point_value(value_of_points(node), inner)
            place = lang.Index(Var(index))
            taken = Block((Assign(best.name, kind.name, value), Assign(at.name, "int64", place)))
            count: list[Plan] = []
            if counted is not None:
                count = [Assign(counted.name, "int64", lang.Apply("add", (counted, lang.Constant(1))))]
            asked = If(self.is_better(node, value, place, best, at), taken)
            return self.where_counted(node, Block((*more, asked, *count)), inner)

        lines += self.passes(regions or [], node.indices, conditions, leaf, replace(env, parallel=False))
        if counted is not None:
            lines += self.first_of_the_rest(node, best, at, counted, env)
        return lines, at

    def is_better(self, node: lang.Reduce, value: Any, place: Any, best: Any, at: Any) -> Any:
        """Whether a value at a place is to be taken instead of the best one so far."""

        def both(*parts: Any) -> Any:
            return joined("logical_and", parts)

        def either(*parts: Any) -> Any:
            return joined("logical_or", parts)

        sooner = lang.Apply("less", (place, at))
        same = both(lang.Apply("equal", (value, best)), sooner)
        better = either(lang.Apply(PLACES[node.op], (value, best)), same)
        if self.types.of(node.value).kind in "fc":
            nan, old = lang.Apply("isnan", (value,)), lang.Apply("isnan", (best,))
            known = lang.Apply("logical_not", (old,))
            better = either(both(nan, either(known, sooner)), both(known, better))
        return either(lang.Apply("less", (at, lang.Constant(0))), better)

    def first_of_the_rest(self, node: lang.Reduce, best: Any, at: Scalar, counted: Any, env: Env) -> list[Plan]:
        """What is done after all that regions have: where none of that is better than the fill, the first index with
        the fill is the one."""
        index = one_index(node)
        kind, fill = self.types.of(node.value), self.regions.fill(node.value)
        number = number_of(fill, kind.name)
        other = lang.Apply(PLACES[node.op], (best, number))
        decided = joined("logical_and", (lang.Apply("greater_equal", (at, lang.Constant(0))), other))
        if kind.kind in "fc":
            decided = joined("logical_or", (decided, lang.Apply("isnan", (best,))))
        some_are_missing = lang.Apply("less", (counted, lang.Index(self.extents[index])))
        open_ = joined("logical_and", (some_are_missing, lang.Apply("logical_not", (decided,))))

        def leaf(inner: Env) -> Plan:
            more, value = self.point_value(node.value, inner)
            hit = lang.Apply("isnan", (value,)) if fill != fill else lang.Apply("equal", (value, number))
            taken = Block((Assign(at.name, "int64", lang.Index(Var(index))), Break()))
            return Block((*more, If(hit, taken, None, "no stored value can be better than the fill value")))

        again = self.passes([Region(())], node.indices, (), leaf, replace(env, parallel=False))
        return [If(open_, Block(tuple(again)))]

    def where_counted(self, node: lang.Reduce, part: Plan, env: Env) -> Plan:
        """What is done at a point of a reduction, where the point counts."""
        value: Any = node.value
        if not isinstance(value, Counted):
            return part
        lines, asked = self.point_value(value.asked, env)
        return Block((*lines, If(cast(asked, "bool"), part)))

    def has_power(self, node: lang.Reduce) -> bool:
        """Whether n equal values are combined at once, after all others."""
        operator = operator_of(node)
        several = operator.is_idempotent(self.types.reduced(node)) or operator.repeated in ("multiply", "power")
        if self.types.reduced(node).kind == "c":  # n times an infinite complex number is nan, and so is its power
            fill = self.regions.fill(node.value)
            several = several and fill is not None and isfinite(abs(fill))
        return several and self.types.is_orderless(node)

    def power(self, node: lang.Reduce, fill: Any, count: Any, kind: str) -> Any:
        operator = operator_of(node)
        if operator.is_idempotent(TYPES[kind]):
            return fill
        return lang.Apply(operator.repeated, (cast(fill, kind), cast(count, kind)), node.span)


def value_of_points(node: lang.Reduce) -> Any:
    """What a reduction is of."""
    value: Any = node.value
    return value.value if isinstance(value, Counted) else value


def conditions_of(node: lang.Reduce) -> tuple[Formula, ...]:
    """Where the points of a reduction are."""
    return () if node.where is None else tuple(dict.fromkeys(conjuncts(node.where)))


def operator_of_reduction(node: lang.Reduce) -> lang.Apply:
    """The operator of a reduction, without arguments."""
    return lang.Apply(node.op, (), node.span, node.function)


def bounds_of(condition: Formula, index: str) -> tuple[list[Expr], list[Expr]] | None:
    """The least values of an index that a comparison allows, and those that the index has to be less than."""
    match solved_for(condition, index):
        case ">=", bound:
            return [expression(bound)], []
        case ">", bound:
            return [expression(bound.plus(1))], []
        case "<", bound:
            return [], [expression(bound)]
        case "<=", bound:
            return [], [expression(bound.plus(1))]
        case "=", bound:
            return [expression(bound)], [expression(bound.plus(1))]
    return None


def one_index(node: lang.Reduce) -> str:
    """The index of `argmin` or `argmax`."""
    if len(node.indices) != 1:
        raise SpecError(f"expected one index of `{node.op}`, but there are {len(node.indices)}", node.span)
    return node.indices[0]


def outermost(rule: Callable[[Any], Any], value: Any) -> Any:
    """The rule applied from the outside in, not within what it has replaced."""
    replaced = rule(value)
    if replaced is not None:
        return replaced
    match value:
        case lang.Apply(_, arguments):
            return replace(value, arguments=tuple(outermost(rule, a) for a in arguments))
        case Chosen(_, then, otherwise):
            return replace(value, then=outermost(rule, then), otherwise=outermost(rule, otherwise))
    return value
