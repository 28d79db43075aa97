"""Statements of steps to C: one case per node, nothing is decided here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from spfgen.cir.lower.scope import Scope
from spfgen.cir.lower.state import Lowering
from spfgen.cir.lower.workspaces import WorkspaceArray
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import openmp, operators
from spfgen.cir.tree.build import in_braces
from spfgen.errors import InternalError
from spfgen.lang import nodes as lang
from spfgen.lang.types import TYPES, ElementType
from spfgen.plan.nodes import (
    STATEMENTS,
    Array,
    Assign,
    Block,
    Break,
    Collect,
    Define,
    If,
    Let,
    Plan,
    Probe,
    Refuse,
    Repeat,
    Store,
    UpdateEntry,
)
from spfgen.plan.steps.env import FLAGS
from spfgen.space.local_tensors import AT, COUNT, HELD, OWN
from spfgen.space.nodes import Monoid, Read
from spfgen.space.typed import Holds, Scalar


def statement(low: Lowering, plan: Any, scope: Scope) -> list[c.Stmt]:
    match plan:
        case Block(parts):
            why: list[c.Stmt] = [c.Comment(plan.because)] if plan.because else []
            return [*why, *(s for p in parts for s in _part(low, p, scope))]
        case Define(dim, value, inner):
            return [low.declare(dim, low.expr(value, scope)), *([] if inner is None else low.plan(inner, scope))]
        case Let(name, kind, value):
            return [c.Declare(TYPES[kind].c, low.names[name], typed_as(low, value, scope, TYPES[kind]))]
        case Assign(name, kind, value) if name in FLAGS:  # several threads may say so
            told = c.Assign(c.Name(low.names[name]), "=", typed_as(low, value, scope, TYPES[kind]))
            return [openmp.ATOMIC_WRITE, told]
        case Assign(name, kind, value):
            return [c.Assign(c.Name(low.names[name]), "=", typed_as(low, value, scope, TYPES[kind]))]
        case Store(target, value):
            place = low.place(target, scope)
            return [c.Assign(place, "=", typed_as(low, value, scope, low.kinds[target.tensor]))]
        case If(condition, then, otherwise):
            test = typed_as(low, condition, scope, TYPES["bool"])
            inside = c.Block(tuple(low.plan(then, scope)))
            others = None if otherwise is None else c.Block(tuple(low.plan(otherwise, scope)))
            return [c.If(test, inside, others)]
        case Repeat(Block((If(lang.Apply("logical_not", (condition_holds,)), Break(), None), *others)), told):
            test = typed_as(low, condition_holds, scope, TYPES["bool"])
            inside = c.Block(tuple(s for p in others for s in _part(low, p, scope)))
            return [*_said(told), c.While(test, inside)]
        case Repeat(body, told):
            return [*_said(told), c.While(c.Name("true"), c.Block(tuple(low.plan(body, scope))))]
        case Break():
            return [c.Break()]
        case Array(name, kind, extents, fill):
            count: c.Expr = c.Int(1)
            for extent in extents:
                length = low.expr(extent, scope)
                count = length if count == c.Int(1) else c.Bin("*", count, length)
            value = None if fill is None else operators.literal(fill, TYPES[kind])
            low.workspaces.append(WorkspaceArray(low.names[name], TYPES[kind].c, count, value))
            low.array_names[name, OWN] = low.names[name]
            low.types[name], low.kinds[name] = kind, TYPES[kind]
            return []
        case Refuse(name, status):
            low.refused[low.names[name]] = f"SPFGEN_ERROR_{status}"
            return []
        case Collect():
            return _collected(low, plan, scope)
        case UpdateEntry(name, kind, at, value):
            return _entry(low, plan, scope)
        case Probe(dim, name, at):
            key, lines = _coordinates(low, at, scope)
            length = c.Call("spfgen_map_find", (c.Name(low.tables[name]), key))
            return [*lines, low.declare(dim, length)]
    raise InternalError(f"unknown plan node {plan!r}")


def _said(why: str) -> list[c.Stmt]:
    return [c.Comment(why)] if why else []


def _coordinates(low: Lowering, at: tuple[Any, ...], scope: Scope) -> tuple[c.Expr, list[c.Stmt]]:
    """Coordinates as an array."""
    name = low.names.new("key")
    lines: list[c.Stmt] = [c.Declare("int64_t", name, None, max(1, len(at)))]
    for k, expr in enumerate(at):
        lines.append(c.Assign(c.Load(c.Name(name), c.Int(k)), "=", low.expr(expr, scope)))
    return c.Name(name), lines


def _collected(low: Lowering, plan: Collect, scope: Scope) -> list[c.Stmt]:
    table = low.tables[plan.name] = low.names.new(plan.name)
    kind = TYPES[plan.type]
    address = c.Name(table)
    at, values = low.names.new(f"{plan.name}_{AT}"), low.names.new(f"{plan.name}_{HELD}")
    size = c.Call("sizeof", (c.Name(kind.c),))
    new_table = c.Call("spfgen_map_new", (c.Int(len(plan.extents)), c.Cast("int64_t", size)))
    low.frees.append(c.Do(c.Call("spfgen_map_free", (address,))))
    low.without_memory()
    low.kinds[plan.name] = kind
    low.array_names[plan.name, HELD] = values
    low.made[f"{plan.name}.{AT}"] = (at, "int64")
    low.ranks[f"{plan.name}.{AT}"] = len(plan.extents)
    low.table_lines += [
        c.Declare("spfgen_map", table, None, 1),
        c.Assign(c.Load(c.Name(table), c.Int(0)), "=", new_table),
    ]
    if plan.body == Block(()):  # its entries come and go
        low.fields[f"{plan.name}.{COUNT}"] = c.Field(address, "count")
        low.fields[at] = c.Field(address, "at")
        low.fields[values] = c.Cast(f"{kind.c} *", c.Field(address, "values"))
        return []
    return [c.Comment(plan.because), *low.plan(plan.body, scope), *_counted(low, plan.name)]


def _counted(low: Lowering, name: str) -> list[c.Stmt]:
    """What a table holds, under names of its own."""
    table, kind = c.Name(low.tables[name]), low.kinds[name]
    at, _ = low.made[f"{name}.{AT}"]
    return [
        low.declare(f"{name}.{COUNT}", c.Field(table, "count")),
        c.Declare("const int64_t *", at, c.Field(table, "at")),
        c.Declare(
            f"const {kind.c} *", low.array_names[name, HELD], c.Cast(f"const {kind.c} *", c.Field(table, "values"))
        ),
    ]


def _entry(low: Lowering, plan: UpdateEntry, scope: Scope) -> list[c.Stmt]:
    kind = TYPES[plan.type]
    address = c.Name(low.tables[plan.name])
    key, lines = _coordinates(low, plan.at, scope)
    entry, count = low.names.new("entry"), low.names.new("count")
    place = c.Load(c.Cast(f"{kind.c} *", c.Field(address, "values")), c.Name(entry))
    is_new = c.Bin(">=", c.Name(entry), c.Name(count))
    old = c.Select(is_new, operators.literal(plan.fill, kind), place)
    kept = c.Block(
        (
            c.Declare(f"const {kind.c}", low.names[plan.old], old),
            c.Assign(place, "=", typed_as(low, plan.value, scope, kind)),
        )
    )
    missing = c.Assign(c.Name(low.without_memory()), "=", c.Name("true"))
    return [
        *lines,
        c.Declare("const int64_t", count, c.Field(address, "count")),
        c.Declare("const int64_t", entry, c.Call("spfgen_map_add", (address, key))),
        c.If(c.Bin("<", c.Name(entry), c.Int(0)), c.Block((missing,)), kept),
    ]


def _part(low: Lowering, plan: Plan, scope: Scope) -> list[c.Stmt]:
    """What a nest declares outside of its loops is its own."""
    lines = low.plan(plan, scope)
    return (
        lines
        if isinstance(plan, STATEMENTS) and not isinstance(plan, Block) and plan.inner is None
        else in_braces(lines)
    )


def typed_as(low: Lowering, value: Any, scope: Scope, wanted: ElementType) -> c.Expr:
    """The value converted to a type."""
    if isinstance(value, lang.Constant):
        return operators.literal(value.value, wanted)
    expression, kind = operators.value(value, lambda v: _leaf(low, v, scope), low.functions.call)
    return operators.cast(expression, kind, wanted)


def _leaf(low: Lowering, value: Any, scope: Scope) -> tuple[c.Expr, ElementType]:
    """The C of what holds numbers, with its type."""
    match value:
        case lang.Index(expr):
            return low.expr(expr, scope), TYPES["int64"]
        case Scalar(name, kind):
            return c.Name(low.names[name]), TYPES[kind]
        case Holds(condition):
            return low.condition(condition, scope), TYPES["bool"]
        case Read(operand):
            kept = scope.temporary(operand.tensor)
            return low.place(operand, scope) if kept is None else kept.place, low.kinds[operand.tensor]
        case _Known(expr, kind):
            return expr, kind
    raise InternalError(f"no C for {value!r}")


@dataclass(frozen=True)
class _Known:
    """A value whose C is known."""

    expr: c.Expr
    type: ElementType


def combined(low: Lowering, monoid: Monoid, first: c.Expr, second: c.Expr) -> c.Expr:
    """Two values of the monoid's type as one."""
    kind = TYPES[monoid.type]
    return typed_as(low, replace(monoid.operator, arguments=(_Known(first, kind), _Known(second, kind))), Scope(), kind)
