"""Sums in a type that cannot hold their parts: they are made in a workspace of a wider type and cast once, at the end.

To cast at each addition would give other results where the target is bool, or of whole numbers beside fractions.
"""

from __future__ import annotations

from spfgen.cir.lower.state import Lowering
from spfgen.cir.lower.workspaces import WorkspaceArray
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import openmp
from spfgen.cir.tree.elements import converted
from spfgen.ir import children
from spfgen.lang.types import ElementType, promoted
from spfgen.plan.nodes import Accumulate, Plan, Store, stores_in
from spfgen.space.nodes import Group


def wide_type(lowering: Lowering, group: Group, plan: Plan) -> ElementType | None:
    """The type in which the statement must add; None where its target can hold what is added to it."""
    target_type = lowering.kinds[group.target]
    added = [n for n in stores_in(plan) if n.target.tensor == group.target]
    parts = [lowering.value_type(n.value, target_type).name for n in added]
    kind = promoted([target_type.name, *parts])
    is_lossy = kind.kind != "b" if target_type.kind == "b" else target_type.kind in "iu" and kind.kind in "fc"
    return kind if is_lossy and _adds(plan, group.target) else None


def widened(lowering: Lowering, group: Group, plan: Plan, kind: ElementType) -> list[c.Stmt]:
    """The statement with its target in a workspace."""
    tensor = lowering.program.tensor(group.target)
    target_type, before = lowering.kinds[tensor.name], dict(lowering.array_names)
    first: list[c.Stmt] = []
    last: list[c.Stmt] = []
    for value in tensor.layout.values:
        lowering.arrays[f"{tensor.name}.{value.name}"] = None
        narrow_array = lowering.array_names[tensor.name, value.name]
        wide = lowering.names.new(f"{narrow_array}_wide")
        counter = lowering.names.new("p")
        count: c.Expr = c.Int(1)
        for extent in value.extents:
            factor = lowering.layout_expr(extent, tensor.name)
            count = factor if count == c.Int(1) else c.Bin("*", count, factor)
        lowering.workspaces.append(WorkspaceArray(wide, kind.c, count))
        lowering.array_names[tensor.name, value.name] = wide
        inside, outside = (c.Load(c.Name(name), c.Name(counter)) for name in (wide, narrow_array))
        copies = ((first, inside, converted(outside, target_type, kind)),
                  (last, outside, converted(inside, kind, target_type)))  # fmt: skip
        for lines, target, source in copies:
            body = c.Assign(target, "=", source)
            lines.append(
                c.For("int64_t", counter, c.Int(0), c.Bin("<", c.Name(counter), count), 1, body, (openmp.EQUAL_PARTS,))
            )
    lowering.kinds[tensor.name] = kind
    lines = lowering.nests(plan)
    lowering.kinds[tensor.name], lowering.array_names = target_type, before
    why = f"{tensor.name} is {target_type.name}, sums are made in {kind.name}"
    return [
        *([c.Comment(f"what is added to: {why}"), *first] if group.op == "+=" else []),
        *lines,
        c.Comment(f"the sums, cast once: {why}"),
        *last,
    ]


def _adds(node: object, tensor: str) -> bool:
    """Whether a place of the target may be added to in memory, rather than written once from a sum of its own."""
    match node:
        case Accumulate(target, op) | Store(target, op=op):
            return op == "+=" and target.tensor == tensor
    return any(_adds(n, tensor) for n in children(node))  # variants are no plans, but have some
