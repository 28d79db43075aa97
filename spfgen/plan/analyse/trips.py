"""How often the loops of a plan run on average, as formulas in the sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from spfgen.facts.formula import Expr, Var
from spfgen.ir import children, walk
from spfgen.plan.analyse.cost import Counts
from spfgen.plan.nodes import Load, Plan
from spfgen.space.nodes import Instance


class Trips:
    """How often loops of a plan run on average."""

    def __init__(self, instances: Sequence[Instance], plan: Plan) -> None:
        counts = [Counts(i) for i in instances]
        self.counts = counts[0]
        self.loaded = {n.dim: n.call.function for n in walk(plan) if isinstance(n, Load)}
        self.known = {
            call.function: (counted, dim)
            for counted, i in zip(counts, instances, strict=True)
            for dim, call in i.calls.items()
        }

    def of(self, low: tuple[Expr, ...], high: tuple[Expr, ...]) -> Expr:
        for a, b in product(low, high):
            if isinstance(a, Var) and isinstance(b, Var) and self.loaded.get(a.name, a) == self.loaded.get(b.name, b):
                counts, dim = self.known[self.loaded[a.name]]
                length = counts.segment(dim)
                if length is not None:
                    return length
        return self.counts.trips(low, high)


def plans_inside(plan: Plan) -> Iterator[Plan]:
    """The plans directly inside."""
    return (child for child in children(plan) if isinstance(child, Plan))
