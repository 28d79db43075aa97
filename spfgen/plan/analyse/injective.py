"""Positions that are proved equal need no search.

Where two calls of one index array have the same value, and Z3 proves from the declared properties that the array
holds no value twice there, their positions are the same: `C.pj = A.pj` when C shares the index arrays of A.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from spfgen.facts.formula import ZERO, Compare, Formula, Var, calls
from spfgen.facts.prove import implied
from spfgen.sets.affine import Affine, expression
from spfgen.sets.named import Constraint
from spfgen.sets.uf import linear, merge_equal_calls
from spfgen.space.nodes import Instance


def with_equal_positions(instance: Instance) -> Instance:
    """The instance with what follows by injectivity added to its domain."""
    refused: set[tuple[str, str]] = set()
    while True:
        found = None
        for candidate in _candidates(instance):
            if candidate not in refused:
                refused.add(candidate)
                if _same(instance, *candidate):
                    found = candidate
                    break
        if found is None:
            return instance
        one, two = (instance.calls[n] for n in found)
        equal = [
            Constraint(True, linear(a) - linear(b)) for a, b in zip(one.arguments, two.arguments, strict=True) if a != b
        ]
        domain, same = merge_equal_calls(instance.domain.with_constraints(equal), instance.calls)
        if domain.is_empty():  # by the declared properties there is no point: loops that find none are as good
            return instance
        instance = replace(instance, domain=domain, aliases=same)


def _candidates(instance: Instance) -> list[tuple[str, str]]:
    """Pairs of calls of one array that are equal in the domain, with arguments that are not (yet)."""
    result = []
    for one, two in combinations(instance.calls, 2):
        a, b = instance.calls[one], instance.calls[two]
        if a.function != b.function or {one, two} & set(instance.aliases):
            continue
        if not any(sum(c.function == a.function for c in calls(f)) > 1 for f in instance.axioms.formulas):
            continue
        if instance.domain.implies(Constraint(True, Affine(((one, 1), (two, -1))))):
            result.append((one, two))
    return result


def _same(instance: Instance, one: str, two: str) -> bool:
    """Whether equal values mean equal arguments, given all that is known."""
    known: list[Formula] = []
    for constraint in instance.domain.constraints():
        known.append(Compare("=" if constraint.equality else ">=", expression(constraint.value), ZERO))
    known += [Compare("=", Var(n), c) for n, c in instance.calls.items()]
    pairs = zip(instance.calls[one].arguments, instance.calls[two].arguments, strict=True)
    return all(
        implied(known, instance.axioms, Compare("=", a, b), about=f"{one} = {two}: the positions are the same").proved
        for a, b in pairs
        if a != b
    )
