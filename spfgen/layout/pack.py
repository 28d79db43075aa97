"""From coordinates and values to the arrays of a layout.

The plan (pack_plan.py) is derived from the relation; the order of the keys, and what fills places without entries, is
chosen by trying (pack_orders.py); assembly (pack_assembly.py) runs the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from spfgen.errors import DataError, Unsupported
from spfgen.layout.duplicates import Duplicates, checked_duplicates
from spfgen.layout.fill import differs_as_number, typed_fill
from spfgen.layout.nodes import Layout
from spfgen.layout.pack_assembly import assemble, check_shared
from spfgen.layout.pack_entries import DuplicateCoordinate, PackingState, Unfit, sorted_entries
from spfgen.layout.pack_orders import orders_of
from spfgen.layout.pack_plan import chunk_plan, pack_plan
from spfgen.layout.pack_rules import KeyOrder, PackPlan
from spfgen.layout.points import Array, TooLarge, to_coordinates
from spfgen.layout.refusals import NoPlace, with_remedy
from spfgen.layout.validate import check_arrays


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
    state = PackingState(layout, dict(zip(layout.parameters, map(int, shape), strict=True)), columns, single)
    try:
        state = assembled(state)
    except NoPlace as error:
        raise error.explained() from None
    except Unsupported as error:
        raise with_remedy(error, layout) from None
    except MemoryError:
        extents = " x ".join(map(str, shape))
        raise DataError(
            f"expected arrays that fit in memory, but those of layout `{layout.name}` for extents {extents} do not"
        ) from None
    for index in layout.indexes:
        wanted = np.dtype((index_types or {}).get(index.name, index.types[0]))
        state.arrays[index.name] = typed_index(index.name, state.arrays[index.name], wanted)
    return Packed(state.sizes, state.arrays)


def assembled(state: PackingState) -> PackingState:
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
        if isinstance(error, DuplicateCoordinate) and not told.all():
            columns = {name: column[told] for name, column in begin.columns.items()}
            return assembled(replace(begin, columns=columns, values=begin.values[told]))
        by_chunks = chunked(layout)
        if by_chunks is not None:
            with suppress(DataError):
                return _assembled(begin, *by_chunks)
        raise


def _assembled(state: PackingState, plan: PackPlan, orders: tuple[KeyOrder, ...]) -> PackingState:
    assemble(state, plan, orders)
    check_shared(state, plan)
    if any(order.is_chosen for order in orders):
        try:
            check_arrays(state.layout, state.sizes, state.arrays)
        except DataError as error:
            raise Unfit(f"{error.message}: packing finds no arrays for these entries", None, error.notes) from None
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


# --- the order of keys ------------------------------------------------------------------------------------


def storable(layout: Layout, shape: tuple[int, ...], coords: tuple[Array, ...], values: Array) -> tuple[Any, Array]:
    """(coordinates, values) of the entries that the layout has places for, with what it stores along with them."""
    columns, summed = sorted_entries(layout, shape, coords, values)
    state = PackingState(layout, dict(zip(layout.parameters, shape, strict=True)), columns, summed, lenient=True)
    assemble(state, pack_plan(layout), key_orders(layout))
    return to_coordinates(layout, state.sizes, state.arrays, {v.name: state.arrays[v.name] for v in layout.values})


@lru_cache(maxsize=256)
def key_orders(layout: Layout) -> tuple[KeyOrder, ...]:
    """An order for each rank of the plan, such that the arrays satisfy the declared properties.

    Raises Unsupported when no order does.
    """
    if layout.fill_text != "0":  # which is nothing to an order, but not all types have it
        return key_orders(layout.unfilled)
    return orders_of(layout, pack_plan(layout))


@lru_cache(maxsize=256)
def chunked(layout: Layout) -> tuple[PackPlan, tuple[KeyOrder, ...]] | None:
    """Another way to pack the layout, where there is one: entries numbered in chunks."""
    plan = chunk_plan(layout)
    if plan is None or any(r.kind == "chunk" for r in pack_plan(layout).ranks):
        return None
    with suppress(Unsupported):
        return plan, orders_of(layout.unfilled, plan)
    return None
