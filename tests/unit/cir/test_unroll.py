"""Loops that the schedule unrolls are written out, with additions in the same order."""

from __future__ import annotations

import re

import numpy as np
import pytest

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import Scan

SPMV = "y[i] = A[i,j]*x[j]"
CSR = {"A": "csr", "x": "dense", "y": "dense"}
RNG = np.random.default_rng(3)


def rows_of(*lengths: int, width: int = 16) -> np.ndarray:
    """A matrix whose rows have so many entries, anywhere."""
    return np.array([RNG.permuted(np.arange(width) < n) * RNG.random(width) for n in lengths]).reshape(-1, width)


def copies(source: str, dim: str) -> int:
    """How often a round of the loop has its body."""
    return len(re.findall(rf"const int64_t {dim} = {dim}_next( [+-] \d+)?;", source))


@pytest.mark.parametrize("times", [2, 5])
def test_segments_of_all_lengths(times: int) -> None:
    """None, one, and around what a round takes; infinities and what is no number; any number of threads. Products are
    exact, so that sums tell the order of the additions."""
    kernels = [spfgen.compile(SPMV, **CSR, schedule=f"unroll A.pj by {times}", threads=n) for n in (1, 2, 4, 7)]
    kernel = kernels[0]
    assert f"while (pj_next + {times} <= pj_end)" in kernel.source
    assert copies(kernel.source, "pj") == times
    assert "GCC unroll" not in kernel.source
    a, x = rows_of(*range(2 * times + 2), times, 0, 0, 1), RNG.choice([-2.0, -1.0, 0.5, 1.0, 4.0], 16)
    for matrix in (a, a[:0], a[:1], a[times : times + 1], np.zeros_like(a)):
        plain = [0.0] * len(matrix)
        for i, j in np.argwhere(matrix):
            plain[i] = matrix[i, j] * x[j] + plain[i]
        packed = spfgen.pack(matrix, "csr")
        found = [k(A=packed, x=x) for k in kernels]
        assert np.array_equal(found[0], plain)
        assert all(np.allclose(f, plain) for f in found)
    odd = np.where(x > 1, np.inf, np.where(x < -1, np.nan, x))
    expected = [sum((r[j] * odd[j] for j in np.flatnonzero(r)), 0.0) for r in a]
    assert np.allclose(kernel(A=spfgen.pack(a, "csr"), x=odd), expected, equal_nan=True)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("rows", [0, 1, 2, 3, 4, 8])
def test_a_loop_around_another(rows: int) -> None:
    """Both are unrolled: each iteration declares what is its own, and the loop inside of each has its rest."""
    kernel = spfgen.compile(SPMV, **CSR, schedule="serial i; unroll i by 3; unroll A.pj by 2")
    assert copies(kernel.source, "i") == 3
    assert copies(kernel.source, "pj") == 2 * 4
    a, x = rows_of(*([3, 0, 2, 7, 1, 4, 0, 5][:rows])), np.arange(1.0, 17)
    assert np.allclose(kernel(A=spfgen.pack(a, "csr"), x=x), a @ x)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 7])
def test_a_loop_that_runs_downwards(size: int) -> None:
    text = "x[i] = (b[i] - sum(j > i: L[i,j]*x[j]))/L[i,i]"
    kernel = spfgen.compile(text, L="csr", x="dense", b="dense", schedule="unroll i by 3; unroll L.pj by 2")
    assert "while (pj_next - 2 >= pj_first)" in kernel.source
    upper = np.triu(rows_of(*[size] * size, width=size)) + 2 * np.eye(size) if size else np.zeros((0, 0))
    b = np.arange(1.0, size + 1)
    assert np.allclose(kernel(L=spfgen.pack(upper, "csr"), b=b), np.linalg.solve(upper, b))


def test_what_is_within_a_tile() -> None:
    """Iterations of a tile, which may be cut off."""
    kernel = spfgen.compile(SPMV, **CSR, schedule="tile i by 4 as it; parallel it; unroll i by 2", threads=2)
    assert copies(kernel.source, "i") == 2
    for rows in (0, 1, 4, 6, 7):
        a = rows_of(*range(rows))
        assert np.allclose(kernel(A=spfgen.pack(a, "csr"), x=np.ones(16)), a.sum(axis=1))


def test_loops_that_stay_as_they_are() -> None:
    """Much text would be no gain: the compiler may do as it likes."""
    kernel = spfgen.compile(SPMV, **CSR, schedule="unroll A.pj by 100000")
    assert re.search(r"#pragma GCC unroll 1000\n *for \(int64_t pj = ", kernel.source)
    a = rows_of(0, 3, 16)
    assert np.allclose(kernel(A=spfgen.pack(a, "csr"), x=np.ones(16)), a.sum(axis=1))


def test_fused_loops_are_plain() -> None:
    schedule = "order i, k; parallel i; split k by 3 as outer; fuse i, outer; unroll k by 2"
    kernel = spfgen.compile("y[i,k] = A[i,j]*x[j,k]", **CSR, schedule=schedule, threads=2)
    assert next(n.collapse for p in kernel.generated.plans for n in walk(p) if isinstance(n, Scan)) == 2
    assert copies(kernel.source, "k") == 2
    a, x = rows_of(0, 3, 16), RNG.random((16, 5))
    assert np.allclose(kernel(A=spfgen.pack(a, "csr"), x=x), a @ x)
