"""Binary search: the positions of a value in an array that is sorted within the bounds.

Needs: p < q implies f(p) <= f(q) (or >=). When the inequality is strict, there is at most one position.
"""

from __future__ import annotations

from dataclasses import replace

from spfgen.facts.formula import Call
from spfgen.plan.finds.query import Query
from spfgen.plan.nodes import Find, Key
from spfgen.plan.scan import with_quotients

NAME = "binary search"


def apply(query: Query) -> Find | None:
    """The find by binary search, or None when it is not proved right."""
    if query.key is None:
        return None
    dim, value, _, _ = query.key
    call = query.find.calls()[dim]
    if not query.facts_compare(call.function):
        return None
    for descending, strict, weak in ((False, "<", "<="), (True, ">", ">=")):
        if query.ordered(call, weak).proved:
            unique = query.ordered(call, strict).proved
            return replace(
                query.find,
                algorithm=NAME,
                conditions=query.remaining(),
                key=Key(dim, with_quotients(value, query.before), descending, unique),
                parallel=False,
                because=_reason(call, descending, unique),
            )
    return None


def _reason(call: Call, descending: bool, unique: bool) -> str:
    direction = "falls" if descending else "rises"
    kind = "strictly " if unique else ""
    return f"{call.function} {direction} {kind}within these bounds (by Z3 from the declared properties)"
