"""The elements of index arrays that no entry determines: ways to fill them, of which pack_orders.py takes one with
which the declared facts hold.

    mark      a value that the relation leaves out, else the low end of the range;
    unused    values that no other place has;
    fact      what a declared fact gives or allows at most or at least: the end of an empty interval is its begin;
    before    as the place before that an entry has; `behind`: as the next one;
    rising    the most (of least values: the least) of all places before; `falling`: of all behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from spfgen.facts.formula import (
    Call,
    Compare,
    Expr,
    Forall,
    Formula,
    Var,
    calls,
    conjuncts,
    opened,
    show,
    substitute,
    variables,
)
from spfgen.layout.loops import split
from spfgen.layout.nodes import IndexArray, Layout
from spfgen.layout.pack_entries import PackingState
from spfgen.layout.pack_rules import PackPlan, Rank
from spfgen.layout.points import Array, affine_value, rows_of
from spfgen.sets.affine import Affine, NotAffine, affine, expression


@dataclass(frozen=True)
class Fill:
    """`value`: of a fact, in terms of `places`, the names of the places in the array."""

    kind: str
    value: Expr | None = None
    places: tuple[str, ...] = ()


MARK, UNUSED, RISING, FALLING = Fill("mark"), Fill("unused"), Fill("rising"), Fill("falling")


@lru_cache(maxsize=256)
def fills(layout: Layout, array: str, kind: str) -> tuple[Fill, ...]:
    """The ways to fill the array of a rank of that kind, the plain one first: without facts there is no other."""
    index = layout.index(array)
    if not any(p for a in layout.indexes for p in a.properties if array in _functions(p.formula)):
        return (MARK,)
    known = (UNUSED,) if kind in ("write", "given") else (RISING, FALLING)
    facts = [f.formula for f in (*index.properties, *(p for a in layout.indexes for p in a.properties), *index.ranges)]
    given = dict.fromkeys(Fill("fact", v, n) for f in facts for v, n in _given(f, array))
    return (MARK, *known[:1], *given, *known[1:], Fill("before"), Fill("behind"))


def fill_of(layout: Layout, plan: PackPlan, rank: Rank, number: int) -> Fill:
    """The way of that number for the array that a rank writes."""
    return fills(layout, plan.encoded.calls[rank.keys[0]].function, rank.kind)[number]


def _functions(formula: Formula | Expr) -> set[str]:
    return {c.function for c in calls(formula)}


functions_in = _functions
"""The arrays that a value or a fact speaks of."""


Table = dict[str, Call]


def _differences(formula: Formula) -> Iterator[tuple[set[str], Affine, Table]]:
    """(variables, value that is not below 0, calls by their names in it) for each comparison that a fact says of all
    its variables, or of those that are in order."""
    names, body = opened(formula)
    for part in (c for s in split(body)[1] for c in conjuncts(s)):
        if not isinstance(part, Compare) or part.op == "!=":
            continue
        table: Table = {}

        def name(call: Call, table: Table = table) -> str:
            table[show(call)] = call
            return show(call)

        try:
            value = affine(part.right, name) - affine(part.left, name)
        except NotAffine:
            continue
        value = value if part.op in ("<", "<=", "=") else value.scaled(-1)
        yield {*names}, value.plus(-(part.op in ("<", ">"))), table
        if part.op == "=":
            yield {*names}, value.scaled(-1), table


def comparisons_of(formula: Formula, certain: bool = False) -> Iterator[tuple[set[str], Affine, Table]]:
    """(variables, value that is not below 0, calls by their names in it) for each comparison that a fact says;
    `certain`: only of one that holds for all values of its variables."""
    yield from _differences(formula) if not certain or _is_certain(formula) else ()


def _is_certain(formula: Formula) -> bool:
    """Whether the fact holds for all values of its variables."""
    return not split(formula.body if isinstance(formula, Forall) else formula)[0]


def _text(value: Affine, table: Table) -> Expr:
    written: Expr = substitute(expression(value), table)
    return written


def _given(formula: Formula, array: str) -> Iterator[tuple[Expr, tuple[str, ...]]]:
    """(value, names of the places) for each comparison of one element of the array with what else is known there."""
    for names, value, table in _differences(formula) if _is_certain(formula) else ():
        mine = [n for n, c in table.items() if c.function == array]
        if len(mine) != 1 or abs(value.coefficient(mine[0])) != 1:
            continue
        written = _text(value.without(mine[0]).scaled(-value.coefficient(mine[0])), table)
        arguments = table[mine[0]].arguments
        places = tuple(a.name for a in arguments if isinstance(a, Var) and a.name in names)
        beside = variables(written) & names - {*places}
        if len({*places}) == len(arguments) and not beside and array not in _functions(written):
            yield written, places


@lru_cache(maxsize=256)
def _rooms(layout: Layout, array: str) -> tuple[tuple[Expr, str, bool], ...]:
    """(value, name of the place, whether for the last one, too) for each fact that says that from an element at a place
    to the next one, or to a size, it is as far as that value."""
    rooms: dict[tuple[Expr, str, bool], None] = {}
    for fact in (p.formula for a in layout.indexes for p in a.properties):
        for names, value, table in _differences(fact):
            mine = {n: value.coefficient(n) for n, c in table.items() if c.function == array}
            low = [n for n, c in mine.items() if c == -1]
            high = [n for n, c in mine.items() if c == 1] or [n for n in layout.sizes if value.coefficient(n) == 1][:1]
            if len(low) != 1 or len(high) != 1 or len(mine) > 2 or len(table[low[0]].arguments) != 1:
                continue
            (place,) = table[low[0]].arguments
            least = _text(value.without(low[0]).without(high[0]).scaled(-1), table)
            if isinstance(place, Var) and variables(least) & names <= {place.name} and array not in _functions(least):
                rooms[least, place.name, high[0] in layout.sizes] = None
    return tuple(rooms)


def rooms_of(layout: Layout, array: str) -> tuple[tuple[Expr, str, bool], ...]:
    """How far it is at least from an element to the next one: a value, the name of the place, and whether it holds for
    the last element, too."""
    return _rooms(layout, array)


def room_needs(layout: Layout, array: str) -> set[str]:
    """The arrays that say how far it is from one element of an array to the next."""
    return {f for value, _, _ in _rooms(layout, array) for f in _functions(value)}


def declared_room(state: PackingState, array: str, extents: tuple[int, ...]) -> Array:
    """How far the facts say that it is at least from each element to the next one, as far as they speak of what is
    known; int64 for each element."""
    room = np.zeros(prod(extents), dtype=np.int64)
    for value, place, last in _rooms(state.layout, array) if len(extents) == 1 else ():
        if _functions(value) <= set(state.arrays) and variables(value) <= {*state.sizes, place}:
            least, valid = rows_of(value, {**state.sizes, place: np.arange(len(room))}, state.arrays, len(room))
            room = np.maximum(room, np.where(valid & (last | (np.arange(len(room)) < len(room) - 1)), least, 0))
    return room


def declared_size(state: PackingState, size: str) -> int | None:
    """The least value of a size with which the ranges and facts hold that compare it with elements of one array."""
    layout, least = state.layout, -1
    for fact in layout.facts:
        for names, value, table in _differences(fact.formula) if _is_certain(fact.formula) else ():
            factor, others = value.coefficient(size), value.without(size)
            written = _text(others.scaled(-1), table)
            if factor < 1 or len(table) != 1 or not _functions(written) <= set(state.arrays):
                continue
            (call,) = table.values()
            at = {a.name: k for k, a in enumerate(call.arguments) if isinstance(a, Var) and a.name in names}
            if len(at) < len(names) or not variables(written) <= {*state.sizes, *at}:
                continue
            shape = state.arrays[call.function].shape
            every = [places.reshape(-1) for places in np.indices([shape[k] for k in at.values()])]
            count = every[0].size if at else 1
            known = {**state.sizes, **dict(zip(at, every, strict=True))}
            bounds, valid = rows_of(written, known, state.arrays, count)
            bounds = np.broadcast_to(np.asarray(bounds), (count,))[valid]
            least = max(least, -(-int(bounds.max()) // factor) if len(bounds) else 0)
    return least if least >= 0 else None


def declared_range(state: PackingState, index: IndexArray) -> tuple[int, int]:
    """The range of an array as numbers, both ends included, as far as it is made of sizes that are known."""
    low, high = 0, 2**62
    for fact in index.ranges:
        for names, value, table in _differences(fact.formula):
            for name, call in table.items():
                factor, others = value.coefficient(name), value.without(name)
                if call.function == index.name and not others.names() & names and others.names() <= set(state.sizes):
                    bound = int(affine_value(others, state.sizes))
                    low = max(low, -bound) if factor == 1 else low
                    high = min(high, bound) if factor == -1 else high
    return low, high


def complete(state: PackingState, limits: tuple[int, int], array: Array, written: Array, fill: Fill) -> None:
    """Fill the places that no entry has with values within the limits; `said` are the others."""
    low, high = limits
    if fill.kind in ("before", "behind"):
        _carry(array, written, fill.kind == "behind")
    if fill.kind == "unused":
        values = np.setdiff1d(np.arange(low, min(high + 1, low + array.size)), array[written])
        chosen = np.flatnonzero(~written)[: len(values)]
        array.reshape(-1)[chosen] = values[: len(chosen)]
    if fill.value is not None and _functions(fill.value) <= set(state.arrays):
        places = np.nonzero(~written)
        count = len(places[0])
        known = {**state.sizes, **dict(zip(fill.places, places, strict=True))}
        values, valid = rows_of(fill.value, known, state.arrays, count)
        values = np.clip(np.broadcast_to(np.asarray(values, dtype=np.int64), (count,)), low, max(low, high))
        array[places] = np.where(valid, values, array[places])


def _carry(array: Array, written: Array, behind: bool) -> None:
    """Along the last dimension."""
    if not array.size:
        return
    values, known = (array[..., ::-1], written[..., ::-1]) if behind else (array, written)
    numbers = np.broadcast_to(np.arange(array.shape[-1]), array.shape)
    last = np.maximum.accumulate(np.where(known, numbers, -1), axis=-1)
    carried = np.where(last < 0, values, np.take_along_axis(values, np.maximum(last, 0), axis=-1))
    array[...] = carried[..., ::-1] if behind else carried
