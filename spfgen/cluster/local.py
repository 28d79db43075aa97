"""The text of a block of work, whose indices begin at 0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from spfgen.cluster.cuts import Box
from spfgen.cluster.iteration_space import ReadPart
from spfgen.cluster.joint import Joint, Ranges
from spfgen.cluster.separability import COMBINED, RESULT, OperandRead, linear, plain, within
from spfgen.facts.formula import Bin, Expr, Formula, Num, Var, chain, conjunction, substitute
from spfgen.ir import children, rewrite, walk
from spfgen.lang import nodes as lang
from spfgen.lang.normalize import normalized
from spfgen.lang.signs import PLACES
from spfgen.lang.uses import accesses_in
from spfgen.run.calls.evaluate import Written

NIL = "nil"
"""A size that is 0: with it a subscript is more than an index, whose extent would be that of the operand."""


def start_of(index: str) -> str:
    """The size that says where an index of a block of work begins."""
    return f"from_{index}"


def extent_of(index: str) -> str:
    """The size that says how many values of an index a block of work has, where conditions say what it runs over."""
    return f"extent_{index}"


class LocalProgram:
    """Makes the text for blocks of work: one for all of them, but for those where a subscript leaves its operand."""

    def __init__(self, unit: Joint) -> None:
        self.unit = unit
        self.reads: Mapping[str, OperandRead] = {r.name: r for r in unit.reads}
        self.texts: dict[Any, Written] = {}
        self.following: dict[frozenset[str], set[tuple[str, int]]] = {}
        self.in_values = {i for r in unit.reads for under in r.under for c in under for i in within(c)}
        self.steps = tuple(self._explicit(self._combined(s)) for s in unit.named_steps)
        self.bounded = {
            (r.name, k) for r in unit.reads for k in range(len(r.access.subscripts)) if self._is_bounded(r, k)
        }
        self.best = self._name_of_best()
        self.ruled = self._ruled()
        self.begins = {i: Bin("+", Var(i), Var(start_of(i))) for i in unit.moved}

    def _name_of_best(self) -> str | None:
        """What the best values of `argmin` are called, where parts of the result are combined."""
        way = self.unit.combined(self.unit.targets[0]) if self.unit.targets else None
        if way is None or way.op not in PLACES:
            return None
        taken = {a.tensor for a in accesses_in(self.unit.named_steps)}
        return next(n for k in count(1) if (n := f"best_{k}") not in taken)

    def _values_of_best(self, step: lang.Statement) -> lang.Statement:
        """The best values, beside their places."""
        assert isinstance(step.value, lang.Reduce)
        assert self.best is not None
        op = "minimum" if PLACES[step.value.op] == "less" else "maximum"
        return replace(step, target=replace(step.target, tensor=self.best), value=replace(step.value, op=op))

    def _is_bounded(self, read: OperandRead, axis: int) -> bool:
        """Whether conditions say which places of an operand a block of work gets: they differ from block to block, and
        the index of a subscript does not begin where they do."""
        part = self.unit.parts[read.name][axis]
        cuts = {*self.unit.moved}
        if not isinstance(part, ReadPart):
            return False
        return not within(read.access.subscripts[axis]) & cuts or self.unit.is_under(read, cuts)

    def _alone(self) -> set[str]:
        """Indices that stand alone in an operand of which a block of work gets their places."""
        indices = {plain(s) for r in self.unit.reads for k, s in enumerate(r.access.subscripts)
                 if (r.name, k) not in self.bounded}  # fmt: skip
        return {i for i in indices if i is not None}

    def is_update(self, target: str) -> bool:
        """Whether the result is updated: what it held counts, zeros if it was not there."""
        return any(s.op != "=" for s in self._statements(target))

    def _statements(self, target: str) -> list[lang.Statement]:
        steps = [n for s in self.unit.named_steps for n in walk(s) if isinstance(n, lang.Statement)]
        return [s for s in steps if s.target.tensor == target]

    def _combined(self, step: Any) -> Any:
        """An update by another operator than a sum, whose parts are combined: each part begins with the identity."""
        if not isinstance(step, lang.Statement) or step.op in ("=", "+=", "subtract"):
            return step
        ways = [self.unit.way(i, step.target.tensor) for i in self.unit.cuts]
        if not any(w.kind == COMBINED for w in ways):
            return step
        explicit = normalized((step,), tuple(self.unit.named))[0]
        return replace(explicit, op="=", function=None) if isinstance(explicit, lang.Statement) else step

    def _explicit(self, step: Any) -> Any:
        """Sums over an index of a condition in a value are written out where they are implicit: such a sum has the
        range of the index as its condition."""
        targets = {i for n in walk(step) if isinstance(n, lang.Statement) for i in within(n.target)}
        summed = (within(step) - targets) & self.in_values
        return normalized((step,), tuple(self.unit.named))[0] if summed else step

    def of(self, ranges: Ranges, boxes: Mapping[str, Box]) -> tuple[Written, dict[str, int]]:
        """The steps of a block of work, and the numbers that they name."""
        moved: dict[str, tuple[Any, ...]] = {}
        sizes: dict[str, int] = {NIL: 0, **self.unit.named}
        sizes |= {start_of(i): ranges[i][0] for i in self.unit.moved}
        sizes |= {extent_of(i): ranges[i][1] - ranges[i][0] for i in self.ruled & {*self.unit.moved}}
        for name, read in self.reads.items():
            moved[name] = tuple(self._moved(read, axis, ranges, boxes[name][axis], sizes) for axis in
                                range(len(read.access.subscripts)))  # fmt: skip
        key = tuple(sorted(moved.items()))
        if key not in self.texts:
            steps = tuple(rewrite(lambda n: self._rule(n, moved), s) for s in self.steps)
            steps += tuple(self._values_of_best(s) for s in steps if self.best is not None)
            names = {v for s in steps for v in within(s)}
            self.texts[key] = Written(steps, tuple(n for n in sizes if n in names))
        written = self.texts[key]
        return written, {**{n: sizes[n] for n in written.sizes}, **self._extents(ranges)}

    def _moved(self, read: OperandRead, axis: int, ranges: Ranges, side: tuple[int, int], sizes: dict[str, int]) -> Any:
        """What becomes of a subscript: nothing (None), a number is added, or a size is subtracted from it where its
        indices are counted from where they began."""
        subscript = read.access.subscripts[axis]
        cut = within(subscript) & {*self.unit.moved}
        is_bounded = (read.name, axis) in self.bounded
        if not is_bounded and (not cut or plain(subscript) is not None or not isinstance(subscript, Expr)):
            return None
        affine = None if is_bounded else linear(subscript)
        if affine is None:
            name = f"start_{read.name}_{axis}"
            sizes[name] = side[0]
            return name
        by = sum(c * ranges[str(i)][0] for i, c in affine.terms if i in cut) - side[0]
        is_alone = len(affine.terms) == 1 and affine.terms[0][1] == 1 and affine.constant + by == 0
        low, high = ranges.get(str(affine.terms[0][0]), (0, 0))
        return (by, bool(is_alone and side[1] - side[0] != high - low))

    def _rule(self, node: Any, moved: Mapping[str, tuple[Any, ...]]) -> Any:
        match node:
            case lang.Access(tensor, subscripts) if tensor in moved:
                pairs = zip(subscripts, moved[tensor], strict=True)
                return replace(node, subscripts=tuple(self._subscript(s, m) for s, m in pairs))
            case lang.Access(tensor, subscripts) if tensor in self.unit.layouts:
                return replace(node, subscripts=tuple(self._written(tensor, s) for s in subscripts))
            case lang.Index(expr):
                return replace(node, expr=substitute(expr, self.begins))
            case lang.Statement() | lang.Reduce() | lang.For():
                limits = [self._range(i) for i in sorted(self._free(node) & self.ruled)]
                where = [] if node.where is None else [substitute(node.where, self.begins)]
                return replace(node, where=conjunction([*where, *limits])) if where or limits else None
        return None

    def _ruled(self) -> set[str]:
        """Indices that stand alone nowhere and whose conditions say what they run over: so they do in a block of work,
        whose text says its part as one more condition."""
        unit = self.unit
        targets = [a for a in accesses_in(self.steps) if a.tensor in unit.layouts]
        conditions = [w for s in self.steps for n in walk(s) if (w := getattr(n, "where", None)) is not None]
        bound = self.in_values & {i for s in self.steps for i in _loops(s)}
        alone = self._alone() | {str(plain(s)) for a in targets for s in a.subscripts}
        return ({i for c in conditions for i in within(c)} | bound) & {*unit.extents} - alone

    def _free(self, node: Any) -> set[str]:
        """The indices that a node binds: an equation those of its condition that nothing else does."""
        if isinstance(node, lang.For | lang.Reduce):
            return {*node.indices}
        return set() if node.where is None else within(node.where) - {i for s in self.steps for i in _loops(s)}

    def _range(self, index: str) -> Formula:
        is_cut = index in self.unit.moved
        extent: Expr = Var(extent_of(index)) if is_cut else Num(self.unit.extents[index])
        return chain(Num(0), "<=", Var(index), "<", extent)

    def _subscript(self, subscript: Any, moved: Any) -> Any:
        if moved is None:
            return subscript
        if isinstance(moved, str):
            return Bin("-", substitute(subscript, self.begins), Var(moved))
        by, is_apart = moved
        if by:
            subscript = Bin("+", subscript, Num(by)) if by > 0 else Bin("-", subscript, Num(-by))
        return Bin("+", subscript, Var(NIL)) if is_apart else subscript

    def _written(self, tensor: str, subscript: Any) -> Any:
        """A subscript of a result: its block begins where the block of work does, or it is whole."""
        if not isinstance(subscript, Expr):
            return subscript
        whole = {i: self.begins[i] for i in self.unit.moved if self._is_elsewhere(tensor, i)}
        return substitute(subscript, whole)

    def _extents(self, ranges: Ranges) -> dict[str, int]:
        """Of indices that stand alone in no operand, and of those and of results that the caller says."""
        unit = self.unit
        used = {n for s in self.steps for n in within(s)} | {n for s in self.steps for n in _loops(s)}
        needed = (used - self._alone() | {*unit.said}) - self.ruled
        extents = {i: hi - lo for i, (lo, hi) in ranges.items() if i in needed}
        for target in unit.layouts:
            if not self._is_given(target):
                of_result = self._of_result(target, ranges, extents)
                also = (
                    {} if self.best is None else {f"{self.best}.{n.partition('.')[2]}": e for n, e in of_result.items()}
                )
                extents |= {**of_result, **also}
        return extents

    def _is_given(self, target: str) -> bool:
        return target in self.unit.kept and self.unit.combined(target) is None

    def _of_result(self, target: str, ranges: Ranges, passed: Mapping[str, int]) -> dict[str, int]:
        """The extents of a result along axes that no index alone says."""
        unit = self.unit
        if target not in unit.found.shapes:
            return {}
        shape = list(unit.found.shapes[target])
        known = self._following(frozenset(passed))
        if all((target, axis) in known for axis in range(len(shape))):
            return {}
        for index in unit.cuts:
            if not unit.is_whole(index, target) and target in unit.targets:
                low, high = ranges[index]
                shape[unit.way(index, target).axis] = high - low
        is_narrowed = any(self._is_elsewhere(target, i) for i in unit.narrowed if i not in unit.cuts)
        left_out = known if is_narrowed else set()  # those that follow have no names of their own
        named = zip(self._parameters(target), shape, strict=True)
        return {f"{target}.{n}": e for axis, (n, e) in enumerate(named) if (target, axis) not in left_out}

    def _following(self, passed: frozenset[str]) -> set[tuple[str, int]]:
        """Axes whose extents follow from operands and from indices whose extents are passed: where an index stands
        alone it has that of the axis, for one loop or reduction; another one may bind it, too."""
        if passed not in self.following:
            self.following[passed] = set(self._spread(passed))
        return self.following[passed]

    def _spread(self, passed: frozenset[str]) -> Iterator[tuple[str, int]]:
        same = [p for s in self.steps for p in _alone(s) if not self._is_elsewhere(p[1][0], p[0][1])]
        same = [p for p in same if p[1] not in self.bounded]
        known: set[Any] = {index for index, _ in same if index[1] in passed}
        known |= {axis for _, axis in same if axis[0] in self.reads or self._is_given(axis[0])}
        before = -1
        while before != (before := len(known)):
            for pair in same:
                known |= {*pair} if known & {*pair} else set()
        yield from (axis for _, axis in same if axis in known)

    def _is_elsewhere(self, target: str, index: str) -> bool:
        """Whether the index does not begin at 0 in a block of work's part of a result."""
        if index not in self.unit.cuts:
            return index in self.unit.narrowed and target in self.unit.layouts
        return self.unit.is_whole(index, target)

    def _parameters(self, target: str) -> tuple[str, ...]:
        from spfgen.run.calls.detect_layout import dense_layout
        from spfgen.run.handles import handle_of

        layout, rank = self.unit.layouts[target], len(self.unit.found.shapes[target])
        if not rank:
            return ()
        layout_of_target = dense_layout(rank) if layout is None else handle_of(layout).layout(rank)
        return tuple(layout_of_target.parameters)


def _alone(step: Any) -> Iterator[tuple[tuple[int, str], tuple[str, int]]]:
    """Where an index stands alone: what binds it, and the axis. The step itself binds those that nothing else does."""

    def of(node: Any, around: Mapping[str, int]) -> Iterator[Any]:
        around = {**around, **dict.fromkeys(_bound(node), id(node))}
        if isinstance(node, lang.Access):
            indices = [plain(s) for s in node.subscripts]
            yield from (
                ((around.get(i, id(step)), i), (node.tensor, k)) for k, i in enumerate(indices) if i is not None
            )
        for part in children(node):
            yield from of(part, around)

    return of(step, {})


def _loops(step: Any) -> set[str]:
    return {n for node in walk(step) for n in _bound(node)}


def _bound(node: Any) -> tuple[str, ...]:
    return node.indices if isinstance(node, lang.For | lang.Reduce) else ()


__all__ = ["NIL", "RESULT", "LocalProgram", "start_of"]
