"""Triangles, SDDMM, and chains whose parts are never stored: beside DuckDB, PyData/Sparse, finch-tensor-lite and SciPy.

SciPy and PyData/Sparse compute one operation after the other, DuckDB joins tables of entries with the threads of the
case, and finch-tensor-lite fuses like ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from experiments.data import made
from experiments.harness.case import Runner
from experiments.peers import duckdb, finch, pydata
from experiments.peers.kernels import dense, measured
from experiments.semiring import graphs
from experiments.structured.task import Data, Task

Array = np.ndarray[Any, Any]

INNER = 16


def lower(quick: bool) -> Data:
    """The edges of a graph with a few large vertices, each once."""
    return {"A": graphs.rmat(7 if quick else 13).below.astype(float)}


def three(quick: bool) -> Data:
    """Three matrices with patterns of their own, whole numbers."""
    size = 200 if quick else 20_000
    found = {}
    for seed, name in enumerate("ABC", start=65):
        matrix = made.uniform(size, size, 8, seed=seed)
        matrix.data = np.random.default_rng(seed).integers(1, 9, matrix.nnz).astype(float)
        found[name] = matrix
    return found


def sampled(quick: bool) -> Data:
    """A sparse matrix and two dense factors, whole numbers."""
    size = 200 if quick else 20_000
    random = np.random.default_rng(68)
    matrix = made.uniform(size, size, 8, seed=68)
    matrix.data = random.integers(1, 9, matrix.nnz).astype(float)
    first, second = random.integers(1, 9, (size, INNER)), random.integers(1, 9, (INNER, size))
    return {"S": matrix, "A": first.astype(float), "B": second.astype(float)}


def in_sparse(data: Data, threads: int, apply: Callable[..., Any]) -> Runner:
    """PyData/Sparse on coordinates; dense operands stay. One thread."""
    coo = pydata.module().COO.from_scipy_sparse
    held = {name: a if isinstance(a, np.ndarray) else coo(a) for name, a in data.items()}
    return measured(lambda: apply(**held))


def in_finch(data: Data, threads: int, chain: Callable[..., Any]) -> Runner:
    """finch-tensor-lite. One thread."""
    size = max(int(np.prod(a.shape)) for a in data.values())
    if size > finch.MOST_ELEMENTS:
        return finch.prepare(chain, np.broadcast_to(0.0, size))
    return finch.prepare(chain, *map(dense, data.values()))


def in_duckdb(
    data: Data, threads: int, query: str, read: Callable[[Data, Mapping[str, Array]], Any] | None = None
) -> Runner:
    """DuckDB, a table for each operand."""
    return duckdb.prepare(query, data, threads, None if read is None else partial(read, data))


def placed(data: Data, columns: Mapping[str, Array]) -> csr_array:
    """The result of a query with rows, columns and values."""
    return csr_array((columns["v"], (columns["i"], columns["j"])), shape=data["S"].shape)


def sddmm(S: csr_array, A: Array, B: Array) -> Any:  # noqa: N803
    """At the entries of S only."""
    coo = S.tocoo()
    values = coo.data * np.einsum("nk,kn->n", A[coo.row], B[:, coo.col])
    return csr_array((values, (coo.row, coo.col)), shape=S.shape)


TASKS = (
    Task(
        "fused, triangles",
        "t = A[i,j]*A[j,k]*A[i,k]",
        {"A": "csr"},
        lower,
        lambda A: (A @ A).multiply(A).sum(),  # noqa: N803
        plain="scipy",
        peers={
            "duckdb": partial(
                in_duckdb,
                query="SELECT sum(A.v*B.v*C.v) FROM A, A AS B, A AS C WHERE A.j = B.i AND B.j = C.j AND A.i = C.i",
            ),
            "sparse": partial(in_sparse, apply=lambda A: ((A @ A) * A).sum()),  # noqa: N803
            "finch": partial(in_finch, chain=lambda f, A: f.sum(f.multiply(f.matmul(A, A), A), axis=1)),  # noqa: N803
        },
    ),
    Task(
        "fused, SDDMM",
        "C[i,j] = S[i,j]*sum(k: A[i,k]*B[k,j])",
        {"S": "csr", "A": "dense", "B": "dense", "C": "csr"},
        sampled,
        sddmm,
        plain="numpy",
        peers={
            "duckdb": partial(
                in_duckdb,
                query="SELECT S.i AS i, S.j AS j, sum(S.v*A.v*B.v) AS v FROM S, A, B "
                "WHERE S.i = A.i AND A.j = B.i AND B.j = S.j GROUP BY S.i, S.j",
                read=placed,
            ),
            "sparse": partial(in_sparse, apply=lambda S, A, B: S * (A @ B)),  # noqa: N803
            "finch": partial(in_finch, chain=lambda f, S, A, B: f.multiply(S, f.matmul(A, B))),  # noqa: N803
        },
    ),
    Task(
        "fused, sum of a product of three",
        "s = sum(i, j: A[i,j]*B[i,j]*C[i,j])",
        {"A": "csr", "B": "csr", "C": "csr"},
        three,
        lambda A, B, C: A.multiply(B).multiply(C).sum(),  # noqa: N803
        plain="scipy",
        peers={
            "duckdb": partial(
                in_duckdb,
                query="SELECT coalesce(sum(A.v*B.v*C.v), 0) FROM A, B, C "
                "WHERE A.i = B.i AND A.j = B.j AND A.i = C.i AND A.j = C.j",
            ),
            "sparse": partial(in_sparse, apply=lambda A, B, C: (A * B * C).sum()),  # noqa: N803
            "finch": partial(in_finch, chain=lambda f, A, B, C: f.sum(f.multiply(f.multiply(A, B), C), axis=1)),  # noqa: N803
        },
    ),
    Task(
        "fused, sum of a sum times a matrix",
        "s = sum(i, j: (A[i,j] + B[i,j])*C[i,j])",
        {"A": "csr", "B": "csr", "C": "csr"},
        three,
        lambda A, B, C: (A + B).multiply(C).sum(),  # noqa: N803
        plain="scipy",
        peers={
            "duckdb": partial(
                in_duckdb,
                query="SELECT coalesce(sum(T.v*C.v), 0) FROM (SELECT * FROM A UNION ALL SELECT * FROM B) AS T, C "
                "WHERE T.i = C.i AND T.j = C.j",
            ),
            "sparse": partial(in_sparse, apply=lambda A, B, C: ((A + B) * C).sum()),  # noqa: N803
            "finch": partial(in_finch, chain=lambda f, A, B, C: f.sum(f.multiply(f.add(A, B), C), axis=1)),  # noqa: N803
        },
    ),
)
