"""Rows that are stored in slices are summed slice by slice, all rows of one side by side.

    for q { for f(floor(q/C)) <= p < f(floor(q/C) + 1) { y[g(q)] += A[p, q mod C]*x[..] } }

goes through a slice once for each of its rows, and reads every C-th value of it. Instead

    for b { for f(b) <= p < f(b + 1) { for C*b <= q < C*b + C { y[g(q)] += A[p, q mod C]*x[..] } } }

goes through it once, from end to end. All terms are the same, and each place gets them in the same order; small.py
keeps the sums of a slice in registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from spfgen import tuning
from spfgen.facts.formula import Bin, Expr, Num, Var, variables, within
from spfgen.ir import fresh, walk
from spfgen.plan.analyse.depend import distinct_by_facts, distinct_places
from spfgen.plan.analyse.order import scan_order
from spfgen.plan.analyse.scan import Step
from spfgen.plan.build.drivers import steps_in_order
from spfgen.space.nodes import Change, Instance, Read
from spfgen.space.transform import changed


def sliced(instance: Instance, steps: Sequence[Step]) -> tuple[Instance, list[Step]] | None:
    """The instance with slices and the steps of its scan; None where there are none."""
    scans = [s for s in steps if s.kind == "scan"]
    if len(scans) != 2 or instance.guards:
        return None
    rows, along = scans
    count = _slices(instance, steps, rows, along)
    if count is None or not _side_by_side(instance, rows.dim, along.dim):
        return None
    if along.dim in _sources(steps, instance.target.place):
        return None  # no sums
    slices = fresh(f"{rows.dim}_slice", {*instance.domain.space.names, *instance.indices})
    start = Bin("*", Num(count), Var(slices))
    change = Change((rows.dim,), (slices,), within(Var(rows.dim), start, Bin("+", start, Num(count))))
    sliced_instance = changed(instance, change)
    wanted = [slices, along.dim, rows.dim]
    sliced_steps = steps_in_order(sliced_instance, scan_order(sliced_instance, tuple(wanted)))
    if [s.dim for s in sliced_steps if s.kind == "scan"] != wanted:
        return None
    return (
        (sliced_instance, sliced_steps)
        if distinct_places(sliced_instance, slices) or distinct_by_facts(sliced_instance, slices, sliced_steps)
        else None
    )


def _slices(instance: Instance, steps: Sequence[Step], rows: Step, along: Step) -> int | None:
    """The rows of a slice, when the bounds of the inner loop are the same for all of them."""
    row = Var(rows.dim)
    counts = {
        n: d for n, (numerator, d) in instance.quotients.items() if numerator == row and 1 < d <= tuning.BLOCK_SUMS
    }
    reached = _sources(steps, (*along.low, *along.high), set(counts))
    slice_sizes = {counts[n] for n in reached & counts.keys()}
    return slice_sizes.pop() if len(slice_sizes) == 1 and rows.dim not in reached else None


def _sources(steps: Sequence[Step], exprs: Sequence[Expr], ends: set[str] | None = None) -> set[str]:
    """The dimensions that expressions depend on, through loads and what is located, as far as `ends`."""
    values = {s.dim: s.value for s in steps if s.value is not None and s.dim not in (ends or ())}
    pending = variables(*exprs)
    reached: set[str] = set()
    while pending:
        name = pending.pop()
        reached.add(name)
        value = values.get(name)
        if value is not None:
            pending |= variables(value) - reached
    return reached


def _side_by_side(instance: Instance, rows: str, along: str) -> bool:
    """Whether values of a slice lie side by side, those of the next step behind them."""
    places = [n.operand.place for n in walk(instance.value) if isinstance(n, Read)]
    return any(
        len(place) > 1 and variables(place[-1]) == {rows} and {along} == variables(*place[:-1]) for place in places
    )
