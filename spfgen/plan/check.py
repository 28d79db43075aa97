"""Translation validation: the domain that a nest implements is the domain that was asked for (DESIGN.md §11).

The nest is read back as constraints, independently of how it was made. With the declared facts, both sets must be
equal; and where an index array is read, what is enforced so far must keep the subscript within the array.
"""

from __future__ import annotations

from spfgen.errors import InternalError
from spfgen.facts.formula import Compare, Formula, Var, show, variables
from spfgen.plan.nodes import (
    Bound,
    Clear,
    Do,
    Find,
    Guard,
    Load,
    Locate,
    Pick,
    Plan,
    Reach,
    Reduce,
    Scan,
    Segment,
    Seq,
    State,
    Table,
)
from spfgen.sets.named import Piece
from spfgen.sets.uf import comparisons
from spfgen.space.nodes import Instance


def check_nest(instance: Instance, plan: Plan) -> None:
    """Raises InternalError with a sample point when the plan visits other points, or reads outside an array."""
    space = instance.domain.space
    facts = space.of(comparisons(instance.facts))
    reader = Reader(instance, space.universe())
    reader.read(plan)
    implemented = reader.enforced.intersect(facts)
    wanted = instance.domain.intersect(facts)
    for smaller, bigger, what in (
        (implemented, wanted, "the plan visits a point that was not asked for"),
        (wanted, implemented, "the plan leaves out a point"),
    ):
        if not smaller.is_subset(bigger):
            point = next((p.sample() for p in smaller.subtract(bigger)), None)
            raise InternalError(f"{what}: {point}")


class Reader:
    """Walks one path of nested nodes and gathers what they enforce."""

    def __init__(self, instance: Instance, enforced: Piece) -> None:
        self.instance = instance
        self.enforced = enforced
        self.defined = set(instance.sizes)

    def require(self, *formulas: Formula) -> None:
        self.enforced = self.enforced.with_constraints(comparisons(formulas))

    def define(self, dim: str) -> None:
        if dim in self.defined:
            raise InternalError(f"the plan defines {dim} twice")
        self.defined.add(dim)

    def read(self, plan: Plan) -> None:
        match plan:
            case Scan(dim, low, high, body) | Find(dim, low, high, hit=body):
                self.define(dim)
                own = set(self.instance.domain.space.names)
                self.require(*(Compare(">=", Var(dim), e) for e in low if variables(e) <= own))
                self.require(*(Compare("<", Var(dim), e) for e in high if variables(e) <= own))
                if isinstance(plan, Find):
                    given = [f for f in plan.given if variables(f) <= own]
                    self.require(*(f for f in given if not variables(f) & {d for d, _ in plan.loads}))
                    for name, _ in plan.loads:
                        self.load(name)
                    if plan.key is not None:
                        self.require(Compare("=", Var(plan.key.dim), plan.key.value))
                    self.require(*given, *plan.conditions)
                self.read(body)
            case Locate(dim, value, body):
                self.define(dim)
                self.require(Compare("=", Var(dim), value))
                self.read(body)
            case Load(dim, _, body):
                self.load(dim)
                self.read(body)
            case Guard(conditions, body):
                self.require(*conditions)
                self.read(body)
            case Bound(_, dim, low, high, condition=condition, body=body):
                own = set(self.instance.domain.space.names)
                self.require(*(Compare(">=", Var(dim), e) for e in low if variables(e) <= own))
                self.require(*(Compare("<", Var(dim), e) for e in high if variables(e) <= own))
                self.require(condition)
                self.read(body)
            case Reduce(_, _, body) | Reach(body=body) | State(body=body) | Table(body=body) | Segment(body=body):
                self.read(body)
            case Pick():
                pass
            case Do():
                missing = set(self.instance.domain.space.names) - self.defined
                if missing:
                    raise InternalError(f"the plan does not define {sorted(missing)}")
            case Seq() | Clear():
                raise InternalError("expected the nest of one instance, but this is a sequence")
            case _:
                raise InternalError(f"unknown plan node {plan!r}")

    def load(self, name: str) -> None:
        """What is known here must imply that the arguments lie within the array."""
        known = self.enforced.with_constraints(
            c for c in comparisons(self.instance.facts) if c.value.names() <= self.defined
        )
        for formula in self.instance.domains[name]:
            for constraint in comparisons(getattr(formula, "parts", (formula,))):
                if not known.implies(constraint):
                    raise InternalError(f"{name} may be read outside its array: {show(formula)} is not enforced")
        self.define(name)
