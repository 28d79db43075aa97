"""Reductions into scalars on several threads: each part of the loop has totals of its own, which are combined after it.

Right where the function is commutative and associative: the parts are combined in their order, but which points a part
has is up to the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spfgen.ir import rewrite
from spfgen.lang import nodes as lang
from spfgen.lang.types import ElementType
from spfgen.plan.nodes import Assign, Block, Find, Let, Plan, Scan
from spfgen.plan.steps.env import number_of
from spfgen.space.typed import Scalar


@dataclass(frozen=True)
class Total:
    """A scalar that points are combined with by an operator, which leaves all as it is when one is `neutral`."""

    scalar: Scalar
    neutral: Any
    operator: lang.Apply


def may_share(operator: lang.Apply, kind: ElementType, exactly: bool) -> bool:
    """Whether points may be combined in any order; `exactly`: to the last bit."""
    return operator.operator.is_orderless(kind, exactly)


def with_own_totals(plan: Plan, totals: Sequence[Total], fresh: Callable[[str], str]) -> Plan:
    """The plan with totals for each part of its parallel loops."""

    def rule(node: Any) -> Plan | None:
        if isinstance(node, Find) and node.parallel:
            return replace(node, parallel=False, because="")
        if not isinstance(node, Scan) or not node.parallel or node.private:  # those of a reduction inside
            return None
        parts = {t.scalar.name: Scalar(fresh(f"{t.scalar.name}_part"), t.scalar.type) for t in totals}
        private = [Let(parts[t.scalar.name].name, t.scalar.type, number_of(t.neutral, t.scalar.type)) for t in totals]
        joined = [_combined(t, parts[t.scalar.name]) for t in totals]
        body = rewrite(lambda n: _renamed(n, parts), node.body)
        return replace(node, body=body, private=tuple(private), combined=Block(tuple(joined)))

    result: Plan = rewrite(rule, plan, Plan)
    return result


def _combined(total: Total, part: Scalar) -> Plan:
    value = replace(total.operator, arguments=(total.scalar, part))
    return Assign(total.scalar.name, total.scalar.type, value)


def _renamed(node: Any, parts: dict[str, Scalar]) -> Any:
    match node:
        case Scalar(name) if name in parts:
            return parts[name]
        case Assign(name) if name in parts:
            return replace(node, name=parts[name].name)
    return None
