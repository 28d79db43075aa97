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
    pattern_of: dict[int, Pattern | None] = {}
    for node in order:
        pattern_of[id(node)] = _pattern(node, [pattern_of[id(c)] for c in children(node)], any_numbers)
    return pattern_of


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
        case Turn(), [pattern]:
            return pattern
        case Product(), [first, second]:
            both = first is not None and second is not None and first.fill == 0 == second.fill
            return Pattern(node.dtype.type(0), first.layout) if both and first is not None else None
        case Call(function=function), _:
            return _called_pattern(function, node, parts, any_numbers)
    return None


def _called_pattern(
    function: np.ufunc, node: Call, patterns_of_operands: Sequence[Pattern | None], any_numbers: bool
) -> Pattern | None:
    operands = node.operands
    numbers = [None if any_numbers and not is_written(node, k) else literal(o) for k, o in enumerate(operands)]
    trial = [
        (np.zeros(1, o.dtype) if n is None else n) if p is None else Entries((), (), np.zeros(0, o.dtype), p.fill)
        for o, n, p in zip(operands, numbers, patterns_of_operands, strict=True)
    ]
    deciding = decided(function, trial)
    for place, fill in deciding.items():
        pattern = patterns_of_operands[place]
        if pattern is not None and len(pattern.layout.parameters) == len(node.shape):
            return Pattern(
                np.asarray(fill).astype(node.dtype)[()],  # of operands: True and 1.0 decide alike
                pattern.layout,
                is_decided=sum(p is not None for p in patterns_of_operands) > 1 or pattern.is_decided,
            )
    if deciding or any(p is None and o.shape for p, o in zip(patterns_of_operands, operands, strict=True)):
        return None
    pattern = next(
        (p for p in patterns_of_operands if p is not None and len(p.layout.parameters) == len(node.shape)), None
    )
    if pattern is None or any(p is None and n is None for p, n in zip(patterns_of_operands, numbers, strict=True)):
        return None
    with np.errstate(all="ignore"):
        values = [n if p is None else p.fill for n, p in zip(numbers, patterns_of_operands, strict=True)]
        _, fill = in_c(np.zeros(0, node.dtype), function(*values, **dict(node.options)))
        alone = sum(p is not None for p in patterns_of_operands) == 1
        return Pattern(fill, pattern.layout, alone and pattern.is_decided)


_OF_KERNELS = frozenset(("0", "1", "-1", "inf", "-inf", "nan", "True"))
"""Fill values that are part of a kernel, which goes through fewer entries for them: those of products and of paths."""


def pieces(node: Node) -> list[Node]:
    """The nodes whose values are computed first, in their order."""
    order = in_order(node)
    known = patterns(order)
    uses = Counter(id(c) for n in order for c in children(n))
    numbers_held: dict[int, int] = {}  # how many numbers the operands of a node hold
    size: dict[int, int] = {}  # how long its text is
    cut: dict[int, Node] = {}

    def measured(one: Node) -> int:
        return _weight(one) + sum(1 if id(c) in cut else size[id(c)] for c in children(one))

    def is_small(part: Node) -> bool:
        """Whether the value takes no more memory than what it is computed of."""
        return known[id(part)] is not None or prod(part.shape) <= numbers_held[id(part)]

    for part in _first(order, known, uses):
        cut[id(part)] = part
    for one in order:
        parts = children(one)
        numbers_held[id(one)] = sum(numbers_held[id(c)] for c in parts) if parts else numbers_of(one)
        size[id(one)] = measured(one)
        while size[id(one)] > tuning.FUSED_NODES:
            inside = _inside(one, cut)
            chosen = [c for c in inside if is_small(c)]
            if not chosen and size[id(one)] > tuning.FUSED_AT_MOST:
                chosen = [c for c in inside if c in parts]
            if not chosen:
                break
            times = _times(one, inside)
            part = max(chosen, key=lambda c: times[id(c)] * size[id(c)])
            cut[id(part)] = part
            for other in (*inside, one):
                size[id(other)] = measured(other)
        if uses[id(one)] > 1 and is_small(one) and any(_weight(n) > 1 for n in (*_inside(one, cut), one)):
            cut[id(one)] = one
    return [n for n in order if id(n) in cut]


def _first(order: Sequence[Node], known: Mapping[int, Pattern | None], uses: Mapping[int, int]) -> Iterator[Node]:
    """What is computed first whatever a kernel would hold: what index notation does not say, the operands of that, and
    operands of products that would be computed more than once."""
    loops: dict[int, bool] = {}
    for part in order:
        parts = children(part)
        loops[id(part)] = _weight(part) > 1 or any(loops[id(c)] for c in parts)
        if not is_said(part):
            yield from (c for c in parts if children(c))
            if part is not order[-1]:
                yield part
        elif isinstance(part, Product):
            yield from (c for c, times in _used(part) if loops[id(c)] and times > 1 and children(c))


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
    times = Counter({id(node): 1})
    for one in (node, *reversed(inside)):
        for part in children(one):
            times[id(part)] += times[id(one)]
    return times
