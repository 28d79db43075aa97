"""Segments: where a list is sorted by its first key, the positions of one key lie side by side.

A find with several keys becomes one in a segment: the first key is looked up as far out as it is known, the next one
only among its positions, where the array may be sorted by it (a sorted coordinate list is, within one row).
"""

from __future__ import annotations

from dataclasses import replace

from spfgen.facts.formula import Compare, Var, other_arguments, variables
from spfgen.plan.analyse.cost import cheapest, over
from spfgen.plan.context import Context
from spfgen.plan.finds import search, sequential
from spfgen.plan.finds.proposal import NOTHING, Proposal, Setup
from spfgen.plan.finds.query import KnownLoad, Query
from spfgen.plan.nodes import Find, Key, Rejected, Segment


def segmented(query: Query, context: Context) -> tuple[Query, tuple[Setup, ...]]:
    """The find among the positions of all keys but the last, and the segments it needs."""
    setups: list[Setup] = []
    while len(query.keys) > 1:
        key = next((k for k in query.keys if k.divisor == 1 and query.order(k).descending is not None), None)
        if key is None:
            break
        more = _segment(query, key, len(query.find.given), context)
        if not more:
            break
        setups += more
        assert isinstance(more[-1].node, Segment)
        query = _within(query, key, more[-1].node)
    return query, tuple(setups)


def _segment(query: Query, key: KnownLoad, number: int, context: Context) -> list[Setup]:
    """The segment of the key, above the outermost loop over which it is the same; nothing where it cannot be found: the
    solver may have no time to prove for one loop what it has proved for another."""
    find = query.find
    needed = _needed(query, key)
    above = next((d for d in query.loops if needed <= query.known_above(d)), find.dim)
    outside = query if above == find.dim else query.above(above)
    offers = [*search.propose(outside, key), *sequential.propose(outside, key)]
    proved = [o for o in offers if isinstance(o, Proposal) and o.name != sequential.GALLOP]
    if not proved:
        return []
    ((best,),) = cheapest([[p.cost for p in proved]], context.stored, 1)
    chosen = proved[best]
    assert isinstance(chosen.find, Find)
    assert isinstance(chosen.find.key, Key)
    suffix = str(number) if number else ""
    segment = Segment(
        find.dim,
        f"{find.dim} start{suffix}",
        f"{find.dim} end{suffix}",
        find.low,
        find.high,
        key.call,
        chosen.find.key,
        chosen.find.algorithm,
        NOTHING,
        chosen.find.because,
        chosen.find.place,
        chosen.find.at,
        tuple(o for o in offers if isinstance(o, Rejected)),
    )
    return [*chosen.setups, Setup(above, segment)]


def _within(query: Query, key: KnownLoad, segment: Segment) -> Query:
    """The same find among the positions of the segment."""
    find = query.find
    given = (
        *find.given,
        *(Compare(">=", Var(find.dim), e) for e in find.low),
        *(Compare("<", Var(find.dim), e) for e in find.high),
        Compare("=", Var(key.dim), key.value),
    )
    needed = frozenset(_needed(query, key) - set(query.instance.sizes))
    return replace(
        query,
        find=replace(find, low=(Var(segment.start),), high=(Var(segment.end),), given=given),
        defined={**query.defined, segment.start: needed, segment.end: needed},
        length=over(query.length, query.counts.extent(key.dim)),
        orders={},
    )


def _needed(query: Query, key: KnownLoad) -> set[str]:
    find = query.find
    exprs = (key.value, *find.low, *find.high, *other_arguments(key.call, find.dim))
    return variables(*exprs) - {find.dim}
