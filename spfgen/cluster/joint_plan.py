"""Equations or loops that are planned together: their cuts, and the tasks that follow."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph
from numpy.typing import NDArray

from spfgen.cluster.blocked import Blocked
from spfgen.cluster.choose_cuts import ChosenCuts, choose
from spfgen.cluster.construction import blocks_like, example_of
from spfgen.cluster.cuts import Bounds, Box
from spfgen.cluster.explanation import explanation
from spfgen.cluster.extents import KnownExtents, extents_of
from spfgen.cluster.iteration_space import BlockPoints, BlocksOfWork, ReadPart, high, low
from spfgen.cluster.joint import Parts, Place, Ranges
from spfgen.cluster.local import LocalProgram
from spfgen.cluster.placement import home, meant
from spfgen.cluster.read_conditions import leaves, outside
from spfgen.cluster.separability import COMBINED, RESULT, OperandRead, Way, plain, quasi, reads_of, separable, within
from spfgen.cluster.size_estimates import bytes_within, result_bytes
from spfgen.cluster.stored_boxes import narrowed, stored_range
from spfgen.cluster.tasks import BestPlaces, Better, Combine, Empty, Full, PickResult, RunKernel, Start, fill_in
from spfgen.cluster.traffic import worker_of
from spfgen.cluster.types import dtype_of, types_of
from spfgen.cluster.workers import addresses
from spfgen.errors import Unsupported
from spfgen.facts.formula import Expr
from spfgen.lang import nodes as lang
from spfgen.lang.ops import OPERATORS
from spfgen.lang.show import show_statement
from spfgen.lang.signs import PLACES
from spfgen.lang.types import TYPES
from spfgen.lang.uses import accesses_in
from spfgen.run.arrays.made import is_full


@dataclass(frozen=True)
class Settings:
    """How tasks run: their threads, when operands are checked, whether the order of sums is fixed whatever threads
    there are, and whether results leave out what equals their fill value."""

    threads: int | None = None
    validate: str = "once"
    deterministic: bool = False
    prune: bool = False


def shape_of(value: Any) -> tuple[int, ...]:
    """The extents of an operand of any kind."""
    return tuple(int(n) for n in (value.shape if hasattr(value, "shape") else np.shape(value)))


class JointPlan:
    """`kept` are results that are given, where the computation starts; `said` extents that the caller says, `named` the
    sizes that the text names; `layouts` those of results, None for numpy's; `local` tensors that only live within;
    `known` the shapes of results that follow from other steps."""

    def __init__(
        self,
        steps: tuple[Any, ...],
        operands: Mapping[str, Any],
        kept: Mapping[str, Blocked],
        given: Mapping[str, int],
        named: Mapping[str, int],
        layouts: Mapping[str, Any],
        local: tuple[str, ...],
        settings: Settings,
        known: Mapping[str, tuple[int, ...]],
    ) -> None:
        self.operands, self.kept, self.layouts, self.local = operands, kept, layouts, local
        self.said, self.named, self.settings = dict(given), dict(named), settings
        self.written = steps
        shapes = {**known, **{n: shape_of(v) for n, v in {**operands, **kept}.items()}}
        self.found: KnownExtents = extents_of(steps, shapes, self.named, self.said)
        self.steps = steps
        self.targets = tuple(n for n in layouts if n not in local)
        self.filled = {n for n, v in {**operands, **kept}.items() if fill_of(v) != 0}
        kinds = {**{n: dtype_of(v).name for n, v in operands.items()}, **{n: d.name for n, d in self.dtypes.items()}}
        self.separable = separable(self.steps, [*self.named], self.filled, kinds, local)
        self.numbers = {n: int(v) for n, v in operands.items() if isinstance(v, int | np.integer)}
        zeros = {n for n, v in operands.items() if n not in self.filled and is_sparse(v)}
        self.reads, self.named_steps = reads_of(self.steps, {*layouts}, self.numbers, zeros)
        self.zeros = {r.name for r in self.reads if r.access.tensor in zeros}
        are_zero = not kept and all(fill_in(d, len(self.found.shapes.get(t, ()))) == 0 for t, d in layouts.items())
        names = (*self.named,)
        self.narrowed = narrowed(self.named_steps, self.reads, operands, self.zeros, names) if are_zero else {}
        self._tensors = {r.name: r.access.tensor for r in self.reads}
        self.homes: dict[Any, int] = {}
        """The numbers of the workers that tasks are meant for."""
        self._stored: dict[Any, tuple[int, int]] = {}
        self._works: dict[tuple[str, ...], BlocksOfWork] = {}
        self._parts: dict[tuple[str, tuple[str, ...]], Parts] = {}
        self._points: dict[Any, BlockPoints | None] = {}
        self.choice: ChosenCuts = choose(self)
        self._check_carried()
        self.cuts: Mapping[str, Bounds] = self.choice.cuts
        self.parts = {r.name: self.parts_of(r, tuple(self.cuts)) for r in self.reads}
        self.local_text = LocalProgram(self)
        self.sources = {r.name: self._source(r) for r in self.reads}

    @property
    def extents(self) -> Mapping[str, int]:
        return self.found.indices

    def _check_carried(self) -> None:
        """Raises Unsupported where an operand is cut along an index that the program goes along, and nothing else is
        cut."""
        for index, access in self.separable.carried.items():
            if self.choice.cuts or index not in self.choice.wanted:
                continue
            name = access.tensor
            hint = f"pass operands that are not cut along it, or not in blocks at all: {name}=A.compute()"
            message = "expected a program whose blocks can be computed apart"
            raise Unsupported(
                f"{message}, but `{name}` is read along `{index}` while it is computed", access.span, (hint,)
            )

    # --- operands ---

    def operand(self, name: str) -> Any:
        """That of a read."""
        return self.operands[self._tensors[name]]

    def sizes_of(self, boxes: Mapping[str, Box]) -> dict[str, float]:
        """The bytes of what is read, as far as they are known."""
        return {n: bytes_within(self.operand(n), box) for n, box in boxes.items()}

    def work(self, cut: tuple[str, ...]) -> BlocksOfWork:
        """The iteration space where these indices are cut."""
        if cut not in self._works:
            self._works[cut] = BlocksOfWork(self.extents, cut, self.named, (*self.narrowed,))
        return self._works[cut]

    def parts_of(self, read: OperandRead, cut: tuple[str, ...]) -> Parts:
        """What a block of work reads along each axis where these indices are cut; None for all of it."""
        key = read.name, cut
        if key not in self._parts:
            shape = shape_of(self.operands[read.access.tensor])
            parts: list[ReadPart | str | None] = []
            for axis, (subscript, extent) in enumerate(zip(read.access.subscripts, shape, strict=True)):
                index = plain(subscript)
                moved = {*cut, *self.narrowed}
                is_cut = within(subscript) & moved and quasi(subscript) is not None
                is_bounded = index not in cut and self._is_bounded(read, axis, cut)
                if index in moved and not is_bounded:
                    parts.append(index)
                elif is_cut or is_bounded:
                    part = self.work(cut).part(subscript, extent, read.under)
                    is_apart = part is not None and (is_cut or part.follows())
                    parts.append(part if is_apart else index if index in moved else None)
                else:
                    parts.append(None)
            self._parts[key] = tuple(parts)
        return self._parts[key]

    def _is_bounded(self, read: OperandRead, axis: int, cut: Collection[str]) -> bool:
        """Whether conditions relate what is read along an axis to indices that are cut, so that each block of work may
        read less than all; not where an operand in blocks is in one piece along it."""
        value = self.operands[read.access.tensor]
        subscript = read.access.subscripts[axis]
        if isinstance(value, Blocked) and value.blocks[axis] == 1:
            return False
        return isinstance(subscript, Expr) and quasi(subscript) is not None and self.is_under(read, cut)

    def is_under(self, read: OperandRead, cut: Collection[str]) -> bool:
        """Whether indices that are cut stand in all conditions under which an operand is read."""
        return bool(read.under) and all(any(within(c) & {*cut} for c in under) for under in read.under)

    def follows(self, read: OperandRead, cut: tuple[str, ...]) -> set[str]:
        """The indices that are cut on which it depends what a block of work reads."""
        followed: set[str] = set()
        for part in self.parts_of(read, cut):
            names = {part} if isinstance(part, str) else set() if part is None else part.follows()
            sides = [side for n in names & {*self.narrowed} for side in self.narrowed[n]]
            followed |= names & {*cut}
            followed |= {str(i) for r, _ in sides for s in r.access.subscripts if (i := plain(s)) in cut}
        return followed

    def _stored_range(self, index: str, ranges: Mapping[str, tuple[int, int]], cut: Collection[str]) -> tuple[int, int]:
        """What an index runs over that is narrowed: where entries of the blocks lie that a block of work meets."""
        first, end = ranges[index]
        for read, axis in self.narrowed[index]:
            value = self.operand(read.name)
            indices = [plain(s) for s in read.access.subscripts]
            box = tuple(ranges[str(i)] if i in cut else (0, n) for i, n in zip(indices, value.shape, strict=True))
            key = read.name, axis, box
            if key not in self._stored:
                self._stored[key] = stored_range(value, axis, box)
            first, end = max(first, self._stored[key][0]), min(end, self._stored[key][1])
        return (first, end) if first < end else (ranges[index][0],) * 2

    # --- blocks of work ---

    def points(self, cut: tuple[str, ...], under: Sequence[Sequence[Any]] | None = None) -> BlockPoints | None:
        """For which bounds of blocks something is computed, or conditions hold; None where that is for all."""
        under = leaves(self.named_steps, self._fill(), self.numbers, self.zeros) if under is None else under
        key = cut, tuple(map(tuple, under))
        if key not in self._points:
            self._points[key] = self.work(cut).points(under) if cut else None
        return self._points[key]

    def has_points(self, cuts: Mapping[str, Bounds], places: NDArray[np.int64], under: Any = None) -> NDArray[np.bool_]:
        """Whether there is anything to do in blocks of work; `places` has their places along all indices that are cut,
        in the order of `cuts`."""
        points = self.points(tuple(cuts), under)
        if points is None:
            return np.ones(len(places), bool)
        bounds: dict[str, Any] = {}
        for k, (index, cut_bounds) in enumerate(cuts.items()):
            bounds[low(index)] = np.take(cut_bounds, places[:, k])
            bounds[high(index)] = np.take(cut_bounds, places[:, k] + 1)
        if self.narrowed:
            ranges = [self.ranges_in(cuts, dict(zip(cuts, p, strict=True))) for p in places.tolist()]
            for index in self.narrowed:
                ends = np.array([r[index] for r in ranges], np.int64).reshape(len(ranges), 2)
                bounds |= {low(index): ends[:, 0], high(index): ends[:, 1]}
        return np.broadcast_to(points.at(bounds), len(places))

    def box(self, read: OperandRead, ranges: Mapping[str, tuple[int, int]], parts: Parts | None = None) -> Box:
        """What a block of work reads of an operand. All accesses agree on the extent of an index that stands alone."""
        shape = shape_of(self.operands[read.access.tensor])
        sides = []
        for part, extent in zip(self.parts[read.name] if parts is None else parts, shape, strict=True):
            if isinstance(part, str):
                sides.append((ranges[part][0], ranges[part][1]))
            else:
                sides.append((0, extent) if part is None else part.at(ranges, extent))
        return tuple(sides)

    def _source(self, read: OperandRead) -> Any:
        """The operand in blocks: as it is, or cut where blocks of work begin. One that is read whole stays as it is."""
        value = self.operands[read.access.tensor]
        if isinstance(value, Blocked):
            return value
        if not any(self.parts[read.name]) and not hasattr(value, "__dask_graph__"):
            return value if hasattr(value, "shape") else np.asarray(value)
        starts: list[set[int]] = [set() for _ in read.access.subscripts]
        for ranges in self._all_ranges(sorted(self.follows(read, tuple(self.cuts)))):
            for axis, (start, _) in enumerate(self.box(read, ranges)):
                starts[axis].add(start)
        bounds = [(0, *sorted(s - {0, n}), n) for s, n in zip(starts, shape_of(value), strict=True)]
        return blocks_like(value if hasattr(value, "shape") else np.asarray(value), bounds)

    def _all_ranges(self, names: Sequence[str]) -> Iterator[Ranges]:
        """The boxes of blocks of work along some indices, the others whole."""
        for places in product(*[range(len(self.cuts[n]) - 1) for n in names]):
            yield self.ranges(dict(zip(names, places, strict=True)))

    def ranges(self, place: Place) -> Ranges:
        return self.ranges_in(self.cuts, place)

    def ranges_in(self, cuts: Mapping[str, Bounds], place: Place) -> Ranges:
        """What indices run over in a block of work."""
        ranges = {n: (0, e) for n, e in self.extents.items()}
        ranges |= {n: (cuts[n][k], cuts[n][k + 1]) for n, k in place.items()}
        written = {plain(s) for t in self.targets for s in self._subscripts(t)}  # blocks of results begin where cuts do
        stored_only = (n for n in self.narrowed if n not in place or n not in written)
        return ranges | {n: self._stored_range(n, ranges, place) for n in stored_only}

    def _subscripts(self, target: str) -> Iterator[Any]:
        """Those of a result, wherever it is written."""
        return (s for a in accesses_in(self.steps) if a.tensor == target for s in a.subscripts)

    @property
    def moved(self) -> tuple[str, ...]:
        """The indices that begin elsewhere than at 0 in a block of work."""
        return (*self.cuts, *(n for n in self.narrowed if n not in self.cuts))

    # --- results ---

    def way(self, index: str, target: str) -> Way:
        return self.separable.ways[index][target]

    def is_whole(self, index: str, tensor: str) -> bool:
        """Whether each block of work along the index has a part of all of the result."""
        return tensor in self.targets and self.way(index, tensor).kind == COMBINED

    def bounds(self, target: str) -> tuple[Bounds, ...]:
        """Where blocks of a result are cut."""
        all_bounds: list[Bounds] = [(0, n) for n in self.shape(target)]
        for index, bounds in self.cuts.items():
            if self.way(index, target).kind == RESULT:
                all_bounds[self.way(index, target).axis] = bounds
        return tuple(all_bounds)

    def shape(self, target: str) -> tuple[int, ...]:
        if target not in self.found.shapes:
            raise _unknown_extents(self.steps, target)
        return self.found.shapes[target]

    def combined(self, target: str) -> Way | None:
        """How parts of a result are combined, where they are."""
        ways = [self.way(n, target) for n in self.cuts]
        return next((w for w in ways if w.kind == COMBINED), None)

    @cached_property
    def dtypes(self) -> dict[str, np.dtype[Any]]:
        """The types of results, as numpy has them."""
        return types_of(self.steps, self.operands, self.kept, self.layouts, self.named)

    def results(self) -> dict[str, Blocked]:
        text = "; ".join(map(show_statement, self.written))
        names = dict.fromkeys(r.access.tensor for r in self.reads)
        label = "_".join([*self.targets, "from", *names]) if names else "_".join(self.targets)
        token = tokenize(text, repr(self.layouts), self.said, self.named, sorted(self.cuts.items()), self.settings,
                         *self.given().items(), *[getattr(s, "name", s) for s in self.sources.values()],
                         *[k.name for k in self.kept.values()])  # fmt: skip
        layer, blocks = self._work(f"{label}-{token}")
        sources = [s for s in self.sources.values() if isinstance(s, Blocked)]
        sources += [v for v in self.kept.values() if isinstance(v, Blocked)]
        base = HighLevelGraph.from_collections(f"{label}-{token}", layer, dependencies=sources)
        told = explanation(self, self.choice, text, len(layer))
        results = {}
        for target in self.targets:
            final = f"result_{target}_of_{label}-{token}"
            ends, block_keys = self._ends(target, blocks[target], f"{label}-{token}")
            ends |= {(final, *place): key for place, key in block_keys.items()}
            last = meant(ends, self.homes, addresses())
            graph = HighLevelGraph({**base.layers, final: last}, {**base.dependencies, final: set(base.layers)})
            results[target] = Blocked(
                graph,
                final,
                self.bounds(target),
                self._example(target),
                self.layouts[target],
                self._memory(target),
                told,
                expected=self._expected(target),
                placed=self.is_placed,
            )
        return results

    def _memory(self, target: str) -> int | None:
        """Bytes of a dense result."""
        if self.layouts[target] is not None:
            return None
        return int(np.prod(self.shape(target), dtype=np.float64)) * self.dtypes[target].itemsize

    def _expected(self, target: str) -> int:
        return result_bytes(self, target, {}, {n: (0, e) for n, e in self.extents.items()})

    def _example(self, target: str) -> Any:
        return lambda: example_of(len(self.shape(target)), self.dtypes[target], self.layouts[target])

    def _work(self, name: str) -> tuple[Mapping[Any, Any], dict[str, dict[tuple[int, ...], list[Any]]]]:
        """The tasks that run the kernel, and the keys of those whose results meet in each block of each result."""
        layer: dict[Any, Any] = {}
        parts_of_blocks: dict[str, dict[tuple[int, ...], list[Any]]] = {t: {} for t in self.targets}
        homes = self.homes
        there = addresses()
        for at, is_needed in self.scheduled:
            places = tuple(at.values())
            if not is_needed:
                self._empty(layer, parts_of_blocks, at, (name, *places))
                continue
            key = ("work-" + name, *places)
            layer[key] = self._task(at, layer, (name, *places))
            if len(there) > 1 and self.is_placed:
                homes[key] = self._worker(at, len(there))
                self._place_parts(layer[key], layer, homes, homes[key])
            for target in self.targets:
                part_key: Any = key
                if len(self.targets) > 1:
                    part_key = (f"{target}_of-" + name, *places)
                    layer[part_key] = (PickResult(target), key)
                    if key in homes:
                        homes[part_key] = homes[key]
                parts_of_blocks[target].setdefault(self.block_of(target, at), []).append(part_key)
        return meant(layer, homes, there), parts_of_blocks

    def _worker(self, at: Place, count: int) -> int:
        """The number of the worker that a block of work is meant for."""
        boxes = self._boxes(self.ranges(at))
        return worker_of(self, self.cuts, at, boxes, self.sizes_of(boxes), count)

    def _place_parts(self, task: Any, layer: Mapping[Any, Any], homes: dict[Any, int], worker: int) -> None:
        """What is cut out of blocks is made where they lie, what is joined of them where it is read first."""
        count = len(addresses())
        sources = {v.name: v for v in self.sources.values() if isinstance(v, Blocked)}
        keys = [k for k in task[1:] if isinstance(k, tuple) and k in layer]
        for key in [*keys, *(p for k in keys if k[0].startswith("part-") for p in layer[k][1:])]:
            kind, _, name = key[0].partition("-")
            if name in sources and kind == "cut":
                rank = sources[name].ndim
                homes.setdefault(key, home(key[1 : 1 + rank], sources[name].blocks, count))
            elif name in sources and kind == "part":
                homes.setdefault(key, worker)

    def _boxes(self, ranges: Ranges) -> dict[str, Box]:
        return {r.name: self.box(r, ranges) for r in self.reads}

    @cached_property
    def is_placed(self) -> bool:
        """Whether operands in blocks lie where they are expected."""
        return all(v.placed for v in self.operands.values() if isinstance(v, Blocked))

    def order_of(self, cuts: Collection[str]) -> list[str]:
        """The order of blocks of work: those whose results meet follow one another."""
        return sorted(cuts, key=lambda n: (all(w.kind != RESULT for w in self.separable.ways[n].values()), n))

    @cached_property
    def scheduled(self) -> list[tuple[Place, bool]]:
        """The blocks of work in their order, and whether a kernel runs for them: there is something to do, or a block
        of a result would be left out."""
        order = self.order_of(self.cuts)
        full = {n: self._full(n) for n in order}
        all_of = [dict(zip(order, p, strict=True)) for p in product(*[range(len(self.cuts[n]) - 1) for n in order])]
        is_full = [all(k in full[n] for n, k in at.items()) for at in all_of]
        places = np.array([[at[n] for n in self.cuts] for at in all_of], np.int64).reshape(len(all_of), len(order))
        needed = self.has_points(self.cuts, places) & is_full
        rests = self._rests(places)
        computed = {(t, self.block_of(t, at)) for at, n in zip(all_of, needed, strict=True) if n for t in self.targets}
        for k, at in enumerate(all_of):
            blocks = {(t, self.block_of(t, at)) for t in self.targets}
            if is_full[k] and not needed[k] and not rests[k] and not blocks <= computed:
                needed[k] = True
                computed |= blocks
        return list(zip(all_of, needed.tolist(), strict=True))

    @cached_property
    def _made(self) -> set[tuple[str, tuple[int, ...]]]:
        """The blocks of results that kernels make."""
        return {(t, self.block_of(t, at)) for at, is_needed in self.scheduled if is_needed for t in self.targets}

    def _rests(self, places: NDArray[np.int64]) -> NDArray[np.bool_]:
        """The blocks of work in which an equation computes nothing, so that the result has its fill value there."""
        step = self.steps[0]
        is_equation = len(self.steps) == 1 and isinstance(step, lang.Statement) and step.op == "=" and not self.kept
        fill = self._fill()
        if not is_equation or fill is None or (step.where is not None and self.filled):
            return np.zeros(len(places), bool)
        return ~self.has_points(self.cuts, places, outside(self.named_steps[0], fill, self.numbers, self.zeros))

    def _fill(self) -> Any:
        """What the result of an equation is where nothing is computed; None where that is not known, or where it is
        reached by sums of other values."""
        step = self.steps[0]
        if len(self.steps) > 1 or not isinstance(step, lang.Statement) or step.op != "=" or self.kept:
            return None
        fill = fill_in(self.layouts[step.target.tensor], len(step.target.subscripts))
        return fill if fill == 0 or within(step.value) <= within(step.target) else None

    def _full(self, index: str) -> set[int]:
        """The blocks of work along an index that are computed: those with places, at least one where a part of a
        result is needed that only a kernel makes."""
        bounds = self.cuts[index]
        full = {k for k in range(len(bounds) - 1) if bounds[k] < bounds[k + 1]}
        is_made = all(w.kind == RESULT and self.layouts[t] is None for t, w in self.separable.ways[index].items())
        return full if full or is_made else {0}

    def _empty(self, layer: dict[Any, Any], parts_of_blocks: Any, at: Place, unique: tuple[Any, ...]) -> None:
        """Blocks of results without places, or in which nothing is computed."""
        for target in self.targets:
            place = self.block_of(target, at)
            box = tuple((b[k], b[k + 1]) for b, k in zip(self.bounds(target), place, strict=True))
            if place in parts_of_blocks[target] or (all(a < b for a, b in box) and (target, place) in self._made):
                continue
            key = (f"empty_{target}-{unique[0]}", *place)
            shape = tuple(b - a for a, b in box)
            layer[key] = (Empty(shape, self.dtypes[target], self.layouts[target]),)
            parts_of_blocks[target][place] = [key]

    def block_of(self, target: str, at: Place) -> tuple[int, ...]:
        block = [0] * len(self.bounds(target))
        for index, place in at.items():
            if self.way(index, target).kind == RESULT:
                block[self.way(index, target).axis] = place
        return tuple(block)

    def _task(self, at: Place, layer: dict[Any, Any], unique: tuple[Any, ...]) -> tuple[Any, ...]:
        ranges = self.ranges(at)
        boxes = self._boxes(ranges)
        arguments, names = [], []
        for read in self.reads:
            names.append(read.name)
            arguments.append(self._argument(read, boxes[read.name], layer))
        for target in self.targets:
            way = self.combined(target)
            if way is None and target in self.kept:
                names.append(target)
                arguments.append(self._before(target, self.block_of(target, at), layer))
            elif way is not None and self._needs_identity(target):
                names.append(target)
                arguments.append(self._identity(target, way, self.block_of(target, at), layer))
        written, sizes = self.local_text.of(ranges, boxes)
        where = ", ".join(f"{n} in [{ranges[n][0]}, {ranges[n][1]})" for n in at)
        best = self._best(ranges)
        out = {t: self.layouts[t] for t in self.layouts if self.layouts[t] is not None and t not in names and not best}
        started = tuple(t for t in names if t in self.targets)
        run = RunKernel(written, tuple(names), self.targets, tuple(sizes.items()), tuple(self.given().items()),
                  out or None, self.settings.threads, where, self.settings.validate, self.settings.deterministic,
                  self.settings.prune, started, best)  # fmt: skip
        return (run, *arguments)

    def _best(self, ranges: Ranges) -> tuple[str, int] | None:
        """Of `argmin` over an index that is cut: where the best values are put, and where the block of work begins."""
        if self.local_text.best is None:
            return None
        step = self.steps[0]
        return self.local_text.best, ranges[step.value.indices[0]][0]

    def _argument(self, read: OperandRead, box: Box, layer: dict[Any, Any]) -> Any:
        source = self.sources[read.name]
        if not isinstance(source, Blocked):
            whole = (f"operand_{read.access.tensor}-{tokenize(source)}",)
            layer[whole] = source  # one for all tasks: dask sends it once to each worker
            return whole
        return source.part(box, layer)

    def _before(self, target: str, place: tuple[int, ...], layer: dict[Any, Any]) -> Any:
        """What a block of a result held."""
        box = tuple((b[k], b[k + 1]) for b, k in zip(self.bounds(target), place, strict=True))
        return self.kept[target].part(box, layer)

    def _needs_identity(self, target: str) -> bool:
        """Whether loops update parts of the result, which begin with the identity of what combines them."""
        way = self.combined(target)
        is_equation = len(self.steps) == 1 and isinstance(self.steps[0], lang.Statement)
        return way is not None and not is_equation and (way.op != "add" or way.function is not None)

    def _identity(self, target: str, way: Way, place: tuple[int, ...], layer: dict[Any, Any]) -> Any:
        shape = tuple(b[k + 1] - b[k] for b, k in zip(self.bounds(target), place, strict=True))
        operator = OPERATORS[way.op] if way.function is None else way.function.operator
        value = operator.identity_of(TYPES[self.dtypes[target].name])
        key = (f"identity_{way.op}-{tokenize(shape, self.dtypes[target], value)}",)
        layer[key] = (Full(shape, self.dtypes[target], value),)
        return key

    def given(self) -> dict[str, Any]:
        """Numbers."""
        scalars = {a.tensor for a in accesses_in(self.steps) if not a.subscripts and a.tensor in self.operands}
        return {n: self.operands[n] for n in sorted(scalars)}

    def _ends(
        self, target: str, blocks: Mapping[tuple[int, ...], list[Any]], name: str
    ) -> tuple[dict[Any, Any], dict[tuple[int, ...], Any]]:
        """Parts of results are combined two at a time, always in the same order; what was there comes last."""
        layer: dict[Any, Any] = {}
        ends: dict[tuple[int, ...], Any] = {}
        way = self.combined(target)
        for place, parts in blocks.items():
            keys, level = parts, 0
            while len(keys) > 1:
                assert way is not None
                pairs = [keys[k : k + 2] for k in range(0, len(keys), 2)]
                keys = []
                for k, pair in enumerate(pairs):
                    key = pair[0]
                    if len(pair) > 1:
                        key = (f"combine_{way.op}-{target}_of_{name}", level, k, *place)
                        layer[key] = (combining(way, self.layouts[target]), *pair)
                        if pair[0] in self.homes:
                            self.homes[key] = self.homes[pair[0]]
                    keys.append(key)
                level += 1
            ends[place] = keys[0]
            if way is not None and way.op in PLACES:
                ends[place] = (f"places_{target}-{name}", *place)
                layer[ends[place]] = (BestPlaces(self.layouts[target], self.dtypes[target]), keys[0])
            elif way is not None and self._starts(target):
                begin = (f"start_{target}-{name}", *place)
                before = [self._before(target, place, layer)] if target in self.kept else []
                is_set = not self.local_text.is_update(target)
                layer[begin] = (Start(way.op, self.layouts[target], way.function, is_set), keys[0], *before)
                ends[place] = begin
        return layer, ends

    def _starts(self, target: str) -> bool:
        """Whether parts that were combined meet what the result held: zeros, if it was not given."""
        way = self.combined(target)
        return target in self.kept or (way is not None and way.op != "add" and self.local_text.is_update(target))


def is_sparse(value: Any) -> bool:
    """Whether a layout or scipy says of each place whether it is stored."""
    example = value.example() if isinstance(value, Blocked) else value
    return not is_full(example.layout) if hasattr(example, "layout") else hasattr(example, "tocsr")


def combining(way: Way, layout: Any) -> Combine | Better:
    """What two parts of a result become."""
    return Better(way.op) if way.op in PLACES else Combine(way.op, layout, way.function)


def fill_of(value: Any) -> Any:
    """What a tensor holds where nothing is stored."""
    layout = getattr(value, "layout", None)
    if isinstance(value, Blocked):
        return value.example().layout.fill if hasattr(value.example(), "layout") else 0
    return getattr(layout, "fill", getattr(value, "fill_value", 0)) if layout is not None else 0


def _unknown_extents(steps: Sequence[Any], target: str) -> Exception:
    from spfgen.errors import UsageError
    from spfgen.run.calls.detect_layout import dense_layout

    access = next(a for a in accesses_in(steps) if a.tensor == target)
    names = dense_layout(len(access.subscripts)).parameters
    hint = ", ".join(f"'{target}.{n}': ..." for n in names)
    message = f"expected the extents of `{target}`, but they do not follow from the operands"
    return UsageError(message, access.span, (f"pass sizes={{{hint}}}",))


__all__ = ["JointPlan", "Settings", "fill_of", "lang", "shape_of"]
