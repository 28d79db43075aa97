"""What finds need around them: states that are kept over loops, tables that are built once for the loops inside."""

from __future__ import annotations

from dataclasses import replace

from spfgen.cir.lower import finds
from spfgen.cir.lower.scope import Built, FindState, Scope
from spfgen.cir.lower.state import Lowering
from spfgen.cir.lower.workspaces import WorkspaceArray
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.build import INT, joined
from spfgen.cir.tree.print import print_expr
from spfgen.plan.nodes import Find, FindTable, LevelLoop, Plan, Scan, SearchState, Segment


def state(low: Lowering, plan: SearchState, scope: Scope) -> list[c.Stmt]:
    """Where a sequential find stands; a parallel loop directly inside starts it for each thread."""
    node: Plan | None = plan.body
    while isinstance(node, SearchState | FindTable | Segment):
        node = node.body
    if isinstance(node, LevelLoop) or (isinstance(node, Scan | Find) and node.parallel):
        return low.plan(plan.body, replace(scope, waiting=(*scope.waiting, plan)))
    lines, where = find_state(low, plan, scope, seated=bool(plan.low), once=not scope.looped)
    return [*lines, *low.plan(plan.body, replace(scope, states={**scope.states, plan.name: where}))]


def find_state(
    low: Lowering, plan: SearchState, scope: Scope, seated: bool, once: bool
) -> tuple[list[c.Stmt], FindState]:
    """Declare a state and start it; an array that starts more than `once` is cleared each time."""
    stem = low.names[plan.name]
    if plan.extents:
        count = joined("*", [low.expr(e, scope) for e in plan.extents])
        array = workspace(low, WorkspaceArray(low.names.new(f"{stem}s"), INT, count), scope)
        lines, pointer = own_part(low, array, scope)
        if not once:
            counter = low.names.new(f"{stem}_place")
            clear = c.Assign(c.Load(pointer, c.Name(counter)), "=", c.Int(0))
            lines.append(c.For(INT, counter, c.Int(0), c.Bin("<", c.Name(counter), count), 1, clear))
        assert isinstance(pointer, c.Name)
        return lines, FindState(pointer.name, "", True, False)
    if plan.over:
        tag = low.names.new(f"{stem}_of")
        return [c.Declare(INT, stem, c.Int(-1)), c.Declare(INT, tag, c.Int(-1))], FindState(stem, tag, False, False)
    start: c.Expr = c.Int(-1)
    if seated:
        function, bounds = ("spfgen_min", plan.high) if plan.backward else ("spfgen_max", plan.low)
        start = low.fold(function, bounds, scope)
    return [c.Declare(INT, stem, start)], FindState(stem, "", False, seated)


def workspace(low: Lowering, wanted: WorkspaceArray, scope: Scope) -> WorkspaceArray:
    placed = replace(wanted, each_thread=scope.thread is not None, when=scope.when)
    low.workspaces.append(placed)
    return placed


def own_part(low: Lowering, space: WorkspaceArray, scope: Scope) -> tuple[list[c.Stmt], c.Expr]:
    """The thread's part of a workspace."""
    if scope.thread is None:
        return [], c.Name(space.name)
    name = low.names.new(f"{space.name}_own")
    place = c.Bin("*", scope.thread, space.count)
    return [c.Declare(f"{space.kind} *restrict", name, c.Bin("+", c.Name(space.name), place))], c.Name(name)


def table(low: Lowering, plan: FindTable, scope: Scope) -> list[c.Stmt]:
    """Build, use, and (where it will be built again) reset."""
    lines: list[c.Stmt] = []
    arrays: dict[str, c.Expr] = {}
    for role, wanted in finds.table_workspaces(low, plan, scope).items():
        more, arrays[role] = own_part(low, workspace(low, wanted, scope), scope)
        lines += more
    first = bound(low, lines, plan, "start", low.fold("spfgen_max", plan.low, scope))
    last = bound(low, lines, plan, "stop", low.fold("spfgen_min", plan.high, scope))
    if plan.kind == "hash map":
        shift = low.names.new(f"{low.names[plan.dim]}_shift")
        span = last if first == c.Int(0) else c.Bin("-", last, first)
        lines.append(c.Declare("const int", shift, c.Call("spfgen_hash_shift", (span,))))
        arrays["shift"] = c.Name(shift)
    built = Built(plan, arrays, first, last, low.expr(plan.extent, scope))
    keys = print_expr(low.expr(plan.call, scope))
    comment = c.Comment(f"{plan.kind} of the positions by {keys}: {plan.because}")
    inside = replace(scope, tables={**scope.tables, plan.name: built})
    after = finds.reset(low, built, scope) if scope.looped else []
    return [*lines, comment, *finds.build(low, built, scope), *low.plan(plan.body, inside), *after]


def bound(low: Lowering, lines: list[c.Stmt], plan: FindTable, word: str, value: c.Expr) -> c.Expr:
    """A bound of a table's range under a name."""
    if isinstance(value, c.Name | c.Int):
        return value
    name = low.names.new(f"{low.names[plan.dim]}_{word}")
    lines.append(c.Declare(f"const {INT}", name, value))
    return c.Name(name)
