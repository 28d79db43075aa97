"""Segments that lie one behind the other, gone through in one loop."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import PLANS, Flatten, Scan

PRODUCT, TOTALS = "y[i] += A[i,j]*x[j]", "y[i] += A[i,j]"
SEGMENTS = """
layout own(nrow, ncol) {
    size nnz
    relation { [p, q] -> [i, j] : 0 <= p < ncol and start(p) <= q < start(p + 1) and i = row(q) and j = p }
    index start[ncol + 1] { range 0 <= start(p) <= nnz PROPERTY }
    index row[nnz] { range 0 <= row(q) < nrow }
    value val[nnz] at [q]
}
kernel k { tensor A : own tensor x, y : dense y[i] += A[i,j]*x[j] }
"""


def ways(kernel: spfgen.Kernel) -> list[Flatten]:
    loops = (n for p in kernel.generated.plans for n in walk(p, PLANS) if isinstance(n, Scan))
    return [n.flatten for n in loops if n.flatten is not None]


@pytest.mark.parametrize(
    ("text", "layout", "expected"),
    [
        (PRODUCT, "csc", [(True, False)]),
        (TOTALS, "csc", [(False, False)]),  # no position needs its column
        (PRODUCT, "csr", []),  # what a row adds up is stored once
        (PRODUCT, "coo", []),
    ],
)
def test_which_loops_are_flattened(text: str, layout: str, expected: list[tuple[bool, bool]]) -> None:
    operands = {"x": "dense"} if "x" in text else {}
    found = ways(spfgen.compile(text, A=layout, y="dense", **operands))
    assert [(w.short is not None, bool(w.hits)) for w in found] == expected


@pytest.mark.parametrize(("property_", "count"), [("property increasing", 1), ("", 0)])
def test_that_segments_rise_is_declared(property_: str, count: int) -> None:
    assert len(ways(spfgen.parse(SEGMENTS.replace("PROPERTY", property_)).kernels["k"].compile())) == count


def uneven(columns: int, mean: float, longest: int = 0) -> sp.csc_array:
    """Columns of many lengths, one of which may be much longer."""
    rng = np.random.default_rng(columns)
    lengths = rng.poisson(mean, columns)
    if columns:
        lengths[columns // 3] += longest
    rows = rng.integers(0, 50, lengths.sum())
    starts = np.concatenate([[0], np.cumsum(lengths)])
    made = sp.csc_array((rng.integers(1, 9, len(rows)).astype(float), rows, starts), shape=(50, columns))
    made.sum_duplicates()
    return made


@pytest.mark.sampled(1)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("columns", "mean", "longest"), [(0, 1, 0), (300, 0, 0), (700, 1, 0), (3000, 0.1, 0), (900, 2, 3000), (300, 4, 0)]
)
@pytest.mark.parametrize("text", [PRODUCT, TOTALS])
def test_results(text: str, columns: int, mean: float, longest: int, threads: int) -> None:
    matrix = uneven(columns, mean, longest)
    x, y = np.arange(columns) % 7.0, np.arange(50.0)
    operands = {"x": "dense"} if "x" in text else {}
    kernel = spfgen.compile(text, A="csc", y="dense", threads=threads, **operands)
    expected = y + matrix @ (x if operands else np.ones(columns))
    kernel(A=matrix, y=y, **({"x": x} if operands else {}))
    assert np.array_equal(y, expected)


def test_segments_that_fill_all_marks() -> None:
    """512 positions, the places of the marks, and empty segments behind them."""
    lengths = np.array([5] * 102 + [2] + [0] * 25 + [0, 3, 1] * 200)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    rows = np.arange(starts[-1]) % 50
    matrix = sp.csc_array((np.ones(len(rows)), rows, starts), shape=(50, len(lengths)))
    matrix.sort_indices()
    x = np.arange(len(lengths)) % 7.0
    kernel = spfgen.compile("y[i] = A[i,j]*x[j]", A="csc", x="dense", y="dense", threads=1)
    assert np.array_equal(kernel(A=matrix, x=x), matrix @ x)


SPARSE = "y[i] = A[i,j]*x[j]"


@pytest.mark.parametrize(
    ("text", "layout", "count"),
    [
        (SPARSE, "csr", 1),
        (SPARSE, "dense", 0),
        ("y = A[i,j]*x[j]", "csr", 0),  # what all rows add up stays in a register
        ("y[k] = A[i,j]*x[j]*B[i,k]", "csr", 0),  # a hit goes on with the row
    ],
)
def test_which_lookups_are_swept(text: str, layout: str, count: int) -> None:
    operands = {"B": "csr"} if "B" in text else {}
    found = ways(spfgen.compile(text, A=layout, x="sv", y="dense", **operands))
    assert sum(bool(w.hits) for w in found) == count


@pytest.mark.sampled(1)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("stored", [0, 1, 2, 7, 9, 40])
@pytest.mark.parametrize("op", ["=", "+="])
def test_sweeps(op: str, stored: int, threads: int) -> None:
    """Blocks of positions without a hit, and with many; empty rows at both ends."""
    rng = np.random.default_rng(stored)
    dense = rng.integers(1, 9, (400, 900)) * (rng.random((400, 900)) < rng.choice([0, 0.01, 0.6], (400, 1)))
    dense[:3] = dense[-3:] = 0
    x = np.zeros(900)
    x[rng.choice(900, stored, replace=False)] = rng.integers(1, 9, stored)
    kernel = spfgen.compile(f"y[i] {op} A[i,j]*x[j]", A="csr", x="sv", y="dense", threads=threads)
    y = np.arange(400.0)
    expected = dense @ x + (y if op == "+=" else 0)
    result = kernel(A=sp.csr_array(dense.astype(float)), x=spfgen.pack(x, "sv"), y=y)
    assert np.array_equal(y if result is None else result, expected)


@pytest.mark.parametrize("threads", [1, 3])
def test_one_sum_of_all_rows(threads: int) -> None:
    rng = np.random.default_rng(3)
    dense = rng.integers(1, 9, (300, 700)) * (rng.random((300, 700)) < 0.2)
    x = np.zeros(700)
    x[[3, 500]] = 2
    kernel = spfgen.compile("y = A[i,j]*x[j]", A="csr", x="sv", y="dense", threads=threads)
    assert kernel(A=sp.csr_array(dense.astype(float)), x=spfgen.pack(x, "sv")) == (dense @ x).sum()
