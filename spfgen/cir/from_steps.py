"""Statements of steps to C: one case per node, nothing is decided here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spfgen.cir import nodes as c
from spfgen.cir import operators
from spfgen.cir.build import in_braces
from spfgen.cir.scope import Scope
from spfgen.cir.workspaces import Workspace
from spfgen.errors import InternalError
from spfgen.lang import nodes as lang
from spfgen.lang.types import TYPES, ElementType
from spfgen.plan.nodes import Array, Assign, Block, Break, Define, If, Let, Plan, Refuse, Repeat, Store
from spfgen.plan.typed import Holds, Scalar
from spfgen.space.nodes import Read
from spfgen.space.own import OWN

if TYPE_CHECKING:
    from spfgen.cir.from_plan import Lowering

STATEMENTS = Block | Define | Let | Assign | Store | If | Repeat | Break | Array | Refuse
"""The nodes of plans that are lowered here."""


def statement(low: Lowering, plan: Any, scope: Scope) -> list[c.Stmt]:
    match plan:
        case Block(parts):
            why: list[c.Stmt] = [c.Comment(plan.because)] if plan.because else []
            return [*why, *(s for p in parts for s in _part(low, p, scope))]
        case Define(dim, value):
            return [low.declare(dim, low.expr(value, scope))]
        case Let(name, kind, value):
            return [c.Declare(TYPES[kind].c, low.names[name], typed_as(low, value, scope, TYPES[kind]))]
        case Assign(name, kind, value):
            return [c.Assign(c.Name(low.names[name]), "=", typed_as(low, value, scope, TYPES[kind]))]
        case Store(target, value):
            place = low.place(target, scope)
            return [c.Assign(place, "=", typed_as(low, value, scope, low.kinds[target.tensor]))]
        case If(condition, then, otherwise):
            test = typed_as(low, condition, scope, TYPES["bool"])
            inside = c.Block(tuple(low.plan(then, scope)))
            rest = None if otherwise is None else c.Block(tuple(low.plan(otherwise, scope)))
            return [c.If(test, inside, rest)]
        case Repeat(body):
            return [c.While(c.Name("true"), c.Block(tuple(low.plan(body, scope))))]
        case Break():
            return [c.Break()]
        case Array(name, kind, extents, fill):
            count: c.Expr = c.Int(1)
            for extent in extents:
                found = low.expr(extent, scope)
                count = found if count == c.Int(1) else c.Bin("*", count, found)
            value = None if fill is None else operators.literal(fill, TYPES[kind])
            low.workspaces.append(Workspace(low.names[name], TYPES[kind].c, count, value))
            low.array_names[name, OWN] = low.names[name]
            low.kinds[name] = TYPES[kind]
            return []
        case Refuse(name):
            low.refused = low.names[name]
            return []
    raise InternalError(f"unknown plan node {plan!r}")


def _part(low: Lowering, plan: Plan, scope: Scope) -> list[c.Stmt]:
    """What a nest declares outside of its loops is its own."""
    lines = low.plan(plan, scope)
    return lines if isinstance(plan, STATEMENTS) else in_braces(lines)


def typed_as(low: Lowering, value: Any, scope: Scope, wanted: ElementType) -> c.Expr:
    """The value converted to a type."""
    if isinstance(value, lang.Constant):
        return operators.literal(value.value, wanted)
    found, kind = operators.value(value, lambda v: _leaf(low, v, scope), low.functions.call)
    return operators.cast(found, kind, wanted)


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
            return low.place(operand, scope), low.kinds[operand.tensor]
    raise InternalError(f"no C for {value!r}")
