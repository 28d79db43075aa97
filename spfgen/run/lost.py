"""Whether a call would compute what has no place in its target (space/lost.py says of what that is in doubt).

Two sums of ones are compared: one over all points at which a part of the value may differ from 0, one over those that
the target stores besides. A kernel makes both, so they are right for every layout. Patterns that were looked at are
remembered as long as their arrays live and stay as they are.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from spfgen.errors import DataError
from spfgen.facts.formula import Compare, Expr, Formula, Var, conjunction, variables
from spfgen.ir import fresh
from spfgen.lang import nodes as lang
from spfgen.lang.show import show_value
from spfgen.layout.nodes import Layout, everywhere
from spfgen.run.form import form_of, remember
from spfgen.run.seen import fingerprint
from spfgen.run.tensor import Tensor
from spfgen.space.lost import holds_all
from spfgen.space.nodes import Doubt, Program

if TYPE_CHECKING:
    from spfgen.api import Kernel

ANY = "anywhere"


@dataclass
class Places:
    """What is known of the doubts of one kernel. `seen`: patterns that have a place for all that is computed."""

    program: Program
    seen: dict[tuple[Any, ...], tuple[Any, ...]] = field(default_factory=dict)
    counts: dict[Doubt, _Count] = field(default_factory=dict)

    def check(self, tensors: Mapping[str, Tensor], sizes: Mapping[str, int]) -> None:
        """Raises DataError where something that is computed has no place."""
        for doubt in self.program.doubts:
            if _is_same(doubt, tensors):
                continue
            key, marks = _mark(doubt, tensors, sizes)
            found = self.seen.get(key)
            if found is not None and found[0] == marks and all(r() is not None for r in found[1]):
                continue
            count = self.counts.setdefault(doubt, _Count(doubt, tuple(self.program.parameters)))
            first = count.first_lost(tensors, sizes)
            if first is not None:
                raise _no_place(doubt, first, tensors)
            remember(self.seen, key, (marks, tuple(weakref.ref(a) for a in _indexes(doubt, tensors))))


def _names(doubt: Doubt) -> list[str]:
    return list(dict.fromkeys(a.tensor for a in (doubt.target, *doubt.factors)))


def _indexes(doubt: Doubt, tensors: Mapping[str, Tensor]) -> list[Any]:
    """The index arrays of all tensors that take part."""
    return [tensors[n].arrays[a.name] for n in _names(doubt) for a in tensors[n].layout.indexes]


def _mark(doubt: Doubt, tensors: Mapping[str, Tensor], sizes: Mapping[str, int]) -> tuple[Any, Any]:
    """By what the patterns are known, and what shows that they have not changed."""
    own = [v for n in _names(doubt) for v in tensors[n].sizes.values()]
    indexes = _indexes(doubt, tensors)
    return (doubt, *own, *sorted(sizes.items()), *map(id, indexes)), tuple(map(fingerprint, indexes))


def _is_same(doubt: Doubt, tensors: Mapping[str, Tensor]) -> bool:
    """Whether a factor at the place of the target has the target's index arrays, or equal ones."""
    target = tensors[doubt.target.tensor]
    factors = [tensors[a.tensor] for a in doubt.factors if a.subscripts == doubt.target.subscripts]
    return any(
        t.layout == target.layout
        and t.sizes == target.sizes
        and all(_equal(t.arrays[a.name], target.arrays[a.name]) for a in target.layout.indexes)
        for t in factors
        if target.layout.indexes
    )


def _equal(one: Any, other: Any) -> bool:
    return one is other or bool(np.array_equal(one, other))


class _Count:
    """The kernel that counts the points of a doubt, made when it is first needed; `places` are where a point lies."""

    def __init__(self, doubt: Doubt, parameters: tuple[str, ...]) -> None:
        self.doubt = doubt
        self.parameters = parameters
        taken = {ANY, *parameters, *_names(doubt)}
        nodes: list[Expr | Formula] = [s for a in (doubt.target, *doubt.factors) for s in a.subscripts]
        taken |= {v for n in (*nodes, *([] if doubt.where is None else [doubt.where])) for v in variables(n)}
        self.all, self.kept = (fresh(n, taken) for n in ("all_points", "kept_points"))
        self.low, self.high = (
            [fresh(f"{n}_{k}", taken) for k in range(len(doubt.target.subscripts))] for n in ("from", "to")
        )
        self.whole: Kernel | None = None
        self.part: Kernel | None = None

    def first_lost(self, tensors: Mapping[str, Tensor], sizes: Mapping[str, int]) -> list[int] | None:
        """The first coordinate at which something is computed and the target stores nothing."""
        if self.whole is None:
            self.whole = self._kernel(tensors, False)
        operands = self._operands(tensors)
        known = {n: sizes[n] for n in self.parameters}
        if not self._lost(self.whole, {**operands, **known}):
            return None
        if self.part is None:
            self.part = self._kernel(tensors, True)
        shape = tensors[self.doubt.target.tensor].shape
        low, high = [0] * len(shape), list(shape)
        for k in range(len(shape)):
            while high[k] - low[k] > 1:
                middle = low[k] + (high[k] - low[k]) // 2
                limits = {**dict(zip(self.low, low, strict=True)), **dict(zip(self.high, high, strict=True))}
                found = self._lost(self.part, {**operands, **known, **limits, self.high[k]: middle})
                low[k], high[k] = (low[k], middle) if found else (middle, high[k])
        return low

    def _lost(self, kernel: Kernel, operands: Mapping[str, Any]) -> bool:
        ends = {self.all: np.zeros((), np.int64), self.kept: np.zeros((), np.int64)}
        kernel.bound({**operands, **ends}, None, None, "never")()
        return bool(ends[self.all] != ends[self.kept])

    def _kernel(self, tensors: Mapping[str, Tensor], within: bool) -> Kernel:
        from spfgen.api import Kernel

        target = self.doubt.target
        anywhere = lang.Access(ANY, target.subscripts)
        layouts: dict[str, Layout] = {ANY: everywhere(len(target.subscripts))}
        layouts |= {n: _thin(tensors[n].layout) for n in _names(self.doubt)}
        conditions: list[Formula] = [] if self.doubt.where is None else [self.doubt.where]
        if within:
            for subscript, low, high in zip(target.subscripts, self.low, self.high, strict=True):
                conditions += [Compare("<=", Var(low), subscript), Compare("<", subscript, Var(high))]
        where = conjunction(conditions) if conditions else None
        statements = tuple(
            lang.Statement(lang.Access(name, ()), "=", _product([place, *self.doubt.factors]), where)
            for name, place in ((self.all, anywhere), (self.kept, target))
        )
        declared = tuple(
            lang.TensorDecl(n, lang.LayoutUse(layout.name, settings=layout.constants)) for n, layout in layouts.items()
        )
        limits = (*self.low, *self.high) if within else ()
        parsed = lang.Kernel("count", declared, (*self.parameters, *limits), statements)
        return Kernel(parsed, layouts, validate="never", kept=True)

    def _operands(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The patterns with ones as values; what stores all coordinates has one value for them."""
        target = tensors[self.doubt.target.tensor]
        found = {ANY: _everywhere(target.shape)}
        for name in _names(self.doubt):
            tensor = tensors[name]
            found[name] = _ones(tensor) if _thin(tensor.layout) is tensor.layout else _everywhere(tensor.shape)
        return found


def _thin(layout: Layout) -> Layout:
    """A layout with the same pattern that takes no memory, where every coordinate is stored."""
    return everywhere(layout.rank) if holds_all(layout) else layout


def _everywhere(shape: Sequence[int]) -> Tensor:
    layout = everywhere(len(shape))
    return Tensor(layout, dict(zip(layout.parameters, shape, strict=True)), {"one": np.ones(1, np.int8)})


def _ones(tensor: Tensor) -> Tensor:
    form = form_of(tensor.layout)
    arrays = {n: tensor.arrays[n] for n in form.indexes}
    arrays |= {n: np.ones(tensor.arrays[n].shape, np.int8) for n in form.values}
    return Tensor(tensor.layout, tensor.sizes, arrays)


def _product(factors: Sequence[lang.Access]) -> lang.Value:
    value: lang.Value = factors[0]
    for factor in factors[1:]:
        value = lang.Binary("*", value, factor)
    return value


def _no_place(doubt: Doubt, first: Sequence[int], tensors: Mapping[str, Tensor]) -> DataError:
    target = doubt.target
    what = show_value(_product(doubt.factors)) if doubt.factors else "a number"
    name, layout = target.tensor, tensors[target.tensor].layout.name
    hint = f"write `within {name}` behind the statement, or `tensor {name} : {layout} shares ...` with an operand"
    return DataError(
        f"expected `{name}` to store all that is computed, but it stores nothing at [{', '.join(map(str, first))}]",
        None,
        (
            f"where {what} may not be 0: give `{name}` a pattern that has it",
            f"to compute only what `{name}` stores, {hint}",
        ),
    )
