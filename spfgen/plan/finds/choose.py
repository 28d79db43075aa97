"""Which algorithm finds: the first whose needs are proved, in order of preference."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spfgen.ir import rewrite
from spfgen.plan.finds import search
from spfgen.plan.finds.query import Query
from spfgen.plan.nodes import Find, Plan
from spfgen.plan.scan import Step
from spfgen.space.nodes import Instance

ALGORITHMS: tuple[Callable[[Query], Find | None], ...] = (search.apply,)
"""The plain loop stands behind them all: it needs nothing."""


def choose_finds(instance: Instance, plan: Plan, steps: Sequence[Step]) -> Plan:
    """Every find of a nest with the algorithm that is chosen for it."""
    names = [s.dim for s in steps]

    def rule(node: object) -> Plan | None:
        if not isinstance(node, Find):
            return None
        position = names.index(node.dim)
        step = steps[position]
        assert step.before is not None
        outer = frozenset({*instance.sizes, *names[:position]})
        domain = instance.domain.reordered(step.before.space)
        query = Query(instance, node, step.before, outer, domain)
        return next((found for apply in ALGORITHMS if (found := apply(query)) is not None), None)

    result = rewrite(rule, plan)
    assert isinstance(result, Plan)
    return result
