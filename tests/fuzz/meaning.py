"""What a tensor means, by trying every position: plain loops over the formula of its layout, nothing shared with
spfgen but the formula itself.

A point is a value of every position and coordinate within the shape for which the relation holds; a comparison with
a call outside its array does not hold, nor does its negation. Each value array whose `when` holds there has a value
for the point, unless its place lies outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from spfgen.facts.formula import And, Bin, Call, Compare, Exists, Expr, Forall, Formula, Not, Num, Or, Var
from spfgen.ir import walk
from spfgen.layout.nodes import Layout
from tests.oracle import Stored

Array = np.ndarray[Any, Any]
Names = dict[str, int]
OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": min,
    "max": max,
}
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


class Undefined(Exception):
    """A call outside its array."""


class Unknown(Exception):
    """A name without a value yet."""


@dataclass(frozen=True)
class Entry:
    """A stored value: which array holds it, where, for which coordinate, and numpy's names of what is done to it."""

    array: str
    place: tuple[int, ...]
    coordinate: tuple[int, ...]
    operators: tuple[str, ...] = ()

    def value(self, arrays: Mapping[str, Array]) -> Any:
        found = arrays[self.array][self.place]
        for name in self.operators:
            found = getattr(np, name)(found)
        return found


def number(expr: Expr, names: Names, arrays: Mapping[str, Array]) -> int:
    match expr:
        case Num(value):
            return value
        case Var(name):
            if name not in names:
                raise Unknown(name)
            return names[name]
        case Bin(op, left, right):
            return OPERATORS[op](number(left, names, arrays), number(right, names, arrays))
        case Call(function, arguments):
            at = tuple(number(a, names, arrays) for a in arguments)
            array = arrays[function]
            if any(not 0 <= k < n for k, n in zip(at, array.shape, strict=True)):
                raise Undefined
            return int(array[at])
    raise AssertionError(expr)


def holds(formula: Formula, names: Names, arrays: Mapping[str, Array], reach: int, wanted: bool = True) -> bool:
    """Whether the formula is `wanted`; what is undefined is neither."""
    match formula:
        case Compare(op, left, right):
            try:
                return COMPARE[op](number(left, names, arrays), number(right, names, arrays)) == wanted
            except Undefined:
                return False
        case Not(part):
            return holds(part, names, arrays, reach, not wanted)
        case And(parts) | Or(parts):
            every = isinstance(formula, And) == wanted
            return (all if every else any)(holds(p, names, arrays, reach, wanted) for p in parts)
        case Exists(bound, body) | Forall(bound, body):
            box = product(range(-reach, reach + 1), repeat=len(bound))
            inner = (holds(body, {**names, **dict(zip(bound, v, strict=True))}, arrays, reach, wanted) for v in box)
            return (any if isinstance(formula, Exists) == wanted else all)(inner)
    raise AssertionError(formula)


def _alternatives(formula: Formula) -> list[list[Formula]]:
    """The formula as lists of conditions, one list of which must hold."""
    match formula:
        case And(parts):
            return [[f for chosen in row for f in chosen] for row in product(*(_alternatives(p) for p in parts))]
        case Or(parts):
            return [row for p in parts for row in _alternatives(p)]
    return [[formula]]


def _solutions(
    conditions: list[Formula], unknown: list[str], names: Names, arrays: Mapping[str, Array], reach: int
) -> Iterator[Names]:
    """Every value of the unknown names: each condition is tested as soon as its names are known."""
    later: list[Formula] = []
    for condition in conditions:
        try:
            if not holds(condition, names, arrays, reach):
                return
        except Unknown:
            later.append(condition)
    if not unknown:
        assert not later
        yield names
        return
    for condition in later:  # an equation for a name alone gives its value at once
        if isinstance(condition, Compare) and condition.op == "=":
            for side, other in ((condition.left, condition.right), (condition.right, condition.left)):
                if isinstance(side, Var) and side.name in unknown:
                    try:
                        value = number(other, names, arrays)
                    except Unknown:
                        continue
                    except Undefined:
                        return
                    rest = [n for n in unknown if n != side.name]
                    yield from _solutions(later, rest, {**names, side.name: value}, arrays, reach)
                    return
    low, high = -reach, reach
    for condition in later:  # bounds of the next name narrow the box; the conditions are tested all the same
        low, high = _narrowed(condition, unknown[0], names, arrays, low, high)
    for value in range(low, high + 1):
        yield from _solutions(later, unknown[1:], {**names, unknown[0]: value}, arrays, reach)


def _narrowed(
    condition: Formula, name: str, names: Names, arrays: Mapping[str, Array], low: int, high: int
) -> tuple[int, int]:
    if not isinstance(condition, Compare) or condition.op not in ("<", "<="):
        return low, high
    step = condition.op == "<"
    try:
        if condition.left == Var(name):
            high = min(high, number(condition.right, names, arrays) - step)
        elif condition.right == Var(name):
            low = max(low, number(condition.left, names, arrays) + step)
    except (Unknown, Undefined):
        pass
    return low, high


def entries(layout: Layout, sizes: Mapping[str, int], arrays: Mapping[str, Array]) -> list[Entry]:
    """Every stored value of a tensor, in no particular order; `arrays` holds its index arrays."""
    own = {a.name: arrays[a.name] for a in layout.indexes}
    largest = max((int(np.abs(a).max()) for a in own.values() if a.size), default=0)
    counts = [n for a in own.values() for n in a.shape]
    numbers = [n.value for n in walk(layout.relation) if isinstance(n, Num)]
    reach = 1 + max([largest, *counts, *numbers, *sizes.values(), *(2 * n for n in sizes.values())], default=1)
    inside = [
        part
        for c, n in zip(layout.coordinates, layout.parameters, strict=True)
        for part in (Compare("<=", Num(0), Var(c)), Compare("<", Var(c), Var(n)))
    ]
    unknown = [*layout.positions, *layout.coordinates]
    points: dict[tuple[int, ...], tuple[str, ...]] = {}
    for alternative in layout.alternatives:
        for conditions in _alternatives(alternative.relation):
            for names in _solutions([*conditions, *inside], unknown, dict(sizes), own, reach):
                points[tuple(names[n] for n in unknown)] = alternative.operators
    result = []
    for point, operators in points.items():
        names = {**sizes, **dict(zip(unknown, point, strict=True))}
        for value in layout.values:
            try:
                place = tuple(number(p, names, own) for p in value.position)
                extents = [number(e, dict(sizes), own) for e in value.extents]
            except Undefined:
                continue
            if all(0 <= p < e for p, e in zip(place, extents, strict=True)) and holds(value.when, names, own, reach):
                result.append(Entry(value.name, place, point[len(layout.positions) :], operators))
    return result


def stored(layout: Layout, shape: tuple[int, ...], found: list[Entry], arrays: Mapping[str, Array]) -> Stored:
    """The entries as the reference wants them."""
    coords = tuple(np.array([e.coordinate[k] for e in found], np.int64) for k in range(layout.rank))
    kind = arrays[layout.values[0].name].dtype
    return Stored(shape, coords, np.array([e.value(arrays) for e in found], kind))
