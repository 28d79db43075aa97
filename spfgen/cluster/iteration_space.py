"""The iteration space of a program, cut in blocks of work whose bounds are parameters: what isl says of all of them.

A block of work has the points whose cut indices lie within [low, high). Asked once for a program, whatever its cuts
are: that a cut parts a block in two without points in common or left out; that two blocks do not write one place of a
result; and which places of an operand a block reads, as bounds that are functions of `low` and `high`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spfgen.cluster.separability import within
from spfgen.facts.formula import Compare, Expr, Formula, Num, Var, chain, conjunction, substitute
from spfgen.sets.affine import Affine, Floor, NotAffine
from spfgen.sets.bounds import bounds as bounds_of
from spfgen.sets.named import Constraint, Piece, Space, TooManyPieces, pieces

EXACT, BOX, IMAGE = "exactly", "a box around", "the image"
Ranges = Mapping[str, tuple[int, int]]
Side = tuple[int, Affine]


def low(index: str) -> str:
    """The name of where a block begins."""
    return f"{index}.low"


def high(index: str) -> str:
    """The name of where it ends."""
    return f"{index}.high"


@dataclass(frozen=True)
class ReadPart:
    """Places along one axis: for each way to read them (lower, upper) bounds as (a, e): a*at >= -e, and a*at <= e."""

    ways: tuple[tuple[tuple[Side, ...], tuple[Side, ...]], ...]
    known: str = EXACT

    def at(self, ranges: Ranges, extent: int) -> tuple[int, int]:
        """The places that a block of work reads, within the extent; an empty range where there are none."""
        values = {low(n): r[0] for n, r in ranges.items()} | {high(n): r[1] for n, r in ranges.items()}
        places: list[tuple[int, int]] = []
        for lower, upper in self.ways:
            start = max([0, *(-(_value(e, values) // a) for a, e in lower)])
            stop = min([extent, *(_value(e, values) // a + 1 for a, e in upper)])
            if start < stop:
                places.append((start, stop))
        return (min(f[0] for f in places), max(f[1] for f in places)) if places else (0, 0)

    def follows(self) -> set[str]:
        """The indices that are cut on whose bounds the places depend."""
        names = {n for way in self.ways for side in way for _, e in side for n in e.names()}
        return {n.rpartition(".")[0] for n in names}


@dataclass(frozen=True)
class BlockPoints:
    """Which blocks of work may have points: those for whose bounds all constraints of one of the `ways` hold."""

    ways: tuple[tuple[Constraint, ...], ...]

    def at(self, bounds: Mapping[str, Any]) -> Any:
        """Whether blocks of work with these values of `low` and `high`, numbers or arrays of them, may have points."""
        some: Any = False
        for constraints in self.ways:
            all_hold: Any = True
            for c in constraints:
                value = _value(c.value, bounds)
                all_hold = all_hold & (value == 0 if c.equality else value >= 0)
            some = some | all_hold
        return some


def _value(affine: Affine, values: Mapping[str, Any]) -> Any:
    total: Any = affine.constant
    for atom, factor in affine.terms:
        one = _value(atom.numerator, values) // atom.divisor if isinstance(atom, Floor) else values[atom]
        total += factor * one
    return total


class BlocksOfWork:
    """The iteration space over `cut` indices, and others, with these extents and under these conditions. `narrowed` are
    indices that have a range of their own in each block of work, too, though they are not cut."""

    def __init__(
        self, extents: Mapping[str, int], cut: Sequence[str], sizes: Mapping[str, int], narrowed: Sequence[str] = ()
    ) -> None:
        self.extents = extents
        self.cut = tuple(cut)
        self.narrowed = tuple(n for n in narrowed if n not in self.cut)
        self.sizes = {n: Num(v) for n, v in sizes.items()}
        self.bounds = tuple(n for i in (*self.cut, *self.narrowed) for n in (low(i), high(i)))

    def domain(self, conditions: Sequence[Formula], names: Sequence[str]) -> list[Formula]:
        """That a point is one of the block of work."""
        conditions_of_points: list[Formula] = []
        for name in (n for n in self.extents if n in names):
            conditions_of_points.append(chain(Num(0), "<=", Var(name), "<", Num(self.extents[name])))
        for name in (*self.cut, *(n for n in self.narrowed if n in names)):
            conditions_of_points.append(
                chain(Num(0), "<=", Var(low(name)), "<=", Var(high(name)), "<=", Num(self.extents[name]))
            )
            conditions_of_points.append(chain(Var(low(name)), "<=", Var(name), "<", Var(high(name))))
        return [*conditions_of_points, *(substitute(c, self.sizes) for c in conditions)]

    def _names(self, nodes: Sequence[Any]) -> list[str]:
        used = {n for node in nodes for n in within(node)} - set(self.sizes)
        return [*self.cut, *sorted(used - set(self.cut))]

    def part(self, subscript: Expr, extent: int, under: Sequence[Sequence[Formula]]) -> ReadPart | None:
        """The places that a subscript speaks of; None where isl does not know."""
        subscript = substitute(subscript, self.sizes)
        ways_of_place: list[tuple[tuple[Side, ...], tuple[Side, ...]]] = []
        known = EXACT
        for conditions in under or ((),):
            try:
                ways = self._ways(subscript, extent, conditions)
            except (NotAffine, TooManyPieces):
                known = BOX
                try:
                    ways = self._ways(subscript, extent, ())
                except (NotAffine, TooManyPieces):
                    return None
            ways_of_place += [w for w, _ in ways]
            known = known if all(exact for _, exact in ways) else BOX
        return ReadPart(tuple(dict.fromkeys(ways_of_place)), known if len(set(ways_of_place)) <= 1 else BOX)

    def _ways(
        self, subscript: Expr, extent: int, conditions: Sequence[Formula]
    ) -> list[tuple[tuple[tuple[Side, ...], tuple[Side, ...]], bool]]:
        names = self._names([subscript, *conditions])
        if not set(names) <= set(self.extents):
            conditions, names = (), self._names([subscript])
        if not set(names) <= set(self.extents):
            raise NotAffine(subscript)
        space = Space((*self.bounds, "at", *names))
        place = [Compare("=", Var("at"), subscript), chain(Num(0), "<=", Var("at"), "<", Num(extent))]
        shown = Space((*self.bounds, "at"))
        found_ways = []
        for piece in pieces(space, conjunction([*self.domain(conditions, names), *place]), _no_calls):
            exact = piece.without_exactly(shown)
            box = piece.project(shown.names).without(set(names))
            lower, upper = bounds_of(box.constraints("at"), "at")
            lower, upper = _both(box, lower, upper)
            known = space_of(shown, lower, upper, box)
            found_ways.append(((tuple(lower), tuple(upper)), known.is_subset(exact)))
        return found_ways

    def points(self, under: Sequence[Sequence[Formula]]) -> BlockPoints | None:
        """Which blocks of work may have points under one of these conjunctions; None where isl does not know, or where
        all may."""
        ways: list[tuple[Constraint, ...]] = []
        for conditions in under:
            names = self._names(conditions)
            if not conditions or not set(names) <= set(self.extents):
                return None
            try:
                some = pieces(Space((*self.bounds, *names)), conjunction(self.domain(conditions, names)), _no_calls)
            except (NotAffine, TooManyPieces):
                return None
            ways += [tuple(p.project(self.bounds).without(set(names)).constraints()) for p in some]
        return BlockPoints(tuple(ways))

    def parts_in_two(self, index: str, conditions: Sequence[Formula]) -> bool:
        """Whether a cut within a block parts its points in two sets that have none in common, and are all of them."""
        names = [n for n in self._names(list(conditions)) if n in self.extents]
        if not set(self._names(list(conditions))) <= set(self.extents):
            return False
        at = Var(index + ".at")
        space = Space((*self.bounds, index + ".at", *names))
        inside = [*self.domain(conditions, names), chain(Var(low(index)), "<=", at, "<=", Var(high(index)))]
        try:
            whole, left, right = (
                pieces(space, conjunction([*inside, *more]), _no_calls)
                for more in ((), (Compare("<", Var(index), at),), (Compare("<=", at, Var(index)),))
            )
        except (NotAffine, TooManyPieces):
            return False
        apart = all(a.intersect(b).is_empty() for a in left for b in right)
        return apart and all(_covered(w, [*left, *right]) for w in whole)

    def writes_apart(self, index: str, subscript: Expr) -> bool:
        """Whether two blocks, one behind the other along the index, never write the same place."""
        names, other = [index], f"{index}.other"
        space = Space((*self.bounds, *(n for n in self.cut if n not in names), *names, other))
        second = substitute(subscript, {index: Var(other)})
        behind = chain(Var(high(index)), "<=", Var(other), "<", Num(self.extents[index]))
        try:
            same = pieces(
                space, conjunction([*self.domain((), self.cut), behind, Compare("=", subscript, second)]), _no_calls
            )
        except (NotAffine, TooManyPieces):
            return False
        return not same


def _no_calls(call: Any) -> str:
    raise NotAffine(call)


def _covered(piece: Piece, parts: Sequence[Piece]) -> bool:
    left = [piece]
    for part in parts:
        left = [piece_left for one in left for piece_left in one.subtract(part)]
    return not left


def _both(box: Piece, lower: list[Side], upper: list[Side]) -> tuple[list[Side], list[Side]]:
    """An equality bounds from both sides."""
    for constraint in box.constraints("at"):
        factor = constraint.value.coefficient("at")
        if constraint.equality and factor and not any("at" in f.numerator.names() for f in constraint.value.floors()):
            bound = constraint.value.without("at").scaled(1 if factor > 0 else -1)
            lower = [*lower, (abs(factor), bound)]
            upper = [*upper, (abs(factor), bound.scaled(-1))]
    return list(dict.fromkeys(lower)), list(dict.fromkeys(upper))


def space_of(space: Space, lower: Sequence[Side], upper: Sequence[Side], box: Piece) -> Piece:
    """The box that the bounds make, for all bounds of blocks for which there is a point."""
    at = Affine((("at", 1),))
    sides = [Constraint(False, at.scaled(a) + e) for a, e in lower]
    sides += [Constraint(False, e - at.scaled(a)) for a, e in upper]
    others = [c for c in box.constraints() if "at" not in c.value.names()]
    return space.of([*sides, *others])
