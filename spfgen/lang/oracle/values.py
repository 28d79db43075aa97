"""Values, all points of a statement at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from spfgen.facts.formula import And, Compare, Exists, Expr, Forall, Formula, Not, Or, conjuncts, variables
from spfgen.lang import nodes as n
from spfgen.lang.ops import ufunc
from spfgen.lang.oracle.functions import UNLIKE_ITS_IDENTITY, call, identity_of, is_fill, plain, reduced_type
from spfgen.lang.oracle.ranges import IndexRanges
from spfgen.lang.oracle.tree import indices_in_order, used_in
from spfgen.lang.signs import PLACES

Array = npt.NDArray[Any]
QUOTIENTS = ("divide", "floor_divide", "remainder", "fmod")
ANNIHILATED: dict[str, tuple[int, ...]] = {"multiply": (0, 1), **dict.fromkeys(QUOTIENTS, (0,))}
"""The arguments whose 0, where it is not stored, is the result."""
DECIDED: dict[str, dict[int, Any]] = {
    **{op: dict.fromkeys(places, 0) for op, places in ANNIHILATED.items()},
    "logical_and": {0: 0, 1: 0},
    "bitwise_and": {0: 0, 1: 0},
    "logical_or": {0: 1, 1: 1},
    "gcd": {0: 1, 1: 1},
}
"""The arguments that, with this value, are the result, whatever the other one is."""


@dataclass(frozen=True)
class Frame:
    """The points at which a value is computed: a table of `shape`, with the value of each index at each point.
    Where it is `strict`, values as subscripts may lie outside. Where it is `whole`, a term that is read outside makes a
    whole sum so; where it is `reduced`, the point lies within a reduction, and such a term is left out. Points that
    `mask` leaves out do not count. Where it is `exact`, what is not stored is a number as any other.
    """

    shape: tuple[int, ...] = ()
    indices: Mapping[str, Array] = field(default_factory=dict)
    strict: bool = False
    whole: bool = False
    reduced: bool = False
    mask: Any = True
    exact: bool = False

    def extended(self, ranges: Sequence[tuple[str, int, int]]) -> Frame:
        """With an axis for each further index, of (name, low, high)."""
        more = len(ranges)
        grids = {name: array.reshape((*array.shape, *(1,) * more)) for name, array in self.indices.items()}
        for place, (name, low, high) in enumerate(ranges):
            axes = [1] * (len(self.shape) + more)
            axes[len(self.shape) + place] = max(high - low, 0)
            grids[name] = np.arange(low, max(high, low), dtype=np.int64).reshape(axes)
        mask = np.asarray(self.mask)
        mask = mask.reshape((*mask.shape, *(1,) * more)) if mask.ndim else mask
        shape = (*self.shape, *(max(high - low, 0) for _, low, high in ranges))
        return Frame(shape, grids, self.strict, self.whole, self.reduced, mask)

    def with_indices(self, more: Mapping[str, Array]) -> Frame:
        return replace(self, indices={**self.indices, **more})


@dataclass(frozen=True)
class Evaluated:
    """A value at the points of a frame (an array of as many axes, some of length 1, or a literal), where it has one,
    and where it is made of fills alone."""

    value: Any
    inside: Any = True
    absent: Any = None
    """None: nothing is read at all."""


class Evaluator(IndexRanges):
    """What values are at the points of a frame."""

    def is_stored(self, name: str) -> Any:
        if name in self.stored:
            return self.stored[name]
        array = self.tensors[name]
        if name not in self.fills:
            return np.ones(array.shape, bool)
        return np.asarray(~is_fill(array, self.fills[name]))

    def summed(
        self, value: Any, frame: Frame, scalars: Any, op: str, function: Any, where: Formula | None
    ) -> Evaluated:
        """The value with the indices that the frame does not have reduced over."""
        if op in ("=", "+=", "subtract"):
            terms = self.terms(value, frame)
            result = self.over_free(terms[0], frame, scalars, "add", None, where)
            for term in terms[1:]:
                match term:
                    case n.Apply("negative", (n.Constant() as number,), function=None):  # no unsigned number is -1
                        sign, term = "subtract", number
                    case _:
                        sign = "add"
                other = self.over_free(term, frame, scalars, "add", None, where)
                result = self.combined(sign, None, (result, other), frame)
            return result
        return self.over_free(value, frame, scalars, op, function, where)

    def free(self, value: Any, frame: Frame) -> list[str]:
        known = {*frame.indices, *self.sizes}
        used = used_in(value) - known
        return [i for i in indices_in_order(value) if i in used]

    def over_free(
        self, term: Any, frame: Frame, scalars: Any, op: str, function: Any, where: Formula | None
    ) -> Evaluated:
        indices = self.free(term, frame)
        if not indices:
            return self.value(term, frame, scalars)
        parts = [] if where is None else [p for p in conjuncts(where) if variables(p) & set(indices)]
        condition = And(tuple(parts)) if parts else None
        return self.reduce(n.Reduce(op, tuple(indices), term, condition, function=function), frame, scalars)

    def terms(self, value: Any, frame: Frame) -> list[Any]:
        """The additive terms, as far as they differ in the indices that they are summed over."""
        if not self.free(value, frame):
            return [value]
        match value:
            case n.Apply("add", (left, right), function=None):
                return [*self.terms(left, frame), *self.terms(right, frame)]
            case n.Apply("subtract", (left, right), function=None):
                return [*self.terms(left, frame), *(n.Apply("negative", (t,)) for t in self.terms(right, frame))]
            case n.Apply("negative", (inner,), function=None):
                return [n.Apply("negative", (t,)) for t in self.terms(inner, frame)]
            case n.Apply("multiply", (left, right), function=None):
                lefts, rights = self.terms(left, frame), self.terms(right, frame)
                terms = [n.Apply("multiply", (a, b)) for a in lefts for b in rights]
                return terms if self.differ(terms, frame) else [value]
            case n.Apply("divide", (left, right), function=None):
                terms = [n.Apply("divide", (t, right)) for t in self.terms(left, frame)]
                return terms if self.differ(terms, frame) else [value]
        return [value]

    def differ(self, terms: Sequence[Any], frame: Frame) -> bool:
        return len({frozenset(self.free(t, frame)) for t in terms}) > 1

    def value(self, value: Any, frame: Frame, scalars: Mapping[str, Any]) -> Evaluated:
        match value:
            case n.Constant(number):
                return Evaluated(number)
            case n.Local(name):
                return Evaluated(scalars[name], absent=self.absent_lets.get(name, False))
            case n.Index(expr):
                return Evaluated(self.grid(self.expr(expr, frame.indices), frame), absent=False)
            case n.Access():
                return self.read(value, frame, scalars)
            case n.Apply("where" | "logical_and" | "logical_or" as op, (condition, *others), _, None):
                first = self.value(condition, frame, scalars)
                truth = np.asarray(first.value).astype(bool)
                counts = {"where": (truth, ~truth), "logical_and": (truth,), "logical_or": (~truth,)}[op]
                inner = [replace(frame, mask=np.asarray(frame.mask) & here) for here in counts]
                operands = [self.value(a, f, scalars) for a, f in zip(others, inner, strict=True)]
                if op != "where":  # what does not count has a value wherever it is
                    operands = [
                        replace(f, inside=np.asarray(f.inside) | ~h) for f, h in zip(operands, counts, strict=True)
                    ]
                return self.combined(op, None, [first, *operands], frame)
            case n.Apply(op, arguments, _, function):
                return self.combined(op, function, [self.value(a, frame, scalars) for a in arguments], frame)
            case n.Reduce():
                return self.reduce(value, frame, scalars)
            case n.Coalesce(arguments):
                caught = replace(frame, strict=True, whole=True)
                operands = [self.value(a, caught, scalars) for a in arguments[:-1]]
                result = self.value(arguments[-1], replace(frame, strict=True), scalars)
                for one in reversed(operands):
                    result = Evaluated(
                        self.apply("where", None, (one.inside, one.value, result.value)),
                        np.asarray(one.inside) | np.asarray(result.inside),
                        either(one.inside, one.absent, result.absent),
                    )
                return result
            case n.Collapse(inner, old, new):
                quotient = frame.indices[new]
                places = {}
                for name in reversed(old):
                    extent = self.extents[name]
                    places[name] = quotient % extent if name != old[0] else quotient
                    quotient = quotient // extent if extent else quotient
                return self.value(inner, frame.with_indices(places), scalars)
            case n.Split(inner, old, new):
                place: Any = 0
                for name in new:
                    place = place * self.extents[name] + frame.indices[name]
                return self.value(inner, frame.with_indices({old: self.grid(place, frame)}), scalars)
            case n.Slice(inner, old, new, start, _, step):
                place = self.expr(start, frame.indices) + step * frame.indices[new]
                return self.value(inner, frame.with_indices({old: self.grid(place, frame)}), scalars)
            case n.Concat(values, old, new):
                return self.concatenated(values, old, frame.indices[new], frame, scalars)
        raise ValueError(f"expected a value, not {type(value).__name__}")

    def grid(self, array: Any, frame: Frame) -> Array:
        """An array with an axis for each of the frame's."""
        values = np.asarray(array)
        return values.reshape((1,) * (len(frame.shape) - values.ndim) + values.shape)

    def concatenated(
        self, values: Sequence[Any], old: Sequence[str], place: Array, frame: Frame, scalars: Any
    ) -> Evaluated:
        result: Evaluated | None = None
        start = 0
        for part, name in zip(values, old, strict=True):
            end = start + self.extents[name]
            here = (place >= start) & (place < end)
            one = self.value(part, frame.with_indices({name: place - start}), scalars)
            inside = here & np.asarray(one.inside)
            if result is None:
                result = Evaluated(one.value, inside, one.absent)
            else:
                result = Evaluated(
                    self.apply("where", None, (here, one.value, result.value)),
                    inside | np.asarray(result.inside),
                    either(here, one.absent, result.absent),
                )
            start = end
        assert result is not None
        return result

    def places(self, access: n.Access, shape: Sequence[int], frame: Frame, scalars: Any) -> tuple[list[Array], Any]:
        """The place in each dimension at each point, and where all of them lie within."""
        inside: Any = np.asarray(True)
        gathered: list[tuple[Array, int]] = []
        places: list[Array] = []
        for subscript, extent in zip(access.subscripts, shape, strict=True):
            match subscript:
                case n.Range(index, step=step):
                    first = self.slice_of(subscript, extent)
                    place = self.grid(first.start + step * frame.indices[index], frame)
                case Expr():
                    place = self.grid(self.expr(subscript, frame.indices), frame)
                case _:
                    subscript_values = self.value(subscript, frame, scalars)
                    place = self.grid(subscript_values.value, frame)
                    if place.dtype.kind not in "iub":
                        raise ValueError(f"expected integers as subscripts of {access.tensor}")
                    place = place.astype(np.int64)
                    inside = inside & np.asarray(subscript_values.inside)
                    gathered.append((place, extent))
                    places.append(place)
                    continue
            inside = inside & (place >= 0) & (place < extent)
            places.append(place)
        for place, extent in gathered:
            within = (place >= 0) & (place < extent)
            if not frame.strict and not np.all(within | ~np.asarray(inside & frame.mask)):
                raise ValueError(f"expected subscripts of {access.tensor} within its extent {extent}")
            inside = inside & within
        return places, inside

    def read(self, access: n.Access, frame: Frame, scalars: Any) -> Evaluated:
        array = self.tensors[access.tensor]
        fill = self.fills.get(access.tensor, 0)
        places, inside = self.places(access, array.shape, frame, scalars)
        if not places:
            absent = ~self.is_stored(access.tensor) if access.tensor in self.fills else np.asarray(False)
            return Evaluated(self.grid(array, frame), True, self.grid(absent, frame))
        if 0 in array.shape:
            shape = np.broadcast_shapes(*(p.shape for p in places))
            return Evaluated(np.full(shape, fill, array.dtype), np.zeros(shape, bool), np.ones(shape, bool))
        at = tuple(np.clip(p, 0, e - 1) for p, e in zip(places, array.shape, strict=True))
        here = np.asarray(True)  # where the places lie within, whether they are read outside themselves or not
        for place, extent in zip(places, array.shape, strict=True):
            here = here & (place >= 0) & (place < extent)
        absent = ~here
        if access.tensor in self.fills:
            absent = absent | ~self.is_stored(access.tensor)[at]
        return Evaluated(np.where(here, array[at], np.asarray(fill, array.dtype)), inside, absent)

    def combined(self, op: str, function: Any, arguments: Sequence[Evaluated], frame: Frame) -> Evaluated:
        """A function of values."""
        values = [a.value for a in arguments]
        insides = [np.asarray(a.inside) for a in arguments]
        known = [np.asarray(a.absent) for a in arguments if a.absent is not None]
        absent: Any = None
        if known:
            absent = known[0]
            for other in known[1:]:
                absent = absent & other
        inside = insides[0]
        if function is None and op in ("add", "subtract") and not frame.whole:
            zeros = [
                self.apply("where", None, (here, v, False)) if frame.reduced and not np.all(here) else v
                for v, here in zip(values, insides, strict=True)
            ]
            sums = self.apply(op, None, zeros)
            for place, one in enumerate(arguments):  # an infinity that is not stored stays one
                if not frame.exact and one.absent is not None and np.asarray(one.value).dtype.kind == "f":
                    endless = np.asarray(one.absent) & np.isinf(one.value)
                    if endless.any():
                        infinite = -np.asarray(one.value) if place and op == "subtract" else np.asarray(one.value)
                        fills = [np.asarray(a.absent) if a.absent is not None else False for a in arguments]
                        endless = endless & ~(fills[0] & fills[1])  # what fills give together is what numpy says
                        sums = np.where(endless, infinite.astype(np.asarray(sums).dtype), sums)
                        absent = endless | (False if absent is None else np.asarray(absent))
            return Evaluated(sums, insides[0] | insides[1], absent)
        if function is None and op == "where":
            chosen = np.asarray(values[0]).astype(bool)
            return Evaluated(
                self.apply(op, None, values),
                insides[0] & np.where(chosen, insides[1], insides[2]),
                either(chosen, arguments[1].absent, arguments[2].absent),
            )
        for other in insides[1:]:
            inside = inside & other
        result = self.apply(op, function, values)
        if function is None and op in DECIDED and not frame.exact:
            for place, number in DECIDED[op].items():
                one = arguments[place]
                if one.absent is None:
                    continue
                zero = np.asarray(one.absent) & (np.asarray(one.value) == number)
                if op == "multiply":  # what fills give together is what numpy says
                    zero = zero & ~np.asarray(absent)
                if zero.any():
                    result = np.where(zero, np.full((), number, np.asarray(result).dtype), result)
                    absent = np.asarray(absent) | zero
        return Evaluated(result, inside, absent)

    def apply(self, op: str, function: n.Function | None, values: Sequence[Any]) -> Any:
        return call(op, function, values)

    def reduce(self, node: n.Reduce, frame: Frame, scalars: Any) -> Evaluated:
        more = [(i, *self.range_of(i)) for i in node.indices]
        whole = node.op != "add" or node.function is not None
        inner = replace(frame.extended(more), strict=False, whole=whole, reduced=True)
        if node.where is not None:
            inner = replace(inner, mask=inner.mask & self.formula(node.where, inner.indices))
        terms = self.value(node.value, inner, scalars)
        mask = np.asarray(terms.inside)
        if node.where is not None:
            mask = mask & self.formula(node.where, inner.indices)
        mask = np.broadcast_to(mask, inner.shape)
        value = np.broadcast_to(np.asarray(terms.value), inner.shape)
        rows = (*frame.shape, math.prod(inner.shape[len(frame.shape) :]))  # an extent may be 0: -1 would be any number
        flat, flat_mask = value.reshape(rows), mask.reshape(rows)
        if node.op in PLACES:
            low = more[0][1]
            best, has = places_of_best(flat, flat_mask, ufunc(PLACES[node.op]))
            return Evaluated(best + low, has, False)
        if node.op in ("add", "multiply") and node.function is None and flat.dtype.kind in "biu":
            flat = flat.astype(np.uint64 if flat.dtype.kind == "u" else np.int64)
        return Evaluated(self.folded(node.op, node.function, flat, flat_mask), True, False)

    def folded(self, op: str, function: Any, values: Array, mask: Array) -> Array:
        """The values along the last axis combined, one after another, as numpy's `ufunc.reduce` does it: it begins with
        numpy's identity of the function, or else with the first value. Over nothing the result is the identity, 0 where
        there is none."""
        neutral = identity_of(op, function, values.dtype)
        if function is None and neutral is not None and op not in UNLIKE_ITS_IDENTITY:
            ufunc = getattr(np, op)
            kind = np.asarray(call(op, None, (values.ravel()[:1], values.ravel()[:1]))).dtype
            if kind == values.dtype or kind == np.bool_:
                filled = np.where(mask, values, neutral).astype(values.dtype)
                return np.asarray(ufunc.reduce(filled, axis=-1, initial=kind.type(neutral)))
        first = None if function is not None else getattr(np, op).identity
        kind = reduced_type(op, function, values.dtype)
        result = np.full(values.shape[:-1], 0 if first is None else first).astype(kind)
        has = np.full(values.shape[:-1], first is not None)
        some = np.zeros(values.shape[:-1], bool)
        for place in range(values.shape[-1]):
            one, here = values[..., place].astype(kind), mask[..., place]
            combined = np.asarray(call(op, function, (result, one))).astype(kind)
            result = np.where(here, np.where(has, combined, one), result)
            has, some = has | here, some | here
        return np.where(some, result, np.asarray(0 if neutral is None else neutral).astype(kind))

    # --- conditions and fills ------------------------------------------------------------------------------

    def formula(self, rule: Formula, indices: Mapping[str, Any]) -> Any:
        match rule:
            case Compare(op, left, right):
                a, b = self.expr(left, indices), self.expr(right, indices)
                name = {"=": "equal", "==": "equal", "!=": "not_equal", "<": "less", "<=": "less_equal",
                        ">": "greater", ">=": "greater_equal"}[op]  # fmt: skip
                return getattr(np, name)(a, b)
            case And(parts):
                result: Any = np.asarray(True)
                for part in parts:
                    result = result & self.formula(part, indices)
                return result
            case Or(parts):
                result = np.asarray(False)
                for part in parts:
                    result = result | self.formula(part, indices)
                return result
            case Not(part):
                return ~np.asarray(self.formula(part, indices))
            case Forall() | Exists():
                raise ValueError("expected a condition without quantifiers")
        raise ValueError(f"expected a condition, not {rule!r}")

    def fill_of(self, value: Any, frame: Frame, scalars: Mapping[str, Any] | None = None) -> Any:
        """The value of an expression on the fills, 0 where these and constants do not say it."""
        fill = self.on_fills(value, frame, scalars)
        return 0 if fill is None else fill

    def on_fills(self, value: Any, frame: Frame, scalars: Mapping[str, Any] | None = None) -> Any:
        """What constants and fills alone, and `scalars` if they are known, say that a value is where nothing is stored;
        None where they do not."""

        def of(one: Any) -> Any:
            return self.on_fills(one, frame, scalars)

        match value:
            case n.Constant(number):
                return number
            case n.Local(name) if scalars is not None:
                return scalars.get(name)
            case n.Local(name):
                return of(self.lets[name]) if name in self.lets else None
            case n.Access(tensor):
                return self.tensors[tensor].dtype.type(self.fills[tensor]) if tensor in self.fills else None
            case n.Apply("where", (condition, *choices), function=None):
                truth = of(condition)
                return self.common([of(c) for c in choices]) if truth is None else of(choices[0 if truth else 1])
            case n.Apply(op, arguments, _, function):
                argument_fills = [of(a) for a in arguments]
                deciding = DECIDED.get(op, {}) if function is None else {}
                if all(f is not None for f in argument_fills) and (op not in QUOTIENTS or frame.exact):
                    return plain(self.apply(op, function, argument_fills))
                for place, number in deciding.items() if not (frame.exact and op in ANNIHILATED) else ():
                    if argument_fills[place] is not None and number == argument_fills[place]:
                        return number
                return (
                    None if any(f is None for f in argument_fills) else plain(self.apply(op, function, argument_fills))
                )
            case n.Reduce(op, _, inner, _, _, function):
                one = of(inner)
                if one is None or op in PLACES:
                    return None
                kind = np.asarray(one).dtype
                start = identity_of(op, function, kind)
                same = start is not None and np.array_equal(np.asarray(start).astype(kind), one, equal_nan=True)
                return one if same else None
            case n.Coalesce(arguments):
                return of(arguments[0])
            case n.Collapse(inner) | n.Split(inner) | n.Slice(inner):
                return of(inner)
            case n.Concat(values):
                return self.common([of(v) for v in values])
        return None

    def common(self, numbers: Sequence[Any]) -> Any:
        """The number that all of these are."""
        same = all(f is not None and np.array_equal(f, numbers[0], equal_nan=True) for f in numbers)
        return numbers[0] if same else None


def either(chosen: Any, first: Any, second: Any) -> Any:
    """Where a choice is made of fills alone."""
    if first is None and second is None:
        return None
    a, b = (np.asarray(False if one is None else one) for one in (first, second))
    return np.where(np.asarray(chosen), a, b)


def places_of_best(values: Array, mask: Array, is_better: Callable[[Array, Array], Array]) -> tuple[Array, Array]:
    """The place of the best value along the last axis, nan before all, and where there is one."""
    best = np.zeros(values.shape[:-1], np.int64)
    has = np.zeros(values.shape[:-1], bool)
    best_value = values[..., 0] if values.shape[-1] else np.zeros(values.shape[:-1], values.dtype)
    for place in range(values.shape[-1]):
        one, here = values[..., place], mask[..., place]
        better = is_better(one, best_value)
        if values.dtype.kind in "fc":
            better = (better | np.isnan(one)) & ~np.isnan(best_value)
        better = here & (~has | better)
        best, best_value, has = np.where(better, place, best), np.where(better, one, best_value), has | here
    return best, has
