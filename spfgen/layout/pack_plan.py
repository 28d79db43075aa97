"""How the arrays of a layout follow from coordinates: the plan of packing, derived from the relation.

Given the coordinates and what is known already, a position is

    computed   the relation makes it a floor/mod function of what is known;
    solved     the relation lets it have one value only, given what is known (bits of a Morton key, swizzled columns):
               the function is found case by case;
    ranked     calls at this position have values that are known (its keys): the positions are the distinct keys in
               order, within [f(e), f(e + 1)) or [b(e), g(e)) counted through (a pointer array is that count),
               within [0, n) counted in each group of the keys' other arguments;
    a run      something known lies between calls at this position: the positions are the maximal runs of neighbours.

Where no position follows any more, an array or a size may: it becomes as large (or as small) as the entries need it
to be, and a pointer array leaves the room that the entries between two of its elements need. Where that is no plan,
packing chooses what the relation leaves open (pack_free.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import product

from spfgen.errors import Unsupported
from spfgen.facts.formula import (
    Bin,
    Call,
    Compare,
    Expr,
    Formula,
    Num,
    Var,
    calls,
    show,
    substitute,
    variables,
)
from spfgen.facts.prove import Facts, implied
from spfgen.layout.alternatives import apart, in_turn, informed_piece, taken_once
from spfgen.layout.nodes import Layout
from spfgen.layout.pack_fill import room_needs
from spfgen.layout.pack_free import (
    begins,
    chunk,
    counted_later,
    digits,
    domain,
    extreme,
    lowest,
    rounds_of,
    start,
    with_arguments,
)
from spfgen.layout.pack_progress import Progress, bounds_of, only_call, size_names, speaking
from spfgen.layout.pack_rules import Computed, PackPlan, Rank, Ranked, Rule, Rules, Widened, functions_of, shift
from spfgen.layout.points import Encoded, argument_names, encode, involved
from spfgen.layout.refusals import with_remedy
from spfgen.sets.affine import Affine, NotAffine, expression
from spfgen.sets.bounds import bounds, single_value
from spfgen.sets.named import Constraint, Piece
from spfgen.sets.uf import linear


@lru_cache(maxsize=256)
def pack_plan(layout: Layout) -> PackPlan:
    """Raises Unsupported naming the position or array that cannot be derived."""
    try:
        return _pack_plan(layout)
    except Unsupported as error:
        error.__traceback__ = None
        wide, arguments = with_arguments(layout)
        for free in (False, True):
            for one, positions in ((layout, {}), (wide, arguments)):
                if free or positions:
                    with suppress(Unsupported):
                        return replace(_pack_plan(one, positions, free), otherwise=error)
        raise with_remedy(error, layout) from None


@lru_cache(maxsize=256)
def chunk_plan(layout: Layout) -> PackPlan | None:
    """A plan that numbers entries in chunks where the relation lets it, for those that `pack_plan` has no place for."""
    with suppress(Unsupported):
        plan = _pack_plan(layout, free=True, chunks=True)
        return plan if any(r.kind == "chunk" for r in plan.ranks) else None
    return None


def _pack_plan(
    layout: Layout, arguments: Mapping[str, Expr] | None = None, free: bool = False, chunks: bool = False
) -> PackPlan:
    """`free`: what the relation leaves open is chosen; `chunks`: before anything is ranked by its keys."""
    encoded, informed = _informed(layout, free)
    given = {*layout.parameters, *layout.coordinates}
    progress = Progress(encoded, informed, set(given), set(encoded.sizes), arguments or {})
    progress.learn()
    steps: list[Rules] = []
    waiting = list(layout.positions)
    while True:
        steps += _writes(progress)
        if not waiting:
            break
        position, rules = _next(layout, progress, waiting, free, chunks)
        steps.append(rules)
        if position is not None:
            waiting.remove(position)
            _after(progress, position, rules)
    while (needed := _array_left(progress, free)) is not None:
        steps += [needed, *_writes(progress)]
    steps += _of_places(progress)
    steps += _of_facts(progress)
    _check_built(progress)
    never = (Constraint(False, Affine((), -1)),)
    taken = taken_once(encoded, informed)
    belongs = tuple(never if p.is_empty() else tuple(p.project(given).constraints()) for p in taken)
    injective = _is_injective(layout, encoded, steps, set(arguments or ()))
    steps = _whole_runs(progress, steps)
    plan = PackPlan(encoded, belongs, progress.with_solved(steps), _sentinels(progress), injective)
    _check_made_once(plan)
    _check_padding(plan)
    return plan


def _informed(layout: Layout, free: bool) -> tuple[Encoded, tuple[Piece, ...]]:
    """The relation in pieces that have points, and each with what is declared of them."""
    encoded = in_turn(encode(layout))
    encoded = apart(encoded) if free else encoded
    if not encoded.pieces:
        raise Unsupported(f"layout `{layout.name}` stores nothing: its relation has no points", layout.span)
    both = [(p, informed_piece(encoded, p)) for p in encoded.pieces]
    both = [(p, known) for p, known in both if not known.is_empty()] or both
    return replace(encoded, pieces=tuple(p for p, _ in both)), tuple(known for _, known in both)


def _next(
    layout: Layout, progress: Progress, waiting: Sequence[str], free: bool, chunks: bool
) -> tuple[str | None, Rules]:
    """A position that waits and what makes it, or None and what has to be made before any of them."""
    chosen = chunk(progress, waiting, True) if chunks and not _follows(progress, waiting) else None
    if chosen is not None:
        return chosen
    reason = ""
    for whole, position in product((True, False) if progress.arguments else (False,), waiting):
        progress.whole = whole
        rules = _step(progress, position)
        if isinstance(rules, tuple):
            return position, rules
        reason = reason or rules
    needed = (digits(progress) or start(progress, waiting)) if free else None
    if free and needed is None:
        chosen = chunk(progress, waiting, True) or counted_later(progress, waiting)
    if needed is None and chosen is None:
        needed = (_needed_array(progress, room=False) or extreme(progress)) if free else None
        needed = needed or _needed_array(progress) or _needed_size(progress)
    if free and needed is None and chosen is None:
        chosen = chunk(progress, waiting, False) or lowest(progress, waiting)
    if needed is not None:
        return None, needed
    if chosen is None:
        raise Unsupported(f"layout `{layout.name}` cannot be packed: {reason}", layout.span)
    return chosen


def _check_made_once(plan: PackPlan) -> None:
    """An array belongs to one position."""
    rank_of: dict[str, Rank] = {}
    for rank in plan.ranks:
        for function in functions_of(plan.encoded, rank):
            if rank_of.setdefault(function, rank) != rank:
                raise Unsupported(
                    f"layout `{plan.encoded.layout.name}` cannot be packed: the array `{function}` belongs to several "
                    "positions",
                    plan.encoded.layout.index(function).span or plan.encoded.layout.span,
                )


def _whole_runs(progress: Progress, steps: list[Rules]) -> list[Rules]:
    """With a hint where all in a run shares its values: the run ends where the content of what it is over does."""
    layout = progress.encoded.layout
    if len(progress.encoded.pieces) > 1:
        return steps
    result: list[Rules] = []
    for k, (rule,) in enumerate(steps):
        if (
            isinstance(rule, Ranked)
            and rule.rank.run
            and not (rule.rank.same or rule.rank.hint or len(rule.values) > 1)
        ):
            along = _along(progress, rule.rank.run, steps[k + 1 :])
            over = tuple(Var(c) for c in layout.coordinates if c in along)
            if over and not any(along & variables(p) for v in layout.values for p in v.position):
                rule = replace(rule, rank=replace(rule.rank, hint=(Call("content", over),)))
        result.append((rule,))
    return result


def _along(progress: Progress, name: str, later: Iterable[Rules]) -> set[str]:
    """What changes along the run over a name: coordinates and positions that are functions of it, and positions that
    are numbered later for each of its values."""
    encoded = progress.encoded
    layout = encoded.layout
    fixed = {*encoded.sizes, name}
    moving = {name}
    for other in (*layout.positions, *layout.coordinates):
        value = single_value(encoded.pieces[0].project({*fixed, other}).constraints(other), other)
        if value is not None and name in value[0].names():
            moving.add(other)
    for (rule,) in later:
        match rule:
            case Computed(position, numerator, _) if numerator.names() & moving:
                moving.add(position)
            case Ranked(rank, values) if rank.position:
                calls = [encoded.calls[n] for n in (rank.begin, *rank.keys) if n in encoded.calls]
                groups = {n for g in (*(rank.groups or ()), *(rank.within or ())) for n in g.names()}
                groups |= {n for c in calls for n in argument_names(c)}
                groups |= {n for value, _ in values for n in value.names()}
                if (groups & moving) - {rank.position} or any(
                    n in encoded.calls and argument_names(encoded.calls[n]) & moving for n in groups
                ):
                    moving.add(rank.position)
    return moving


def _check_padding(plan: PackPlan) -> None:
    """What pads needs a mark for unused places."""
    layout = plan.encoded.layout
    for rank in plan.ranks:
        for key in rank.keys if rank.kind == "padded" else ():
            function = plan.encoded.calls[key].function
            if function not in plan.sentinels:
                raise Unsupported(
                    f"layout `{layout.name}` cannot be packed: groups of `{rank.position}` differ in size, "
                    f"and no value of `{function}` marks a place that is not used",
                    layout.index(function).span or layout.span,
                    ("give it a range with a value that the relation leaves out: -1 <= f(p) < n, and 0 <= f(p)",),
                )


def _array_left(progress: Progress, free: bool) -> Rules | None:
    """An array that is made when all positions are known."""
    if not free:
        return _needed_array(progress)
    waits = {n for a in progress.encoded.layout.indexes for n in room_needs(progress.encoded.layout, a.name)}
    first = _needed_array(progress) if waits - progress.built else None
    return first or begins(progress) or _needed_array(progress) or digits(progress) or start(progress, ())


def _follows(progress: Progress, waiting: Iterable[str]) -> bool:
    """Whether the relation makes one of the positions a function of what is known."""
    every = range(len(progress.encoded.pieces))
    return any(all(progress.value(k, p) is not None for k in every) for p in waiting)


def _after(progress: Progress, position: str, rules: Rules) -> None:
    progress.known.add(position)
    progress.placed.add(position)
    layout, calls = progress.encoded.layout, progress.encoded.calls
    for rule in rules:
        if isinstance(rule, Ranked):
            rank = rule.rank
            keys = () if rank.later or rank.run else rank.keys
            functions = [calls[n].function for n in (*keys, rank.begin, rank.other) if n]
            progress.built.update(functions)
            solvable: list[Expr] = [e for f in functions for e in layout.index(f).extents]
            progress.known |= {s for _, h in rank.highs for s in h.names() & set(layout.sizes)}
            progress.known |= {n for e in solvable for n in variables(e) & set(layout.sizes)}
            progress.known |= {rounds_of(position)} if rank.kind == "chunk" else set()
    progress.learn()


def _writes(progress: Progress) -> list[Rules]:
    """Arrays whose places and values are known."""
    encoded = progress.encoded
    steps: list[Rules] = []
    for name, call in encoded.calls.items():
        if call.function in progress.built or not argument_names(call) <= progress.known | set(encoded.layout.sizes):
            continue
        mine = speaking(encoded, name)
        values = [progress.value(k, name) if k in mine else None for k in range(len(encoded.pieces))]
        if mine and all(values[k] is not None for k in mine):
            rank = Rank("", (name,), "write")
            steps.append(tuple(None if v is None else Ranked(rank, (v,)) for v in values))
            progress.built.add(call.function)
            progress.learn()
    return steps


def _step(progress: Progress, position: str) -> Rules | str:
    """A rule for the position in each piece, or the reason why there is none."""
    rules: list[Rule | None] = []
    for piece in range(len(progress.encoded.pieces)):
        rule = _rule(progress, piece, position)
        if isinstance(rule, str):
            return rule
        rules.append(rule)
    return tuple(rules)


def _rule(progress: Progress, piece: int, position: str) -> Rule | str:
    single = progress.value(piece, position)
    if single is not None:
        return Computed(position, *single)
    keys, reason = _keys(progress, piece, position)
    hint = progress.encoded.layout.hint(position)
    more = hint.keys if hint is not None else ()
    extra = progress.extra.get(position, ())
    if not keys and not extra:
        ranked = later(progress, piece, position) or run(progress, piece, position)
        return reason if ranked is None else replace(ranked, rank=replace(ranked.rank, hint=more))
    along = None if extra else run(progress, piece, position)
    if along is not None and along.rank.same and all(d == 1 for _, (_, d) in keys):
        # One value for a run: where it changes, a run ends, and there are several with these keys.
        apart = tuple(e for _, (e, _) in keys)
        return replace(along, rank=replace(along.rank, hint=more, within=apart))
    rank = _counted(progress, piece, position, tuple(n for n, _ in keys))
    if isinstance(rank, Rank):
        _check_purposes(progress.encoded, rank)
        rank = replace(rank, least=_least(progress, piece, rank), extra=extra)
    return rank if isinstance(rank, str) else Ranked(replace(rank, hint=more), tuple(v for _, v in keys))


def _check_purposes(encoded: Encoded, rank: Rank) -> None:
    """An index array is made at once. Raises Unsupported."""
    both = {encoded.calls[n].function for n in (rank.begin, rank.other) if n}
    both &= {encoded.calls[n].function for n in rank.keys}
    if both:
        layout, name = encoded.layout, min(both)
        raise Unsupported(
            f"layout `{layout.name}` cannot be packed: `{name}` holds both the bounds of the position "
            f"`{rank.position}` and what is found at it, and packing makes an array for one of these only",
            layout.index(name).span or layout.span,
            (f"declare two arrays, say `{name}ptr` and `{name}idx`, one for the bounds and one for the rest",),
        )


def _least(progress: Progress, piece: int, rank: Rank) -> tuple[Affine, ...]:
    """Extents of the tensor that positions in segments are not below."""
    if rank.kind not in ("pointer", "ends", "counts"):
        return ()
    about = progress.informed[piece].project({*progress.encoded.layout.parameters, rank.position})
    lower, _ = bounds(about.constraints(rank.position), rank.position)
    return tuple(e.scaled(-1) for a, e in lower if a == 1 and e.names())


def _keys(progress: Progress, piece: int, position: str) -> tuple[list[tuple[str, tuple[Affine, int]]], str]:
    """The calls at the position whose value is known, and in words why there is none."""
    encoded = progress.encoded
    matter = set(involved(encoded, encoded.pieces[piece])) - progress.counted
    known_keys: list[tuple[str, tuple[Affine, int]]] = []
    missing: list[str] = []
    reason = (
        f"nothing says which `{position}` an entry has: it does not follow from the coordinates, "
        f"and no index array with the subscript `{position}` does"
    )
    for name, call in encoded.calls.items():
        if name not in matter or call.function in progress.built or position not in argument_names(call):
            continue
        if all(shift(a, position) is None for a in call.arguments) and not _say(encoded, call, position):
            continue
        needed = {n for n in argument_names(call) if not _is_of(encoded, Var(n), position)}
        if not needed <= progress.known | progress.placed | {position}:
            continue
        value = progress.value(piece, name)
        if value is None:
            missing.append(name)
            reason = (
                f"nothing says which `{position}` an entry has: neither it nor `{show(call)}` follows from the "
                "coordinates"
            )
        else:
            known_keys.append((name, value))
    known_keys += _beside(progress, piece, known_keys, missing)
    if progress.whole and {*missing} - {n for n, _ in known_keys}:
        return [], reason
    at = [
        f
        for f in known_keys
        if Var(position) in encoded.calls[f[0]].arguments or _say(encoded, encoded.calls[f[0]], position)
    ]
    return at or known_keys, reason


def _say(encoded: Encoded, call: Call, position: str) -> bool:
    """Whether the arguments of a call are made of the position alone, and no two positions have the same: quotients and
    remainders."""
    quotients = {n: Bin("/", expression(e), Num(d)) for n, (e, d) in encoded.quotients.items()}
    arguments: list[Expr] = [substitute(substitute(a, quotients), quotients) for a in call.arguments]
    if len(arguments) < 2 or any(variables(a) - {position} or any(calls(a)) for a in arguments):
        return False
    other = Var(position + "'")
    same: list[Formula] = [Compare("=", a, substitute(a, {position: other})) for a in arguments]
    inside: list[Formula] = [Compare("<=", Num(0), v) for v in (Var(position), other)]
    return implied([*inside, *same], Facts((), {}), Compare("=", Var(position), other)).proved


def _beside(
    progress: Progress, piece: int, keys: Sequence[tuple[str, tuple[Affine, int]]], names: Sequence[str]
) -> list[tuple[str, tuple[Affine, int]]]:
    """Those of the names whose values follow from the keys, with them: what is left of a coordinate in a block."""
    values: dict[str, tuple[Affine, int]] = {}
    before = -1
    while keys and before != len(values):
        before = len(values)
        for name in names:
            rule = None if name in values else progress.value_beside(piece, name, {**dict(keys), **values})
            if rule is not None:
                values[name] = Affine(((rule.name, 1),)), 1
    return list(values.items())


def _counted(progress: Progress, piece: int, position: str, keys: tuple[str, ...]) -> Rank | str:
    """Within what bounds the position is counted."""
    encoded = progress.encoded
    ready = [n for n, c in encoded.calls.items() if argument_names(c) <= progress.placed]
    kept = {*encoded.sizes, *progress.placed, *ready, position}
    lower, upper = bounds(encoded.pieces[piece].project(kept).constraints(position), position)
    lows = [e.scaled(-1) for a, e in lower if a == 1]
    highs = [e.plus(1) for a, e in upper if a == 1]
    for low, high in product(lows, highs):
        rank = _between_calls(progress, position, keys, low, high)
        if rank is not None:
            return rank
    first = [-(e.constant // a) for a, e in lower if not e.terms]
    ends = tuple((a, e) for a, e in upper if e.names() <= size_names(encoded))
    if not ends and (end := domain(progress, piece, position, keys)) is not None:
        first, ends = [0, *first], (end,)
    ended = _is_counted_by_call(progress, highs)
    if not first or not (ends or ended):
        return f"the position `{position}` has no bounds of the kind [0, n) or [f(e), f(e + 1))"
    others = {tuple(a for a in encoded.calls[k].arguments if not _is_of(encoded, a, position)) for k in keys}
    if len(others) > 1:
        texts = " and ".join(f"`{k}`" for k in keys)
        return f"the position `{position}` is tied to keys with different arguments, {texts}"
    has_own_place = any(all(shift(a, position) is None for a in encoded.calls[k].arguments) for k in keys)
    return Rank(
        position,
        keys,
        "slots",
        low=max(first),
        highs=ends,
        groups=() if has_own_place or not keys else None,
        ended=ended,
    )


def _is_of(encoded: Encoded, argument: Expr, position: str) -> bool:
    """Whether an argument is the position plus a number, or made of it alone."""
    return shift(argument, position) is not None or _names_within(encoded, argument) == {position}


def _names_within(encoded: Encoded, argument: Expr) -> set[str]:
    """The names of an argument, for quotients those of what they divide."""
    names = set[str]()
    waiting = [*variables(argument)]
    while waiting:
        name = waiting.pop()
        if name in encoded.quotients:
            waiting += encoded.quotients[name][0].names()
        else:
            names.add(name)
    return names


def _is_counted_by_call(progress: Progress, highs: Iterable[Affine]) -> bool:
    """Whether an array that is not made yet says how many positions there are: it is made as large as they need."""
    names = [only_call(high, progress.encoded.calls) for high in highs]
    every = [progress.encoded.calls[n] for n in names if n is not None]
    return any(c.function not in progress.built and argument_names(c) <= progress.known for c in every)


def later(progress: Progress, piece: int, position: str) -> Ranked | None:
    """A rank of keys whose places need an array that follows from the rank: colidx(ptr(d) + q) = j."""
    encoded = progress.encoded
    limits = bounds_of(progress, piece, position)
    if limits is None:
        return None
    for name, call in encoded.calls.items():
        within = [
            n for n in argument_names(call) if n in encoded.calls and position in argument_names(encoded.calls[n])
        ]
        known = argument_names(call) - set(within)
        if not within or call.function in progress.built or not known <= progress.known:
            continue
        value = progress.value(piece, name)
        if value is not None:
            groups = tuple(Affine(((n, 1),)) for n in sorted(known - encoded.sizes))
            low, highs = limits
            return Ranked(Rank(position, (name,), "slots", low=low, highs=highs, groups=groups, later=True), (value,))
    return None


def run(progress: Progress, piece: int, position: str) -> Ranked | None:
    """A rank of runs: something known lies between calls at the position."""
    between = _between(progress, piece, position)
    for name, (below, above) in between.items():
        # a block on the diagonal holds rows and columns between the same two calls
        shared = (n for n, (low, high) in between.items() if set(below) & set(low) and set(above) & set(high))
        within = list(dict.fromkeys((name, *shared)))
        values = tuple((Affine(((n, 1),)), 1) for n in within)
        same = len(within) == 1 and not _moves(progress, piece, position, name)
        pointer = _pointer_over(progress.encoded, position, below, above)
        if pointer:
            limits = bounds_of(progress, piece, position)
            if limits is not None:
                return Ranked(Rank(position, (), "covered", pointer, run=name, same=same, highs=limits[1]), values)
        counted = _counted(progress, piece, position, ())
        if not isinstance(counted, str) and not _is_fixed(progress, piece, name, counted):
            groups = () if counted.kind == "slots" else None
            return Ranked(replace(counted, run=name, same=same, groups=groups), values)
    return None


def _is_fixed(progress: Progress, piece: int, name: str, rank: Rank) -> bool:
    """Whether all in one segment have the same value of that name: nothing runs over it."""
    encoded = progress.encoded
    fixed = encoded.sizes | (argument_names(encoded.calls[rank.begin]) if rank.begin else set())
    value = single_value(encoded.pieces[piece].project(fixed | {name}).constraints(name), name)
    return name in fixed or (value is not None and value[0].names() <= fixed)


def _between(progress: Progress, piece: int, position: str) -> dict[str, tuple[list[Affine], list[Affine]]]:
    """What is known and lies between calls at the position, with those: low <= name <= high."""
    encoded = progress.encoded
    layout = encoded.layout
    at = [n for n, c in encoded.calls.items() if position in argument_names(c) and c.function not in progress.built]
    between: dict[str, tuple[list[Affine], list[Affine]]] = {}
    for name in (*layout.positions, *layout.coordinates):
        if name not in progress.known or name == position:
            continue
        kept = {*encoded.sizes, *progress.placed, *progress.known, *at, name}
        about = [c for c in encoded.pieces[piece].project(kept).constraints(name) if not c.equality]
        lower, upper = bounds(about, name)
        below = [e.scaled(-1) for a, e in lower if a == 1 and e.names() & set(at)]
        above = [e for a, e in upper if a == 1 and e.names() & set(at)]
        if below and above:
            between[name] = below, above
    return between


def _pointer_over(encoded: Encoded, position: str, below: list[Affine], above: list[Affine]) -> str:
    """The call f(position), when one array says with f(position) and f(position + 1) where a run begins and ends."""
    for low, high in product(below, above):
        first, second = only_call(low, encoded.calls), only_call(high.plus(1), encoded.calls)
        if first is None or second is None:
            continue
        one, two = encoded.calls[first], encoded.calls[second]
        next_one = (one.function, (Affine(((position, 1),), 1),))
        if one.arguments == (Var(position),) and (two.function, tuple(map(linear, two.arguments))) == next_one:
            return first
    return ""


def _moves(progress: Progress, piece: int, position: str, name: str) -> bool:
    """Whether the place of the value depends on what is run over."""
    encoded = progress.encoded
    at = {n for n, c in encoded.calls.items() if argument_names(c) <= progress.placed | {position}}
    fixed = {*encoded.sizes, *progress.placed, *at, position}
    tied = {name}
    for other in (*encoded.layout.positions, *encoded.layout.coordinates):
        value = single_value(encoded.pieces[piece].project({*fixed, other, name}).constraints(other), other)
        if value is not None and name in value[0].names():
            tied.add(other)
    # What is found later may change along what is run over.
    tied |= {p for p in encoded.layout.positions if p not in progress.placed | {position}}
    return any(tied & variables(p) for v in encoded.layout.values for p in v.position)


def _needed_array(progress: Progress, room: bool = True) -> Rules | None:
    """An array at known places that is as large, or as small, as the entries need; or a pointer array with `room`.

    Room comes last: how much there must be may be counted from an array that is found first.
    """
    encoded = progress.encoded
    every = range(len(encoded.pieces))
    open_calls = [(n, _following(encoded, n)) for n, c in encoded.calls.items()
                  if c.function not in progress.built and argument_names(c) <= progress.known]  # fmt: skip
    for name, following in sorted(open_calls, key=lambda c: bool(c[1])):
        if following and not room:
            continue
        mine = speaking(encoded, name)
        rules = [(_room(progress, k, name, following) if following else _extreme(progress, k, name))
                 if k in mine else None for k in every]  # fmt: skip
        if mine and all(rules[k] is not None for k in mine):
            call = encoded.calls[name]
            progress.built.add(call.function)
            progress.known |= {n for e in encoded.layout.index(call.function).extents for n in variables(e)
                               & set(encoded.layout.sizes)}  # fmt: skip
            progress.learn()
            return tuple(rules)
    return None


def _needed_size(progress: Progress) -> Rules | None:
    """A size of which positions are made, and which nothing gives: as large as the entries need it to be."""
    layout = progress.encoded.layout
    of_entries = {*layout.coordinates, *layout.positions}
    waiting = [s for s in layout.sizes if s not in progress.known]
    for size in waiting:
        rules = []
        for piece in progress.informed:
            lower, _ = bounds(piece.project(progress.known.union(waiting)).constraints(size), size)
            rules.append(Widened(size, tuple((e.scaled(-1).plus(a - 1), a) for a, e in lower)))
        names = {n for rule in rules for e, _ in rule.least for n in e.names()}
        if names & of_entries and names <= progress.known:
            progress.known.add(size)
            progress.learn()
            return tuple(rules)
    return None


def _of_places(progress: Progress) -> list[Rules]:
    """Arrays of which only the places of values speak: val[f(q) + ...]. Of
    several in one place, val[f(q) + g(q, k)], the one with most arguments counts within the others."""
    layout = progress.encoded.layout
    related = {c.function for c in progress.encoded.calls.values()}
    steps: list[Rules] = []
    every = [p for v in layout.values for p in v.position]
    for place in [p for v in layout.values for p in v.position if len(v.position) == 1 or isinstance(p, Call)]:
        alone = [c for c in dict.fromkeys(calls(place)) if [p for p in every if c in calls(p)] == [place]]
        alone = [c for c in alone if c.function not in progress.built | related]
        placed = [c for c in alone if variables(c) <= progress.known]
        for call in sorted(placed, key=lambda c: -len(variables(c))):
            others = [c for c in placed if c is not call and c.function not in progress.built]
            within = tuple(linear(a) for c in others for a in c.arguments) if others else None
            progress.built.add(call.function)
            groups = tuple(map(linear, call.arguments))
            rank = Rank("", (), "places", groups=groups, within=within, array=call.function)
            steps.append(tuple(Ranked(rank, ()) for _ in progress.encoded.pieces))
    return steps


def _of_facts(progress: Progress) -> list[Rules]:
    """Arrays of which only facts speak: the lengths of segments beside their ends."""
    layout = progress.encoded.layout
    spoken = {c.function for c in progress.encoded.calls.values()}
    spoken |= {c.function for v in layout.values for p in v.position for c in calls(p)}
    spoken |= {c.function for v in layout.values for c in calls(v.when)}
    steps: list[Rules] = []
    for index in layout.indexes:
        if index.name not in spoken | progress.built:
            progress.built.add(index.name)
            rule = Ranked(Rank("", (), "given", array=index.name), ())
            steps.append(tuple(rule for _ in progress.encoded.pieces))
    return steps


def _following(encoded: Encoded, name: str) -> str:
    """The call f(e + 1) for f(e); empty when it does not occur."""
    call = encoded.calls[name]
    for other, candidate in encoded.calls.items():
        if candidate.function == call.function and other != name:
            steps = [linear(b) - linear(a) for a, b in zip(call.arguments, candidate.arguments, strict=True)]
            if not any(s.terms for s in steps) and [s.constant for s in steps] == [0] * (len(steps) - 1) + [1]:
                return other
    return ""


def _room(progress: Progress, piece: int, name: str, following: str) -> Ranked | None:
    """f(e + 1) - f(e) is at least what the entries need."""
    kept = progress.known | {name, following}
    needs: list[tuple[Affine, int]] = []
    for constraint in progress.encoded.pieces[piece].project(kept).constraints(following):
        value = constraint.value
        if constraint.equality or value.coefficient(following) != 1 or value.coefficient(name) != -1:
            continue
        need = value.without(following).without(name).scaled(-1)
        if need.names() <= progress.known:
            needs.append((need, 1))
    return Ranked(Rank("", (name,), "room", name, following), tuple(needs)) if needs else None


def _extreme(progress: Progress, piece: int, name: str) -> Ranked | None:
    """The array is the largest or the smallest of what the entries say."""
    about = progress.encoded.pieces[piece].project(progress.known | {name}).constraints(name)
    lower, upper = bounds(about, name)
    of_entries = {*progress.encoded.layout.coordinates, *progress.encoded.layout.positions}
    for kind, limits, sign in (("most", lower, -1), ("least", upper, 1)):
        values = tuple((e.scaled(sign), 1) for a, e in limits if a == 1 and e.names() & of_entries)
        if values:
            return Ranked(Rank("", (name,), kind), values)
    return None


def _between_calls(progress: Progress, position: str, keys: tuple[str, ...], low: Affine, high: Affine) -> Rank | None:
    """A rank between two calls of arrays that are not made yet."""
    calls = progress.encoded.calls
    base, past = -low.constant, -high.constant
    begin = only_call(low.plus(base), calls)
    count = only_call(high - low, calls)
    end = only_call(high.plus(past), calls)
    if begin is None or calls[begin].function in progress.built:
        return None
    other, kind = (count, "counts") if count is not None else (end, "ends")
    if other is None or calls[other].function in progress.built:
        return None
    first, second = calls[begin], calls[other]
    shifts = [shift(a, position) for k in keys for a in calls[k].arguments]
    bottom = max([0, *(-s for s in shifts if s is not None)])
    if first.function == second.function:
        steps = [linear(b) - linear(a) for a, b in zip(first.arguments, second.arguments, strict=True)]
        one = [Affine(())] * (len(steps) - 1) + [Affine((), 1)]
        if kind != "ends" or steps != one or base != past:
            return None
        fixed = argument_names(first) | progress.encoded.sizes
        others = {
            n for k in keys for n in argument_names(calls[k]) if not _is_of(progress.encoded, Var(n), position)
        } - fixed
        return Rank(position, keys, "padded" if others else "pointer", begin, "", bottom, base)
    if first.arguments != second.arguments:
        return None
    return Rank(position, keys, kind, begin, other, bottom, base, past if kind == "ends" else 0)


def _check_built(progress: Progress) -> None:
    layout = progress.encoded.layout
    for index in layout.indexes:
        if index.name not in progress.built:
            every = progress.encoded.calls
            nested = [every[n] for call in every.values() for n in argument_names(call) if n in every]
            inner = next((show(c) for c in nested if c.function == index.name), "")
            raise Unsupported(
                f"layout `{layout.name}` cannot be packed: the array `{index.name}` is neither the key nor the "
                "bounds of a position",
                index.span or layout.span,
                (f"make `{inner}` a position of its own: `q = {inner}`, and `q` in its place",) if inner else (),
            )


def _sentinels(progress: Progress) -> dict[str, Affine]:
    """For arrays that have it, an end of the declared range for which the relation has no points."""
    encoded = progress.encoded
    sentinels: dict[str, Affine] = {}
    for name, call in encoded.calls.items():
        about = [encoded.pieces[k] for k in speaking(encoded, name)] or encoded.pieces
        about = [p.with_constraints(_inside(encoded, p, name)) for p in about]
        for end in _range_ends(encoded, name):
            value = Constraint(True, Affine(((name, 1),)) - end)
            if call.function not in sentinels and all(p.with_constraints([value]).is_empty() for p in about):
                sentinels[call.function] = end
    return sentinels


def _inside(encoded: Encoded, piece: Piece, name: str) -> list[Constraint]:
    """The calls at a call that the piece speaks of read within their arrays."""
    constraints: list[Constraint] = []
    for other in involved(encoded, piece):
        if other not in encoded.calls or name not in argument_names(encoded.calls[other]):
            continue
        call = encoded.calls[other]
        for argument, extent in zip(call.arguments, encoded.layout.index(call.function).extents, strict=True):
            with suppress(NotAffine):
                constraints.append(Constraint(False, linear(argument)))
                constraints.append(Constraint(False, linear(extent) - linear(argument).plus(1)))
    return constraints


def _range_ends(encoded: Encoded, name: str) -> Iterator[Affine]:
    """The declared bounds of a call in terms of sizes, the lower ones first."""
    lower, upper = bounds(encoded.facts.constraints(name), name)
    yield from (e.scaled(-1) for a, e in lower if a == 1 and e.names() <= encoded.sizes)
    yield from (e for a, e in upper if a == 1 and e.names() <= encoded.sizes)


def _is_injective(layout: Layout, encoded: Encoded, steps: list[Rules], aside: set[str]) -> bool:
    """Whether it is plain that no two points share a value: the place of the value gives all positions."""
    if len(encoded.pieces) > 1 or len(layout.values) > 1:
        return False
    given = {n for v in layout.values for p in v.position for n in variables(p) if shift(p, n) is not None}
    for (rule,) in reversed(steps):
        if isinstance(rule, Ranked) and rule.rank.position in given and rule.rank.begin:
            arguments = encoded.calls[rule.rank.begin].arguments
            given |= {a.name for a in arguments if isinstance(a, Var)}
    return given >= set(layout.positions) - aside and _coordinates_determined(layout, encoded)


def _coordinates_determined(layout: Layout, encoded: Encoded) -> bool:
    """Whether the positions, with the calls at them, give the coordinates."""
    known = {*encoded.sizes, *layout.positions, *encoded.calls}
    piece = encoded.pieces[0]
    return all(single_value(piece.project(known | {c}).constraints(c), c) is not None for c in layout.coordinates)
