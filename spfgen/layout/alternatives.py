"""Relations with `or`: in which order packing tries the branches, and which coordinates each branch takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, pairwise, permutations, product
from math import factorial

from spfgen.facts.formula import ZERO, And, Call, Formula, Or, Var, conjunction, within
from spfgen.facts.instances import implications
from spfgen.layout.points import Encoded, involved
from spfgen.sets.affine import Affine, NotAffine
from spfgen.sets.named import Constraint, Piece, pieces
from spfgen.sets.uf import Encoder, comparisons, without_unused


def in_turn(encoded: Encoded) -> Encoded:
    """With the pieces in the order in which the alternatives of the relation are written: entries try them so."""
    if len(encoded.pieces) < 2:
        return encoded
    parts_of: list[list[Piece]] = []
    for formula in alternatives(encoded.layout.relation):
        encoder = Encoder()
        plain = encoder.formula(formula)
        parts_of.append(pieces(encoded.space, conjunction([plain, *encoder.definitions()]), _no_call))

    def number(piece: Piece) -> int:
        containing = (k for k, parts in enumerate(parts_of) if any(piece.is_subset(p) for p in parts))
        return next(containing, len(parts_of))

    return replace(encoded, pieces=tuple(sorted(encoded.pieces, key=number)))


def apart(encoded: Encoded) -> Encoded:
    """With a piece for each alternative of the relation, also where some make one set, or one makes
    several; they may overlap."""
    layout = encoded.layout
    inside = [within(Var(c), ZERO, Var(n)) for c, n in zip(layout.coordinates, layout.parameters, strict=True)]
    disjuncts: list[Piece] = []
    for formula in alternatives(layout.relation):
        encoder = Encoder()
        plain = encoder.formula(conjunction([formula, *inside]))
        parts = pieces(encoded.space, conjunction([plain, *encoder.definitions()]), _no_call)
        disjuncts += [without_unused(p, encoder)[0] for p in parts] if len(parts) > 1 else parts
    return replace(encoded, pieces=tuple(disjuncts)) if len(disjuncts) != len(encoded.pieces) else encoded


def alternatives(formula: Formula) -> Iterator[Formula]:
    """The formulas without `or`, in the order of the text, of which one must hold."""
    match formula:
        case Or(parts):
            for part in parts:
                yield from alternatives(part)
        case And(parts):
            for chosen in product(*(tuple(alternatives(p)) for p in parts)):
                yield conjunction(chosen)
        case _:
            yield formula


def _no_call(call: Call) -> str:
    raise NotAffine(call)


def informed_piece(encoded: Encoded, piece: Piece) -> Piece:
    """With what the ranges and properties of index arrays say of the calls that the piece speaks of."""
    mine = set(involved(encoded, piece))
    others = encoded.calls.keys() - mine
    informed = piece.intersect(encoded.facts.restrict(set(encoded.space.names) - others))
    involved_calls = {n: c for n, c in encoded.calls.items() if n in mine}
    facts = [p.formula for a in encoded.layout.indexes for p in a.properties]
    for conditions, conclusions in implications(facts, involved_calls):
        given = comparisons(conditions)
        if len(given) == len(conditions) and all(informed.implies(c) for c in given):
            informed = informed.with_constraints(comparisons(conclusions))
    return informed


def taken_once(encoded: Encoded, informed: tuple[Piece, ...]) -> list[Piece]:
    """The pieces with a choice among entries that are stored together: where the alternatives are one relation with
    its coordinates in all orders, as in a symmetric layout, entries take the one that stores them in descending order.
    """
    layout = encoded.layout
    if len(encoded.pieces) < 2:
        return list(informed)
    coordinates = layout.coordinates
    whole = _whole_alternatives(encoded)
    count = next((n for n in range(1, len(coordinates) + 1) if factorial(n) >= len(whole)), 0)
    if not count or factorial(count) != len(whole):
        return list(informed)
    possible = _orders(coordinates, count)
    orders: list[tuple[str, ...]] = []
    for alternative in whole:
        unused = (o for o in possible if o not in orders)
        order = next((o for o in unused if _is_same(_permuted(whole[0], coordinates, o), alternative)), None)
        if order is None:
            return list(informed)
        orders.append(order)
    moved = [k for k, name in enumerate(coordinates) if any(o[k] != name for o in orders)]
    if not moved or len(orders) != factorial(len(moved)):
        return list(informed)
    falling = [Affine(((coordinates[a], 1), (coordinates[b], -1))) for a, b in pairwise(moved)]
    rising = [Affine(((coordinates[b], 1), (coordinates[a], -1))) for a, b in pairwise(moved)]
    first = [k for p, k in zip(encoded.pieces, informed, strict=True) if p.is_subset(whole[0])]
    for values in (falling, rising):  # the facts may have chosen
        apart = [Constraint(False, v.plus(-1)) for v in values]
        if all(known.with_constraints(apart).is_empty() for known in first):
            return list(informed)
    chosen = []
    for piece, known in zip(encoded.pieces, informed, strict=True):
        order = next((o for o, alternative in zip(orders, whole, strict=True) if piece.is_subset(alternative)), None)
        if order is None:
            return list(informed)
        new = dict(zip(coordinates, order, strict=True))
        chosen.append(known.with_constraints(Constraint(False, v.renamed(new)) for v in falling))
    return chosen


def _orders(names: tuple[str, ...], count: int) -> list[tuple[str, ...]]:
    """The orders of names that move no more than so many of them, those that leave the first ones first."""
    orders = {tuple(range(len(names)))}
    for moved in combinations(range(len(names)), count):
        for order in permutations(moved):
            places = dict(zip(moved, order, strict=True))
            orders.add(tuple(places.get(k, k) for k in range(len(names))))
    return [tuple(names[k] for k in order) for order in sorted(orders)]


def _whole_alternatives(encoded: Encoded) -> list[Piece]:
    """The alternatives of the relation as they are written, without extents; none where one takes several pieces."""
    whole: list[Piece] = []
    for formula in alternatives(encoded.layout.relation):
        encoder = Encoder()
        plain = encoder.formula(formula)
        parts = pieces(encoded.space, conjunction([plain, *encoder.definitions()]), _no_call)
        if len(parts) != 1:
            return []
        whole += parts
    return whole


def _permuted(piece: Piece, names: tuple[str, ...], order: tuple[str, ...]) -> Piece:
    """The piece with coordinates in place of others."""
    new = dict(zip(names, order, strict=True))
    return piece.space.of(Constraint(c.equality, c.value.renamed(new)) for c in piece.constraints())


def _is_same(one: Piece, other: Piece | None) -> bool:
    return other is not None and one.is_subset(other) and other.is_subset(one)
