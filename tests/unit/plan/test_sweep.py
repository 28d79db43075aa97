"""Two loops over segments as one sweep: when it is taken, that it needs its property, and that it is right."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import Clear, Sweep

ROWS = """
layout rows(nrow, ncol) {{
    size nnz
    relation {{ [pi, pj] -> [i, j] : 0 <= pi < nrow and ptr(pi) <= pj < ptr(pi + 1) and i = pi and j = col(pj) }}
    index ptr[nrow + 1] {{ range 0 <= ptr(p) <= nnz  {increasing} }}
    index col[nnz] {{ range 0 <= col(p) < ncol }}
    value val[nnz] at [pj]
}}
"""
TEXT = "y[i] = A[i, j]*x[j]"


def sweeps(kernel: spfgen.Kernel) -> list[Sweep]:
    return [n for plan in kernel.generated.plans for n in walk(plan) if isinstance(n, Sweep)]


def data(
    rows: int, columns: int, density: float, stored: int, seed: int = 0
) -> tuple[csr_array, np.ndarray, np.ndarray]:
    """A matrix with empty rows here and there and at both ends, and positions and values of a vector."""
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((rows, columns)) < density, rng.integers(1, 9, (rows, columns)), 0).astype(float)
    dense[: rows // 10] = 0
    dense[rows - rows // 10 :] = 0
    dense[rows // 3 : rows // 2] = 0
    index = np.sort(rng.choice(columns, stored, replace=False)).astype(np.int32)
    return csr_array(dense), index, rng.integers(1, 9, stored).astype(float)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("stored", [0, 1, 2, 3, 8, 9, 37, 300])
@pytest.mark.parametrize("op", ["=", "+="])
def test_sweeps_are_right(threads: int, stored: int, op: str) -> None:
    kernel = spfgen.compile(TEXT.replace("=", op), A="csr", x="sv", y="dense", finds={"x.p": "bitmap"}, threads=threads)
    (sweep,) = sweeps(kernel)
    assert sweep.parallel
    assert any(isinstance(n, Clear) for plan in kernel.generated.plans for n in walk(plan)) == (op == "=")
    a, index, val = data(200, 300, 0.3, stored)
    x = spfgen.tensor("sv", shape=300, idx=index, val=val)
    full = np.zeros(300)
    full[index] = val
    y = np.full(200, 5.0)
    kernel(A=a, x=x, y=y)
    assert np.array_equal(y, a @ full + (5.0 if op == "+=" else 0.0))


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (1, 1), (5, 40)])
def test_small_matrices(shape: tuple[int, int]) -> None:
    kernel = spfgen.compile(TEXT, A="csr", x="sv", y="dense", finds={"x.p": "bitmap"})
    a = np.arange(1.0, 1 + shape[0] * shape[1]).reshape(shape)
    index = np.arange(0, shape[1], 2, dtype=np.int32)
    x = spfgen.tensor("sv", shape=shape[1], idx=index, val=np.ones(len(index)))
    assert np.array_equal(kernel(A=csr_array(a), x=x), a[:, ::2].sum(axis=1))


@pytest.mark.parametrize("increasing", ["property increasing", ""])
def test_segments_that_do_not_rise_are_not_swept(increasing: str) -> None:
    """Without the property a segment may be empty because it ends before it begins."""
    layout = spfgen.parse(ROWS.format(increasing=increasing)).layouts["rows"]
    kernel = spfgen.compile(TEXT, A=layout, x="sv", y="dense", finds={"x.p": "bitmap"})
    assert bool(sweeps(kernel)) == bool(increasing)
    ptr = [0, 2, 4] if increasing else [4, 1, 3, 0, 2]
    col = np.array([0, 1, 2, 3], np.int32)
    a = spfgen.tensor(
        layout, shape=(len(ptr) - 1, 4), ptr=np.array(ptr, np.int32), col=col, val=np.array([1.0, 2, 3, 4])
    )
    x = spfgen.tensor("sv", shape=4, idx=np.array([1, 2], np.int32), val=np.array([10.0, 100.0]))
    wanted = [20.0, 300.0] if increasing else [0.0, 320.0, 0.0, 20.0]
    assert np.array_equal(kernel(A=a, x=x), wanted)


def test_a_hit_that_needs_the_row_earlier_is_not_swept() -> None:
    """The key depends on the row: it must be known before the look-up."""
    text = "y[i] = A[i, j]*x[i + j]"
    kernel = spfgen.compile(text, A="csr", x="sv", y="dense", finds={"x.p": "bitmap"})
    assert not sweeps(kernel)
    a, index, val = data(20, 30, 0.4, 12)
    full = np.zeros(49)
    full[index] = val
    x = spfgen.tensor("sv", shape=49, idx=index, val=val)
    wanted = [sum(a[i, j] * full[i + j] for j in range(30)) for i in range(20)]
    assert np.array_equal(kernel(A=a, x=x), wanted)


@pytest.mark.parametrize("algorithm", ["bitmap", "scatter", "array", "search"])
def test_what_is_not_stored_adds_nothing_even_to_infinity(algorithm: str) -> None:
    kernel = spfgen.compile(TEXT, A="csr", x="sv", y="dense", finds={"x.p": algorithm})
    a = csr_array(np.array([[np.inf, 2.0, np.nan], [3.0, np.inf, 1.0]]))
    x = spfgen.tensor("sv", shape=3, idx=np.array([1], np.int32), val=np.array([-0.0]))
    y = kernel(A=a, x=x)
    assert y[0] == 0.0
    assert np.isnan(y[1]), "a stored zero times infinity is not a number"
