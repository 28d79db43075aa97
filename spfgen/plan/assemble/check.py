"""What an assembly must do, on small tables: the arrays that it makes satisfy what the layout declares, and hold the
entries that it was given, each once, and nothing else.

The tables are four of those with which packing was tried (layout/pack_orders.py): two of full, uneven groups, one that
is nearly empty, one without entries. What the arrays hold is read by the relation of the layout.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import repeat
from typing import Any

import numpy as np

from spfgen.errors import DataError, InternalError
from spfgen.layout.fill import differs_as_number
from spfgen.layout.keys import KeyPlan
from spfgen.layout.nodes import Layout
from spfgen.layout.pack import key_orders, pack, storable
from spfgen.layout.pack_entries import sorted_entries
from spfgen.layout.pack_orders import samples_of
from spfgen.layout.points import Array, to_coordinates
from spfgen.layout.validate import check_arrays
from spfgen.plan.assemble.by_key import Tree
from spfgen.plan.assemble.carried import AssembledArrays, Misstep, Refused, Table, carried_out
from spfgen.plan.assemble.carried_by_key import Places, carried_as_tree, carried_by_key, carried_in_groups
from spfgen.plan.assemble.nodes import Assembly

CHOSEN = (1, 2, 3, 5)
"""Which of the samples."""
Way = Callable[[Table], AssembledArrays]


class Wrong(Exception):
    """The arrays are not those of the entries."""


def check_steps(assembly: Assembly) -> None:
    """Raises InternalError with the first table for which the arrays are wrong."""
    _check(assembly.layout, [partial(carried_out, assembly)], assembly.axis)


@lru_cache(maxsize=256)
def check_key(key: KeyPlan, tree: Tree | None, groups: Places | None) -> None:
    """The same for each way in which a layout with a key is assembled."""
    _check(key.plan.encoded.layout, ways_by_key(key, tree, groups))


def ways_by_key(key: KeyPlan, tree: Tree | None, groups: Places | None) -> list[Way]:
    """By sorted keys; of entries in the order of a tree; of entries that go to the place of their group."""
    found: list[Way] = [partial(carried_by_key, key)]
    found += [] if tree is None else [partial(carried_as_tree, tree, key)]
    return found + ([] if groups is None else [partial(carried_in_groups, key, groups)])


def _check(layout: Layout, ways: Sequence[Way], axis: int | None = None) -> None:
    for table in tables_of(layout):
        known: list[AssembledArrays] = []
        for way in ways:
            try:
                made = way(table if axis is None else by_ends(table, layout, axis))
                if made not in known:
                    check_held(layout, table, made)
                    known.append(made)
            except Refused as refused:
                if axis is None and not _is_refused(layout, table):
                    raise _error(layout, table, refused) from None
            except (Wrong, Misstep) as fault:
                raise _error(layout, table, fault) from None


def _error(layout: Layout, table: Table, fault: Exception) -> InternalError:
    extents = " x ".join(str(table.sizes[p]) for p in layout.parameters)
    about = f"{len(table.values)} entries in {extents}"
    return InternalError(f"the assembly of layout `{layout.name}` is wrong for {about}: {fault}")


def _is_refused(layout: Layout, table: Table) -> bool:
    """Whether packing has no place for the entries either."""
    try:
        coords = tuple(table.columns[c] for c in layout.coordinates)
        pack(layout, tuple(table.sizes[p] for p in layout.parameters), coords, table.values)
    except DataError:
        return True
    return False


def by_ends(table: Table, layout: Layout, axis: int) -> Table:
    """Neighbours along an axis with one value as an interval: its two ends."""
    others = [table.columns[c] for k, c in enumerate(layout.coordinates) if k != axis]
    along = np.lexsort([table.columns[layout.coordinates[axis]], *others[::-1]])
    columns, values = {n: c[along] for n, c in table.columns.items()}, table.values[along]
    step = {n: c[1:] - c[:-1] for n, c in columns.items()}
    joins = values[1:] == values[:-1]
    for k, name in enumerate(layout.coordinates):
        joins &= step[name] == (k == axis)
    begins, ends = np.flatnonzero(np.append(True, ~joins)), np.flatnonzero(np.append(~joins, True))
    if not len(values):
        begins = ends = begins[:0]
    order = np.lexsort([columns[c][begins] for c in layout.coordinates[::-1]])
    begins, ends = begins[order], ends[order]
    rows = np.stack([begins, ends], axis=1)
    wanted = np.stack([begins == begins, ends > begins], axis=1)
    linked = np.broadcast_to(np.array([0, 1]), rows.shape)[wanted]
    rows = rows[wanted]
    return Table(table.sizes, {n: c[rows] for n, c in columns.items()}, values[rows], linked)


def check_held(layout: Layout, table: Table, made: AssembledArrays) -> None:
    """Raises Wrong where the arrays break what is declared, or hold anything but the entries."""
    try:
        check_arrays(layout, made.sizes, made.arrays, thorough=True)
        coords, stored = to_coordinates(layout, made.sizes, made.arrays, made.arrays)
    except DataError as error:
        raise Wrong(error.message) from None
    told = differs_as_number(stored, layout.fill)
    found = Counter(_rows(tuple(c[told] for c in coords), stored[told]))
    given = Counter(_rows(tuple(table.columns[c] for c in layout.coordinates), table.values))
    for (at, value), times in (given - found).items():
        raise Wrong(f"the entry {value} at {at} is stored {times - 1 if times > 1 else 'nowhere'}")
    for at, value in found - given:
        raise Wrong(f"{value} is stored at {at}, which is no entry or stored already")


def _rows(coords: tuple[Array, ...], values: Array) -> Iterator[tuple[tuple[int, ...], Any]]:
    columns = [c.tolist() for c in coords]
    return zip(zip(*columns, strict=True) if columns else repeat(()), values.tolist(), strict=bool(columns))


@lru_cache(maxsize=256)
def tables_of(layout: Layout) -> tuple[Table, ...]:
    """Small tables of entries that the layout has places for."""
    found, samples = [], samples_of(layout, key_orders(layout))
    kind = np.float64 if complex(layout.fill).imag == 0 else np.complex128
    for sample in (s for k, s in enumerate(samples) if k in CHOSEN or len(samples) <= max(CHOSEN)):
        coords = tuple(sample.columns[c] for c in layout.coordinates)
        try:
            held, stored = storable(layout, sample.shape, coords, sample.values.astype(kind))
        except DataError:
            continue
        told = differs_as_number(stored, layout.fill)
        columns, values = sorted_entries(layout, sample.shape, tuple(c[told] for c in held), stored[told])
        found.append(Table(dict(zip(layout.parameters, sample.shape, strict=True)), columns, values))
    return tuple(found)
