"""Regions: the points at which a value may differ from its value at the fill values.

The value on the fills is what most points have. A region is a set of accesses that are all stored at a point: a value
differs from the value on the fills at most where one of its regions is. The derivation follows the structure of the
value, so there are no more regions than accesses (Henry et al. 2021, section 4; the regions of a sum are those of its
terms, not all combinations of them).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import isinf, prod
from typing import Any

from spfgen.facts.formula import Compare, Formula, Var, conjuncts
from spfgen.ir import rewrite, walk
from spfgen.lang import nodes as lang
from spfgen.lang.fills import fill_text
from spfgen.lang.signs import PLACES
from spfgen.layout.nodes import Layout
from spfgen.limits import BODY, SHARED_REGIONS
from spfgen.space.conditions import negated
from spfgen.space.nodes import Tensor
from spfgen.space.steps import Chosen, Gathered, GatherLink, Link, Linked, Tie
from spfgen.space.typed import Holds, Types, operator_of

SHORT = ("logical_and", "logical_or", "where")
"""Operators of which the first argument says whether another one counts."""


@dataclass(frozen=True)
class Region:
    """Where all of these accesses store something and the conditions hold; `links` lead from their indices to those of
    the value, or to what values say."""

    accesses: tuple[lang.Access, ...]
    links: tuple[Link | Tie | GatherLink, ...] = ()
    where: tuple[Formula, ...] = ()


@dataclass(frozen=True)
class Regions:
    """What is known of the values of a kernel: the `layouts` of its tensors; those that are `dense` have a value of
    their own everywhere. `inlined` are the values of scalars that nothing changes. Where they are `exact`, what is not
    stored is a number as any other: 0 times infinity is nan. With `reduced`, regions of reductions are those of what is
    reduced, indices of the reduction included, if these have values at all. Where they are `apart`, what two parts of a
    value have in common is written out: the regions of (a or b) and c are a with c, and b with c, not c alone, which is
    cheaper to go through."""

    layouts: Mapping[str, Layout]
    dense: frozenset[str]
    types: Types
    inlined: Mapping[str, Any]
    exact: bool = False
    reduced: bool = False
    apart: bool = False

    def smallest(self, alternatives: Sequence[list[Region] | None]) -> list[Region] | None:
        """Where all of several values differ from their fills."""
        return (shared(alternatives) if self.apart else None) or smallest(alternatives)

    def fill(self, value: Any) -> Any:
        """The value where no sparse tensor stores anything, if that is one number; else None."""
        match value:
            case lang.Constant(number):
                return number
            case Holds():
                return False
            case lang.Access(tensor):
                return None if tensor in self.dense else self.layouts[tensor].fill
            case lang.Apply(op, arguments):
                fills = [self.fill(a) for a in arguments]
                for _, result in self.deciding(value, fills):
                    return result
                if op == "where" and fills[0] is not None:
                    return fills[1] if fills[0] else fills[2]
                if op == "where":
                    return common(fills[1], fills[2])
                if any(f is None for f in fills):
                    return None
                return self.types.fold(value, fills)
            case lang.Local(name) if name in self.inlined:
                return self.fill(self.inlined[name])
            case Chosen(_, then, otherwise):
                return common(self.fill(then), self.fill(otherwise))
            case Linked(_, inner) | Gathered(_, _, inner):
                return self.fill(inner)
            case lang.Reduce(_, _, inner):
                number = self.fill(inner)
                neutral = self.types.identity(value)
                if number is None or value.op in PLACES:
                    return None
                if self.reduced and value.where is None and self._stays(value):
                    return number
                return number if neutral is not None and number == neutral else None
        return None

    def of(self, value: Any) -> list[Region] | None:
        """The regions; None: everywhere."""
        match value:
            case lang.Constant():
                return []
            case Holds(condition):
                return [Region((), (), (condition,))]
            case lang.Access(tensor):
                return None if tensor in self.dense else [Region((value,))]
            case lang.Apply(op, arguments):
                fills = [self.fill(a) for a in arguments]
                ending = [place for place, _ in self.deciding(value, fills)]
                if ending:
                    parts = [(p, self.of(arguments[p])) for p in ending]
                    led = [_unled(regions) if p and op in SHORT else regions for p, regions in parts]
                    return self.smallest([*led, self.written_out(value)])
                if value.function is not None and value.function.space is not None:
                    return self.declared(
                        value.function.space, dict(zip(value.function.parameters, arguments, strict=True))
                    )
                if op == "where":
                    return self._selected(arguments, fills)
                if op in SHORT:
                    return union([self.of(arguments[0]), *(_unled(self.of(a)) for a in arguments[1:])])
                return self.smallest([self.written_out(value), union([self.of(a) for a in arguments])])
            case Chosen(condition, then, otherwise):
                if self.fill(value) is None:
                    return None
                return union([_where(self.of(then), condition), _where(self.of(otherwise), negated(condition))])
            case Linked(link, inner):
                regions = self.of(inner)
                if regions is None:
                    return None
                return [Region(r.accesses[:1], (*r.links, link), r.where) for r in regions]
            case Gathered(name, at, inner, checked=checked):
                regions = self.of(inner)
                return None if regions is None else [_led(r, name, at, inner, checked) for r in regions]
            case lang.Local(name) if name in self.inlined:
                return self.of(self.inlined[name])
            case lang.Reduce(_, _, inner, where) if self.reduced and self.fill(value) is not None:
                regions = self.of(inner)
                return regions if regions is None or where is None else _where(regions, where)
        return None

    def beyond(self, value: Any, indices: Collection[str]) -> tuple[list[Region], Any] | None:
        """Where a value may differ from what it is where nothing is stored along these indices, all others being known,
        and what it is there: a value that does not speak of them. None where that is not one value."""
        if not _names(value) & {*indices}:
            return [], value
        number, value_regions = self.fill(value), self.of(value)
        if (
            number is not None
            and value_regions is not None
            and all(_names(*r.accesses) & {*indices} for r in value_regions)
        ):
            return value_regions, self._typed(number, value)
        match value:
            case lang.Access(tensor) if tensor not in self.dense:
                return [Region((value,))], self._typed(self.layouts[tensor].fill, value)
            case lang.Apply("where", (condition, then, otherwise)):
                asked = self.beyond(condition, indices)
                if asked is not None and isinstance(asked[1], lang.Constant):
                    chosen = self.beyond(then if asked[1].value else otherwise, indices)
                    regions = None if chosen is None else union([asked[0], _unled(chosen[0])])
                    return None if chosen is None or regions is None else (regions, chosen[1])
        if not isinstance(value, lang.Apply):
            return None
        parts = [self.beyond(a, indices) for a in value.arguments]
        led = [None if p is None else p[0] for p in parts]
        if value.function is None and value.op in SHORT:
            led = [*led[:1], *map(_unled, led[1:])]
        regions = union(led)
        if regions is None:
            return None
        return regions, replace(value, arguments=tuple(p[1] for p in parts if p is not None))

    def _typed(self, number: Any, value: Any) -> lang.Constant:
        import numpy as np

        return lang.Constant(np.dtype(self.types.of(value).name).type(number))

    def _selected(self, arguments: Sequence[Any], fills: Sequence[Any]) -> list[Region] | None:
        """Of `where`: what the condition is on the fills says which choice counts, so the value differs where either of
        them does; and it differs where a choice does if both are one number on the fills, whatever the condition is."""
        condition, *choices = (self.of(a) for a in arguments)
        choices = [_unled(c) for c in choices]
        alternatives: list[list[Region] | None] = []
        if fills[0] is not None:
            alternatives.append(union([condition, choices[0] if fills[0] else choices[1]]))
        if common(fills[1], fills[2]) is not None:
            alternatives.append(union(choices))
        return self.smallest(alternatives)

    def _stays(self, value: lang.Reduce) -> bool:
        """Whether several equal values are reduced to that value."""
        return operator_of(value).is_idempotent(self.types.reduced(value))

    def deciding(self, value: lang.Apply, fills: Sequence[Any]) -> list[tuple[int, Any]]:
        """The arguments whose fill alone decides the value, with that; not against what the fills give together, as nan
        for 0*inf. A dividend does: where it is not stored, the quotient is 0, whatever the divisor is."""
        deciding = [
            (p, r)
            for p, number, r in self.types.known(value, self.exact)
            if fills[p] is not None and fills[p] == number
        ]
        whole = None if not deciding or any(f is None for f in fills) else self.types.fold(value, fills)
        by_convention = value.operator.is_quotient and not self.exact
        return deciding if whole is None or by_convention else [(p, r) for p, r in deciding if r == whole]

    def is_endless(self, value: Any) -> bool:
        """Whether it is a sum or a difference one of whose parts is infinite where nothing is stored."""
        if not isinstance(value, lang.Apply) or not value.operator.unstored:
            return False
        fills = [self.fill(a) for a in value.arguments]
        return any(f is not None and isinf(abs(f)) for f in fills)

    def written_out(self, value: lang.Apply) -> list[Region] | None:
        """The regions that the body of a function has where it is one value of its parameters. The function is called
        with what is not stored, so that is a number as any other: 0 times infinity is nan."""
        body = None if value.function is None else body_of(value.function)
        if body is None or value.function is None:
            return None
        given = dict(zip(value.function.parameters, value.arguments, strict=True))
        inner, exactly = with_locals(body, given), replace(self, exact=True)
        return exactly.of(inner) if common(exactly.fill(inner), self.fill(value)) is not None else None

    def declared(self, space: Any, arguments: Mapping[str, Any]) -> list[Region] | None:
        """The regions that a function of the user declares."""
        match space:
            case lang.Local(name):
                return self.of(arguments[name])
            case lang.Apply("logical_or", parts):
                return union([self.declared(p, arguments) for p in parts])
            case lang.Apply("logical_and", parts):
                return self.smallest([self.declared(p, arguments) for p in parts])
        return None


def body_of(function: lang.Function) -> Any | None:
    """The value of a function as one value of its parameters; None for a body with branches, or one that is long so."""
    *lets, last = function.body
    known: dict[str, Any] = {}
    for step in lets:
        if not isinstance(step, lang.Let) or step.name in known or step.name in function.parameters:
            return None
        known[step.name] = with_locals(step.value, known)
        if sum(1 for _ in walk(known[step.name])) > BODY:
            return None
    return with_locals(last.value, known) if isinstance(last, lang.Return) and not function.cases else None


def with_locals(value: Any, given: Mapping[str, Any]) -> Any:
    return rewrite(lambda v: given.get(v.name) if isinstance(v, lang.Local) else None, value)


def common(one: Any, other: Any) -> Any:
    """The number that both fills are; None where they are not."""
    return one if one is not None and other is not None and fill_text(one) == fill_text(other) else None


def smallest(alternatives: Sequence[list[Region] | None]) -> list[Region] | None:
    """Where all of several values differ from their fills: one region of all that have one, else the fewest."""
    known = [f for f in alternatives if f is not None]
    if not known:
        return None
    if any(not f for f in known):
        return []
    single = [f[0] for f in known if len(f) == 1 and all(isinstance(k, GatherLink) for k in f[0].links)]
    if single:
        accesses = tuple(dict.fromkeys(a for r in single for a in r.accesses))
        links = tuple({k.name: k for r in single for k in r.links if isinstance(k, GatherLink)}.values())
        return [Region(accesses, links, tuple(dict.fromkeys(w for r in single for w in r.where)))]
    return min(known, key=len)


def shared(alternatives: Sequence[list[Region] | None]) -> list[Region] | None:
    """The same by all combinations of regions; None where these lead to other indices, or are more than
    `SHARED_REGIONS`."""
    known = [f for f in alternatives if f is not None]
    if not known or prod(map(len, known)) > SHARED_REGIONS or any(r.links for f in known for r in f):
        return None
    return union(
        [
            Region(
                tuple(dict.fromkeys(a for r in parts for a in r.accesses)),
                (),
                tuple(dict.fromkeys(w for r in parts for w in r.where)),
            )
        ]
        for parts in product(*known)
    )


def union(alternatives: Iterable[list[Region] | None]) -> list[Region] | None:
    known = [*alternatives]
    if any(f is None for f in known):
        return None
    result: list[Region] = []
    for region in (r for f in known if f is not None for r in f):
        if not any(_covers(r, region) for r in result):
            result = [*(r for r in result if not _covers(region, r)), region]
    return result


def _covers(one: Region, other: Region) -> bool:
    """Whether the first is there wherever the second is."""
    return one.links == other.links and set(one.accesses) <= set(other.accesses) and set(one.where) <= set(other.where)


def _led(region: Region, name: str, at: Any, value: Any, checked: bool) -> Region:
    """The region where `name`, which it may speak of, is a value."""
    access = next((n for n in walk(value) if isinstance(n, lang.Access) and name in _names(*n.subscripts)), None)
    places = (k.at for k in region.links if isinstance(k, GatherLink))
    if access is None or name not in _names(*region.accesses, *region.where, *places):
        return region
    return replace(region, links=(GatherLink(name, at, access, checked), *region.links))


def _names(*parts: Any) -> set[str]:
    return {n.name for part in parts for n in walk(part) if isinstance(n, Var)}


def _where(regions: list[Region] | None, condition: Formula) -> list[Region] | None:
    """The regions where the condition holds. What a value leads to is looked at only where it does, so it leads to
    nothing here."""
    regions = _unled(regions)
    return None if regions is None else [Region(r.accesses, r.links, (*r.where, condition)) for r in regions]


def _unled(regions: list[Region] | None) -> list[Region] | None:
    """The regions of what counts only where something else says so: no value leads to them, as it may be out of range
    where they do not count."""
    if any(isinstance(k, GatherLink) and k.checked for r in regions or () for k in r.links):
        return None
    return regions


def apart(one: Region, other: Region) -> bool:
    """Whether no point has both: what one of them asks is what the other one asks the contrary of."""
    return not one.links and not other.links and any(negated(c) in other.where for c in one.where)


def is_everywhere(tensor: Tensor) -> bool:
    """Whether every coordinate is a position of its own, and nothing else decides where its value stands."""
    layout = tensor.layout
    if not layout.rank:
        return True
    tied = {
        part.left.name: part.right.name
        for part in conjuncts(layout.relation)
        if isinstance(part, Compare) and part.op == "=" and isinstance(part.left, Var) and isinstance(part.right, Var)
    }
    positions = sorted(tied.get(c, "") for c in layout.coordinates)
    return not layout.indexes and len(layout.values) == 1 and positions == sorted(layout.positions)
