"""Small programs that random testing found to break the compiler once; each now compiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import spfgen

LAYOUT = """
layout masked(n) {
    relation { [p] -> [i] : 0 <= p < n and mask(p) = 1 and i = p }
    index mask[n] { range 0 <= mask(p) <= 1 }
    value val[n] at [p]
}
layout even_columns(nrow, ncol) {
    relation { [a, b] -> [i, j] : 0 <= a < nrow and 0 <= b < ncol and i = a and j = b and (exists k : b = 2*k) }
    value val[nrow, ceil(ncol/2)] at [a, floor(b/2)]
}
layout and_its_reverse(n) {
    size nnz
    relation { [p] -> [i] : 0 <= p < nnz and (i = idx(p) or i = n - 1 - idx(p)) }
    index idx[nnz] { range 0 <= idx(p) < n }
    value val[nnz] at [p]
}
layout one_in_four_rows(nrow, ncol) {
    relation { [b, r] -> [i, j] :
        0 <= 4*b < nrow and 0 <= r < min(4, nrow - 4*b) and i = 4*b + r and j = col(b) }
    index col[ceil(nrow/4)] { range 0 <= col(p) <= ncol }
    value val[ceil(nrow/4)] at [b]
}
layout dense_fibres(n1, n2, n3) {
    size nf
    relation { [f, t] -> [i, j, k] : 0 <= f < nf and 0 <= t < n3 and i = one(f) and j = two(f) and k = t }
    index one[nf] { range 0 <= one(f) < n1 }
    index two[nf] { range 0 <= two(f) < n2 }
    value val[nf, n3] at [f, t]
}
layout lower_half(nrow, ncol) {
    size nnz
    relation { [r, p] -> [i, j] : 0 <= r < nrow and ptr(r) <= p < ptr(r + 1) and i = r and j = idx(p) }
    index ptr[nrow + 1] { range 0 <= ptr(p) <= nnz  property increasing }
    index idx[nnz] {
        range 0 <= idx(p) < nrow
        property strictly increasing within ptr
        property forall r, p : ptr(r) <= p < ptr(r + 1) => idx(p) <= r
    }
    value val[nnz] at [p]
}
layout bidiagonal(n, m) {
    relation { [p] -> [p, p] : 0 <= p < n; [q] -> [q, q + 1] : 0 <= q < n }
    value val[n] at [p]
}
"""
TEXTS = {
    "an index twice in one subscript": "tensor x, y : dense  y[i] = x[i + i]",
    "an index that cancels": "tensor x, y : dense  y[i] = x[i - i]",
    "two statements over blocks": "tensor A : bcsr  tensor y : dense  y[i] += A[i, j]; y[i] += A[i, j]",
    "blocks of one row": "tensor A : bcsr(R=1, C=2)  tensor y : dense  y[i] += A[i, j]; y[i] += A[i, j]",
    "one tensor in two terms": "tensor A : warp24  tensor y : dense  y[i] += A[i, j] + A[i, k]",
    "a quotient of a size": "tensor x, y : dense  size w  y[i] = x[i] where floor(w/2) != i",
    "one extent for both coordinates": "size n  tensor A[n, n] : bcsr  s = A[j, k] where j != 1",
    "a position that is a number": "tensor C : warp24  tensor y : dense  y[j] = C[0, j + 1]",
    "a table whose find is called like an index": "tensor y : masked  tensor x, z : dense  y[l] = x[k]*z[l + 1]"
    "  schedule { order k }",
    "a mirrored subscript": "tensor C : bcsr  tensor D : diagonal  tensor y : dense  y[j] = C[3 - j, i]*D[i, j]",
    "a bound that only a quotient has": "tensor Y : even_columns  tensor C : bidiagonal  Y[l, k] += C[k, l - 1]"
    "  schedule { tile k by 3 as kk; order kk, l, k }",
    "a value that is the same in fused loops": "tensor Y : dense  tensor b : dense  Y[k, i] += b[k]"
    "  schedule { fuse k, i }",
    "an array that may be empty": "size n  size m  size l  tensor C[n, n] : one_in_four_rows"
    "  tensor D[n, m] : one_in_four_rows  tensor E[n, n, n] : coo  tensor Y[l, l, n] : dense"
    "  Y[0, j, i + 1] += C[i, i]*D[i, i + 1]*E[i, i, i] where (0 <= i < j or i >= 4) or (3*i - 1) % 3 < 0",
    "an index that is two things in sums of one loop": "tensor v : and_its_reverse  tensor x, y : dense"
    "  y[i] = v[i + 1]*sum(j: v[j]*x[j])",
    "an extent that is a quotient, of a size that may be 0": "tensor C, D : one_in_four_rows  tensor y : dense"
    "  y[j] += C[i, i]*D[i, i + 1] where 0 <= i < j or i >= 4",
    "a loop of the schedule that only a quotient bounds": "tensor A : one_in_four_rows  tensor B : csr"
    "  tensor C : dense  C[i, j] = B[i, j]*A[i, j]  schedule { order i, A.b }",
    "a condition of a find that is not affine": "tensor y : dense  tensor D : coo  tensor C : vbr"
    "  tensor E : dense_fibres  y[j, j] = D[j + j, 2*i, j + i]*C[i, k]*E[k, i, k]"
    "  schedule { split E.t by 1 as s; split C.k by 1 as t; order E.t, C.k, E.f }",
    "a loop of at most one iteration, for all the data may be": "tensor A : lower_half  tensor y : dense"
    "  y[i] += A[i, j] where i = i + i",
    "fused loops around short sums": "tensor Y : dense  tensor A : csr  Y[k, i] += A[i, j]*2  schedule { fuse k, i }",
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", TEXTS)
def test_it_compiles(name: str) -> None:
    kernel = spfgen.parse(f"{LAYOUT} kernel k {{ {TEXTS[name]} }}").kernels["k"].compile()
    assert kernel.name in kernel.source


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["csr", "ell", "coo"])
def test_a_table_of_reductions_of_a_split(layout: str) -> None:
    """The index that is split is none of the places of the table: each had several."""
    dense = np.random.default_rng(3).integers(-3, 4, (3, 12)).astype(float)
    dense[dense < -1] = 0
    kernel = spfgen.compile("R[i] = sum(j: max(k: split(T[j, m], m -> (i, k))))", T=layout)
    result = kernel(T=spfgen.pack(dense, layout), sizes={"k": 3})
    np.testing.assert_array_equal(result, dense.reshape(3, 4, 3).max(2).sum(0))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y[i] = 0; y[i] += A[i,j]*x[j]", lambda a, x: a @ x),
        ("y[i] = 0; y[i] += A[i,j]*x[j]; y[i] += 1", lambda a, x: a @ x + 1),
        ("y[i] = A[i,j]*x[j]; y[i] = 0", lambda a, x: np.zeros(3)),
    ],
)
def test_a_result_of_zeros_among_other_statements(text: str, expected: Callable[[Any, Any], Any]) -> None:
    """A stored 0 is a place cleared for the verifier: it said that the plan leaves it out."""
    a, x = np.array([[0, 2.0], [1, 0], [3, 4]]), np.array([5.0, 6])
    kernel = spfgen.compile(text, A="csr", x="dense", y="dense")
    np.testing.assert_array_equal(kernel(A=spfgen.pack(a, "csr"), x=x, y=np.ones(3)), expected(a, x))


@pytest.mark.parametrize("layout", ["sv", "coo", "hash_table(B=3)"])
def test_a_sparse_tensor_of_the_kernels_own_outside_of_loops(layout: str) -> None:
    """Its sizes are those of no operand: sums of products that spoke of it asked for them."""
    a = np.array([[0, 2.0, 1], [1, 0, 4]])
    text = (
        f"kernel k {{ local tensor w : {layout}  tensor A : csr  tensor y : dense  w[j] = A[i,j]  y[i] = A[i,j]*w[j] }}"
    )
    kernel = spfgen.parse(text).kernels["k"].compile()
    np.testing.assert_array_equal(kernel(A=spfgen.pack(a, "csr")), a @ a.sum(0))


def test_a_loop_of_which_one_iteration_is_split_off() -> None:
    """What it stores depends on no index of the parallel loop, but no other iteration comes there."""
    a = np.array([[1.0, 0, 2], [3, 4, 0], [0, 5, 6]])
    text = "s = C[i,j]; for i { C[i,j] = 2*A[i,j] where i != 1 }"
    kernel = spfgen.compile(text, A="csr", C="csr", s="dense", threads=2)
    found = kernel(A=spfgen.pack(a, "csr"), C=spfgen.pack(a, "csr"))
    assert found["s"] == a.sum()
    np.testing.assert_array_equal(found["C"].to_numpy(), np.where(np.arange(3)[:, None] != 1, 2 * a, 0))


@pytest.mark.parametrize("layout", ["csr", "dense"])
def test_fused_loops_around_the_sum_of_an_entry(layout: str) -> None:
    """A row cannot be gathered between loops that run as one."""
    a, b = np.array([[1.0, 0, 2], [3, 4, 0]]), np.array([[0.0, 1], [2, 0], [5, 6]])
    schedule = "fuse i, j; order i, j; parallel i"
    kernel = spfgen.compile("C[i,j] = A[i,k]*B[k,j]", A=layout, B=layout, C="csr", schedule=schedule, threads=2)
    found = kernel(A=spfgen.pack(a, layout), B=spfgen.pack(b, layout))
    np.testing.assert_array_equal(found.to_numpy(), a @ b)


@pytest.mark.parametrize("layout", ["dense", "csc"])
@pytest.mark.parametrize(
    "loop",
    [
        "for i, k where k != 2 { R[i] = A[i,k] }",
        "for i { for k where k > 2 or k < 1 { R[i] = A[i,k] } }",
        "for i, k where abs(k - 1) >= 2 { R[i] = A[i,k] }",
        "for i, k { if not 2 == k { R[i] = A[i,k] } else { let t = 2 } }",
    ],
)
def test_a_loop_with_gaps_runs_in_its_order(loop: str, layout: str) -> None:
    """The ranges of such a condition were loops one after the other in any order; the last value counts."""
    a = np.arange(16.0).reshape(4, 4)
    kernel = spfgen.parse(f"kernel k {{ tensor A : {layout} tensor R : dense {loop} }}").kernels["k"].compile()
    np.testing.assert_array_equal(kernel(A=spfgen.pack(a, layout)), a[:, 3])


ENVELOPE = """
layout envelope(nrow, ncol) {
    size room
    relation { [pi, p] -> [i, j] : 0 <= pi < nrow and lo(pi) <= p <= pi and p < ncol and i = pi and j = p }
    index lo[nrow] { range 0 <= lo(r) <= nrow  property forall p : lo(p) <= p + 1  property increasing }
    index ptr[nrow + 1] { range 0 <= ptr(r) <= room  property ptr(0) = 0  property ptr(nrow) = room
        property forall p : ptr(p + 1) = ptr(p) + p + 1 - lo(p) }
    value val[room] at [ptr(pi) + p - lo(pi)]
}
"""


def test_what_is_made_of_a_total_reads_again_what_the_total_read() -> None:
    """It is declared twice: in a scope of its own."""
    spec = spfgen.parse(f"{ENVELOPE} kernel k {{ tensor A : envelope  tensor y : dense  y[i] = max(j: A[i, j]) }}")
    dense = np.tril(np.random.default_rng(5).integers(1, 9, (4, 4))).astype(float)
    dense[2, 0] = 0
    result = spec.kernels["k"].compile()(A=spfgen.pack(-dense, spec.layouts["envelope"]))
    np.testing.assert_array_equal(result, (-dense).max(1))


def test_a_choice_in_a_sum_with_an_infinite_fill() -> None:
    """An integer has no infinity that could be one of what is not stored."""
    a, b = np.array([[0, 2], [3, 0]]), np.array([[1.0, 5.0], [6.0, 2.0]])
    result = spfgen.evaluate(
        "y[i, j] = min(k: where(4 < b[j, k], A[i, j], i) + b[i, k])", A=spfgen.pack(a, "csr"), b=b.astype(np.float32)
    )
    wanted = (np.where(b[None] > 4, a[:, :, None], np.arange(2)[:, None, None]) + b[:, None]).min(2)
    np.testing.assert_array_equal(result, wanted)
