"""The order in which packing numbers positions, and how it fills what no entry determines: the first choice with which
the arrays of small samples satisfy the declared properties.

Cheap departures from the plain order are tried first: keys in another order or turned round, sums of keys that a
property compares, then rows by their number of entries or their first one. Where the first one found stores more than
the entries, a few more are tried, and the one that stores least is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, permutations, product
from math import prod

import numpy as np

from spfgen.errors import DataError, SpfgenError, Unsupported
from spfgen.facts.formula import Bin, Call, Compare, Expr, Forall, Formula, Num, Var, calls, variables
from spfgen.ir import walk
from spfgen.layout.loops import split
from spfgen.layout.nodes import Layout
from spfgen.layout.pack_assembly import assemble, check_shared
from spfgen.layout.pack_entries import PackingState, sorted_entries
from spfgen.layout.pack_fill import fills
from spfgen.layout.pack_rules import KeyOrder, PackPlan, Rank, Ranked
from spfgen.layout.points import Array, enumerate_points, shape_of, to_coordinates
from spfgen.layout.refusals import with_remedy
from spfgen.layout.satisfy import satisfying, small_sizes
from spfgen.layout.validate import violation
from spfgen.sets.affine import Affine, NotAffine, affine

ATTEMPTS = 4096
"""So many keys are put in orders that are tried."""
BETTER = 16
"""So many more for each rank, where the first one that is right stores more than the entries."""

SMALL, MOST_SAMPLED = 4, 2**20
"""The extents of samples of many dimensions, and how many values they may store."""

FITTING = 12
"""So many samples are made of arrays that the prover finds."""
OPEN = ("write", "start", "places", "most", "least", "given")
"""Ranks that choose what no entry says."""

Option = tuple[int, KeyOrder]
"""An order and how far it departs from the plain one."""


def orders_of(layout: Layout, plan: PackPlan) -> tuple[KeyOrder, ...]:
    """An order for each rank of the plan. Raises Unsupported when none is right."""
    if _is_too_large(layout):
        message = f"no packing for layout `{layout.name}`: it is tried on small data, but with {layout.rank} dimensions"
        raise Unsupported(f"{message} these are more than {MOST_SAMPLED} elements", None, ("use coo",))
    attempts = ATTEMPTS // max(1, sum(len(r.keys) for r in plan.ranks))
    options = [list(islice(_options(plan, r), attempts)) for r in plan.ranks]
    reasons: list[tuple[bool, str]] = []
    for samples in (_random_samples, _fitting_samples):
        if reasons and (layout.hints or not samples(layout)):
            break
        for orders in islice(_by_cost(options), attempts):
            try:
                result = _tried(layout, plan, orders, samples(layout))
            except Unsupported as error:
                raise with_remedy(error, layout) from None
            if isinstance(result, int):
                orders = _with_less(layout, plan, options, orders, result, samples(layout))
                return tuple(replace(o, few=samples is _fitting_samples) for o in orders)
            if samples is _random_samples:
                reasons.append(result)
    raise _refusal(layout, plan, reasons)


def _is_too_large(layout: Layout) -> bool:
    """Whether a sample stores so many values that it cannot be tried: for each element one, of many dimensions."""
    sizes = dict.fromkeys(layout.parameters, SMALL)
    known = [v for v in layout.values if all(variables(e) <= sizes.keys() and not calls(e) for e in v.extents)]
    return any(prod(shape_of(v.extents, sizes)) > MOST_SAMPLED for v in known)


def _with_less(
    layout: Layout,
    plan: PackPlan,
    options: Sequence[Sequence[Option]],
    orders: tuple[KeyOrder, ...],
    beyond: int,
    samples: Sequence[PackingSample],
) -> tuple[KeyOrder, ...]:
    """The orders, or others with which the samples take less places: rank by rank, of those that are open the best."""
    for k, rank in enumerate(plan.ranks):
        is_open = rank.kind in OPEN or any(option.hint for _, option in options[k])
        for _, option in islice(options[k], BETTER) if is_open else ():
            other = (*orders[:k], option, *orders[k + 1 :])
            if not beyond or other == orders:
                continue
            with suppress(Unsupported):
                result = _tried(layout, plan, other, samples)
                if isinstance(result, int) and result < beyond:
                    orders, beyond = other, result
    return orders


def _refusal(layout: Layout, plan: PackPlan, reasons: Sequence[tuple[bool, str]]) -> SpfgenError:
    """Why none is right: what the plain order breaks, of properties if it is one of those."""
    broken = any(of_property for of_property, _ in reasons)
    first = next(text for of_property, text in reasons if of_property or not broken)
    if (known := plan.otherwise) is not None:
        notes = [*known.notes, f"numbered as packing is free to: {first}"]
        return with_remedy(Unsupported(known.message, known.span, notes), layout)
    order = "as its `pack` clause says" if layout.hints else "in ascending order"
    notes = [f"{order}: {first}"]
    if layout.hints:
        notes.append(
            "entries whose keys in `pack` differ get positions of their own: keys must be equal for entries that one "
            "position stands for; where these are (i, j) and (j, i), keys speak of max(i, j) and min(i, j)"
        )
    count = len(reasons)
    tried = f"none of the {count} orders of the entries that packing tries" if count > 1 else "no order of the entries"
    wanted = "satisfies its properties" if broken else "gives all its arrays"
    return with_remedy(
        Unsupported(f"layout `{layout.name}` cannot be packed: {tried} {wanted}", layout.span, notes), layout
    )


def _by_cost(options: Sequence[Sequence[Option]]) -> Iterator[tuple[KeyOrder, ...]]:
    """One option of each rank, those that depart least first."""

    def of_cost(ranks: Sequence[Sequence[Option]], total: int) -> Iterator[tuple[KeyOrder, ...]]:
        if not ranks:
            if total == 0:
                yield ()
            return
        for cost, order in ranks[0]:
            if cost <= total:
                for others in of_cost(ranks[1:], total - cost):
                    yield (order, *others)

    most = sum(max(cost for cost, _ in rank) for rank in options)
    for total in range(most + 1):
        yield from of_cost(options, total)


# --- options ------------------------------------------------------------------------------------------------


def _options(plan: PackPlan, rank: Rank) -> Iterator[Option]:
    """All orders of the keys of a rank, first the one that properties speak of, then the natural one."""
    layout = plan.encoded.layout
    hints = list(_hints(plan, rank))
    if rank.kind in ("write", "most", "least", "given"):
        array = rank.array or plan.encoded.calls[rank.keys[0]].function
        for number in range(len(fills(layout, array, rank.kind))):
            yield min(number, 1), KeyOrder(((0, False),), rest=number)
        return
    if rank.kind in ("start", "places"):
        index = layout.index(rank.array or plan.encoded.calls[rank.keys[0]].function)
        ways = {"start": 5, "places": 2}[rank.kind] if index.properties or index.ranges else 1
        yield from ((min(number, 1), KeyOrder(((0, False),), rest=number)) for number in range(ways))
        yield from ((cost, KeyOrder(((0, False),), rest=2, hint=hint)) for cost, hint in hints)
        return
    if rank.kind == "digits":
        yield 0, KeyOrder(tuple((k, False) for k in range(len(rank.places))))
        return
    padded = rank.kind == "slots" and any(plan.encoded.calls[k].function in plan.sentinels for k in rank.keys)
    plain = 0
    declared = _said(plan, rank)
    if declared is not None:
        yield 0, declared
    for empty_first in (False, True) if padded else (False,):
        for order in permutations(range(len(rank.keys))):
            for down in product((False, True), repeat=len(rank.keys)):
                yield plain, KeyOrder(tuple(zip(order, down, strict=True)), empty_first)
                plain = 1
    for sums in _sums(layout, tuple(plan.encoded.calls[k].function for k in rank.keys if k in plan.encoded.calls)):
        for order in permutations(range(len(rank.keys))):
            for down in product((False, True), repeat=len(sums) + len(rank.keys)):
                yield len(sums), KeyOrder(tuple(zip((*sums, *order), down, strict=True)))
    natural = tuple((k, False) for k in range(len(rank.keys)))
    for cost, hint in hints:
        yield cost, KeyOrder(natural, hint=hint)


def _said(plan: PackPlan, rank: Rank) -> KeyOrder | None:
    """The order that properties speak of, if any does: one that says `idx_2(p) = idx_2(q) => idx_1(p) >= idx_1(q)` for
    p < q wants idx_2 before idx_1, and idx_1 falling."""
    known = {plan.encoded.calls[k].function: n for n, k in enumerate(rank.keys) if k in plan.encoded.calls}
    before: dict[int, set[int]] = {}
    falling: set[int] = set()
    for fact in (p for index in plan.encoded.layout.indexes if index.name in known for p in index.properties):
        conditions, conclusions = split(fact.formula.body if isinstance(fact.formula, Forall) else fact.formula)
        match conclusions:
            case [Compare("<" | "<=" | ">" | ">=" as op, Call(function, left), Call(other))] if (
                function == other in known
            ):
                later = {b.name for c in conditions for b in _later(c)}
                names = {n.name for a in left for n in walk(a) if isinstance(n, Var)}
                if (op in (">", ">=")) != bool(names & later):
                    falling.add(known[function])
                equal = {call.function for c in conditions for call in _equal(c)}
                before[known[function]] = {known[n] for n in equal if n in known and n != function}
    order: list[int] = []
    while len(order) < len(rank.keys):
        ready = (k for k in range(len(rank.keys)) if k not in order and before.get(k, set()) <= set(order))
        following = next(ready, None)
        if following is None:
            return None
        order.append(following)
    return KeyOrder(tuple((k, k in falling) for k in order)) if before else None


def _later(condition: Formula) -> Iterator[Var]:
    """The later one of two positions."""
    match condition:
        case Compare("<" | "<=", Var(), Var() as later) | Compare(">" | ">=", Var() as later, Var()):
            yield later


def _equal(condition: Formula) -> Iterator[Call]:
    """The call, where one is equal at two positions."""
    match condition:
        case Compare("=", Call() as call, Call() as other) if call.function == other.function:
            yield call


@lru_cache(maxsize=256)
def _sums(layout: Layout, functions: tuple[str, ...]) -> tuple[tuple[Affine, ...], ...]:
    """What properties compare at two positions and is no key itself: sums and quotients of keys, one or two of them."""
    sums: dict[Affine, None] = {}
    for fact in (p.formula for a in layout.indexes for p in a.properties):
        for part in walk(fact):
            if isinstance(part, Compare) and (value := _compared(part)) is not None:
                names = {n.removesuffix("'") for n in value.names()}
                if names <= {*functions} and len(value.terms) > 0 and not _is_key(value):
                    sums[Affine(value.terms)] = None
    return (*((v,) for v in sums), *permutations(sums, 2))


def _is_key(value: Affine) -> bool:
    match value.terms:
        case ((str(), 1 | -1),):
            return True
    return False


def _compared(part: Compare) -> Affine | None:
    """What a comparison says of one position on its left and of another on its right, with functions as names."""
    sides: list[Affine] = []
    places: list[tuple[Expr, ...]] = []
    for side in (part.left, part.right):
        calls_here = calls(side)
        if not calls_here or len({c.arguments for c in calls_here}) != 1:
            return None
        places.append(calls_here[0].arguments)
        with_names = _affine_of_functions(side)
        if with_names is None:
            return None
        sides.append(Affine(with_names.terms))
    return sides[0] if sides[0] == sides[1] and places[0] != places[1] else None


def _affine_of_functions(side: Expr) -> Affine | None:
    try:
        return affine(side, lambda call: call.function)
    except NotAffine:
        return None


def _hints(plan: PackPlan, rank: Rank) -> Iterator[tuple[int, tuple[Expr, ...]]]:
    """Orders of what one coordinate stands for, such as rows: by their number of entries, or by their first or last."""
    layout, encoded = plan.encoded.layout, plan.encoded
    coordinate = _numbered(plan, rank)
    if coordinate is None or rank.hint or len(encoded.pieces) > 1 or not any(a.properties for a in layout.indexes):
        return
    others = [c for c in layout.coordinates if c != coordinate]
    count = Call("count", (Var(coordinate),))
    every: list[Expr] = [count, *(Call(f, (Var(c), Var(coordinate))) for c in others for f in ("least", "most"))]
    for value in every:
        falling = Bin("-", Num(0), value)
        for first in (falling, value) if value is count else (value, falling):
            yield 1 + (value is not count), (first, Var(coordinate))


def _numbered(plan: PackPlan, rank: Rank) -> str | None:
    """The coordinate whose values a rank numbers: those of a key in [0, n), or those for which an array says where."""
    coordinates = plan.encoded.layout.coordinates
    if rank.kind == "start":
        match plan.encoded.calls[rank.keys[0]].arguments:
            case (Var(name),) if name in coordinates:
                return name
        return None
    if rank.kind != "slots" or len(rank.keys) != 1 or rank.run or rank.later:
        return None
    values = {r.values for step in plan.steps for r in step if isinstance(r, Ranked) and r.rank == rank}
    match [*values]:
        case [((Affine(((str() as name, 1),), 0), 1),)] if name in coordinates:
            return name
    return None


# --- samples --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PackingSample:
    """Entries of a small tensor. Those that do not `fit` may have no place."""

    shape: tuple[int, ...]
    columns: Mapping[str, Array]
    values: Array
    fit: bool = False


def _tried(
    layout: Layout, plan: PackPlan, orders: tuple[KeyOrder, ...], samples: Sequence[PackingSample]
) -> int | tuple[bool, str]:
    """How many values, and places of values, the arrays of small samples have beyond the entries; or (whether a
    property is broken, what is) with these orders."""
    beyond = 0
    for sample in samples:
        sizes = dict(zip(layout.parameters, sample.shape, strict=True))
        state = PackingState(layout, sizes, dict(sample.columns), sample.values, lenient=not sample.fit)
        try:
            assemble(state, plan, orders)
        except DataError as error:
            return False, error.message
        for index in layout.indexes:
            shape, wanted = state.arrays[index.name].shape, shape_of(index.extents, state.sizes)
            if shape != wanted:
                why = f"entries make it of shape {shape}, and the layout declares {wanted}"
                return False, f"nothing says what the array `{index.name}` holds at all of its places: {why}"
        reason = violation(layout, state.sizes, state.arrays)
        if reason is not None:
            return True, reason
        if plan.is_free or sample.fit:
            try:
                check_shared(state, plan)
            except SpfgenError as error:
                return False, error.message
        beyond += sum(state.arrays[v.name].size for v in layout.values) - state.count
        if any(r.kind in OPEN for r in plan.ranks):
            beyond += enumerate_points(layout, state.sizes, state.arrays).count - state.count
    return max(0, beyond)


def samples_of(layout: Layout, orders: Sequence[KeyOrder]) -> tuple[PackingSample, ...]:
    """Those that speak for these orders."""
    return (_fitting_samples if any(o.few for o in orders) else _random_samples)(layout)


@lru_cache(maxsize=64)
def _random_samples(layout: Layout) -> tuple[PackingSample, ...]:
    """Mostly enough entries to fill groups and blocks, one of them nearly empty, one empty."""
    samples = []
    for seed in range(5):
        shape, columns = _sample(layout, seed)
        count = len(next(iter(columns.values()), np.ones(1)))
        values = 1.0 + np.arange(count) // 2 % 2 * (seed > 0)  # neighbours of equal values, and of others
        samples.append(PackingSample(shape, columns, values))
    if layout.rank:
        samples.append(PackingSample(shape, {n: c[:0] for n, c in columns.items()}, values[:0]))
    return tuple(samples)


@lru_cache(maxsize=64)
def _fitting_samples(layout: Layout) -> tuple[PackingSample, ...]:
    """What arrays that satisfy all that is declared hold, where the prover finds some: entries that a layout has places
    for, when it has none for most."""
    samples: list[PackingSample] = []
    for seed, sizes in product(range(2), small_sizes(layout)):
        try:
            arrays = satisfying(layout, sizes, seed)
        except DataError:  # a property that the prover is not asked about
            return ()
        if arrays is None:
            continue
        random = np.random.default_rng(seed)
        values = {v.name: random.integers(1, 9, shape_of(v.extents, sizes)).astype(np.float64) for v in layout.values}
        coords, stored = to_coordinates(layout, sizes, arrays, values)
        shape = tuple(sizes[p] for p in layout.parameters)
        columns, single = sorted_entries(layout, shape, coords, stored)
        if 0 < len(single) == len(stored):
            samples.append(PackingSample(shape, columns, single, fit=True))
        if len(samples) == FITTING:
            break
    return (*samples, *_random_samples(layout)[-1:]) if samples else ()


def _sample(layout: Layout, seed: int) -> tuple[tuple[int, ...], dict[str, Array]]:
    """A small shape and random coordinates in it, mostly enough of them to fill groups and blocks."""
    numbers = [n.value for n in walk(layout.relation) if isinstance(n, Num) and 1 < n.value <= 64]
    scale = max(numbers, default=1)
    random = np.random.default_rng(seed)
    base = scale * {1: 12, 2: 6}.get(layout.rank, 4) + seed
    shape = tuple(min(base - k % 2, 5 if seed == 2 else base) for k in range(layout.rank))
    many = 30 if layout.rank < 3 else 60
    many = {3: 4, 4: 9}.get(seed, many)  # in the end some that are nearly empty
    columns = [random.integers(0, n, many) for n in shape]
    if not columns:
        return (), {}
    coordinates, _ = sorted_entries(layout, shape, tuple(columns), np.ones(len(columns[0])))
    return shape, coordinates
