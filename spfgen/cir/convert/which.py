"""Which conversions a target allows."""

from __future__ import annotations

from spfgen.cir.convert.both import group_arguments
from spfgen.facts.formula import Var, variables
from spfgen.layout.keys import KeyPlan


def is_table(key: KeyPlan) -> bool:
    """Whether one key says the rank, whatever else a place is made of."""
    if len(key.levels) != 1:
        return False
    level = key.levels[0]
    call = key.plan.encoded.calls[level.rank.keys[0]]
    return level.group == 0 and level.end == 1 and call.arguments == (Var(level.rank.position),)


def is_grouped(key: KeyPlan) -> bool:
    """Whether there is one rank with one key in groups that follow one another."""
    return (
        len(key.levels) == 1
        and bool(key.levels[0].rank.begin)
        and len(key.levels[0].rank.keys) == 1
        and _are_known(key)
    )


def _are_known(key: KeyPlan) -> bool:
    parameters_ = set(key.plan.encoded.layout.parameters)
    return all(variables(e) <= parameters_ for e in group_arguments(key)[1])
