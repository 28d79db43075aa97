"""What a find asks, and the obligations that algorithms have about it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from spfgen.facts.formula import ZERO, Call, Compare, Expr, Formula, Var, calls, rename, variables
from spfgen.facts.prove import Answer, implied
from spfgen.plan.nodes import Find
from spfgen.sets.affine import Affine, divided, expression
from spfgen.sets.bounds import single_value
from spfgen.sets.named import Constraint, Piece
from spfgen.sets.uf import comparisons
from spfgen.space.nodes import Instance


@dataclass(frozen=True)
class Query:
    """A find in its surroundings: `before` is what holds outside of it, `outer` the dimensions that are known there."""

    instance: Instance
    find: Find
    before: Piece
    outer: frozenset[str]
    domain: Piece

    @cached_property
    def key(self) -> tuple[str, Expr, Affine, int] | None:
        """(call, its only possible value, as a quotient) for the first loaded call whose value is known outside."""
        for dim, call in self.find.loads:
            if call.arguments[-1] != Var(self.find.dim) or self.find.dim in _names(call.arguments[:-1]):
                continue
            about = self.domain.project({*self.outer, dim}).constraints(dim)
            single = single_value(about, dim)
            if single is not None and single[0].names() <= self.outer:
                numerator, divisor = single
                return dim, expression(divided(numerator, divisor)), numerator, divisor
        return None

    @cached_property
    def surroundings(self) -> list[Formula]:
        """What holds outside, the calls written out, and the position within its bounds."""
        result: list[Formula] = []
        for constraint in self.before.constraints():
            if constraint.value.names() <= self.outer:
                op = "=" if constraint.equality else ">="
                result.append(Compare(op, expression(constraint.value), ZERO))
        result += [Compare("=", Var(n), c) for n, c in self.instance.calls.items() if n in self.outer]
        return result

    def facts_compare(self, function: str) -> bool:
        """Whether a fact speaks of two values of the array at all: without one there is nothing to prove."""
        return any(sum(c.function == function for c in calls(f)) > 1 for f in self.instance.axioms.formulas)

    def ordered(self, call: Call, op: str) -> Answer:
        """Whether p < q within the bounds implies f(p) op f(q)."""
        dim = self.find.dim
        twin = f"{dim}'"
        inside: list[Formula] = [Compare(">=", Var(dim), e) for e in self.find.low]
        inside += [Compare("<", Var(twin), e) for e in self.find.high]
        inside.append(Compare("<", Var(dim), Var(twin)))
        goal = Compare(op, call, rename(call, {dim: twin}))
        return implied([*self.surroundings, *inside], self.instance.axioms, goal)

    def remaining(self) -> tuple[Formula, ...]:
        """The conditions that the key does not already imply."""
        assert self.key is not None
        dim, _, numerator, divisor = self.key
        rest = numerator - Affine(((dim, divisor),))
        fixed = [Constraint(False, rest), Constraint(False, rest.scaled(-1).plus(divisor - 1))]
        known = self.before.with_constraints(fixed)
        return tuple(f for f in self.find.conditions if not all(known.implies(c) for c in comparisons([f])))


def _names(exprs: tuple[Expr, ...]) -> set[str]:
    return {n for e in exprs for n in variables(e)}
