"""What is computed and has no place in its target: a sparse target holds some coordinates only.

Where each part of a value is proved to be 0 but at coordinates that the target stores, nothing is lost. Where the text
asks for it (`within`, or `shares`), what has no place is left out. What remains is a doubt, which calls look into.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product
from typing import Any

from spfgen.errors import SpfgenError
from spfgen.facts.formula import (
    ZERO,
    Call,
    Compare,
    Formula,
    Var,
    calls,
    conjunction,
    conjuncts,
    rename,
    within,
)
from spfgen.ir import fresh, walk
from spfgen.lang import nodes as lang
from spfgen.lang.fills import fill_text
from spfgen.layout.nodes import Layout, everywhere
from spfgen.layout.proofs import places_inside
from spfgen.sets.affine import NotAffine
from spfgen.sets.named import Space, pieces
from spfgen.sets.uf import Encoder, comparisons, linear
from spfgen.space.extents import Ranges
from spfgen.space.instances import make_instances
from spfgen.space.nodes import Instance, PatternObligation, Steps, Tensor
from spfgen.space.regions import Region, Regions
from spfgen.space.steps import Equation

MOST = 64
"""Products of sums are multiplied out to so many parts; beyond, one factor stands for all."""


def doubts(
    kernel: lang.Kernel,
    steps: Steps,
    tensors: Mapping[str, Tensor],
    regions: Regions,
    ranges_of_sums: Mapping[Equation, Ranges],
    ranges: Ranges,
) -> tuple[PatternObligation, ...]:
    """What may have no place in its target, of all statements outside of loops and conditions that do not ask for it to
    be left out. `own` is what those that are sums of products as they are written know of their indices, `ranges` what
    all know. What follows from what the kernel computes or values lead to is looked at while it runs
    (plan/steps/places.py)."""
    never_overflowing = {d.name for d in kernel.tensors if d.local or (d.shares is not None and not d.shares.indices)}
    obligations: dict[PatternObligation, None] = {}
    for statement, equation in zip(kernel.statements, steps.body, strict=True):
        if not isinstance(equation, Equation) or not isinstance(statement, lang.Statement):
            continue
        target = tensors[equation.target]
        if (
            equation.within
            or target.name in never_overflowing
            or not is_given(target)
            or is_seen_later(equation, steps)
        ):
            continue
        if equation in ranges_of_sums:
            obligations |= dict.fromkeys(_of_sum(statement, kernel.sizes, tensors, ranges_of_sums[equation]))
        else:
            obligations |= dict.fromkeys(_of_regions(statement, equation, tensors, regions, kernel.sizes, ranges))
    return tuple(obligations)


def _of_sum(
    statement: lang.Statement, sizes: tuple[str, ...], tensors: Mapping[str, Tensor], ranges: Ranges
) -> Iterator[PatternObligation]:
    """Of a sum of products: where none of a product's factors is 0."""
    for part in _Parts(statement, sizes).of(statement.value):
        known = _variables(statement.target).union(sizes, *map(_variables, part.factors))
        conditions = [c for w in (statement.where, *part.conditions) if w is not None for c in conjuncts(w)]
        conditions = [c for c in conditions if _variables(c) <= known]  # others say less: there may be such an index
        where = conjunction(conditions) if conditions else None
        if not _has_place(statement, replace(part, conditions=tuple(conditions)), tensors, ranges):
            yield PatternObligation(statement.target, part.factors, where)


def _of_regions(
    statement: lang.Statement,
    equation: Equation,
    tensors: Mapping[str, Tensor],
    regions: Regions,
    sizes: Sequence[str],
    ranges: Ranges,
) -> Iterator[PatternObligation]:
    """Of an equation that is more than that, in normal form: where its regions are."""
    access = lang.Access(equation.target, equation.subscripts)
    places = regions_of(equation, access, tensors[equation.target], regions)
    if any(isinstance(n, lang.Reduce) for n in walk(equation.value)):  # of nothing at all it is another value
        yield _of_statement(statement, where_empty=places is not None)
        if places is None:
            return
    for region in [Region(())] if places is None else places:
        known = _variables(access).union(*map(_variables, region.accesses))
        where = [c for w in (*region.where, equation.where) if w is not None for c in conjuncts(w)]
        names = known.union(*map(_variables, where))
        where = [c for c in where if _variables(c) <= known.union(sizes)]  # there may be such an index
        part = _Part(region.accesses, tuple(where))
        alone = replace(statement, target=access, where=None, value=lang.Constant(1))
        if region.links or equation.at or not names <= {*ranges.limits, *sizes}:
            yield replace(_of_statement(statement), asked=True)
        elif not _is_placed(alone, part, tensors, ranges):
            yield PatternObligation(access, part.factors, conjunction(where) if where else None)


def is_seen_later(equation: Equation, steps: Steps, names: Mapping[str, str] | None = None) -> bool:
    """Whether only the run shows where the values of an equation outside of loops are not their fill: it reads what
    others have computed. Of tensors that calls know a sum of products takes all places that may store something.
    `names`: what tensors are called where they are read, if anything else."""
    computed = reads_what_is_written(equation, steps.body, names)
    if not computed or equation not in steps.sums:
        return computed
    return any(isinstance(n, lang.Access) and n.tensor in steps.local for n in walk(equation))


def reads_what_is_written(equation: Equation, body: Sequence[Any], names: Mapping[str, str] | None = None) -> bool:
    """Whether an equation reads a tensor that another one of the kernel writes. `names`: what tensors are called where
    they are read, if anything else."""
    others = {n.target for s in body for n in walk(s) if isinstance(n, Equation) and n is not equation}
    others |= {names[n] for n in others if n in names} if names else set()
    return any(isinstance(n, lang.Access) and n.tensor in others for n in walk(equation))


def _of_statement(statement: lang.Statement, where_empty: bool = False) -> PatternObligation:
    parts = (*statement.target.subscripts, statement.value)
    read = tuple(n for part in parts for n in walk(part) if isinstance(n, lang.Access))
    return PatternObligation(statement.target, read, None, statement, where_empty)


def _variables(node: Any) -> set[str]:
    return {n.name for n in walk(node) if isinstance(n, Var)}


def is_given(target: Tensor) -> bool:
    """Whether a tensor comes with a pattern that may lack something."""
    return target.assembled is None and not holds_all(target.layout)


def regions_of(equation: Equation, access: lang.Access, target: Tensor, regions: Regions) -> list[Region] | None:
    """Where an equation may change its target, but for what that stores itself; None: everywhere."""
    value = equation.value
    if equation.updates is not None:
        value = replace(equation.updates, arguments=(access, value))
    fill = regions.fill(value)
    same = fill is not None and fill_text(fill) == fill_text(target.layout.fill)
    value_regions = regions.of(value) if same else None
    return None if value_regions is None else [r for r in value_regions if access not in r.accesses]


def _is_placed(statement: lang.Statement, part: _Part, tensors: Mapping[str, Tensor], ranges: Ranges) -> bool:
    try:
        return _has_place(statement, part, tensors, ranges)
    except (SpfgenError, NotAffine):
        return False


@dataclass(frozen=True)
class _Part:
    """A product, which is 0 where one of the factors stores nothing, and the conditions of the sums around it."""

    factors: tuple[lang.Access, ...] = ()
    conditions: tuple[Formula, ...] = ()


@dataclass
class _Parts:
    """Where a value may differ from 0: where one of its parts does."""

    statement: lang.Statement
    sizes: tuple[str, ...]
    taken: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.taken = {*self.sizes, *(n.name for n in walk(self.statement) if isinstance(n, Var))}

    def of(self, value: lang.Value) -> list[_Part]:
        match value:
            case lang.Constant(number):
                return [_Part()] if number else []
            case lang.Access():
                return [_Part((value,))]
            case lang.Reduce("add", indices, inner, where):
                names = {}
                for index in indices:
                    names[index] = fresh(index, self.taken | {index})
                    self.taken.add(names[index])
                conditions = () if where is None else (rename(where, names),)
                parts = self.of(rename(inner, names))
                return [replace(p, conditions=(*conditions, *p.conditions)) for p in parts]
            case lang.Apply("add" | "subtract", (left, right)):
                return [*self.of(left), *self.of(right)]
            case lang.Apply("multiply", (left, right)):
                one, two = self.of(left), self.of(right)
                if len(one) * len(two) > MOST:
                    return min(one, two, key=len)
                return [_Part((*a.factors, *b.factors), (*a.conditions, *b.conditions)) for a, b in product(one, two)]
            case lang.Apply("divide", (left, _)) | lang.Apply("negative", (left,)):
                return self.of(left)
        return [_Part()]


def _has_place(statement: lang.Statement, part: _Part, tensors: Mapping[str, Tensor], ranges: Ranges) -> bool:
    """Whether it is proved that the target stores each coordinate at which the part is not 0."""
    target = tensors[statement.target.tensor]
    aligned = [tensors[a.tensor] for a in part.factors if a.subscripts == statement.target.subscripts]
    if any(same_pattern(t, target) for t in aligned):
        return True
    known = {function for a in part.factors for _, function in tensors[a.tensor].arrays}
    if not {function for _, function in target.arrays} <= known:
        return False
    value = lang.product_of(part.factors)
    where = conjunction(part.conditions) if part.conditions else None
    plain = replace(statement, value=value, where=where)
    free = replace(target, layout=everywhere(target.layout.rank), sizes=(), arrays=())
    alone = list(make_instances(plain, value, {**tensors, target.name: free}, ranges))
    both = [i for i in make_instances(plain, value, tensors, ranges) if not i.guards]
    return all(any(_lies_within(a, b) for b in both) for a in alone)


def same_pattern(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors store the same coordinates, because their index arrays are the same."""
    same = one.layout == other.layout and one.extents == other.extents and one.sizes == other.sizes
    return same and one.arrays == other.arrays


def _lies_within(alone: Instance, both: Instance) -> bool:
    """Whether each point of the first is one of the second for some values of the dimensions that it has more.

    Of these, the calls of index arrays cannot be chosen: each has the value of a call of the first with its arguments.
    """
    same: list[Formula] = []
    for name in (n for n in both.calls if n not in alone.calls):
        twin = next((n for n in alone.calls if _alike(both.calls[name], alone.calls[n])), None)
        if twin is None:
            return False
        pairs = zip(both.calls[name].arguments, alone.calls[twin].arguments, strict=True)
        same += [Compare("=", Var(name), Var(twin)), *(Compare("=", a, b) for a, b in pairs)]
    shown = list(alone.domain.space.names) + [n for n in both.sizes if n not in alone.domain.space.position]
    hidden = [n for n in both.domain.space.names if n not in shown]
    space = Space((*shown, *hidden))
    sizes: list[Formula] = [Compare(">=", Var(s), ZERO) for s in both.sizes]
    points = alone.domain.reordered(space).with_constraints(comparisons([*sizes, *alone.facts]))
    return points.is_within_projection(both.domain.reordered(space).with_constraints(comparisons(same)), hidden)


def _alike(one: Call, other: Call) -> bool:
    """Whether two calls are of one array, at places that are equal where the positions in them are."""
    if one.function != other.function:
        return False
    pairs = zip(one.arguments, other.arguments, strict=True)
    return all(linear(a).constant == linear(b).constant for a, b in pairs)


@lru_cache(maxsize=1024)
def holds_all(layout: Layout) -> bool:
    """Whether a layout is proved to have a place for every coordinate within its extents."""
    if layout.indexes or calls(layout.relation):
        return False
    inside = [within(Var(c), ZERO, Var(n)) for c, n in zip(layout.coordinates, layout.parameters, strict=True)]
    inside += [Compare(">=", Var(s), ZERO) for s in layout.sizes]
    return any(_holds_all(layout, formula, inside) for formula in _stored(layout))


def _stored(layout: Layout) -> Iterator[Formula]:
    """The relation with what a value array says of it, for those whose places are affine or proved to lie inside."""
    for value in layout.values:
        places = [within(p, ZERO, e) for p, e in zip(value.position, value.extents, strict=True)]
        try:
            Encoder().formula(conjunction(places))
        except NotAffine:
            if not places_inside(layout, value).proved:
                continue
            places = []
        yield conjunction([layout.relation, value.when, *places])


def _holds_all(layout: Layout, stored: Formula, inside: list[Formula]) -> bool:
    encoder = Encoder()
    formula = conjunction([encoder.formula(stored), *encoder.definitions()])
    shown = (*layout.parameters, *layout.sizes, *layout.coordinates)
    hidden = (*layout.positions, *encoder.quotients)
    space = Space((*shown, *hidden))
    box = space.of(comparisons(p for f in inside for p in conjuncts(f)))
    return any(box.is_within_projection(p, hidden) for p in pieces(space, formula, _no_calls))


def _no_calls(call: object) -> str:
    raise NotAffine(call)  # type: ignore[arg-type]
