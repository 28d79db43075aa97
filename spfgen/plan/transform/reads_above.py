"""Values that are the same in all of an innermost loop are read above it.

    for p { y[f(p)] += A[p]*x[i] }   ->   x_value = x[i]; for p { y[f(p)] += A[p]*x_value }

A compiler that cannot tell the arrays apart would read them anew after each store. They must lie within their arrays
even where the loop has no iteration (`held`), and must not be of a result.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from spfgen.facts.formula import variables
from spfgen.ir import walk, with_children
from spfgen.plan.nodes import PLANS, Append, Do, Find, Load, Locate, Plan, Scan, Seq, Table, chain
from spfgen.space.nodes import Operand, Read


def with_reads_above(plan: Plan, outputs: Collection[str]) -> Plan:
    """The plan whose innermost loops say what is read above them. `outputs` are the results of the program."""
    return _within(plan, {}, outputs)


def _within(plan: Plan, tables: Mapping[str, Table], outputs: Collection[str]) -> Plan:
    match plan:
        case Table(name):
            tables = {**tables, name: plan}
        case Scan(dim, body=body, held=held) if held:
            plan = replace(plan, reads_above=_same(body, {dim}, held, outputs))
        case Find(dim, hit=hit, held=held) if held and _is_loop(plan, tables):
            found = {dim, *(loaded.dim for loaded in plan.loads)}
            plan = replace(plan, reads_above=_same(hit, found, held, outputs))
    result: Plan = with_children(lambda inner: _within(inner, tables, outputs), plan, PLANS)
    return result


def _is_loop(find: Find, tables: Mapping[str, Table]) -> bool:
    """Whether the find goes from the first position of a key to the last one."""
    table = tables.get(find.place)
    return table is not None and table.kind == "position array" and table.order == "side by side"


def _same(body: Plan, inside: set[str], held: Collection[str], outputs: Collection[str]) -> tuple[str, ...]:
    """The labels of the reads that do not change in a loop with this body."""
    *nodes, last = chain(body)
    parts = last.parts if isinstance(last, Seq) else (last,)
    if not all(isinstance(n, Do | Append) for n in parts) or not all(isinstance(n, Load | Locate) for n in nodes):
        return ()
    inside = inside | {n.dim for n in nodes if isinstance(n, Load | Locate)}
    reads: dict[str, list[Operand]] = {}
    for read in (n.operand for part in parts for n in walk(part) if isinstance(n, Read)):
        reads.setdefault(read.label, []).append(read)
    return tuple(
        label
        for label, operands in reads.items()
        if label in held and all(_is_fixed(o, inside) and o.tensor not in outputs for o in operands)
    )


def _is_fixed(operand: Operand, inside: set[str]) -> bool:
    """Whether its place depends on loops, but on none of these."""
    dims = {v for p in operand.place for v in variables(p)}
    return bool(dims) and not dims & inside
