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
    for own in in_order(node):
        held = [layouts[id(p)] for p in children(own)]
        layout = _layout(own, held, known)
        if layout is None:
            return False
        layouts[id(own)] = layout
        named = [name for name in held if name]
        merges += isinstance(own, Call) and len(named) == 2
        merges += len({*named}) == 2  # one of them is converted before
    return merges <= tuning.MERGES


def _layout(own: Node, held: list[str], known: Mapping[int, Pattern | None]) -> str | None:
    """What the layout of a value is called; "" for numbers; None where it is not merged."""
    parts = children(own)
    named = [name for name in held if name]
    match own:
        case Leaf(value=Tensor() as tensor):
            return tensor.layout.name if rises(tensor.layout) else None
        case Leaf():
            return None if own.shape else ""
        case Turn(order=order):
            return f"{held[0]}{order}"
        case Cast():
            return held[0]
        case Call() if named and known[id(own)] is not None and all(p.shape in ((), own.shape) for p in parts):
            return named[0] if len(named) <= 2 else None
    return None
