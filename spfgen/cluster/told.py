"""What a program over blocks says of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from spfgen.cluster.blocked import Blocked
from spfgen.cluster.cuts import Bounds
from spfgen.cluster.separate import RESULT, Read, Separable, plain
from spfgen.facts.formula import show


def told(
    text: str,
    cuts: Mapping[str, Bounds],
    found: Separable,
    reads: Sequence[Read],
    sources: Mapping[str, Any],
    sent: Mapping[str, int],
    tasks: int,
) -> str:
    """The lines of `Blocked.explain()`. `sent` are the places of each operand that blocks of work read, as often as
    they are read."""
    lines = [text, ""]
    for index, bounds in cuts.items():
        way = found.ways[index]
        meet = f"disjoint along axis {way.axis} of the result" if way.kind == RESULT else f"combined by {way.op}"
        lines.append(f"cut along {index}: {len(bounds) - 1} blocks of [0, {bounds[-1]}); results are {meet}")
    lines += [f"not cut along {index}: {why}" for index, why in found.kept.items()]
    if not cuts:
        lines.append("nothing is cut: one task has all")
    lines += [_read(r, sources[r.name], cuts, sent[r.name]) for r in reads]
    lines += ["", f"{tasks} tasks; results that are combined meet two at a time, always in the same order"]
    if all(_is_partition(b) for b in cuts.values()):
        known = "the bounds of each index rise from 0 to its extent: each point of the iteration space is in one block"
        lines.append(f"checked: {known} of work")
    return "\n".join(lines)


def _is_partition(bounds: Bounds) -> bool:
    return bounds[0] == 0 and list(bounds) == sorted(bounds)


def _read(read: Read, source: Any, cuts: Mapping[str, Bounds], places: int) -> str:
    """How one operand is read, and how much of it that is in memory, if its entries lie evenly."""
    ways = []
    for side, subscript in zip(read.sides, read.access.subscripts, strict=True):
        if side is None:
            ways.append("whole")
        elif plain(subscript) in cuts:
            ways.append(f"its part of {plain(subscript)}")
        else:
            ways.append(f"the places of {show(subscript)}, with a halo")
    memory = getattr(source, "nbytes", None)
    size = max(1, prod(source.shape))
    read_by = "" if memory is None else f"; blocks of work read about {memory * places // size:,} bytes of {memory:,}"
    kept = "" if isinstance(source, Blocked) else ", sent once to each worker"
    return f"{read.access.tensor}: {', '.join(ways)}{kept}{read_by}"
