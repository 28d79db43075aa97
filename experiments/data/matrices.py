"""Matrices for kernels with many flops for each entry: neither so small that a call is all, nor so large that one
call takes seconds."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from experiments.data import made, stored
from experiments.harness.native import cache_folder

PARTS = ("data", "indices", "indptr", "shape")
LEAST_ENTRIES = 1_000_000

Maker = tuple[str, Callable[[], csr_array]]


def matrices(quick: bool) -> list[Maker]:
    """Labels and makers: a stencil, a band, a power law, no locality at all; then real ones."""
    if quick:
        return [("stencil 60x60", partial(made.stencil, 60)), ("power law 2^10", partial(made.power_law, 10, 16))]
    found: list[Maker] = [
        ("stencil 300x300", partial(made.stencil, 300)),
        ("banded 20000, 31 wide", partial(made.banded, 20_000, 15)),
        ("power law 2^14", partial(made.power_law, 14, 16)),
        ("uniform 100000, 8 a row", partial(made.uniform, 100_000, 100_000, 8)),
        ("long rows 20000", partial(made.long_rows, 20_000, 4, 8, 15_000)),
        ("empty rows 200000", partial(made.empty_rows, 200_000, 20, 16)),
    ]
    return found + [(m.name, partial(kept, m)) for m in stored.shared_matrices(LEAST_ENTRIES)[-3:]]


@lru_cache(maxsize=2)
def kept(matrix: stored.StoredMatrix) -> csr_array:
    """A stored matrix; text is read once, and what it held kept in a file."""
    stamp = (matrix.path.name, matrix.path.stat().st_size, np.__version__)
    file = cache_folder() / f"matrix-{hashlib.sha256(repr(stamp).encode()).hexdigest()[:24]}.npz"
    if file.exists():
        with np.load(file) as parts:
            data, indices, indptr, shape = (parts[name] for name in PARTS)
            return csr_array((data, indices, indptr), shape=tuple(int(n) for n in shape))
    read = matrix.load()
    fresh = Path(file).with_suffix(f".{os.getpid()}.npz")
    np.savez(fresh, data=read.data, indices=read.indices, indptr=read.indptr, shape=read.shape)
    fresh.replace(file)
    return read


def factor(rows: int, columns: int, seed: int = 10) -> np.ndarray:
    """A dense factor, row by row."""
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (rows, columns))
