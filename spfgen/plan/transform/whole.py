"""Passes over the whole plan of a statement, whichever way its loops were made: marks for C."""

from __future__ import annotations

from dataclasses import replace

from spfgen.ir import rewrite
from spfgen.plan.context import Context
from spfgen.plan.nodes import PLANS, Clear, Find, Load, Partition, Plan
from spfgen.plan.transform.passes import Pass, passed
from spfgen.plan.transform.read_in_place import with_reads_in_place
from spfgen.plan.verify.meaning import Fault


def _shared(plan: Plan) -> Plan:
    """The plan whose threads clear together what is cleared as a whole: who clears touches the memory first."""
    return _marked(plan, True)


def _marked(plan: Plan, shared: bool) -> Plan:
    def rule(node: object) -> Plan | None:
        return replace(node, shared=shared) if isinstance(node, Clear) and node.part is None else None

    result: Plan = rewrite(rule, plan, PLANS)
    return result


def _in_turn(plan: Plan, in_turn: bool = True) -> Plan:
    """The plan whose parallel loops are in more parts than threads."""
    result: Plan = rewrite(lambda n: replace(n, in_turn=in_turn) if isinstance(n, Partition) else None, plan)
    return result


WHOLE: tuple[Pass[Context, Plan], ...] = (
    Pass(
        "reads in place",
        "puts a load that is used once where it is used",
        lambda _, plan: with_reads_in_place(plan),
        1,
    ),
    Pass(
        "clear on threads",
        "clears on all threads what is cleared before the loops",
        lambda _, plan: _shared(plan),
        1,
    ),
    Pass(
        "parts in turn",
        "divides a parallel loop into more parts than threads; a thread that is done takes the next",
        lambda _, plan: _in_turn(plan),
        2,
    ),
)
"""All of them, the first one first."""


def with_marks(plan: Plan, context: Context) -> Plan:
    """The plan of a statement after them."""
    if context.stop_after and context.stop_after not in {p.name for p in WHOLE}:
        return plan
    plain = _bare(plan)

    def unchanged(marked: Plan) -> None:
        if _bare(marked) != plain:
            raise Fault("more than a mark was changed")

    return passed(WHOLE, context, plan, context, unchanged)


def _declared(plan: Plan) -> Plan:
    """The plan whose loads all have names."""

    def rule(node: object) -> Plan | None:
        match node:
            case Load(in_place=True):
                return replace(node, in_place=False)
            case Find(loads=loads):
                return replace(node, loads=tuple(replace(x, in_place=False) for x in loads))
        return None

    result: Plan = rewrite(rule, plan, PLANS)
    return result


def _bare(plan: Plan) -> Plan:
    return _in_turn(_marked(_declared(plan), False), False)
