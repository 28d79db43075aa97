"""y = A x by layout, and sums over runs.

A band and blocks are stored as csr, and in layouts that say what they are. A vector with runs is added up by one step
for each run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from experiments.data import made
from experiments.structured.task import Task


def band(quick: bool) -> dict[str, Any]:
    """A matrix with five diagonals, whole numbers."""
    return with_vector(made.banded(200 if quick else 200_000, 2))


def blocks(quick: bool) -> dict[str, Any]:
    """A stencil of dense blocks of 3x3."""
    return with_vector(made.blocks(made.stencil(6 if quick else 120), 3))


def with_vector(matrix: csr_array) -> dict[str, Any]:
    """The pattern of a matrix with whole numbers, and a vector: all sums are exact."""
    random = np.random.default_rng(60)
    matrix.data = random.integers(1, 9, matrix.nnz).astype(float)
    return {"A": matrix, "x": random.integers(0, 9, matrix.shape[1]).astype(float)}


def long_runs(quick: bool) -> dict[str, Any]:
    """A vector whose values stay the same for about fifty places."""
    random = np.random.default_rng(61)
    count = 40 if quick else 100_000
    return {"a": np.repeat(random.integers(0, 9, count).astype(float), random.integers(1, 100, count))}


SPMV = "y[i] = A[i,j]*x[j]"
TASKS = (
    Task(
        "SpMV of a band",
        SPMV,
        {"A": "band(kl=2, ku=2)", "x": "dense", "y": "dense"},
        band,
        lambda A, x: A @ x,  # noqa: N803
        {"csr": {"A": "csr"}, "dia": {"A": "dia"}, "vbl": {"A": "vbl"}},
        plain="scipy",
    ),
    Task(
        "SpMV of blocks",
        SPMV,
        {"A": "bcsr(R=3, C=3)", "x": "dense", "y": "dense"},
        blocks,
        lambda A, x: A @ x,  # noqa: N803
        {"csr": {"A": "csr"}, "vbl": {"A": "vbl"}},
        plain="scipy",
    ),
    Task("sum over runs", "s = sum(i: a[i])", {"a": "rle"}, long_runs, lambda a: a.sum(), {"dense": {"a": "dense"}}),
)
