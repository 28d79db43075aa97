"""Runs the plan of packing on columns with one row for each entry.

The steps that become C (plan/assemble/) do the same, and can be carried out with numpy, too. This stands beside them:
they are compared with it, it says which entry has no place and why, and it takes 0.75 of their time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from spfgen import tuning
from spfgen.errors import DataError, InternalError, Unsupported
from spfgen.facts.formula import Expr, Var, show, variables
from spfgen.layout.fill import differs, differs_as_number, filled, other_zeros
from spfgen.layout.hints import hint_columns, numbered_blocks, numbered_runs
from spfgen.layout.nodes import IndexArray, Layout
from spfgen.layout.pack_chosen import make_places, make_starts, rank_chunks, write_digits
from spfgen.layout.pack_entries import (
    DuplicateCoordinate,
    PackingState,
    Rows,
    WrongBranch,
    capacity,
    check_known,
    entry_rows,
    extent_of,
    groups_of,
    in_order,
    key_range,
    learn_quotients,
    movable_rows,
    size_values,
    slots_of,
    solve_extent,
    solved_extents,
    sorted_by,
    subscripts_of,
    unknown_size,
    unused_keys,
    values_of,
    write_array,
)
from spfgen.layout.pack_fill import FALLING, RISING, complete, declared_range, declared_size, fill_of, fills
from spfgen.layout.pack_free import rounds_of
from spfgen.layout.pack_rules import Computed, KeyOrder, PackPlan, Rank, Ranked, Rules, Solved, Widened
from spfgen.layout.points import (
    Array,
    affine_value,
    argument_names,
    constraint_holds,
    enumerate_points,
    flat_place,
    gathered,
    inside,
    row_ranks,
    rows_of,
    shape_of,
    sorted_order,
    turned,
    value_places,
)
from spfgen.sets.affine import expression
from spfgen.sets.bounds import bounds
from spfgen.sets.uf import linear


def assemble(state: PackingState, plan: PackPlan, orders: tuple[KeyOrder, ...]) -> None:
    """Fill `state.sizes` and `state.arrays`. What an alternative of the relation has no place for goes to the next."""
    begin = replace(state, sizes=dict(state.sizes), columns=dict(state.columns))
    first = np.zeros(state.count, dtype=np.int64)
    while True:
        try:
            return _assemble(state, plan, orders, first)
        except WrongBranch as others:
            first[others.entries] = others.pieces + 1
            state.sizes, state.arrays, state.starts = dict(begin.sizes), {}, {}
            state.columns, state.values = dict(begin.columns), begin.values


def _assemble(state: PackingState, plan: PackPlan, orders: tuple[KeyOrder, ...], first: Array) -> None:
    """As `assemble`; entries take no alternative before their `first`. Raises WrongBranch."""
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
    _solve_rest(state, plan)
    _learn(state, plan)
    _check_constraints(state, plan)
    _store_values(state)


def _allot(state: PackingState, plan: PackPlan, first: Array) -> None:
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


def _compute(state: PackingState, step: Rules) -> None:
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
                rows = np.flatnonzero(state.piece == k)
                value, has_value = _solved(state, rule, rows)
                _column(state, name)[rows] = value
                good[rows] = has_value
            case Widened(size):
                state.sizes[size] = max(
                    state.sizes.get(size, 0), _widest(state, rule, np.flatnonzero(state.piece == k))
                )
    state.keep(good)


def _widest(state: PackingState, rule: Widened, rows: Array) -> int:
    """The least size that suffices for these rows."""
    known = {**state.sizes, **{n: c[rows] for n, c in state.columns.items()}}
    needed = [np.asarray(affine_value(numerator, known) // divisor) for numerator, divisor in rule.least]
    return max((int(n.max()) for n in needed if n.size), default=0)


def _column(state: PackingState, name: str) -> Array:
    """The column of a position, zero at first."""
    if name not in state.columns:
        state.columns[name] = np.zeros(state.count, dtype=np.int64)
    return state.columns[name]


def _solved(state: PackingState, rule: Solved, rows: Array) -> tuple[Any, Array]:
    """(the values of these rows, whether they have one)."""
    known = {**state.sizes, **{n: c[rows] for n, c in state.columns.items()}}
    has_value = np.ones(len(rows), dtype=bool)
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
        has_value &= done
    return affine_value(rule.value, known), has_value


def _learn(state: PackingState, plan: PackPlan) -> None:
    """Read finished arrays at places that are known, and compute quotients, until there is nothing new."""
    before = -1
    while before != len(state.columns):
        before = len(state.columns)
        learn_quotients(state, plan)
        _gather_calls(state, plan)


def _gather_calls(state: PackingState, plan: PackPlan) -> None:
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


def _check_constraints(state: PackingState, plan: PackPlan) -> None:
    """Every entry satisfies the relation, with the arrays as they are."""
    good = np.ones(state.count, dtype=bool)
    known = state.known
    for k, piece in enumerate(plan.encoded.pieces):
        of_piece = state.piece == k
        for constraint in piece.constraints():
            missing = constraint.value.names() - set(known)
            if missing:
                raise InternalError(f"packing `{state.layout.name}` left {sorted(missing)} unknown")
            good &= ~of_piece | constraint_holds(constraint, known)
    state.keep(good)


# --- ranks ------------------------------------------------------------------------------------------------


def _rank(state: PackingState, plan: PackPlan, rank: Rank, rules: Mapping[int, Ranked], order: KeyOrder) -> None:
    rank = replace(rank, hint=order.hint) if order.hint else rank
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
            make_places(state, rank, order)
        case "given":
            _make_given(state, plan, rank, order)
        case "start":
            make_starts(state, plan, rank, rules, order)
        case "digits":
            write_digits(state, plan, rank, rules)
        case "chunk":
            rank_chunks(state, plan, rank, rules, order)
        case "most" | "least":
            _write_extremes(state, plan, rank, rules, order)
        case _:
            _rank_counted(state, plan, rank, rules, order)


def _keyed(state: PackingState, plan: PackPlan, rank: Rank, rules: Mapping[int, Ranked]) -> Rows:
    """The entries with their keys; where runs are counted, the key is the number of the run."""
    rows = entry_rows(state, rules)
    if not rank.run:
        return rows
    groups = [*groups_of(state, plan, rank, rows.rows), *values_of(state, rank.within or (), rows.rows)]
    return Rows(rows.rows, [_numbered(state, plan, rank, rows, groups)])


def _numbered(state: PackingState, plan: PackPlan, rank: Rank, rows: Rows, groups: list[Array]) -> Array:
    """The number of the run of each entry."""
    if len(rows.keys) > 1:
        return numbered_blocks(groups, rows.keys)
    hinted = [h[rows.rows] for h in hint_columns(state.seen, plan, rank)] if rank.hint else []
    return numbered_runs(groups, rows.keys[0], hinted, state.values[rows.rows] if rank.same else None)


def _rank_counted(
    state: PackingState, plan: PackPlan, rank: Rank, rules: Mapping[int, Ranked], order: KeyOrder
) -> None:
    """Positions counted through all segments; the pointer arrays are the running counts."""
    begin = state.layout.index(plan.encoded.calls[rank.begin].function)
    rows = _keyed(state, plan, rank, rules)
    places = subscripts_of(state, plan, rank.begin, rows.rows)
    needed = [extent_of(p) for p in places]
    extents = solved_extents(state, begin, [*needed[:-1], needed[-1] + (rank.kind == "pointer")])
    room = (*extents[:-1], max(0, extents[-1] - (rank.kind == "pointer")))
    good = inside(room, places, rows.count)
    if not good.all():
        state.drop(rows.rows[~good])
        rows = entry_rows(state, rules)
        places = subscripts_of(state, plan, rank.begin, rows.rows)
    state.claim(begin.name, extents)
    segment = flat_place(extents, places, rows.count)
    ranks, first = row_ranks([segment, *sorted_by(state, plan, rank, rows, order)], rows.count)
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
        write_array(state, plan, rank, key, rows.rows, values, rank.low + len(first))


def _rank_slots(state: PackingState, plan: PackPlan, rank: Rank, rules: Mapping[int, Ranked], order: KeyOrder) -> None:
    """Positions counted in each group of the keys' other arguments."""
    rows = _keyed(state, plan, rank, rules)
    groups = groups_of(state, plan, rank, rows.rows)
    group, slot, sizes = slots_of(groups, rows, sorted_by(state, plan, rank, rows, order))
    width = capacity(state, plan, rank, int(sizes.max()) if len(sizes) else 0)
    full = (sizes > width)[group] if len(sizes) else np.zeros(0, dtype=bool)
    if full.any():
        _make_room(state, plan, rank, rows, groups, group, slot, full, width)
        return _rank_slots(state, plan, rank, rules, order)
    if (
        len(rank.keys) == 1
        and not (rank.later or rank.ended)
        and _needs_filler(state, plan, rank, groups, sizes, width)
    ):
        return _rank_with_filler(state, plan, rank, rules, order, width)
    if order.empty_first and len(sizes):
        slot = slot + (width - sizes[group])
    state.columns[rank.position][rows.rows] = slot + rank.low
    for key, values in zip(() if rank.later else rank.keys, rows.keys, strict=False):
        write_array(state, plan, rank, key, rows.rows, values, rank.low + width)
    return None


def _rank_padded(state: PackingState, plan: PackPlan, rank: Rank, rules: Mapping[int, Ranked], order: KeyOrder) -> None:
    """Positions counted from the start of their segment in each group; a segment has room for its largest group."""
    begin = state.layout.index(plan.encoded.calls[rank.begin].function)
    rows = entry_rows(state, rules)
    places = subscripts_of(state, plan, rank.begin, rows.rows)
    needed = [extent_of(p) for p in places]
    extents = solved_extents(state, begin, [*needed[:-1], needed[-1] + 1])
    good = inside((*extents[:-1], max(0, extents[-1] - 1)), places, rows.count)
    if not good.all():
        state.drop(rows.rows[~good])
        return _rank_padded(state, plan, rank, rules, order)
    groups = [*places, *subscripts_of(state, plan, rank.keys[0], rows.rows, rank.position)]
    _, slot, _ = slots_of(groups, rows, sorted_by(state, plan, rank, rows, order))
    state.claim(begin.name, extents)
    segment = flat_place(extents, places, rows.count)
    widths = np.zeros(int(np.prod(extents, dtype=np.int64)), dtype=np.int64)
    np.maximum.at(widths, segment, slot + 1)
    starts = rank.low + np.cumsum(widths) - widths
    state.columns[rank.position][rows.rows] = starts[segment] + slot
    state.arrays[begin.name] = (starts + rank.base).reshape(extents)
    for key, values in zip(rank.keys, rows.keys, strict=True):
        write_array(state, plan, rank, key, rows.rows, values, rank.low + int(widths.sum()))
    return None


def _rank_covered(state: PackingState, plan: PackPlan, rank: Rank, rules: Mapping[int, Ranked]) -> None:
    """Runs that lie side by side from the first to the last that there may be: gaps are runs as well."""
    rows = entry_rows(state, rules)
    run = _numbered(state, plan, rank, rows, [])
    low, high = _limits(state, plan, rank, rules)
    firsts = np.full(extent_of(run), high + 1, dtype=np.int64)
    lasts = np.full(extent_of(run), low - 1, dtype=np.int64)
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


def _limits(state: PackingState, plan: PackPlan, rank: Rank, rules: Mapping[int, Ranked]) -> tuple[int, int]:
    """The least and the largest value that the relation allows for what the runs hold."""
    known = size_values(state, plan)
    limits: list[tuple[int, int]] = []
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
            limits.append((max(low), min(high)))
    return min(low for low, _ in limits), max(high for _, high in limits)


def _make_spans(state: PackingState, plan: PackPlan, rank: Rank, rules: Mapping[int, Ranked]) -> None:
    """A pointer array that leaves the room that the entries need."""
    index = state.layout.index(plan.encoded.calls[rank.begin].function)
    rows = entry_rows(state, rules)
    places = subscripts_of(state, plan, rank.begin, rows.rows)
    needed = [extent_of(p) for p in places]
    extents = solved_extents(state, index, [*needed[:-1], needed[-1] + 1])
    good = inside((*extents[:-1], max(0, extents[-1] - 1)), places, rows.count)
    state.claim(index.name, extents)
    room = np.zeros(int(np.prod(extents, dtype=np.int64)), dtype=np.int64)
    wanted = np.maximum.reduce(rows.keys)
    np.maximum.at(room, flat_place(extents, [p[good] for p in places], int(good.sum())), wanted[good])
    state.arrays[index.name] = (np.cumsum(room) - room).reshape(extents)
    for a, high in bounds(plan.encoded.facts.constraints(rank.begin), rank.begin)[1]:
        solve_extent(state, high, a * int(room.sum()))  # the size of what the array points into


def _write_extremes(
    state: PackingState, plan: PackPlan, rank: Rank, rules: Mapping[int, Ranked], order: KeyOrder
) -> None:
    """An array that is the largest or smallest value that the entries give for each place; where the order says so,
    also of all places before, or behind."""
    name = rank.keys[0]
    rows = entry_rows(state, rules)
    most = rank.kind == "most"
    extremes = np.maximum.reduce(rows.keys) if most else np.minimum.reduce(rows.keys)
    along = np.argsort(extremes if most else -extremes, kind="stable")
    written = write_array(state, plan, rank, name, rows.rows[along], extremes[along], 0)
    array, fill = state.arrays[plan.encoded.calls[name].function], fill_of(state.layout, plan, rank, order.rest)
    if fill not in (RISING, FALLING):
        return complete(state, key_range(state, plan, name), array, written, fill)
    sign = 1 if most else -1
    flat = sign * (array if fill == RISING else array[..., ::-1])
    flat = sign * np.maximum.accumulate(flat, axis=-1)
    array[...] = flat if fill == RISING else flat[..., ::-1]
    return None


def _make_given(state: PackingState, plan: PackPlan, rank: Rank, order: KeyOrder) -> None:
    """An array of which no entry says anything: it is filled by what is declared."""
    index = state.layout.index(rank.array)
    shape = solved_extents(state, index, [0] * len(index.extents))
    state.claim(index.name, shape)
    low, high = declared_range(state, index)
    state.arrays[index.name] = np.full(shape, low, dtype=np.int64)
    fill = fills(state.layout, rank.array, rank.kind)[order.rest]
    written = np.zeros(shape, dtype=bool)
    complete(state, (low, high), state.arrays[index.name], written, fill)


def _make_room(
    state: PackingState,
    plan: PackPlan,
    rank: Rank,
    rows: Rows,
    groups: list[Array],
    group: Array,
    slot: Array,
    full: Array,
    width: int,
) -> None:
    """Drop the entries of over-full groups that have no value. Raises WrongBranch where they have an alternative, and
    DataError when that is not enough."""
    state.elsewhere(_movable(state, rows, group, slot, width))
    empty = ~differs(state.values[rows.rows], state.layout.fill)
    surplus = slot >= width if state.lenient else full & empty
    if not surplus.any():
        row = int(np.flatnonzero(full)[0])
        arguments: tuple[Expr, ...] = tuple(map(expression, rank.groups or ()))
        if rank.groups is None:
            arguments = plan.encoded.calls[rank.keys[0]].arguments
        names = [a for a in arguments if a != Var(rank.position)]
        where = ", ".join(f"{show(a)} = {int(g[row])}" for a, g in zip(names, groups, strict=True))
        needed = int(slot[group == group[row]].max()) + 1
        at = state.coordinate(int(rows.rows[row]))
        raise DataError(
            f"expected at most {width} entries" + (f" for {where}" if where else "") + f" in layout "
            f"`{state.layout.name}` (`{rank.position}`), but there are {needed}, the first at {at}",
            None,
            _about_zeros(state, rows.rows[full]),
        )
    state.drop(rows.rows[surplus])


def _about_zeros(state: PackingState, rows: Array) -> tuple[str, ...]:
    """A note where some of these entries are zeros that differ from the fill value in their sign alone."""
    values = state.values[rows]
    zeros = values[other_zeros(values, state.layout.fill)]
    if not len(zeros):
        return ()
    what = f"{len(zeros)} of these entries are" if len(zeros) > 1 else "one of these entries is"
    return (
        f"{what} {zeros[0]}, which is another value than the fill value {state.layout.fill_text}: "
        "spfgen.pack(..., signed_zeros=False) leaves such zeros out",
    )


def _movable(state: PackingState, rows: Rows, group: Array, slot: Array, width: int) -> Array:
    """The entries in as many slots as a group has too many, the last ones that have an alternative; bool[count]."""
    mask = np.zeros(state.count, dtype=bool)
    _, first = row_ranks([group, slot], rows.count)
    mask[rows.rows] = movable_rows(group, slot, state.more[rows.rows], np.bincount(group[first]) - width)
    return mask


def _needs_filler(
    state: PackingState, plan: PackPlan, rank: Rank, groups: list[Array], sizes: Array, width: int
) -> bool:
    """Whether places of the key's array stay empty that have no sentinel."""
    index = state.layout.index(plan.encoded.calls[rank.keys[0]].function)
    if index.name in plan.sentinels:
        return False
    extents = _key_shape(state, plan, rank, index, groups, width)
    return int(sizes.sum()) < prod(extents)


def _key_shape(
    state: PackingState, plan: PackPlan, rank: Rank, index: IndexArray, groups: list[Array], width: int
) -> tuple[int, ...]:
    places = iter(groups)
    arguments = plan.encoded.calls[rank.keys[0]].arguments
    needed = [width + rank.low if a == Var(rank.position) else extent_of(next(places)) for a in arguments]
    return solved_extents(state, index, needed)


def _rank_with_filler(
    state: PackingState, plan: PackPlan, rank: Rank, rules: Mapping[int, Ranked], order: KeyOrder, width: int
) -> None:
    """As `_rank_slots`; every group is filled up with unused keys from the low end of the range."""
    name = rank.keys[0]
    rows = entry_rows(state, rules)
    groups = subscripts_of(state, plan, name, rows.rows, rank.position)
    call = plan.encoded.calls[name]
    index = state.layout.index(call.function)
    extents = _key_shape(state, plan, rank, index, groups, width)
    axis = call.arguments.index(Var(rank.position))
    outer = (*extents[:axis], *extents[axis + 1 :])
    good = inside(outer, groups, rows.count)
    if not good.all():
        state.drop(rows.rows[~good])
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
    columns = [every_group, *hinted, *in_order(plan, rank, [every_key], order), new.astype(np.int64)]
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
    state: PackingState, plan: PackPlan, name: str, group: Array, key: Array, groups: int, width: int
) -> tuple[Array, Array]:
    """(group, key) of unused keys, the lowest ones, such that each group has `width` keys."""
    low, high = key_range(state, plan, name)
    rows, keys = unused_keys(group, key, groups, width, low)
    return rows, np.minimum(keys, max(low, high))


def _write_known(state: PackingState, plan: PackPlan, rank: Rank, rules: Mapping[int, Ranked], order: KeyOrder) -> None:
    """An array whose places are known: entries at one place must agree on the value. Others get unused values where the
    order says so."""
    rows = entry_rows(state, rules)
    written = write_array(state, plan, rank, rank.keys[0], rows.rows[::-1], rows.keys[0][::-1], 0)  # the first stays
    call = plan.encoded.calls[rank.keys[0]]
    fill = fill_of(state.layout, plan, rank, order.rest)
    complete(state, key_range(state, plan, rank.keys[0]), state.arrays[call.function], written, fill)
    places = tuple(subscripts_of(state, plan, rank.keys[0], rows.rows))
    stored, valid = gathered(state.arrays[call.function], places, rows.count)
    wrong = valid & (stored != rows.keys[0])
    if not wrong.any():
        return
    mask = np.ones(state.count, dtype=bool)
    mask[rows.rows[wrong]] = False
    at = state.coordinate(int(rows.rows[np.flatnonzero(wrong)[0]]))
    state.elsewhere(~mask & state.more)
    if not state.lenient and differs_as_number(state.values[~mask], state.layout.fill).any():
        raise DataError(f"expected entries that agree on `{show(call)}`, but the entry at {at} needs another value")
    state.keep(mask)


# --- what is left -----------------------------------------------------------------------------------------


def _solve_rest(state: PackingState, plan: PackPlan) -> None:
    """Sizes that only value arrays have, or that the relation compares with positions."""
    for value in state.layout.values:
        needed = []
        for position in value.position:
            for name in sorted(variables(position) & {*state.layout.sizes} - {*state.sizes}):
                _solve_by_relation(state, plan, name)
            check_known(state, position)
            place, _ = rows_of(position, state.known, state.arrays, state.count)
            needed.append(extent_of(np.broadcast_to(np.asarray(place), (state.count,))))
        solved_extents(state, value, needed)
    for name in state.layout.sizes:
        _solve_by_relation(state, plan, name)
        least = None if name in state.sizes else declared_size(state, name)
        if least is not None:
            state.sizes[name] = least
        if name not in state.sizes:
            raise unknown_size(state, name)


def _solve_by_relation(state: PackingState, plan: PackPlan, size: str) -> None:
    """As small as the entries allow, or as large where they only bound it from above: where an interval begins."""
    if size in state.sizes:
        return
    least: list[int] = []
    most: list[int] = []
    for k, piece in enumerate(plan.encoded.pieces):
        rows = np.flatnonzero(state.piece == k)
        known = {**state.sizes, **{n: c[rows] for n, c in state.columns.items()}}
        lower, upper = bounds(piece.project({*known, size}).constraints(size), size)
        of_entries = {*plan.encoded.layout.coordinates, *plan.encoded.layout.positions}
        for limits, sign, sides in ((least, -1, lower), (most, 1, upper)):
            for a, e in sides:
                if e.names() <= set(known) and e.names() & of_entries:
                    value = np.broadcast_to(np.asarray(affine_value(e, known)), (len(rows),))
                    limits.append(sign * (int(value.min()) // a) if len(rows) else 0)
    if least or most:
        state.sizes[size] = max(0, max(least) if least else min(most))


# --- values -----------------------------------------------------------------------------------------------


def _store_values(state: PackingState) -> None:
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
    if layout.value_transforms:
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


def _check_equal(state: PackingState, rows: Array, stored: Array, places: Array) -> None:
    """Entries that share a place have equal values. Raises DataError."""
    if state.lenient:
        return
    values = state.values[rows]
    wrong = np.flatnonzero((stored != values) & ~((stored != stored) & (values != values)))
    if len(wrong):
        row = int(wrong[0])
        other = int(np.flatnonzero(places == places[row])[-1])
        raise DataError(
            f"expected equal values at {state.coordinate(int(rows[row]))} and {state.coordinate(int(rows[other]))}, "
            f"which layout `{state.layout.name}` stores at one place, but they are {values[row]} and {stored[row]}"
        )


def check_shared(state: PackingState, plan: PackPlan) -> None:
    """Where several points share a value, the arrays hold the entries and nothing else: a coordinate at two places is
    the sum of both, which is right for zeros only. Raises DataError."""
    layout, fill = state.layout, state.layout.fill
    if plan.injective or (state.count > tuning.PACK_BY_NUMPY and is_alone(layout)):
        return
    points = enumerate_points(layout, state.sizes, state.arrays)
    columns = [points.columns[c] for c in layout.coordinates]
    filled = np.zeros(points.count, dtype=bool)
    for name, place in points.places.items():
        rows = np.flatnonzero(place >= 0)
        filled[rows] |= differs_as_number(state.arrays[name].reshape(-1)[place[rows]], fill)
    told = differs_as_number(state.values, fill)
    coordinates = [state.columns[c][told] for c in layout.coordinates]
    if int(np.count_nonzero(filled)) != int(np.count_nonzero(told)):
        _report_shared(layout, [c[filled] for c in columns], coordinates)
    if fill != 0:
        stored = np.any([place >= 0 for place in points.places.values()], axis=0)
        _report_twice(layout, [c[stored] for c in columns])


def is_alone(layout: Layout) -> bool:
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
        raise DuplicateCoordinate(
            f"expected a value at {at}, which layout `{layout.name}` stores together with others, but there is none"
        )
    _report_twice(layout, points)


def _report_twice(layout: Layout, points: list[Array]) -> None:
    """Raises DataError for the first coordinate that stands twice."""
    ranks, first = row_ranks(points, len(points[0]))
    twice = np.flatnonzero(np.bincount(ranks, minlength=len(first)) > 1)
    if len(twice):
        at = tuple(int(c[first[twice[0]]]) for c in points)
        raise DuplicateCoordinate(
            f"expected entries that layout `{layout.name}` stores once, but it has two places for that at {at}"
        )
