"""Which indices are cut, and where: of the ways in which operands are cut already the one that takes least time.

Bytes that are sent, the memory of a worker and work decide (`Cost`); constants stand in tuning.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, product
from math import prod
from typing import Any

import numpy as np

from spfgen import limits, tuning
from spfgen.cluster.blocked import Blocked
from spfgen.cluster.cuts import Bounds, Box, meeting
from spfgen.cluster.joint import Cuts, Joint
from spfgen.cluster.separability import COMBINED, RESULT, OperandRead, plain, quasi, within
from spfgen.cluster.size_estimates import bytes_within, is_dense, points, result_bytes
from spfgen.cluster.traffic import Traffic, stays, worker_of
from spfgen.cluster.workers import Workers, workers
from spfgen.lang import nodes as lang
from spfgen.lang.ops import OPERATORS
from spfgen.lang.types import TYPES
from spfgen.lang.uses import accesses_in
from spfgen.sets.affine import Affine, Floor


@dataclass(frozen=True)
class CutsCost:
    """What a way to cut is expected to take: `sent` bytes between workers, `copied` ones that are cut out of blocks or
    joined, `memory` bytes of the largest task, `work` points, in `tasks`, of which `largest` is the work of one."""

    sent: int
    copied: int
    packed: int
    memory: int
    work: float
    tasks: int
    largest: float

    def seconds(self, on: Workers) -> float:
        """The time that it takes, as far as these say."""
        rounds = max(self.work / on.slots, self.largest) * tuning.CLUSTER_POINT
        copies = self.copied * tuning.CLUSTER_COPY + self.packed * tuning.CLUSTER_PACK
        return (
            rounds + self.sent * tuning.CLUSTER_BYTE / on.count + copies / on.slots + self.tasks * tuning.CLUSTER_TASK
        )

    def fits(self, on: Workers) -> bool:
        return not on.memory or self.memory * on.threads <= tuning.CLUSTER_MEMORY * on.memory

    def __str__(self) -> str:
        tasks = f"{self.memory:,} bytes in the largest of {self.tasks:,} tasks"
        return f"{self.sent:,} bytes sent, {self.copied:,} copied, {tasks}"


@dataclass(frozen=True)
class ChosenCuts:
    """`cuts` are the bounds of indices; `wanted` the indices along which operands are cut; `cost` is that of the cuts,
    on these workers, and `others` those of the ways that were not taken."""

    cuts: Cuts
    wanted: frozenset[str]
    cost: CutsCost
    on: Workers
    others: tuple[tuple[str, CutsCost], ...] = ()


def choose(unit: Joint, on: Workers | None = None) -> ChosenCuts:
    """The cuts that are expected to take the least time among those that fit into workers, all if none does."""
    wanted, candidates = _candidates(unit)
    on = on or workers()
    ways = [dict(w) for w in islice(_ways(candidates), limits.CUTS)]
    if len(ways) == 1:
        return ChosenCuts(ways[0], wanted, cost_of(unit, ways[0], on), on)
    costs = [cost_of(unit, cuts, on) for cuts in ways]
    order = sorted(range(len(ways)), key=lambda k: (not costs[k].fits(on), costs[k].seconds(on) if costs[k].fits(on)
                                                    else costs[k].memory))  # fmt: skip
    others = tuple((shown(ways[k]), costs[k]) for k in order[1:4])
    return ChosenCuts(ways[order[0]], wanted, costs[order[0]], on, others)


def shown(cuts: Cuts) -> str:
    """Cuts in words."""
    return " x ".join(f"{i} in {len(b) - 1}" for i, b in cuts.items()) or "nothing is cut"


def _ways(candidates: Mapping[str, Sequence[Bounds]]) -> Iterator[Cuts]:
    """All that can be cut together, most indices first; to put all blocks together is no way where there is another."""
    names = list(candidates)
    for count in range(len(names), 0 if names else -1, -1):
        for some in combinations(names, count):
            for bounds in product(*[candidates[n] for n in some]):
                yield dict(zip(some, bounds, strict=True))


def _candidates(unit: Joint) -> tuple[frozenset[str], dict[str, list[Bounds]]]:
    """The indices along which operands are cut, and where, those of large operands first."""
    bounds_of: dict[str, list[tuple[tuple[bool, int], Bounds]]] = {}
    wanted: set[str] = set()
    known = {**unit.operands, **unit.kept}
    for access in accesses_in(unit.steps):
        value = known.get(access.tensor)
        if not isinstance(value, Blocked):
            continue
        for subscript, bounds in zip(access.subscripts, value.bounds, strict=True):
            for index in sorted(within(subscript)) if len(bounds) > 2 else ():
                wanted.add(index)
                inverse = _inverse(unit, subscript, index, bounds)
                if inverse is not None:
                    bounds_of.setdefault(index, []).append(((plain(subscript) == index, _size(value)), inverse))
    chosen = {}
    for index, several in bounds_of.items():
        ordered = sorted(several, key=lambda f: f[0], reverse=True)
        chosen[index] = list(dict.fromkeys(b for _, b in ordered))[: limits.CUTS_OF_INDEX]
    return frozenset(wanted), chosen


def _size(value: Blocked) -> int:
    return int(np.prod(value.shape, dtype=np.float64))


def _inverse(unit: Joint, subscript: Any, index: str, bounds: Bounds) -> Bounds | None:
    """Where an index is cut so that a subscript goes from block to block with it; None where it may not be."""
    affine = quasi(subscript)
    if affine is None or index not in unit.separable.ways or not is_known(unit, index):
        return None
    extent = unit.extents[index]
    if plain(subscript) == index and bounds[-1] == extent:
        return bounds
    others = {n: 0 for n in affine.names() if n in unit.extents} | unit.named
    if not affine.names() <= {*others}:
        return None
    first, last = (_at(affine, {**others, index: k}) for k in (0, max(extent - 1, 0)))
    if first > last:
        return None
    inner = [_first(affine, {**others}, index, b, extent) for b in bounds[1:-1]]
    return (0, *inner, extent) if inner == sorted(inner) else None


def _first(affine: Affine, values: dict[str, int], index: str, wanted: int, extent: int) -> int:
    """The least value of the index with which the subscript is not below `wanted`."""
    low, high = 0, extent
    while low < high:
        middle = (low + high) // 2
        if _at(affine, {**values, index: middle}) >= wanted:
            high = middle
        else:
            low = middle + 1
    return low


def _at(affine: Affine, values: Mapping[str, int]) -> int:
    total = affine.constant
    for atom, factor in affine.terms:
        total += factor * (_at(atom.numerator, values) // atom.divisor if isinstance(atom, Floor) else values[atom])
    return total


def is_known(unit: Joint, index: str) -> bool:
    """Whether the extents of the index, and of all that stand in subscripts beside it, are known."""
    if index not in unit.extents or not _can_begin(unit, index):
        return False
    for access in accesses_in(unit.steps):
        for subscript in access.subscripts:
            names = within(subscript)
            if index in names and not names <= {*unit.extents, *unit.named}:
                return False
    return True


def _can_begin(unit: Joint, index: str) -> bool:
    """Whether parts of results that loops update can begin with an identity: where that is not 0 they are dense, and
    of a type that has it."""
    if len(unit.steps) == 1 and isinstance(unit.steps[0], lang.Statement):
        return True
    for target, way in unit.separable.ways[index].items():
        if way.kind == COMBINED and (way.op != "add" or way.function is not None):
            operator = OPERATORS[way.op] if way.function is None else way.function.operator
            kind = TYPES.get(unit.dtypes[target].name)
            if unit.layouts[target] is not None or kind is None or operator.identity_of(kind) is None:
                return False
    return True


# --- what cuts cost ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Task:
    """A block of work: its place along each index that is cut, and what it reads."""

    place: Mapping[str, int]
    ranges: Mapping[str, tuple[int, int]]
    boxes: Mapping[str, Box]
    sizes: Mapping[str, float]


def cost_of(unit: Joint, cuts: Cuts, on: Workers) -> CutsCost:
    """What it takes with these cuts, from some of the blocks of work."""
    tasks, total = _tasks(unit, cuts)
    copied, packed, parts, memory, work, largest = 0.0, 0.0, 0.0, 0, 0.0, 0.0
    uses = {r.name: _uses(unit, r, cuts) for r in unit.reads}
    for task in tasks:
        for read in unit.reads:
            making = _making(unit.operand(read.name), task.boxes[read.name], task.sizes[read.name])
            copied += making[0] / uses[read.name]
            packed += making[1] / uses[read.name]
            parts += making[2] / uses[read.name]
        results = sum(result_bytes(unit, t, cuts, task.ranges) for t in unit.targets)
        meet = sum(_combining_memory(unit, t, cuts, task.ranges) for t in unit.targets)
        memory = max(memory, int(sum(task.sizes.values())) + results, meet)
        points_of_task = max((points(unit, r, task.boxes[r.name], task.ranges) for r in unit.reads), default=1.0)
        work, largest = work + points_of_task, max(largest, points_of_task)
    factor = total / len(tasks)
    sent = _sent(unit, cuts, tasks, on) if len(tasks) == total else _sent_by_some(unit, cuts, tasks, total, on)
    more = sum(max(0, total - _blocks_of(unit, t, cuts)) for t in unit.targets)
    count = total + more + round(parts * factor)
    return CutsCost(int(sent), int(copied * factor), int(packed * factor), memory, work * factor, count, largest)


def _tasks(unit: Joint, cuts: Cuts) -> tuple[list[_Task], int]:
    """Blocks of work in which there is something to do: all, or some that are drawn the same each time; and how many
    there are."""
    parts = {r.name: unit.parts_of(r, tuple(cuts)) for r in unit.reads}
    order = unit.order_of(cuts)
    counts = [len(cuts[n]) - 1 for n in order]
    total, most = prod(counts), limits.BLOCKS_OF_WORK
    rng = np.random.default_rng(0)
    numbers = np.arange(total) if total <= most else rng.integers(total, size=most)
    places = np.stack(np.unravel_index(numbers, counts), 1) if counts else np.zeros((1, 0), np.int64)
    has_points = unit.has_points({n: cuts[n] for n in order}, places)
    places, share = places[has_points] if has_points.any() else places[:1], max(1, has_points.sum()) / len(places)
    if len(places) > tuning.CLUSTER_LOOKED_AT or total > most:
        places = places[rng.integers(len(places), size=tuning.CLUSTER_LOOKED_AT)]
    tasks = []
    for some in places.tolist():
        place = dict(zip(order, some, strict=True))
        ranges = unit.ranges_in(cuts, place)
        boxes = {r.name: unit.box(r, ranges, parts[r.name]) for r in unit.reads}
        tasks.append(_Task(place, ranges, boxes, unit.sizes_of(boxes)))
    return tasks, max(1, round(total * share))


def _sent(unit: Joint, cuts: Cuts, tasks: Sequence[_Task], on: Workers) -> float:
    """The bytes that are sent for all blocks of work, one after another."""
    traffic = Traffic(unit, cuts, on.count)
    meet: dict[Any, tuple[Any, list[int]]] = {}
    for task in tasks:
        worker = worker_of(unit, cuts, task.place, task.boxes, task.sizes, on.count)
        for read in unit.reads:
            traffic.read(read, task.boxes[read.name], task.sizes[read.name], task.place, worker)
        for target in unit.targets:
            target_place = tuple(task.place[n] for n in task.place if unit.way(n, target).kind == RESULT)
            meet.setdefault((target, target_place), (task.ranges, []))[1].append(worker)
    for (target, _), (ranges, there) in meet.items():
        if len(there) > 1:
            traffic.combined(there, _of_parts(unit, target, cuts, ranges))
    return traffic.sent


def _combining_memory(unit: Joint, target: str, cuts: Cuts, ranges: Mapping[str, tuple[int, int]]) -> int:
    """The bytes of the last task that combines parts of a result: two halves, and what it makes of them."""
    parts, of = _parts(unit, target, cuts), _of_parts(unit, target, cuts, ranges)
    return int(2 * of((parts + 1) // 2) + of(parts)) if parts > 1 else 0


def _of_parts(unit: Joint, target: str, cuts: Cuts, ranges: Mapping[str, tuple[int, int]]) -> Callable[[int], float]:
    """The bytes of so many parts of a result that are combined: of sparse ones they add up, as far as all of it."""
    one = result_bytes(unit, target, cuts, ranges)
    combined = {n for n in cuts if unit.way(n, target).kind == COMBINED}
    most = result_bytes(
        unit, target, cuts, {n: (0, unit.extents[n]) if n in combined else r for n, r in ranges.items()}
    )
    return lambda count: min(one * count, most)


def _sent_by_some(unit: Joint, cuts: Cuts, tasks: Sequence[_Task], total: int, on: Workers) -> float:
    """The same for `total` blocks of work, from some of them."""
    shares = {r.name: _share(unit, r, cuts, on) for r in unit.reads}
    sent = 0.0
    for task in tasks:
        kept = stays(unit, cuts, task.boxes, task.sizes, on.count)
        sent += sum(task.sizes[n] * share for n, share in shares.items() if kept is None or n != kept[0])
    return sent * total / len(tasks) + combining(unit, cuts, on)


def _share(unit: Joint, read: OperandRead, cuts: Cuts, on: Workers) -> float:
    """How often a part is sent for each block of work that reads it: once to each worker that has such a block, but for
    the one where it is."""
    uses, away = _uses(unit, read, cuts), on.count - 1
    return away * (1 - (1 - 1 / on.count) ** uses) / uses if away else 0.0


def _uses(unit: Joint, read: OperandRead, cuts: Cuts) -> int:
    """How many blocks of work read the same part."""
    followed = unit.follows(read, tuple(cuts))
    return prod([len(b) - 1 for n, b in cuts.items() if n not in followed])


def _making(value: Any, box: Box, size: float) -> tuple[float, float, int]:
    """What it takes to cut a part of `size` bytes out of blocks, and to join it: the bytes that are copied, those of
    sparse blocks that are read or packed, and the tasks. Nothing for a block as it is, or an operand in no blocks."""
    if not isinstance(value, Blocked):
        return 0.0, 0.0, 0
    meet = [meeting(b, *side) or [0] for b, side in zip(value.bounds, box, strict=True)]
    whole = prod(sum(low <= b[k] and b[k + 1] <= high for k in some)
                 for b, some, (low, high) in zip(value.bounds, meet, box, strict=True))  # fmt: skip
    pieces = prod(map(len, meet))
    if whole == pieces == 1:
        return 0.0, 0.0, 0
    hull = tuple((b[some[0]], b[some[-1] + 1]) for b, some in zip(value.bounds, meet, strict=True))
    read = (bytes_within(value, hull) if whole < pieces else 0.0) + (size if pieces > 1 else 0.0)
    return size, 0.0 if is_dense(value) else read, pieces - whole + (pieces > 1)


def _parts(unit: Joint, target: str, cuts: Cuts) -> int:
    """How many parts of a result meet in each of its blocks."""
    return prod(len(b) - 1 for n, b in cuts.items() if unit.way(n, target).kind == COMBINED)


def _blocks_of(unit: Joint, target: str, cuts: Cuts) -> int:
    """How many blocks a result has."""
    return prod(len(b) - 1 for n, b in cuts.items() if unit.way(n, target).kind == RESULT)


def combining(unit: Joint, cuts: Cuts, on: Workers) -> float:
    """The bytes that are sent so that parts of results meet: parts that follow one another are on one worker."""
    whole = {n: (0, e) for n, e in unit.extents.items()}
    meet = {t: min(_parts(unit, t, cuts), on.count) for t in unit.targets}
    return float(sum(result_bytes(unit, t, {}, whole) * (n - 1) for t, n in meet.items()))
