"""How much memory a tensor takes in a layout, without making arrays that are larger than the tensor itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from spfgen.errors import DataError
from spfgen.facts.formula import Expr
from spfgen.lang.types import INDEX_TYPES
from spfgen.layout.nodes import Layout
from spfgen.layout.pack import check_fill, chunked, key_orders
from spfgen.layout.pack_assembly import assemble, check_shared
from spfgen.layout.pack_entries import PackingState
from spfgen.layout.pack_plan import pack_plan
from spfgen.layout.points import Array, TooLarge, room_for, shape_of

NARROW, WIDE = 4, 8
"""Bytes of an index in int32, which is the default, and in int64, where that is needed."""

LEAST_ROOM, MOST_ROOM = 2**22, 2**27
"""Arrays of so many elements are made in any case, and in no case."""

SHARED_ROOM = 2**23
"""Where several coordinates may share a value, the points of a layout are listed when there are at most so many."""


@dataclass(frozen=True)
class MemoryUse:
    """`bytes` of all arrays; a lower bound when not `exact` (an array was too large to be made, and sizes that depend
    on it are not known). `verified`: all entries were seen to have a place; else the arrays were too large to look.
    """

    bytes: int
    exact: bool
    verified: bool
    sizes: Mapping[str, int]
    index_bytes: int
    """Bytes of an element of the index arrays that are no marks."""


def measure(layout: Layout, shape: tuple[int, ...], columns: tuple[Array, ...], values: Array) -> MemoryUse:
    """The memory of a tensor with these entries; `columns` (int64[n] each) are sorted, and no place comes twice.

    Raises DataError when the layout cannot store the entries, Unsupported when its arrays cannot be derived.
    """
    plan, orders = pack_plan(layout), key_orders(layout)
    check_fill(layout, values.dtype)
    room = min(MOST_ROOM, max(LEAST_ROOM, 8 * (len(values) + sum(shape))))
    named = dict(zip(layout.coordinates, columns, strict=True))
    state = PackingState(layout, dict(zip(layout.parameters, shape, strict=True)), named, values)
    try:
        fits_in_room = _fits(room, lambda: assemble(state, plan, orders))
    except DataError:
        by_chunks = chunked(layout)
        if by_chunks is None:
            raise
        plan, orders = by_chunks
        state = PackingState(layout, dict(zip(layout.parameters, shape, strict=True)), named, values)
        fits_in_room = _fits(room, lambda: assemble(state, plan, orders))
    wide = max((len(values), *shape), default=0) > np.iinfo(np.int32).max
    index_bytes = WIDE if wide else NARROW
    total = sum(
        (index_bytes if a.types == INDEX_TYPES else np.dtype(a.types[0]).itemsize) * _elements(a.extents, state.sizes)
        for a in layout.indexes
    )
    stored = sum(_elements(v.extents, state.sizes) for v in layout.values)
    # Places are looked for when the index arrays are complete; values are put there last.
    verified = all(a.name in state.arrays for a in layout.indexes)
    if not plan.injective:
        verified = fits_in_room and _fits(SHARED_ROOM, lambda: check_shared(state, plan))
    exact = set(layout.sizes) <= set(state.sizes)
    return MemoryUse(total + stored * values.dtype.itemsize, exact, verified, dict(state.sizes), index_bytes)


def _fits(room: int, work: Callable[[], None]) -> bool:
    """Whether the work could be done with that room."""
    try:
        with room_for(room):
            work()
    except (TooLarge, MemoryError):
        return False
    return True


def _elements(extents: tuple[Expr, ...], sizes: Mapping[str, int]) -> int:
    """The elements of an array; sizes that are not known count as 0."""
    return prod(shape_of(extents, _Known(sizes)))


class _Known(dict[str, int]):
    def __missing__(self, name: str) -> int:
        return 0
