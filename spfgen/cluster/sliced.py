"""A tensor cut along one coordinate without copies of its values, where its relation says how.

Cut to low <= i < high the relation of csr is that of csr again: with `pi` counted from low, `pj` from rowptr(low), and
rowptr less that number. In general a shift goes through the relation: that of the coordinate to the position it equals,
or to the array it is read from, where that is sorted; from a dimension to the arrays that have it; from pointers to
what they point into. Where each comparison of the relation and of the declared properties has the same shift on both
sides, parts of the arrays satisfy all of them; where one has not (`j <= i` of a triangle), there is no such cut. No
layout is known by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from spfgen.errors import DataError
from spfgen.facts.formula import And, Call, Compare, Expr, Forall, Formula, Not, Or, Var, conjuncts, show
from spfgen.ir import walk
from spfgen.layout.nodes import IndexArray, Layout, ValueArray
from spfgen.run.tensor import Tensor
from spfgen.sets.affine import Affine, NotAffine, affine

NONE = ""
"""What is not shifted."""


@dataclass(frozen=True)
class SlicePlan:
    """`root` is the sorted array that the coordinate is read from, "" where it is a position. `pointers` are (array,
    size of what it points into), in the order in which their parts are found; `dims` have for each array and dimension
    the extent whose part it has and how many more places; `values` the extent from whose beginning its values count."""

    extent: str
    root: tuple[str, str]
    pointers: tuple[tuple[str, str, str], ...]
    dims: Mapping[str, tuple[tuple[str, int], ...]]
    values: Mapping[str, str]


class Cut:
    """Cuts one tensor along an axis. `cut_along` makes one."""

    def __init__(self, tensor: Tensor, plan: SlicePlan) -> None:
        self.tensor, self.plan = tensor, plan

    def part(self, low: int, high: int) -> Tensor:
        """What lies in [low, high): values are views, index arrays too, but for those that count from elsewhere."""
        plan, arrays = self.plan, self.tensor.arrays
        ranges = {plan.extent: (low, high)}
        array, size = plan.root
        if array:
            begin, end = np.searchsorted(arrays[array], [low, high], "left").tolist()
            ranges[size] = (begin, end)
        for pointer, extent, target in plan.pointers:
            begin, end = ranges[extent]
            ranges[target] = (int(arrays[pointer][begin]), int(arrays[pointer][end]))
        parts = {name: self._of(name, value, ranges) for name, value in arrays.items()}
        sizes = {n: ranges[n][1] - ranges[n][0] if n in ranges else v for n, v in self.tensor.sizes.items()}
        return Tensor(self.tensor.layout, sizes, parts)

    def _of(self, name: str, array: Any, ranges: Mapping[str, tuple[int, int]]) -> Any:
        places = tuple(
            slice(ranges[e][0], ranges[e][1] + more) if e else slice(None) for e, more in self.plan.dims[name]
        )
        part = np.ascontiguousarray(array[places])
        base = ranges[self.plan.values[name]][0] if self.plan.values.get(name) else 0
        return part - part.dtype.type(base) if base else part


def moved_along(tensor: Tensor, axis: int, low: int, high: int) -> Tensor | None:
    """The part of a tensor in [low, high) along an axis where that has all of its entries: coordinates are counted from
    elsewhere, all else is the same. None where entries lie outside, or the layout does not say it."""
    plan = _plan(tensor.layout, axis, is_moved=True)
    if plan is None:
        return None
    keys = tensor.arrays[plan.root[0]]
    if keys.size and not low <= keys.min() <= keys.max() < high:
        return None
    arrays = {**tensor.arrays, plan.root[0]: keys - keys.dtype.type(low)}
    return Tensor(tensor.layout, {**tensor.sizes, plan.extent: high - low}, arrays)


def moves(layout: Layout, axis: int) -> bool:
    """Whether all entries of a tensor can be moved along an axis."""
    return _plan(layout, axis, is_moved=True) is not None


class Seam:
    """Puts parts together of which a plan says how it would cut them. `joined_along` makes one."""

    def __init__(self, parts: Sequence[Tensor], plan: SlicePlan) -> None:
        self.parts, self.plan = parts, plan
        self.cut = {plan.extent, *(e for dimensions in plan.dims.values() for e, _ in dimensions if e)}

    def whole(self) -> Tensor | None:
        """The tensor; None where parts differ in what they share, or where together they break what is declared."""
        first = self.parts[0]
        sizes = {n: sum(p.sizes[n] for p in self.parts) if n in self.cut else v for n, v in first.sizes.items()}
        if any(p.sizes[n] != v for n, v in sizes.items() if n not in self.cut for p in self.parts):
            return None
        arrays: dict[str, Any] = {}
        for name in first.arrays:
            array = self._array(name)
            if array is None:
                return None
            arrays[name] = array
        tensor = Tensor(first.layout, sizes, arrays)
        try:
            return None if tensor.validate(threads=1) else tensor
        except DataError:
            return None

    def _array(self, name: str) -> Any:
        """Those of the parts one after another; what two of them share stands there once."""
        arrays = [p.arrays[name] for p in self.parts]
        dims = [(d, more) for d, (extent, more) in enumerate(self.plan.dims[name]) if extent]
        if not dims:
            return arrays[0] if all(np.array_equal(arrays[0], a) for a in arrays[1:]) else None
        (axis, more), several = dims[0], len(dims) > 1
        if several or more < 0 or len({a.dtype for a in arrays}) > 1:
            return None
        counted = self._counted(name, arrays)
        if counted is None:
            return None
        ends = pairwise(counted)
        if more and not all(np.array_equal(_last(a, more, axis), _first(b, more, axis)) for a, b in ends):
            return None
        return np.concatenate([counted[0], *(_after(a, more, axis) for a in counted[1:])], axis)

    def _counted(self, name: str, arrays: list[Any]) -> list[Any] | None:
        """The arrays of the parts, counted from where the first one begins; None where their type is too small."""
        extent = self.plan.values.get(name)
        if not extent:
            return arrays
        starts = [0, *accumulate(p.sizes[extent] for p in self.parts)]
        if starts[-1] > np.iinfo(arrays[0].dtype).max:
            return None
        return [a + a.dtype.type(s) if s else a for a, s in zip(arrays, starts, strict=False)]


def _first(array: Any, count: int, axis: int) -> Any:
    return array.take(range(count), axis)


def _last(array: Any, count: int, axis: int) -> Any:
    return array.take(range(array.shape[axis] - count, array.shape[axis]), axis)


def _after(array: Any, count: int, axis: int) -> Any:
    return array[(slice(None),) * axis + (slice(count, None),)]


def joined_along(parts: Sequence[Tensor], axis: int) -> Tensor | None:
    """The tensor that would be cut into these parts along an axis, by arrays that are put one after another; None where
    the layout does not say how, or parts do not fit."""
    layout = parts[0].layout
    plan = _plan(layout, axis) if all(p.layout == layout for p in parts) else None
    return None if plan is None else Seam(parts, plan).whole()


def cut_along(tensor: Tensor, axis: int) -> Cut | None:
    """How the tensor is cut along an axis; None where its layout, or its order, does not say it."""
    plan = _plan(tensor.layout, axis)
    if plan is None:
        return None
    if plan.root[0]:
        keys = tensor.arrays[plan.root[0]]
        if keys.ndim != 1 or bool((keys[1:] < keys[:-1]).any()):
            return None
    return Cut(tensor, plan)


class _No(Exception):
    """There is no such cut."""


@lru_cache(maxsize=1024)
def _plan(layout: Layout, axis: int, is_moved: bool = False) -> SlicePlan | None:
    if layout.value_transforms or not layout.rank:
        return None
    try:
        return _Shifts(layout, axis, is_moved).plan()
    except (_No, NotAffine):
        return None


class _Shifts:
    """Which shift each name of a layout has: the name of the extent from whose beginning it counts. With `is_moved` all
    entries stay, and only the array is counted from elsewhere that the coordinate is read from."""

    def __init__(self, layout: Layout, axis: int, is_moved: bool = False) -> None:
        self.layout, self.is_moved = layout, is_moved
        self.extent = layout.parameters[axis]
        self.arrays: dict[str, IndexArray] = {a.name: a for a in layout.indexes}
        self.of: dict[str, str] = dict.fromkeys((*layout.parameters, *layout.sizes), NONE)
        self.of |= {c: self.extent if k == axis else NONE for k, c in enumerate(layout.coordinates)}
        self.values: dict[str, str] = {}
        self.parts = {self.extent}
        self.pointers: list[tuple[str, str, str]] = []
        self.root = ("", "")

    def plan(self) -> SlicePlan:
        rules = list(conjuncts(self.layout.relation))
        if not all(isinstance(r, Compare) for r in rules):
            raise _No
        self._find_root(rules)
        self._find_pointers()
        for _ in self.layout.positions:
            for rule in rules:
                self._settle(rule)
        for rule in rules:
            self._check(rule)
        extents = {a.name: a.extents for a in self._all()}
        dims = {name: tuple(map(self._dim, e)) for name, e in extents.items()}
        for value in self.layout.values:
            for expr, (extent, _) in zip(value.position, dims[value.name], strict=True):
                if self._shift(expr) != ({extent: 1} if extent else {}):
                    raise _No
            for rule in conjuncts(value.when):
                self._check(rule)
        for array in self.layout.indexes:
            for declared in (*array.ranges, *array.properties):
                self._check_property(declared.formula)
        if self.is_moved != (not any(extent for d in dims.values() for extent, _ in d)) or self.is_moved > bool(
            self.root[0]
        ):
            raise _No
        return SlicePlan(self.extent, self.root, tuple(self.pointers), dims, dict(self.values))

    def _all(self) -> list[IndexArray | ValueArray]:
        return [*self.layout.indexes, *self.layout.values]

    def _find_root(self, rules: Sequence[Formula]) -> None:
        """Where the coordinate comes from: a position of its own extent, or an array over one."""
        positions = {n for n, s in self.of.items() if s == self.extent}
        for rule in rules:
            if not isinstance(rule, Compare) or rule.op != "=":
                continue
            for one, other in ((rule.left, rule.right), (rule.right, rule.left)):
                if not (isinstance(one, Var) and one.name in positions):
                    continue
                if isinstance(other, Call) and other.function in self.arrays:
                    size = self._dim(self.arrays[other.function].extents[0], every=True)
                    if len(other.arguments) != 1 or size[1] or size[0] not in self.layout.sizes:
                        raise _No
                    self.root = (other.function, size[0])
                    if not self.is_moved:
                        self.parts.add(size[0])
                    self.values[other.function] = self.extent

    def _find_pointers(self) -> None:
        """Arrays over what is cut, the last value of which is a size: they point into what has that size."""
        while True:
            pointers = [p for a in self.layout.indexes for p in self._pointer(a)]
            if not pointers:
                return
            for name, extent, target in pointers:
                self.pointers.append((name, extent, target))
                self.parts.add(target)
                self.values[name] = target

    def _pointer(self, array: IndexArray) -> Iterator[tuple[str, str, str]]:
        if array.name in self.values or len(array.extents) != 1 or self._dim(array.extents[0])[1] != 1:
            return
        extent = self._dim(array.extents[0])[0]
        for declared in array.properties:
            for rule in conjuncts(declared.formula):
                match rule:
                    case Compare("=", Call(name, (Var(last),)), Var(size)) if name == array.name and last == extent:
                        if size in self.layout.sizes and size not in self.parts:
                            yield name, extent, size

    def _dim(self, extent: Expr, every: bool = False) -> tuple[str, int]:
        """The extent that is cut of which a dimension has the part, and how many more places. Raises _No."""
        value = affine(extent, _no_call)
        cut = [str(n) for n in value.names() if every or n in self.parts]
        if not cut:
            return NONE, 0
        if len(value.terms) != 1 or value.terms[0] != (cut[0], 1):
            raise _No
        return cut[0], value.constant

    def _terms(self, expr: Expr) -> Iterator[tuple[str | None, int]]:
        """(shift, factor) of each part of an expression; None where the shift is not known yet. Raises _No."""
        calls: dict[str, Call] = {}

        def named(call: Call) -> str:
            calls[f"{show(call)}()"] = call
            return f"{show(call)}()"

        value: Affine = affine(expr, named)
        for atom, factor in value.terms:
            if not isinstance(atom, str):
                if any(self.of.get(n) != NONE for n in atom.numerator.names()):
                    raise _No
                continue
            if atom in calls:
                self._check_arguments(calls[atom])
                yield self.values.get(calls[atom].function, NONE), factor
            else:
                yield self.of.get(atom), factor

    def _check_arguments(self, call: Call) -> None:
        array = self.arrays.get(call.function)
        if array is None:
            raise _No
        for argument, extent in zip(call.arguments, array.extents, strict=True):
            cut_extent, _ = self._dim(extent)
            shifts = list(self._terms(argument))
            if len(shifts) == 1 and shifts[0] == (None, 1):  # it is an index of the array
                name = next(n for n in affine(argument, _no_call).names() if self.of.get(str(n)) is None)
                self.of[str(name)] = cut_extent
            elif self._shift(argument) != ({cut_extent: 1} if cut_extent else {}):
                raise _No

    def _shift(self, expr: Expr) -> dict[str, int]:
        """What is added to an expression when it is counted from the beginning of the part. Raises _No."""
        total: dict[str, int] = {}
        for shift, factor in self._terms(expr):
            if shift is None:
                raise _No
            if shift:
                total[shift] = total.get(shift, 0) + factor
        return {n: f for n, f in total.items() if f}

    def _settle(self, rule: Formula) -> None:
        """The shift of a position, where those of all else in a comparison are known."""
        assert isinstance(rule, Compare)
        unknown = sorted({n.name for n in walk(rule) if isinstance(n, Var) and n.name not in self.of})
        if len(unknown) != 1:
            return
        both = list(self._terms(rule.left)), list(self._terms(rule.right))
        if self.of.get(unknown[0]) is not None:
            return  # its array said it
        factors_of_unknown = [f for side in both for s, f in side if s is None]
        total: dict[str, int] = {}
        for side, sign in zip(both, (1, -1), strict=True):
            for shift, factor in side:
                if shift:
                    total[shift] = total.get(shift, 0) + sign * factor
        left = {n: f for n, f in total.items() if f}
        if rule.op != "=" and not left:
            return  # a bound by numbers alone does not say it
        if (
            len(factors_of_unknown) == 1
            and abs(factors_of_unknown[0]) == 1
            and len(left) <= 1
            and all(abs(f) == 1 for f in left.values())
        ):
            self.of[unknown[0]] = next(iter(left), NONE)

    def _check(self, rule: Formula) -> None:
        """A comparison has the same shift on both sides, or says that what is cut lies within its extent."""
        if not isinstance(rule, Compare):
            raise _No
        for node in (n for n in walk(rule) if isinstance(n, Var) and n.name not in self.of):
            self.of[node.name] = NONE
        left, right = self._shift(rule.left), self._shift(rule.right)
        if left != right and not (self._is_bound(rule.left, rule.right) or self._is_bound(rule.right, rule.left)):
            raise _No

    def _is_bound(self, one: Expr, other: Expr) -> bool:
        """0 <= q, or q < n, where n is the extent from whose beginning q counts."""
        shift = self._shift(one)
        if len(shift) != 1 or next(iter(shift.values())) != 1:
            return False
        value = affine(other, _no_call)
        of_extent = value.terms == ((next(iter(shift)), 1),) and isinstance(one, Var | Call)
        return not self._shift(other) and (of_extent or not value.terms) and value.constant == 0

    def _check_property(self, formula: Formula) -> None:
        """What is declared holds of the parts, too: that of variables of its own is found from where they stand."""
        match formula:
            case Forall(bound, body):
                for name in bound:
                    self.of.pop(name, None)
                for call in (n for n in walk(body) if isinstance(n, Call)):
                    list(self._terms(call))
                for rule in (n for n in walk(body) if isinstance(n, Compare)):
                    self._check(rule)
                for name in bound:
                    self.of.pop(name, None)
            case And(parts) | Or(parts):
                for part in parts:
                    self._check_property(part)
            case Not(part):
                self._check_property(part)
            case Compare("=", Call(name, (argument,)), _) if self.values.get(name) and any(
                p[0] == name for p in self.pointers
            ):
                if not self._is_end(formula, argument):
                    raise _No
            case _:
                self._check(formula)

    def _is_end(self, rule: Compare, argument: Expr) -> bool:
        """f(0) = 0 or f(n) = s: so it is of the part of a pointer, from which its first value is taken."""
        known = affine(argument, _no_call), affine(rule.right, _no_call)
        size = self.values[rule.left.function]  # type: ignore[attr-defined]
        pointing_extent = next(p[1] for p in self.pointers if p[2] == size)
        return known in ((Affine(()), Affine(())), (Affine(((pointing_extent, 1),)), Affine(((size, 1),))))


def _no_call(call: Call) -> str:
    raise _No


__all__ = ["Cut", "cut_along", "joined_along", "moved_along", "moves"]
