"""Whether a call would compute what has no place in its target (space/pattern_overflow.py says where that is in doubt).

Two sums of ones are compared: one over all points at which a part of the value may differ from 0, one over those that
the target stores besides. A kernel makes both, so they are right for every layout. Patterns that were looked at are
remembered as long as their arrays live and stay as they are.

Of a statement with views the result is computed in a layout that holds all, and its coordinates are looked up. As its
values say what is stored there, nothing is remembered of it.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from spfgen.errors import DataError
from spfgen.facts.formula import Var, conjunction, variables
from spfgen.facts.formula import within as formula_within
from spfgen.ir import fresh, rewrite
from spfgen.lang import nodes as lang
from spfgen.lang.show import show_value
from spfgen.layout.nodes import Layout, coordinate_list, everywhere
from spfgen.run.calls.kernels import MAKER, CompiledKernel
from spfgen.run.calls.layout_signature import form_of, refilled, remember
from spfgen.run.calls.validation_cache import fingerprint
from spfgen.run.tensor import Tensor
from spfgen.space.nodes import PatternObligation, Program
from spfgen.space.pattern_overflow import holds_all


@dataclass
class PatternOverflow:
    """What is known of the doubts of one kernel. `seen`: patterns that have a place for all that is computed."""

    program: Program
    seen: dict[tuple[Any, ...], tuple[Any, ...]] = field(default_factory=dict)
    counts: dict[PatternObligation, _Count | _Listed] = field(default_factory=dict)

    def check(self, tensors: Mapping[str, Tensor], sizes: Mapping[str, int], mode: str) -> None:
        """Raises DataError where something that is computed has no place. The mode "always" remembers nothing."""
        for number, doubt in enumerate(self.program.doubts):
            if doubt.asked:
                continue
            if doubt.statement is None and _is_same(doubt, tensors, operator.is_):
                continue
            if doubt.where_empty and all(all(tensors[n].shape) for n in _names(doubt)):
                continue
            pattern_key, marks = _mark(doubt, tensors, sizes)
            key = (number, *pattern_key)
            checked = self.seen.get(key) if mode != "always" and doubt.statement is None else None
            if checked is not None and checked[0] == marks and all(r() is not None for r in checked[1]):
                continue
            if doubt.statement is not None or not _is_same(doubt, tensors, np.array_equal):
                self.look(doubt, tensors, sizes)
            remember(self.seen, key, (marks, tuple(weakref.ref(a) for a in _indexes(doubt, tensors))))

    def look(self, doubt: PatternObligation, tensors: Mapping[str, Tensor], sizes: Mapping[str, int]) -> None:
        """Raises DataError where something of it has no place."""
        count = self.counts.get(doubt)
        if count is None:
            counter_class = _Count if doubt.statement is None else _Listed
            count = self.counts[doubt] = counter_class(doubt, self.program, tensors)
        first = count.first_lost(tensors, sizes)
        if first is not None:
            raise _no_place(doubt, first, tensors)


def say_where(program: Program, tensors: Mapping[str, Tensor], sizes: Mapping[str, int]) -> None:
    """After a kernel has found that something has no place: the DataError that says where, if nothing was written."""
    for doubt in (d for d in program.doubts if d.asked):
        PatternOverflow(program).look(doubt, tensors, sizes)


def _names(doubt: PatternObligation) -> list[str]:
    return list(dict.fromkeys(a.tensor for a in (doubt.target, *doubt.factors)))


def _indexes(doubt: PatternObligation, tensors: Mapping[str, Tensor]) -> list[Any]:
    """The index arrays of all tensors that take part."""
    return [tensors[n].arrays[a.name] for n in _names(doubt) for a in tensors[n].layout.indexes]


def _mark(doubt: PatternObligation, tensors: Mapping[str, Tensor], sizes: Mapping[str, int]) -> tuple[Any, Any]:
    """By what the patterns are known, and what shows that they have not changed."""
    extents = [v for n in _names(doubt) for v in tensors[n].sizes.values()]
    indexes = _indexes(doubt, tensors)
    return (*extents, *sorted(sizes.items()), *map(id, indexes)), tuple(map(fingerprint, indexes))


def _is_same(doubt: PatternObligation, tensors: Mapping[str, Tensor], equal: Callable[[Any, Any], bool]) -> bool:
    """Whether a factor at the place of the target has the target's index arrays, or equal ones."""
    target = tensors[doubt.target.tensor]
    factors = [tensors[a.tensor] for a in doubt.factors if a.subscripts == doubt.target.subscripts]
    return bool(target.layout.indexes) and any(
        t.layout == target.layout
        and t.sizes == target.sizes
        and all(equal(t.arrays[a.name], target.arrays[a.name]) for a in target.layout.indexes)
        for t in factors
    )


class _Count:
    """The kernels that count the points of a doubt, made when they are first needed.

    What stores everything does not decide where a point lies: such factors are left out. Coordinates of the target that
    nothing else speaks of (`free`) multiply the number of points by their extents, without a loop over them.
    """

    def __init__(self, doubt: PatternObligation, program: Program, tensors: Mapping[str, Tensor]) -> None:
        parameters = program.parameters
        self.target, self.where, self.parameters = doubt.target, doubt.where, parameters
        plain = {s.name for s in doubt.target.subscripts if isinstance(s, Var)}
        self.factors = [f for f in doubt.factors if not _is_everywhere(f, tensors[f.tensor].layout, plain)]
        spoken = [v for f in self.factors for s in f.subscripts for v in variables(s)]
        spoken += [] if doubt.where is None else variables(doubt.where)
        target_names = [v for s in doubt.target.subscripts for v in variables(s)]
        names = [s.name if isinstance(s, Var) else "" for s in doubt.target.subscripts]
        self.free = [k for k, n in enumerate(names) if n and target_names.count(n) == 1 and n not in spoken]
        self.names = list(dict.fromkeys(a.tensor for a in (doubt.target, *self.factors)))
        taken = {*parameters, *self.names, *spoken, *target_names}
        self.any, self.all, self.kept, self.name = (
            fresh(n, taken) for n in ("anywhere", "all_points", "kept_points", "count_points")
        )
        dims = range(len(names))
        self.low, self.high = ([fresh(f"{n}_{k}", taken) for k in dims] for n in ("from", "to"))
        self.whole: CompiledKernel | None = None
        self.part: CompiledKernel | None = None

    def first_lost(self, tensors: Mapping[str, Tensor], sizes: Mapping[str, int]) -> list[int] | None:
        """The first coordinate at which something is computed and the target stores nothing."""
        shape = tensors[self.target.tensor].shape
        low, high = [0] * len(shape), list(shape)
        operands = {**self._operands(tensors), **{n: sizes[n] for n in self.parameters}}
        if self.whole is None:
            self.whole = self._kernel(tensors, False)
        if not self._lost(self.whole, operands, low, high):
            return None
        if self.part is None:
            self.part = self._kernel(tensors, True)
        for k in range(len(shape)):
            while high[k] - low[k] > 1:
                middle = low[k] + (high[k] - low[k]) // 2
                before = [*high[:k], middle, *high[k + 1 :]]
                limits = dict(zip((*self.low, *self.high), (*low, *before), strict=True))
                if self._lost(self.part, {**operands, **limits}, low, before):
                    high = before
                else:
                    low[k] = middle
        return low

    def _lost(
        self, kernel: CompiledKernel, operands: Mapping[str, Any], low: Sequence[int], high: Sequence[int]
    ) -> bool:
        """Whether there are more points than those that the target stores."""
        sums = [t.name for t in kernel.program.tensors if t.is_output]
        ends = {name: np.zeros((), np.int64) for name in sums}
        kernel.bound({**operands, **ends}, None, None, "never")()
        times = prod(high[k] - low[k] for k in self.free)
        return times * int(ends.get(self.all, 1)) != int(ends[self.kept])

    def _kernel(self, tensors: Mapping[str, Tensor], within: bool) -> CompiledKernel:
        layouts = {n: _thin(tensors[n].layout) for n in self.names}
        bound = [k for k in range(len(self.low)) if k not in self.free]
        statements = []
        if bound or self.factors:
            place = [lang.Access(self.any, tuple(self.target.subscripts[k] for k in bound))] if bound else []
            layouts |= {self.any: everywhere(len(bound))} if bound else {}
            statements.append(self._sum(self.all, [*place, *self.factors], bound if within else ()))
        statements.append(self._sum(self.kept, [self.target, *self.factors], range(len(self.low)) if within else ()))
        declared = tuple(
            lang.TensorDecl(n, lang.LayoutUse(layout.name, settings=layout.constants)) for n, layout in layouts.items()
        )
        limits = (*self.low, *self.high) if within else ()
        parsed = lang.Kernel(self.name, declared, (*self.parameters, *limits), tuple(statements))
        return MAKER().kept_kernel(parsed, layouts)

    def _sum(self, name: str, factors: Sequence[lang.Access], limited: Iterable[int]) -> lang.Statement:
        """The sum of ones over the points where all factors store something, between limits in these dimensions."""
        conditions = [] if self.where is None else [self.where]
        for k in limited:
            conditions.append(formula_within(self.target.subscripts[k], Var(self.low[k]), Var(self.high[k])))
        where = conjunction(conditions) if conditions else None
        return lang.Statement(lang.Access(name, ()), "=", lang.product_of(factors), where)

    def _operands(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The patterns with ones as values; what stores all coordinates has one value for them."""
        patterns = {
            n: _everywhere(t.shape) if holds_all(t.layout) else _ones(t) for n, t in tensors.items() if n in self.names
        }
        bound = [n for k, n in enumerate(tensors[self.target.tensor].shape) if k not in self.free]
        return {**patterns, self.any: _everywhere(bound)} if bound else patterns


class _Listed:
    """A kernel for the statement with a result that has a place for all that is computed."""

    def __init__(self, doubt: PatternObligation, program: Program, tensors: Mapping[str, Tensor]) -> None:
        assert doubt.statement is not None
        statement, self.target = doubt.statement, doubt.target.tensor
        self.asked = {
            i: e for i, operand_name in program.sizes.of_index.items() for e in operand_name if e in program.parameters
        }
        parameters = tuple(p for p in program.parameters if p not in self.asked.values())
        self.parameters = parameters
        self.before = fresh(f"{self.target}_before", {*_names(doubt), *parameters})
        self.names = {n if n != self.target else self.before: n for a in doubt.factors for n in (a.tensor,)}
        layouts = {n: tensors[operand_name].layout for n, operand_name in self.names.items()}
        declared = [lang.TensorDecl(n, lang.LayoutUse(o.name, settings=o.constants)) for n, o in layouts.items()]
        fill = tensors[self.target].layout.fill
        entries = replace(coordinate_list(len(doubt.target.subscripts)), fill=fill)
        use = lang.LayoutUse(entries.name, settings=entries.constants, fill=fill)
        declared.append(lang.TensorDecl(self.target, use, assembled=True))
        statement = replace(statement, value=rewrite(self._of_before, statement.value))
        subscripts = enumerate(statement.target.subscripts)
        self.extents = {s.name: k for k, s in subscripts if isinstance(s, Var) and s.name not in parameters}
        parsed = lang.Kernel("computed", tuple(declared), parameters, (statement,))
        self.kernel = MAKER().kept_kernel(parsed, {**layouts, self.target: entries})
        extents_of_target = enumerate(self.kernel.program.tensor(self.target).extents)
        self.extents |= {name: k for k, name in extents_of_target if name.startswith(f"{self.target}.")}

    def _of_before(self, node: Any) -> Any:
        """What is read of the target is what it holds before the statement."""
        is_read = isinstance(node, lang.Access) and node.tensor == self.target
        return replace(node, tensor=self.before) if is_read else None

    def first_lost(self, tensors: Mapping[str, Tensor], sizes: Mapping[str, int]) -> list[int] | None:
        """The first coordinate that is computed and that the target does not store."""
        target = tensors[self.target]
        operands = {n: tensors[stored_places] for n, stored_places in self.names.items()} | {
            n: sizes[n] for n in self.parameters
        }
        extents = {i: sizes[e] for i, e in self.asked.items()}
        extents |= {i: target.shape[k] for i, k in self.extents.items()}
        result = self.kernel(**operands, sizes=extents)
        computed, stored_places = (np.stack(t.to_coo().coords, axis=1).astype(np.int64) for t in (result, target))
        stored = set(map(tuple, stored_places.tolist())) if prod(target.shape) >= 2**63 else None
        if stored is not None:
            lost = [c for c in map(tuple, computed.tolist()) if c not in stored]
            return list(min(lost)) if lost else None
        numbers, known = (np.ravel_multi_index(tuple(c.T), target.shape) for c in (computed, stored_places))
        lost_ones = numbers[~np.isin(numbers, known)]
        return [int(c) for c in np.unravel_index(lost_ones.min(), target.shape)] if lost_ones.size else None


def _is_everywhere(factor: lang.Access, layout: Layout, plain: set[str]) -> bool:
    """Whether a factor stores something at every coordinate of the target."""
    return holds_all(layout) and all(isinstance(s, Var) and s.name in plain for s in factor.subscripts)


def _thin(layout: Layout) -> Layout:
    """A layout with the same pattern, 0 where nothing is stored; it takes no memory where every coordinate is."""
    return everywhere(layout.rank) if holds_all(layout) else refilled(layout, 0)


def _everywhere(shape: Sequence[int]) -> Tensor:
    layout = everywhere(len(shape))
    return Tensor(layout, dict(zip(layout.parameters, shape, strict=True)), {"one": np.ones(1, np.int8)})


def _ones(tensor: Tensor) -> Tensor:
    form, layout = form_of(tensor.layout), _thin(tensor.layout)
    arrays = {n: tensor.arrays[n] for n in form.indexes}
    arrays |= {n: np.ones(tensor.arrays[n].shape, np.int8) for n in form.values}
    return Tensor(layout, tensor.sizes, arrays)


def _no_place(doubt: PatternObligation, first: Sequence[int], tensors: Mapping[str, Tensor]) -> DataError:
    target = doubt.target
    what = show_value(lang.product_of(doubt.factors)) if doubt.factors else "a number"
    if doubt.statement is not None:
        what = show_value(doubt.statement.value)
    name, layout = target.tensor, tensors[target.tensor].layout.name
    hint = f"write `within {name}` after the statement, or `tensor {name} : {layout} shares ...` with an operand"
    return DataError(
        f"expected `{name}` to store all that is computed, but it stores nothing at [{', '.join(map(str, first))}]",
        None,
        (
            f"where {what} may not be 0: pass `{name}` with a pattern that contains it",
            f"to compute only what `{name}` stores, {hint}",
        ),
    )
