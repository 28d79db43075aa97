"""The state of planning a packing: what is known so far, and what the relation implies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from spfgen.facts.formula import Expr
from spfgen.layout.pack_rules import Rules, Solved, needs
from spfgen.layout.points import Encoded, argument_names, involved
from spfgen.sets.affine import Affine
from spfgen.sets.bounds import bounds, single_value
from spfgen.sets.named import Case, Constraint, Piece, Space


@dataclass
class Progress:
    """While planning: what is known, which arrays are made.

    `arguments`: positions that stand for arguments of calls, with these. `extra`: columns that are keys of a position
    besides the calls at it, where packing may choose; `counted`: calls of which it has counted the values. `whole`: a
    position is ranked only by all that is found at it.
    """

    encoded: Encoded
    informed: tuple[Piece, ...]
    known: set[str]
    placed: set[str]
    arguments: Mapping[str, Expr] = field(default_factory=dict)
    built: set[str] = field(default_factory=set)
    extra: dict[str, tuple[str, ...]] = field(default_factory=dict)
    whole: bool = False
    counted: set[str] = field(default_factory=set)
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
        projected = self.informed[piece].project(self.known | {name})
        single = single_value(projected.constraints(name), name)
        if single is not None and single[0].names() <= self.known:
            return single
        quotients = self.encoded.quotients.values()
        if not any(name in numerator.names() for numerator, _ in quotients) and not projected.has_floors():
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
            single = single_value(about, name)
            rule: Solved | None = None
            if single is not None and single[0].names() <= given:
                needed = [(o, (Case((), *others[o]),)) for o in sorted(single[0].names() & set(others))]
                column = f"{name} of alternative {piece} after {len(self.solved)}"
                rule = Solved(column, (*needed, (name, (Case((), *single),))), Affine(((name, 1),)))
            self.solved[key] = rule
        return self.solved[key]

    def with_solved(self, steps: Iterable[Rules]) -> tuple[Rules, ...]:
        """The steps, each after the columns that it needs."""
        waiting = {r.name: (k, r) for (k, _, _), r in self.solved.items() if r is not None}
        count = len(self.encoded.pieces)
        result: list[Rules] = []

        def add(step: Rules) -> None:
            for name in sorted({n for r in step if r is not None for n in needs(r)} & set(waiting)):
                piece, rule = waiting.pop(name)
                add(tuple(rule if k == piece else None for k in range(count)))
            result.append(step)

        for step in steps:
            add(step)
        return tuple(result)


Digits = tuple[tuple[str, tuple[Case, ...]], ...]


def solution(encoded: Encoded, piece: Piece, name: str, known: set[str]) -> tuple[Digits, Affine] | None:
    """What a `Solved` is made of; None when the relation does not give the value.

    Where it speaks of several quotients of the name, these are found as digits of a number, the high ones first.
    """
    quotients = quotients_of(encoded, name)
    places = sorted({d for _, d in quotients})
    if len(places) > 2 and not any(b % a for a, b in pairwise(places)):
        digits = by_digits(encoded, piece, name, quotients, known)
        if digits is not None:
            return digits
    cases = piece.function(name, known)
    return (((name, cases),), Affine(((name, 1),))) if cases else None


def quotients_of(encoded: Encoded, name: str) -> list[tuple[str, int]]:
    """(dimension, divisor) for the name and what is its quotient, or the quotient of a quotient."""
    divisor_of = {name: 1}
    for quotient, (numerator, divisor) in encoded.quotients.items():  # each stands behind what it divides
        match numerator:
            case Affine(((str() as inner, 1),), 0) if inner in divisor_of:
                divisor_of[quotient] = divisor_of[inner] * divisor
    return list(divisor_of.items())


def by_digits(
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


def bounds_of(progress: Progress, piece: int, position: str) -> tuple[int, tuple[tuple[int, Affine], ...]] | None:
    """(least value, (a, e) with a*position <= e) of a position in [low, n); None when it has no such bounds."""
    encoded = progress.encoded
    about = encoded.pieces[piece].project({*encoded.sizes, position}).constraints(position)
    lower, upper = bounds(about, position)
    first = [-(e.constant // a) for a, e in lower if not e.terms]
    ends = tuple((a, e) for a, e in upper if e.names() <= size_names(encoded))
    return (max(first), ends) if first and ends else None


def speaking(encoded: Encoded, name: str) -> list[int]:
    """The pieces that speak of a call."""
    return [k for k, piece in enumerate(encoded.pieces) if name in involved(encoded, piece)]


def size_names(encoded: Encoded) -> set[str]:
    """The sizes, and the quotients of sizes."""
    return encoded.sizes | {n for n, (e, _) in encoded.quotients.items() if e.names() <= encoded.sizes}


def only_call(value: Affine, calls: Mapping[str, Any]) -> str | None:
    match value:
        case Affine(((str() as name, 1),), 0) if name in calls:
            return name
    return None
