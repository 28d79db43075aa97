"""Places all over the memory are fetched ahead, where an index array alone says where they are."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csc_array, csr_array

import spfgen
from spfgen.plan import scattered
from spfgen.plan.nodes import Scan
from tests.unit.plan.asking import of_kind

SPMV, TRANSPOSED = "y[i] = A[i,j]*x[j]", "y[j] += A[i,j]*x[i]"
FETCHED = "what a later"
ONE_BASED = """
layout one_based(nrow, ncol) {
    size nnz
    relation { [q, p] -> [i, j] : 0 <= q < ncol and j = q and ptr(q) - 1 <= p < ptr(q + 1) - 1 and i = idx(p) - 1 }
    index ptr[ncol + 1] { range 1 <= ptr(p) <= nnz + 1  property increasing
        property ptr(0) = 1  property ptr(ncol) = nnz + 1 }
    index idx[nnz] { range 1 <= idx(p) <= nrow }
    value val[nnz] at [p]
}
"""


@pytest.mark.parametrize(
    ("statement", "layout", "places"),
    [
        (SPMV, "csc", ["A.rowidx"]),
        (SPMV, "dcsc", ["A.rowidx"]),
        (SPMV, "coo_unsorted", ["A.idx_1"]),
        (TRANSPOSED, "csr", ["A.colidx"]),
        (TRANSPOSED, "csr_unsorted", ["A.colidx"]),
        ("y[k] = A[i,j,k]*x[j]", "csf3", ["A.idx_3"]),
        (SPMV, "csr", []),  # has a sum for each row
        (SPMV, "dcsr", []),
        (SPMV, "coo", []),  # adds up what belongs to one place
        (SPMV, "dia", []),
        (TRANSPOSED, "ell", []),  # its index array has rows
        ("C[i,k] = A[i,j]*x[j]*z[k]", "csc", []),  # a row of places, one behind the other
    ],
)
def test_where_an_index_array_names_the_places(statement: str, layout: str, places: list[str]) -> None:
    others = {n: "dense" for n in "xyzC" if f"{n}[" in statement}
    found = [n.scattered for n in of_kind(spfgen.compile(statement, A=layout, **others), Scan) if n.scattered]
    assert [s.array.function for ahead in found for s in ahead.spread] == places


@pytest.fixture
def few_are_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scattered, "MUCH", 8)
    monkeypatch.setattr(scattered, "WINDOW", 2)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("layout", ["csc", "csc_unsorted", "coo_unsorted", "dcsc", "one_based", "csc<float, int64>"])
def test_sums_are_the_same(few_are_much: None, layout: str, threads: int) -> None:
    """Of nothing, of less than what is fetched ahead, of more; with empty columns, and places one after the other."""
    spec = spfgen.parse(f"{ONE_BASED} kernel k {{ tensor A : {layout} tensor x, y : dense {SPMV} }}")
    kernel = spec.kernels["k"].compile(threads=threads)
    assert FETCHED in kernel.source
    random = np.random.default_rng(7)
    shapes = ((0, 3, 1.0), (8, 0, 1.0), (5, 5, 1.0), (9, 9, 0.0), (20, 3, 0.4), (300, 200, 0.1))
    matrices = [random.integers(1, 9, (m, n)) * (random.random((m, n)) < part) for m, n, part in shapes]
    for a in (*matrices, np.diag(np.arange(1, 100))):
        x = random.integers(-3, 4, a.shape[1])
        kind = np.float32 if "float" in layout else np.float64
        found = kernel(A=_stored(a.astype(kind), layout, spec), x=x.astype(kind))
        assert np.array_equal(np.asarray(found), a @ x)


def _stored(a: np.ndarray, layout: str, spec: spfgen.Spec) -> spfgen.Tensor:
    if layout != "one_based":
        return spfgen.pack(a, layout)
    columns = csc_array(a).sorted_indices()
    arrays = {"ptr": columns.indptr + 1, "idx": columns.indices + 1, "val": columns.data}
    return spfgen.tensor(spec.layouts[layout], shape=a.shape, **arrays)


@pytest.mark.parametrize("threads", [1, 2])
def test_as_many_as_memory_holds(threads: int) -> None:
    random = np.random.default_rng(8)
    size = scattered.MUCH + 1000
    a = csr_array((np.ones(size), random.permutation(size).astype(np.int32), np.arange(size + 1)), shape=(size, size))
    x = random.integers(0, 9, size).astype(float)
    kernel = spfgen.compile(TRANSPOSED, A="csr", x="dense", y="dense", threads=threads)
    assert FETCHED in kernel.source
    assert np.array_equal(kernel(A=a, x=x, y=np.zeros(size)), a.T @ x)
