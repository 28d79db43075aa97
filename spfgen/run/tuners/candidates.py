"""Schedules near a schedule: one loop moved, one position found otherwise, one loop tiled, run in parallel or unrolled.

Whether they are legal is not asked here: the compiler refuses those that are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from spfgen.ir import walk
from spfgen.pipeline import Generated
from spfgen.plan.finds.choose import ALGORITHMS
from spfgen.plan.from_space import scanned
from spfgen.plan.nodes import Find, Scan, Segment
from spfgen.space.nodes import Operand

TILES = (16, 64, 256, 1024)
UNROLLED = (2, 4)
MOST_TILES = 2
"""Loops in more than so many tiles have hardly helped anybody."""


@dataclass(frozen=True)
class CandidateSchedule:
    """Clauses by what they speak of; `text` is how they are written. `order` is empty, or lists every loop."""

    order: tuple[str, ...] = ()
    finds: Mapping[str, str] = field(default_factory=dict)
    tiles: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    parallel: str = ""
    serial: str = ""
    unrolled: Mapping[str, int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        clauses = [f"tile {loop} by {size} as {name}" for name, (loop, size) in self.tiles.items()]
        if self.order:
            clauses.append(f"order {', '.join(self.order)}")
        clauses += [f"find {position} : {algorithm}" for position, algorithm in self.finds.items()]
        clauses += [f"parallel {self.parallel}"] if self.parallel else []
        clauses += [f"serial {self.serial}"] if self.serial else []
        clauses += [f"unroll {loop} by {times}" for loop, times in self.unrolled.items()]
        return "; ".join(clauses)


@dataclass(frozen=True)
class LoopNames:
    """What a schedule led to: the loops from the outside in as a person writes them, those that run in parallel, the
    innermost ones, and for each position that is looked for the algorithms that are right too."""

    names: tuple[str, ...]
    parallel: frozenset[str]
    innermost: tuple[str, ...]
    others: Mapping[str, tuple[str, ...]]


def loops_of(generated: Generated) -> LoopNames:
    """What the plans of a kernel say of its loops."""
    operands = [o for g in generated.program.groups for i in g.instances for o in (i.target, *i.reads)]
    written = {f"{o.label}.{p}": f"{o.tensor}.{p}" for o in operands for p in _own(o)}
    nodes = [n for plan in generated.plans for n in walk(plan)]
    names = dict.fromkeys(written.get(d, d) for plan in generated.plans for d in scanned(plan))
    scans = [n for n in nodes if isinstance(n, Scan)]
    inner = [s for s in scans if not any(isinstance(n, Scan | Find) for n in walk(s.body))]
    words = {words: name for name, words in ALGORITHMS.items()}
    others: dict[str, dict[str, None]] = {}
    for node in nodes:
        if isinstance(node, Find | Segment):
            right = [r.algorithm for r in node.rejected if r.why.startswith("proved")]
            taken = words.get(node.algorithm)
            algorithms = others.setdefault(written.get(node.dim, node.dim), {})
            algorithms.update(dict.fromkeys([*right, *([taken] if taken else [])]))
    return LoopNames(
        tuple(names),
        frozenset(written.get(s.dim, s.dim) for s in scans if s.parallel),
        tuple(n for n in dict.fromkeys(written.get(s.dim, s.dim) for s in inner) if n in names),
        {position: tuple(algorithms) for position, algorithms in others.items()},
    )


def near(schedule: CandidateSchedule, loops: LoopNames, everything: tuple[str, ...]) -> Iterator[CandidateSchedule]:
    """Schedules that differ in one respect; `everything` names all indices and positions, whether they are loops or
    not. Those that most often help come first."""
    yield from _orders(schedule, loops, everything)
    yield from _finds(schedule, loops)
    yield from _shared_out(schedule, loops)
    yield from _tiled(schedule, loops)
    yield from _unrolled(schedule, loops)


def _orders(schedule: CandidateSchedule, loops: LoopNames, everything: tuple[str, ...]) -> Iterator[CandidateSchedule]:
    """Each loop outermost, neighbours exchanged, and each dimension that is no loop driving."""
    names = loops.names
    orders = [(n, *(o for o in names if o != n)) for n in names[1:]]
    orders += [(*names[:k], names[k + 1], names[k], *names[k + 2 :]) for k in range(1, len(names) - 1)]
    orders += [(n, *names) for n in everything if n not in names]
    for order in dict.fromkeys(orders):
        yield replace(schedule, order=order)


def _finds(schedule: CandidateSchedule, loops: LoopNames) -> Iterator[CandidateSchedule]:
    for position, algorithms in loops.others.items():
        for algorithm in algorithms:
            if schedule.finds.get(position) != algorithm:
                yield replace(schedule, finds={**schedule.finds, position: algorithm})


def _shared_out(schedule: CandidateSchedule, loops: LoopNames) -> Iterator[CandidateSchedule]:
    for name in loops.names:
        if name not in loops.parallel and not schedule.serial:
            yield replace(schedule, parallel=name)
        elif name in loops.parallel:
            yield replace(schedule, parallel="", serial=name)


def _tiled(schedule: CandidateSchedule, loops: LoopNames) -> Iterator[CandidateSchedule]:
    """Tiles of a loop outermost, or within the outermost loop."""
    if len(schedule.tiles) == MOST_TILES:
        return
    for loop in loops.names:
        if loop in schedule.tiles or any(loop == tiled for tiled, _ in schedule.tiles.values()):
            continue
        name = f"{loop.replace('.', '_')}_tile"
        for size in TILES:
            for place in (0, 1):
                order = (*loops.names[:place], name, *loops.names[place:])
                if order.index(name) < order.index(loop):
                    yield replace(schedule, order=order, tiles={**schedule.tiles, name: (loop, size)})


def _unrolled(schedule: CandidateSchedule, loops: LoopNames) -> Iterator[CandidateSchedule]:
    for loop in loops.innermost:
        for times in UNROLLED:
            if schedule.unrolled.get(loop) != times:
                yield replace(schedule, unrolled={**schedule.unrolled, loop: times})


def _own(operand: Operand) -> list[str]:
    """The names of its positions, without the label."""
    return [p.removeprefix(f"{operand.label}.") for p in operand.positions]
