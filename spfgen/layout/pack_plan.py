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
to be, and a pointer array leaves the room that the entries between two of its elements need.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise, product
from typing import Any

from spfgen.errors import Unsupported
from spfgen.facts.formula import Expr, Var, calls, show, variables
from spfgen.layout.alternatives import in_turn, informed_piece, taken_once
from spfgen.layout.nodes import Layout
from spfgen.layout.points import (
    Encoded,
    argument_names,
    encode,
    involved,
)
from spfgen.layout.refusals import with_remedy
from spfgen.sets.affine import Affine
from spfgen.sets.bounds import bounds, single_value
from spfgen.sets.named import Case, Constraint, Piece, Space
from spfgen.sets.uf import linear, shifted


@dataclass(frozen=True)
class Computed:
    """The position is floor(numerator / divisor)."""

    position: str
    numerator: Affine
    divisor: int


@dataclass(frozen=True)
class Rank:
    """The position is a rank of its keys (names of calls). Every other field says within what it is counted.

    kind    "pointer": in [f(e), f(e + 1)), `begin` is f(e);  "ends": in [begin, other);
            "counts": in [begin, begin + other);  "slots": counted in each group, a*position <= e for all `highs`
            (a, e), or without any, below what an array says that is made later;
            "padded": in [f(e), f(e + 1)) counted from f(e) in each group of the keys' other arguments; f(e + 1) - f(e)
            is the most that a group with these e has;
            "write": there is no position, the array is written at places that are known; "most", "least": the same, it
            is the largest or the smallest of the values; "room": the value is what f(e + 1) - f(e) must be at least;
            "places": an `array` of which only places of values speak: an element leaves room for what counts from it.
    least   sizes that the first position is not below either (values behind a diagonal).
    low     the first position there is; those of "pointer", "ends", "counts" and "padded" lie in [f(e) - base, ...),
            for "ends" before other - past: index arrays of Fortran begin with 1.
    groups  for "slots": the values that say the group, where they are not the other arguments of the keys.
    later   the arrays of the keys are written once their places are known.
    run     the keys are not calls: positions are runs of neighbouring values, with equal stored values if `same`.
            "covered": the same in [f(q), f(q + 1)), from `begin` = f(q); what lies between runs is one too.
            Several values that lie in one run (blocks on the diagonal): the runs are the smallest that hold them.
    """

    position: str
    keys: tuple[str, ...]
    kind: str
    begin: str = ""
    other: str = ""
    low: int = 0
    base: int = 0
    past: int = 0
    highs: tuple[tuple[int, Affine], ...] = ()
    groups: tuple[Affine, ...] | None = None
    later: bool = False
    run: str = ""
    same: bool = False
    hint: tuple[Expr, ...] = ()
    array: str = ""
    least: tuple[Affine, ...] = ()


@dataclass(frozen=True)
class Ranked:
    """A rank and, for one piece of the relation, the values floor(numerator / divisor) of its keys."""

    rank: Rank
    values: tuple[tuple[Affine, int], ...]


@dataclass(frozen=True)
class Solved:
    """A column of that name is `value`, which may speak of the `digits`: in turn, each is what its case that holds
    says. Entries for which a digit has no case have no place."""

    name: str
    digits: tuple[tuple[str, tuple[Case, ...]], ...]
    value: Affine


@dataclass(frozen=True)
class Widened:
    """The size is the least one that is not below floor(numerator / divisor) of any entry: how far a band reaches."""

    size: str
    least: tuple[tuple[Affine, int], ...]


Rule = Computed | Ranked | Solved | Widened
Rules = tuple[Rule | None, ...]
"""One for each piece; None where a piece does not speak of the array."""


@dataclass(frozen=True)
class PackPlan:
    """`steps`: what to do in turn, one rule for each piece. `belongs`: the entries of each piece."""

    encoded: Encoded
    belongs: tuple[tuple[Constraint, ...], ...]
    steps: tuple[Rules, ...]
    sentinels: Mapping[str, Affine]
    injective: bool

    @property
    def ranks(self) -> list[Rank]:
        """All different ranks, in the order in which they are made."""
        return list(dict.fromkeys(r.rank for s in self.steps for r in s if isinstance(r, Ranked)))

    @property
    def is_plain(self) -> bool:
        """Whether all ranks count keys that are written at once, in an order of the keys themselves."""
        kinds = ("pointer", "ends", "counts", "slots", "write")
        if any(isinstance(r, Solved | Widened) for s in self.steps for r in s):
            return False
        return not any(
            r.kind not in kinds or r.later or r.run or r.hint or r.base or r.past or r.least or self._shifted(r)
            for r in self.ranks
        )

    def _shifted(self, rank: Rank) -> bool:
        """Whether the keys are not at the positions themselves."""
        places = [a for k in rank.keys if k in self.encoded.calls for a in self.encoded.calls[k].arguments]
        return any(shift(a, rank.position) for a in places)


@dataclass
class _Progress:
    """While planning: what is known, which arrays are made."""

    encoded: Encoded
    informed: tuple[Piece, ...]
    known: set[str]
    placed: set[str]
    built: set[str] = field(default_factory=set)
    solved: dict[tuple[int, str, frozenset[str]], Solved | None] = field(default_factory=dict)

    def learn(self) -> None:
        """Calls of finished arrays at known places are known, and quotients of what is known."""
        before = -1
        while before != len(self.known):
            before = len(self.known)
            calls = self.encoded.calls.items()
            self.known |= {n for n, c in calls if c.function in self.built and argument_names(c) <= self.known}
            quotients = self.encoded.quotients.items()
            self.known |= {n for n, (e, _) in quotients if e.names() <= self.known}
            self.placed |= {n for n, (e, _) in quotients if e.names() <= self.placed}

    def value(self, piece: int, name: str) -> tuple[Affine, int] | None:
        """The only value of a dimension, given what is known."""
        about = self.informed[piece].project(self.known | {name}).constraints(name)
        found = single_value(about, name)
        if found is not None and found[0].names() <= self.known:
            return found
        quotients = self.encoded.quotients.values()
        if not any(name in numerator.names() for numerator, _ in quotients):
            return None
        key = piece, name, frozenset(self.known)
        if key not in self.solved:
            found_digits = solution(self.encoded, self.informed[piece], name, self.known)
            column = f"{name} of alternative {piece} after {len(self.solved)}"
            self.solved[key] = None if found_digits is None else Solved(column, *found_digits)
        rule = self.solved[key]
        return (Affine(((rule.name, 1),)), 1) if rule is not None else None

    def value_beside(self, piece: int, name: str, others: Mapping[str, tuple[Affine, int]]) -> Solved | None:
        """The only value of a dimension, given what is known and others whose values follow from that."""
        given = self.known | set(others)
        key = piece, name, frozenset(given)
        if key not in self.solved:
            about = self.informed[piece].project(given | {name}).constraints(name)
            found = single_value(about, name)
            rule: Solved | None = None
            if found is not None and found[0].names() <= given:
                needed = [(o, (Case((), *others[o]),)) for o in sorted(found[0].names() & set(others))]
                column = f"{name} of alternative {piece} after {len(self.solved)}"
                rule = Solved(column, (*needed, (name, (Case((), *found),))), Affine(((name, 1),)))
            self.solved[key] = rule
        return self.solved[key]

    def with_solved(self, steps: Iterable[Rules]) -> tuple[Rules, ...]:
        """The steps, each after the columns that it needs."""
        waiting = {r.name: (k, r) for (k, _, _), r in self.solved.items() if r is not None}
        count = len(self.encoded.pieces)
        result: list[Rules] = []

        def add(step: Rules) -> None:
            for name in sorted({n for r in step if r is not None for n in _needs(r)} & set(waiting)):
                piece, rule = waiting.pop(name)
                add(tuple(rule if k == piece else None for k in range(count)))
            result.append(step)

        for step in steps:
            add(step)
        return tuple(result)


def _needs(rule: Rule) -> set[str]:
    """What the values of a rule are made of."""
    match rule:
        case Computed(_, numerator, _):
            return numerator.names()
        case Ranked(_, values):
            return {n for numerator, _ in values for n in numerator.names()}
        case Widened(_, least):
            return {n for numerator, _ in least for n in numerator.names()}
        case Solved(_, digits, _):
            return {n for _, cases in digits for case in cases for n in case.numerator.names()}


Digits = tuple[tuple[str, tuple[Case, ...]], ...]


def solution(encoded: Encoded, piece: Piece, name: str, known: set[str]) -> tuple[Digits, Affine] | None:
    """What a `Solved` is made of; None when the relation does not give the value.

    Where it speaks of several quotients of the name, these are found as digits of a number, the high ones first.
    """
    quotients = _quotients_of(encoded, name)
    places = sorted({d for _, d in quotients})
    if len(places) > 2 and not any(b % a for a, b in pairwise(places)):
        found = _by_digits(encoded, piece, name, quotients, known)
        if found is not None:
            return found
    cases = piece.function(name, known)
    return (((name, cases),), Affine(((name, 1),))) if cases else None


def _quotients_of(encoded: Encoded, name: str) -> list[tuple[str, int]]:
    """(dimension, divisor) for the name and what is its quotient, or the quotient of a quotient."""
    found = {name: 1}
    for quotient, (numerator, divisor) in encoded.quotients.items():  # each stands behind what it divides
        match numerator:
            case Affine(((str() as inner, 1),), 0) if inner in found:
                found[quotient] = found[inner] * divisor
    return list(found.items())


def _by_digits(
    encoded: Encoded, piece: Piece, name: str, quotients: list[tuple[str, int]], known: set[str]
) -> tuple[Digits, Affine] | None:
    """The name as a sum of digits. Of the divisors of its quotients, each is a multiple of those that are smaller."""
    places = sorted({d for _, d in quotients})
    digits = {p: f"{name} digit {p}" for p in places}
    wide = piece.reordered(Space((*encoded.space.names, *digits.values())))
    for quotient, place in quotients:
        above = [(digits[p], p // place) for p in places if p >= place]
        wide = wide.with_constraints([Constraint(True, Affine(((quotient, -1), *above)))])
    for place, following in pairwise(places):
        least, most = Affine(((digits[place], 1),)), Affine(((digits[place], -1),), following // place - 1)
        wide = wide.with_constraints([Constraint(False, least), Constraint(False, most)])
    given = set(known)
    waiting = [digits[p] for p in reversed(places)]
    order: list[tuple[str, tuple[Case, ...]]] = []
    while waiting:
        for digit in waiting:
            value = single_value(wide.project({*given, digit}).constraints(digit), digit)
            if value is not None and value[0].names() <= given:
                break
        else:
            return None
        order.append((digit, (Case((), *value),)))
        waiting.remove(digit)
        given.add(digit)
    return tuple(order), Affine(tuple((digits[p], p) for p in places))


@lru_cache(maxsize=256)
def pack_plan(layout: Layout) -> PackPlan:
    """Raises Unsupported naming the position or array that cannot be derived."""
    try:
        return _pack_plan(layout)
    except Unsupported as error:
        raise with_remedy(error, layout) from None


def _pack_plan(layout: Layout) -> PackPlan:
    encoded = in_turn(encode(layout))
    if not encoded.pieces:
        raise Unsupported(f"layout `{layout.name}` stores nothing: its relation has no points", layout.span)
    both = [(p, informed_piece(encoded, p)) for p in encoded.pieces]
    both = [(p, known) for p, known in both if not known.is_empty()] or both
    encoded = replace(encoded, pieces=tuple(p for p, _ in both))
    informed = tuple(known for _, known in both)
    start = {*layout.parameters, *layout.coordinates}
    progress = _Progress(encoded, informed, set(start), set(encoded.sizes))
    progress.learn()
    steps: list[Rules] = []
    waiting = list(layout.positions)
    while True:
        written = _writes(progress)
        steps += written
        if not waiting:
            break
        reason = ""
        for position in waiting:
            found = _step(progress, position)
            if isinstance(found, tuple):
                break
            reason = reason or found
        else:
            needed = _needed_array(progress) or _needed_size(progress)
            if needed is None:
                raise Unsupported(f"layout `{layout.name}` cannot be packed: {reason}", layout.span)
            steps.append(needed)
            continue
        waiting.remove(position)
        steps.append(found)
        _after(progress, position, found)
    while (needed := _needed_array(progress)) is not None:
        steps += [needed, *_writes(progress)]
    steps += _of_places(progress)
    _check_built(progress)
    never = (Constraint(False, Affine((), -1)),)
    own = taken_once(encoded, informed)
    belongs = tuple(never if p.is_empty() else tuple(p.project(start).constraints()) for p in own)
    injective = _is_injective(layout, encoded, steps)
    plan = PackPlan(encoded, belongs, progress.with_solved(steps), _sentinels(progress), injective)
    _check_padding(plan)
    return plan


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


def _after(progress: _Progress, position: str, rules: tuple[Rule, ...]) -> None:
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
    progress.learn()


def _writes(progress: _Progress) -> list[Rules]:
    """Arrays whose places and values are known."""
    encoded = progress.encoded
    steps: list[Rules] = []
    for name, call in encoded.calls.items():
        if call.function in progress.built or not argument_names(call) <= progress.known | set(encoded.layout.sizes):
            continue
        mine = _speaking(encoded, name)
        values = [progress.value(k, name) if k in mine else None for k in range(len(encoded.pieces))]
        if mine and all(values[k] is not None for k in mine):
            rank = Rank("", (name,), "write")
            steps.append(tuple(None if v is None else Ranked(rank, (v,)) for v in values))
            progress.built.add(call.function)
            progress.learn()
    return steps


def _step(progress: _Progress, position: str) -> tuple[Rule, ...] | str:
    """A rule for the position in each piece, or the reason why there is none."""
    rules: list[Rule] = []
    for piece in range(len(progress.encoded.pieces)):
        found = _rule(progress, piece, position)
        if isinstance(found, str):
            return found
        rules.append(found)
    return tuple(rules)


def _rule(progress: _Progress, piece: int, position: str) -> Rule | str:
    single = progress.value(piece, position)
    if single is not None:
        return Computed(position, *single)
    keys, reason = _keys(progress, piece, position)
    hint = progress.encoded.layout.hint(position)
    more = hint.keys if hint is not None else ()
    if not keys:
        found = later(progress, piece, position) or run(progress, piece, position)
        return reason if found is None else replace(found, rank=replace(found.rank, hint=more))
    rank = _counted(progress, piece, position, tuple(n for n, _ in keys))
    if isinstance(rank, Rank):
        _check_purposes(progress.encoded, rank)
        rank = replace(rank, least=_least(progress, piece, rank))
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


def _least(progress: _Progress, piece: int, rank: Rank) -> tuple[Affine, ...]:
    """Extents of the tensor that positions in segments are not below."""
    if rank.kind not in ("pointer", "ends", "counts"):
        return ()
    about = progress.informed[piece].project({*progress.encoded.layout.parameters, rank.position})
    lower, _ = bounds(about.constraints(rank.position), rank.position)
    return tuple(e.scaled(-1) for a, e in lower if a == 1 and e.names())


def _keys(progress: _Progress, piece: int, position: str) -> tuple[list[tuple[str, tuple[Affine, int]]], str]:
    """The calls at the position whose value is known, and in words why there is none."""
    encoded = progress.encoded
    matter = set(involved(encoded, encoded.pieces[piece]))
    found: list[tuple[str, tuple[Affine, int]]] = []
    missing: list[str] = []
    reason = (
        f"nothing says which `{position}` an entry has: it does not follow from the coordinates, "
        f"and no index array with the subscript `{position}` does"
    )
    for name, call in encoded.calls.items():
        if name not in matter or call.function in progress.built or position not in argument_names(call):
            continue
        if all(shift(a, position) is None for a in call.arguments):
            continue
        if not argument_names(call) <= progress.known | progress.placed | {position}:
            continue
        value = progress.value(piece, name)
        if value is None:
            missing.append(name)
            reason = (
                f"nothing says which `{position}` an entry has: neither it nor `{show(call)}` follows from the "
                "coordinates"
            )
        else:
            found.append((name, value))
    found += _beside(progress, piece, found, missing)
    at = [f for f in found if Var(position) in encoded.calls[f[0]].arguments]
    return at or found, reason


def _beside(
    progress: _Progress, piece: int, keys: Sequence[tuple[str, tuple[Affine, int]]], names: Sequence[str]
) -> list[tuple[str, tuple[Affine, int]]]:
    """Those of the names whose values follow from the keys, with them: what is left of a coordinate in a block."""
    found: dict[str, tuple[Affine, int]] = {}
    before = -1
    while keys and before != len(found):
        before = len(found)
        for name in names:
            rule = None if name in found else progress.value_beside(piece, name, {**dict(keys), **found})
            if rule is not None:
                found[name] = Affine(((rule.name, 1),)), 1
    return list(found.items())


def _counted(progress: _Progress, piece: int, position: str, keys: tuple[str, ...]) -> Rank | str:
    """Within what bounds the position is counted."""
    encoded = progress.encoded
    ready = [n for n, c in encoded.calls.items() if argument_names(c) <= progress.placed]
    kept = {*encoded.sizes, *progress.placed, *ready, position}
    lower, upper = bounds(encoded.pieces[piece].project(kept).constraints(position), position)
    lows = [e.scaled(-1) for a, e in lower if a == 1]
    highs = [e.plus(1) for a, e in upper if a == 1]
    for low, high in product(lows, highs):
        found = _between_calls(progress, position, keys, low, high)
        if found is not None:
            return found
    first = [-(e.constant // a) for a, e in lower if not e.terms]
    ends = tuple((a, e) for a, e in upper if e.names() <= _size_names(encoded))
    if not first or not (ends or _is_counted_by_call(progress, highs)):
        return f"the position `{position}` has no bounds of the kind [0, n) or [f(e), f(e + 1))"
    others = {tuple(a for a in encoded.calls[k].arguments if shift(a, position) is None) for k in keys}
    if len(others) > 1:
        texts = " and ".join(f"`{k}`" for k in keys)
        return f"the position `{position}` is tied to keys with different arguments, {texts}"
    return Rank(position, keys, "slots", low=max(first), highs=ends)


def _is_counted_by_call(progress: _Progress, highs: Iterable[Affine]) -> bool:
    """Whether an array that is not made yet says how many positions there are: it is made as large as they need."""
    names = [_only_call(high, progress.encoded.calls) for high in highs]
    every = [progress.encoded.calls[n] for n in names if n is not None]
    return any(c.function not in progress.built and argument_names(c) <= progress.known for c in every)


def bounds_of(progress: _Progress, piece: int, position: str) -> tuple[int, tuple[tuple[int, Affine], ...]] | None:
    """(least value, (a, e) with a*position <= e) of a position in [low, n); None when it has no such bounds."""
    encoded = progress.encoded
    about = encoded.pieces[piece].project({*encoded.sizes, position}).constraints(position)
    lower, upper = bounds(about, position)
    first = [-(e.constant // a) for a, e in lower if not e.terms]
    ends = tuple((a, e) for a, e in upper if e.names() <= _size_names(encoded))
    return (max(first), ends) if first and ends else None


def later(progress: _Progress, piece: int, position: str) -> Ranked | None:
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


def run(progress: _Progress, piece: int, position: str) -> Ranked | None:
    """A rank of runs: something known lies between calls at the position."""
    found = _between(progress, piece, position)
    for name, (below, above) in found.items():
        # a block on the diagonal holds rows and columns between the same two calls
        shared = (n for n, (low, high) in found.items() if set(below) & set(low) and set(above) & set(high))
        within = list(dict.fromkeys((name, *shared)))
        values = tuple((Affine(((n, 1),)), 1) for n in within)
        same = len(within) == 1 and not _moves(progress, piece, position, name)
        pointer = _pointer_over(progress.encoded, position, below, above)
        if pointer:
            limits = bounds_of(progress, piece, position)
            if limits is not None:
                return Ranked(Rank(position, (), "covered", pointer, run=name, same=same, highs=limits[1]), values)
        counted = _counted(progress, piece, position, ())
        if not isinstance(counted, str):
            groups = () if counted.kind == "slots" else None
            return Ranked(replace(counted, run=name, same=same, groups=groups), values)
    return None


def _between(progress: _Progress, piece: int, position: str) -> dict[str, tuple[list[Affine], list[Affine]]]:
    """What is known and lies between calls at the position, with those: low <= name <= high."""
    encoded = progress.encoded
    layout = encoded.layout
    at = [n for n, c in encoded.calls.items() if position in argument_names(c) and c.function not in progress.built]
    found: dict[str, tuple[list[Affine], list[Affine]]] = {}
    for name in (*layout.positions, *layout.coordinates):
        if name not in progress.known or name == position:
            continue
        kept = {*encoded.sizes, *progress.placed, *progress.known, *at, name}
        lower, upper = bounds(encoded.pieces[piece].project(kept).constraints(name), name)
        below = [e.scaled(-1) for a, e in lower if a == 1 and e.names() & set(at)]
        above = [e for a, e in upper if a == 1 and e.names() & set(at)]
        if below and above:
            found[name] = below, above
    return found


def _pointer_over(encoded: Encoded, position: str, below: list[Affine], above: list[Affine]) -> str:
    """The call f(position), when one array says with f(position) and f(position + 1) where a run begins and ends."""
    for low, high in product(below, above):
        first, second = _only_call(low, encoded.calls), _only_call(high.plus(1), encoded.calls)
        if first is None or second is None:
            continue
        one, two = encoded.calls[first], encoded.calls[second]
        next_one = (one.function, (Affine(((position, 1),), 1),))
        if one.arguments == (Var(position),) and (two.function, tuple(map(linear, two.arguments))) == next_one:
            return first
    return ""


def _moves(progress: _Progress, piece: int, position: str, name: str) -> bool:
    """Whether the place of the value depends on what is run over."""
    encoded = progress.encoded
    at = {n for n, c in encoded.calls.items() if argument_names(c) <= progress.placed | {position}}
    fixed = {*encoded.sizes, *progress.placed, *at, position}
    tied = {name}
    for other in (*encoded.layout.positions, *encoded.layout.coordinates):
        found = single_value(encoded.pieces[piece].project({*fixed, other, name}).constraints(other), other)
        if found is not None and name in found[0].names():
            tied.add(other)
    # What is found later may change along what is run over.
    tied |= {p for p in encoded.layout.positions if p not in progress.placed | {position}}
    return any(tied & variables(p) for v in encoded.layout.values for p in v.position)


def _needed_array(progress: _Progress) -> Rules | None:
    """An array at known places that is as large, or as small, as the entries need; or a pointer array with room.

    Room comes last: how much there must be may be counted from an array that is found first.
    """
    encoded = progress.encoded
    every = range(len(encoded.pieces))
    open_calls = [(n, _following(encoded, n)) for n, c in encoded.calls.items()
                  if c.function not in progress.built and argument_names(c) <= progress.known]  # fmt: skip
    for name, following in sorted(open_calls, key=lambda c: bool(c[1])):
        mine = _speaking(encoded, name)
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


def _needed_size(progress: _Progress) -> Rules | None:
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


def _speaking(encoded: Encoded, name: str) -> list[int]:
    """The pieces that speak of a call."""
    return [k for k, piece in enumerate(encoded.pieces) if name in involved(encoded, piece)]


def _of_places(progress: _Progress) -> list[Rules]:
    """Pointer arrays of which only the places of values speak: val[f(q) + ...]."""
    layout = progress.encoded.layout
    steps: list[Rules] = []
    for call in dict.fromkeys(c for v in layout.values for p in v.position for c in calls(p)):
        alone = [len(v.position) for v in layout.values for p in v.position if call in calls(p)] == [1]
        known = len(call.arguments) == 1 and variables(call) <= progress.known
        if call.function in progress.built or not alone or not known:
            continue
        progress.built.add(call.function)
        rank = Rank("", (), "places", groups=(linear(call.arguments[0]),), array=call.function)
        steps.append(tuple(Ranked(rank, ()) for _ in progress.encoded.pieces))
    return steps


def _following(encoded: Encoded, name: str) -> str:
    """The call f(e + 1) for f(e); empty when it does not occur."""
    call = encoded.calls[name]
    for other, found in encoded.calls.items():
        if found.function == call.function and other != name:
            steps = [linear(b) - linear(a) for a, b in zip(call.arguments, found.arguments, strict=True)]
            if not any(s.terms for s in steps) and [s.constant for s in steps] == [0] * (len(steps) - 1) + [1]:
                return other
    return ""


def _room(progress: _Progress, piece: int, name: str, following: str) -> Ranked | None:
    """f(e + 1) - f(e) is at least what the entries need."""
    kept = progress.known | {name, following}
    found: list[tuple[Affine, int]] = []
    for constraint in progress.encoded.pieces[piece].project(kept).constraints(following):
        value = constraint.value
        if constraint.equality or value.coefficient(following) != 1 or value.coefficient(name) != -1:
            continue
        rest = value.without(following).without(name).scaled(-1)
        if rest.names() <= progress.known:
            found.append((rest, 1))
    return Ranked(Rank("", (name,), "room", name, following), tuple(found)) if found else None


def _extreme(progress: _Progress, piece: int, name: str) -> Ranked | None:
    """The array is the largest or the smallest of what the entries say."""
    about = progress.encoded.pieces[piece].project(progress.known | {name}).constraints(name)
    lower, upper = bounds(about, name)
    of_entries = {*progress.encoded.layout.coordinates, *progress.encoded.layout.positions}
    for kind, found, sign in (("most", lower, -1), ("least", upper, 1)):
        values = tuple((e.scaled(sign), 1) for a, e in found if a == 1 and e.names() & of_entries)
        if values:
            return Ranked(Rank("", (name,), kind), values)
    return None


def _size_names(encoded: Encoded) -> set[str]:
    """The sizes, and the quotients of sizes."""
    return encoded.sizes | {n for n, (e, _) in encoded.quotients.items() if e.names() <= encoded.sizes}


def _between_calls(progress: _Progress, position: str, keys: tuple[str, ...], low: Affine, high: Affine) -> Rank | None:
    """A rank between two calls of arrays that are not made yet."""
    calls = progress.encoded.calls
    base, past = -low.constant, -high.constant
    begin = _only_call(low.plus(base), calls)
    rest = _only_call(high - low, calls)
    end = _only_call(high.plus(past), calls)
    if begin is None or calls[begin].function in progress.built:
        return None
    other, kind = (rest, "counts") if rest is not None else (end, "ends")
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
        own = argument_names(first) | progress.encoded.sizes
        others = {n for k in keys for n in argument_names(calls[k])} - {position} - own
        return Rank(position, keys, "padded" if others else "pointer", begin, "", bottom, base)
    if first.arguments != second.arguments:
        return None
    return Rank(position, keys, kind, begin, other, bottom, base, past if kind == "ends" else 0)


def shift(argument: Expr, position: str) -> int | None:
    """How far behind the position the argument is, if it is so far behind each."""
    name, further = shifted(argument)
    return further if name == position else None


def _only_call(value: Affine, calls: Mapping[str, Any]) -> str | None:
    match value:
        case Affine(((str() as name, 1),), 0) if name in calls:
            return name
    return None


def _check_built(progress: _Progress) -> None:
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


def _sentinels(progress: _Progress) -> dict[str, Affine]:
    """For arrays that have it, an end of the declared range for which the relation has no points."""
    encoded = progress.encoded
    found: dict[str, Affine] = {}
    for name, call in encoded.calls.items():
        speaking = [encoded.pieces[k] for k in _speaking(encoded, name)] or encoded.pieces
        for end in _range_ends(encoded, name):
            value = Constraint(True, Affine(((name, 1),)) - end)
            if call.function not in found and all(p.with_constraints([value]).is_empty() for p in speaking):
                found[call.function] = end
    return found


def _range_ends(encoded: Encoded, name: str) -> Iterator[Affine]:
    """The declared bounds of a call in terms of sizes, the lower ones first."""
    lower, upper = bounds(encoded.facts.constraints(name), name)
    yield from (e.scaled(-1) for a, e in lower if a == 1 and e.names() <= encoded.sizes)
    yield from (e for a, e in upper if a == 1 and e.names() <= encoded.sizes)


def _is_injective(layout: Layout, encoded: Encoded, steps: list[Rules]) -> bool:
    """Whether it is plain that no two points share a value: the place of the value gives all positions."""
    if len(encoded.pieces) > 1 or len(layout.values) > 1:
        return False
    given = {n for v in layout.values for p in v.position for n in variables(p) if shift(p, n) is not None}
    for (rule,) in reversed(steps):
        if isinstance(rule, Ranked) and rule.rank.position in given and rule.rank.begin:
            arguments = encoded.calls[rule.rank.begin].arguments
            given |= {a.name for a in arguments if isinstance(a, Var)}
    return given >= set(layout.positions) and _coordinates_determined(layout, encoded)


def _coordinates_determined(layout: Layout, encoded: Encoded) -> bool:
    """Whether the positions, with the calls at them, give the coordinates."""
    known = {*encoded.sizes, *layout.positions, *encoded.calls}
    piece = encoded.pieces[0]
    return all(single_value(piece.project(known | {c}).constraints(c), c) is not None for c in layout.coordinates)


@dataclass(frozen=True)
class KeyOrder:
    """In which order keys count, the foremost first: (number of the key, whether it runs down)."""

    keys: tuple[tuple[int, bool], ...]
    empty_first: bool = False
