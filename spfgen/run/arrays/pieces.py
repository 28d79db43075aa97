"""In which pieces a lazy array is computed.

A kernel of index notation says all of a tree, and what stands in several places of a graph as often. Where that is
long, values of parts are computed first, each by a kernel of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from spfgen import tuning
from spfgen.layout.nodes import Layout
from spfgen.run.arrays.elementwise import decided
from spfgen.run.arrays.entries import Entries, in_c
from spfgen.run.arrays.graph import (
    Call,
    Leaf,
    Node,
    Product,
    Reduce,
    Turn,
    children,
    in_order,
    literal,
    numbers_of,
)
from spfgen.run.arrays.made import is_full
from spfgen.run.arrays.text import is_said, is_written
from spfgen.run.tensor import Tensor


class Pattern:
    """A sparse result: its fill value, the layout of the operand that it is in, and whether a fill value decides what
    it leaves out."""

    def __init__(self, fill: Any, layout: Layout, is_decided: bool = False) -> None:
        self.fill, self.layout, self.is_decided = fill, layout, is_decided


def patterns(order: Sequence[Node], *, any_numbers: bool = False) -> dict[int, Pattern | None]:
    """By the identity of nodes (which come after their operands): where the value is sparse by the rule of tensors its
    pattern, else None. With `any_numbers` it is so whatever the numbers are that a kernel takes as operands."""
    found: dict[int, Pattern | None] = {}
    for node in order:
        found[id(node)] = _pattern(node, [found[id(c)] for c in children(node)], any_numbers)
    return found


def for_any_numbers(node: Node) -> bool:
    """Whether a kernel that does not know the numbers and fill values of the text goes through no more entries than one
    that does."""
    order = in_order(node)
    known, always = patterns(order), patterns(order, any_numbers=True)
    return all(always[n] is not None or known[n] is None for n in known)


def _pattern(node: Node, parts: Sequence[Pattern | None], any_numbers: bool) -> Pattern | None:
    match node, parts:
        case Leaf(value=Tensor() as tensor), _:
            if is_full(tensor.layout) or (any_numbers and tensor.layout.fill_text not in _OF_KERNELS):
                return None
            return Pattern(tensor.fill_value, tensor.layout)
        case Turn(), [own]:
            return own
        case Product(), [first, second]:
            both = first is not None and second is not None and first.fill == 0 == second.fill
            return Pattern(node.dtype.type(0), first.layout) if both and first is not None else None
        case Call(function=function), _:
            return _called_pattern(function, node, parts, any_numbers)
    return None


def _called_pattern(
    function: np.ufunc, node: Call, found: Sequence[Pattern | None], any_numbers: bool
) -> Pattern | None:
    operands = node.operands
    numbers = [None if any_numbers and not is_written(node, k) else literal(o) for k, o in enumerate(operands)]
    trial = [
        (np.zeros(1, o.dtype) if n is None else n) if p is None else Entries((), (), np.zeros(0, o.dtype), p.fill)
        for o, n, p in zip(operands, numbers, found, strict=True)
    ]
    deciding = decided(function, trial)
    for place, fill in deciding.items():
        own = found[place]
        if own is not None and len(own.layout.parameters) == len(node.shape):
            return Pattern(fill, own.layout, is_decided=sum(p is not None for p in found) > 1 or own.is_decided)
    if deciding or any(p is None and o.shape for p, o in zip(found, operands, strict=True)):
        return None
    own = next((p for p in found if p is not None and len(p.layout.parameters) == len(node.shape)), None)
    if own is None or any(p is None and n is None for p, n in zip(found, numbers, strict=True)):
        return None
    with np.errstate(all="ignore"):
        values = [n if p is None else p.fill for n, p in zip(numbers, found, strict=True)]
        _, fill = in_c(np.zeros(0, node.dtype), function(*values, **dict(node.options)))
        alone = sum(p is not None for p in found) == 1
        return Pattern(fill, own.layout, alone and own.is_decided)


_OF_KERNELS = frozenset(("0", "1", "-1", "inf", "-inf", "nan", "True"))
"""Fill values that are part of a kernel, which goes through fewer entries for them: those of products and of paths."""


def pieces(node: Node) -> list[Node]:
    """The nodes whose values are computed first, in their order."""
    order = in_order(node)
    known = patterns(order)
    uses = Counter(id(c) for n in order for c in children(n))
    held: dict[int, int] = {}  # how many numbers the operands of a node hold
    size: dict[int, int] = {}  # how long its text is
    cut: dict[int, Node] = {}

    def measured(own: Node) -> int:
        return _weight(own) + sum(1 if id(c) in cut else size[id(c)] for c in children(own))

    def is_small(part: Node) -> bool:
        """Whether the value takes no more memory than what it is computed of."""
        return known[id(part)] is not None or prod(part.shape) <= held[id(part)]

    for part in _first(order, known, uses):
        cut[id(part)] = part
    for own in order:
        parts = children(own)
        held[id(own)] = sum(held[id(c)] for c in parts) if parts else numbers_of(own)
        size[id(own)] = measured(own)
        while size[id(own)] > tuning.FUSED_NODES:
            inside = _inside(own, cut)
            chosen = [c for c in inside if is_small(c)]
            if not chosen and size[id(own)] > tuning.FUSED_AT_MOST:
                chosen = [c for c in inside if c in parts]
            if not chosen:
                break
            times = _times(own, inside)
            part = max(chosen, key=lambda c: times[id(c)] * size[id(c)])
            cut[id(part)] = part
            for other in (*inside, own):
                size[id(other)] = measured(other)
        if uses[id(own)] > 1 and is_small(own) and any(_weight(n) > 1 for n in (*_inside(own, cut), own)):
            cut[id(own)] = own
    return [n for n in order if id(n) in cut]


def _first(order: Sequence[Node], known: Mapping[int, Pattern | None], uses: Mapping[int, int]) -> Iterator[Node]:
    """What is computed first whatever a kernel would hold: what index notation does not say, the operands of that, and
    operands of products that would be computed more than once."""
    loops: dict[int, bool] = {}
    for own in order:
        parts = children(own)
        loops[id(own)] = _weight(own) > 1 or any(loops[id(c)] for c in parts)
        if not is_said(own):
            yield from (c for c in parts if children(c))
            if own is not order[-1]:
                yield own
        elif isinstance(own, Product):
            yield from (c for c, times in _used(own) if loops[id(c)] and times > 1 and children(c))


def _used(node: Product) -> tuple[tuple[Node, float], tuple[Node, float]]:
    """The operands of a product, each with how often each of its values is used."""
    left, right = node.left, node.right
    columns = right.shape[-1] if len(right.shape) > 1 else 1
    rows = numbers_of(left) / max(1, left.shape[-1]) if len(left.shape) > 1 else 1
    return (left, columns), (right, rows)


def why_first(part: Node, above: Sequence[Node], uses: int) -> str:
    """Why a part is computed before what it stands in, in words."""
    if uses > 1:
        return f"it is used in {uses} places"
    if not is_said(part) or any(not is_said(n) for n in above):
        return "index notation cannot express all of it"
    if any(isinstance(n, Product) for n in above):
        return "each of its values is used more than once"
    return "a single kernel would be too long"


def _weight(node: Node) -> int:
    return tuning.FUSED_LOOP if isinstance(node, Product | Reduce) else 1


def _inside(node: Node, cut: Mapping[int, Node]) -> list[Node]:
    """What is computed for a node along with it, operands first; without what is cut off, and without leaves."""
    within = {id(n): n for n in in_order(node, cut) if children(n) and id(n) not in cut and n is not node}
    return list(within.values())


def _times(node: Node, inside: Sequence[Node]) -> Counter[int]:
    """How often each operand is written out for a node."""
    found = Counter({id(node): 1})
    for own in (node, *reversed(inside)):
        for part in children(own):
            found[id(part)] += found[id(own)]
    return found
