"""Binary search: the positions of a value in an array that is sorted within the bounds.

Needs: p < q implies f(p) <= f(q) (or >=). When the inequality is strict, there is at most one position.
"""

from __future__ import annotations

from dataclasses import replace

from spfgen import tuning
from spfgen.facts.formula import Expr
from spfgen.plan.analyse.cost import log2, nanoseconds, plus, times
from spfgen.plan.analyse.scan import with_quotients
from spfgen.plan.finds.proposal import Offer, Proposal
from spfgen.plan.finds.query import KnownLoad, Query
from spfgen.plan.nodes import Key, Rejected

NAME = "search"
ALGORITHM = "binary search"
ALGORITHMS = {NAME: ALGORITHM}


def propose(query: Query, key: KnownLoad) -> list[Offer]:
    order = query.order(key)
    if order.descending is None:
        return [Rejected(NAME, order.doubt)]
    find = replace(
        query.find,
        algorithm=ALGORITHM,
        conditions=query.remaining(key),
        key=Key(key.dim, with_quotients(key.value, query.before), order.descending, order.unique),
        parallel=False,
        because=f"{order.words} (by Z3 from the declared properties)",
    )
    return [Proposal(NAME, find, query.total(price(query.length)))]


def price(length: Expr) -> Expr:
    """One search among so many positions, in nanoseconds."""
    return plus(nanoseconds(tuning.SEARCH_TENTHS), times(nanoseconds(tuning.SEARCH_STEP_TENTHS), log2(length)))
