"""Which indices are cut, and where: of the ways in which operands are cut already the one that takes least time.

Bytes that are sent, the memory of a worker and work decide (`Cost`); constants stand in tuning.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from spfgen import limits, tuning
from spfgen.cluster.blocked import Blocked
from spfgen.cluster.cuts import Bounds, Box
from spfgen.cluster.separate import COMBINED, RESULT, Read, plain, quasi, within
from spfgen.cluster.workers import Workers, workers
from spfgen.lang import nodes as lang
from spfgen.lang.ops import OPERATORS
from spfgen.lang.types import TYPES
from spfgen.lang.uses import accesses_in
from spfgen.sets.affine import Affine, Floor

if TYPE_CHECKING:
    from spfgen.cluster.unit import Unit

Cuts = Mapping[str, Bounds]


@dataclass(frozen=True)
class Cost:
    """What a way to cut is expected to take: `sent` bytes between workers, `copied` ones that are cut out of blocks or
    joined, `memory` bytes of the largest task, `work` points, in `tasks`, of which `largest` is the work of one."""

    sent: int
    copied: int
    memory: int
    work: float
    tasks: int
    largest: float

    def seconds(self, on: Workers) -> float:
        """The time that it takes, as far as these say."""
        rounds = max(self.work / on.slots, self.largest) * tuning.CLUSTER_POINT
        traffic = self.sent * tuning.CLUSTER_BYTE / on.count + self.copied * tuning.CLUSTER_COPY / on.slots
        return rounds + traffic + self.tasks * tuning.CLUSTER_TASK

    def fits(self, on: Workers) -> bool:
        return not on.memory or self.memory * on.threads <= tuning.CLUSTER_MEMORY * on.memory

    def __str__(self) -> str:
        tasks = f"{self.memory:,} bytes in the largest of {self.tasks:,} tasks"
        return f"{self.sent:,} bytes sent, {self.copied:,} copied, {tasks}"


@dataclass(frozen=True)
class Choice:
    """`cuts` are the bounds of indices; `wanted` the indices along which operands are cut; `cost` is that of the cuts,
    on these workers, and `others` those of the ways that were not taken."""

    cuts: Cuts
    wanted: frozenset[str]
    cost: Cost
    on: Workers
    others: tuple[tuple[str, Cost], ...] = ()


def choose(unit: Unit, on: Workers | None = None) -> Choice:
    """The cuts that are expected to take the least time among those that fit into workers, all if none does."""
    wanted, candidates = _candidates(unit)
    on = on or workers()
    ways = [dict(w) for w in islice(_ways(candidates), limits.CUTS)]
    if len(ways) == 1:
        return Choice(ways[0], wanted, cost_of(unit, ways[0], on), on)
    costs = [cost_of(unit, cuts, on) for cuts in ways]
    order = sorted(range(len(ways)), key=lambda k: (not costs[k].fits(on), costs[k].seconds(on) if costs[k].fits(on)
                                                    else costs[k].memory))  # fmt: skip
    others = tuple((shown(ways[k]), costs[k]) for k in order[1:4])
    return Choice(ways[order[0]], wanted, costs[order[0]], on, others)


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


def _candidates(unit: Unit) -> tuple[frozenset[str], dict[str, list[Bounds]]]:
    """The indices along which operands are cut, and where, those of large operands first."""
    found: dict[str, list[tuple[tuple[bool, int], Bounds]]] = {}
    wanted: set[str] = set()
    known = {**unit.operands, **unit.kept}
    for access in accesses_in(unit.steps):
        value = known.get(access.tensor)
        if not isinstance(value, Blocked):
            continue
        for subscript, bounds in zip(access.subscripts, value.bounds, strict=True):
            for index in sorted(within(subscript)) if len(bounds) > 2 else ():
                wanted.add(index)
                own = _inverse(unit, subscript, index, bounds)
                if own is not None:
                    found.setdefault(index, []).append(((plain(subscript) == index, _size(value)), own))
    chosen = {}
    for index, several in found.items():
        ordered = sorted(several, key=lambda f: f[0], reverse=True)
        chosen[index] = list(dict.fromkeys(b for _, b in ordered))[: limits.CUTS_OF_INDEX]
    return frozenset(wanted), chosen


def _size(value: Blocked) -> int:
    return int(np.prod(value.shape, dtype=np.float64))


def _inverse(unit: Unit, subscript: Any, index: str, bounds: Bounds) -> Bounds | None:
    """Where an index is cut so that a subscript goes from block to block with it; None where it may not be."""
    found = quasi(subscript)
    if found is None or index not in unit.separable.ways or not is_known(unit, index):
        return None
    extent = unit.extents[index]
    if plain(subscript) == index and bounds[-1] == extent:
        return bounds
    others = {n: 0 for n in found.names() if n in unit.extents} | unit.named
    if not found.names() <= {*others}:
        return None
    first, last = (_at(found, {**others, index: k}) for k in (0, max(extent - 1, 0)))
    if first > last:
        return None
    inner = [_first(found, {**others}, index, b, extent) for b in bounds[1:-1]]
    return (0, *inner, extent) if inner == sorted(inner) else None


def _first(found: Affine, values: dict[str, int], index: str, wanted: int, extent: int) -> int:
    """The least value of the index with which the subscript is not below `wanted`."""
    low, high = 0, extent
    while low < high:
        middle = (low + high) // 2
        if _at(found, {**values, index: middle}) >= wanted:
            high = middle
        else:
            low = middle + 1
    return low


def _at(found: Affine, values: Mapping[str, int]) -> int:
    total = found.constant
    for atom, factor in found.terms:
        total += factor * (_at(atom.numerator, values) // atom.divisor if isinstance(atom, Floor) else values[atom])
    return total


def is_known(unit: Unit, index: str) -> bool:
    """Whether the extents of the index, and of all that stand in subscripts beside it, are known."""
    if index not in unit.extents or not _can_begin(unit, index):
        return False
    for access in accesses_in(unit.steps):
        for subscript in access.subscripts:
            names = within(subscript)
            if index in names and not names <= {*unit.extents, *unit.named}:
                return False
    return True


def _can_begin(unit: Unit, index: str) -> bool:
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


def cost_of(unit: Unit, cuts: Cuts, on: Workers) -> Cost:
    """What it takes with these cuts, from some of the blocks of work."""
    counts = {n: len(b) - 1 for n, b in cuts.items()}
    total = prod(counts.values())
    some = _some(counts, total)
    sent, copied, memory, work, largest = 0.0, 0.0, 0, 0.0, 0.0
    parts = {r.name: unit.parts_of(r, tuple(cuts)) for r in unit.reads}
    shares = {r.name: _share(r, cuts, total, on) for r in unit.reads}
    for place in some:
        ranges = {n: (0, e) for n, e in unit.extents.items()}
        ranges |= {n: (cuts[n][k], cuts[n][k + 1]) for n, k in place.items()}
        boxes = {r.name: unit.box(r, ranges, parts[r.name]) for r in unit.reads}
        sizes = {r.name: _bytes(unit.operands[r.access.tensor], boxes[r.name]) for r in unit.reads}
        kept = _stays(unit, boxes, sizes)
        for read in unit.reads:
            sent += sizes[read.name] * (shares[read.name] if read.name != kept else 0)
            copied += sizes[read.name] * (not _is_block(unit.operands[read.access.tensor], boxes[read.name]))
        results = sum(_result(unit, t, cuts, ranges) for t in unit.targets)
        memory = max(memory, int(sum(sizes.values())) + results)
        own = max((_points(unit, r, boxes[r.name], ranges) for r in unit.reads), default=1.0)
        work, largest = work + own, max(largest, own)
    factor = total / len(some)
    combined, more = combining(unit, cuts, total, on)
    return Cost(int(sent * factor) + combined, int(copied * factor), memory, work * factor, total + more, largest)


def _some(counts: Mapping[str, int], total: int) -> list[dict[str, int]]:
    """Blocks of work: all, or some that are drawn the same each time."""
    if total <= tuning.CLUSTER_LOOKED_AT:
        return [dict(zip(counts, p, strict=True)) for p in product(*[range(n) for n in counts.values()])]
    rng = np.random.default_rng(0)
    return [{n: int(rng.integers(c)) for n, c in counts.items()} for _ in range(tuning.CLUSTER_LOOKED_AT)]


def _share(read: Read, cuts: Cuts, total: int, on: Workers) -> float:
    """How often a part is sent for each block of work that reads it: once to each worker that has such a block, but for
    the one where it is."""
    own = {n for s in read.access.subscripts for n in within(s)}
    uses = total / prod([len(b) - 1 for n, b in cuts.items() if n in own])
    away = on.count - 1
    return away * (1 - (1 - 1 / on.count) ** uses) / uses if away else 0.0


def _stays(unit: Unit, boxes: Mapping[str, Box], sizes: Mapping[str, float]) -> str | None:
    """The largest part that lies in one block: the task runs where that is."""
    best: str | None = None
    for read in unit.reads:
        value = unit.operands[read.access.tensor]
        if isinstance(value, Blocked) and (best is None or sizes[read.name] > sizes[best]):
            best = read.name if all(map(_is_in_one, value.bounds, boxes[read.name])) else best
    return best


def _is_in_one(bounds: Bounds, side: tuple[int, int]) -> bool:
    return side[0] >= side[1] or side[1] <= bounds[_place(bounds, side[0]) + 1]


def _place(bounds: Bounds, low: int) -> int:
    return min(int(np.searchsorted(bounds, low, "right")) - 1, len(bounds) - 2)


def _is_block(value: Any, box: Box) -> bool:
    """Whether a part is a block as it is, or an operand that is not cut."""
    if not isinstance(value, Blocked):
        return True
    return all(b[k : k + 2] == side for b, side in zip(value.bounds, box, strict=True) for k in [_place(b, side[0])])


def _bytes(value: Any, box: Box) -> float:
    """The bytes of a part, if stored entries lie evenly."""
    shape = value.shape if hasattr(value, "shape") else ()
    if isinstance(value, Blocked) and value.nbytes is None:
        per = tuning.CLUSTER_DENSE if value.layout is None else tuning.CLUSTER_SPARSE
        return per * prod(h - w for w, h in box)
    whole = getattr(value, "nbytes", None)
    whole = sum(a.nbytes for a in value.arrays.values()) if hasattr(value, "arrays") else whole
    if whole is None:  # a matrix of scipy
        whole = sum(a.nbytes for a in vars(value).values() if isinstance(a, np.ndarray)) if shape else 8
    return float(whole * prod((h - w) / n if n else 0 for (w, h), n in zip(box, shape, strict=True)))


def _result(unit: Unit, target: str, cuts: Cuts, ranges: Mapping[str, Sequence[int]]) -> int:
    """The bytes of a part of a result, as if it were dense."""
    if target not in unit.found.shapes:
        return 0
    shape = list(unit.found.shapes[target])
    for index in cuts:
        way = unit.separable.ways[index][target]
        if way.kind == RESULT:
            shape[way.axis] = ranges[index][1] - ranges[index][0]
    per = tuning.CLUSTER_DENSE if unit.layouts[target] is None else tuning.CLUSTER_SPARSE
    return int(per * prod(shape))


def _points(unit: Unit, read: Read, box: Box, ranges: Mapping[str, Sequence[int]]) -> float:
    """The points that one operand lets a kernel come to: its entries, times the extents of what is not in it."""
    value = unit.operands[read.access.tensor]
    own = {n for s in read.access.subscripts for n in within(s)}
    steps = [s for s in unit.named_steps for a in accesses_in([s]) if a.tensor == read.name]
    names = {n for s in steps for n in within(s)} - own
    entries = _bytes(value, box) / tuning.CLUSTER_ENTRY
    return entries * prod(max(1, ranges[n][1] - ranges[n][0]) for n in names if n in ranges)


def combining(unit: Unit, cuts: Cuts, total: int, on: Workers) -> tuple[int, int]:
    """The bytes that are sent so that parts of results meet, and the tasks that combine them."""
    sent, tasks = 0.0, 0
    for target in unit.targets:
        ways = {n: unit.separable.ways[n][target] for n in cuts}
        parts = prod(len(cuts[n]) - 1 for n, w in ways.items() if w.kind == COMBINED)
        if parts > 1:
            blocks = total // parts
            whole = _result(unit, target, {}, {})
            tasks += blocks * (parts - 1)
            sent += whole * (parts - 1) * (1 - 1 / on.count)
    return int(sent), tasks
