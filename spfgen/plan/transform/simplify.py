"""Copies disappear from a nest, and what nobody uses.

`scan A.pi; i = A.pi; y.p = A.pi` becomes `scan i`: of equal dimensions the index of the computation lends its name,
because that is what the person wrote. Loads and computed dimensions that are not used are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from spfgen.errors import InternalError
from spfgen.facts.formula import Bin, Call, Expr, Num, Var, rename, show, substitute, variables
from spfgen.ir import rewrite, walk, with_children
from spfgen.plan.nodes import (
    PLANS,
    Accumulate,
    Bound,
    Find,
    Key,
    Levels,
    Load,
    Loaded,
    Locate,
    Plan,
    Reach,
    Scan,
    Segment,
    Table,
    is_sum,
)
from spfgen.space.nodes import Operand


def simplify(plan: Plan, indices: Sequence[str]) -> Plan:
    """The same nest with fewer names. `indices` are the indices of the computation."""
    return without_unused(_renamed(plan, {}, {}, frozenset(indices)))


def _renamed(plan: Plan, names: Mapping[str, str], values: Mapping[Expr, str], indices: frozenset[str]) -> Plan:
    """Replace copies by what they copy, and what an index was computed as by the index, top down."""

    def new(node: Any) -> Any:
        return _in_terms(rename(node, names), values)

    def many(nodes: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(new(n) for n in nodes)

    match plan:
        case Locate(dim, value, body):
            value = new(value)
            if isinstance(value, Var):
                return _renamed(body, {**names, dim: value.name}, values, indices)
            if isinstance(value, Num):
                return _renamed(substitute(body, {dim: value}), names, values, indices)
            name, names = _named(dim, body, names, indices)
            values = {**values, value: name} if name in indices else values
            return replace(plan, dim=name, value=value, body=_renamed(body, names, values, indices))
        case Load(dim, call, body):
            call = new(call)
            name, names = _loaded(dim, call, body, names, indices)
            return Load(name, call, _renamed(body, names, values, indices))
        case Scan(dim, low, high, body):
            low, high = many(low), many(high)
            name, names = _named(dim, body, names, indices)
            return replace(plan, dim=name, low=low, high=high, body=_renamed(body, names, values, indices))
        case Find(dim, low, high, loads, conditions, _, hit, miss):
            low, high, at = many(low), many(high), many(plan.at)
            name, names = _named(dim, hit, names, indices)
            fresh_loads: list[Loaded] = []
            for loaded, call in loads:
                renamed_call = rename(call, names)
                loaded_name, names = _loaded(loaded, renamed_call, hit, names, indices)
                fresh_loads.append(Loaded(loaded_name, renamed_call))
            return replace(
                plan,
                dim=name,
                low=low,
                high=high,
                loads=tuple(fresh_loads),
                conditions=tuple(_in_terms(rename(c, names), values) for c in conditions),
                key=None if plan.key is None else _renamed_key(plan.key, names, values),
                given=(),
                at=at,
                hit=_renamed(hit, names, values, indices),
                miss=None if miss is None else _renamed(miss, names, values, indices),
            )
        case Levels(dim, low, high, body, inspect):
            low, high = many(low), many(high)
            name, names = _named(dim, body, names, indices)
            body, inspect = (_renamed(part, names, values, indices) for part in (body, inspect))
            return replace(plan, dim=name, low=low, high=high, body=body, inspect=inspect)
        case Accumulate(op="+=", body=body) if is_sum(plan) and not any(map(_repeats, walk(body))):
            return _renamed(body, names, values, indices)
        case Segment(low=low, high=high, call=call, key=key, body=body):
            return replace(
                plan,
                low=many(low),
                high=many(high),
                call=new(call),
                key=_renamed_key(key, names, values),
                at=many(plan.at),
                body=_renamed(body, names, values, indices),
            )
        case Bound(dim=dim, low=low, high=high, call=call, value=value, body=body):
            name, own = _named(dim, body, names, indices)
            call, condition = _in_terms(rename(call, own), values), rename(plan.condition, own)
            return replace(
                plan,
                dim=name,
                low=many(low),
                high=many(high),
                call=call,
                value=new(value),
                condition=condition,
                body=_renamed(body, names, values, indices),
            )
        case Reach(low=low, high=high, call=call, first=first, last=last, body=body):
            call = _in_terms(rename(call, {**names, plan.dim: plan.dim}), values)
            body = _renamed(body, names, values, indices)
            first, last = new(first), new(last)
            return replace(plan, low=many(low), high=many(high), call=call, first=first, last=last, body=body)
        case Table(low=low, high=high, call=call, body=body):
            own = {**names, plan.dim: plan.dim}
            return replace(
                plan,
                low=many(low),
                high=many(high),
                call=_in_terms(rename(call, own), values),
                values=_placed(rename(plan.values, own)) if plan.values is not None else None,
                body=_renamed(body, names, values, indices),
            )
    if any(step.name for step in plan.computed()):
        raise InternalError(f"what the node binds is not known: {plan!r}")

    def inside(node: Any) -> Any:
        return _renamed(node, names, values, indices) if isinstance(node, Plan) else _placed(new(node))

    result: Plan = with_children(inside, plan)
    return result


def _repeats(node: object) -> bool:
    """Whether it may run its body more than once: a sum of one value needs no variable."""
    return isinstance(node, Scan) or (isinstance(node, Find) and (node.key is None or not node.key.unique))


def _renamed_key(key: Key, names: Mapping[str, str], values: Mapping[Expr, str]) -> Key:
    return replace(key, dim=names.get(key.dim, key.dim), value=_in_terms(rename(key.value, names), values))


def _placed(node: Any) -> Any:
    """Operands without their subscripts: from here on only places count."""
    return rewrite(lambda n: replace(n, subscripts=()) if isinstance(n, Operand) and n.subscripts else None, node)


def _in_terms(node: Any, values: Mapping[Expr, str]) -> Any:
    """What an index was computed as, replaced by the index."""
    if not values:
        return node
    return rewrite(lambda n: Var(values[n]) if isinstance(n, Bin) and n in values else None, node)


def _named(dim: str, body: Plan, names: Mapping[str, str], indices: frozenset[str]) -> tuple[str, dict[str, str]]:
    """The index that copies `dim`, if there is one and it is free, else `dim`; and the names with it. Where several
    sums share loops an index may be one thing in this sum and another in that: then it is not free."""
    copies = {dim}
    found: list[str] = []
    others: set[str] = set()
    for node in walk(body, PLANS) if dim not in indices else ():
        if isinstance(node, Locate) and isinstance(node.value, Var) and node.value.name in copies:
            copies.add(node.dim)
            found += [node.dim] if node.dim in indices and node.value.name == dim else []
        else:
            others |= _bound(node)
    free = next((name for name in found if name not in others), dim)
    return free, {**names, dim: free} if free != dim else dict(names)


def _bound(node: object) -> set[str]:
    """The dimensions that a node gives a value to."""
    match node:
        case Find(dim, loads=loads):
            return {dim, *(loaded for loaded, _ in loads)}
        case Scan(dim) | Locate(dim) | Load(dim) | Levels(dim):
            return {dim}
    return set()


def _loaded(
    dim: str, call: Call, body: Plan, names: Mapping[str, str], indices: frozenset[str]
) -> tuple[str, dict[str, str]]:
    """The name of a loaded value: the index that copies it, else the call as it now reads."""
    name, names = _named(dim, body, names, indices)
    if name == dim:
        name = show(call)
        names = {**names, dim: name}
    return name, dict(names)


def without_unused(plan: Plan) -> Plan:
    """Without the loads and computed dimensions that nothing needs."""
    result: Plan = with_children(without_unused, plan, PLANS)
    if isinstance(result, Locate | Load) and result.dim not in used(result.body):
        return result.body
    return result


def used(plan: Plan) -> set[str]:
    """All dimensions that are read somewhere in the plan."""
    return variables(plan)  # type: ignore[arg-type]
