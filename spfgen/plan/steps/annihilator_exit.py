"""Loops around a reduction that need not be run to their end, or not at all.

A value that does not move with the loop is combined at once: n times v for a sum, v for what is idempotent. So a run
costs what one entry costs, whatever its length. A reduction that has reached an annihilator leaves the loop.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

from spfgen.facts.formula import ZERO, Bin, Expr, Var
from spfgen.ir import rewrite, walk
from spfgen.lang import nodes as lang
from spfgen.lang.types import TYPES, ElementType
from spfgen.plan.nodes import Assign, Block, Break, Define, Guard, If, Let, Load, Plan, Scan
from spfgen.space.typed import Scalar

EARLY = ("logical_and", "logical_or", "bitwise_and", "bitwise_or")
"""Reductions that are worth a question in each iteration."""


def shortened(plan: Plan, total: Scalar) -> Plan:
    """The loops of a reduction into the scalar `total`."""

    def rule(node: Any) -> Plan | None:
        if not isinstance(node, Scan):
            return None
        return at_once(node, total) or left_early(node, total)

    result: Plan = rewrite(rule, plan, Plan)
    return result


def at_once(scan: Scan, total: Scalar) -> Plan | None:
    """What a loop does that only combines scalars with what does not change in it."""
    parts = scan.body.parts if isinstance(scan.body, Block) else (scan.body,)
    low, high = _most(scan.low, "max"), _most(scan.high, "min")
    count: Expr = Bin("max", Bin("-", high, low), ZERO)
    done: list[Plan] = []
    for part in parts:
        match part:
            case Assign(name, kind, lang.Apply(_, (Scalar(combined_name), value)) as update) if combined_name == name:
                several = repeated(update, value, count, kind)
                if several is None or scan.dim in _names(value):
                    return None
                done.append(replace(part, value=replace(update, arguments=(Scalar(combined_name, kind), several))))
            case _:
                return None
    if not any(isinstance(p, Assign) and p.name == total.name for p in done):
        return None
    some = lang.Apply("less", (lang.Index(low), lang.Index(high)))
    return If(some, Block(tuple(done)), None, "the value does not change along the loop: it is combined once")


def repeated(update: lang.Apply, value: Any, count: Expr, kind: str) -> Any:
    """So many equal values, combined; None where that takes a loop."""
    operator = update.operator
    if operator.is_idempotent(TYPES[kind]) and operator.is_associative(TYPES[kind]):
        return value
    if operator.repeated in ("multiply", "power"):
        whole = lang.Apply(kind, (lang.Index(count),))
        return lang.Apply(operator.repeated, (lang.Apply(kind, (value,)), whole), update.span)
    return None


def left_early(scan: Scan, total: Scalar) -> Plan | None:
    """The loop, left where nothing can change the result any more."""
    if scan.vector or not _is_innermost(scan.body):
        return None
    updates = [
        n
        for n in walk(scan.body, Plan)
        if isinstance(n, Assign) and n.name == total.name and isinstance(n.value, lang.Apply)
    ]
    if len(updates) != 1 or any(isinstance(n, Break) for n in walk(scan.body, Plan)):
        return None
    numbers = ends(updates[0].value, TYPES[total.type])
    if not numbers:
        return None
    over = lang.Apply("equal", (total, lang.Constant(numbers[0])))
    why = "no further value can change it"

    def rule(node: Any) -> Plan | None:
        return Block((node, If(over, Break(), None, why))) if node is updates[0] else None

    # Parts of a parallel loop would not know when another one has found the number.
    return replace(scan, parallel=False, body=rewrite(rule, scan.body, Plan))


def ends(operator: lang.Apply, kind: ElementType) -> list[Any]:
    """The totals that no other value changes any more, of an operator for which that is worth a question."""
    if operator.op not in EARLY and operator.function is None:
        return []
    known = operator.operator.annihilators_of(kind)
    return [v for p, v in known if p == 0 and (1, v) in known]


def _is_innermost(body: Plan) -> bool:
    """Whether a `break` in the body leaves this loop, and no other."""
    return all(isinstance(n, Block | Assign | Define | Guard | If | Let | Load) for n in walk(body, Plan))


def _names(value: Any) -> set[str]:
    return {n.name for n in walk(value) if isinstance(n, Var)}


def _most(bounds: tuple[Expr, ...], op: str) -> Expr:
    return reduce(lambda a, b: Bin(op, a, b), bounds)
