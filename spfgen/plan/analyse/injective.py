"""Positions that are proved equal need no search.

Where two calls of one index array have the same value, and Z3 proves from the declared properties that the array
holds no value twice there, their positions are the same: `C.pj = A.pj` when C shares the index arrays of A. Where it
takes several arrays to say where an entry is (a row of blocks, a place in the block), two accesses at one coordinate
are asked position by position.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from spfgen.facts.formula import Compare, Expr, Var, calls, variables
from spfgen.facts.prove import implied
from spfgen.sets.affine import Affine
from spfgen.sets.named import Constraint
from spfgen.sets.uf import as_formulas, linear, merge_equal_calls
from spfgen.space.nodes import Instance, Operand

Pair = tuple[Expr, Expr]


def with_equal_positions(instance: Instance) -> Instance:
    """The instance with what follows by injectivity added to its domain."""
    refused: set[Pair] = set()
    while True:
        equal_pairs = None
        for about, pairs in _candidates(instance):
            open_pairs = [p for p in pairs if p[0] != p[1]]
            if refused.isdisjoint(open_pairs):
                if _same(instance, about, open_pairs):
                    equal_pairs = open_pairs
                    break
                refused.update(open_pairs)
        if equal_pairs is None:
            return instance
        equal = [Constraint(True, linear(a) - linear(b)) for a, b in equal_pairs]
        domain, same = merge_equal_calls(instance.domain.with_constraints(equal), instance.calls)
        if domain.is_empty():  # by the declared properties there is no point: loops that find none are as good
            return instance
        instance = replace(instance, domain=domain, aliases=same)


def _candidates(instance: Instance) -> Iterator[tuple[str, list[Pair]]]:
    """What may be equal: the arguments of calls of one array that are equal in the domain, then the positions of
    accesses at one coordinate that read the same arrays."""
    for one, two in combinations(instance.calls, 2):
        a, b = instance.calls[one], instance.calls[two]
        if a.function != b.function or {one, two} & set(instance.aliases):
            continue
        if not any(sum(c.function == a.function for c in calls(f)) > 1 for f in instance.axioms.formulas):
            continue
        if instance.domain.implies(Constraint(True, Affine(((one, 1), (two, -1))))):
            yield f"{one} = {two}", list(zip(a.arguments, b.arguments, strict=True))
    for left, right in combinations((instance.target, *instance.reads), 2):
        if len(left.positions) == len(right.positions) and _at_one_place(instance, left, right):
            for p, q in zip(left.positions, right.positions, strict=True):
                arrays = _arrays(instance, p)
                if arrays and arrays == _arrays(instance, q) and not _equal(instance, Var(p), Var(q)):
                    yield f"{left.label} and {right.label} are at one coordinate", [(Var(p), Var(q))]


def _at_one_place(instance: Instance, one: Operand, two: Operand) -> bool:
    return len(one.subscripts) == len(two.subscripts) and all(
        _equal(instance, a, b) for a, b in zip(one.subscripts, two.subscripts, strict=True)
    )


def _equal(instance: Instance, one: Expr, two: Expr) -> bool:
    if one == two:
        return True
    known = {*instance.domain.space.names}
    return variables(one) | variables(two) <= known and instance.domain.implies(
        Constraint(True, linear(one) - linear(two))
    )


def _arrays(instance: Instance, position: str) -> set[str]:
    """The index arrays that are read at a position."""
    return {c.function for c in instance.calls.values() if any(position in variables(a) for a in c.arguments)}


def _same(instance: Instance, about: str, pairs: list[Pair]) -> bool:
    """Whether they are equal, given all that is known."""
    known = as_formulas(instance.domain.constraints())
    known += [Compare("=", Var(n), c) for n, c in instance.calls.items()]
    return all(
        implied(known, instance.axioms, Compare("=", a, b), about=f"{about}: the positions are the same").proved
        for a, b in pairs
    )
