"""Where the entries of each block lie: an index that a sum goes along runs over that part only.

Of a stencil's rows a block of work meets a few columns, whatever the layout says of all matrices. The image of the
stored entries, as SpDISTAL calls it (Yadav et al., SC 2022, section 4), is here a box: in a block of work the index has
the range of the entries, as an index that is cut has the range of its block; what else is subscripted by it is read
there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import product
from typing import Any

from spfgen import tuning
from spfgen.cluster.blocked import Blocked
from spfgen.cluster.cuts import Box, meeting
from spfgen.cluster.read_conditions import vanishes
from spfgen.cluster.separability import OperandRead, plain, within
from spfgen.cluster.size_estimates import bytes_of
from spfgen.cluster.sliced import moves
from spfgen.ir import walk
from spfgen.lang import nodes as lang
from spfgen.lang.normalize import normalized
from spfgen.run.tensor import Tensor

Range = tuple[int, int]
Side = tuple[OperandRead, int]


def stored_box(block: Tensor, box: Box) -> Box:
    """The part of a block's box in which all its entries lie, empty ranges where there are none."""
    coords = block.to_coo().coords
    if not coords or not coords[0].size:
        return tuple((start, start) for start, _ in box)
    return tuple((start + int(c.min()), start + int(c.max()) + 1) for c, (start, _) in zip(coords, box, strict=True))


def narrowed(
    steps: Sequence[Any],
    reads: Collection[OperandRead],
    operands: Mapping[str, Any],
    zeros: Collection[str],
    sizes: Sequence[str],
) -> dict[str, tuple[Side, ...]]:
    """The indices that run over the entries of blocks, with the axes of the reads that say it: those of an equation
    that are summed, wherever they stand, over what is 0 outside of them, or whose result is 0 there. `steps` are over
    the names of reads, `zeros` the reads that are 0 where nothing is stored."""
    if len(steps) != 1 or not isinstance(steps[0], lang.Statement) or steps[0].within:
        return {}
    step = normalized(tuple(steps), tuple(sizes))[0]
    if not isinstance(step, lang.Statement) or step.op not in ("=", "+="):
        return {}
    sides: dict[str, tuple[Side, ...]] = {}
    for read in reads:
        value = operands[read.access.tensor]
        if read.name not in zeros or not isinstance(value, Blocked) or value.stored is None:
            continue
        for axis, subscript in enumerate(read.access.subscripts):
            index = plain(subscript)
            if index is None or not _narrows(value, axis) or not _is_read_beside(index, read, reads, operands):
                continue
            if _adds_nothing_outside(step, index, read.name):
                sides[index] = (*sides.get(index, ()), (read, axis))
    return sides


def _adds_nothing_outside(step: lang.Statement, index: str, name: str) -> bool:
    """Whether all sums over an index are of what is 0 where an operand is; or the result is, if it has the index."""
    if index in within(step.target):
        return index in map(plain, step.target.subscripts) and vanishes(step.value, name)
    reductions = [n for n in walk(step) if isinstance(n, lang.Reduce) and index in n.indices]
    adds = (n.op == "add" and n.function is None and vanishes(n.value, name) for n in reductions)
    return bool(reductions) and all(adds)


def _is_read_beside(index: str, read: OperandRead, reads: Collection[OperandRead], operands: Mapping[str, Any]) -> bool:
    """Whether other operands are read at an index, and are large enough for it to matter."""
    others = {r.name: r for r in reads if r is not read and any(index in within(s) for s in r.access.subscripts)}
    size = sum(bytes_of(operands[r.access.tensor]) for r in others.values())
    return bool(others) and size >= tuning.CLUSTER_BESIDE * bytes_of(operands[read.access.tensor])


def _narrows(value: Blocked, axis: int) -> bool:
    """Whether blocks have entries in less than a part of their extents along an axis, and can be counted from there."""
    assert value.stored is not None
    bounds, layout = value.bounds[axis], getattr(value.example(), "layout", None)
    if value.npartitions == value.blocks[axis] or layout is None or not moves(layout, axis):
        return False  # other operands are cut as this one is, or its blocks would be packed anew
    parts = [(b[axis][1] - b[axis][0]) / (bounds[p[axis] + 1] - bounds[p[axis]])
             for p, b in value.stored.items() if bounds[p[axis]] < bounds[p[axis] + 1]]  # fmt: skip
    return bool(parts) and sum(parts) < tuning.CLUSTER_STORED * len(parts)


def stored_range(value: Blocked, axis: int, box: Box) -> Range:
    """Along one axis the range of all entries of the blocks that a box meets."""
    assert value.stored is not None
    places = product(*[meeting(b, *side) for b, side in zip(value.bounds, box, strict=True)])
    ranges = [side for side in (value.stored[p][axis] for p in places) if side[0] < side[1]]
    return (min(s[0] for s in ranges), max(s[1] for s in ranges)) if ranges else (0, 0)


__all__ = ["narrowed", "stored_box", "stored_range"]
