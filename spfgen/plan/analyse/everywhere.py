"""Results whose pattern is computed that get an entry at every coordinate, whatever their operands store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spfgen.facts.formula import ZERO, Expr, Num, Var, variables
from spfgen.ir import children, walk
from spfgen.lang.nodes import Apply
from spfgen.plan.nodes import (
    PLANS,
    Append,
    Assign,
    Clear,
    Collect,
    Find,
    Guard,
    If,
    Let,
    Plan,
    Repeat,
    Scan,
    UpdateEntry,
)
from spfgen.space.local_tensors import COUNT
from spfgen.space.nodes import Program, Tensor

SELECTS = {
    *("where", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    *("logical_and", "logical_or", "logical_xor", "logical_not", "isnan", "isfinite", "isinf"),
}
"""What may make most values of an operand the fill of the result."""


def filled(plan: Plan, program: Program) -> tuple[str, ...]:
    """The tensors of which a nest stores all: its loops are over all values of each coordinate. Whether one is the fill
    is asked, but nothing else that could leave out most."""
    tensors: dict[str, None] = {}
    for tensor in (t for t in program.tensors if t.assembled is not None and t.final_layout.indexes and t.extents):
        names = {tensor.name, *_tables_of(plan, tensor.name)}
        if any(_everywhere(scans, entry, tensor, program) for scans, entry in _entries(plan, names, ())):
            tensors[tensor.name] = None
    return tuple(tensors)


def _tables_of(plan: Plan, name: str) -> Iterator[str]:
    """The tables that keep the entries of a tensor until they are appended."""
    counts = {f"{n.name}.{COUNT}": n.name for n in walk(plan, PLANS) if isinstance(n, Collect)}
    for scan in (n for n in walk(plan, PLANS) if isinstance(n, Scan)):
        if any(isinstance(n, Append) and n.tensor == name for n in walk(scan.body, PLANS)):
            yield from (counts[v] for e in scan.high for v in variables(e) if v in counts)


def _entries(
    node: Any, names: set[str], scans: tuple[Scan, ...]
) -> Iterator[tuple[tuple[Scan, ...], Append | UpdateEntry]]:
    """What makes an entry, with the loops around it, where nothing but the fill is asked on the way."""
    match node:
        case Append(tensor=name) | UpdateEntry(name=name) if name in names:
            yield scans, node
            return
        case Clear() | Find() | Guard() | Repeat():
            return
        case If(otherwise=None, then=then) if _is_about_the_fill(node):
            yield from _entries(then, names, scans)
            return
        case If():
            return
        case Scan():
            scans = (*scans, node)
            if any(n.op in SELECTS for k in walk(node.body) if isinstance(k, Let | Assign) for n in _applied(k)):
                return
    for child in children(node):
        if isinstance(child, PLANS):
            yield from _entries(child, names, scans)


def _applied(node: Let | Assign) -> Iterator[Apply]:
    return (n for n in walk(node.value) if isinstance(n, Apply))


def _is_about_the_fill(node: If) -> bool:
    """`value != fill`, or that it is no nan where the fill is."""
    condition = node.condition
    if not isinstance(condition, Apply):
        return False
    inner = condition.arguments[0]
    return condition.op == "not_equal" or (
        condition.op == "logical_not" and isinstance(inner, Apply) and inner.op == "isnan"
    )


def _everywhere(scans: tuple[Scan, ...], entry: Append | UpdateEntry, tensor: Tensor, program: Program) -> bool:
    """Whether each coordinate is the index of a loop of its own over the whole extent; a run of them is one loop."""
    sizes = {*program.size_names}
    loop_of = {s.dim: s for s in scans}
    if any(variables(e) - sizes for s in scans for e in (*s.low, *s.high)):
        return False
    if isinstance(entry, Append) and entry.last is not None:
        return False
    coordinates = entry.coordinates if isinstance(entry, Append) else entry.at
    indices = [c.name for c in coordinates if isinstance(c, Var)]
    if len(indices) != len(coordinates) or len(set(indices)) < len(indices) or not {*indices} <= loop_of.keys():
        return False
    return all(_is_whole(loop_of[i]) for i in indices)


def _is_whole(scan: Scan) -> bool:
    """From 0 to a size: which one does not matter, the tensor has that extent."""
    return scan.low == (ZERO,) and len(scan.high) == 1 and _is_size(scan.high[0])


def _is_size(expr: Expr) -> bool:
    return isinstance(expr, Var | Num)
