"""How the entries of results whose pattern is computed are delivered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spfgen.ir import walk
from spfgen.plan.nodes import PLANS, Append, Plan, RowWorkspace
from spfgen.space.nodes import Tensor


def as_delivered(tensor: Tensor, plans: Sequence[Plan]) -> Tensor:
    """The tensor with what all its deliveries are like: intervals along an axis, or rows, which have their first
    coordinate in common."""
    if tensor.assembled is None:
        return tensor
    nodes = [n for p in plans for n in walk(p, PLANS)]
    appended = [n for n in nodes if isinstance(n, Append) and n.tensor == tensor.name]
    axis = next((n.axis for n in reversed(appended) if n.last is not None), None)
    rows = [n for n in nodes if isinstance(n, RowWorkspace) and n.tensor == tensor.name and n.common]
    first = {0 if n.axis else 1 for n in rows}
    gathered = sum(isinstance(n, Append) and n.tensor == tensor.name for r in rows for n in walk(r.body, PLANS))
    common = first.pop() if len(first) == 1 and gathered == len(appended) else None
    tensor = replace(tensor, assembled=replace(tensor.assembled, axis=axis, common=common))
    if common is None:
        return tensor
    return replace(tensor, assembled=replace(tensor.entries, any_order=_in_any_order(tensor)))


def _in_any_order(tensor: Tensor) -> bool:
    from spfgen.plan.assemble.by_key import KeyAssembly, assembly_by_key  # numpy, which is not needed before

    assembly = assembly_by_key(tensor)
    tree = assembly.tree if isinstance(assembly, KeyAssembly) else None
    return tree is not None and tree.takes_rows(tensor.entries.common) and tree.any_order
