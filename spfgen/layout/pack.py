"""From coordinates and values to the arrays of a layout.

The plan (pack_plan.py) is derived from the relation; the order of the keys is chosen by trying: the first one for
which the arrays of small samples satisfy all declared properties; assembly (pack_assembly.py) runs the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import permutations, product
from typing import Any

import numpy as np

from spfgen.errors import DataError, SpfgenError, Unsupported
from spfgen.facts.formula import Num
from spfgen.ir import walk
from spfgen.layout.duplicates import Duplicates, checked_duplicates, combined_values
from spfgen.layout.fill import differs_as_number, typed_fill
from spfgen.layout.nodes import Layout
from spfgen.layout.pack_assembly import assemble, check_shared
from spfgen.layout.pack_entries import Entries, Together
from spfgen.layout.pack_plan import chunk_plan, pack_plan
from spfgen.layout.pack_rules import KeyOrder, PackPlan, Rank
from spfgen.layout.points import (
    Array,
    TooLarge,
    inside,
    sorted_order,
    to_coordinates,
)
from spfgen.layout.refusals import NoPlace, with_remedy
from spfgen.layout.validate import violation

INDEX_TYPE = "int32"

ATTEMPTS = 4096
"""So many orders of the keys are tried."""


@dataclass(frozen=True)
class Packed:
    """`sizes`: all parameters and sizes; `arrays`: index and value arrays by name, C-contiguous."""

    sizes: dict[str, int]
    arrays: dict[str, Array]


def pack(
    layout: Layout,
    shape: tuple[int, ...],
    coords: tuple[Array, ...],
    values: Array,
    index_types: Mapping[str, str] | None = None,
    duplicates: Duplicates = "sum",
) -> Packed:
    """The arrays of a tensor: `coords` are int64[n], one for each coordinate, `values` is [n] of any number type.

    Entries with equal coordinates become one first, as `duplicates` says (see duplicates.py). Index arrays get the
    dtype that `index_types` says (int32 if nothing), value arrays that of `values`. Raises DataError for coordinates
    outside `shape`, entries that the layout cannot store, indices that do not fit their type, and arrays that do not
    fit in memory; Unsupported when the arrays cannot be derived.
    """
    if len(shape) != layout.rank:
        raise DataError(f"expected {layout.rank} extents for layout `{layout.name}`, but there are {len(shape)}")
    checked_duplicates(duplicates)
    key_orders(layout)
    values = np.asarray(values)
    check_fill(layout, values.dtype)
    columns, single = sorted_entries(layout, shape, coords, values, duplicates)
    state = Entries(layout, dict(zip(layout.parameters, map(int, shape), strict=True)), columns, single)
    try:
        state = assembled(state)
    except NoPlace as error:
        raise error.explained() from None
    except Unsupported as error:
        raise with_remedy(error, layout) from None
    except MemoryError:
        extents = " x ".join(map(str, shape))
        raise DataError(
            f"expected arrays that fit in memory, but layout `{layout.name}` has others for {extents}"
        ) from None
    for index in layout.indexes:
        wanted = np.dtype((index_types or {}).get(index.name, INDEX_TYPE))
        state.arrays[index.name] = typed_index(index.name, state.arrays[index.name], wanted)
    return Packed(state.sizes, state.arrays)


def assembled(state: Entries) -> Entries:
    """With the arrays of these entries; without fill values among them where the layout would store those twice or
    with others, and in chunks where the relation allows it and keys alone leave too little room."""
    layout = state.layout
    begin = replace(state, sizes=dict(state.sizes), columns=dict(state.columns), arrays={}, starts={})
    try:
        return _assembled(state, pack_plan(layout), key_orders(layout))
    except TooLarge:
        raise
    except DataError as error:
        told = differs_as_number(begin.values, layout.fill)
        if isinstance(error, Together) and begin.linked is None and not told.all():
            columns = {name: column[told] for name, column in begin.columns.items()}
            return assembled(replace(begin, columns=columns, values=begin.values[told]))
        found = chunked(layout)
        if found is not None:
            with suppress(DataError):
                return _assembled(begin, *found)
        raise


def _assembled(state: Entries, plan: PackPlan, orders: tuple[KeyOrder, ...]) -> Entries:
    assemble(state, plan, orders)
    check_shared(state, plan)
    return state


def check_fill(layout: Layout, dtype: np.dtype[Any]) -> None:
    """Raises DataError when the fill value is not a value of that type."""
    typed_fill(layout.fill, dtype)


def typed_index(name: str, array: Array, dtype: np.dtype[Any]) -> Array:
    """C-contiguous, in that type. Raises DataError when a value does not fit."""
    if array.size:
        low, high = int(array.min()), int(array.max())
        limits = np.iinfo(dtype)
        if low < limits.min or high > limits.max:
            raise DataError(
                f"expected indices of `{name}` that fit {dtype}, but {high if high > limits.max else low} does not",
                None,
                (f"use int64 for `{name}`",),
            )
    return np.ascontiguousarray(array, dtype=dtype)


# --- entries --------------------------------------------------------------------------------------------


def sorted_entries(
    layout: Layout,
    shape: tuple[int, ...],
    coords: tuple[Array, ...],
    values: Array,
    duplicates: Duplicates = "sum",
) -> tuple[dict[str, Array], Array]:
    """(coordinate columns, values) in lexicographic order, each coordinate once."""
    if len(coords) != layout.rank:
        raise DataError(f"expected {layout.rank} coordinate arrays, but there are {len(coords)}")
    if values.ndim != 1 or any(np.shape(c) != values.shape for c in coords):
        shapes = ", ".join(str(np.shape(c)) for c in coords)
        raise DataError(f"expected coordinates and values of one length, but they are {shapes} and {values.shape}")
    columns = [np.asarray(c).astype(np.int64) for c in coords]
    valid = inside(shape, columns, len(values))
    if not valid.all():
        row = int(np.argmin(valid))
        at = tuple(int(c[row]) for c in columns)
        raise DataError(f"expected coordinates within the shape {tuple(shape)}, but there is {at}")
    order = sorted_order(columns, len(values))
    if order is not None:
        columns, values = [c[order] for c in columns], values[order]
    new = np.zeros(len(values), dtype=bool)
    new[:1] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    if not new.all():
        first = np.flatnonzero(new)
        columns, values = [c[first] for c in columns], combined_values(columns, values, first, duplicates)
    return dict(zip(layout.coordinates, columns, strict=True)), values


# --- the order of keys ------------------------------------------------------------------------------------


def storable(layout: Layout, shape: tuple[int, ...], coords: tuple[Array, ...], values: Array) -> tuple[Any, Array]:
    """(coordinates, values) of the entries that the layout has places for, with what it stores along with them."""
    columns, summed = sorted_entries(layout, shape, coords, values)
    state = Entries(layout, dict(zip(layout.parameters, shape, strict=True)), columns, summed, lenient=True)
    assemble(state, pack_plan(layout), key_orders(layout))
    return to_coordinates(layout, state.sizes, state.arrays, {v.name: state.arrays[v.name] for v in layout.values})


@lru_cache(maxsize=256)
def key_orders(layout: Layout) -> tuple[KeyOrder, ...]:
    """An order for each rank of the plan, such that the arrays satisfy the declared properties.

    Raises Unsupported when no order does.
    """
    if layout.fill_text != "0":  # which is nothing to an order, but not all types have it
        return key_orders(replace(layout, fill=0))
    return _orders(layout, pack_plan(layout))


@lru_cache(maxsize=256)
def chunked(layout: Layout) -> tuple[PackPlan, tuple[KeyOrder, ...]] | None:
    """Another way to pack the layout, where there is one: entries numbered in chunks."""
    plan = chunk_plan(layout)
    if plan is None or any(r.kind == "chunk" for r in pack_plan(layout).ranks):
        return None
    with suppress(Unsupported):
        return plan, _orders(replace(layout, fill=0), plan)
    return None


def _orders(layout: Layout, plan: PackPlan) -> tuple[KeyOrder, ...]:
    options = [list(_options(plan, r)) for r in plan.ranks]
    first: str | None = None
    broken = False
    for number, orders in enumerate(product(*options)):
        if number >= ATTEMPTS:
            break
        try:
            reason, of_property = _tried(layout, plan, orders)
        except Unsupported as error:
            raise with_remedy(error, layout) from None
        if reason is None:
            return orders
        if of_property and not broken:
            first, broken = reason, True
        first = first or reason
    if (known := plan.otherwise) is not None:
        notes = [*known.notes, f"numbered as packing is free to: {first}"]
        raise with_remedy(Unsupported(known.message, known.span, notes), layout) from None
    order = "as its `pack` clause says" if layout.hints else "in ascending order"
    notes = [f"{order}: {first}"]
    if layout.hints:
        notes.append(
            "entries whose keys in `pack` differ get positions of their own: keys must be equal for entries that one "
            "position stands for; where these are (i, j) and (j, i), keys speak of max(i, j) and min(i, j)"
        )
    wanted = "satisfies its properties" if broken else "gives all its arrays"
    message = f"layout `{layout.name}` cannot be packed: no order of the entries {wanted}"
    raise with_remedy(Unsupported(message, layout.span, notes), layout)


def _options(plan: PackPlan, rank: Rank) -> Iterator[KeyOrder]:
    """All orders of the keys of a rank, the natural one first."""
    ways = {"write": 2, "start": 3, "places": 2, "most": 3, "least": 3}.get(rank.kind)
    if ways is not None:
        name = rank.array or plan.encoded.calls[rank.keys[0]].function
        index = plan.encoded.layout.index(name)
        declared = index.properties or (rank.kind in ("start", "places") and index.ranges)
        for rest in range(ways if declared else 1):
            yield KeyOrder(((0, False),), rest=rest)
        return
    if rank.kind == "digits":
        yield KeyOrder(tuple((k, False) for k in range(len(rank.places))))
        return
    padded = rank.kind == "slots" and any(plan.encoded.calls[k].function in plan.sentinels for k in rank.keys)
    for empty_first in (False, True) if padded else (False,):
        for order in permutations(range(len(rank.keys))):
            for down in product((False, True), repeat=len(rank.keys)):
                yield KeyOrder(tuple(zip(order, down, strict=True)), empty_first)


def _tried(layout: Layout, plan: PackPlan, orders: tuple[KeyOrder, ...]) -> tuple[str | None, bool]:
    """What the arrays of small samples break with these orders (None when nothing), and whether that is a property."""
    for seed in range(4):
        shape, columns = _sample(layout, seed)
        count = len(next(iter(columns.values()), np.ones(1)))
        values = 1.0 + np.arange(count) // 2 % 2 * (seed > 0)  # neighbours of equal values, and of others
        state = Entries(layout, dict(zip(layout.parameters, shape, strict=True)), columns, values, lenient=True)
        try:
            assemble(state, plan, orders)
        except DataError as error:
            return error.message, False
        reason = violation(layout, state.sizes, state.arrays)
        if reason is not None:
            return reason, True
        if plan.is_free:
            try:
                check_shared(state, plan)
            except SpfgenError as error:
                return error.message, False
    return None, False


def _sample(layout: Layout, seed: int) -> tuple[tuple[int, ...], dict[str, Array]]:
    """A small shape and random coordinates in it, mostly enough of them to fill groups and blocks."""
    numbers = [n.value for n in walk(layout.relation) if isinstance(n, Num) and 1 < n.value <= 64]
    scale = max(numbers, default=1)
    random = np.random.default_rng(seed)
    base = scale * {1: 12, 2: 6}.get(layout.rank, 4) + seed
    shape = tuple(min(base - k % 2, 5 if seed == 2 else base) for k in range(layout.rank))
    many = 30 if layout.rank < 3 else 60
    columns = [random.integers(0, n, 4 if seed == 3 else many) for n in shape]  # in the end one that is nearly empty
    if not columns:
        return (), {}
    found, _ = sorted_entries(layout, shape, tuple(columns), np.ones(len(columns[0])))
    return shape, found
