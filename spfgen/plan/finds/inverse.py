"""Inverse arrays: where an array that rises reaches each value, written down once for all searches of a bound in it.

So a position gives the segment that it lies in, as row indices do that were expanded from row pointers. Needs that the
array rises, which is proved of a bound, and that its values lie in [0, n) for an n in the sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spfgen import tuning
from spfgen.facts.formula import Expr, other_arguments, variables
from spfgen.plan.analyse.cost import Counts, nanoseconds, plus, times
from spfgen.plan.analyse.scan import Step
from spfgen.plan.analyse.sorted_bounds import is_safe
from spfgen.plan.finds import search
from spfgen.plan.finds.proposal import NOTHING, Proposal, Setup
from spfgen.plan.nodes import BoundSearch, FindTable
from spfgen.sets.affine import NotAffine
from spfgen.sets.named import Constraint
from spfgen.sets.uf import linear, with_floors
from spfgen.space.local_tensors import COUNT
from spfgen.space.nodes import Instance

NAME, ALGORITHM = "inverse", "inverse array"


def propose(
    instance: Instance, bound: BoundSearch, steps: Sequence[Step], above: str, visits: Expr, counts: Counts
) -> list[Proposal]:
    """A search at each of the visits, or an inverse array that is built `above` a loop, as far as that is right."""
    length = counts.trips(bound.low, bound.high)
    proposals = [Proposal(search.NAME, bound, times(visits, search.price(length)))]
    outside = next((s.before for s in steps if s.dim == above), None)
    loaded = next((dim for dim, call in instance.calls.items() if call == bound.call), None)
    if outside is None or loaded is None or bound.descending:
        return proposals
    needed = variables(*bound.low, *bound.high, *other_arguments(bound.call, bound.dim))
    extent = counts.range(loaded)
    if extent is None or not needed <= set(instance.sizes) or not is_safe(instance, bound, loaded, outside):
        return proposals
    if any(name.endswith(f".{COUNT}") for name in (*needed, *variables(extent))):
        return proposals  # memory is asked for before it is known how much a table of entries holds
    table = FindTable(
        f"{bound.name} {ALGORITHM}",
        ALGORITHM,
        bound.dim,
        bound.low,
        bound.high,
        bound.call,
        extent,
        "first",
        NOTHING,
        rising=True,
        because=f"{bound.because}, which are the same in all inner loops",
    )
    inside = _inside(bound, steps, extent)
    build, look = tuning.INVERSE_TENTHS
    cost = plus(times(plus(length, extent), nanoseconds(build)), times(visits, nanoseconds(look)))
    sought = replace(bound, place=table.name, inside=inside)
    return [*proposals, Proposal(NAME, sought, cost, (Setup(above, table),), frugal=False)]


def _inside(bound: BoundSearch, steps: Sequence[Step], extent: Expr) -> bool:
    """Whether the value is known to lie in [0, extent) when it is looked up."""
    known = next(s.before for s in steps if s.dim == bound.dim)
    try:
        value, limit = linear(with_floors(bound.value)), linear(with_floors(extent))
    except NotAffine:
        return False
    ends = [Constraint(False, value), Constraint(False, (limit - value).plus(-1))]
    return known is not None and all(c.value.names() <= {*known.space.names} and known.implies(c) for c in ends)
