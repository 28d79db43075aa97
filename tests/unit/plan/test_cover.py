"""Targets that are reached through pointer arrays are not cleared where every place is known to be met."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import Clear, Scan
from spfgen.plan.transform.clearing import GAPS, SPAN
from spfgen.run import compile as compiling
from tests.differential.support import eager_source

ROWS = """
layout rows(m, n) {
    size nnz
    relation { [pi, pj] -> [i, j] : 0 <= pi < m and ptr(pi) <= pj < ptr(pi + 1) and i = pi and j = idx(pj) }
    index ptr[m + 1] { range 0 <= ptr(p) <= nnz %s }
    index idx[nnz] { range 0 <= idx(p) < n property strictly increasing within ptr }
    value val[nnz] at [pj]
}
kernel k { tensor A : rows tensor C : rows shares A  C[i, j] = 2*A[i, j] }
"""
PROPERTIES = ("property increasing", "property ptr(0) = 0", "property ptr(m) = nnz")


def cleared(made: spfgen.Kernel) -> bool:
    return any(isinstance(n, Clear) for plan in made.generated.plans for n in walk(plan))


def test_segments_that_are_all_of_the_array_are_not_cleared() -> None:
    made = spfgen.parse(ROWS % " ".join(PROPERTIES)).kernels["k"].compile()
    assert not cleared(made)


@pytest.mark.parametrize("missing", PROPERTIES[1:])
def test_without_a_property_the_target_is_cleared(missing: str) -> None:
    """What lies before the first segment or after the last is set to 0."""
    spec = spfgen.parse(ROWS % " ".join(p for p in PROPERTIES if p != missing))
    made = spec.kernels["k"].compile()
    assert cleared(made)
    ptr = np.array([1, 2, 4] if missing == PROPERTIES[1] else [0, 2, 3], np.int32)
    idx = np.array([0, 1, 0, 1], np.int32)
    a = spfgen.tensor(spec.layouts["rows"], shape=(2, 3), ptr=ptr, idx=idx, val=np.ones(4))
    own = {name: a.arrays[name] for name in ("ptr", "idx")}
    c = spfgen.tensor(spec.layouts["rows"], shape=(2, 3), **own, val=np.full(4, 7.0))
    made(A=a, C=c)
    met = np.zeros(4, bool)
    met[a.arrays["ptr"][0] : a.arrays["ptr"][-1]] = True
    assert np.array_equal(c.arrays["val"], np.where(met, 2.0, 0.0))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["csr", "csc", "csf"])
@pytest.mark.parametrize("shape", [(5, 7), (0, 4), (4, 0), (1, 1)])
def test_what_is_not_cleared_is_all_written(layout: str, shape: tuple[int, int]) -> None:
    text = f"kernel k {{ tensor A : {layout} tensor B, D : dense tensor C : {layout} shares A  C[i, j] = A[i, j]*B[i, k]*D[k, j] }}"  # noqa: E501
    made = spfgen.parse(text).kernels["k"].compile()
    random = np.random.default_rng(1)
    dense = random.integers(1, 5, shape) * (random.random(shape) < 0.4).astype(float)
    b, d = random.integers(0, 4, (shape[0], 3)).astype(float), random.integers(0, 4, (3, shape[1])).astype(float)
    assert not cleared(made)
    for threads in (1, 3):
        bound = spfgen.parse(text).kernels["k"].compile(threads=threads)
        found = bound(A=spfgen.pack(dense, layout), B=b, D=d)
        assert np.array_equal(found.to_numpy(), dense * (b @ d))


def test_a_sum_over_fibres_is_stored_once() -> None:
    made = spfgen.parse(
        "kernel k { tensor A : csf3 tensor B : dense tensor C : csf shares A on i, j  C[i, j] = A[i, j, k]*B[k] }"
    )
    kernel = made.kernels["k"].compile()
    random = np.random.default_rng(2)
    dense = random.integers(1, 5, (4, 5, 6)) * (random.random((4, 5, 6)) < 0.3).astype(float)
    b = random.integers(1, 5, 6).astype(float)
    found = kernel(A=spfgen.pack(dense, "csf3"), B=b)
    assert np.array_equal(found.to_numpy(), dense @ b)
    assert not cleared(kernel)


# --- what lies between the rows that are reached -------------------------------------------------------------


def gaps(made: spfgen.Kernel) -> bool:
    """Whether places that no iteration writes are cleared in the loop."""
    return any(isinstance(n, Clear) and n.because in (GAPS, SPAN) for plan in made.generated.plans for n in walk(plan))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("rows", [(), (0,), (5,), (3,), (1, 2, 5), (0, 4), range(6)])
@pytest.mark.parametrize("other", ["csr", "dense"])
def test_rows_that_are_not_stored_are_cleared(rows: tuple[int, ...], other: str) -> None:
    text = f"kernel k {{ tensor A : dcsr tensor B : {other} tensor C : dense C[i, k] = A[i, j]*B[j, k] }}"
    random = np.random.default_rng(3)
    left = np.zeros((6, 4))
    left[list(rows)] = random.integers(1, 5, (len(rows), 4))
    right = random.integers(0, 3, (4, 20)).astype(float)
    for threads in (1, 3):
        made = spfgen.parse(text).kernels["k"].compile(threads=threads)
        assert gaps(made)
        c = np.full((6, 20), 7.0)
        made(A=spfgen.pack(left, "dcsr"), B=right if other == "dense" else spfgen.pack(right, other), C=c)
        assert np.array_equal(c, left @ right)


SLOTS = """
layout slots(m, n) {
    size rows, width
    relation { [pi, k] -> [i, j] : 0 <= pi < rows and 0 <= k < width and i = row(pi) and j = idx(pi, k) }
    index row[rows] { range 0 <= row(p) < m property strictly increasing }
    index idx[rows, width] { range 0 <= idx(p, k) < n property forall p, k, l : k < l => idx(p, k) < idx(p, l) }
    value val[rows, width] at [pi, k]
}
kernel k { tensor A : slots tensor x, y : dense y[i] = A[i, j]*x[j] }
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["dcsr", "slots"])
def test_values_between_those_of_a_part_are_cleared_at_once(layout: str) -> None:
    """Parts begin and end within rows that lie apart, at the first row there is or behind it, and may be empty."""
    quick = compiling.build
    text = SLOTS if layout == "slots" else SLOTS.replace("A : slots", "A : dcsr")
    spec = spfgen.parse(text).kernels["k"]
    made, bound = spec.compile(), [spec.compile(threads=t) for t in (1, 2, 4, 7)]
    assert any(isinstance(n, Scan) and n.between is not None for plan in made.generated.plans for n in walk(plan))
    rng, width = np.random.default_rng(4), 30
    for size in (0, 1, 2, 9, 60):
        for density in (0.0, 0.1, 0.5, 1.0):
            rows = np.flatnonzero(rng.random(size) < density).astype(np.int32)
            lengths = np.full(len(rows), 3) if layout == "slots" else rng.integers(0, 9, len(rows)) ** 2 % width
            places = [np.sort(rng.permutation(width)[:count]).astype(np.int32) for count in lengths]
            dense = np.zeros((size, width))
            for row, found in zip(rows, places, strict=True):
                dense[row, found] = rng.integers(1, 5, len(found))
            values = dense[np.repeat(rows, lengths), np.concatenate([*places, np.zeros(0, np.int32)])]
            columns = np.concatenate([*places, np.zeros(0, np.int32)])
            if layout == "slots":
                own = spfgen.parse(text).layouts["slots"]
                columns, values = columns.reshape(-1, 3), values.reshape(-1, 3)
                a = spfgen.tensor(own, shape=(size, width), row=rows, idx=columns, val=values)
            else:
                ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
                a = spfgen.tensor("dcsr", shape=(size, width), rowidx=rows, rowptr=ends, colidx=columns, val=values)
            x = rng.integers(1, 5, width).astype(float)
            for kernel in bound:
                y = np.full(size, np.nan)
                with patch.object(compiling, "build", lambda source: quick(eager_source(source))):
                    kernel(A=a, x=x, y=y)
                assert np.array_equal(y, dense @ x), (size, density, kernel.threads)


def test_rows_without_places_and_no_rows() -> None:
    made = (
        spfgen.parse("kernel k { tensor A : dcsr tensor B, C : dense C[i, k] = A[i, j]*B[j, k] }")
        .kernels["k"]
        .compile()
    )
    for shape, columns in (((0, 3), 2), ((3, 3), 0), ((3, 0), 2)):
        a = np.ones(shape)
        c = np.full((shape[0], columns), 7.0)
        made(A=spfgen.pack(a, "dcsr"), B=np.ones((shape[1], columns)), C=c)
        assert np.array_equal(c, a @ np.ones((shape[1], columns)))


def test_rows_in_no_order_are_cleared_before() -> None:
    text = """
    layout some_rows(m, n) {
        size rows, nnz
        relation { [pi, pj] -> [i, j] : 0 <= pi < rows and ptr(pi) <= pj < ptr(pi + 1) and i = row(pi) and j = idx(pj) }
        index row[rows] { range 0 <= row(p) < m property forall p, q : p != q => row(p) != row(q) }
        index ptr[rows + 1] { range 0 <= ptr(p) <= nnz property increasing }
        index idx[nnz] { range 0 <= idx(p) < n property strictly increasing within ptr }
        value val[nnz] at [pj]
    }
    kernel k { tensor A : some_rows tensor B, C : dense C[i, k] = A[i, j]*B[j, k] }
    """
    spec = spfgen.parse(text)
    made = spec.kernels["k"].compile()
    assert cleared(made)
    assert not gaps(made)
    arrays = {"row": np.array([3, 1]), "ptr": np.array([0, 1, 3]), "idx": np.array([2, 0, 1])}
    a = spfgen.tensor(spec.layouts["some_rows"], shape=(5, 3), **arrays, val=np.array([2.0, 3, 4]))
    right = np.arange(6.0).reshape(3, 2)
    assert np.array_equal(made(A=a, B=right, C=np.full((5, 2), 7.0)), a.to_numpy() @ right)


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (0, 4), (4, 0)])
def test_rows_beyond_the_result_are_no_gaps(shape: tuple[int, int]) -> None:
    """The entries of x go on where the diagonal, and with it y, ends."""
    a, x = np.diag(np.arange(1.0, 6))[: shape[0], : shape[1]], np.array([0, 1.0, 0, 2, 3])[: shape[1]]
    made = spfgen.compile("y[i] = A[i, j]*x[j]", A="diagonal", x="sv", y="dense")
    assert not gaps(made)
    held = np.full(shape[0] + 8, 7.0)
    made(A=spfgen.pack(a, "diagonal"), x=spfgen.pack(x, "sv"), y=held[: shape[0]])
    assert np.array_equal(held[: shape[0]], a @ x)
    assert np.array_equal(held[shape[0] :], np.full(8, 7.0))


def test_a_loop_that_ends_before_it_begins_is_not_shared_out() -> None:
    """Below the diagonal the loop over rows begins at 1: with no rows, no array has that element."""
    made = spfgen.compile("C[i, j] = A[i, j]*B[i, j]", threads=2, A="sym_csr", B="csr", C="dense")
    assert "if (1 < " in made.source
    for size in (0, 1, 3):
        a = np.arange(size * size, dtype=float).reshape(size, size)
        a = a + a.T
        assert np.array_equal(made(A=spfgen.pack(a, "sym_csr"), B=spfgen.pack(a, "csr")), a * a)
