"""Accumulators in C, by their storage: a variable, registers, tiles of them, a row, a workspace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spfgen.cir.lower import hoist
from spfgen.cir.lower import workspaces as memory
from spfgen.cir.lower.finish import finished
from spfgen.cir.lower.register_tile import tile
from spfgen.cir.lower.scope import Accumulator, Scope
from spfgen.cir.lower.state import Lowering
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import openmp
from spfgen.cir.tree.build import joined, loop
from spfgen.cir.tree.elements import zero
from spfgen.ir import walk
from spfgen.lang.types import TYPES, ElementType
from spfgen.plan.nodes import (
    Accumulate,
    Define,
    Find,
    Load,
    Plan,
    Registers,
    RegisterTile,
    Row,
    Scan,
    Store,
    Variable,
    Workspace,
    chain,
)


def accumulate(low: Lowering, plan: Accumulate, scope: Scope) -> list[c.Stmt]:
    """It starts at 0, the body adds to it, and what comes out is stored."""
    match plan.storage:
        case Variable():
            return _sum(low, plan, scope) if plan.op else _temporary(low, plan, scope)
        case Registers() as registers:
            return _registers(low, plan, registers, scope)
        case RegisterTile() as tiles:
            return tile(low, plan, tiles, scope)
        case Row():
            return _row(low, plan, scope)
        case Workspace():
            return _workspace(low, plan, scope)


def _type(low: Lowering, plan: Accumulate) -> ElementType:
    """The type of the totals."""
    return low.compute_type(plan.body, plan.target) if plan.monoid is None else TYPES[plan.monoid.type]


def _kept_type(low: Lowering, plan: Accumulate) -> ElementType:
    """The type of totals that the body reads."""
    if plan.monoid is not None:
        low.types[plan.target.tensor], low.kinds[plan.target.tensor] = plan.monoid.type, TYPES[plan.monoid.type]
    return low.kinds[plan.target.tensor]


def _sum(low: Lowering, plan: Accumulate, scope: Scope) -> list[c.Stmt]:
    kind = _type(low, plan)
    name = low.names.new(f"{plan.target.tensor}_sum" if plan.finish is None else plan.finish.name)
    inner = scope.accumulating(plan.target, at=Accumulator(c.Name(name), kind, monoid=plan.monoid))
    if kind.kind == "f" and _scatters(plan.body):
        body = low.plan(plan.body, replace(inner, numbers=True))
        if any(isinstance(s, c.Declare) for s in body):
            body = [c.Braces(c.Block(tuple(body)))]  # the same is declared again below
        again = [c.Assign(c.Name(name), "=", zero(kind)), *low.plan(plan.body, inner)]
        why = "infinity times nothing is nothing: a sum that is no number is made again of what is stored alone"
        body.append(c.If(c.Bin("!=", c.Name(name), c.Name(name)), c.Block((c.Comment(why), *again))))
    else:
        body = low.plan(plan.body, inner)
    outer = scope.accumulator(plan.target)
    place = low.place(plan.target, scope) if outer is None else outer.place
    place_type = low.kinds[plan.target.tensor] if outer is None else outer.type
    atomic = [openmp.ATOMIC] if scope.atomic and outer is None else []
    total = Accumulator(place, place_type, monoid=plan.monoid)
    stored: list[c.Stmt] = [*atomic, low.added(total, plan.op, c.Name(name), kind)]
    if plan.finish is not None:
        stored = finished(low, plan.finish, c.Name(name), kind, scope, stored)
        declared_again = {n.name for s in stored for n in walk(s) if isinstance(n, c.Declare)}
        if _declared(body) & declared_again:
            body = [c.Braces(c.Block(tuple(body)))]
    return [c.Declare(kind.c, name, low.nothing(kind, plan.monoid)), *body, *stored]


def _declared(lines: Sequence[c.Stmt]) -> set[str]:
    """The names that lines declare for those that follow."""
    names = {s.name for s in lines if isinstance(s, c.Declare)}
    return names.union(*(_declared(s.statements) for s in lines if isinstance(s, c.Block)))


def _scatters(plan: Plan) -> bool:
    """Whether all there is in the nest are loops and values from the workspace of a scatter."""
    inside = [n for n in chain(plan) if not isinstance(n, Scan | Load | Define | Store)]
    return bool(inside) and all(isinstance(n, Find) and n.algorithm == "scatter" for n in inside)


def _temporary(low: Lowering, plan: Accumulate, scope: Scope) -> list[c.Stmt]:
    tensor, start = plan.target.tensor, plan.start
    kind = _kept_type(low, plan)
    name = low.names.new(tensor)
    first = low.nothing(kind, plan.monoid) if start is None else low.value(start, scope, kind)
    kept = Accumulator(c.Name(name), kind, falls=start is not None, monoid=plan.monoid)
    inner = replace(scope, accumulators={**scope.accumulators, (tensor, None): kept})
    return [c.Declare(kind.c, name, first), *low.plan(plan.body, inner)]


def _registers(low: Lowering, plan: Accumulate, registers: Registers, scope: Scope) -> list[c.Stmt]:
    """A few neighbouring sums in an array, which a compiler that can write out the loops keeps in registers; or vectors
    of sums, which are added up in the end."""
    kind = _type(low, plan)
    nothing = low.nothing(kind, plan.monoid)
    name, at = c.Name(low.names.new(f"{plan.target.tensor}_sums")), c.Name(low.names[registers.dim])
    count = registers.count * registers.lanes
    inside: c.Expr = at
    if registers.lane:
        inside = c.Bin("+", c.Bin("*", at, c.Int(registers.lanes)), c.Name(low.names[registers.lane]))
    stored = Accumulator(low.place(plan.target, scope), low.kinds[plan.target.tensor], monoid=plan.monoid)
    sums = Accumulator(c.Load(name, inside), kind, written_out=bool(registers.lane), monoid=plan.monoid)
    body = low.plan(plan.body, scope.accumulating(registers.added, at=sums))
    position = c.Name(low.names.new("p"))
    end = low.fold("spfgen_min", registers.high, scope)
    total: c.Expr = c.Load(name, at)
    lines: list[c.Stmt] = []
    if registers.lane:  # in a loop: of an expression gcc (12) makes shuffles of vectors, which take twice as long
        total, lane = c.Name(low.names.new(f"{plan.target.tensor}_sum")), low.names[registers.lane]
        added = low.added(replace(sums, place=total), "+=", c.Load(name, inside), kind)
        lines = [c.Declare(kind.c, total.name, nothing), loop(lane, c.Int(0), c.Int(registers.lanes), [added])]
    return [
        c.Comment(f"{count} sums, in registers: {plan.because}"),
        c.Declare(kind.c, name.name, length=count),
        loop(position.name, c.Int(0), c.Int(count), [c.Assign(c.Load(name, position), "=", nothing)]),
        *body,
        loop(at.name, c.Int(0), end, [*lines, low.added(stored, plan.op, total, kind)]),
    ]


def _row(low: Lowering, plan: Accumulate, scope: Scope) -> list[c.Stmt]:
    """A row of totals for each thread, in which nothing is combined yet."""
    row = plan.target
    kind = _kept_type(low, plan)
    count = joined("*", [low.expr(e, scope) for e in row.extents])
    space = hoist.workspace(low, memory.WorkspaceArray(low.names.new(row.tensor), kind.c, count), scope)
    lines, pointer = hoist.own_part(low, space, scope)
    assert isinstance(pointer, c.Name)
    low.array_names[row.tensor, row.array] = pointer.name
    counter = low.names.new("p")
    cleared = c.Assign(c.Load(pointer, c.Name(counter)), "=", low.nothing(kind, plan.monoid))
    return [*lines, loop(counter, c.Int(0), count, [cleared]), *low.plan(plan.body, scope)]


def _workspace(low: Lowering, plan: Accumulate, scope: Scope) -> list[c.Stmt]:
    """The totals of all places in a workspace, in which nothing is combined yet."""
    target, kind = plan.target, _kept_type(low, plan)
    name = low.names.new(target.tensor)
    low.array_names[target.tensor, target.array] = name
    count = joined("*", [low.expr(e, scope) for e in target.extents])
    fill = None if plan.monoid is None else low.nothing(kind, plan.monoid)
    low.workspaces.append(memory.WorkspaceArray(name, kind.c, count, fill, when=scope.when))
    return low.plan(plan.body, scope)
