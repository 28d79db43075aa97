"""Elimination of dimensions: what a set says of one dimension when those that are hidden may have any value.

Only constraints that are linked to what is asked about take part. Equalities are substituted, those with a coefficient
of one before others, and a dimension is cancelled (Fourier and Motzkin) where that makes no more inequalities than
there were. What is left is small, and isl, which looks for redundant constraints, is asked. The result may hold more
points than the exact projection, never fewer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from math import gcd

from spfgen.sets.affine import Affine
from spfgen.sets.named import Constraint, Piece, Space

Terms = dict[str, int]
Row = tuple[Terms, int]
"""terms + constant; at least 0, or 0."""


Reduced = tuple[dict[str, Row], "_System"]


def about(piece: Piece, name: str, hidden: Collection[str]) -> list[Constraint]:
    """What a set says of a dimension without speaking of the hidden ones; remembered."""
    asked = name, frozenset(hidden)
    if asked not in piece.said:
        piece.said[asked] = _about(piece, name, asked[1])
    return piece.said[asked]


def _about(piece: Piece, name: str, hidden: frozenset[str]) -> list[Constraint]:
    if piece.has_floors():
        return piece.project(n for n in piece.space.names if n not in hidden).constraints(name)
    related, unknown = linked(piece.listed(), name, hidden)
    if unknown not in piece.reduced:
        piece.reduced[unknown] = _reduced(related, unknown)
    equal, system = piece.reduced[unknown]
    mine = system.about(name, equal.get(name))
    while mine.hidden and (mine.substitute() or mine.cancel()):
        pass
    constraints = mine.constraints()
    if mine.hidden:
        names = {n for c in constraints for n in c.value.names()}
        small = Space(n for n in piece.space.names if n in names)
        constraints = small.of(constraints).project(names - mine.hidden).constraints() if name in names else []
    return [c for c in constraints if c.value.coefficient(name)]


def linked(
    constraints: Iterable[Constraint], name: str, hidden: Collection[str]
) -> tuple[list[Constraint], frozenset[str]]:
    """The constraints that can say something of a dimension: those that speak of it, of a hidden one that those speak
    of, and so on; and these dimensions."""
    unrelated = [(c, c.value.names()) for c in constraints]
    related: list[Constraint] = []
    reached, frontier = {name}, {name}
    while frontier:
        met = [(c, names) for c, names in unrelated if names & frontier]
        unrelated = [(c, names) for c, names in unrelated if not names & frontier]
        related += [c for c, _ in met]
        frontier = {n for _, names in met for n in names if n in hidden} - reached
        reached |= frontier
    return related, frozenset(reached)


def _reduced(constraints: Iterable[Constraint], unknown: frozenset[str]) -> Reduced:
    """What constraints say, by as few of the unknown dimensions as possible: the others by the equality that gives each
    of them, the rest without these."""
    system = _System(set(), set(unknown))
    for constraint in constraints:
        terms = {a: c for a, c in constraint.value.terms if isinstance(a, str)}
        system.add(constraint.equality, (terms, constraint.value.constant))
    equal: dict[str, Row] = {}
    while substituted := system.substitute():
        name, row = substituted
        equal = {n: _replaced(r, name, row) for n, r in equal.items()} | {name: row}
    return equal, system


@dataclass
class _System:
    """Rows that speak of what is asked about, or of hidden dimensions."""

    asked: set[str]
    hidden: set[str]
    equalities: list[Row] = field(default_factory=list)
    inequalities: dict[tuple[tuple[str, int], ...], Row] = field(default_factory=dict)

    def add(self, equality: bool, row: Row) -> None:
        """Take in a row, divided by its greatest divisor, unless another one implies it or it says nothing of what is
        asked about and never will."""
        terms, constant = {n: c for n, c in row[0].items() if c}, row[1]
        divisor = gcd(*terms.values())
        if (self.asked.isdisjoint(terms) and self.hidden.isdisjoint(terms)) or (equality and constant % divisor):
            return
        if divisor > 1:
            terms, constant = {n: c // divisor for n, c in terms.items()}, constant // divisor
        if equality:
            self.equalities.append((terms, constant))
            return
        key = tuple(sorted(terms.items()))
        opposite = tuple((n, -c) for n, c in key)
        if key in self.inequalities and self.inequalities[key][1] <= constant:
            return
        if opposite in self.inequalities and self.inequalities[opposite][1] == -constant:
            del self.inequalities[opposite]
            self.inequalities.pop(key, None)
            self.equalities.append((terms, constant))
        else:
            self.inequalities[key] = terms, constant

    def about(self, name: str, equal: Row | None) -> _System:
        """The same with one of the hidden dimensions asked about, which may be given by an equality."""
        result = _System({name}, self.hidden - {name}, [*self.equalities], {**self.inequalities})
        if equal is not None:
            result.add(True, equal)
        return result

    def substitute(self) -> tuple[str, Row] | None:
        """Put what an equality says of a hidden dimension in its place, and give both back."""
        candidates = [
            (abs(c), k, n) for k, row in enumerate(self.equalities) for n, c in row[0].items() if n in self.hidden
        ]
        if not candidates:
            return None
        _, chosen, name = min(candidates)
        equal = self.equalities.pop(chosen)
        self.hidden.discard(name)
        rows = [(True, r) for r in self.equalities if name in r[0]]
        rows += [(False, r) for r in self.inequalities.values() if name in r[0]]
        self.equalities = [r for r in self.equalities if name not in r[0]]
        self.inequalities = {k: r for k, r in self.inequalities.items() if name not in r[0]}
        for equality, row in rows:
            self.add(equality, _replaced(row, name, equal))
        return name, equal

    def cancel(self) -> bool:
        """Add up each lower and each upper bound of a hidden dimension, if that makes no more of them."""
        lower: dict[str, list[Row]] = {n: [] for n in self.hidden}
        upper: dict[str, list[Row]] = {n: [] for n in self.hidden}
        for row in self.inequalities.values():
            for name in self.hidden & row[0].keys():
                (lower if row[0][name] > 0 else upper)[name].append(row)
        more = {n: len(lower[n]) * len(upper[n]) - len(lower[n]) - len(upper[n]) for n in self.hidden}
        name = min(sorted(more), key=lambda n: more[n])
        if more[name] > 0:
            return False
        self.hidden.discard(name)
        self.inequalities = {k: r for k, r in self.inequalities.items() if name not in r[0]}
        for low in lower[name]:
            for high in upper[name]:
                self.add(False, _sum(low, -high[0][name], high, low[0][name]))
        return True

    def constraints(self) -> list[Constraint]:
        rows = [(True, r) for r in self.equalities] + [(False, r) for r in self.inequalities.values()]
        return [Constraint(equality, Affine(tuple(terms.items()), constant)) for equality, (terms, constant) in rows]


def _replaced(row: Row, name: str, equal: Row) -> Row:
    """The row, times a positive number, without a dimension that an equality gives."""
    coefficient, factor = row[0].get(name, 0), equal[0][name]
    if not coefficient:
        return row
    terms, constant = _sum(row, abs(factor), equal, -coefficient if factor > 0 else coefficient)
    return {n: c for n, c in terms.items() if c}, constant


def _sum(one: Row, times: int, other: Row, others: int) -> Row:
    terms = {n: c * times for n, c in one[0].items()}
    for name, coefficient in other[0].items():
        terms[name] = terms.get(name, 0) + coefficient * others
    return terms, one[1] * times + other[1] * others
