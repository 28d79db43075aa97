"""Each kind of rank of the key plan (layout/pack_rules.py) as steps: what layout/pack_assembly.py does with numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from spfgen.errors import Unsupported
from spfgen.facts.formula import ONE, ZERO, And, Bin, Compare, Expr, Formula, Not, Num, Or, Var, conjunction, show
from spfgen.layout.pack_fill import FALLING, RISING, fill_of
from spfgen.layout.pack_rules import KeyOrder, Rank, Ranked
from spfgen.plan.assemble.fills import complete, make_given
from spfgen.plan.assemble.hints import hint_vectors
from spfgen.plan.assemble.nodes import (
    COUNT,
    LINKED,
    MORE,
    ROW,
    Choose,
    Differs,
    Filler,
    Into,
    Movable,
    Move,
    NumberBlocks,
    Offsets,
    Ranks,
    Repeat,
    Running,
    SameValue,
    Sort,
    UpperBound,
    Vec,
    at,
    compare,
    minus,
    plus,
    product,
    times,
)
from spfgen.plan.assemble.state import AssemblyBuilder, ChosenRows, divided, flat, largest, least, negated, within_shape
from spfgen.sets.affine import expression
from spfgen.sets.bounds import bounds

LOWEST, HIGHEST = Num(-(2**62)), Num(2**62)
Rules = Mapping[int, Ranked]


def add_rank(s: AssemblyBuilder, rank: Rank, rules: Rules, order: KeyOrder) -> None:
    """Raises Unsupported for what has no steps."""
    rank = replace(rank, hint=order.hint) if order.hint else rank
    low: Expr = Num(rank.low)
    if rank.least:
        low = s.let("low", largest([low, *map(expression, rank.least)], low))
    match rank.kind:
        case "slots":
            _slots(s, rank, rules, order, low)
        case "write":
            _write_known(s, rank, rules, order)
        case "padded":
            _padded(s, rank, rules, order, low)
        case "covered":
            _covered(s, rank, rules)
        case "room":
            _room(s, rank, rules)
        case "given":
            make_given(s, rank, order)
        case "most" | "least":
            _extremes(s, rank, rules, order)
        case "pointer" | "ends" | "counts":
            _counted(s, rank, rules, order, low)
        case "start":
            from spfgen.plan.assemble.chosen import make_starts  # which uses this module

            make_starts(s, rank, rules, order)
        case "places":
            from spfgen.plan.assemble.chosen import make_places  # which uses this module

            make_places(s, rank, order)
        case "digits":
            from spfgen.plan.assemble.chosen import make_digits  # which uses this module

            make_digits(s, rank, rules)
        case "chunk":
            from spfgen.plan.assemble.chosen import rank_chunks  # which uses this module

            rank_chunks(s, rank, rules, order, low)
        case _:
            raise Unsupported(
                f"layout `{s.layout.name}` is not assembled in C: ranks of kind {rank.kind}", s.layout.span
            )


def numbered(s: AssemblyBuilder, count: Expr, columns: Sequence[str], because: str = "") -> tuple[str, str, Expr]:
    """(the rank of each row, a row of each rank, how many)."""
    rank, first, total = s.new("rank"), s.new("first"), s.new("total")
    s.steps.append(Ranks(rank, first, total, count, tuple(columns), because))
    return rank, first, Var(total)


def _keyed(s: AssemblyBuilder, rank: Rank, rules: Rules) -> ChosenRows:
    """The entries with their keys; where runs are counted, the key is the number of the run."""
    rows = s.rows(rules)
    if not rank.run:
        return rows
    within = [s.value(v, rows.row) for v in rank.within or ()]
    groups = s.vectors([*s.groups(rank, rows.row), *within], rows.count)
    return replace(rows, keys=(_runs(s, rank, rows, groups),))


def _runs(s: AssemblyBuilder, rank: Rank, rows: ChosenRows, groups: list[str]) -> str:
    """The number of the run of each entry."""
    if len(rows.keys) > 1:
        return _blocks(s, rows, groups)
    hinted = [s.vec("hint", rows.count, at(h, rows.row)) for h in hint_vectors(s, rank)] if rank.hint else []
    key = rows.keys[0]
    place, first, total = numbered(s, rows.count, [*groups, key], f"runs of `{rank.run}`")
    before = at(first, minus(ROW, 1))
    apart: Formula = compare(at(key, at(first)), "!=", plus(at(key, before), 1))
    if s.by_ends:
        joined = And((compare(at(LINKED, at(first)), "!=", 0), Compare("=", at(first), plus(before, 1))))
        apart = And((apart, Not(joined)))
    new: list[Formula] = [compare(ROW, "=", 0), apart]
    new += [compare(at(c, at(first)), "!=", at(c, before)) for c in (*groups, *hinted)]
    if rank.same:
        new.append(Not(SameValue(_row(rows, at(first)), _row(rows, before))))
    begins = s.vec("begins a run", total, Or(tuple(new)))
    number = s.copy("number", total, at(begins))
    s.steps.append(Offsets(number, total, s.new("runs")))
    whole = s.vec("run", total, minus(plus(at(number), at(begins)), 1))
    return s.vec("run", rows.count, at(whole, at(place)))


def _row(rows: ChosenRows, index: Expr) -> Expr:
    """The row of the table at a place among chosen rows."""
    match rows.row:
        case Var():
            return index
        case row:
            return at(row.function, index)  # type: ignore[attr-defined]


def _blocks(s: AssemblyBuilder, rows: ChosenRows, groups: list[str]) -> str:
    low = s.vec("low", rows.count, least([at(k) for k in rows.keys], ZERO))
    high = s.vec("high", rows.count, largest([at(k) for k in rows.keys], ZERO))
    group = numbered(s, rows.count, groups)[0] if groups else s.vec("group", rows.count, ZERO)
    name = s.new("block")
    s.steps.append(NumberBlocks(name, rows.count, group, low, high))
    return name


def in_order(s: AssemblyBuilder, rank: Rank, keys: Sequence[str], count: Expr, order: KeyOrder) -> list[str]:
    """The keys in the order of importance, turned round where they run down."""
    calls = s.encoded.calls
    named = {calls[n].function: k for n, k in zip(rank.keys, keys, strict=True) if n in calls}
    columns = []
    for k, down in order.keys:
        if isinstance(k, int):
            value = at(keys[k])
        else:
            from spfgen.facts.formula import substitute

            value = substitute(expression(k), {f: at(v) for f, v in named.items()})
        columns.append(s.vec("key", count, negated(value) if down else value))
    return columns


def sorted_by(s: AssemblyBuilder, rank: Rank, rows: ChosenRows, order: KeyOrder) -> list[str]:
    """What the positions of a rank are in the order of: the layout's hint, then the keys."""
    if rank.run:
        return list(rows.keys)
    hinted = [s.vec("hint", rows.count, at(h, rows.row)) for h in hint_vectors(s, rank)] if rank.hint else []
    extra = [s.vec("extra", rows.count, at(s.columns[n], rows.row)) for n in rank.extra]
    return [*hinted, *in_order(s, rank, rows.keys, rows.count, order), *extra]


def slots_of(
    s: AssemblyBuilder, rank: Rank, groups: Sequence[str], rows: ChosenRows, arranged: Sequence[str]
) -> tuple[str, Expr, str, Expr]:
    """(group of each row, its slot, vector of the number of distinct keys of each group, number of groups)."""
    because = f"`{rank.position}` counts" + (" in each group" if groups else "")
    if groups:
        group, _, total = numbered(s, rows.count, groups)
    else:
        group, total = s.vec("group", rows.count, ZERO), s.let("total", Bin("min", rows.count, ONE))
    ranks, first, distinct = numbered(s, rows.count, [group, *arranged], because)
    sizes = s.vec("sizes", total, ZERO)
    s.steps.append(Into(sizes, distinct, at(group, at(first)), ONE, "add"))
    starts = s.copy("starts", total, at(sizes))
    s.steps.append(Offsets(starts, total, s.new("all")))
    return group, minus(at(ranks), at(starts, at(group))), sizes, total


# --- counted through ------------------------------------------------------------------------------------------


def _counted(s: AssemblyBuilder, rank: Rank, rules: Rules, order: KeyOrder, low: Expr) -> None:
    """Positions counted through all segments; the pointer arrays are the running counts."""
    begin = s.layout.index(s.encoded.calls[rank.begin].function)
    pointer = rank.kind == "pointer"
    with s.inside() as body:
        rows = _keyed(s, rank, rules)
        places = s.subscripts(rank.begin, rows.row)
        shape = _segments(s, begin.name, places, rows, pointer)
        room = (*shape[:-1], plus(shape[-1], -int(pointer)))
        good = conjunction(within_shape(places, room))
        s.keep(s.mask_of(rows, good), f"entries with a segment in `{begin.name}`")
    s.steps.append(Repeat(tuple(body)))
    segment = s.vec("segment", rows.count, flat(shape, places))
    arranged = sorted_by(s, rank, rows, order)
    because = f"`{rank.position}` counts through all segments of `{begin.name}`" + (
        ", by its keys" if rank.keys else ""
    )
    ranks, first, total = numbered(s, rows.count, [segment, *arranged], because)
    s.place_rows(rank.position, rows, plus(at(ranks), low))
    size = product(shape)
    starts = s.vec("starts", size, ZERO)
    s.steps.append(Into(starts, total, at(segment, at(first)), ONE, "add"))
    counts = s.copy("counts", size, at(starts)) if rank.other else ""
    s.steps.append(
        Offsets(starts, size, s.new("all"), f"`{begin.name}` is where segments begin: prefix sums of their counts")
    )
    s.made(begin.name, s.vec(begin.name, size, plus(plus(at(starts), low), rank.base)), shape)
    if rank.other:
        other = s.layout.index(s.encoded.calls[rank.other].function)
        value = at(counts)
        if rank.kind == "ends":
            value = plus(plus(plus(at(starts), value), low), rank.past)
        s.made(other.name, s.copy(other.name, size, value), shape)
    for key, values in zip(rank.keys, rows.keys, strict=False):
        s.write(rank, key, rows, at(values), s.let("length", plus(total, low)))


def _segments(
    s: AssemblyBuilder, array: str, places: Sequence[Expr], rows: ChosenRows, pointer: bool
) -> tuple[Expr, ...]:
    """The shape of a pointer array that has these places."""
    index = s.layout.index(array)
    last = len(places) - 1
    needed = [partial(s.extent_of, p, rows.count, int(pointer and k == last)) for k, p in enumerate(places)]
    return s.extents(index, needed)


# --- counted in groups ----------------------------------------------------------------------------------------


def _slots(s: AssemblyBuilder, rank: Rank, rules: Rules, order: KeyOrder, low: Expr) -> None:
    """Positions counted in each group of the keys' other arguments."""
    with s.inside() as body:
        rows = _keyed(s, rank, rules)
        places = s.groups(rank, rows.row)
        groups = s.vectors(places, rows.count)
        group, slot, sizes, total = slots_of(s, rank, groups, rows, sorted_by(s, rank, rows, order))
        most = lambda: s.fold("most", total, at(sizes), "max")  # noqa: E731
        is_open = not s.has_capacity(rank)
        width = s.capacity(rank, most)
        if not is_open:
            _drop_surplus(s, rank, rows, group, slot, sizes, total, width)
    s.steps += body if is_open else [Repeat(tuple(body))]
    if len(rank.keys) == 1 and not (rank.later or rank.ended):
        name = s.encoded.calls[rank.keys[0]].function
        if name not in s.plan.sentinels:
            return _slots_or_filler(s, rank, rows, order, low, width, (group, slot, sizes, total))
    _place_slots(s, rank, rows, order, low, width, (group, slot, sizes, total))
    return None


Slots = tuple[str, Expr, str, Expr]


def _place_slots(
    s: AssemblyBuilder, rank: Rank, rows: ChosenRows, order: KeyOrder, low: Expr, width: Expr, slots: Slots
) -> None:
    group, slot, sizes, _ = slots
    if order.empty_first:
        slot = plus(slot, minus(width, at(sizes, at(group))))
    s.place_rows(rank.position, rows, plus(slot, low))
    for key, values in zip(() if rank.later else rank.keys, rows.keys, strict=False):
        s.write(rank, key, rows, at(values), s.let("length", plus(width, low)))


def _drop_surplus(
    s: AssemblyBuilder, rank: Rank, rows: ChosenRows, group: str, slot: Expr, sizes: str, total: Expr, width: Expr
) -> None:
    """Groups with more entries than there is room for: those that may go elsewhere do, fill values are left out."""
    over = s.fold("over", total, compare(at(sizes), ">", width), "max")
    slots = s.vec("slot", rows.count, slot)
    with s.inside() as then:
        if s.alternatives > 1:
            mask = s.new("movable")
            more = s.vec("more", rows.count, at(MORE, rows.row))
            s.steps.append(Movable(mask, rows.count, group, slots, more, sizes, total, width))
            moved = s.vec("moved", COUNT, ZERO) if not rows.is_all else mask
            if not rows.is_all:
                s.steps.append(Into(moved, rows.count, rows.row, at(mask)))
            s.steps.append(Move(moved))
        some = s.fold("surplus", rows.count, _surplus(rows, group, sizes, width), "max")
        s.fail(compare(some, "=", 0), f"there is no room for all entries of a group along `{rank.position}`")
    s.when(compare(over, ">", 0), then)
    s.keep(
        s.mask_of(rows, Not(_surplus(rows, group, sizes, width))), f"no more entries than `{rank.position}` has slots"
    )


def _surplus(rows: ChosenRows, group: str, sizes: str, width: Expr) -> Formula:
    return conjunction([compare(at(sizes, at(group)), ">", width), Not(Differs(rows.row))])


def _slots_or_filler(
    s: AssemblyBuilder, rank: Rank, rows: ChosenRows, order: KeyOrder, low: Expr, width: Expr, slots: Slots
) -> None:
    """Where places of the key's array stay empty that have no mark, each group is filled up with unused keys."""
    name = rank.keys[0]
    call = s.encoded.calls[name]
    index = s.layout.index(call.function)
    axis = call.arguments.index(Var(rank.position))
    places = s.subscripts(name, rows.row, rank.position)
    needed: list[Callable[[], Expr]] = [partial(s.extent_of, p, rows.count) for p in places]
    needed.insert(axis, partial(plus, width, low))
    shape = s.extents(index, needed)
    used_slots = s.fold("held", slots[3], at(slots[2]), "sum")
    before = dict(s.columns)
    vector, column = s.new(index.name), s.new(rank.position)
    s.steps.append(Vec(column, COUNT, (s.columns.get(rank.position) and at(s.columns[rank.position])) or ZERO))
    with s.inside() as plain:
        _place_slots(s, rank, rows, order, low, width, slots)
        _alias(s, rank, rows, column, vector, index.name, shape)
    s.columns = {**before, **{n: v for n, v in s.columns.items() if n in before}}
    with s.inside() as full:
        _filled(s, rank, rows, order, width, places, shape, axis)
        _alias(s, rank, rows, column, vector, index.name, shape)
    s.when(compare(used_slots, "<", product(shape)), full, plain)
    s.columns = {**before, rank.position: column}
    s.made(index.name, vector, shape)


def _alias(
    s: AssemblyBuilder, rank: Rank, rows: ChosenRows, column: str, vector: str, array: str, shape: tuple[Expr, ...]
) -> None:
    """What a branch made, under the names that both branches have."""
    s.steps.append(Vec(vector, product(shape), at(s.arrays[array][0])))
    s.steps.append(Into(column, COUNT, ROW, at(s.columns[rank.position])))


def _filled(
    s: AssemblyBuilder,
    rank: Rank,
    rows: ChosenRows,
    order: KeyOrder,
    width: Expr,
    places: Sequence[Expr],
    shape: tuple[Expr, ...],
    axis: int,
) -> None:
    name = rank.keys[0]
    outer = (*shape[:axis], *shape[axis + 1 :])
    slots = shape[axis]
    s.fail(compare(s.fold("outside", rows.count, Not(conjunction(within_shape(places, outer))), "max"), ">", 0),
           f"`{s.encoded.calls[name].function}` has no place for an entry")  # fmt: skip
    group = s.vec("group", rows.count, flat(outer, places))
    key = rows.keys[0]
    ranks, first, distinct = numbered(s, rows.count, [group, key])
    distinct_group = s.vec("own group", distinct, at(group, at(first)))
    distinct_key = s.vec("own key", distinct, at(key, at(first)))
    new_group, new_key, more = s.new("new group"), s.new("new key"), s.new("more")
    lowest, highest = s.key_range(name)
    s.steps.append(
        Filler(new_group, new_key, more, distinct, distinct_group, distinct_key, product(outer), slots, lowest)
    )
    every = s.let("every", plus(distinct, Var(more)))
    new = compare(ROW, ">=", distinct)
    top = Bin("max", lowest, highest)
    every_group = s.vec("every group", every, Choose(new, at(new_group, minus(ROW, distinct)), at(distinct_group)))
    filler = Bin("min", at(new_key, minus(ROW, distinct)), top)
    every_key = s.vec("every key", every, Choose(new, filler, at(distinct_key)))
    hinted = []
    if rank.hint:
        unused = s.vec("unused", Var(more), Bin("min", at(new_key), top))
        for hint in hint_vectors(s, rank, (unused, Var(more))):
            entry = at(hint, _row(rows, at(first)))
            hinted.append(s.vec("hint", every, Choose(new, at(hint, plus(COUNT, minus(ROW, distinct))), entry)))
    arranged = s.new("arranged")
    columns = (every_group, *hinted, *in_order(s, rank, [every_key], every, order), s.vec("new", every, new))
    s.steps.append(Sort(arranged, every, columns))
    place = s.vec("place", every, ZERO)
    s.steps.append(Into(place, every, at(arranged), Bin("%", ROW, Bin("max", ONE, slots))))
    s.place_rows(rank.position, rows, at(place, at(ranks)))
    inner = product(shape[axis + 1 :])
    wide = Bin("max", ONE, slots)
    outer_at, slot = Bin("/", ROW, wide), Bin("%", ROW, wide)
    if inner != ONE:
        inner = Bin("max", ONE, inner)
        high, low_part = Bin("/", outer_at, inner), Bin("%", outer_at, inner)
        target = plus(times(plus(times(high, slots), slot), inner), low_part)
    else:
        target = ROW
    vector = s.vec("table", product(shape), ZERO)
    s.steps.append(Into(vector, every, target, at(every_key, at(arranged))))
    s.made(s.encoded.calls[name].function, vector, shape)


# --- padded, covered, room ------------------------------------------------------------------------------------


def _padded(s: AssemblyBuilder, rank: Rank, rules: Rules, order: KeyOrder, low: Expr) -> None:
    """Positions counted from the start of their segment in each group; a segment has room for its largest group."""
    begin = s.layout.index(s.encoded.calls[rank.begin].function)
    with s.inside() as body:
        rows = s.rows(rules)
        places = s.subscripts(rank.begin, rows.row)
        shape = _segments(s, begin.name, places, rows, True)
        good = conjunction(within_shape(places, (*shape[:-1], plus(shape[-1], -1))))
        s.keep(s.mask_of(rows, good), f"entries with a segment in `{begin.name}`")
    s.steps.append(Repeat(tuple(body)))
    groups = s.vectors([*places, *s.subscripts(rank.keys[0], rows.row, rank.position)], rows.count)
    _, slot, _, _ = slots_of(s, rank, groups, rows, sorted_by(s, rank, rows, order))
    slots = s.vec("slot", rows.count, slot)
    segment = s.vec("segment", rows.count, flat(shape, places))
    size = product(shape)
    starts = s.vec("starts", size, ZERO)
    s.steps.append(Into(starts, rows.count, at(segment), plus(at(slots), 1), "max"))
    total = s.new("all")
    s.steps.append(Offsets(starts, size, total, f"`{begin.name}`: each segment has room for its largest group"))
    s.place_rows(rank.position, rows, plus(plus(at(starts, at(segment)), at(slots)), low))
    s.made(begin.name, s.vec(begin.name, size, plus(plus(at(starts), low), rank.base)), shape)
    for key, values in zip(rank.keys, rows.keys, strict=True):
        s.write(rank, key, rows, at(values), s.let("length", plus(Var(total), low)))


def _covered(s: AssemblyBuilder, rank: Rank, rules: Rules) -> None:
    """Runs that lie side by side from the first to the last that there may be: gaps are runs as well."""
    rows = s.rows(rules)
    run = _runs(s, rank, rows, [])
    low, high = _limits(s, rank, rules)
    runs = s.extent_of(at(run), rows.count)
    firsts = s.vec("firsts", runs, plus(high, 1))
    lasts = s.vec("lasts", runs, minus(low, 1))
    for key in rows.keys:
        s.steps.append(Into(firsts, rows.count, at(run), at(key), "min"))
        s.steps.append(Into(lasts, rows.count, at(run), at(key), "max"))
    every = s.let("every", plus(times(Num(2), runs), 1))
    behind = plus(at(lasts, minus(minus(ROW, 1), runs)), 1)
    value = Choose(compare(ROW, "=", 0), low,
                   Choose(compare(ROW, "<=", runs), at(firsts, minus(ROW, 1)), behind))  # fmt: skip
    candidates = s.vec("candidates", every, value)
    _, first, total = numbered(s, every, [candidates], f"runs of `{rank.run}` and the gaps between them")
    starts = s.vec("starts", total, at(candidates, at(first)))
    run_count = s.fold("runs", total, compare(at(starts), "<=", high), "sum")
    begin = s.layout.index(s.encoded.calls[rank.begin].function)
    (extent,) = s.extents(begin, [lambda: plus(run_count, 1)])
    s.fail(compare(extent, "!=", plus(run_count, 1)), f"there are more or fewer runs of `{rank.run}`")
    s.place_rows(rank.position, rows, minus(UpperBound(starts, run_count, at(rows.keys[0])), 1))
    end = Bin("max", plus(high, 1), low)
    s.made(begin.name, s.vec(begin.name, extent, Choose(compare(ROW, "<", run_count), at(starts), end)), (extent,))


def _limits(s: AssemblyBuilder, rank: Rank, rules: Rules) -> tuple[Expr, Expr]:
    """The least and the largest value that the relation allows for what the runs hold."""
    known = {*s.sizes, *(n for n, (v, _) in s.encoded.quotients.items() if v.names() <= s.sizes)}
    lows: list[Expr] = []
    highs: list[Expr] = []
    for piece, rule in rules.items():
        about = s.encoded.pieces[piece].intersect(s.encoded.facts)
        for name in (n for value, _ in rule.values for n in value.names()):
            lower, upper = bounds(about.project({*known, name}).constraints(name), name)
            low = [negated(divided(e, a)) for a, e in s.sized(lower)]
            high = [divided(e, a) for a, e in s.sized(upper)]
            if not low or not high:
                raise Unsupported(
                    f"layout `{s.layout.name}` cannot be packed: `{name}`, which runs cover, has no bounds",
                    s.layout.span,
                )
            lows.append(largest(low, ZERO))
            highs.append(least(high, ZERO))
    return s.let("lowest", least(lows, ZERO)), s.let("highest", largest(highs, ZERO))


def _room(s: AssemblyBuilder, rank: Rank, rules: Rules) -> None:
    """A pointer array that leaves the room that the entries need."""
    index = s.layout.index(s.encoded.calls[rank.begin].function)
    rows = s.rows(rules)
    places = s.subscripts(rank.begin, rows.row)
    shape = _segments(s, index.name, places, rows, True)
    good = conjunction(within_shape(places, (*shape[:-1], plus(shape[-1], -1))))
    size = product(shape)
    room = s.copy(index.name, size, ZERO)
    wanted = largest([at(k) for k in rows.keys], ZERO)
    s.steps.append(Into(room, rows.count, flat(shape, places), wanted, "max", good))
    total = s.new("all")
    s.steps.append(Offsets(room, size, total, f"`{index.name}` leaves the room that entries need"))
    s.made(index.name, room, shape)
    for a, high in bounds(s.encoded.facts.constraints(rank.begin), rank.begin)[1]:
        s.solve(high, times(Num(a), Var(total)))


# --- known places ---------------------------------------------------------------------------------------------


def _extremes(s: AssemblyBuilder, rank: Rank, rules: Rules, order: KeyOrder) -> None:
    """An array that is the largest or smallest value that the entries give for each place; where the order says so,
    also of all places before, or behind."""
    name = rank.keys[0]
    rows = s.rows(rules)
    most = rank.kind == "most"
    value = (largest if most else least)([at(k) for k in rows.keys], ZERO)
    written = s.write(rank, name, rows, value, ZERO)
    function = s.encoded.calls[name].function
    stored, shape = s.arrays[function]
    inside = conjunction(within_shape(s.subscripts(name, rows.row), shape))
    extremes = s.vec("extreme", product(shape), LOWEST if most else HIGHEST)
    place = flat(shape, s.subscripts(name, rows.row))
    s.steps.append(Into(extremes, rows.count, place, value, "max" if most else "min", inside))
    vector = s.vec(function, product(shape), Choose(compare(at(written), ">", 0), at(extremes), at(stored)))
    s.made(function, vector, shape)
    fill = fill_of(s.layout, s.plan, rank, order.rest)
    if fill in (RISING, FALLING):
        s.steps.append(Running(vector, product(shape), shape[-1], not most, fill == FALLING))
    else:
        complete(s, s.key_range(name), function, written, fill)


def _write_known(s: AssemblyBuilder, rank: Rank, rules: Rules, order: KeyOrder) -> None:
    """An array whose places are known: entries at one place must agree on the value."""
    name = rank.keys[0]
    rows = s.rows(rules)
    written = s.write(rank, name, rows, at(rows.keys[0]), ZERO, backwards=True)
    call = s.encoded.calls[name]
    complete(s, s.key_range(name), call.function, written, fill_of(s.layout, s.plan, rank, order.rest))
    vector, shape = s.arrays[call.function]
    places = s.subscripts(name, rows.row)
    outside = Not(conjunction(within_shape(places, shape)))
    good = Or((outside, compare(at(vector, flat(shape, places)), "=", at(rows.keys[0]))))
    s.keep(s.mask_of(rows, good), f"entries that agree on `{show(call)}`")
