"""Positions that a relation leaves open: packing may choose any that give each entry a place of its own.

    a start     a position is f(e) plus what is known, and nothing else speaks of f(e): the elements of f leave room for
                what counts from them, in the order of e;
    a digit     only digits of f(e) are known, such as bits of a word: each is written by the entries that say it;
    a chunk     an array at several open positions has a known value: one of these counts the entries up to its end and
                then begins again, and how often it did so is a key of the others.

An argument that is no single position, as in f(4*g + c) and f(h(p)), is made one first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

from spfgen.facts.formula import Bin, Call, Compare, Expr, Formula, Num, Or, Var, calls, conjunction, show, variables
from spfgen.facts.prove import implied
from spfgen.ir import fresh, rewrite
from spfgen.layout.alternatives import alternatives
from spfgen.layout.nodes import Layout
from spfgen.layout.pack_progress import Progress, quotients_of, size_names, speaking
from spfgen.layout.pack_rules import UNSAID, Computed, Rank, Ranked, Rules
from spfgen.layout.points import argument_names
from spfgen.layout.proofs import facts_of
from spfgen.sets.affine import Affine, NotAffine, affine
from spfgen.sets.bounds import bounds, single_value
from spfgen.sets.named import Constraint, Piece, Space
from spfgen.sets.uf import linear, shifted

# --- arguments --------------------------------------------------------------------------------------------


def with_arguments(layout: Layout) -> tuple[Layout, dict[str, Expr]]:
    """The layout with each argument that is more than a position plus a number as a position of its own, and what these
    stand for."""
    dimensions = {*layout.positions, *layout.coordinates}
    taken = {*dimensions, *layout.parameters, *layout.sizes, *layout.arrays}
    name_of: dict[Expr, str] = {}

    def rule(node: object) -> Expr | None:
        if not isinstance(node, Call):
            return None
        for a in node.arguments:
            base, _ = _base(a)
            names_within = variables(base) & {*dimensions, *name_of.values()}
            if base not in name_of and not shifted(base)[0] and (names_within or any(calls(base))):
                name_of[base] = fresh(f"at_{len(name_of) + 1}", taken)
                taken.add(name_of[base])
        return Call(node.function, tuple(_named(a, name_of) for a in node.arguments), node.span)

    parts = [rewrite(rule, part) for part in alternatives(layout.relation)]
    if not name_of:
        return layout, {}
    tied: list[Formula] = []
    for part in parts:
        named = variables(part)
        for argument, name in reversed(name_of.items()):
            named |= variables(argument) if name in named else set()
        ties = [Compare("=", Var(n), a if n in named else Num(0)) for a, n in name_of.items()]
        tied.append(conjunction([part, *ties]))
    names = tuple(name_of.values())
    relation = tied[0] if len(tied) == 1 else Or(tuple(tied))
    return replace(layout, positions=(*layout.positions, *names), relation=relation), {n: a for a, n in name_of.items()}


def _base(argument: Expr) -> tuple[Expr, int]:
    """(an argument without the number that is added to it, that number)."""
    match argument:
        case Bin("+", inner, Num(more)):
            base, number = _base(inner)
            return base, number + more
        case Bin("-", inner, Num(less)):
            base, number = _base(inner)
            return base, number - less
    return argument, 0


def _named(argument: Expr, name_of: Mapping[Expr, str]) -> Expr:
    base, number = _base(argument)
    if base not in name_of:
        return argument
    name = Var(name_of[base])
    return Bin("+" if number > 0 else "-", name, Num(abs(number))) if number else name


def domain(progress: Progress, piece: int, position: str, keys: Sequence[str]) -> tuple[int, Affine] | None:
    """The end of the keys' array as a bound of a position that nothing else bounds: of one that stands for an argument,
    and of one that the keys determine."""
    encoded = progress.encoded
    for name in keys:
        call = encoded.calls[name]
        (at, *more) = [k for k, a in enumerate(call.arguments) if a == Var(position)] or [-1]
        argument = progress.arguments.get(position)
        alone = argument is not None and (
            isinstance(argument, Call) or not any(calls(argument))
        )  # counts from no other array
        if at < 0 or more or not (alone or _determines(encoded.layout, call)):
            continue
        extent = encoded.layout.index(call.function).extents[at]
        with suppress(NotAffine):
            return 1, linear(extent).plus(-1)
    return None


def _determines(layout: Layout, call: Call) -> bool:
    """Whether an array of one dimension has each of its values at one place."""
    if len(call.arguments) != 1:
        return False
    (extent,) = layout.index(call.function).extents
    one, other = Var("p'"), Var("q'")
    inside = [Compare("<=", Num(0), v) for v in (one, other)] + [Compare("<", v, extent) for v in (one, other)]
    same = Compare("=", Call(call.function, (one,)), Call(call.function, (other,)))
    about = f"{layout.name}: `{call.function}` has each value once"
    return implied([*inside, same], facts_of(layout), Compare("=", one, other), about=about).proved


# --- starts -----------------------------------------------------------------------------------------------


def start(progress: Progress, waiting: Iterable[str]) -> Rules | None:
    """An array at known places from whose elements a position counts, or what is found at one, or values."""
    every = range(len(progress.encoded.pieces))
    open_calls = [*_open_calls(progress)]
    later = [n for n, c in progress.encoded.calls.items() if n not in progress.known | {n for n, _ in open_calls}]
    for name, call in open_calls:
        mine = speaking(progress.encoded, name)
        for counted in (*waiting, *later):
            rules = {k: _counts_from(progress, k, name, counted) for k in mine}
            if any(rules.values()):
                _made(progress, call.function)
                return tuple(rules.get(k) for k in every)
    for name, call in open_calls if not waiting else ():
        mine = speaking(progress.encoded, name)
        if mine and all(_places_apart(progress, k, call) for k in mine):
            rule = Ranked(Rank("", (name,), "start", run=f"values at {call.function}"), ((Affine(()), 1),))
            _made(progress, call.function)
            return tuple(rule if k in mine else None for k in every)
    return None


def _counts_from(progress: Progress, piece: int, name: str, counted: str) -> Ranked | None:
    encoded = progress.encoded
    about = progress.informed[piece].project(progress.known | {name, counted})
    value = single_value(about.constraints(counted), counted)
    if value is None or value[1] != 1 or value[0].coefficient(name) != 1:
        return None
    base = value[0].without(name)
    if not base.names() <= progress.known:
        return None
    lower, upper = bounds(progress.informed[piece].project({*encoded.sizes, counted}).constraints(counted), counted)
    low = max((-(e.constant // a) for a, e in lower if not e.terms), default=0)
    highs = tuple((a, e) for a, e in upper if e.names() <= size_names(encoded))
    run = f"values of {encoded.calls[counted].function}" if counted in encoded.calls else counted
    return Ranked(Rank("", (name,), "start", low=low, highs=highs, run=run), ((base, 1),))


def _places_apart(progress: Progress, piece: int, call: Call) -> bool:
    """Whether places of values that speak of a call are others where its value is another."""
    occurs = False
    for value in progress.encoded.layout.values:
        for place in value.position:
            if call.function not in {c.function for c in calls(place)}:
                continue
            try:
                whole = affine(place, show)
            except NotAffine:
                return False
            scale, others = whole.coefficient(show(call)), whole.without(show(call))
            inside = [Constraint(False, others), Constraint(False, others.scaled(-1).plus(scale - 1))]
            if scale < 1 or not others.names() <= set(progress.encoded.space.names):
                return False
            if not all(map(progress.informed[piece].implies, inside)):
                return False
            occurs = True
    return occurs


def _open_calls(progress: Progress) -> Iterator[tuple[str, Call]]:
    """Calls at known places of arrays that are not made."""
    for name, call in progress.encoded.calls.items():
        if call.function not in progress.built and argument_names(call) <= progress.known | progress.encoded.sizes:
            yield name, call


def _made(progress: Progress, function: str) -> None:
    layout = progress.encoded.layout
    progress.built.add(function)
    progress.known |= {n for e in layout.index(function).extents for n in variables(e) & set(layout.sizes)}
    progress.learn()


# --- digits -----------------------------------------------------------------------------------------------


def digits(progress: Progress) -> Rules | None:
    """An array at known places of which each alternative knows some digits."""
    encoded = progress.encoded
    for name, call in _open_calls(progress):
        quotients = quotients_of(encoded, name)
        places = sorted({d for _, d in quotients})
        mine = speaking(encoded, name)
        if len(places) < 2 or not mine or any(b % a for a, b in pairwise(places)):
            continue
        possible = _digits_of(progress, None, name, quotients, places)[1]
        known_digits = {k: _digits_of(progress, k, name, quotients, places) for k in mine}
        if not all(any(v != UNSAID for v in values) for values, _ in known_digits.values()):
            continue
        rests = tuple(_rest(k, [unlike for _, unlike in known_digits.values()], possible) for k in range(len(places)))
        rank = Rank("", (name,), "digits", places=tuple(places), rests=rests)
        _made(progress, call.function)
        return tuple(
            Ranked(rank, known_digits[k][0]) if k in known_digits else None for k in range(len(encoded.pieces))
        )
    return None


def _digits_of(
    progress: Progress, piece: int | None, name: str, quotients: Sequence[tuple[str, int]], places: Sequence[int]
) -> tuple[tuple[tuple[Affine, int], ...], list[set[int]]]:
    """(what each digit is, or UNSAID; which of the values 0 and 1 of each digit no point has) in a piece, or by what is
    declared of the array."""
    encoded = progress.encoded
    names = {p: f"{name} digit {p}" for p in places}
    about = encoded.facts if piece is None else progress.informed[piece]
    wide = about.reordered(Space((*encoded.space.names, *names.values())))
    for quotient, place in quotients:
        above = [(names[p], p // place) for p in places if p >= place]
        wide = wide.with_constraints([Constraint(True, Affine(((quotient, -1), *above)))])
    for place, following in pairwise(places):
        least, most = Affine(((names[place], 1),)), Affine(((names[place], -1),), following // place - 1)
        wide = wide.with_constraints([Constraint(False, least), Constraint(False, most)])
    values, unlike = [], []
    for digit in names.values():
        value = single_value(wide.project({*progress.known, digit}).constraints(digit), digit)
        values.append(UNSAID if value is None or not value[0].names() <= progress.known else value)
        other = [v for v in (0, 1) if wide.with_constraints([Constraint(True, Affine(((digit, 1),), -v))]).is_empty()]
        unlike.append(set(other))
    return tuple(values), unlike


def _rest(digit: int, unlike: Sequence[list[set[int]]], possible: list[set[int]]) -> int:
    """What the digit is where no entry says it: if there is one, a value with which nothing is stored."""
    values = [v for v in (0, 1) if v not in possible[digit]]
    marks = set.union(*(u[digit] for u in unlike))
    return next((v for v in values if v in marks), values[0] if values else 0)


# --- positions that anything may have -----------------------------------------------------------------------


def lowest(progress: Progress, waiting: Sequence[str]) -> tuple[str, Rules] | None:
    """A position with a lower bound that is known, which any entry may have: that bound."""
    for position in waiting:
        lows = [_lower(progress, p, position) for p in progress.encoded.pieces]
        rules = tuple(Computed(position, e, 1) for e in lows if e is not None)
        if len(rules) == len(lows):
            return position, rules
    return None


def extreme(progress: Progress) -> Rules | None:
    """An array at known places that is as large, or as small, as what is declared of others lets it be: the base from
    which small differences count."""
    every = range(len(progress.encoded.pieces))
    for name, call in _open_calls(progress):
        mine = speaking(progress.encoded, name)
        for kind in ("least", "most"):
            limits = {k: _limits(progress, k, name, kind) for k in mine}
            if mine and all(limits.values()):
                _made(progress, call.function)
                return tuple(Ranked(Rank("", (name,), kind), limits[k]) if k in limits else None for k in every)
    return None


def _limits(progress: Progress, piece: int, name: str, kind: str) -> tuple[tuple[Affine, int], ...]:
    about = progress.informed[piece].project(progress.known | {name})
    lower, upper = bounds(about.constraints(name), name)
    of_entries = {*progress.encoded.layout.coordinates, *progress.encoded.layout.positions}
    limits = [e for a, e in upper if a == 1] if kind == "least" else [e.scaled(-1) for a, e in lower if a == 1]
    return tuple((e, 1) for e in limits if e.names() & of_entries)


def _lower(progress: Progress, piece: Piece, position: str) -> Affine | None:
    lower, upper = bounds(piece.project(progress.known | {position}).constraints(position), position)
    lows = [e.scaled(-1) for a, e in lower if a == 1]
    numbers = [e for e in lows if not e.terms]
    if len(numbers) == len(lows) > 0:
        lows = [max(numbers, key=lambda e: e.constant)]
    if len(lows) != 1 or len(lower) > max(1, len(numbers)) or not upper:
        return None
    given = {*progress.encoded.sizes, *progress.encoded.layout.coordinates}
    only = piece.with_constraints([Constraint(True, Affine(((position, 1),)) - lows[0])])
    return lows[0] if piece.project(given).is_subset(only.project(given)) else None


# --- places that count from arrays ----------------------------------------------------------------------


def counted_later(progress: Progress, waiting: Sequence[str]) -> tuple[str, Rules] | None:
    """A position that counts the values of an array which lie behind one another from an element of an array that is
    not made yet: columns(start(s) + C*k + l) = j counts k for each s and l."""
    every = range(len(progress.encoded.pieces))
    for position in waiting:
        rules = [_counts_behind(progress, k, position) for k in every]
        if all(rules):
            return position, tuple(rules)
    return None


def _counts_behind(progress: Progress, piece: int, position: str) -> Ranked | None:
    encoded = progress.encoded
    lower, _ = bounds(progress.informed[piece].project({*encoded.sizes, position}).constraints(position), position)
    first = [-(e.constant // a) for a, e in lower if not e.terms]
    for name, call in encoded.calls.items():
        value = progress.value(piece, name)
        if call.function in progress.built or len(call.arguments) != 1 or value is None or not first:
            continue
        argument = linear(call.arguments[0])
        begins = {n for n, _ in _open_calls(progress)} & argument.names()
        others = argument.names() - begins - {position} - encoded.sizes
        if not begins or argument.coefficient(position) < 1 or not others <= progress.known:
            continue
        of_begins = {n for b in begins for n in argument_names(encoded.calls[b])} - encoded.sizes
        groups = tuple(Affine(((n, 1),)) for n in sorted(others | of_begins))
        return Ranked(Rank(position, (name,), "slots", low=max(first), groups=groups, later=True), (value,))
    return None


def begins(progress: Progress) -> Rules | None:
    """An array at known places from whose elements places in another array count: there is room for all that may."""
    encoded = progress.encoded
    every = range(len(encoded.pieces))
    for name, call in _open_calls(progress):
        for other in encoded.calls.values():
            mine = speaking(encoded, name)
            if other.function == call.function or len(other.arguments) != 1:
                continue
            argument = linear(other.arguments[0])
            offset = argument.without(name)
            if argument.coefficient(name) != 1 or not offset.names() <= progress.known:
                continue
            rooms = {k: _most_of(progress, k, offset, argument_names(call)) for k in mine}
            if mine and all(rooms.values()):
                _made(progress, call.function)
                rank = Rank("", (name,), "start", run=other.function)
                return tuple(Ranked(rank, ((offset, 1), *rooms[k])) if k in rooms else None for k in every)
    return None


def _most_of(progress: Progress, piece: int, value: Affine, places: set[str]) -> tuple[tuple[Affine, int], ...]:
    """Upper bounds of the value, made of what is the same at each of the places of an array."""
    encoded = progress.encoded
    same = {n for n, c in encoded.calls.items() if argument_names(c) <= places and c.function in progress.built}
    wide = progress.informed[piece].reordered(Space((*encoded.space.names, "most")))
    wide = wide.with_constraints([Constraint(True, value - Affine((("most", 1),)))])
    positions = sorted(value.names() & {*encoded.layout.positions})
    for more in ((), *((p,) for p in positions)):  # of each entry, the most of what lies beside it
        kept = {*encoded.sizes, *places, *same, *more}
        _, upper = bounds(wide.project({*kept, "most"}).constraints("most"), "most")
        limits = tuple((e, a) for a, e in upper if e.names() <= progress.known)
        whole = tuple((e, a) for e, a in limits if not e.names() & encoded.sizes)
        if limits:
            return (whole or limits)[:1]  # what the extents cut off has room, too
    return ()


# --- chunks -----------------------------------------------------------------------------------------------


def chunk(progress: Progress, waiting: Sequence[str], bounded: bool) -> tuple[str, Rules] | None:
    """(a position, the rule by which it counts up to its end and begins again). `bounded`: its end is a number, or made
    of the extents of the tensor; else it may be a size, which is as large as all need it to be."""
    encoded = progress.encoded
    ends = set(encoded.layout.parameters) if bounded else encoded.sizes
    every = range(len(encoded.pieces))
    for name, call in encoded.calls.items():
        positions = argument_names(call) & set(waiting)
        shifts = [a for a in call.arguments if variables(a) & positions]
        if (
            call.function in progress.built
            or len(positions) < 2
            or not argument_names(call) <= progress.known | positions
        ):
            continue
        if any(not shifted(a)[0] for a in shifts):
            continue
        beside = [n for n, c in encoded.calls.items() if c.arguments == call.arguments and n != name]
        names = (name, *(n for n in beside if all(progress.value(k, n) is not None for k in every)))
        for position in sorted(positions, key=waiting.index, reverse=True):
            rules = [_begins_again(progress, k, names, position, positions - {position}, ends) for k in every]
            if all(rules):
                columns = tuple(dict.fromkeys(n for r in rules if r for g in r.rank.groups or () for n in g.names()))
                progress.counted.update(names)
                for other in positions - {position}:
                    progress.extra[other] = (*columns, rounds_of(position))
                return position, tuple(rules)
    return None


def rounds_of(position: str) -> str:
    """The name of the column that says how often the position began again."""
    return f"rounds of {position}"


def _begins_again(
    progress: Progress, piece: int, names: tuple[str, ...], position: str, others: set[str], ends: set[str]
) -> Ranked | None:
    encoded = progress.encoded
    known_values = [progress.value(piece, n) for n in names]
    values = tuple(v for v in known_values if v is not None)
    if len(values) < len(names):
        return None
    lower, upper = bounds(progress.informed[piece].project({*encoded.sizes, position}).constraints(position), position)
    first = [-(e.constant // a) for a, e in lower if not e.terms]
    highs = tuple((a, e) for a, e in upper if e.names() <= size_names(encoded))
    if not first or not any(e.names() <= ends for _, e in highs):
        return None
    groups = tuple(Affine(((n, 1),)) for n in sorted(_tied(progress, piece, others, names)))
    return Ranked(Rank(position, names, "chunk", low=max(first), highs=highs, groups=groups, later=True), values)


def _tied(progress: Progress, piece: int, positions: set[str], keys: Iterable[str]) -> set[str]:
    """What is known and decides, with what is chosen for them, about these positions."""
    encoded = progress.encoded
    tied, seen = set[str](), {*keys}
    waiting = [*positions]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in progress.known:
            tied |= {name} - encoded.sizes
            continue
        if name in encoded.calls:
            waiting += argument_names(encoded.calls[name])
        else:
            waiting += [n for n, c in encoded.calls.items() if name in argument_names(c)]
        waiting += [n for c in encoded.pieces[piece].constraints(name) for n in c.value.names()]
    return tied
