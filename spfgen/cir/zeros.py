"""Zeros of blocks that are passed over, in C (plan/zeros.py says why that is right)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spfgen.cir import nodes as c
from spfgen.cir.build import INT, joined, loop
from spfgen.cir.cost import cost_expr
from spfgen.cir.elements import zero
from spfgen.cir.scope import Picking, Scope
from spfgen.cir.workspaces import Workspace
from spfgen.facts.formula import Expr
from spfgen.plan.listed import MOST as LISTED
from spfgen.plan.nodes import Copied, Listed, Pick, PickRow, Skip
from spfgen.space.nodes import Operand

if TYPE_CHECKING:
    from spfgen.cir.from_plan import Lowering

AGAIN = 4.0
"""How often a value must be used for a copy to be worth it, where half of the values are zero or more."""
FULLER = 16.0
"""The same where fewer are: a copy then saves less."""
PAIR = 2
"""A copy is gone through as fast as rows of blocks of so many values, and so many times slower than wider ones."""
COLUMN = "int32_t"


def skip(low: Lowering, plan: Skip, scope: Scope) -> list[c.Stmt]:
    """The body where the value is not zero, or zeros may not be passed over."""
    finite = _vanishing(low, plan.other, plan.additions, scope)
    is_zero = c.Bin("==", low.place(plan.value, scope), zero(low.kinds[plan.value.tensor]))
    why = c.Comment(plan.because)
    return [why, c.If(c.Un("!", c.Bin("&&", finite, is_zero)), c.Block(tuple(low.plan(plan.body, scope))))]


def _vanishing(low: Lowering, other: Operand, additions: Expr, scope: Scope) -> c.Expr:
    """Whether zero times any value of the array is zero: found out where it takes little beside all additions."""
    key = (other.tensor, other.array)
    if key not in low.finite:
        kind = low.kinds[other.tensor]
        count = joined("*", [low.expr(e, scope) for e in other.extents])
        enough = c.Bin(">", cost_expr(additions, low, scope), c.Cast("double", count))
        low.arrays[f"{other.tensor}.{other.array}"] = None
        values = c.Name(low.array_names[key])
        if kind.kind == "f":
            asked = c.Call(f"spfgen_finite_{kind.name}", (values, count, c.Name("threads")))
            enough = c.Bin("&&", enough, asked)
        low.finite[key] = low.names.new(f"{other.tensor}_finite")
        low.choices += [
            c.Comment(f"zero times any value of {other.tensor} is zero if all are finite"),
            c.Declare("const bool", low.finite[key], enough),
        ]
    return c.Name(low.finite[key])


def copied(low: Lowering, plan: Copied, scope: Scope) -> list[c.Stmt]:
    """How much is not zero is counted before memory is taken; then it is copied, or not."""
    tensor = plan.source.tensor
    kind = low.kinds[tensor]
    rows = low.expr(plan.rows, scope)
    wanted, kept = _wanted(low, plan, scope)
    starts, columns, values = (
        _array(low, name, of, size, wanted)
        for name, of, size in zip(
            plan.arrays, (INT, COLUMN, kind.c), (c.Bin("+", rows, c.Int(1)), kept, kept), strict=True
        )
    )
    low.made[plan.arrays[0]], low.made[plan.arrays[1]] = (starts.name, "int64"), (columns.name, "int32")
    low.array_names[tensor, plan.arrays[2].split(".", 1)[1]] = values.name
    place, number, end = (c.Name(low.names.new(f"{tensor}_{n}")) for n in ("place", "row", "end"))
    following = c.Load(starts, c.Bin("+", number, c.Int(1)))
    count = [
        c.Comment(f"where each row of {tensor} begins without its zeros"),
        c.Assign(c.Load(starts, c.Int(0)), "=", c.Int(0)),
        *low.plan(plan.pick, replace(scope, picking=Picking(place, starts))),
        loop(number.name, c.Int(0), rows, [c.Assign(following, "+=", c.Load(starts, number))]),
        c.Comment("no value stands in two rows, or there is no room"),
        c.Assign(wanted, "=", c.Bin("<=", c.Load(starts, rows), kept)),
    ]
    copy = [
        c.Comment(f"the values of {tensor} that are not zero, and their columns"),
        *low.plan(plan.pick, replace(scope, picking=Picking(place, starts, (columns,), values, end))),
        *low.plan(plan.copied, replace(scope, when=wanted)),
    ]
    return [
        c.If(wanted, c.Block(tuple(count))),
        c.If(wanted, c.Block(tuple(copy)), c.Block(tuple(low.plan(plan.plain, scope)))),
    ]


def _wanted(low: Lowering, plan: Copied, scope: Scope) -> tuple[c.Name, c.Name]:
    """Whether a copy is made, and how many values it has."""
    tensor = plan.source.tensor
    finite = _vanishing(low, plan.other, plan.additions, scope)
    total = joined("*", [low.expr(e, scope) for e in plan.source.extents])
    often = c.Bin(">", cost_expr(plan.additions, low, scope), c.Bin("*", c.Float(AGAIN), c.Cast("double", total)))
    tests = [finite, often, c.Bin("<=", low.expr(plan.limit, scope), c.Name("INT32_MAX"))]
    if scope.when is not None:
        tests.insert(0, scope.when)
    wanted, kept = (c.Name(low.names.new(f"{tensor}_{n}")) for n in ("copied", "kept"))
    position = low.names.new("p")
    low.arrays[f"{tensor}.{plan.source.array}"] = None
    value = c.Load(c.Name(low.array_names[tensor, plan.source.array]), c.Name(position))
    counted = c.Assign(kept, "+=", c.Bin("!=", value, zero(low.kinds[tensor])))
    pragma = f"omp parallel for simd reduction(+ : {kept.name}) num_threads(threads)"
    more = c.Bin(">", cost_expr(plan.additions, low, scope), c.Bin("*", c.Float(FULLER), c.Cast("double", total)))
    worth = c.Bin("||", c.Bin("<=", c.Bin("*", c.Int(2), kept), total), more)
    if plan.width > PAIR:
        each = c.Bin("<=", c.Bin("*", c.Int(plan.width), kept), c.Bin("*", c.Int(PAIR), total))
        worth = c.Bin("&&", each, worth)
    counts = [loop(position, c.Int(0), total, [counted], pragma), c.Assign(wanted, "=", worth)]
    low.choices += [
        c.Comment(f"{tensor} is copied without its zeros, row by row, where that pays: {plan.because}"),
        c.Declare(INT, kept.name, c.Int(0)),
        c.Declare("bool", wanted.name, joined("&&", tests)),
        c.If(wanted, c.Block(tuple(counts))),
    ]
    return wanted, kept


def _array(low: Lowering, function: str, kind: str, count: c.Expr, when: c.Expr) -> c.Name:
    name = low.names.new(function)
    low.workspaces.append(Workspace(name, kind, count, cleared=False, when=when))
    return c.Name(name)


def listed(low: Lowering, plan: Listed, scope: Scope) -> list[c.Stmt]:
    """A list for some iterations at a time, then the loop over it."""
    tensor = plan.source.tensor
    vanishing = _vanishing(low, plan.other, plan.additions, scope)
    first, last, count = (c.Name(low.names[n]) for n in plan.names)
    values, *columns = (c.Name(low.names.new(n)) for n in (f"{tensor}_listed", *plan.arrays))
    low.made |= {n: (column.name, INT.removesuffix("_t")) for n, column in zip(plan.arrays, columns, strict=True)}
    low.array_names[tensor, "listed"] = values.name
    end = low.fold("spfgen_min", plan.high, scope)
    picking = Picking(count, columns=tuple(columns), values=values, vanishing=vanishing)
    body = [
        c.Declare(f"const {INT}", last.name, c.Call("spfgen_min", (c.Bin("+", first, c.Int(plan.each)), end))),
        *(c.Declare(INT, column.name, length=LISTED) for column in columns),
        c.Declare(low.kinds[tensor].c, values.name, length=LISTED),
        c.Declare(INT, count.name, c.Int(0)),
        *low.plan(plan.picked, replace(scope, picking=picking)),
        *low.plan(plan.body, scope),
    ]
    start, more = low.fold("spfgen_max", plan.low, scope), c.Bin("<", first, end)
    why = c.Comment(f"what is not zero in {plan.each} iterations is listed, then gone through: {plan.because}")
    return [why, c.For(INT, first.name, start, more, plan.each, c.Block(tuple(body)))]


def row(low: Lowering, plan: PickRow, scope: Scope) -> list[c.Stmt]:
    """A row is counted, or copied to its place."""
    picking = scope.picking
    assert picking is not None
    assert picking.starts is not None
    at = low.expr(plan.row, scope)
    body = low.plan(plan.body, scope)
    end = c.Load(picking.starts, c.Bin("+", at, c.Int(1)))
    if picking.end is not None:
        limits = ((INT, picking.place, c.Load(picking.starts, at)), (f"const {INT}", picking.end, end))
        return [*(c.Declare(kind, name.name, value) for kind, name, value in limits), *body]
    return [c.Declare(INT, picking.place.name, c.Int(0)), *body, c.Assign(end, "=", picking.place)]


def pick(low: Lowering, plan: Pick, scope: Scope) -> list[c.Stmt]:
    """A value is counted, or copied: it is written in any case, and the next one over it if it is zero, as nobody can
    foresee which ones are."""
    picking = scope.picking
    assert picking is not None
    value = low.place(plan.values, scope)
    kept: c.Expr = c.Bin("!=", value, zero(low.kinds[plan.values.tensor]))
    if picking.vanishing is not None:
        kept = c.Bin("|", c.Un("!", picking.vanishing), kept)
    counted = c.Assign(picking.place, "+=", kept)
    if picking.values is None:
        return [counted]
    keys = [low.expr(k, scope) for k in plan.keys]
    if picking.end is not None:  # columns are shorter
        keys = [c.Cast(COLUMN, k) for k in keys]
    columns = (c.Assign(c.Load(n, picking.place), "=", k) for n, k in zip(picking.columns, keys, strict=True))
    stored = (*columns, c.Assign(c.Load(picking.values, picking.place), "=", value), counted)
    return list(stored) if picking.end is None else [c.If(c.Bin("<", picking.place, picking.end), c.Block(stored))]
