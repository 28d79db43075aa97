"""Translation validation: the domain that a nest implements is the domain that was asked for (DESIGN.md §11).

The nest is read back as constraints, independently of how it was made. With the declared facts, both sets must be
equal; and where an index array is read, what is enforced so far must keep the subscript within the array. Where several
sums share loops, the nest of each is the path from the outside to what it does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from spfgen.errors import InternalError
from spfgen.facts.formula import Call, Compare, Expr, Formula, Var, show, variables
from spfgen.plan.nodes import (
    Append,
    Bound,
    Clear,
    Do,
    Find,
    Fold,
    Guard,
    Levels,
    Load,
    Locate,
    Plan,
    Reach,
    Reduce,
    Scan,
    Segment,
    Seq,
    State,
    Table,
    body,
    chain,
    with_body,
)
from spfgen.sets.named import Piece, Space
from spfgen.sets.uf import comparisons
from spfgen.space.nodes import Instance


@dataclass(frozen=True)
class Wanted:
    """What a plan is to do, once at each point of the instance. `beside` are those that it shares loops with, which may
    compute and read on the way what is of no use here."""

    instance: Instance
    does: Do
    beside: tuple[Instance, ...] = ()


class _Fault(Exception):
    """What a nest does wrong."""


def check_nest(instance: Instance, plan: Plan) -> None:
    """Raises InternalError with a sample point when the plan visits other points, or reads outside an array."""
    found = _fault(instance, plan)
    if found:
        raise InternalError(found)


def check_all(plan: Plan, wanted: Sequence[Wanted]) -> None:
    """Raises InternalError unless the plan does all of this, each at its own points, and nothing else."""
    found = fault(plan, wanted)
    if found:
        raise InternalError(found)


def fault(plan: Plan, wanted: Sequence[Wanted]) -> str:
    """What is wrong with a plan that is to do all of this, each at its own points; empty when nothing is."""
    missing = list(wanted)
    for path in paths(plan):
        does = next(n for n in chain(path) if isinstance(n, Do))
        found = f"the plan does what was not asked for: {does.target.tensor} {does.op} ..."
        for own in (w for w in missing if w.does == does):
            found = _fault_beside(own, path)
            if not found:
                missing.remove(own)
                break
        if found:
            return found
    return f"the plan leaves out what is added to {missing[0].does.target.tensor}" if missing else ""


def paths(plan: Plan) -> Iterator[Plan]:
    """For each Do of a plan the nest that leads to it, without what stands beside it."""
    match plan:
        case Do():
            yield plan
        case Seq(several):
            for part in several:
                yield from paths(part)
        case Fold(body=first, then=then, after=after):
            for part in (first, then, *(() if after is None else (after,))):
                yield from paths(part)
        case _:
            inner = body(plan)
            if inner is None:
                raise InternalError(f"unknown plan node {plan!r}")
            for path in paths(inner):
                yield with_body(plan, path)


def _fault_beside(wanted: Wanted, path: Plan) -> str:
    """The same of one nest, which may compute and read more than the instance knows of. Nothing but its definition is
    known of what is computed, nothing but declared facts of what is read: a condition on it is one too many."""
    instance = wanted.instance
    own = instance.domain.space
    defined: list[str] = []
    values: list[Formula] = []
    for node in chain(path):
        match node:
            case Scan(dim) | Levels(dim) | Find(dim) if dim not in own.position:
                return f"the plan goes through {dim}, which is no dimension of what it does"
            case Load(dim) if dim not in own.position:
                defined.append(dim)
            case Locate(dim, value) if dim not in own.position:
                defined.append(dim)
                values.append(Compare("=", Var(dim), value))
            case Find(loads=loads):
                defined += [name for name, _ in loads if name not in own.position]
    every = (*wanted.beside, instance)
    sizes = dict.fromkeys(s for i in every for s in i.sizes)
    names = dict.fromkeys((*own.names, *sizes, *defined))
    wide = replace(
        instance,
        domain=instance.domain.reordered(Space(names)).with_constraints(comparisons(values)),
        sizes=tuple(sizes),
        calls={n: c for i in every for n, c in i.calls.items()},
        domains={n: d for i in every for n, d in i.domains.items()},
        facts=tuple(dict.fromkeys(f for i in every for f in i.facts if variables(f) <= names.keys())),
    )
    return _fault(wide, path)


def _fault(instance: Instance, plan: Plan) -> str:
    """How the domain that a nest implements differs from that of the instance; empty when it does not."""
    space = instance.domain.space
    facts = space.of(comparisons(instance.facts))
    reader = Reader(instance, space.universe())
    try:
        reader.read(plan)
    except _Fault as found:
        return str(found)
    implemented = reader.enforced.intersect(facts)
    wanted = instance.domain.intersect(facts)
    for smaller, bigger, what in (
        (implemented, wanted, "the plan visits a point that was not asked for"),
        (wanted, implemented, "the plan leaves out a point"),
    ):
        if not smaller.is_subset(bigger):
            point = next((p.sample() for p in smaller.subtract(bigger)), None)
            return f"{what}: {point}"
    return ""


class Reader:
    """Walks one path of nested nodes and gathers what they enforce."""

    def __init__(self, instance: Instance, enforced: Piece) -> None:
        self.instance = instance
        self.enforced = enforced
        self.defined = set(instance.sizes)
        self.found: set[str] = set()

    def require(self, *formulas: Formula) -> None:
        self.enforced = self.enforced.with_constraints(comparisons(formulas))

    def define(self, dim: str) -> None:
        if dim in self.defined:
            raise _Fault(f"the plan defines {dim} twice")
        self.defined.add(dim)

    def between(self, dim: str, low: Sequence[Expr], high: Sequence[Expr]) -> None:
        """What bounds say; where they were found by a search, its node says it."""
        own = set(self.instance.domain.space.names)
        for op, bounds in ((">=", low), ("<", high)):
            for bound in bounds:
                if variables(bound) <= own:
                    self.require(Compare(op, Var(dim), bound))
                elif not variables(bound) <= own | self.found:
                    raise _Fault(f"a bound of {dim} is not known: {show(bound)}")

    def read(self, plan: Plan) -> None:
        match plan:
            case Scan(dim, low, high, inner) | Levels(dim, low, high, inner):
                self.define(dim)
                self.between(dim, low, high)
                self.read(inner)
            case Find(dim, low, high, loads, conditions, _, inner):
                self.define(dim)
                self.between(dim, low, high)
                own = set(self.instance.domain.space.names)
                given = [f for f in plan.given if variables(f) <= own]
                self.require(*(f for f in given if not variables(f) & {d for d, _ in loads}))
                for name, call in loads:
                    self.load(name, call)
                if plan.key is not None:
                    self.require(Compare("=", Var(plan.key.dim), plan.key.value))
                self.require(*given, *conditions)
                if plan.miss is not None:
                    raise _Fault("what is done where nothing is found is not read back")
                self.read(inner)
            case Locate(dim, value, inner):
                self.define(dim)
                self.require(Compare("=", Var(dim), value))
                self.read(inner)
            case Load(dim, call, inner):
                self.load(dim, call)
                self.read(inner)
            case Guard(conditions, inner):
                self.require(*conditions)
                self.read(inner)
            case Bound(name, dim, low, high, condition=condition, body=inner):
                self.between(dim, low, high)
                self.require(condition)
                self.found.add(name)
                self.read(inner)
            case Segment(start=start, end=end, body=inner):
                self.found |= {start, end}
                self.read(inner)
            case Reduce(body=inner) | Reach(body=inner) | State(body=inner) | Table(body=inner):
                self.read(inner)
            case Do() | Append():
                missing = set(self.instance.domain.space.names) - self.defined
                if missing:
                    raise _Fault(f"the plan does not define {sorted(missing)}")
            case Seq() | Clear() | Fold():
                raise InternalError("expected the nest of one instance, but this is a sequence")
            case _:
                raise InternalError(f"unknown plan node {plan!r}")

    def load(self, name: str, call: Call) -> None:
        """What is known here must imply that the arguments lie within the array."""
        if call != self.instance.calls.get(name):
            raise _Fault(f"{name} is read from {show(call)}")
        known = self.enforced.with_constraints(
            c for c in comparisons(self.instance.facts) if c.value.names() <= self.defined
        )
        for formula in self.instance.domains[name]:
            meanings = [c for n in sorted(variables(formula)) for c in self.instance.meaning(n, self.defined)]
            if not all(map(known.implies, [*comparisons(getattr(formula, "parts", (formula,))), *meanings])):
                raise _Fault(f"{name} may be read outside its array: {show(formula)} is not enforced")
        self.define(name)
