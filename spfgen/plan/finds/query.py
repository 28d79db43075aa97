"""What a find asks, and the obligations that algorithms have about it (Zhao et al. 2022, appendix A.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from spfgen.facts.formula import (
    Call,
    Compare,
    Expr,
    Formula,
    Or,
    Var,
    calls,
    conjunction,
    other_arguments,
    rename,
    variables,
)
from spfgen.facts.prove import Answer, implied
from spfgen.plan.analyse.cost import Counts, over, times
from spfgen.plan.analyse.scan import Step, made_of, sources
from spfgen.plan.nodes import Find
from spfgen.sets.affine import Affine, divided, expression
from spfgen.sets.bounds import single_value
from spfgen.sets.named import Constraint, Piece
from spfgen.sets.uf import as_formulas, comparisons
from spfgen.space.nodes import Instance


@dataclass(frozen=True)
class KnownLoad:
    """A loaded call whose value is known outside of the find: floor(numerator / divisor)."""

    dim: str
    call: Call
    value: Expr
    numerator: Affine
    divisor: int


@dataclass(frozen=True)
class Order:
    """`descending` is None when the array is not sorted; `unique`: no value stands twice; `doubt`: why it is not
    sorted."""

    descending: bool | None
    unique: bool
    words: str
    doubt: str = ""


@dataclass(frozen=True)
class Query:
    """A find in its surroundings."""

    instance: Instance
    find: Find
    steps: tuple[Step, ...]
    """Those outside of it, the outermost first."""
    before: Piece
    """What holds there."""
    domain: Piece
    single: Mapping[str, frozenset[str]]
    """The dimensions among the steps that are found at most once (no loops), with what they depend on."""
    defined: Mapping[str, frozenset[str]]
    """The bounds of segments, with what they depend on."""
    counts: Counts
    trips: dict[str, Expr]
    """How often each loop among the steps runs."""
    length: Expr
    """How many positions the find has to tell apart."""
    types: Mapping[str, str]
    """The value types of the tensors."""
    parallel: str = ""
    """The loop around it that runs on several threads."""
    falling: frozenset[str] = frozenset()
    """Loops that run downwards."""
    orders: dict[str, Order] = field(default_factory=dict)

    @cached_property
    def outer(self) -> frozenset[str]:
        """The dimensions that are known outside."""
        return frozenset({*self.instance.sizes, *(s.dim for s in self.steps)})

    @cached_property
    def loops(self) -> tuple[str, ...]:
        """The loops around the find, outermost first."""
        return tuple(s.dim for s in self.steps if s.kind == "scan" and s.dim not in self.single)

    @property
    def fixed(self) -> tuple[str, ...]:
        """The loops outside of the parallel one: a thread keeps nothing from one of their iterations to the next."""
        return self.loops[: self.loops.index(self.parallel)] if self.parallel in self.loops else ()

    @cached_property
    def visits(self) -> Expr:
        """How often the find is reached."""
        return times(*self.trips.values())

    @cached_property
    def keys(self) -> tuple[KnownLoad, ...]:
        """The loaded calls whose value is known outside, in the order in which they are loaded."""
        result = []
        given = {n for f in self.find.given if isinstance(f, Compare) and f.op == "=" for n in variables(f.left)}
        for dim, call in self.find.loads:
            others = other_arguments(call, self.find.dim)  # the positions lie side by side
            if dim in given or call.arguments[-1] != Var(self.find.dim) or self.find.dim in variables(*others):
                continue
            about = self.domain.project({*self.outer, dim}).constraints(dim)
            single = single_value(about, dim)
            if single is not None and single[0].names() <= self.outer:
                numerator, divisor = single
                result.append(KnownLoad(dim, call, expression(divided(numerator, divisor)), numerator, divisor))
        return tuple(result)

    def matches(self, key: KnownLoad) -> Expr:
        """How many of the positions hold the key, on average."""
        return over(self.length, self.counts.extent(key.dim))

    # --- what determines what --------------------------------------------------------------------

    def determined(self, given: Iterable[str]) -> set[str]:
        """The dimensions that have one value when these have: computed, loaded or found at most once from them."""
        result = {*given, *self.instance.sizes}
        for step in self.steps:
            single = step.kind != "scan" or step.dim in self.single
            if single and self.single.get(step.dim, made_of(step)) <= result:
                result.add(step.dim)
            result |= {name for name, needed in self.defined.items() if needed <= result}
        return result

    def sources(self, names: Iterable[str]) -> set[str]:
        """These dimensions and all that their values come from."""
        return sources(self.steps, names, self.defined)

    # --- formulas --------------------------------------------------------------------------------

    def context(self, about: set[str]) -> list[Formula]:
        """What holds outside of these dimensions, the calls written out (C2, C3 and P5 of appendix A.1)."""
        known = self.before.project({*about, *self.instance.sizes})
        result = [*self.instance.sizes_known, *as_formulas(known.constraints())]
        result += [Compare("=", Var(n), c) for n, c in self.instance.calls.items() if n in about]
        return result

    @cached_property
    def surroundings(self) -> list[Formula]:
        """What holds outside of the find."""
        return self.context(set(self.outer))

    def position(self, name: str) -> list[Formula]:
        """A position of the find within its bounds, with what is given of each."""
        dim = self.find.dim
        result: list[Formula] = [Compare(">=", Var(dim), e) for e in self.find.low]
        result += [Compare("<", Var(dim), e) for e in self.find.high]
        if self.find.given:
            result += self.find.given
            result += [Compare("=", Var(d), c) for d, c in self.find.loads]
        names = {d: f"{d}{name.removeprefix(dim)}" for d in (dim, *(d for d, _ in self.find.loads))}
        return [rename(f, names) for f in result] if name != dim else result

    def facts_compare(self, function: str) -> bool:
        """Whether a fact speaks of two values of the array at all: without one there is nothing to prove."""
        return any(sum(c.function == function for c in calls(f)) > 1 for f in self.instance.axioms.formulas)

    def order(self, key: KnownLoad) -> Order:
        """How the key's array runs within the bounds; asked once."""
        if key.dim not in self.orders:
            self.orders[key.dim] = self._order(key.call)
        return self.orders[key.dim]

    def _order(self, call: Call) -> Order:
        if not self.facts_compare(call.function):
            why = f"no property compares two values of {call.function}"
            return Order(None, False, why, why)
        for descending, strict, weak in ((False, "<", "<="), (True, ">", ">=")):
            if self.ordered(call, weak).proved:
                unique = self.ordered(call, strict).proved
                words = (
                    f"{call.function} is {'strictly ' if unique else ''}{'decreasing' if descending else 'increasing'}"
                )
                return Order(descending, unique, f"{words} within these bounds")
        why = f"{call.function} is not proved to be increasing or decreasing within these bounds"
        if self.ordered(call, "!=").proved:
            return Order(None, True, f"{call.function} holds no value twice within these bounds", why)
        return Order(None, False, why, why)

    def ordered(self, call: Call, op: str) -> Answer:
        """Whether p < q within the bounds implies f(p) op f(q)."""
        dim = self.find.dim
        twin = f"{dim}'"
        assumptions = [*self.position(dim), *self.position(twin), Compare("<", Var(dim), Var(twin))]
        goal = Compare(op, call, rename(call, {dim: twin}))
        return self.ask(assumptions, goal, f"{call.function} along {dim}: {_ORDER[op]}")

    def ask(self, assumptions: Sequence[Formula], goal: Formula, about: str) -> Answer:
        """First with what the terms come from, then with all that is known outside."""
        named = variables(*assumptions, goal) & self.outer
        near = self.sources(named - set(self.instance.sizes))
        answer = implied([*self.context(near), *assumptions], self.instance.axioms, goal, about=about)
        if answer.proved or near >= self.outer - set(self.instance.sizes):
            return answer
        return implied([*self.surroundings, *assumptions], self.instance.axioms, goal, about=about)

    def above(self, loop: str) -> Query:
        """The same question asked above a loop, where what it needs is known already."""
        position = [s.dim for s in self.steps].index(loop)
        before = self.steps[position].before
        assert before is not None
        kept = {s.dim for s in self.steps[:position]}
        trips = {d: t for d, t in self.trips.items() if d in kept}
        return replace(self, steps=self.steps[:position], before=before, trips=trips, orders={})

    def known_above(self, loop: str) -> set[str]:
        """The dimensions that are known directly above a loop."""
        names = [s.dim for s in self.steps]
        result = {*self.instance.sizes, *names[: names.index(loop)]}
        return result | {n for n, needed in self.defined.items() if needed <= result}

    def later(self, key: Expr, state: Sequence[str], goal: str) -> Answer:
        """Whether of two iterations with one state the earlier one has a key that is `goal` that of the later.

        Two instances of the enclosing loops (C1: lexicographic order, C2, C3, P5 of appendix A.1) with equal state
        indices (A7); the goal is the loop order (A8), or for a strict one exclusivity (A10).
        """
        about = self.sources({*self.loops, *state, *(variables(key) & self.outer)}) - set(self.instance.sizes)
        same = self.determined(state)  # has one name in both: it is equal
        twin = {n: f"{n}'" for n in about if n not in same}
        one = self.context(about)
        two = [f for f in (rename(f, twin) for f in one) if f not in one]
        order = [
            conjunction(
                [
                    *(Compare("=", Var(o), Var(twin[o])) for o in self.loops[:k] if o in twin),
                    Compare(">" if d in self.falling else "<", Var(d), Var(twin[d])),
                ]
            )
            for k, d in enumerate(self.loops)
            if d in twin
        ]
        wanted = Compare(goal, key, rename(key, twin))
        within = f" for one value of {', '.join(state)}" if state else ""
        words = f"keys of {self.find.dim}{within}: {_LATER[goal]}"
        lexicographic = order[0] if len(order) == 1 else Or(tuple(order))
        return implied([*one, *two, lexicographic], self.instance.axioms, wanted, about=words)

    def remaining(self, key: KnownLoad) -> tuple[Formula, ...]:
        """The conditions that the key does not already imply."""
        remainder = key.numerator - Affine(((key.dim, key.divisor),))
        fixed = [Constraint(False, remainder), Constraint(False, remainder.scaled(-1).plus(key.divisor - 1))]
        names = set(self.before.space.names)
        given = [c for c in comparisons(self.find.given) if c.value.names() <= names]
        known = self.before.with_constraints([*fixed, *given])
        constraints_of = {
            f: comparisons([f]) for f in self.find.conditions
        }  # nothing for what is not affine: that stays
        return tuple(
            f
            for f, constraints in constraints_of.items()
            if not constraints or not all(map(known.implies, constraints))
        )

    def total(self, each: Expr) -> Expr:
        """The cost of all visits."""
        return times(self.visits, each)


_ORDER = {
    "<": "strictly increasing",
    "<=": "increasing",
    ">": "strictly decreasing",
    ">=": "decreasing",
    "!=": "injective",
}
_LATER = {
    "<=": "increasing",
    ">=": "decreasing",
    "<": "strictly increasing",
    ">": "strictly decreasing",
    "=": "equal",
}
