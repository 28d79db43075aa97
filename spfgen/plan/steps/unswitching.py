"""Loop unswitching: a condition that is the same in all iterations of a loop is asked before it.

`y[j] or= f[i] and A[i, j] != 0` changes nothing where f[i] is false: a loop over the entries of row i asks once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from spfgen.facts.formula import Var
from spfgen.ir import rewrite, walk
from spfgen.lang import nodes as lang
from spfgen.plan.nodes import Assign, Block, Break, Define, If, Load, Plan, Scan, Store, goes_on, with_body
from spfgen.plan.steps.env import joined
from spfgen.plan.steps.invariant import written
from spfgen.plan.steps.lookups import changed_in_iterations
from spfgen.space.nodes import Operand, Read
from spfgen.space.typed import Holds, Scalar


def with_conditions_outside(plan: Plan) -> Plan:
    """The plan with conditions before the loops that they have nothing to do with."""
    moved: Plan = rewrite(lambda n: _asked_before(n) if isinstance(n, Scan) else None, plan, Plan)
    return moved


def _asked_before(scan: Scan) -> Plan | None:
    """The condition, then the loop; None where there is none that moves. It is asked only if there is an iteration, as
    it was: what it reads may not be there otherwise."""
    if scan.parallel or scan.collapse or scan.private:
        return None
    condition_and_body = _condition(scan.body)
    if condition_and_body is None:
        return None
    condition, body = condition_and_body
    names = {n.name for n in walk(condition) if isinstance(n, Var | Scalar)}
    read = {n.tensor for n in walk(condition) if isinstance(n, Operand)}
    if names & changed_in_iterations(scan) or read & set(written(walk(scan))):
        return None
    some = Holds(scan.has_iterations)
    why = f"it is the same for all {scan.dim}"
    return If(joined("logical_and", (some, condition)), replace(scan, body=body), None, why)


def _condition(node: Plan) -> tuple[Any, Plan] | None:
    """A condition without which the plan does nothing, and the plan where it holds."""
    match node:
        case Load() | Define():
            condition_and_plan = _condition(node.body)
            return (
                None if condition_and_plan is None else (condition_and_plan[0], with_body(node, condition_and_plan[1]))
            )
        case Block((*defined, last)) if all(map(goes_on, defined)):
            condition_and_plan = _condition(last)
            return (
                None
                if condition_and_plan is None
                else (condition_and_plan[0], replace(node, parts=(*defined, condition_and_plan[1])))
            )
        case Block((first, If(then=Break(), otherwise=None) as ends)):  # where nothing changes, it may as well end
            condition_and_plan = _condition(first)
            return (
                None
                if condition_and_plan is None
                else (condition_and_plan[0], replace(node, parts=(condition_and_plan[1], ends)))
            )
        case If(condition, then, None):
            return condition, then
        case Store(target, lang.Apply(op, (Read(old), value)) as combined, monoid=None) if old == target:
            return _of_value(node, combined, op, value)
        case Assign(name, _, lang.Apply(op, (Scalar(combined_name), value)) as combined) if combined_name == name:
            return _of_value(node, combined, op, value)
    return None


def _of_value(node: Store | Assign, combined: lang.Apply, op: str, value: Any) -> tuple[Any, Plan] | None:
    """The same of a value that is combined with what there is: without the condition it is the identity of that."""
    casts = []
    while isinstance(value, lang.Apply) and value.op == "bool" and len(value.arguments) == 1:
        casts.append(value)
        value = value.arguments[0]
    if op != "logical_or" or not isinstance(value, lang.Apply) or value.op != "logical_and":
        return None
    condition, others = _first(value)
    for cast in reversed(casts):
        others = replace(cast, arguments=(others,))
    return condition, replace(node, value=replace(combined, arguments=(combined.arguments[0], others)))


def _first(value: lang.Apply) -> tuple[Any, Any]:
    """What is asked first of several things, and the others."""
    one, other = value.arguments
    if isinstance(one, lang.Apply) and one.op == "logical_and":
        condition, others = _first(one)
        return condition, replace(value, arguments=(others, other))
    return one, other
