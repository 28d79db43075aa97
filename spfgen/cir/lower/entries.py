"""Results whose pattern is computed, in C: a list of entries for each thread or part, joined in their order."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from spfgen import tuning
from spfgen.cir.lower import from_steps
from spfgen.cir.lower.layout import FIELD, KIND
from spfgen.cir.lower.scope import Scope
from spfgen.cir.lower.state import Lowering
from spfgen.cir.lower.workspaces import MEMORY_ERROR, WorkspaceArray
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import openmp
from spfgen.cir.tree.build import any_of, in_braces
from spfgen.cir.tree.elements import converted
from spfgen.ir import walk
from spfgen.lang.types import TYPES
from spfgen.plan.nodes import PLANS, Append, Block, Plan, RowWorkspace
from spfgen.space.nodes import Tensor

ROW = "spfgen_row"
"""The type of the workspace of a row (rt/row.h)."""


def append(low: Lowering, plan: Append, scope: Scope) -> list[c.Stmt]:
    """One more entry, if there is memory for it; what fails is told at the end."""
    tensor = low.program.tensor(plan.tensor)
    entry_type = TYPES[tensor.entry_type]
    if low.steps:
        stored = from_steps.typed_as(low, plan.value, scope, entry_type)
    else:
        kind = low.value_type(plan.value, entry_type)
        stored = converted(low.value(plan.value, scope, kind), kind, entry_type)
    if not plan.without_fill:
        return _entry(low, plan, scope, stored)
    value = c.Name(low.names.new("stored"))
    kept = c.Block(tuple(_entry(low, plan, scope, value)))
    fill = tensor.final_layout.fill
    from spfgen.cir.pack import is_stored  # numpy, which is not needed before

    return [c.Declare(f"const {entry_type.c}", value.name, stored), c.If(is_stored(value, fill, entry_type), kept)]


def _entry(low: Lowering, plan: Append, scope: Scope, stored: c.Expr) -> list[c.Stmt]:
    """An entry with this value: it is counted or inserted, comes to those of its row, or to the end of the list."""
    tensor = low.program.tensor(plan.tensor)
    entry_type = TYPES[tensor.entry_type]
    entries = scope.entries.get(plan.tensor) or low.entries[plan.tensor]
    place = c.Name(low.names.new("entry"))
    count = c.Field(entries, "count")
    if plan.tensor in scope.runs:
        return scope.runs[plan.tensor].append(low, plan, scope, stored)
    if plan.tensor in scope.rows_of:
        row, axis = scope.rows_of[plan.tensor]
        key = low.expr(plan.coordinates[axis], scope)
        before = c.Name(low.names.new("before"))
        place_in_row = c.Call("spfgen_row_place", (row, key, _shape(tensor)[1]))
        value = c.Load(c.Cast(f"{entry_type.c} *", c.Field(row, "values")), place)
        is_new = c.Bin("==", place, before)
        added = c.If(
            is_new,
            c.Block((c.Assign(value, "=", stored),)),
            c.Block((low.combine(value, "+=", stored, entry_type, entry_type),)),
        )
        return [
            c.Declare("const int64_t", before.name, c.Field(row, "count")),
            c.Declare("const int64_t", place.name, place_in_row),
            c.If(c.Bin(">=", place, c.Int(0)), c.Block((added,))),
        ]
    lines: list[c.Stmt] = [c.Declare("const int64_t", place.name, count)]
    coordinates, along = plan.coordinates, tensor.entries.axis
    if along is not None:
        coordinates = (*coordinates, coordinates[along] if plan.last is None else plan.last)
    for k, coordinate in enumerate(coordinates):
        lines.append(c.Do(c.Call("spfgen_appended_set", (entries, c.Int(k), place, low.expr(coordinate, scope)))))
    values = c.Cast(f"{entry_type.c} *", c.Field(entries, "values"))
    lines += [c.Assign(c.Load(values, place), "=", stored), c.Assign(count, "=", c.Bin("+", place, c.Int(1)))]
    return [c.If(c.Call("spfgen_appended_room", (entries, *_shape(tensor))), c.Block(tuple(lines)))]


def gather(low: Lowering, plan: RowWorkspace, scope: Scope) -> list[c.Stmt]:
    """The workspace of a row, one for each thread, around what appends to it; then the entries of the row."""
    tensor = low.program.tensor(plan.tensor)
    rank, size = _shape(tensor)
    ordered = c.Name("false" if tensor.entries.any_order else "true")
    rows = WorkspaceArray(low.names.new(f"{plan.tensor}_rows"), ROW, c.Int(1), each_thread=scope.thread is not None,
                     when=scope.when)  # fmt: skip
    low.workspaces.append(rows)
    low.rows.append(rows)
    row = c.Name(low.names.new(f"{plan.tensor}_row"))
    row_of_thread = c.Bin("+", c.Name(rows.name), openmp.HERE) if rows.each_thread else c.Name(rows.name)
    extent = low.expr(plan.extent, scope)
    entries = scope.entries.get(plan.tensor) or low.entries[plan.tensor]
    many = c.Bin(
        "&&",
        c.Bin(">", extent, c.Int(tuning.WORKSPACE_PLACES)),
        c.Bin(">", c.Bin("/", extent, c.Int(8)), low.values_held()),
    )
    why = "rows that are longer than all that is stored are kept in hash tables"
    hashed = low.chosen("const bool", f"{plan.tensor}_hashed", many, why)
    common = c.Name(low.names.new("common"))
    inner = replace(scope, rows_of={**scope.rows_of, plan.tensor: (row, plan.axis)}, looped=True)
    nests = plan.body.parts if isinstance(plan.body, Block) else (plan.body,)
    lines: list[c.Stmt] = [
        *(s for nest in nests for s in in_braces(low.plan(nest, inner))),
        c.Declare("int64_t", common.name, None, max(1, len(plan.common))),
        *(c.Assign(c.Load(common, c.Int(k)), "=", low.expr(e, scope)) for k, e in enumerate(plan.common)),
        c.Do(c.Call("spfgen_row_end", (row, entries, common, c.Int(plan.axis), rank, extent, size, ordered))),
    ]
    failed = c.Block((c.Assign(c.Field(entries, "failed"), "=", c.Int(1)),))
    started = c.Call("spfgen_row_start", (row, entries, extent, hashed))
    return [
        c.Declare(f"{ROW} *", row.name, row_of_thread),
        c.Comment(plan.because),
        c.If(started, c.Block(tuple(lines)), failed),
    ]


def rows_freed(low: Lowering) -> list[c.Stmt]:
    """What the workspaces of rows hold, before they are given back themselves."""
    return [
        c.Do(c.Call("spfgen_rows_free", (c.Name(w.name), c.Name("threads") if w.each_thread else c.Int(1))))
        for w in low.rows
    ] + low.released


def _shape(tensor: Tensor) -> tuple[c.Expr, c.Expr]:
    """How many coordinates an entry has, with the last one of its interval, and the size of its value."""
    return c.Int(tensor.layout.rank + (tensor.entries.axis is not None)), c.Call(
        "sizeof", (c.Name(TYPES[tensor.entry_type].c),)
    )


def appended(plan: Plan) -> list[str]:
    """The tensors to which a nest appends."""
    return list(dict.fromkeys(n.tensor for n in walk(plan, PLANS) if isinstance(n, Append)))


def divided(
    low: Lowering, names: Sequence[str], count: c.Expr, number: c.Expr, scope: Scope
) -> tuple[list[c.Stmt], list[c.Stmt], Scope]:
    """(declarations within each part of the loop, statements after the loop that join the parts, scope within the
    loop)."""
    declared: list[c.Stmt] = []
    after: list[c.Stmt] = []
    for name in names:
        if name in scope.runs:
            lines, run = scope.runs[name].divided(low, count, number)
            declared += lines
            scope = replace(scope, runs={**scope.runs, name: run})
            continue
        tensor = low.program.tensor(name)
        parts = c.Name(low.names.new(f"{name}_parts"))
        low.workspaces.append(WorkspaceArray(parts.name, KIND, count, when=scope.when))
        mine = c.Name(low.names.new(f"{name}_own"))
        entries = scope.entries.get(name) or low.entries[name]
        part = c.Call("spfgen_appended_part", (entries, parts, count, number))
        declared.append(c.Declare(f"{KIND} *", mine.name, part))
        joined = (entries, parts, count, *_shape(tensor), c.Name("threads"))
        after.append(c.Do(c.Call("spfgen_appended_join", joined)))
        scope = replace(scope, entries={**scope.entries, name: mine})
    return declared, after, scope


def emptied(low: Lowering, name: str) -> list[c.Stmt]:
    """None yet; as many as there are values in all operands are about as many as there will be."""
    if name in low.rooms:
        return []
    entry_list, common = low.entries[name], low.program.tensor(name).entries.common
    by_rows = [] if common is None else [c.Do(c.Call("spfgen_appended_by_rows", (entry_list, c.Int(common))))]
    return [*by_rows, *emptied_list(low, entry_list)]


def emptied_list(low: Lowering, entry_list: c.Expr) -> list[c.Stmt]:
    """The same for a list."""
    return [
        c.Assign(c.Field(entry_list, "count"), "=", c.Int(0)),
        c.Assign(c.Field(entry_list, "expected"), "=", _in_doubles(low.values_held())),
    ]


def _in_doubles(value: c.Expr) -> c.Expr:
    """The same, which cannot overflow then: extents may be large where another one is 0."""
    match value:
        case c.Bin("+" | "-" | "*" as op, left, right):
            return c.Bin(op, _in_doubles(left), _in_doubles(right))
    return c.Cast("double", value)


def declared(low: Lowering) -> list[c.Stmt]:
    """The lists of the results under names of their own."""
    return [
        c.Declare(f"{KIND} *", name.name, c.Un("&", c.Field(c.Name(low.names.tensors[tensor]), FIELD)))
        for tensor, name in low.entries.items()
    ]


def failed(low: Lowering, used: Set[str]) -> list[c.Stmt]:
    """What is said where there was no memory for all entries: nothing is left of them. `used`: the lists that the
    function writes."""
    lists = [name for t, name in low.entries.items() if name.name in used and t not in low.rooms]
    if not lists:
        return []
    free = [c.Do(c.Call("spfgen_appended_free", (name,))) for name in lists]
    missing = any_of([c.Field(name, "failed") for name in lists])
    return [c.If(missing, c.Block((*free, c.Return(c.Name(MEMORY_ERROR)))))]
