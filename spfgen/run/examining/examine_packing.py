"""Whether random dense arrays can be packed and come back, for `spfgen check`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from spfgen.errors import DataError, SpfgenError, Unsupported
from spfgen.layout.fill import differs, summed
from spfgen.layout.nodes import Layout
from spfgen.layout.pack import pack, storable
from spfgen.layout.pack_entries import DuplicateCoordinate
from spfgen.layout.points import Array, to_coordinates
from spfgen.layout.validate import violation

EXTENTS = ((6, 5, 7), (4, 4, 4), (1, 1, 1), (0, 3, 5), (9, 8, 4))
"""Of the arrays: the extents of the dimensions in turn."""
DENSITIES = (0.0, 0.1, 0.5, 1.0)


@dataclass(frozen=True)
class PackingTrial:
    """`wrong`: how packing fails for what the layout can hold; `lost`: the first message of an array that has entries
    without a place; `packed` of `count` arrays were packed whole."""

    count: int = 0
    packed: int = 0
    lost: str = ""
    wrong: str = ""


def tried(layout: Layout, seed: int) -> PackingTrial:
    """What becomes of arrays of several densities, with neighbours that are equal and others."""
    packed, count, lost = 0, 0, ""
    for extents, density, equal in product(EXTENTS, DENSITIES, (False, True)):
        shape = tuple(extents[k % len(extents)] for k in range(layout.rank))
        random = np.random.default_rng([seed, count])
        numbers = 1 if equal or layout.is_pattern else random.integers(1, 9, shape)
        dense = np.where(random.random(shape) < density, numbers, 0)
        coords = tuple(c.astype(np.int64) for c in np.nonzero(dense))
        values = dense[coords].astype(np.float64)
        count += 1
        try:
            try:
                back = _there_and_back(layout, shape, coords, values)
                packed += 1
            except DataError as error:
                lost = lost or f"{_text(shape)}: {error.message}"
                coords, values = storable(layout, shape, coords, values)
                coords, values = _stored_values(layout, coords, values)
                back = _there_and_back(layout, shape, coords, values)
        except DuplicateCoordinate:  # what is left has no place either
            continue
        except SpfgenError as error:
            return PackingTrial(count, packed, lost, f"an array of {_text(shape)} is not packed: {error.message}")
        wanted = np.full(shape, layout.fill, dtype=np.float64)
        wanted[coords] = values
        if not np.array_equal(back, wanted, equal_nan=True):
            return PackingTrial(count, packed, lost, f"an array of {_text(shape)} comes back as another one")
    return PackingTrial(count, packed, lost)


def _there_and_back(layout: Layout, shape: tuple[int, ...], coords: tuple[Array, ...], values: Array) -> Array:
    """The dense array that the packed ones hold. Raises Unsupported when they break what the layout declares."""
    packed = pack(layout, shape, coords, values)
    broken = violation(layout, packed.sizes, packed.arrays)
    if broken is not None:
        raise Unsupported(broken)
    values_by_name = {v.name: packed.arrays[v.name] for v in layout.values}
    columns, stored = to_coordinates(layout, packed.sizes, packed.arrays, values_by_name)
    return summed(shape, columns, stored, layout.fill)


def _stored_values(layout: Layout, coords: tuple[Array, ...], values: Array) -> tuple[tuple[Array, ...], Array]:
    """Without what is stored only because blocks are stored whole."""
    kept = differs(values, layout.fill)
    return tuple(c[kept] for c in coords), values[kept]


def _text(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
