"""Copies disappear from a nest, and what nobody uses.

`scan A.pi; i = A.pi; y.p = A.pi` becomes `scan i`: of equal dimensions the index of the computation lends its name,
because that is what the person wrote. Loads and computed dimensions that are not used are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatch
from typing import Any

from spfgen.errors import InternalError
from spfgen.facts.formula import Bin, Call, Expr, Num, Var, rename, show, substitute, variables
from spfgen.ir import rewrite, walk, with_children
from spfgen.plan.nodes import (
    PLANS,
    Accumulate,
    BoundSearch,
    Define,
    Find,
    FindTable,
    Key,
    LevelLoop,
    Load,
    Loaded,
    Plan,
    Reach,
    Scan,
    Segment,
    is_sum,
)
from spfgen.space.nodes import Operand


def simplify(plan: Plan, indices: Sequence[str]) -> Plan:
    """The same nest with fewer names. `indices` are the indices of the computation."""
    return without_unused(_renamed(plan, _Known(frozenset(indices))))


@dataclass(frozen=True)
class _Known:
    """What is known at a node: the `indices` of the computation, the `names` that dimensions have now, and the `values`
    that indices were computed as."""

    indices: frozenset[str]
    names: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[Expr, str] = field(default_factory=dict)

    def new(self, node: Any) -> Any:
        """An expression in these names."""
        return _in_terms(rename(node, self.names), self.values)

    def many(self, nodes: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(map(self.new, nodes))

    def key(self, key: Key) -> Key:
        return replace(key, dim=self.names.get(key.dim, key.dim), value=self.new(key.value))

    def naming(self, dim: str, name: str) -> _Known:
        return replace(self, names={**self.names, dim: name})

    def named(self, dim: str, body: Plan) -> tuple[str, _Known]:
        """The index that copies `dim`, if there is one and it is free, else `dim`; and what is known with it."""
        name = _copy_of(dim, body, self.indices)
        return name, self.naming(dim, name) if name != dim else self

    def loaded(self, dim: str, call: Call, body: Plan) -> tuple[str, _Known]:
        """The name of a loaded value: the index that copies it, else the call as it now reads."""
        name, known = self.named(dim, body)
        return (name, known) if name != dim else (show(call), known.naming(dim, show(call)))


@singledispatch
def _renamed(plan: Plan, known: _Known) -> Plan:
    """Replace copies by what they copy, and what an index was computed as by the index, top down."""
    if any(step.name for step in plan.computed()):
        raise InternalError(f"what the node binds is not known: {plan!r}")

    def inside(node: Any) -> Any:
        return _renamed(node, known) if isinstance(node, Plan) else _placed(known.new(node))

    result: Plan = with_children(inside, plan)
    return result


@_renamed.register
def _(plan: Define, known: _Known) -> Plan:
    value = known.new(plan.value)
    if isinstance(value, Var):
        return _renamed(plan.body, known.naming(plan.dim, value.name))
    if isinstance(value, Num):
        return _renamed(substitute(plan.body, {plan.dim: value}), known)
    name, inner = known.named(plan.dim, plan.body)
    inner = replace(inner, values={**inner.values, value: name}) if name in known.indices else inner
    return replace(plan, dim=name, value=value, body=_renamed(plan.body, inner))


@_renamed.register
def _(plan: Load, known: _Known) -> Plan:
    call = known.new(plan.call)
    name, inner = known.loaded(plan.dim, call, plan.body)
    return Load(name, call, _renamed(plan.body, inner))


@_renamed.register
def _(plan: Scan, known: _Known) -> Plan:
    name, inner = known.named(plan.dim, plan.body)
    low, high = known.many(plan.low), known.many(plan.high)
    return replace(plan, dim=name, low=low, high=high, body=_renamed(plan.body, inner))


@_renamed.register
def _(plan: Find, known: _Known) -> Plan:
    name, inner = known.named(plan.dim, plan.hit)
    loads: list[Loaded] = []
    for loaded, call in plan.loads:
        renamed = rename(call, inner.names)
        loaded_name, inner = inner.loaded(loaded, renamed, plan.hit)
        loads.append(Loaded(loaded_name, renamed))
    return replace(
        plan,
        dim=name,
        low=known.many(plan.low),
        high=known.many(plan.high),
        loads=tuple(loads),
        conditions=inner.many(plan.conditions),
        key=None if plan.key is None else inner.key(plan.key),
        given=(),
        at=known.many(plan.at),
        hit=_renamed(plan.hit, inner),
        miss=None if plan.miss is None else _renamed(plan.miss, inner),
    )


@_renamed.register
def _(plan: LevelLoop, known: _Known) -> Plan:
    name, inner = known.named(plan.dim, plan.body)
    low, high = known.many(plan.low), known.many(plan.high)
    body, inspect = _renamed(plan.body, inner), _renamed(plan.inspect, inner)
    return replace(plan, dim=name, low=low, high=high, body=body, inspect=inspect)


@_renamed.register
def _(plan: Accumulate, known: _Known) -> Plan:
    if plan.op == "+=" and is_sum(plan) and not any(map(_repeats, walk(plan.body))):
        return _renamed(plan.body, known)
    return _renamed.dispatch(Plan)(plan, known)


@_renamed.register
def _(plan: Segment, known: _Known) -> Plan:
    return replace(
        plan,
        low=known.many(plan.low),
        high=known.many(plan.high),
        call=known.new(plan.call),
        key=known.key(plan.key),
        at=known.many(plan.at),
        body=_renamed(plan.body, known),
    )


@_renamed.register
def _(plan: BoundSearch, known: _Known) -> Plan:
    name, inner = known.named(plan.dim, plan.body)
    return replace(
        plan,
        dim=name,
        low=known.many(plan.low),
        high=known.many(plan.high),
        call=inner.new(plan.call),
        value=known.new(plan.value),
        condition=rename(plan.condition, inner.names),
        body=_renamed(plan.body, known),
    )


@_renamed.register
def _(plan: Reach, known: _Known) -> Plan:
    return replace(
        plan,
        low=known.many(plan.low),
        high=known.many(plan.high),
        call=known.naming(plan.dim, plan.dim).new(plan.call),
        first=known.new(plan.first),
        last=known.new(plan.last),
        body=_renamed(plan.body, known),
    )


@_renamed.register
def _(plan: FindTable, known: _Known) -> Plan:
    inner = known.naming(plan.dim, plan.dim)
    return replace(
        plan,
        low=known.many(plan.low),
        high=known.many(plan.high),
        call=inner.new(plan.call),
        values=None if plan.values is None else _placed(rename(plan.values, inner.names)),
        body=_renamed(plan.body, known),
    )


def _repeats(node: object) -> bool:
    """Whether it may run its body more than once: a sum of one value needs no variable."""
    return isinstance(node, Scan) or (isinstance(node, Find) and (node.key is None or not node.key.unique))


def _placed(node: Any) -> Any:
    """Operands without their subscripts: from here on only places count."""
    return rewrite(lambda n: replace(n, subscripts=()) if isinstance(n, Operand) and n.subscripts else None, node)


def _in_terms(node: Any, values: Mapping[Expr, str]) -> Any:
    """What an index was computed as, replaced by the index."""
    if not values:
        return node
    return rewrite(lambda n: Var(values[n]) if isinstance(n, Bin) and n in values else None, node)


def _copy_of(dim: str, body: Plan, indices: frozenset[str]) -> str:
    """The index that copies `dim`, if there is one and it is free, else `dim`. Where several sums share loops an index
    may be one thing in this sum and another in that: then it is not free."""
    copies = {dim}
    candidates: list[str] = []
    others: set[str] = set()
    for node in walk(body, PLANS) if dim not in indices else ():
        if isinstance(node, Define) and isinstance(node.value, Var) and node.value.name in copies:
            copies.add(node.dim)
            candidates += [node.dim] if node.dim in indices and node.value.name == dim else []
        else:
            others |= _bound(node)
    return next((name for name in candidates if name not in others), dim)


def _bound(node: object) -> set[str]:
    """The dimensions that a node gives a value to."""
    match node:
        case Find(dim, loads=loads):
            return {dim, *(loaded for loaded, _ in loads)}
        case Scan(dim) | Define(dim) | Load(dim) | LevelLoop(dim):
            return {dim}
    return set()


def without_unused(plan: Plan) -> Plan:
    """Without the loads and computed dimensions that nothing needs."""
    result: Plan = with_children(without_unused, plan, PLANS)
    if isinstance(result, Define | Load) and result.dim not in used(result.body):
        return result.body
    return result


def used(plan: Plan) -> set[str]:
    """All dimensions that are read somewhere in the plan."""
    return variables(plan)  # type: ignore[arg-type]
