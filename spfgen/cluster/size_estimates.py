"""How many bytes parts of operands and results are expected to have: stored entries lie evenly, and independently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from spfgen import tuning
from spfgen.cluster.blocked import Blocked
from spfgen.cluster.cuts import Box, meeting
from spfgen.cluster.joint import Cuts, Joint
from spfgen.cluster.separability import RESULT, OperandRead, within
from spfgen.lang import nodes as lang
from spfgen.lang.normalize import normalized
from spfgen.lang.signs import PLACES
from spfgen.lang.uses import accesses_in

SHORT = tuning.CLUSTER_ENTRY - tuning.CLUSTER_DENSE
"""Bytes of an index, or of a pointer to a row."""

Ranges = Mapping[str, Sequence[int]]


def bytes_of(value: Any) -> float:
    """Of a whole operand of any kind."""
    shape = value.shape if hasattr(value, "shape") else ()
    if isinstance(value, Blocked):
        per = tuning.CLUSTER_DENSE if is_dense(value) else tuning.CLUSTER_SPARSE
        known = value.expected if value.nbytes is None else value.nbytes
        return per * float(prod(value.shape)) if known is None else float(known)
    if hasattr(value, "arrays"):
        return float(sum(a.nbytes for a in value.arrays.values()))
    size = getattr(value, "nbytes", None)
    if size is None:  # a matrix of scipy
        size = sum(a.nbytes for a in vars(value).values() if isinstance(a, np.ndarray)) if shape else 8
    return float(size)


def bytes_within(value: Any, box: Box) -> float:
    """Of what an operand has in a box."""
    if isinstance(value, Blocked) and value.weights is not None and box:
        return _of_blocks(value, value.weights, box)
    shape = value.shape if hasattr(value, "shape") else ()
    part: float = 1.0
    for (low, high), extent in zip(box, shape, strict=True):
        part *= (high - low) / extent if extent else 0
    if not isinstance(value, Blocked) or is_dense(value) or not shape:
        return bytes_of(value) * part
    pointers: float = min(bytes_of(value), SHORT * shape[0])
    rows: float = (box[0][1] - box[0][0]) / max(1, shape[0])
    return (bytes_of(value) - pointers) * part + pointers * rows


def _of_blocks(value: Blocked, weights: Mapping[tuple[int, ...], int], box: Box) -> float:
    """The same where the bytes of each block are known."""
    total = 0.0
    for place in product(*[meeting(b, *side) for b, side in zip(value.bounds, box, strict=True)]):
        block_box = [(b[k], b[k + 1]) for b, k in zip(value.bounds, place, strict=True)]
        inside = [(max(a, w), min(z, h)) for (a, z), (w, h) in zip(block_box, box, strict=True)]
        rows = (inside[0][1] - inside[0][0]) / (block_box[0][1] - block_box[0][0])
        part = prod((z - a) / (block_box[k][1] - block_box[k][0]) for k, (a, z) in enumerate(inside))
        pointers = min(weights[place], SHORT * (block_box[0][1] - block_box[0][0]))
        total += (weights[place] - pointers) * part + pointers * rows
    return total


def is_dense(value: Any) -> bool:
    """Whether an operand of any kind has a number at each place."""
    if isinstance(value, Blocked):
        value = value.example() if value.layout is None else value.layout
        return isinstance(value, np.ndarray | np.generic)
    return isinstance(value, np.ndarray | np.generic) or not getattr(value, "shape", ())


def density_of(value: Any) -> float:
    """The part of the places of an operand at which something is stored."""
    if is_dense(value):
        return 1.0
    stored = getattr(value, "nse", getattr(value, "nnz", None))
    if stored is None:
        stored = max(0.0, bytes_of(value) - SHORT * value.shape[0]) / _of_entry(value.shape, tuning.CLUSTER_DENSE)
    return float(min(1.0, stored / max(1, prod(value.shape))))


def _of_entry(shape: Sequence[int], size: float) -> float:
    """Bytes of a number and what says its place within a row."""
    return size + SHORT * max(1, len(shape) - 1)


def result_bytes(unit: Joint, target: str, cuts: Cuts, ranges: Ranges) -> int:
    """Of the part of a result that a block of work gives."""
    if target not in unit.found.shapes:
        return 0
    shape = list(unit.found.shapes[target])
    for index in cuts:
        way = unit.separable.ways[index][target]
        if way.kind == RESULT:
            shape[way.axis] = ranges[index][1] - ranges[index][0]
    size = unit.dtypes[target].itemsize
    are_places = any(unit.way(n, target).op in PLACES for n in cuts)
    if are_places:
        size += int(tuning.CLUSTER_DENSE)  # the best values are beside them
    if unit.layouts[target] is None or not shape or are_places:
        return int(size * prod(shape))
    entries = prod(shape) * _density(unit, target, ranges)
    return int(entries * _of_entry(shape, size) + SHORT * shape[0])


def _density(unit: Joint, target: str, ranges: Ranges) -> float:
    """The part of its places at which a result is expected to have something; all, where loops write it."""
    steps = normalized(unit.named_steps, tuple(unit.named))
    if len(steps) != 1 or not isinstance(steps[0], lang.Statement):
        return 1.0
    if steps[0].within:
        return density_of(unit.kept[target]) if target in unit.kept else 1.0
    return _of(unit, steps[0].value, ranges)


def _of(unit: Joint, node: Any, ranges: Ranges) -> float:
    """The part of the points at which a value is not what nothing gives."""
    match node:
        case lang.Access(name):
            reads = {r.name: r.access.tensor for r in unit.reads}
            return density_of(unit.operands[reads[name]]) if name in reads else 1.0
        case lang.Reduce(_, indices, value):
            count = prod(max(0, ranges[i][1] - ranges[i][0]) for i in indices if i in ranges)
            return min(1.0, _of(unit, value, ranges) * count)
        case lang.Apply("multiply" | "logical_and", arguments, function=None):
            return prod(_of(unit, a, ranges) for a in arguments)
        case lang.Apply("divide", (first, _), function=None):
            return _of(unit, first, ranges)
        case lang.Apply(_, arguments):
            return min(1.0, sum(_of(unit, a, ranges) for a in arguments))
    return 1.0


def points(unit: Joint, read: OperandRead, box: Box, ranges: Ranges) -> float:
    """The points that one operand lets a kernel come to: its entries, times the extents of what is not in it."""
    value = unit.operands[read.access.tensor]
    read_indices = {n for s in read.access.subscripts for n in within(s)}
    steps = [s for s in unit.named_steps for a in accesses_in([s]) if a.tensor == read.name]
    names = {n for s in steps for n in within(s)} - read_indices
    entries = bytes_within(value, box) / tuning.CLUSTER_ENTRY
    return entries * prod(max(1, ranges[n][1] - ranges[n][0]) for n in names if n in ranges)
