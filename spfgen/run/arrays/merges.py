"""Trees that go node by node faster than by one kernel: a sparse result, merged from tensors that lie in one order.

A kernel of such a sum finds out while it runs where its result stores something. Merges (ordered.py) do so, too, in a
third of the time; so a kernel pays where it leaves entries out, as products do, or where there are many merges.
"""

from __future__ import annotations

from collections.abc import Mapping

from spfgen import tuning
from spfgen.run.arrays.graph import Call, Cast, Leaf, Node, Turn, children, in_order
from spfgen.run.arrays.ordered import rises
from spfgen.run.arrays.pieces import Pattern
from spfgen.run.tensor import Tensor


def goes_by_merges(node: Node, known: Mapping[int, Pattern | None]) -> bool:
    """Whether to go node by node, with the patterns of all nodes."""
    pattern = known[id(node)]
    if pattern is None or pattern.is_decided or not node.shape:
        return False
    layouts: dict[int, str] = {}
    merges = 0
    for part in in_order(node):
        layouts_of_parts = [layouts[id(p)] for p in children(part)]
        layout = _layout(part, layouts_of_parts, known)
        if layout is None:
            return False
        layouts[id(part)] = layout
        named = [name for name in layouts_of_parts if name]
        merges += isinstance(part, Call) and len(named) == 2
        merges += len({*named}) == 2  # one of them is converted before
    return merges <= tuning.MERGES


def _layout(node: Node, layouts_of_parts: list[str], known: Mapping[int, Pattern | None]) -> str | None:
    """What the layout of a value is called; "" for numbers; None where it is not merged."""
    parts = children(node)
    named = [name for name in layouts_of_parts if name]
    match node:
        case Leaf(value=Tensor() as tensor):
            return tensor.layout.name if rises(tensor.layout) else None
        case Leaf():
            return None if node.shape else ""
        case Turn(order=order):
            return f"{layouts_of_parts[0]}{order}"
        case Cast():
            return layouts_of_parts[0]
        case Call() if named and known[id(node)] is not None and all(p.shape in ((), node.shape) for p in parts):
            return named[0] if len(named) <= 2 else None
    return None
