"""The plain loop: every position is compared. Needs nothing."""

from __future__ import annotations

from spfgen import tuning
from spfgen.plan.analyse.cost import nanoseconds, times
from spfgen.plan.finds.proposal import Proposal
from spfgen.plan.finds.query import Query

NAME = "loop"
ALGORITHM = "plain loop"


def propose(query: Query) -> Proposal:
    return Proposal(NAME, query.find, query.total(times(nanoseconds(tuning.LOOP_TENTHS), query.length)))
