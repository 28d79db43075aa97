"""Packing into arrays that count from 1, as those of Fortran do, and other ways to say where a segment is."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import spfgen

POINTER = "index ptr[nrow + 1] { range 1 <= ptr(p) <= nnz + 1  property increasing }"
COLUMNS = "index idx[nnz] { range 1 <= idx(p) <= ncol }"
SPLIT = """index first[nrow] { range 1 <= first(p) <= nnz + 1 }
    index last[nrow] { range 0 <= last(p) <= nnz }"""
LAYOUTS = {
    "pointers": (
        "[r, p] -> [i, j] : 0 <= r < nrow and ptr(r) - 1 <= p < ptr(r + 1) - 1 and i = r and j = idx(p) - 1",
        f"{POINTER} {COLUMNS} value val[nnz] at [p]",
        {"ptr": [1, 3, 3, 5], "idx": [2, 4, 1, 4]},
    ),
    "positions": (
        "[r, p] -> [i, j] : 0 <= r < nrow and ptr(r) <= p < ptr(r + 1) and i = r and j = idx(p - 1) - 1",
        f"{POINTER} {COLUMNS} value val[nnz] at [p - 1]",
        {"ptr": [1, 3, 3, 5], "idx": [2, 4, 1, 4]},
    ),
    "rows": (
        "[r, p] -> [i, j] : 1 <= r <= nrow and ptr(r - 1) <= p < ptr(r) and i = r - 1 and j = idx(p - 1) - 1",
        f"{POINTER} {COLUMNS} value val[nnz] at [p - 1]",
        {"ptr": [1, 3, 3, 5], "idx": [2, 4, 1, 4]},
    ),
    "ends": (
        "[r, p] -> [i, j] : 0 <= r < nrow and first(r) - 1 <= p <= last(r) - 1 and i = r and j = idx(p) - 1",
        f"{SPLIT} {COLUMNS} value val[nnz] at [p]",
        {"first": [1, 3, 3], "last": [2, 2, 4], "idx": [2, 4, 1, 4]},
    ),
    "counts": (
        "[r, p] -> [i, j] : 0 <= r < nrow and at(r) - 1 <= p < at(r) - 1 + len(r) and i = r and j = idx(p) - 1",
        f"""index at[nrow] {{ range 1 <= at(p) <= nnz + 1 }}
        index len[nrow] {{ range 0 <= len(p) <= nnz }} {COLUMNS} value val[nnz] at [p]""",
        {"at": [1, 3, 3], "len": [2, 0, 2], "idx": [2, 4, 1, 4]},
    ),
    "list": (
        "[p] -> [i, j] : 1 <= p <= nnz and i = row(p - 1) - 1 and j = idx(p - 1) - 1",
        f"index row[nnz] {{ range 1 <= row(p) <= nrow }} {COLUMNS} value val[nnz] at [p - 1]",
        {"row": [1, 1, 3, 3], "idx": [2, 4, 1, 4]},
    ),
    "columns": (
        "[r, p] -> [i, j] : 0 <= r < nrow and ptr(r) <= p < ptr(r + 1) and i = r and j = idx(p) - 1",
        "index ptr[nrow + 1] { range 0 <= ptr(p) <= nnz  property increasing } "
        f"{COLUMNS} value val[nnz] at [p]",
        {"ptr": [0, 2, 2, 4], "idx": [2, 4, 1, 4]},
    ),
}  # fmt: skip
DENSE = np.array([[0, 2, 0, 3], [0, 0, 0, 0], [1, 0, 0, 4.0]])


def made(name: str) -> spfgen.LayoutHandle:
    relation, arrays, _ = LAYOUTS[name]
    return spfgen.parse(f"layout based(nrow, ncol) {{ size nnz relation {{ {relation} }} {arrays} }}").layouts["based"]


@pytest.mark.parametrize("name", LAYOUTS)
def test_arrays(name: str) -> None:
    packed = spfgen.pack(DENSE, made(name))
    assert {n: a.tolist() for n, a in packed.arrays.items() if n != "val"} == LAYOUTS[name][2]
    assert packed.arrays["val"].tolist() == [2, 3, 1, 4]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", LAYOUTS)
def test_there_and_back(name: str) -> None:
    """From other layouts, into them, and through a kernel; with nothing in it, too."""
    layout = made(name)
    kernel = spfgen.compile("y[i] = A[i,j]*x[j]", A=layout, x="dense", y="dense")
    random = np.random.default_rng(2)
    for rows, columns, density in ((0, 4, 1.0), (4, 0, 1.0), (5, 5, 0.0), (1, 1, 1.0), (40, 30, 0.2)):
        a = random.integers(1, 9, (rows, columns)) * (random.random((rows, columns)) < density).astype(float)
        x = random.integers(-3, 4, columns).astype(float)
        for given in (a, scipy.sparse.csr_array(a), spfgen.pack(a, "coo"), spfgen.pack(a, "csc")):
            packed = spfgen.pack(given, layout)
            assert np.array_equal(packed.to_numpy(), a)
            assert np.array_equal(packed.convert("csr").to_numpy(), a)
            assert np.array_equal(np.asarray(kernel(A=packed, x=x)), a @ x)
