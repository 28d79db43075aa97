"""What goes from worker to worker: blocks lie where `placed.home` says, a block of work goes to the largest block that
it reads, what it reads besides is sent once to each worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from spfgen.cluster.blocked import Blocked
from spfgen.cluster.cuts import Bounds, Box, meeting
from spfgen.cluster.joint import Cuts, Joint
from spfgen.cluster.placement import home
from spfgen.cluster.separability import OperandRead
from spfgen.cluster.size_estimates import bytes_within

Boxes = Mapping[str, Box]
Sizes = Mapping[str, float]


def in_one(bounds: Bounds, side: tuple[int, int]) -> int | None:
    """The block in which all of a range lies."""
    met = meeting(bounds, *side)
    return None if len(met) > 1 else met[0] if met else 0


def stays(unit: Joint, cuts: Cuts, boxes: Boxes, sizes: Sizes, workers: int) -> tuple[str, tuple[int, ...]] | None:
    """Where a block of work goes: to the largest part that lies in one block, of those operands whose parts lie on all
    workers, or on most of them; the name of the read and the place of the block."""
    best: tuple[str, tuple[int, ...]] | None = None
    most = (0, 0.0)
    for read in unit.reads:
        value = unit.operands[read.access.tensor]
        if not isinstance(value, Blocked):
            continue
        place = [in_one(b, side) for b, side in zip(value.bounds, boxes[read.name], strict=True)]
        followed = unit.follows(read, tuple(cuts))
        apart = min(workers, prod(len(b) - 1 for i, b in cuts.items() if i in followed), prod(value.blocks))
        if None not in place and (apart, sizes[read.name]) > most:
            most = apart, sizes[read.name]
            best = read.name, tuple(k for k in place if k is not None)
    return best


def worker_of(unit: Joint, cuts: Cuts, place: Mapping[str, int], boxes: Boxes, sizes: Sizes, workers: int) -> int:
    """The number of the worker that a block of work is meant for."""
    kept_place = stays(unit, cuts, boxes, sizes, workers)
    if kept_place is None:
        return home([place[n] for n in cuts], [len(b) - 1 for b in cuts.values()], workers)
    return home(kept_place[1], unit.operand(kept_place[0]).blocks, workers)


class Traffic:
    """Adds up what is sent, block of work after block of work."""

    def __init__(self, unit: Joint, cuts: Cuts, workers: int) -> None:
        self.unit, self.cuts, self.workers = unit, cuts, workers
        self.sent = 0.0
        self._at: dict[Any, int] = {}
        self._there: set[tuple[Any, int]] = set()

    def read(self, read: OperandRead, box: Box, size: float, place: Mapping[str, int], worker: int) -> None:
        """A block of work on a worker reads a part of an operand."""
        key = read.access.tensor, box
        if key not in self._at:
            self._at[key] = self._made(read, box, size, place, worker)
            self._there.add((key, self._at[key]))
        if (key, worker) not in self._there:
            self._there.add((key, worker))
            self.sent += size

    def _made(self, read: OperandRead, box: Box, size: float, place: Mapping[str, int], worker: int) -> int:
        """The worker on which a part is: where its block lies, or where it is read first, if it is joined of several:
        those are sent there. An operand that is in no blocks is whole where it is first asked for, or in blocks where
        blocks of work begin."""
        value = self.unit.operands[read.access.tensor]
        if not isinstance(value, Blocked):
            follows = self.unit.follows(read, tuple(self.cuts))
            followed = [n for n in place if n in follows]
            counts = [len(self.cuts[n]) - 1 for n in followed]
            return home([place[n] for n in followed], counts, self.workers) if followed else worker
        places = list(product(*[meeting(b, *side) for b, side in zip(value.bounds, box, strict=True)]))
        if len(places) == 1:
            return home(places[0], value.blocks, self.workers)
        for at in places:
            part = tuple((max(b[k], w), min(b[k + 1], h)) for b, k, (w, h) in zip(value.bounds, at, box, strict=True))
            self.sent += bytes_within(value, part) * (home(at, value.blocks, self.workers) != worker)
        return worker

    def combined(self, workers: Sequence[int], size: Callable[[int], float]) -> None:
        """Parts of a result, two at a time, on these workers; `size` are the bytes of so many that are combined."""
        left = [(w, 1) for w in workers]
        while len(left) > 1:
            pairs = [left[k : k + 2] for k in range(0, len(left), 2)]
            self.sent += sum(size(q[1]) for p, *others in pairs for q in others if q[0] != p[0])
            left = [(pair[0][0], sum(n for _, n in pair)) for pair in pairs]
