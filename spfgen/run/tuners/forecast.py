"""About how long a call takes, from the plan and the sizes of the call: enough to see what cannot win."""

from __future__ import annotations

from collections.abc import Iterator

from spfgen import tuning
from spfgen.errors import InternalError
from spfgen.facts.formula import ONE, Expr, Num
from spfgen.pipeline import Generated
from spfgen.plan.analyse.cost import evaluated, over, plus, times
from spfgen.plan.analyse.trips import Trips, plans_inside
from spfgen.plan.nodes import Find, Plan, Products, Scan, Versions
from spfgen.run.calls.call import Bound
from spfgen.run.tensor import Tensor

HOPELESS_FORECAST = 30
"""So many times the steps of the best one: forecasts are rough, and this is not noise."""


def forecast(generated: Generated, bound: Bound) -> float | None:
    """Steps of loops and finds; None where the plan does not say how often they run."""
    total: list[Expr] = []
    for plan in generated.plans:
        if not isinstance(plan, Products) or not plan.asked.group.instances:
            return None
        total += _steps(plan, ONE, Trips(plan.asked.group.instances, plan))
    try:
        return evaluated(plus(*total), _sizes(bound))
    except (InternalError, KeyError, OverflowError):
        return None


def _steps(plan: Plan, trips: Expr, counts: Trips) -> Iterator[Expr]:
    match plan:
        case Versions(versions):
            usual = versions[0] if plan.by_cost else versions[-1]
            yield from _steps(usual.body, trips, counts)
            return
        case Scan(_, low, high):
            trips = times(trips, counts.of(low, high))
            yield trips
        case Find(_, low, high, loads):
            length = counts.of(low, high)
            yield times(trips, length if plan.key is None else Num(tuning.LOOKUP_NS))
            if loads:
                trips = times(trips, over(length, counts.counts.extent(loads[0].dim)))
    for child in plans_inside(plan):
        yield from _steps(child, trips, counts)


def _sizes(bound: Bound) -> dict[str, float]:
    sizes: dict[str, float] = {**bound.sizes}
    for name, pairs in bound.program.sizes.readings.items():
        for tensor, field in pairs:
            if field in bound.tensors[tensor].sizes:
                sizes[name] = bound.tensors[tensor].sizes[field]
    for declared in bound.program.tensors:
        own_sizes = _of(bound.tensors[declared.name])
        names = (*declared.layout.parameters, *declared.layout.sizes)
        for field, name in zip(names, (*declared.extents, *declared.sizes), strict=True):
            if field in own_sizes:
                sizes.setdefault(name, own_sizes[field])
    return sizes


def _of(tensor: Tensor) -> dict[str, int]:
    return dict(tensor.sizes)
