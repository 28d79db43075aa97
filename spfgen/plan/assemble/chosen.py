"""What packing chooses where a relation leaves it open (layout/pack_chosen.py), as steps."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from spfgen.facts.formula import ONE, ZERO, And, Bin, Call, Expr, Not, Num, Or, Var, calls, conjunction, variables
from spfgen.ir import rewrite
from spfgen.layout.pack_free import rounds_of
from spfgen.layout.pack_rules import KeyOrder, Rank, Ranked
from spfgen.plan.assemble.fills import with_declared_room
from spfgen.plan.assemble.hints import hint_vectors
from spfgen.plan.assemble.nodes import (
    Choose,
    Into,
    MaxOverPoints,
    Offsets,
    Repeat,
    Sort,
    at,
    compare,
    minus,
    plus,
    product,
    times,
)
from spfgen.plan.assemble.ranks import numbered, slots_of, sorted_by
from spfgen.plan.assemble.state import AssemblyBuilder, ChosenRows, divided, flat, largest, least, no_name, within_shape
from spfgen.sets.affine import NotAffine, affine

Rules = Mapping[int, Ranked]


def make_starts(s: AssemblyBuilder, rank: Rank, rules: Rules, order: KeyOrder) -> None:
    """An array whose elements leave room for what counts from them. Where no entry is it has a mark, else at most the
    last begin (order 0), the next one (order 1), or one of its own (order 2). With room for entries alone, not for all
    that may count from an element: order 3; and as far from one to the next as is declared: order 4."""
    name = rank.keys[0]
    index = s.layout.index(s.encoded.calls[name].function)
    before: Expr = s.starts.get(rank.run, Num(rank.low))
    with s.inside() as body:
        rows = s.rows(rules)
        places = s.subscripts(name, rows.row)
        if any(not variables(e) <= s.sizes for e in index.extents):  # as long as what it points into
            s.capacity(rank, partial(_entries_of_each, s, rows, places, minus(before, rank.low)))
        shape = s.extents(index, [partial(s.extent_of, p, rows.count) for p in places])
        s.keep(s.mask_of(rows, conjunction(within_shape(places, shape))), f"entries with a place in `{index.name}`")
    s.steps.append(Repeat(tuple(body)))
    size = product(shape)
    place = s.vec("place", rows.count, flat(shape, places))
    low, most = s.copy("low", size, ZERO), s.copy("most", size, ZERO)
    ends = [at(k) for k in (rows.keys[:1] if order.rest >= 3 else rows.keys)]
    s.steps.append(Into(low, rows.count, at(place), at(rows.keys[0]), "min"))
    s.steps.append(Into(most, rows.count, at(place), plus(largest(ends, ZERO), 1), "max"))
    used = s.vec("used", size, compare(minus(at(most), at(low)), ">", 0))
    room = s.copy("room", size, minus(Choose(compare(at(used), ">", 0), at(most), Num(int(order.rest == 2))), at(low)))
    if order.rest == 4:
        room = with_declared_room(s, index.name, shape, room)
    begins = _laid_out(s, rank, rows, place, size, room, before)
    total = s.let("all", plus(before, s.fold("room of all", size, at(room), "sum")))
    begins = s.copy("begins", size, minus(at(begins), at(low)))
    begins = _shared_by_neighbours(s, rank, size, begins, before, total, room, low)
    s.starts[rank.run] = total
    if order.rest == 2:
        s.capacity(rank, partial(minus, total, rank.low))
    for array in s.layout.indexes:
        if array.name == rank.run:  # which is as long as all that
            s.extents(array, [lambda: total])
    mark = s.mark(index.name)
    if order.rest in (0, 3):
        last = s.fold("last", size, Choose(compare(at(used), ">", 0), at(begins), before), "max", before)
        begins = s.copy("begins", size, Bin("min", at(begins), last))
        if mark is None and not s.has_capacity(rank):  # places that point somewhere, also without entries
            none = s.fold("any", size, at(used), "max")
            s.at_least(rank, And((compare(size, ">", 0), compare(none, "=", 0))))
    lowest, highest = s.key_range(name)
    filler: Expr = Bin("min", Bin("max", at(begins), lowest), Bin("max", lowest, highest))
    if mark is not None and order.rest in (0, 3):
        filler = mark
    vector = s.copy(index.name, size, Choose(compare(at(used), ">", 0), at(begins), filler))
    s.made(index.name, vector, shape)


def _entries_of_each(s: AssemblyBuilder, rows: ChosenRows, places: list[Expr], before: Expr) -> Expr:
    """Room for what counts from each of the places."""
    _, first, total = numbered(s, rows.count, s.vectors(places, rows.count))
    return plus(before, s.fold("room", total, plus(at(rows.keys[0], at(first)), 1), "sum"))


def _laid_out(s: AssemblyBuilder, rank: Rank, rows: ChosenRows, place: str, size: Expr, room: str, before: Expr) -> str:
    """Where each place begins, one behind the other; in the order of the hint, those without entries are the least."""
    if not rank.hint:
        begins = s.copy("begins", size, at(room))
        s.steps.append(Offsets(begins, size, s.new("all"), "begins leave room for what counts from them"))
        return s.vec("begins", size, plus(at(begins), before))
    falls = isinstance(rank.hint[0], Bin)
    columns = [s.copy("without entries", size, Num(int(falls)))]
    s.steps.append(Into(columns[0], rows.count, at(place), Num(int(not falls))))
    for hint in hint_vectors(s, rank)[:-1]:  # the last one is the place itself
        column = s.copy("hint", size, ZERO)
        s.steps.append(Into(column, rows.count, at(place), at(hint, rows.row)))
        columns.append(column)
    along = s.new("along")
    s.steps.append(Sort(along, size, tuple(columns)))
    begins = s.copy("begins", size, at(room, at(along)))
    s.steps.append(Offsets(begins, size, s.new("all"), "begins leave room for what counts from them"))
    placed_begins = s.copy("begins", size, ZERO)
    s.steps.append(Into(placed_begins, size, at(along), plus(at(begins), before)))
    return placed_begins


def _shared_by_neighbours(
    s: AssemblyBuilder, rank: Rank, size: Expr, begins: str, before: Expr, total: Expr, room: str, low: str
) -> str:
    """Where there is not one for each, neighbours share."""
    ends = [plus(divided(e, a), 1) for a, e in s.sized(rank.highs)]
    if not ends:
        return begins
    end = s.let("end", least(ends, ZERO))
    widest = s.fold("widest", size, at(room), "max")
    lowest = s.fold("lowest", size, at(low), "min")
    few = And((compare(total, ">", end), compare(widest, "=", 1), compare(lowest, "=", 0)))
    scaled = times(minus(at(begins), before), minus(end, before))
    wide = Bin("max", ONE, minus(total, before))
    return s.copy("begins", size, Choose(few, plus(before, Bin("/", scaled, wide)), at(begins)))


def make_places(s: AssemblyBuilder, rank: Rank, order: KeyOrder) -> None:
    """An array that leaves room for the values that are counted from each of its elements. Of those from which none
    counts, it has the next begin, or where the order says so at most the last one."""
    layout = s.layout
    index = layout.index(rank.array)
    missing = {a.name for a in layout.indexes} - set(s.arrays)
    both = [(p, e) for v in layout.values for p, e in zip(v.position, v.extents, strict=True)]
    counted = [(p, e) for p, e in both if any(c.function == rank.array for c in calls(p))]

    def without(node: object) -> Expr | None:
        return ZERO if isinstance(node, Call) and node.function in missing else None

    for place, _ in counted:
        if unknown := variables(place) & {*layout.sizes} - s.sizes:
            raise s.unknown(min(unknown))
    places = rank.groups or ()
    values = tuple(rewrite(without, p) for p, _ in counted)
    last = len(places) - 1
    needed = []
    for k, reached in enumerate(places):
        most = s.new("needed")
        s.scan_most(most, reached)
        needed.append(partial(plus, Var(most), int(k == last)))
    shape = s.extents(index, needed)
    size = product(shape)
    room = s.copy("room", size, ZERO)
    groups = tuple((s.copy("group", size, ZERO), w) for w in rank.within or ())
    arrays = {n: v for n, (v, _) in s.arrays.items()}
    s.steps.append(MaxOverPoints(room, shape, places, values, arrays, "", groups))
    room = with_declared_room(s, index.name, shape, room)
    begins = s.copy("begins", size, at(room))
    total = s.new("all")
    because = f"`{index.name}` leaves room for the values that count from its elements"
    s.steps.append(Offsets(begins, size, total, because))
    if rank.within is not None:
        begins = _anew_in_groups(s, size, room, [v for v, _ in groups])
    if order.rest:
        last_begin = s.fold("last", size, Choose(compare(at(room), ">", 0), at(begins), ZERO), "max")
        begins = s.copy("begins", size, Bin("min", at(begins), last_begin))
    s.made(index.name, begins, shape)
    if rank.within is not None:
        return
    whole: Expr = Var(total)
    if order.rest:
        whole = Bin("max", whole, Choose(compare(size, ">", 0), ONE, ZERO))
    with suppress(NotAffine):
        s.solve(affine(counted[0][1], no_name), whole)


def _anew_in_groups(s: AssemblyBuilder, size: Expr, room: str, groups: list[str]) -> str:
    """Begins that count from 0 in each group."""
    group, _, number = numbered(s, size, groups)
    along = s.new("along")
    s.steps.append(Sort(along, size, (group,)))
    sums = s.copy("sums", size, at(room, at(along)))
    s.steps.append(Offsets(sums, size, s.new("all")))
    first = s.copy("first", number, Num(2**62))
    s.steps.append(Into(first, size, at(group, at(along)), at(sums), "min"))
    begins = s.copy("begins", size, ZERO)
    begin_in_group = minus(at(sums), at(first, at(group, at(along))))
    used = compare(at(room, at(along)), ">", 0)
    s.steps.append(Into(begins, size, at(along), Choose(used, begin_in_group, ZERO)))
    return begins


def make_digits(s: AssemblyBuilder, rank: Rank, rules: Rules) -> None:
    """An array whose digits are said by one entry each, or by several that agree."""
    name = rank.keys[0]
    index = s.layout.index(s.encoded.calls[name].function)
    rows = s.rows(rules)
    places = s.subscripts(name, rows.row)
    shape = s.extents(index, [partial(s.extent_of, p, rows.count) for p in places])
    size = product(shape)
    inside = conjunction(within_shape(places, shape))
    place = s.vec("place", rows.count, Choose(inside, flat(shape, places), ZERO))
    good = s.vec("good", rows.count, inside)
    total = s.copy("total", size, ZERO)
    for digit_place, filler, digit_of_entry in zip(rank.places, rank.rests, rows.keys, strict=True):
        digit = s.copy("digit", size, Num(filler))
        mine = And((compare(at(good), ">", 0), compare(at(digit_of_entry), ">=", 0)))
        s.steps.append(
            Into(digit, rows.count, at(place), at(digit_of_entry), "set", mine, True)
        )  # the first entry stays
        agrees = compare(at(digit, at(place)), "=", at(digit_of_entry))
        good = s.copy("good", rows.count, Or((And((compare(at(good), ">", 0), Not(mine))), And((mine, agrees)))))
        total = s.copy("total", size, plus(at(total), times(Num(digit_place), at(digit))))
    s.made(index.name, total, shape)
    s.keep(s.mask_of(rows, compare(at(good), ">", 0)), f"entries that agree on the digits of `{index.name}`")


def rank_chunks(s: AssemblyBuilder, rank: Rank, rules: Rules, order: KeyOrder, low: Expr) -> None:
    """Positions counted in each group, again and again up to the end."""
    rows = s.rows(rules)
    groups = s.vectors(s.groups(rank, rows.row), rows.count)
    _, slot, sizes, total = slots_of(s, rank, groups, rows, sorted_by(s, rank, rows, order))
    slots = s.vec("slot", rows.count, slot)
    width = s.capacity(rank, lambda: s.fold("most", total, at(sizes), "max"))
    width = s.let("width", Bin("max", ONE, width))
    s.place_rows(rank.position, rows, plus(Bin("%", at(slots), width), low))
    s.place_rows(rounds_of(rank.position), rows, Bin("/", at(slots), width))
