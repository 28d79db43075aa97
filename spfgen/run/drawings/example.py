"""Small data that show what a layout does: as many entries of a fixed pattern as it has places for."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from spfgen.errors import DataError, Unsupported
from spfgen.facts.formula import Num
from spfgen.ir import walk
from spfgen.layout.nodes import Layout
from spfgen.layout.pack import pack, storable
from spfgen.layout.points import Array, enumerate_points
from spfgen.layout.proofs import one_coordinate
from spfgen.layout.satisfy import fitting_sizes, with_entries
from spfgen.run.tensor import Tensor, extents_of, make_tensor

VECTOR = (0, 5, 5, 5, 0, 0, 6, 7)
MATRIX = ((5, 6, 0, 0), (0, 0, 0, 0), (0, 0, 8, 9), (7, 7, 7, 0))
"""With an empty row and neighbours of one value."""
SYMMETRIC = ((5, 6, 0, 7), (6, 0, 0, 0), (0, 0, 8, 9), (7, 0, 9, 0))
SLICES = (((5, 0, 6, 0), (0, 0, 0, 0), (0, 7, 7, 0)), ((0, 0, 0, 0), (0, 0, 0, 8), (0, 9, 0, 0)))
FIRST = 5
LARGEST = 16
"""Extents are not larger, whatever the constants of a layout."""


def example(layout: Layout) -> Tensor:
    """A small tensor in the layout; where it cannot be packed, arrays that satisfy all that it declares.

    Raises Unsupported when there are none either.
    """
    try:
        return packed_example(layout)
    except (DataError, Unsupported):
        tensor = drawn_example(layout)
        if tensor is None:
            raise
        return tensor


def drawn_example(layout: Layout) -> Tensor | None:
    """Small arrays found by the prover that hold an entry, with the values 5, 6, ...; None when there are none."""
    first: Tensor | None = None
    for sizes in fitting_sizes(layout):
        arrays = with_entries(layout, sizes, 0)
        if arrays is None or not (points := enumerate_points(layout, sizes, arrays)).count:
            continue
        for value in layout.values:
            shape = extents_of(layout, value.name, sizes)
            first_value = 1 if value.implied else FIRST
            arrays[value.name] = np.arange(first_value, first_value + prod(shape), dtype=np.float64).reshape(shape)
        tensor = Tensor(layout, sizes, arrays)
        columns = [points.columns[c] for c in layout.coordinates]
        if layout.rank < 2 or (columns[-1] != columns[-2]).any():  # the diagonal alone says little
            return tensor
        first = first or tensor
    return first


def packed_example(layout: Layout) -> Tensor:
    """A small tensor in the layout. Raises Unsupported when the layout cannot be packed."""
    best: tuple[float, Tensor] | None = None
    apart = all(one_coordinate(layout, v).proved for v in layout.values)
    candidates = [*_candidates(layout)]
    for number, dense in enumerate((*candidates, *(c[(slice(-1),) * c.ndim] for c in candidates))):
        if number == len(candidates) and best is not None and best[0] > 0:
            break  # what follows has odd extents: for layouts that hold nothing of the others
        if apart and layout.rank:  # else equal values show what stands for several coordinates
            dense = np.where(dense != 0, np.cumsum(dense != 0).reshape(dense.shape) + FIRST - 1, 0)
        dense = (dense != 0).astype(float) if layout.is_pattern else dense
        coords: tuple[Array, ...] = tuple(c.astype(np.int64) for c in np.nonzero(dense)) if layout.rank else ()
        values = dense[coords].astype(np.float64).reshape(-1)
        wanted = max(1, len(values))
        coords, values = storable(layout, dense.shape, coords, values) if layout.rank else (coords, values)
        packed = pack(layout, dense.shape, tuple(coords), values)
        if best is None or len(values) / wanted > best[0]:
            best = len(values) / wanted, make_tensor(layout, packed.arrays, dense.shape, packed.sizes)
    if best is None:
        raise DataError(f"expected small data that layout `{layout.name}` can hold, but there is none")
    return best[1]


def _candidates(layout: Layout) -> Iterator[Array]:
    """Patterns to try; larger ones for layouts with large blocks."""
    if layout.rank == 0:
        yield np.asarray(5)
    elif layout.rank == 1:
        yield np.asarray(VECTOR)
    elif layout.rank == 2:
        blocks = max(1, min(LARGEST, 2 * _scale(layout)) // len(MATRIX))
        for pattern in (MATRIX, SYMMETRIC):
            whole = np.kron(np.eye(blocks, dtype=int), np.asarray(pattern))
            whole[0, -1] = whole[-1, 0] = pattern[0][-1] or pattern[0][0]  # blocks off the diagonal, too
            yield whole
    else:
        yield np.asarray(SLICES).reshape((1,) * (layout.rank - 3) + (2, 3, 4))


def _scale(layout: Layout) -> int:
    """The largest number that the relation names, such as the height of its blocks."""
    return max((n.value for n in walk(layout.relation) if isinstance(n, Num)), default=1)
