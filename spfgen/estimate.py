"""What a call of a kernel needs: bytes of its arrays and operations on values, as formulas in the sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from spfgen.facts.formula import ONE, ZERO, Expr, Num, Var, show, substitute
from spfgen.ir import walk
from spfgen.lang.nodes import Apply
from spfgen.lang.types import TYPES
from spfgen.plan.analyse.cost import plus, simplified, times
from spfgen.plan.analyse.trips import Trips, plans_inside
from spfgen.plan.nodes import Append, InPlace, Plan, Products, RowWorkspace, Scan, Store, Versions
from spfgen.space.nodes import Instance, Program, Tensor


def memory(program: Program) -> list[tuple[str, str]]:
    """(array, its bytes) of all arrays, shared ones once; then about their sum."""
    sizes: dict[str, Expr] = {}
    for tensor in (t for t in program.tensors if t.assembled is None):
        shared = {a: f for a, f in tensor.arrays if f.partition(".")[0] != tensor.name}
        for array in tensor.layout.arrays:
            if array not in shared:
                sizes[f"{tensor.name}.{array}"] = _bytes(tensor, array)
    total = plus(*sizes.values())
    return [*((name, show(expr)) for name, expr in sizes.items()), ("all, about", _shown(total))]


def _shown(formula: Expr) -> str:
    """As a person reads it, whole numbers as such."""
    return re.sub(r"(\d)\.0(?!\d)", r"\1", simplified(formula))


def _bytes(tensor: Tensor, array: str) -> Expr:
    """Of one array of a tensor."""
    layout = tensor.layout
    kind = dict(tensor.index_types).get(array, tensor.value_type)
    names = dict(zip((*layout.parameters, *layout.sizes), (*tensor.extents, *tensor.sizes), strict=True))
    extents = [substitute(e, {n: Var(d) for n, d in names.items()}) for e in layout.extents(array)]
    return times(Num(TYPES[kind].bytes), *extents)


def work(program: Program, plans: tuple[Plan, ...]) -> list[tuple[str, str]]:
    """(statement, operations on values): additions, multiplications and divisions, where every find succeeds."""
    rows = []
    for plan in plans:
        total: Expr = ZERO
        text = program.steps.text
        instances: tuple[Instance, ...] = ()
        if isinstance(plan, Products):
            text, instances = plan.asked.group.text, plan.asked.group.instances
        if instances:
            for trips, do in _visits(plan, ONE, Trips(instances, plan)):
                total = plus(total, times(trips, Num(_operations(do))))
        rows.append((text, _shown(total)))
    return rows


def assembly(program: Program, plans: tuple[Plan, ...]) -> list[str]:
    """What results whose pattern is computed take until they are packed, on the average of such sizes."""
    lines = []
    for group, plan in ((p.asked.group, p.body) for p in plans if isinstance(p, Products)):
        tensor = next((t for t in program.tensors if t.name == group.target and t.assembled is not None), None)
        if tensor is None or not group.instances:
            continue
        if any(isinstance(n, InPlace) for n in walk(plan)):
            lines.append(f"4 or 8 bytes for each group of {tensor.name}, for each thread where these share groups")
            continue
        total: Expr = ZERO
        for trips, _ in _visits(plan, ONE, Trips(group.instances, plan)):
            total = plus(total, trips)
        gathers = [n for n in walk(plan) if isinstance(n, RowWorkspace)]
        bytes_ = TYPES[tensor.entry_type].bytes
        each, wide = (n * tensor.layout.rank + bytes_ for n in (4, 8))
        most = "at most " if gathers else ""
        lines.append(f"{most}{_shown(total)} entries of {tensor.name}, {each} bytes each, or {wide} beyond 32 bits")
        for extent in dict.fromkeys(n.extent for n in gathers):
            lines.append(f"4*{show(extent)} bytes for the rows of each thread, and what they hold; or a hash table")
    return lines


def _visits(plan: Plan, trips: Expr, counts: Trips) -> Iterator[tuple[Expr, Store]]:
    """How often each computation is done."""
    match plan:
        case Store():
            yield trips, plan
        case Append():
            yield trips, plan.as_store
        case Versions(versions):
            usual = versions[0] if plan.by_cost else versions[-1]
            yield from _visits(usual.body, trips, counts)
        case Scan(_, low, high):
            inner = times(trips, counts.of(low, high))
            for child in plans_inside(plan):
                yield from _visits(child, inner, counts)
        case _:
            for child in plans_inside(plan):
                yield from _visits(child, trips, counts)


def _operations(do: Store) -> int:
    return sum(isinstance(n, Apply) for n in walk(do.value)) + (do.op != "=")
