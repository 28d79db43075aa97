"""Runs the plan of packing on columns with one row for each entry."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from spfgen import tuning
from spfgen.errors import DataError, InternalError, Unsupported
from spfgen.facts.formula import Expr, Var, calls, show, variables
from spfgen.layout.fill import differs, filled
from spfgen.layout.hints import Seen, hint_columns, numbered_blocks, numbered_runs
from spfgen.layout.nodes import IndexArray, Layout, ValueArray
from spfgen.layout.pack_free import rounds_of
from spfgen.layout.pack_rules import Computed, KeyOrder, PackPlan, Rank, Ranked, Rules, Solved, Widened, shift
from spfgen.layout.points import (
    Array,
    affine_value,
    argument_names,
    claim,
    constraint_holds,
    enumerate_points,
    flat_place,
    gathered,
    inside,
    relation_rows,
    row_ranks,
    rows_of,
    shape_of,
    sorted_order,
    turned,
    value_places,
)
from spfgen.layout.refusals import NoPlace
from spfgen.sets.affine import Affine, NotAffine, affine, expression
from spfgen.sets.bounds import bounds
from spfgen.sets.uf import linear


class Elsewhere(Exception):
    """Entries have no place in the alternative of the relation that they were given; there is another one for them.

    `entries` are their numbers, `pieces` what they were given.
    """

    def __init__(self, entries: Array, pieces: Array) -> None:
        super().__init__("entries go to another alternative")
        self.entries = entries
        self.pieces = pieces


class Together(DataError):
    """Entries that a layout would store with others, which are not there, or twice."""


class NotWhole(Exception):
    """Of an interval that stands for its coordinates, one end has another place than the other, or none."""


@dataclass
class Entries:
    """Rows of entries while positions are added to them. `lenient`: rows that cannot be stored are dropped.

    `piece` is the alternative that holds an entry, `number` which entry it was at the beginning, `more` whether there
    are further alternatives for it. `starts`: up to where a position has been given away. A row that is `linked` is the
    last of an interval, of which the row before it is the first: they stand for all between them, too.
    """

    layout: Layout
    sizes: dict[str, int]
    columns: dict[str, Array]
    values: Array
    lenient: bool = False
    linked: Array | None = None
    piece: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    number: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    more: Array = field(default_factory=lambda: np.zeros(0, dtype=bool))
    arrays: dict[str, Array] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def known(self) -> dict[str, Any]:
        return {**self.sizes, **self.columns}

    @property
    def seen(self) -> Seen:
        """What hints speak of."""
        return Seen(self.count, self.known, tuple(self.layout.coordinates), self.values)

    def coordinate(self, row: int) -> tuple[int, ...]:
        return tuple(int(self.columns[c][row]) for c in self.layout.coordinates)

    def claim(self, array: str, shape: tuple[int, ...]) -> None:
        """Ask for the elements of an array before it is made. Raises TooLarge."""
        extents = " x ".join(map(str, shape))
        claim(prod(shape), f"`{array}` of layout `{self.layout.name}` is {extents}")

    def keep(self, mask: Array) -> None:
        """Drop the other rows. Raises Elsewhere when there is an alternative for them, else DataError when one of them
        has a value."""
        if mask.all():
            return
        if self.linked is not None:
            raise NotWhole
        self.elsewhere(~mask & self.more)
        lost = np.flatnonzero(~mask & differs(self.values, self.layout.fill))
        if len(lost) and not self.lenient:
            at = self.coordinate(int(lost[0]))
            raise NoPlace(
                f"expected entries that layout `{self.layout.name}` can store, "
                f"but it has no place for the value {self.values[lost[0]]} at {at}",
                self.layout,
                self.sizes,
                at,
            )
        self.columns = {n: c[mask] for n, c in self.columns.items()}
        self.values, self.piece = self.values[mask], self.piece[mask]
        self.number, self.more = self.number[mask], self.more[mask]

    def elsewhere(self, mask: Array) -> None:
        """Raises Elsewhere when there are such rows."""
        if mask.any():
            raise Elsewhere(self.number[mask], self.piece[mask])


def assemble(state: Entries, plan: PackPlan, orders: tuple[KeyOrder, ...]) -> None:
    """Fill `state.sizes` and `state.arrays`. What an alternative of the relation has no place for goes to the next."""
    begin = replace(state, sizes=dict(state.sizes), columns=dict(state.columns))
    first = np.zeros(state.count, dtype=np.int64)
    while True:
        try:
            return _assemble(state, plan, orders, first)
        except Elsewhere as others:
            first[others.entries] = others.pieces + 1
            state.sizes, state.arrays, state.starts = dict(begin.sizes), {}, {}
            state.columns, state.values = dict(begin.columns), begin.values


def _assemble(state: Entries, plan: PackPlan, orders: tuple[KeyOrder, ...], first: Array) -> None:
    """As `assemble`; entries take no alternative before their `first`. Raises Elsewhere."""
    _allot(state, plan, first)
    _learn(state, plan)
    order_of = dict(zip(plan.ranks, orders, strict=True))
    for step in plan.steps:
        ranks = dict.fromkeys(r.rank for r in step if isinstance(r, Ranked))
        _compute(state, step)
        for rank in ranks:
            rules = {k: r for k, r in enumerate(step) if isinstance(r, Ranked) and r.rank == rank}
            _rank(state, plan, rank, rules, order_of[rank])
        _learn(state, plan)
    _solve_rest(state)
    _learn(state, plan)
    _check_constraints(state, plan)
    _store_values(state)


def _allot(state: Entries, plan: PackPlan, first: Array) -> None:
    """Each entry belongs to the first piece from `first` on whose constraints on coordinates hold; without one it is
    dropped."""
    state.piece = np.full(state.count, -1, dtype=np.int64)
    state.more = np.zeros(state.count, dtype=bool)
    state.number = np.arange(state.count)
    for k, constraints in enumerate(plan.belongs):
        fits = first <= k
        for constraint in constraints:
            fits &= constraint_holds(constraint, state.known)
        state.more |= fits & (state.piece >= 0)
        state.piece[fits & (state.piece < 0)] = k
    state.keep(state.piece >= 0)


def _compute(state: Entries, step: Rules) -> None:
    good = np.ones(state.count, dtype=bool)
    for k, rule in enumerate(step):
        match rule:
            case Ranked(rank, _) if rank.position:
                _column(state, rank.position)
                if rank.kind == "chunk":
                    _column(state, rounds_of(rank.position))
            case Computed(position, numerator, divisor):
                column = _column(state, position)
                column[...] = np.where(state.piece == k, affine_value(numerator, state.known) // divisor, column)
            case Solved(name):
                own = np.flatnonzero(state.piece == k)
                value, found = _solved(state, rule, own)
                _column(state, name)[own] = value
                good[own] = found
            case Widened(size):
                state.sizes[size] = max(
                    state.sizes.get(size, 0), _widest(state, rule, np.flatnonzero(state.piece == k))
                )
    state.keep(good)


def _widest(state: Entries, rule: Widened, rows: Array) -> int:
    """The least size that suffices for these rows."""
    known = {**state.sizes, **{n: c[rows] for n, c in state.columns.items()}}
    needed = [np.asarray(affine_value(numerator, known) // divisor) for numerator, divisor in rule.least]
    return max((int(n.max()) for n in needed if n.size), default=0)


def _column(state: Entries, name: str) -> Array:
    """The column of a position, zero at first."""
    if name not in state.columns:
        state.columns[name] = np.zeros(state.count, dtype=np.int64)
    return state.columns[name]


def _solved(state: Entries, rule: Solved, rows: Array) -> tuple[Any, Array]:
    """(the values of these rows, whether they have one)."""
    known = {**state.sizes, **{n: c[rows] for n, c in state.columns.items()}}
    found = np.ones(len(rows), dtype=bool)
    for digit, cases in rule.digits:
        value = np.zeros(len(rows), dtype=np.int64)
        done = np.zeros(len(rows), dtype=bool)
        for case in cases:
            here = ~done
            for constraint in case.where:
                here &= constraint_holds(constraint, known)
            value = np.where(here, affine_value(case.numerator, known) // case.divisor, value)
            done |= here
        known[digit] = value
        found &= done
    return affine_value(rule.value, known), found


def _learn(state: Entries, plan: PackPlan) -> None:
    """Read finished arrays at places that are known, and compute quotients, until there is nothing new."""
    before = -1
    while before != len(state.columns):
        before = len(state.columns)
        for name, (numerator, divisor) in plan.encoded.quotients.items():
            if name not in state.columns and numerator.names() <= set(state.known):
                value = affine_value(numerator, state.known) // divisor
                state.columns[name] = np.broadcast_to(np.asarray(value, dtype=np.int64), (state.count,))
        _gather_calls(state, plan)


def _gather_calls(state: Entries, plan: PackPlan) -> None:
    """Read finished arrays at places that are known; entries that would read outside are dropped."""
    for name, call in plan.encoded.calls.items():
        if name in state.columns or call.function not in state.arrays:
            continue
        if not argument_names(call) <= set(state.known):
            continue
        subscripts = tuple(affine_value(linear(a), state.known) for a in call.arguments)
        values, valid = gathered(state.arrays[call.function], subscripts, state.count)
        needed = np.zeros(state.count, dtype=bool)
        for k, piece in enumerate(plan.encoded.pieces):
            needed |= (state.piece == k) & bool(piece.constraints(name))
        state.columns[name] = values
        state.keep(valid | ~needed)


def _check_constraints(state: Entries, plan: PackPlan) -> None:
    """Every entry satisfies the relation, with the arrays as they are."""
    good = np.ones(state.count, dtype=bool)
    known = state.known
    for k, piece in enumerate(plan.encoded.pieces):
        own = state.piece == k
        for constraint in piece.constraints():
            missing = constraint.value.names() - set(known)
            if missing:
                raise InternalError(f"packing `{state.layout.name}` left {sorted(missing)} unknown")
            good &= ~own | constraint_holds(constraint, known)
    state.keep(good)


# --- ranks ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Rows:
    """The entries that a rank is about: their row numbers, and for each key of the rank its value."""

    rows: Array
    keys: list[Array]

    @property
    def count(self) -> int:
        return len(self.rows)


def _rank(state: Entries, plan: PackPlan, rank: Rank, rules: Mapping[int, Ranked], order: KeyOrder) -> None:
    for function in _functions(plan, rank):
        if function in state.arrays:
            raise Unsupported(
                f"layout `{state.layout.name}` cannot be packed: the array `{function}` belongs to several positions",
                state.layout.span,
            )
    if rank.least:
        rank = replace(rank, low=max(rank.low, *(int(affine_value(e, state.sizes)) for e in rank.least)))
    match rank.kind:
        case "slots":
            _rank_slots(state, plan, rank, rules, order)
        case "write":
            _write_known(state, plan, rank, rules, order)
        case "padded":
            _rank_padded(state, plan, rank, rules, order)
        case "covered":
            _rank_covered(state, plan, rank, rules)
        case "room":
            _make_spans(state, plan, rank, rules)
        case "places":
            _make_places(state, rank, order)
        case "start":
            _make_starts(state, plan, rank, rules, order)
        case "digits":
            _write_digits(state, plan, rank, rules)
        case "chunk":
            _rank_chunks(state, plan, rank, rules, order)
        case "most" | "least":
            _write_extremes(state, plan, rank, rules, order)
        case _:
            _rank_counted(state, plan, rank, rules, order)


def _functions(plan: PackPlan, rank: Rank) -> list[str]:
    """The arrays that a rank makes."""
    if rank.array:
        return [rank.array]
    if rank.kind == "room":
        return [plan.encoded.calls[rank.begin].function]
    keys = () if rank.later else rank.keys
    return [plan.encoded.calls[n].function for n in (*keys, rank.begin, rank.other) if n]


def _rows(state: Entries, rules: Mapping[int, Ranked]) -> _Rows:
    """The entries of the pieces that have this rank, with their keys."""
    width = max(len(r.values) for r in rules.values())
    keys = [np.zeros(state.count, dtype=np.int64) for _ in range(width)]
    mine = np.zeros(state.count, dtype=bool)
    for k, rule in rules.items():
        own = state.piece == k
        mine |= own
        again = rule.values[-1:] * (width - len(rule.values))
        for key, (numerator, divisor) in zip(keys, rule.values + again, strict=True):
            key[...] = np.where(own, affine_value(numerator, state.known) // divisor, key)
    rows = np.flatnonzero(mine)
    return _Rows(rows, [k[rows] for k in keys])


def _arranged(keys: list[Array], order: KeyOrder) -> list[Array]:
    """The keys in the order of importance, turned round where they run down."""
    return [-keys[k] if down else keys[k] for k, down in order.keys]


def _sorted_by(state: Entries, plan: PackPlan, rank: Rank, rows: _Rows, order: KeyOrder) -> list[Array]:
    """What the positions of a rank are in the order of: the layout's hint, then the keys."""
    if rank.run:
        return rows.keys
    hinted = [] if not rank.hint else hint_columns(state.seen, plan, rank)
    extra = [state.columns[n][rows.rows] for n in rank.extra]
    return [*(h[rows.rows] for h in hinted), *_arranged(rows.keys, order), *extra]


def _groups(state: Entries, plan: PackPlan, rank: Rank, rows: Array) -> list[Array]:
    """What says the group in which a rank counts."""
    if rank.begin:
        return _subscripts(state, plan, rank.begin, rows)
    if rank.groups is None:
        return _subscripts(state, plan, rank.keys[0], rows, rank.position)
    return _columns(state, rank.groups, rows)


def _columns(state: Entries, values: tuple[Affine, ...], rows: Array) -> list[Array]:
    """The values of these rows."""
    return [
        np.broadcast_to(np.asarray(affine_value(v, state.known), dtype=np.int64), (state.count,))[rows] for v in values
    ]


def _keyed(state: Entries, plan: PackPlan, rank: Rank, rules: Mapping[int, Ranked]) -> _Rows:
    """The entries with their keys; where runs are counted, the key is the number of the run."""
    rows = _rows(state, rules)
    if not rank.run:
        return rows
    groups = [*_groups(state, plan, rank, rows.rows), *_columns(state, rank.within or (), rows.rows)]
    return _Rows(rows.rows, [_numbered(state, plan, rank, rows, groups)])


def _numbered(state: Entries, plan: PackPlan, rank: Rank, rows: _Rows, groups: list[Array]) -> Array:
    """The number of the run of each entry."""
    if len(rows.keys) > 1:
        return numbered_blocks(groups, rows.keys)
    hinted = [h[rows.rows] for h in hint_columns(state.seen, plan, rank)] if rank.hint else []
    linked = None if state.linked is None else state.linked[rows.rows]
    return numbered_runs(groups, rows.keys[0], hinted, state.values[rows.rows] if rank.same else None, linked)


def _subscripts(state: Entries, plan: PackPlan, name: str, rows: Array, without: str = "") -> list[Array]:
    """The arguments of a call for these rows, int64[len(rows)] each, without those that are the given position."""
    result = []
    for argument in plan.encoded.calls[name].arguments:
        if without and shift(argument, without) is not None:
            continue
        value = np.broadcast_to(np.asarray(affine_value(linear(argument), state.known), dtype=np.int64), (state.count,))
        result.append(value[rows])
    return result


def _rank_counted(state: Entries, plan: PackPlan, rank: Rank, rules: Mapping[int, Ranked], order: KeyOrder) -> None:
    """Positions counted through all segments; the pointer arrays are the running counts."""
    begin = state.layout.index(plan.encoded.calls[rank.begin].function)
    rows = _keyed(state, plan, rank, rules)
    places = _subscripts(state, plan, rank.begin, rows.rows)
    needed = [_most(p) for p in places]
    extents = solved_extents(state, begin, [*needed[:-1], needed[-1] + (rank.kind == "pointer")])
    room = (*extents[:-1], max(0, extents[-1] - (rank.kind == "pointer")))
    good = inside(room, places, rows.count)
    if not good.all():
        mask = np.ones(state.count, dtype=bool)
        mask[rows.rows[~good]] = False
        state.keep(mask)
        rows = _rows(state, rules)
        places = _subscripts(state, plan, rank.begin, rows.rows)
    state.claim(begin.name, extents)
    segment = flat_place(extents, places, rows.count)
    ranks, first = row_ranks([segment, *_sorted_by(state, plan, rank, rows, order)], rows.count)
    state.columns[rank.position][rows.rows] = rank.low + ranks
    counts = np.bincount(segment[first], minlength=prod(extents))
    ends = rank.low + np.cumsum(counts)
    starts = ends - counts
    state.arrays[begin.name] = (starts + rank.base).reshape(extents).astype(np.int64)
    if rank.other:
        other = state.layout.index(plan.encoded.calls[rank.other].function)
        known = ends + rank.past if rank.kind == "ends" else counts
        state.arrays[other.name] = known.reshape(extents).astype(np.int64)
    for key, values in zip(rank.keys, rows.keys, strict=False):
        _write(state, plan, rank, key, rows.rows, values, rank.low + len(first))


def _rank_slots(state: Entries, plan: PackPlan, rank: Rank, rules: Mapping[int, Ranked], order: KeyOrder) -> None:
    """Positions counted in each group of the keys' other arguments."""
    rows = _keyed(state, plan, rank, rules)
    groups = _groups(state, plan, rank, rows.rows)
    group, slot, sizes = _slots(groups, rows, _sorted_by(state, plan, rank, rows, order))
    width = capacity(state, plan, rank, int(sizes.max()) if len(sizes) else 0)
    full = (sizes > width)[group] if len(sizes) else np.zeros(0, dtype=bool)
    if full.any():
        _make_room(state, plan, rank, rows, groups, group, slot, full, width)
        return _rank_slots(state, plan, rank, rules, order)
    if len(rank.keys) == 1 and not rank.later and _needs_filler(state, plan, rank, groups, sizes, width):
        return _rank_with_filler(state, plan, rank, rules, order, width)
    if order.empty_first and len(sizes):
        slot = slot + (width - sizes[group])
    state.columns[rank.position][rows.rows] = slot + rank.low
    for key, values in zip(() if rank.later else rank.keys, rows.keys, strict=False):
        _write(state, plan, rank, key, rows.rows, values, rank.low + width)
    return None


def _rank_padded(state: Entries, plan: PackPlan, rank: Rank, rules: Mapping[int, Ranked], order: KeyOrder) -> None:
    """Positions counted from the start of their segment in each group; a segment has room for its largest group."""
    begin = state.layout.index(plan.encoded.calls[rank.begin].function)
    rows = _rows(state, rules)
    places = _subscripts(state, plan, rank.begin, rows.rows)
    needed = [_most(p) for p in places]
    extents = solved_extents(state, begin, [*needed[:-1], needed[-1] + 1])
    good = inside((*extents[:-1], max(0, extents[-1] - 1)), places, rows.count)
    if not good.all():
        mask = np.ones(state.count, dtype=bool)
        mask[rows.rows[~good]] = False
        state.keep(mask)
        return _rank_padded(state, plan, rank, rules, order)
    groups = [*places, *_subscripts(state, plan, rank.keys[0], rows.rows, rank.position)]
    _, slot, _ = _slots(groups, rows, _sorted_by(state, plan, rank, rows, order))
    state.claim(begin.name, extents)
    segment = flat_place(extents, places, rows.count)
    widths = np.zeros(int(np.prod(extents, dtype=np.int64)), dtype=np.int64)
    np.maximum.at(widths, segment, slot + 1)
    starts = rank.low + np.cumsum(widths) - widths
    state.columns[rank.position][rows.rows] = starts[segment] + slot
    state.arrays[begin.name] = (starts + rank.base).reshape(extents)
    for key, values in zip(rank.keys, rows.keys, strict=True):
        _write(state, plan, rank, key, rows.rows, values, rank.low + int(widths.sum()))
    return None


def _rank_covered(state: Entries, plan: PackPlan, rank: Rank, rules: Mapping[int, Ranked]) -> None:
    """Runs that lie side by side from the first to the last that there may be: gaps are runs as well."""
    rows = _rows(state, rules)
    run = _numbered(state, plan, rank, rows, [])
    low, high = _limits(state, plan, rank, rules)
    firsts = np.full(_most(run), high + 1, dtype=np.int64)
    lasts = np.full(_most(run), low - 1, dtype=np.int64)
    for key in rows.keys:
        np.minimum.at(firsts, run, key)
        np.maximum.at(lasts, run, key)
    starts = np.unique(np.concatenate([np.array([low]), firsts, lasts + 1]))
    starts = starts[starts <= high]
    begin = state.layout.index(plan.encoded.calls[rank.begin].function)
    (extent,) = solved_extents(state, begin, [len(starts) + 1])
    if extent != len(starts) + 1:
        raise DataError(
            f"expected {extent - 1} runs of `{rank.run}` in layout `{state.layout.name}`, but there are {len(starts)}"
        )
    state.columns[rank.position][rows.rows] = np.searchsorted(starts, rows.keys[0], side="right") - 1
    state.arrays[begin.name] = np.append(starts, max(high + 1, low)).astype(np.int64)


def _limits(state: Entries, plan: PackPlan, rank: Rank, rules: Mapping[int, Ranked]) -> tuple[int, int]:
    """The least and the largest value that the relation allows for what the runs hold."""
    known = _size_values(state, plan)
    found: list[tuple[int, int]] = []
    for piece, rule in rules.items():
        about = plan.encoded.pieces[piece].intersect(plan.encoded.facts)
        for name in (n for value, _ in rule.values for n in value.names()):
            lower, upper = bounds(about.project({*known, name}).constraints(name), name)
            low = [-(int(affine_value(e, known)) // a) for a, e in lower if e.names() <= set(known)]
            high = [int(affine_value(e, known)) // a for a, e in upper if e.names() <= set(known)]
            if not low or not high:
                raise Unsupported(
                    f"layout `{state.layout.name}` cannot be packed: `{name}`, which runs cover, has no bounds",
                    state.layout.span,
                )
            found.append((max(low), min(high)))
    return min(low for low, _ in found), max(high for _, high in found)


def _make_spans(state: Entries, plan: PackPlan, rank: Rank, rules: Mapping[int, Ranked]) -> None:
    """A pointer array that leaves the room that the entries need."""
    index = state.layout.index(plan.encoded.calls[rank.begin].function)
    rows = _rows(state, rules)
    places = _subscripts(state, plan, rank.begin, rows.rows)
    needed = [_most(p) for p in places]
    extents = solved_extents(state, index, [*needed[:-1], needed[-1] + 1])
    good = inside((*extents[:-1], max(0, extents[-1] - 1)), places, rows.count)
    state.claim(index.name, extents)
    room = np.zeros(int(np.prod(extents, dtype=np.int64)), dtype=np.int64)
    wanted = np.maximum.reduce(rows.keys)
    np.maximum.at(room, flat_place(extents, [p[good] for p in places], int(good.sum())), wanted[good])
    state.arrays[index.name] = (np.cumsum(room) - room).reshape(extents)
    for a, high in bounds(plan.encoded.facts.constraints(rank.begin), rank.begin)[1]:
        _solve(state, high, a * int(room.sum()))  # the size of what the array points into


def _make_places(state: Entries, rank: Rank, order: KeyOrder) -> None:
    """An array that leaves room for the values that are counted from each of its elements. Of those from which none
    counts, it has the next begin, or where the order says so at most the last one."""
    layout = state.layout
    index = layout.index(rank.array)
    count, columns = relation_rows(layout, state.sizes, state.arrays)
    known = {**state.sizes, **columns}

    def each(values: tuple[Affine, ...]) -> list[Array]:
        return [np.broadcast_to(np.asarray(affine_value(v, known), dtype=np.int64), (count,)) for v in values]

    places = each(rank.groups or ())
    extents = solved_extents(state, index, [_most(p) for p in places[:-1]] + [_most(places[-1]) + 1])
    state.claim(index.name, extents)
    good = inside(extents, places, count)
    flat = flat_place(extents, [p[good] for p in places], int(good.sum()))
    room = np.zeros(prod(extents), dtype=np.int64)
    zeros = {c.function: np.zeros(shape_of(layout.index(c.function).extents, state.sizes), dtype=np.int64)
             for v in layout.values for p in v.position for c in calls(p)
             if c.function not in state.arrays and variables_known(state, c.function)}  # fmt: skip
    at = [(p, e) for v in layout.values for p, e in zip(v.position, v.extents, strict=True)
          if any(c.function == rank.array for c in calls(p))]  # fmt: skip
    for place, _ in at:
        _check_known(state, place)
        own, valid = rows_of(place, known, {**state.arrays, **zeros}, count)
        used = valid[good]
        np.maximum.at(room, flat[used], np.broadcast_to(own, (count,))[good][used] + 1)
    begins = np.cumsum(room) - room
    if rank.within is not None:  # the first of each group begins at 0
        group, _ = row_ranks([w[good] for w in each(rank.within)], len(flat))
        least = np.full(int(group.max(initial=-1)) + 1, np.iinfo(np.int64).max)
        first, where = np.unique(flat, return_index=True)
        along = np.lexsort((first, group[where]))
        first, own_group = first[along], group[where][along]
        begins = np.zeros_like(room)
        sums = np.cumsum(room[first]) - room[first]
        np.minimum.at(least, own_group, sums)
        begins[first] = sums - least[own_group]
    if order.rest:
        begins = np.minimum(begins, begins[room > 0].max(initial=0))
    state.arrays[index.name] = begins.reshape(extents)
    if rank.within is None:
        with suppress(NotAffine):
            _solve(state, affine(at[0][1], _no_name), int(max(room.sum(), order.rest and room.size > 0)))


def variables_known(state: Entries, array: str) -> bool:
    """Whether the extents of an array are known."""
    return all(variables(e) <= set(state.sizes) for e in state.layout.index(array).extents)


def _make_starts(state: Entries, plan: PackPlan, rank: Rank, rules: Mapping[int, Ranked], order: KeyOrder) -> None:
    """An array whose elements leave room for what counts from them. Without entries that is the next
    begin (order 1), at most the last one (order 0), or there is room for one, too (order 2)."""
    name = rank.keys[0]
    index = state.layout.index(plan.encoded.calls[name].function)
    rows = _rows(state, rules)
    places = _subscripts(state, plan, name, rows.rows)
    before = state.starts.get(rank.run, rank.low)
    if any(not variables(e) <= set(state.sizes) for e in index.extents):  # as long as what it points into
        _, each = row_ranks(places, rows.count)
        capacity(state, plan, rank, before - rank.low + int(np.sum(rows.keys[0][each] + 1)))
    extents = solved_extents(state, index, [_most(p) for p in places])
    state.claim(index.name, extents)
    good = inside(extents, places, rows.count)
    if not good.all():
        mask = np.ones(state.count, dtype=bool)
        mask[rows.rows[~good]] = False
        state.keep(mask)
        return _make_starts(state, plan, rank, rules, order)
    flat = flat_place(extents, places, rows.count)
    low, room = np.zeros(prod(extents), dtype=np.int64), np.zeros(prod(extents), dtype=np.int64)
    np.minimum.at(low, flat, rows.keys[0])
    np.maximum.at(room, flat, rows.keys[0] + 1)
    used = room - low > 0
    room = np.where(used, room, int(order.rest == 2)) - low
    begins = before + np.cumsum(room) - room - low
    sizes = _size_values(state, plan)
    ends = [int(affine_value(e, sizes)) // a + 1 for a, e in rank.highs if e.names() <= set(sizes)]
    if ends and before + int(room.sum()) > min(ends) and room.max(initial=0) == 1 and not low.any():
        # Not one for each: neighbours share.
        begins = before + (begins - before) * (min(ends) - before) // int(room.sum())
    state.starts[rank.run] = before + int(room.sum())
    if order.rest == 2:
        capacity(state, plan, rank, before + int(room.sum()) - rank.low)
    sentinel = _sentinel(state, plan, index.name)
    if order.rest == 0:
        begins = np.minimum(begins, begins[used].max(initial=before))
        if sentinel is None and begins.size and not used.any():  # places that point somewhere, also without entries
            capacity(state, plan, rank, 1)
    if sentinel is not None and order.rest < 2:
        begins = np.where(used, begins, sentinel)
    else:
        least, most = key_range(state, plan, name)
        begins = np.where(used, begins, np.clip(begins, least, max(least, most)))
    state.arrays[index.name] = begins.reshape(extents)
    return None


def _write_digits(state: Entries, plan: PackPlan, rank: Rank, rules: Mapping[int, Ranked]) -> None:
    """An array whose digits are said by one entry each, or by several that agree."""
    name = rank.keys[0]
    index = state.layout.index(plan.encoded.calls[name].function)
    rows = _rows(state, rules)
    places = _subscripts(state, plan, name, rows.rows)
    extents = solved_extents(state, index, [_most(p) for p in places])
    state.claim(index.name, extents)
    good = inside(extents, places, rows.count)
    flat = np.where(good, flat_place(extents, [np.where(good, p, 0) for p in places], rows.count), 0)
    total = np.zeros(prod(extents), dtype=np.int64)
    for place, rest, said in zip(rank.places, rank.rests, rows.keys, strict=True):
        digit = np.full(prod(extents), rest, dtype=np.int64)
        mine = np.flatnonzero(good & (said >= 0))[::-1]
        digit[flat[mine]] = said[mine]  # the first entry stays
        good[mine] &= digit[flat[mine]] == said[mine]
        total += place * digit
    state.arrays[index.name] = total.reshape(extents)
    mask = np.ones(state.count, dtype=bool)
    mask[rows.rows[~good]] = False
    state.keep(mask)


def _rank_chunks(state: Entries, plan: PackPlan, rank: Rank, rules: Mapping[int, Ranked], order: KeyOrder) -> None:
    """Positions counted in each group, again and again up to the end."""
    rows = _rows(state, rules)
    groups = _groups(state, plan, rank, rows.rows)
    _, slot, sizes = _slots(groups, rows, _sorted_by(state, plan, rank, rows, order))
    width = max(1, capacity(state, plan, rank, int(sizes.max()) if len(sizes) else 0))
    state.columns[rank.position][rows.rows] = rank.low + slot % width
    state.columns[rounds_of(rank.position)][rows.rows] = slot // width


def _write_extremes(state: Entries, plan: PackPlan, rank: Rank, rules: Mapping[int, Ranked], order: KeyOrder) -> None:
    """An array that is the largest or smallest value that the entries give for each place; where the order says so,
    also of all places before (order 1), or behind (order 2)."""
    name = rank.keys[0]
    rows = _rows(state, rules)
    most = rank.kind == "most"
    found = np.maximum.reduce(rows.keys) if most else np.minimum.reduce(rows.keys)
    along = np.argsort(found if most else -found, kind="stable")
    _write(state, plan, rank, name, rows.rows[along], found[along], 0)
    if order.rest:
        array, sign = state.arrays[plan.encoded.calls[name].function], 1 if most else -1
        flat = sign * (array if order.rest == 1 else array[..., ::-1])
        flat = sign * np.maximum.accumulate(flat, axis=-1)
        array[...] = flat if order.rest == 1 else flat[..., ::-1]


def _slots(groups: list[Array], rows: _Rows, arranged: list[Array]) -> tuple[Array, Array, Array]:
    """(group of each row, its rank among the distinct keys of the group, number of distinct keys of each group)."""
    if groups:
        group, _ = row_ranks(groups, rows.count)
    else:
        group = np.zeros(rows.count, dtype=np.int64)
    ranks, first = row_ranks([group, *arranged], rows.count)
    sizes = np.bincount(group[first])
    starts = np.cumsum(sizes) - sizes
    return group, ranks - starts[group] if rows.count else ranks, sizes


def capacity(state: Entries, plan: PackPlan, rank: Rank, needed: int) -> int:
    """How many slots there are; solves the sizes in the bounds that are not known yet."""
    sizes = _size_values(state, plan)
    known = [int(affine_value(e, sizes)) // a for a, e in rank.highs if e.names() <= set(sizes)]
    for key in rank.keys:
        call = plan.encoded.calls[key]
        for argument, extent in zip(call.arguments, state.layout.index(call.function).extents, strict=True):
            further = shift(argument, rank.position)
            if further is not None and variables(extent) <= set(sizes):
                known.append(shape_of((extent,), sizes)[0] - 1 - further)
    if known:
        return max(0, min(known) + 1 - rank.low)
    for a, high in rank.highs:
        _solve(state, high, a * (rank.low + needed - 1))
    return needed


def _make_room(
    state: Entries,
    plan: PackPlan,
    rank: Rank,
    rows: _Rows,
    groups: list[Array],
    group: Array,
    slot: Array,
    full: Array,
    width: int,
) -> None:
    """Drop the entries of over-full groups that have no value. Raises Elsewhere where they have an alternative, and
    DataError when that is not enough."""
    state.elsewhere(_movable(state, rows, group, slot, width))
    empty = ~differs(state.values[rows.rows], state.layout.fill)
    surplus = slot >= width if state.lenient else full & empty
    if not surplus.any():
        row = int(np.flatnonzero(full)[0])
        own: tuple[Expr, ...] = tuple(map(expression, rank.groups or ()))
        if rank.groups is None:
            own = plan.encoded.calls[rank.keys[0]].arguments
        names = [a for a in own if a != Var(rank.position)]
        where = ", ".join(f"{show(a)} = {int(g[row])}" for a, g in zip(names, groups, strict=True))
        needed = int(slot[group == group[row]].max()) + 1
        at = state.coordinate(int(rows.rows[row]))
        raise DataError(
            f"expected at most {width} entries" + (f" for {where}" if where else "") + f" in layout "
            f"`{state.layout.name}` (`{rank.position}`), but there are {needed}, the first at {at}"
        )
    mask = np.ones(state.count, dtype=bool)
    mask[rows.rows[surplus]] = False
    state.keep(mask)


def _movable(state: Entries, rows: _Rows, group: Array, slot: Array, width: int) -> Array:
    """The entries in as many slots as a group has too many, the last ones that have an alternative; bool[count]."""
    mask = np.zeros(state.count, dtype=bool)
    place, first = row_ranks([group, slot], rows.count)
    free = np.ones(len(first), dtype=bool)
    np.logical_and.at(free, place, state.more[rows.rows])
    own = group[first]
    behind = np.cumsum(free[::-1])[::-1] - free  # free slots behind each one, of all groups from its own on
    sizes = np.bincount(own)
    last = np.cumsum(sizes) - 1
    behind = behind - (behind + free)[np.minimum(last + 1, len(first) - 1)][own] * (last + 1 < len(first))[own]
    mask[rows.rows] = (free & (behind < (sizes - width)[own]))[place]
    return mask


def _needs_filler(state: Entries, plan: PackPlan, rank: Rank, groups: list[Array], sizes: Array, width: int) -> bool:
    """Whether places of the key's array stay empty that have no sentinel."""
    index = state.layout.index(plan.encoded.calls[rank.keys[0]].function)
    if index.name in plan.sentinels:
        return False
    extents = _key_shape(state, plan, rank, index, groups, width)
    return int(sizes.sum()) < prod(extents)


def _key_shape(
    state: Entries, plan: PackPlan, rank: Rank, index: IndexArray, groups: list[Array], width: int
) -> tuple[int, ...]:
    places = iter(groups)
    arguments = plan.encoded.calls[rank.keys[0]].arguments
    needed = [width + rank.low if a == Var(rank.position) else _most(next(places)) for a in arguments]
    return solved_extents(state, index, needed)


def _rank_with_filler(
    state: Entries, plan: PackPlan, rank: Rank, rules: Mapping[int, Ranked], order: KeyOrder, width: int
) -> None:
    """As `_rank_slots`; every group is filled up with unused keys from the low end of the range."""
    name = rank.keys[0]
    rows = _rows(state, rules)
    groups = _subscripts(state, plan, name, rows.rows, rank.position)
    call = plan.encoded.calls[name]
    index = state.layout.index(call.function)
    extents = _key_shape(state, plan, rank, index, groups, width)
    axis = call.arguments.index(Var(rank.position))
    outer = (*extents[:axis], *extents[axis + 1 :])
    good = inside(outer, groups, rows.count)
    if not good.all():
        mask = np.ones(state.count, dtype=bool)
        mask[rows.rows[~good]] = False
        state.keep(mask)
        return _rank_with_filler(state, plan, rank, rules, order, width)
    slots = extents[axis]
    state.claim(index.name, extents)
    group = flat_place(outer, groups, rows.count)
    ranks, first = row_ranks([group, rows.keys[0]], rows.count)
    own_group, own_key = group[first], rows.keys[0][first]
    new_group, new_key = _filler(state, plan, name, own_group, own_key, prod(outer), slots)
    every_group, every_key = np.concatenate([own_group, new_group]), np.concatenate([own_key, new_key])
    new = np.arange(len(every_key)) >= len(own_key)
    hinted: list[Array] = []
    if rank.hint:
        of_entries = [h[rows.rows] for h in hint_columns(state.seen, plan, rank)]
        of_new = [h[state.count :] for h in hint_columns(state.seen, plan, rank, new_key)]
        hinted = [np.concatenate([e[first], n]) for e, n in zip(of_entries, of_new, strict=True)]
    columns = [every_group, *hinted, *_arranged([every_key], order), new.astype(np.int64)]
    arranged = sorted_order(columns, len(every_key))
    if arranged is None:
        arranged = np.arange(len(every_key))
    place = np.empty(len(every_key), dtype=np.int64)
    place[arranged] = np.arange(len(every_key)) % max(1, slots)
    state.columns[rank.position][rows.rows] = place[ranks]
    table = every_key[arranged].reshape(*outer, slots)
    state.arrays[index.name] = np.ascontiguousarray(np.moveaxis(table, -1, axis))
    return None


def _filler(
    state: Entries, plan: PackPlan, name: str, group: Array, key: Array, groups: int, width: int
) -> tuple[Array, Array]:
    """(group, key) of unused keys, the lowest ones, such that each group has `width` keys."""
    low, high = key_range(state, plan, name)
    free = np.ones((groups, width), dtype=bool)
    near = (key >= low) & (key < low + width)
    free[group[near], key[near] - low] = False
    missing = width - np.bincount(group, minlength=groups)
    chosen = free & (np.cumsum(free, axis=1) <= missing[:, None])
    rows, places = np.nonzero(chosen)
    return rows.astype(np.int64), np.minimum(places + low, max(low, high)).astype(np.int64)


def key_range(state: Entries, plan: PackPlan, name: str) -> tuple[int, int]:
    """The declared range of a call as numbers, both ends included; from 0 on when none is declared."""
    lower, upper = bounds(plan.encoded.facts.constraints(name), name)
    sizes = _size_values(state, plan)
    low = [-(int(affine_value(e, sizes)) // a) for a, e in lower if e.names() <= set(sizes)]
    high = [int(affine_value(e, sizes)) // a for a, e in upper if e.names() <= set(sizes)]
    return max(low, default=0), min(high, default=2**62)


def _write_known(state: Entries, plan: PackPlan, rank: Rank, rules: Mapping[int, Ranked], order: KeyOrder) -> None:
    """An array whose places are known: entries at one place must agree on the value. Others get unused values where the
    order says so."""
    rows = _rows(state, rules)
    _write(state, plan, rank, rank.keys[0], rows.rows[::-1], rows.keys[0][::-1], 0)  # the first entry stays
    if order.rest:
        _write_unused(state, plan, rank.keys[0], rows)
    call = plan.encoded.calls[rank.keys[0]]
    places = tuple(_subscripts(state, plan, rank.keys[0], rows.rows))
    found, valid = gathered(state.arrays[call.function], places, rows.count)
    wrong = valid & (found != rows.keys[0])
    if not wrong.any():
        return
    mask = np.ones(state.count, dtype=bool)
    mask[rows.rows[wrong]] = False
    at = state.coordinate(int(rows.rows[np.flatnonzero(wrong)[0]]))
    state.elsewhere(~mask & state.more)
    if not state.lenient and differs(state.values[~mask], state.layout.fill).any():
        raise DataError(f"expected one value of `{show(call)}` for each place, but the entry at {at} needs another one")
    state.keep(mask)


def _sentinel(state: Entries, plan: PackPlan, array: str) -> int | None:
    """What marks unused places of an array, where that is known."""
    value = plan.sentinels.get(array)
    return int(affine_value(value, state.sizes)) if value is not None and value.names() <= set(state.sizes) else None


def _write_unused(state: Entries, plan: PackPlan, name: str, rows: _Rows) -> None:
    """Where no entry says what the array holds, it gets the lowest values that no other place has."""
    array = state.arrays[plan.encoded.calls[name].function]
    places = _subscripts(state, plan, name, rows.rows)
    good = inside(array.shape, places, rows.count)
    free = np.ones(array.size, dtype=bool)
    free[flat_place(array.shape, [p[good] for p in places], int(good.sum()))] = False
    low, high = key_range(state, plan, name)
    values = np.setdiff1d(np.arange(low, min(high + 1, low + array.size)), rows.keys[0])
    chosen = np.flatnonzero(free)[: len(values)]
    array.reshape(-1)[chosen] = values[: len(chosen)]


def _write(state: Entries, plan: PackPlan, rank: Rank, name: str, rows: Array, values: Array, length: int) -> None:
    """Write the key array at the entries; other places get the sentinel, else the low end of the range."""
    call = plan.encoded.calls[name]
    index = state.layout.index(call.function)
    places = _subscripts(state, plan, name, rows)
    shifts = [shift(a, rank.position) for a in call.arguments]
    needed = [_most(p) if s is None else max(length + s, _most(p)) for s, p in zip(shifts, places, strict=True)]
    shape = solved_extents(state, index, needed)
    for further, extent in zip(shifts, shape, strict=True):
        if further is not None and length + further > extent:
            raise DataError(
                f"expected at most {extent} positions `{rank.position}` in layout `{state.layout.name}`, "
                f"but the entries need {length + further}"
            )
    low, _ = key_range(state, plan, name)
    sentinel = _sentinel(state, plan, index.name)
    rest = low if sentinel is None else sentinel
    state.claim(index.name, shape)
    array = np.full(shape, rest, dtype=np.int64)
    good = inside(shape, places, len(rows))
    array.reshape(-1)[flat_place(shape, places, len(rows))[good]] = values[good]
    state.arrays[index.name] = array


# --- sizes ------------------------------------------------------------------------------------------------


def _size_values(state: Entries, plan: PackPlan) -> dict[str, int]:
    """The sizes that are known, and the quotients of sizes."""
    values = dict(state.sizes)
    for name, (numerator, divisor) in plan.encoded.quotients.items():
        if numerator.names() <= set(values):
            values[name] = int(affine_value(numerator, values)) // divisor
    return values


def _most(places: Array) -> int:
    """The extent that an array needs to have these places."""
    return int(places.max()) + 1 if len(places) else 0


def _solve(state: Entries, extent: Affine, value: int) -> None:
    """Set the only unknown size of the extent such that the extent is at least `value`."""
    unknown = extent.names() - set(state.sizes)
    if len(unknown) != 1:
        return
    name = unknown.pop()
    factor, rest = extent.coefficient(name), extent.without(name)
    if factor > 0 and name not in rest.names():
        missing = value - int(affine_value(rest, state.sizes))
        state.sizes[name] = max(0, -(-missing // factor))


def solved_extents(state: Entries, declared: IndexArray | ValueArray, needed: list[int]) -> tuple[int, ...]:
    """The shape of an array; sizes in its extents that are not known yet become as large as needed."""
    for extent, value in zip(declared.extents, needed, strict=True):
        if not variables(extent) <= set(state.sizes):
            with suppress(NotAffine):
                _solve(state, affine(extent, _no_name), value)
        missing = variables(extent) - set(state.sizes)
        if missing:
            raise _unknown(state, min(missing))
    return shape_of(declared.extents, state.sizes)


def _no_name(call: Any) -> str:
    raise NotAffine(call)


def _solve_rest(state: Entries) -> None:
    """Sizes that only value arrays have."""
    for value in state.layout.values:
        needed = []
        for position in value.position:
            _check_known(state, position)
            place, _ = rows_of(position, state.known, state.arrays, state.count)
            needed.append(_most(np.broadcast_to(np.asarray(place), (state.count,))))
        solved_extents(state, value, needed)
    for name in state.layout.sizes:
        if name not in state.sizes:
            raise _unknown(state, name)


def _check_known(state: Entries, place: Expr) -> None:
    """The sizes in a place are known. Raises Unsupported."""
    missing = variables(place) & set(state.layout.sizes) - set(state.sizes)
    if missing:
        raise _unknown(state, min(missing))


def _unknown(state: Entries, size: str) -> Unsupported:
    message = f"layout `{state.layout.name}` cannot be packed: its size `{size}` cannot be derived"
    return Unsupported(message, state.layout.span)


# --- values -----------------------------------------------------------------------------------------------


def _store_values(state: Entries) -> None:
    """Write every value at its place in the first value array that has one for it."""
    layout, dtype = state.layout, state.values.dtype
    for value in layout.values:
        state.claim(value.name, shape_of(value.extents, state.sizes))
    places = value_places(layout, state.sizes, state.known, state.arrays, state.count)
    stored = np.zeros(state.count, dtype=bool)
    for place in places.values():
        stored |= place >= 0
    if not stored.all():
        state.keep(stored)
        places = {n: p[stored] for n, p in places.items()}
    if layout.turned:
        state.values = turned(layout, state.values, state.known, state.arrays)
    done = np.zeros(state.count, dtype=bool)
    for value in layout.values:
        rows = np.flatnonzero((places[value.name] >= 0) & ~done)
        done[rows] = True
        shape = shape_of(value.extents, state.sizes)
        array = filled((prod(shape),), layout.fill, dtype)
        array[places[value.name][rows]] = state.values[rows]
        _check_equal(state, rows, array[places[value.name][rows]], places[value.name][rows])
        state.arrays[value.name] = array.reshape(shape)


def _check_equal(state: Entries, rows: Array, stored: Array, places: Array) -> None:
    """Entries that share a place have equal values. Raises DataError."""
    if state.lenient:
        return
    own = state.values[rows]
    wrong = np.flatnonzero((stored != own) & ~((stored != stored) & (own != own)))
    if len(wrong):
        row = int(wrong[0])
        other = int(np.flatnonzero(places == places[row])[-1])
        raise DataError(
            f"expected equal values at {state.coordinate(int(rows[row]))} and {state.coordinate(int(rows[other]))}, "
            f"which layout `{state.layout.name}` stores at one place, but they are {own[row]} and {stored[row]}"
        )


def check_shared(state: Entries, plan: PackPlan) -> None:
    """Where several points share a value, the arrays hold the entries and nothing else. Raises DataError."""
    layout = state.layout
    if plan.injective or (state.count > tuning.PACK_BY_NUMPY and _is_alone(layout)):
        return
    points = enumerate_points(layout, state.sizes, state.arrays)
    columns = [points.columns[c] for c in layout.coordinates]
    filled = np.zeros(points.count, dtype=bool)
    for name, place in points.places.items():
        rows = np.flatnonzero(place >= 0)
        filled[rows] |= differs(state.arrays[name].reshape(-1)[place[rows]], layout.fill)
    own = [state.columns[c][differs(state.values, layout.fill)] for c in layout.coordinates]
    if int(np.count_nonzero(filled)) == (len(own[0]) if own else int(differs(state.values, layout.fill).sum())):
        return
    _report_shared(layout, [c[filled] for c in columns], own)


def _is_alone(layout: Layout) -> bool:
    """Whether each place of the only value array is proved to stand for one coordinate."""
    from spfgen.layout.proofs import one_coordinate  # few entries do without the prover

    return len(layout.values) == 1 and one_coordinate(layout, layout.values[0]).proved


def _report_shared(layout: Layout, points: list[Array], entries: list[Array]) -> None:
    """Raises DataError for the first coordinate that the arrays hold a value for but not the entries, or twice."""
    count = len(points[0])
    both = [np.concatenate([e, p]) for e, p in zip(entries, points, strict=True)]
    ranks, first = row_ranks(both, len(both[0]))
    known = np.zeros(len(first), dtype=bool)
    known[ranks[: len(both[0]) - count]] = True
    times = np.bincount(ranks[len(both[0]) - count :], minlength=len(first))
    wrong = np.flatnonzero((times > 0) & ~known)
    if len(wrong):
        at = tuple(int(c[first[wrong[0]]]) for c in both)
        raise Together(
            f"expected a value at {at}, which layout `{layout.name}` stores together with others, but there is none"
        )
    twice = np.flatnonzero(times > 1)
    if len(twice):
        at = tuple(int(c[first[twice[0]]]) for c in both)
        raise Together(
            f"expected entries that layout `{layout.name}` stores once, but it has two places for that at {at}"
        )
