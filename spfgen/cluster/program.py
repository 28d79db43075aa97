"""Programs over blocks: statements of index notation become tasks with the same kernel, on parts of the operands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from spfgen.cluster.blocked import Blocked
from spfgen.cluster.cuts import Bounds, Box
from spfgen.cluster.made import blocks_like
from spfgen.cluster.parts import Combine, Run
from spfgen.cluster.separate import (
    COMBINED,
    RESULT,
    Read,
    Separable,
    image,
    linear,
    plain,
    reads_of,
    separable,
    shifted,
)
from spfgen.errors import DataError, Unsupported, UsageError
from spfgen.ir import rewrite, walk
from spfgen.lang import nodes as lang
from spfgen.lang.parse import parse_statements
from spfgen.lang.show import show_function, show_statement
from spfgen.lang.trace import among
from spfgen.lang.uses import accesses_in
from spfgen.sets.affine import Affine

Ranges = dict[str, tuple[int, int]]


def evaluate(
    text: str,
    operands: Mapping[str, Any],
    sizes: Mapping[str, int] | None = None,
    threads: int | None = None,
    out: Any = None,
) -> Any:
    """What spfgen.evaluate gives for operands of which some are in blocks: results in blocks, not computed yet; a
    dict of them where there are several. Raises SpecError, UsageError, DataError, Unsupported."""
    functions, known = among(operands)
    steps = parse_statements(text, functions=dict(functions))
    found: dict[str, Any] = {}
    for step in steps:
        if not isinstance(step, lang.Statement):
            message = "expected equations, which can be computed in blocks, but there is a loop or a condition"
            raise Unsupported(message, getattr(step, "span", None), ("pass operands as A=A.compute()",))
        name = step.target.tensor
        if known.get(name) is not None and name not in found:
            hint = f"results in blocks are new ones: leave out `{name}`, or give the target another name"
            raise UsageError(f"expected no value for the target `{name}`, but one is given", step.target.span, (hint,))
        if name in found:
            raise Unsupported(f"expected one equation for `{name}`, but there are several", step.target.span)
        layout = out.get(name) if isinstance(out, Mapping) else out
        found[name] = _Program(step, {**known, **found}, dict(sizes or {}), threads, layout).blocked()
    _check_names(steps, known)
    return found if len(found) > 1 else next(iter(found.values()))


def _check_names(steps: Sequence[Any], known: Mapping[str, Any]) -> None:
    names = {a.tensor for a in accesses_in(steps)}
    for name in known:
        if name not in names:
            hint = f"the statements use: {', '.join(sorted(names))}"
            raise UsageError(f"expected a tensor of the statements, but `{name}` is not one", None, (hint,))


@dataclass
class _Program:
    """One statement on its way to tasks."""

    statement: lang.Statement
    operands: Mapping[str, Any]
    sizes: dict[str, int]
    threads: int | None
    out: Any

    def blocked(self) -> Blocked:
        self.separable: Separable = separable(self.statement)
        self._check_operands()
        self.extents = dict(_extents(self.statement, self.operands, self.sizes))
        self.shape = self._shape()
        self.cuts = self._cuts()
        self.reads, self.named = reads_of(self.statement, set(self.cuts))
        self.sources = {r.name: self._source(r) for r in self.reads}
        self.sent = dict.fromkeys(self.sources, 0)
        self.bounds = tuple(self._target_axis(k) for k in range(len(self.statement.target.subscripts)))
        return self._result()

    def _check_operands(self) -> None:
        for access in self._accesses():
            value = self.operands.get(access.tensor)
            if value is None:
                raise UsageError(f"expected an operand for `{access.tensor}`, but there is none", access.span)
            shape, rank = shape_of(value), len(access.subscripts)
            if len(shape) != rank:
                raise DataError(f"expected `{access.tensor}` with {rank} dimensions, but its shape is {shape}")

    # --- which indices are cut ---

    def _cuts(self) -> dict[str, Bounds]:
        """The bounds of each index that is cut: those of the largest operand that is cut along it."""
        best: dict[str, tuple[tuple[bool, int], Bounds]] = {}
        for access in self._accesses():
            value = self.operands[access.tensor]
            for axis, subscript in enumerate(access.subscripts if isinstance(value, Blocked) else ()):
                for index in self._may_cut(subscript, value.bounds[axis]):
                    weight = (plain(subscript) == index, int(np.prod(value.shape, dtype=np.float64)))
                    if index not in best or weight > best[index][0]:
                        best[index] = (weight, _clipped(value.bounds[axis], self.extents[index]))
        return {index: bounds for index, (_, bounds) in best.items()}

    def _may_cut(self, subscript: Any, bounds: Bounds) -> Iterator[str]:
        side = linear(subscript)
        if len(bounds) <= 2 or side is None:
            return
        for name, factor in side.terms:
            index = str(name)
            if index in self.separable.ways and factor == 1 and self._is_known(index):
                yield index
                return

    def _is_known(self, index: str) -> bool:
        """Whether the extents of the index, and of all that stand in subscripts beside it, are known."""
        for access in accesses_in([self.statement]):
            for side in filter(None, map(linear, access.subscripts)):
                names = [str(i) for i, _ in side.terms]
                if index in names and not all(n in self.extents for n in names):
                    return False
        return True

    # --- operands and the target ---

    def _source(self, read: Read) -> Any:
        """The operand in blocks: as it is, or cut where blocks of work begin. One that is read whole stays as it is."""
        value = self.operands[read.access.tensor]
        if isinstance(value, Blocked):
            return value
        if not any(read.sides) and not hasattr(value, "__dask_graph__"):
            return value if hasattr(value, "shape") else np.asarray(value)
        whole = [(0, n) for n in shape_of(value)]
        bounds = [self._starts(s, w) if s else w for s, w in zip(read.sides, whole, strict=True)]
        return blocks_like(value if hasattr(value, "shape") else np.asarray(value), bounds)

    def _starts(self, side: Affine, whole: tuple[int, int]) -> Bounds:
        """Bounds where the parts of a plain operand begin."""
        extent = whole[1]
        inner = {
            min(max(self._image(side, r)[0], 0), extent) for r in self._all_ranges([str(i) for i, _ in side.terms])
        }
        return (0, *sorted(inner - {0, extent}), extent)

    def _all_ranges(self, names: Sequence[str]) -> Iterator[Ranges]:
        """The boxes of blocks of work along some indices."""
        cut = [n for n in names if n in self.cuts]
        for places in product(*[range(len(self.cuts[n]) - 1) for n in cut]):
            yield self._ranges(dict(zip(cut, places, strict=True)))

    def _ranges(self, place: Mapping[str, int]) -> Ranges:
        own = {n: (self.cuts[n][k], self.cuts[n][k + 1]) for n, k in place.items()}
        return {**{n: (0, e) for n, e in self.extents.items()}, **own}

    def _image(self, side: Affine, ranges: Ranges) -> tuple[int, int]:
        if any(ranges[str(i)][0] >= ranges[str(i)][1] for i, _ in side.terms):
            low = side.constant + sum(c * ranges[str(i)][0] for i, c in side.terms)
            return low, low
        return image(side, ranges)

    def _target_axis(self, axis: int) -> Bounds:
        target = self.statement.target
        index = plain(target.subscripts[axis])
        if index in self.cuts and self.separable.ways[str(index)].kind == RESULT:
            return self.cuts[str(index)]
        return (0, self.shape[axis])

    def _shape(self) -> tuple[int, ...]:
        """The extents of the result: those of indices that stand alone, else what the program gives for operands of the
        same shapes that store nothing. The extents of indices that stand alone in the target are known then."""
        target = self.statement.target
        alone = [plain(s) for s in target.subscripts]
        if all(i in self.extents for i in alone):
            return tuple(self.extents[str(i)] for i in alone)
        shape = self._asked()
        self.extents |= {i: n for i, n in zip(alone, shape, strict=True) if i is not None}
        return shape

    def _asked(self) -> tuple[int, ...]:
        from spfgen.cluster.made import nothing
        from spfgen.run.arrays.made import of_coordinates
        from spfgen.run.calls.evaluate import evaluate as evaluated

        given = {a.tensor: self.operands[a.tensor] for a in self._accesses() if a.subscripts}
        empty = {n: nothing(v, shape_of(v)) for n, v in given.items()}
        out = of_coordinates(len(self.statement.target.subscripts))
        text = self._text(self.statement)
        return shape_of(evaluated(text, {**self._given(), **empty}, self.sizes or None, None, "once", out))

    def _accesses(self) -> list[lang.Access]:
        return [*accesses_in([self.statement.value, *self.statement.target.subscripts])]

    def _text(self, step: lang.Statement) -> str:
        functions = {n.function.name: n.function for n in walk(step) if getattr(n, "function", None) is not None}
        return "\n".join([*map(show_function, functions.values()), show_statement(step)])

    # --- tasks ---

    def _result(self) -> Blocked:
        text = show_statement(self.statement)
        label = "_".join([self.statement.target.tensor, "from", *dict.fromkeys(r.access.tensor for r in self.reads)])
        token = tokenize(text, self.out, self.sizes, sorted(self.cuts.items()), *self._given().items(),
                         *[getattr(s, "name", s) for s in self.sources.values()])  # fmt: skip
        name = f"{label}-{token}"
        layer, results = self._work(name)
        keys = {place: self._met(layer, found, f"{name}", place) for place, found in results.items()}
        final = f"result_{label}-{token}"
        layer |= {(final, *place): key for place, key in keys.items()}
        sources = [s for s in self.sources.values() if isinstance(s, Blocked)]
        graph = HighLevelGraph.from_collections(final, layer, dependencies=sources)
        told = self._told(text, len(layer))
        return Blocked(graph, final, self.bounds, self._example, self.out, None, told)

    def _work(self, name: str) -> tuple[dict[Any, Any], dict[tuple[int, ...], list[Any]]]:
        """The tasks that run the kernel, and the keys of those whose results meet in each block of the result."""
        layer: dict[Any, Any] = {}
        results: dict[tuple[int, ...], list[Any]] = {}
        order = sorted(self.cuts, key=lambda n: (self.separable.ways[n].kind != RESULT, n))
        for places in product(*[self._places(n) for n in order]):
            at = dict(zip(order, places, strict=True))
            key = ("work-" + name, *places)
            layer[key] = self._task(at, layer, (name, *places))
            results.setdefault(self._block_of(at), []).append(key)
        return layer, results

    def _places(self, index: str) -> list[int]:
        """The blocks along an index; of one whose results are combined, those that are not empty."""
        bounds = self.cuts[index]
        every = list(range(len(bounds) - 1))
        full = [k for k in every if bounds[k] < bounds[k + 1]]
        return every if self.separable.ways[index].kind == RESULT else full or every[:1]

    def _block_of(self, at: Mapping[str, int]) -> tuple[int, ...]:
        found = [0] * len(self.bounds)
        for index, way in self.separable.ways.items():
            if index in at and way.kind == RESULT:
                found[way.axis] = at[index]
        return tuple(found)

    def _task(self, at: Mapping[str, int], layer: dict[Any, Any], unique: tuple[Any, ...]) -> tuple[Any, ...]:
        ranges = self._ranges(at)
        moved: dict[str, list[int]] = {}
        arguments, names, given = [], [], dict(self._given())
        for read in self.reads:
            box, moved[read.name] = self._box(read, ranges)
            source = self.sources[read.name]
            names.append(read.name)
            self.sent[read.name] += int(np.prod([high - low for low, high in box], dtype=np.float64))
            if not isinstance(source, Blocked):
                whole = (f"operand_{read.access.tensor}-{tokenize(source)}",)
                layer[whole] = source  # one for all tasks: dask sends it once to each worker
                arguments.append(whole)
                continue
            key: Any = source.part(box)
            if callable(key[0]):
                made = (f"part_of_{read.name}-{unique[0]}", *unique[1:])
                layer[made] = key
                key = made
            arguments.append(key)
        text, offsets = self._local(moved, ranges)
        sizes = {**self.sizes, **{n: hi - lo for n, (lo, hi) in ranges.items() if n in self.sizes or n in self._needed}}
        where = ", ".join(f"{n} in [{ranges[n][0]}, {ranges[n][1]})" for n in at)
        run = Run(text, tuple(names), self.statement.target.tensor, tuple(sizes.items()), (*given.items(), *offsets),
                  self.out, self.threads, where)  # fmt: skip
        return (run, *arguments)

    @property
    def _needed(self) -> set[str]:
        """Indices that stand alone in no operand: their extents are said."""
        alone = {plain(s) for r in self.reads for s in r.access.subscripts}
        return set(self.extents) - {str(i) for i in alone}

    def _given(self) -> dict[str, Any]:
        """Numbers, and functions of Python."""
        scalars = {a.tensor for a in accesses_in([self.statement.value]) if not a.subscripts}
        return {n: self.operands[n] for n in sorted(scalars)}

    def _box(self, read: Read, ranges: Ranges) -> tuple[Box, list[int]]:
        """What a block of work reads, and what is added to each subscript there."""
        shape = shape_of(self.sources[read.name])
        box: list[tuple[int, int]] = []
        moved: list[int] = []
        for side, subscript, extent in zip(read.sides, read.access.subscripts, shape, strict=True):
            if side is None:
                box.append((0, int(extent)))
                moved.append(0)
                continue
            low, high = self._image(side, ranges)
            start, stop = min(max(low, 0), extent), min(max(high, 0), extent)
            origin = sum(c * ranges[str(i)][0] for i, c in side.terms)
            alone = side.constant + origin == start and plain(subscript) is None and len(side.terms) == 1
            if alone and (start, stop) != (low, high) and start > 0:
                start -= 1  # the subscript would become the index alone, which says that the extents are equal
            box.append((start, max(start, stop)))
            moved.append(origin - start)
        return tuple(box), moved

    def _local(self, moved: Mapping[str, list[int]], ranges: Ranges) -> tuple[str, list[tuple[str, Any]]]:
        """The text of a block of work, whose indices begin at 0, and the numbers that stand for where they began."""
        offsets: dict[str, Any] = {}

        def rule(node: Any) -> Any:
            if isinstance(node, lang.Access) and node.tensor in moved:
                pairs = zip(node.subscripts, moved[node.tensor], strict=True)
                return replace(node, subscripts=tuple(shifted(s, d) if d else s for s, d in pairs))
            if isinstance(node, lang.Index):
                return self._index(node, ranges, offsets)
            return None

        value = rewrite(rule, self.named.value)
        subscripts = tuple(rewrite(rule, s) for s in self.named.target.subscripts)
        step = replace(self.named, value=value, target=replace(self.named.target, subscripts=subscripts))
        return self._text(step), list(offsets.items())

    def _index(self, node: lang.Index, ranges: Ranges, offsets: dict[str, Any]) -> Any:
        side = linear(node.expr)
        if side is None or not any(str(i) in self.cuts for i, _ in side.terms):
            return None
        name = "from_" + "_".join(f"{c if c > 0 else f'm{-c}'}{i}" for i, c in side.terms)
        offsets[name] = np.int64(sum(c * ranges[str(i)][0] for i, c in side.terms))
        return lang.Apply("add", (node, lang.Access(name, ())))

    def _met(self, layer: dict[Any, Any], keys: list[Any], name: str, place: tuple[int, ...]) -> Any:
        """The results of several blocks of work as one, two at a time in a tree: the order is always the same."""
        op = next((self.separable.ways[n].op for n in self.cuts if self.separable.ways[n].kind == COMBINED), "")
        level = 0
        while len(keys) > 1:
            pairs = [keys[k : k + 2] for k in range(0, len(keys), 2)]
            keys = []
            for k, pair in enumerate(pairs):
                if len(pair) == 1:
                    keys += pair
                    continue
                key = (f"combine_{op}-{name}", level, k, *place)
                layer[key] = (Combine(op, self.out), *pair)
                keys.append(key)
            level += 1
        return keys[0]

    def _example(self) -> Any:
        """The result for operands with one place along each axis; with none where one is not enough."""
        try:
            return self._example_of(1)
        except DataError:
            return self._example_of(0)

    def _example_of(self, extent: int) -> Any:
        from spfgen.cluster.made import small
        from spfgen.run.calls.evaluate import evaluate as evaluated

        given = {r.name: small(self.sources[r.name], extent) for r in self.reads}
        text, offsets = self._local({}, dict.fromkeys(self.extents, (0, extent)))
        sizes = dict.fromkeys([*self.sizes, *self._needed], extent)
        found = evaluated(text, {**self._given(), **given, **dict(offsets)}, sizes, None, "once", self.out)
        return np.asarray(found) if self.out is None else found

    # --- what is told ---

    def _told(self, text: str, tasks: int) -> str:
        from spfgen.cluster.told import told

        return told(text, self.cuts, self.separable, self.reads, self.sources, self.sent, tasks)


def shape_of(value: Any) -> tuple[int, ...]:
    """The extents of an operand of any kind."""
    return tuple(int(n) for n in (value.shape if hasattr(value, "shape") else np.shape(value)))


def _clipped(bounds: Bounds, extent: int) -> Bounds:
    """The bounds of an operand as bounds of an index, which may have fewer places, or more."""
    return (*[min(b, extent) for b in bounds[:-1]], extent)


def _extents(
    statement: lang.Statement, operands: Mapping[str, Any], sizes: Mapping[str, int]
) -> Iterator[tuple[str, int]]:
    """The extents of indices: of operands where they stand alone, or as they are said; else the largest for which each
    subscript lies inside. Raises DataError where they do not agree."""
    found: dict[str, int] = {}
    accesses = [a for a in accesses_in([statement.value, *statement.target.subscripts]) if a.subscripts]
    for access in accesses:
        shape = shape_of(operands[access.tensor])
        for axis, (subscript, extent) in enumerate(zip(access.subscripts, shape, strict=True)):
            index = plain(subscript)
            if index is not None and found.setdefault(index, int(extent)) != extent:
                message = f"expected extents that agree, but `{index}` runs over {found[index]} places and"
                raise DataError(f"{message} {access.tensor} has {extent} along axis {axis}", access.span)
    for index, extent in sizes.items():
        if index in found and found[index] != extent:
            message = f"expected extents that agree, but the size given for `{index}` is {extent}, not {found[index]}"
            raise DataError(message)
        found[index] = extent
    yield from found.items()
