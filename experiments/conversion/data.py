"""What is converted, what is known of it, and whether a result is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array

Array = np.ndarray[Any, Any]

BLOCK = 4
"""Rows and columns of a block: scipy has no blocks that reach beyond a matrix."""


@dataclass(frozen=True)
class Entries:
    """A tensor as shuffled coordinates (int32) and values; a matrix in csr as well."""

    shape: tuple[int, ...]
    coords: tuple[Array, ...]
    values: Array
    matrix: csr_array | None = None

    @property
    def count(self) -> int:
        """The number of entries."""
        return len(self.values)

    @cached_property
    def sorted(self) -> tuple[tuple[Array, ...], Array]:
        """Coordinates and values in lexicographic order."""
        order = np.lexsort(self.coords[::-1])
        return tuple(c[order] for c in self.coords), self.values[order]

    @cached_property
    def diagonals(self) -> int:
        """How many diagonals hold an entry."""
        return len(np.unique(self.coords[1] - self.coords[0]))

    @cached_property
    def blocks(self) -> int:
        """How many aligned blocks hold an entry."""
        row, column = (c.astype(np.int64) // BLOCK for c in self.coords)
        return len(np.unique(row * self.shape[1] + column))

    @cached_property
    def longest_row(self) -> int:
        """The most entries of a row."""
        return int(np.bincount(self.coords[0]).max())

    @cached_property
    def coo(self) -> coo_array:
        """scipy's form of the coordinates."""
        return coo_array((self.values, self.coords), shape=self.shape)


@dataclass(frozen=True)
class Source:
    """Data that is made or read when it is needed; the last one is kept."""

    name: str
    make: Callable[[], Any] = field(compare=False)

    def load(self) -> Entries:
        """The entries."""
        return _loaded(self)


@lru_cache(maxsize=1)
def _loaded(source: Source) -> Entries:
    found = source.make()
    return found if isinstance(found, Entries) else of_matrix(found)


def of_matrix(matrix: csr_array) -> Entries:
    """A matrix in csr, with shuffled coordinates of it; without the last rows and columns that fill no block."""
    rows, columns = (n // BLOCK * BLOCK for n in matrix.shape)
    if (rows, columns) != matrix.shape:
        matrix = csr_array(matrix[:rows, :columns])
    matrix.sum_duplicates()
    parts = (matrix.data.astype(np.float64), matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32))
    own = csr_array(parts, shape=matrix.shape)
    own.has_canonical_format = True
    row, column = own.tocoo().coords
    return shuffled(own.shape, (row, column), own.data, own)


def shuffled(shape: tuple[int, ...], coords: tuple[Array, ...], values: Array, matrix: csr_array | None) -> Entries:
    """The entries in no order."""
    order = np.random.default_rng(3).permutation(len(values))
    return Entries(shape, tuple(c[order].astype(np.int32) for c in coords), values[order], matrix)


def tensors(quick: bool) -> Iterator[Source]:
    """Tensors of three dimensions: one with random coordinates, one with full fibers."""
    count = 100_000 if quick else 4_000_000
    yield Source("tensor anywhere", partial(random_tensor, (10_000, 20_000, 30_000), count))
    yield Source("tensor of fibers", partial(random_tensor, (2_000, 500, 400), count))


def random_tensor(shape: tuple[int, int, int], count: int) -> Entries:
    """Random coordinates, each once."""
    random = np.random.default_rng(5)
    places = np.unique(random.integers(0, np.prod(shape, dtype=np.int64), count))
    coords = tuple(c.astype(np.int32) for c in np.unravel_index(places, shape))
    return shuffled(shape, coords, random.uniform(0.5, 1.5, len(places)), None)


def facts(entries: Entries) -> dict[str, int]:
    """What one wants to know when reading the times."""
    return {**{f"extent {k + 1}": n for k, n in enumerate(entries.shape)}, "entries": entries.count}


def check(task: str, entries: Entries) -> Callable[[Any], str]:
    """A result is (layout's arrays by role) or a scipy or sparse array; each is brought back to sorted entries."""
    coords, values = entries.sorted

    def complain(result: Any) -> str:
        found, own = result() if callable(result) else result
        keep = own != 0
        found, own = tuple(np.asarray(c)[keep] for c in found), own[keep]
        order = np.lexsort(found[::-1])
        if len(own) != len(values):
            return f"{task}: {len(own)} entries instead of {len(values)}"
        for one, two in zip(found, coords, strict=True):
            if not np.array_equal(one[order], two):
                return f"{task}: coordinates differ"
        return "" if np.array_equal(own[order], values) else f"{task}: values differ"

    return complain
