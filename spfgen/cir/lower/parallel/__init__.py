"""Loops on threads (plan/transform/partition.py says how): parts of the iterations, and what is added up after them."""

from __future__ import annotations

from spfgen import tuning
from spfgen.cir.lower import entries, placing
from spfgen.cir.lower.parallel.parts import Loop, Parts, number_of_parts, taken
from spfgen.cir.lower.parallel.privatised import summed, with_copies
from spfgen.cir.lower.parallel.rows import divided, rows_in_parts, segments
from spfgen.cir.lower.scope import Scope
from spfgen.cir.lower.state import Lowering
from spfgen.cir.tree import nodes as c
from spfgen.facts.formula import ZERO, Var
from spfgen.ir import walk
from spfgen.plan.nodes import PLANS, Find, Guard, Load, Partition, Scan, body


def on_threads(low: Lowering, plan: Loop, scope: Scope) -> list[c.Stmt]:
    """The loop in parts, and what comes after them."""
    partition = plan.partition
    assert partition is not None
    lines = _in_parts(low, plan, partition, scope)
    if partition.weight is None or _has_ends(low, plan):
        return lines
    # An array of weights holds an element for each end of a loop with iterations; for others it may not.
    bottom, top = low.fold("spfgen_max", plan.low, scope), low.fold("spfgen_min", plan.high, scope)
    nothing = c.Block(tuple(low.clear(partition.clears))) if partition.clears else None
    return [c.If(c.Bin("<", bottom, top), c.Block(tuple(lines)), nothing)]


def _has_ends(low: Lowering, plan: Loop) -> bool:
    """Whether the loop never ends before it begins: from 0 to a size."""
    if plan.low != (ZERO,) or len(plan.high) != 1:
        return False
    (end,) = plan.high
    return isinstance(end, Var) and end.name in low.program.sizes.readings


def _in_parts(low: Lowering, plan: Loop, partition: Partition, scope: Scope) -> list[c.Stmt]:
    match partition.adds:
        case "sum":
            return summed(low, plan, partition, scope)
        case "copies":
            return with_copies(low, plan, partition, scope)
        case "segments":
            assert isinstance(plan, Scan)
            return segments(low, plan, partition, scope)
    if partition.slice is not None and isinstance(plan, Scan):
        return rows_in_parts(low, plan, partition, partition.slice, scope)
    if partition.row and isinstance(plan, Scan):
        return divided(low, plan, partition, scope)
    windows = placing.samples(low, scope)
    if windows is not None:
        return _some(low, plan, scope, *windows)
    count = placing.lanes(low, scope) or number_of_parts(low, partition, scope)
    parts = Parts(low, plan, scope, count, taken(partition))
    declared, after, inside = entries.divided(low, entries.appended(plan), parts.count, parts.part, parts.scope)
    return [parts.comment(), *parts.loop([*parts.bounds, *declared, *parts.alone(inside)]), *after]


def _some(low: Lowering, plan: Loop, scope: Scope, count: c.Expr, window: c.Expr) -> list[c.Stmt]:
    """Some of so many parts, one after another; each notes its number."""
    parts = Parts(low, plan, scope, count, "")
    sample = c.Name(low.names.new("sample"))
    every = c.Bin("/", count, c.Int(tuning.CONVERT_SAMPLES))
    number = c.Declare("const int", parts.part.name, c.Bin("*", sample, every))
    noted = c.Assign(window, "=", c.Bin("+", sample, c.Int(1)))
    body = c.Block((number, noted, *parts.bounds, *parts.alone(parts.scope)))
    more = c.Bin("<", sample, c.Int(tuning.CONVERT_SAMPLES))
    return [c.For("int", sample.name, c.Int(0), more, 1, body)]


def needs_parts(plan: Loop) -> bool:
    """Whether a pragma on the loop itself would not do."""
    partition = plan.partition
    if partition is None:
        return False
    return (
        partition.weight is not None
        or partition.uneven
        or bool(partition.adds)
        or (isinstance(plan, Scan) and plan.between is not None)
        or _pays_dynamic(plan)
    )


def _pays_dynamic(plan: Loop) -> bool:
    """Whether it pays that a thread that is done early finds more to do: there are loops inside, which take longer than
    to ask for it, and look things up, which takes now longer, now less."""
    inside = list(walk(body(plan), PLANS))
    alone = isinstance(plan, Scan) and (plan.collapse > 1 or plan.vector)
    loops, looks_up = any(isinstance(n, Loop) for n in inside), any(isinstance(n, Load | Guard | Find) for n in inside)
    return loops and looks_up and not alone
