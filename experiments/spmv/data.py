"""Matrices to multiply, in the layout and with the types of a case, and what a result must be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from experiments.data import made, stored
from experiments.harness.check import compare, sum_tolerance
from experiments.peers.spfgen import module_or_missing

Array = np.ndarray[Any, Any]
Make = Callable[[], csr_array]

LEAST_ENTRIES = 80_000
FROM_SCIPY = ("csr", "csc", "coo", "dia", "bsr")
"""The formats of scipy; other layouts it has not."""


@dataclass(frozen=True)
class Product:
    """A matrix in csr and the vector, with their types; `blocks` is the size of the blocks of a blocked layout."""

    matrix: csr_array
    x: Array
    layout: str = "csr"
    block: int = 1

    @cached_property
    def natural(self) -> Any:
        """The matrix in scipy's format that is the layout, or in csr where it has none."""
        found = self.matrix
        if self.layout == "bcsr":
            found = self.matrix.tobsr((self.block, self.block))
            found.sort_indices()
        elif self.layout in FROM_SCIPY:
            found = self.matrix.asformat(self.layout)
        return found

    @cached_property
    def stored(self) -> Any:
        """The matrix as our kernel takes it."""
        if self.layout == "bcsr" or self.layout in FROM_SCIPY:
            return self.natural
        return module_or_missing("spfgen").pack(self.matrix, self.layout)

    @property
    def spec(self) -> str:
        """The layout as our kernel names it."""
        return f"bcsr(R={self.block}, C={self.block})" if self.layout == "bcsr" else self.layout


@lru_cache(maxsize=1)
def _made(make: Make) -> csr_array:
    """The last matrix: the cases of one come one after the other."""
    return make()


def product(make: Make, layout: str, block: int, value: str, index: str) -> Product:
    """The data of a case."""
    csr = _made(make)
    typed = csr_array(
        (csr.data.astype(value), csr.indices.astype(index), csr.indptr.astype(index)), shape=csr.shape, copy=False
    )
    return Product(typed, made.vector(csr.shape[1]).astype(value), layout, block)


def matrices(quick: bool) -> Iterator[tuple[str, Make]]:
    """For csr: made matrices that lie in the caches and far outside of them (in quick runs one), then real ones."""
    if quick:
        yield "stencil 100x100", partial(made.stencil, 100)
        yield "power law 2^12", partial(made.power_law, 12, 8)
        yield "empty rows 20000", partial(made.empty_rows, 20_000, 10, 8)
        yield "7 points 100x100x100", partial(made.grid, 100, 7)
    else:
        for k in (32, 300, 1500):
            yield f"stencil {k}x{k}", partial(made.stencil, k)
        yield "7 points 100x100x100", partial(made.grid, 100, 7)
        yield "27 points 70x70x70", partial(made.grid, 70, 27)
        yield "banded 20000, 31 wide", partial(made.banded, 20_000, 15)
        yield "banded 500000, 31 wide", partial(made.banded, 500_000, 15)
        yield "uniform 1000000, 8 a row", partial(made.uniform, 1_000_000, 1_000_000, 8)
        yield "uniform 1000000, 2 a row", partial(made.uniform, 1_000_000, 1_000_000, 2)
        yield "uniform 4000000, 3 a row", partial(made.uniform, 4_000_000, 4_000_000, 3)
        yield "power law 2^14", partial(made.power_law, 14, 16)
        yield "power law 2^19", partial(made.power_law, 19, 16)
        yield "long rows 200000", partial(made.long_rows, 200_000, 4, 8, 150_000)
        yield "empty rows 2000000", partial(made.empty_rows, 2_000_000, 20, 16)
    real = stored.repository_matrices() + stored.shared_matrices(LEAST_ENTRIES)
    for matrix in real[-2:] if quick else real:
        yield matrix.name, matrix.load


def structured(quick: bool) -> Iterator[tuple[str, str, Make, int]]:
    """For the other layouts: matrices of their structure, in memory and in the caches, with the size of blocks."""
    for k in (60,) if quick else (100, 700):
        for size in (2, 3, 4, 6):
            grid = max(k * 3 // size, 8)
            yield "bcsr", f"{size}x{size} blocks {grid}x{grid}", partial(_blocks, grid, size), size
    for k in (100,) if quick else (300, 1500):
        for layout in ("dia", "ell"):
            yield layout, f"stencil {k}x{k}", partial(made.stencil, k), 1
    for size in (5_000,) if quick else (20_000, 500_000):
        yield "dia", f"banded {size}, 31 wide", partial(made.banded, size, 15), 1
    for k in (20,) if quick else (40, 70):
        yield "ell", f"27 points {k}x{k}x{k}", partial(made.grid, k, 27), 1
    for rows in (20_000,) if quick else (200_000, 4_000_000):
        for layout in ("coo", "dcsr"):
            yield layout, f"empty rows {rows}, 1 of 100", partial(made.empty_rows, rows, 100, 4), 1
        few = partial(made.empty_rows, rows, 100, 4, columns=100)
        yield "csc", f"empty rows {rows}x100, 1 of 100", few, 1
    for scale in (12,) if quick else (14, 19):
        for layout in ("coo", "csc", "dcsr"):
            yield layout, f"power law 2^{scale}", partial(made.power_law, scale, 16), 1
    for rows in (300,) if quick else (3_000, 30_000):
        yield "csc", f"uniform {rows}x{100 * rows}", partial(made.uniform, rows, 100 * rows, 100), 1
        yield "csc", f"uniform {100 * rows}x{rows}", partial(made.uniform, 100 * rows, rows, 1), 1
    for size in (400,) if quick else (700, 7_000):
        yield "lower", f"triangle {size}", partial(made.triangle, size), 1
    if not quick:
        yield "csc", "uniform 4000000, 3 a row", partial(made.uniform, 4_000_000, 4_000_000, 3), 1


def _blocks(k: int, size: int) -> csr_array:
    return made.blocks(made.stencil(k), size)


def check(data: Product) -> Callable[[Any], str]:
    """The reference is scipy's product in double precision; each element may be off by the error bound of its row."""
    wide = data.matrix.astype(np.float64)
    x = data.x.astype(np.float64)
    expected, magnitude = wide @ x, abs(wide) @ abs(x)
    tolerance = sum_tolerance(np.diff(data.matrix.indptr), magnitude)
    tolerance = tolerance * (np.finfo(data.matrix.dtype).eps / np.finfo(np.float64).eps)
    return lambda result: compare(result, expected, tolerance)


def bytes_moved(data: Product) -> int:
    """Each array once: those of the matrix, x, y."""
    matrix = data.stored
    if isinstance(matrix, csr_array):
        arrays = [matrix.data, matrix.indices, matrix.indptr]
    elif hasattr(matrix, "arrays"):
        arrays = list(matrix.arrays.values())
    else:
        names = ("data", "indices", "indptr", "offsets")
        arrays = [getattr(matrix, n) for n in names if hasattr(matrix, n)]
        arrays += list(matrix.coords) if matrix.format == "coo" else []
    size = data.matrix.dtype.itemsize
    return sum(a.nbytes for a in arrays) + size * sum(data.matrix.shape)


def facts(data: Product) -> dict[str, int]:
    """What one wants to know of a matrix when reading its times."""
    lengths = np.diff(data.matrix.indptr)
    return {
        "rows": data.matrix.shape[0],
        "columns": data.matrix.shape[1],
        "entries": data.matrix.nnz,
        "longest row": int(lengths.max(initial=0)),
    }
