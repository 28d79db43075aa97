"""Matrices made with fixed seeds."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array, csr_array, diags_array

from experiments.data.shape import as_csr


def stencil(k: int) -> csr_array:
    """The 5-point stencil on a k*k grid: four neighbours and the point itself, short regular rows."""
    line = np.ones(k * k)
    inner = line[1:].copy()
    inner[k - 1 :: k] = 0.0  # the last point of a grid row has no right neighbour
    grid = diags_array(
        [4.0 * line, -inner, -inner, -line[k:], -line[k:]], offsets=[0, 1, -1, k, -k], shape=(k * k, k * k)
    ).tocsr()
    grid.eliminate_zeros()
    return as_csr(grid)


def grid(k: int, points: int, seed: int = 7) -> csr_array:
    """A stencil of 7 or 27 points on a k*k*k grid, random values."""
    near = (-1, 0, 1)
    steps = [(a, b, c) for a in near for b in near for c in near if points == 27 or abs(a) + abs(b) + abs(c) < 2]
    places = np.arange(k**3)
    at = (places // (k * k), places // k % k, places % k)
    rows, columns = [], []
    for step in steps:
        inside = np.logical_and.reduce([(p + s >= 0) & (p + s < k) for p, s in zip(at, step, strict=True)])
        rows.append(places[inside])
        columns.append(places[inside] + (step[0] * k + step[1]) * k + step[2])
    return _from_pairs(np.concatenate(rows), np.concatenate(columns), (k**3, k**3), np.random.default_rng(seed))


def blocks(matrix: csr_array, size: int, seed: int = 8) -> csr_array:
    """Each entry of the matrix grown to a dense block of size*size random values: several unknowns at each point."""
    random = np.random.default_rng(seed)
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    inner = np.arange(size)
    row = (size * rows[:, None, None] + inner[None, :, None]).repeat(size, axis=2)
    column = (size * matrix.indices[:, None, None].astype(np.int64) + inner[None, None, :]).repeat(size, axis=1)
    shape = (size * matrix.shape[0], size * matrix.shape[1])
    return _from_pairs(row.ravel(), column.ravel(), shape, random)


def banded(size: int, half_width: int, seed: int = 1) -> csr_array:
    """All diagonals from -half_width to half_width, random values."""
    random = np.random.default_rng(seed)
    offsets = list(range(-half_width, half_width + 1))
    values = [random.uniform(0.5, 1.5, size - abs(o)) for o in offsets]
    return as_csr(diags_array(values, offsets=offsets, shape=(size, size)))


def triangle(size: int, seed: int = 9) -> csr_array:
    """All of the lower triangle and the diagonal, random values."""
    random = np.random.default_rng(seed)
    return csr_array(np.tril(random.uniform(0.5, 1.5, (size, size))))


def uniform(rows: int, columns: int, per_row: int, seed: int = 2) -> csr_array:
    """About `per_row` entries in each row, anywhere: no locality at all."""
    random = np.random.default_rng(seed)
    row = np.repeat(np.arange(rows), per_row)
    return _from_pairs(row, random.integers(0, columns, row.size), (rows, columns), random)


def power_law(scale: int, per_row: int, seed: int = 3) -> csr_array:
    """R-MAT with the parameters of Graph500: 2**scale rows, a few very long and many empty."""
    random = np.random.default_rng(seed)
    count = per_row << scale
    row = np.zeros(count, dtype=np.int64)
    column = np.zeros(count, dtype=np.int64)
    for _ in range(scale):
        quadrant = np.searchsorted([0.57, 0.76, 0.95], random.random(count), side="right")
        row = 2 * row + (quadrant >> 1)
        column = 2 * column + (quadrant & 1)
    return _from_pairs(row, column, (1 << scale, 1 << scale), random)


def long_rows(size: int, per_row: int, how_many: int, length: int, seed: int = 4) -> csr_array:
    """Short rows but for a few neighbouring ones of `length` entries: one thread has most of the work."""
    random = np.random.default_rng(seed)
    short = np.repeat(np.arange(size), per_row)
    long = np.repeat(size // 2 + np.arange(how_many), length)
    row = np.concatenate([short, long])
    return _from_pairs(row, random.integers(0, size, row.size), (size, size), random)


def empty_rows(size: int, every: int, per_row: int, seed: int = 5, columns: int = 0) -> csr_array:
    """Only each `every`-th row has entries; as many columns as rows, if not so many."""
    random = np.random.default_rng(seed)
    row = np.repeat(np.arange(0, size, every), per_row)
    shape = (size, columns or size)
    return _from_pairs(row, random.integers(0, shape[1], row.size), shape, random)


def vector(size: int, seed: int = 6) -> np.ndarray:
    """A dense vector."""
    return np.random.default_rng(seed).standard_normal(size)


def _from_pairs(row: np.ndarray, column: np.ndarray, shape: tuple[int, int], random: np.random.Generator) -> csr_array:
    """The matrix with random values at these places; a place given twice counts once."""
    place = np.unique(row.astype(np.int64) * shape[1] + column)
    values = random.uniform(0.5, 1.5, place.size)
    return as_csr(coo_array((values, (place // shape[1], place % shape[1])), shape=shape))
