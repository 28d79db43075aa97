"""The arrays of what packing chooses where a relation leaves it open (pack_free.py)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from math import prod

import numpy as np

from spfgen.facts.formula import Bin, calls, variables
from spfgen.layout.hints import hint_columns
from spfgen.layout.pack_entries import (
    PackingState,
    capacity,
    check_known,
    entry_rows,
    extent_of,
    groups_of,
    key_range,
    mark_of,
    no_name,
    size_values,
    slots_of,
    solve_extent,
    solved_extents,
    sorted_by,
    subscripts_of,
)
from spfgen.layout.pack_fill import declared_room
from spfgen.layout.pack_free import rounds_of
from spfgen.layout.pack_rules import KeyOrder, PackPlan, Rank, Ranked
from spfgen.layout.points import (
    Array,
    affine_value,
    flat_place,
    inside,
    relation_rows,
    row_ranks,
    rows_of,
    shape_of,
)
from spfgen.sets.affine import Affine, NotAffine, affine


def make_places(state: PackingState, rank: Rank, order: KeyOrder) -> None:
    """An array that leaves room for the values that are counted from each of its elements. Of those from which none
    counts, it has the next begin, or where the order says so at most the last one."""
    layout = state.layout
    index = layout.index(rank.array)
    count, columns = relation_rows(layout, state.sizes, state.arrays)
    known = {**state.sizes, **columns}

    def each(values: tuple[Affine, ...]) -> list[Array]:
        return [np.broadcast_to(np.asarray(affine_value(v, known), dtype=np.int64), (count,)) for v in values]

    places = each(rank.groups or ())
    extents = solved_extents(state, index, [extent_of(p) for p in places[:-1]] + [extent_of(places[-1]) + 1])
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
        check_known(state, place)
        place_values, valid = rows_of(place, known, {**state.arrays, **zeros}, count)
        used = valid[good]
        np.maximum.at(room, flat[used], np.broadcast_to(place_values, (count,))[good][used] + 1)
    room = np.maximum(room, declared_room(state, index.name, extents))
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
            solve_extent(state, affine(at[0][1], no_name), int(max(room.sum(), order.rest and room.size > 0)))


def variables_known(state: PackingState, array: str) -> bool:
    """Whether the extents of an array are known."""
    return all(variables(e) <= set(state.sizes) for e in state.layout.index(array).extents)


def make_starts(state: PackingState, plan: PackPlan, rank: Rank, rules: Mapping[int, Ranked], order: KeyOrder) -> None:
    """An array whose elements leave room for what counts from them. Where no entry is it has a mark, else at most the
    last begin (order 0), the next one (order 1), or one of its own (order 2). With room for entries alone, not for all
    that may count from an element: order 3; and as far from one to the next as is declared: order 4."""
    name = rank.keys[0]
    index = state.layout.index(plan.encoded.calls[name].function)
    rows = entry_rows(state, rules)
    places = subscripts_of(state, plan, name, rows.rows)
    before = state.starts.get(rank.run, rank.low)
    if any(not variables(e) <= set(state.sizes) for e in index.extents):  # as long as what it points into
        _, each = row_ranks(places, rows.count)
        capacity(state, plan, rank, before - rank.low + int(np.sum(rows.keys[0][each] + 1)))
    extents = solved_extents(state, index, [extent_of(p) for p in places])
    state.claim(index.name, extents)
    good = inside(extents, places, rows.count)
    if not good.all():
        state.drop(rows.rows[~good])
        return make_starts(state, plan, rank, rules, order)
    flat = flat_place(extents, places, rows.count)
    low, room = np.zeros(prod(extents), dtype=np.int64), np.zeros(prod(extents), dtype=np.int64)
    np.minimum.at(low, flat, rows.keys[0])
    np.maximum.at(room, flat, np.maximum.reduce(rows.keys[:1] if order.rest >= 3 else rows.keys) + 1)
    used = room - low > 0
    room = np.where(used, room, int(order.rest == 2)) - low
    if order.rest == 4:
        room = np.maximum(room, declared_room(state, index.name, extents))
    along = _along(state, plan, rank, rows.rows, flat, len(room))
    begins = np.empty_like(room)
    begins[along] = before + np.cumsum(room[along]) - room[along]
    begins -= low
    sizes = size_values(state, plan)
    ends = [int(affine_value(e, sizes)) // a + 1 for a, e in rank.highs if e.names() <= set(sizes)]
    if ends and before + int(room.sum()) > min(ends) and room.max(initial=0) == 1 and not low.any():
        # Not one for each: neighbours share.
        begins = before + (begins - before) * (min(ends) - before) // int(room.sum())
    state.starts[rank.run] = before + int(room.sum())
    if order.rest == 2:
        capacity(state, plan, rank, before + int(room.sum()) - rank.low)
    for array in state.layout.indexes:
        if array.name == rank.run:  # which is as long as all that
            solved_extents(state, array, [before + int(room.sum())])
    sentinel = mark_of(state, plan, index.name)
    if order.rest in (0, 3):
        begins = np.minimum(begins, begins[used].max(initial=before))
        if sentinel is None and begins.size and not used.any():  # places that point somewhere, also without entries
            capacity(state, plan, rank, 1)
    if sentinel is not None and order.rest in (0, 3):
        begins = np.where(used, begins, sentinel)
    else:
        least, most = key_range(state, plan, name)
        begins = np.where(used, begins, np.clip(begins, least, max(least, most)))
    state.arrays[index.name] = begins.reshape(extents)
    return None


def _along(state: PackingState, plan: PackPlan, rank: Rank, rows: Array, flat: Array, count: int) -> Array:
    """The places of an array in the order in which what counts from them lies; those without entries are the least."""
    if not rank.hint:
        return np.arange(count)
    falls = isinstance(rank.hint[0], Bin)
    unused = np.full(count, falls)
    unused[flat] = not falls
    columns = [np.arange(count)]
    for hint in reversed(hint_columns(state.seen, plan, rank)[:-1]):  # the last one is the place itself
        column = np.zeros(count, dtype=np.int64)
        column[flat] = hint[rows]
        columns.append(column)
    order: Array = np.lexsort([*columns, unused])
    return order


def write_digits(state: PackingState, plan: PackPlan, rank: Rank, rules: Mapping[int, Ranked]) -> None:
    """An array whose digits are said by one entry each, or by several that agree."""
    name = rank.keys[0]
    index = state.layout.index(plan.encoded.calls[name].function)
    rows = entry_rows(state, rules)
    places = subscripts_of(state, plan, name, rows.rows)
    extents = solved_extents(state, index, [extent_of(p) for p in places])
    state.claim(index.name, extents)
    good = inside(extents, places, rows.count)
    flat = np.where(good, flat_place(extents, [np.where(good, p, 0) for p in places], rows.count), 0)
    total = np.zeros(prod(extents), dtype=np.int64)
    for place, filler, digits_of_entries in zip(rank.places, rank.rests, rows.keys, strict=True):
        digit = np.full(prod(extents), filler, dtype=np.int64)
        mine = np.flatnonzero(good & (digits_of_entries >= 0))[::-1]
        digit[flat[mine]] = digits_of_entries[mine]  # the first entry stays
        good[mine] &= digit[flat[mine]] == digits_of_entries[mine]
        total += place * digit
    state.arrays[index.name] = total.reshape(extents)
    state.drop(rows.rows[~good])


def rank_chunks(state: PackingState, plan: PackPlan, rank: Rank, rules: Mapping[int, Ranked], order: KeyOrder) -> None:
    """Positions counted in each group, again and again up to the end."""
    rows = entry_rows(state, rules)
    groups = groups_of(state, plan, rank, rows.rows)
    _, slot, sizes = slots_of(groups, rows, sorted_by(state, plan, rank, rows, order))
    width = max(1, capacity(state, plan, rank, int(sizes.max()) if len(sizes) else 0))
    state.columns[rank.position][rows.rows] = rank.low + slot % width
    state.columns[rounds_of(rank.position)][rows.rows] = slot // width
