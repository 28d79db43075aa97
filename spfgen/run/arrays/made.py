"""From entries to a tensor: in the layout of an operand where it has places for them, else in one of coordinates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from spfgen.errors import DataError, SpfgenError, Unsupported
from spfgen.lang.fills import plain_fill
from spfgen.lang.spec import SOLVED
from spfgen.layout.nodes import Layout
from spfgen.run.arrays.entries import Entries, pruned
from spfgen.run.arrays.ordered import of_rows
from spfgen.run.calls.bind import packed
from spfgen.run.calls.detect_layout import NUMPY, candidates
from spfgen.run.calls.layout_signature import refilled, remember
from spfgen.run.coordinates import Coordinates
from spfgen.run.tensor import Tensor


def tensor_from(entries: Entries | Coordinates, layouts: Iterable[Layout]) -> Any:
    """A tensor in the first of the layouts that can hold these entries, or their like of this rank; in coordinates when
    none can. Without dimensions: a number."""
    rank = len(entries.shape)
    if not rank:
        return entries.to_dense()[()]
    for layout in layouts:
        layout_of_rank = at_rank(layout, rank)
        if layout_of_rank is not None and (not layout_of_rank.is_pattern or entries.values.dtype == bool):
            tensor = _where_it_fits(layout_of_rank, entries)
            if tensor is not None and tensor.dtype == entries.values.dtype:  # a pattern has no values but its own
                return tensor
    return packed_in(of_coordinates(rank), entries)


def _where_it_fits(layout: Layout, entries: Entries | Coordinates) -> Tensor | None:
    """In the layout, if it has places for all; what is stored but equals the fill needs none."""
    with suppress(DataError, Unsupported):
        return packed_in(layout, entries)
    some = pruned(entries)
    if some is not entries:
        with suppress(DataError, Unsupported):
            return packed_in(layout, some)
    return None


def packed_in(layout: Layout, entries: Entries | Coordinates) -> Tensor:
    """Raises DataError for entries that the layout has no place for, Unsupported for one that cannot be packed."""
    fill = plain_fill(entries.fill)
    filled = refilled(layout, fill)
    if not isinstance(entries, Coordinates):  # which were looked at when they were made
        if not filled.is_pattern and len(entries.shape) == filled.rank:
            by_rows = of_rows(filled, entries.shape, entries.coords, entries.values)
            if by_rows is not None:
                return by_rows
        entries = Coordinates(entries.shape, entries.coords, entries.values, fill)
    return packed(filled, entries)


def in_layout(entries: Entries, layout: Any) -> Any:
    """In the layout that is asked for, with the types, constants and the fill value that its use says.

    Raises DataError for entries that it has no place for, Unsupported for one that cannot be packed.
    """
    from spfgen.run.arrays.shapes import refilled as stored
    from spfgen.run.calls.entries import pack_object
    from spfgen.run.handles import filled, handle_of

    handle = handle_of(layout)
    fill = handle.tree.fill_of(handle.use)
    if fill is not None:
        entries = stored(entries, fill)
    listed = packed_in(of_coordinates(entries.ndim), entries)
    return pack_object(filled(handle, entries.fill), listed, None, "sum")


def of_coordinates(rank: int) -> Layout:
    """The layout of sorted coordinates."""
    return candidates("scipy.coo", rank)[0].layout()


def is_full(layout: Layout) -> bool:
    """Whether it is a layout of dense arrays."""
    return any(b.library == NUMPY for b in layout.bindings)


_RANKS: dict[tuple[int, int], tuple[Layout, Layout | None]] = {}


def at_rank(layout: Layout, rank: int) -> Layout | None:
    """The layout, or that of its family with this rank; None when there is none."""
    if layout.rank == rank:
        return layout
    entry = _RANKS.get((id(layout), rank))
    if entry is None or entry[0] is not layout:
        entry = (layout, next(_of_family(layout, rank), None))
        remember(_RANKS, (id(layout), rank), entry)
    return entry[1]


def _of_family(layout: Layout, rank: int) -> Iterator[Layout]:
    from spfgen.run.handles import handle_of

    constants = dict(layout.constants)
    if constants.pop(SOLVED, None) is None:
        return
    try:
        handle = handle_of(layout.name, constants)
        if handle.is_open and handle.layout(layout.rank) == refilled(layout, handle.layout(layout.rank).fill):
            yield handle.layout(rank)
    except SpfgenError:  # one of the user's own, which is known with its rank only
        return
