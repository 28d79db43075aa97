"""What a schedule says of loops reaches the C, where it is legal; what is refused has its case in tests/errors."""

from __future__ import annotations

import re

import numpy as np
import pytest

import spfgen
from spfgen.errors import SpecError, Unsupported
from spfgen.ir import walk
from spfgen.plan.nodes import PLANS, Prefetch, Scan

SPMV = ("y[i] = A[i, j]*x[j]", {"y": "dense", "A": "csr", "x": "dense"})
SPMM = ("y[i, k] = A[i, j]*x[j, k]", {"y": "dense", "A": "csr", "x": "dense"})
OUTER = ("y[i, k] = A[i, j]*x[k]", {"y": "dense", "A": "csr", "x": "dense"})
RNG = np.random.default_rng(4)
A = np.where(RNG.random((9, 7)) < 0.4, RNG.integers(1, 9, (9, 7)), 0).astype(float)
X, XS = np.arange(1.0, 8.0), RNG.integers(1, 9, (7, 5)).astype(float)


def compiled(case: tuple[str, dict[str, str]], schedule: str, threads: int = 2) -> spfgen.Kernel:
    text, layouts = case
    return spfgen.compile(text, **layouts, schedule=schedule, threads=threads)


def loops(kernel: spfgen.Kernel) -> dict[str, Scan]:
    return {n.dim: n for p in kernel.generated.plans for n in walk(p) if isinstance(n, Scan)}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("case", "schedule", "pragma", "loop"),
    [
        (SPMV, "vectorize A.pj", r"omp simd reduction\(\+:y_sum\)", "pj"),
        (SPMV, "unroll A.pj by 1", "GCC unroll 1", "pj"),
        (SPMM, "order i, A.pj, k; vectorize k", "omp simd", "k"),
        (SPMM, "order i, k, A.pj; vectorize A.pj", r"omp simd reduction\(\+:y_sum\)", "pj"),
        (SPMM, "order i, k; parallel i; fuse i, k", r"omp parallel for collapse\(2\) schedule\(static\).*", "i"),
        (SPMM, "order i, k; parallel f; fuse i, k as f", r"omp parallel for collapse\(2\) .*", "i"),
        (SPMM, "order k, i; parallel i", r"omp parallel .*", "i|part"),
        (OUTER, "order i, A.pj, k; vectorize k; prefetch k by 2", "omp simd", "k"),
    ],
)
def test_what_is_said_of_loops(case: tuple[str, dict[str, str]], schedule: str, pragma: str, loop: str) -> None:
    kernel = compiled(case, schedule)
    assert re.search(rf"#pragma {pragma}\n *for \(\w+ ({loop}) = ", kernel.source), kernel.source
    x = XS if case is SPMM else np.ones(5) if case is OUTER else X
    expected = np.add.outer(A.sum(axis=1), np.zeros(5)) if case is OUTER else A @ x
    assert np.array_equal(kernel(A=spfgen.pack(A, "csr"), x=x), expected)


def test_prefetch() -> None:
    """What is read through an index array; where there is none, what is read at the position itself."""
    kernel = compiled(SPMV, "prefetch A.pj by 16")
    (node,) = (n for p in kernel.generated.plans for n in walk(p) if isinstance(n, Prefetch))
    assert (node.ahead, [a.tensor for a in node.arrays]) == (16, ["x"])
    assert "spfgen_prefetch(&x_val[j_ahead])" in kernel.source
    dense = spfgen.compile("y[i] = 2*x[i]", x="dense", y="dense", schedule="prefetch i by 64")
    assert "spfgen_prefetch(&x_val[i_ahead])" in dense.source
    assert np.array_equal(kernel(A=spfgen.pack(A, "csr"), x=X), A @ X)
    assert np.array_equal(dense(x=X), 2 * X)
    with pytest.raises(SpecError, match="`block` reads none at its own position"):
        spfgen.compile("y[i] = x[i]", x="dense", y="dense", schedule="tile i by 2 as block; prefetch block by 2")


def test_serial() -> None:
    assert not any(n.parallel for n in loops(compiled(SPMV, "serial i")).values())
    assert loops(compiled(SPMV, ""))["i"].parallel
    adding = compiled((SPMV[0], {**SPMV[1], "A": "coo"}), "serial A.p")
    assert not loops(adding)["A.p"].parallel


def test_an_inner_loop_that_is_parallel() -> None:
    kernel = compiled(SPMM, "order j, k; parallel k", threads=3)
    assert [d for d, n in loops(kernel).items() if n.parallel] == ["k"]
    assert np.array_equal(kernel(A=spfgen.pack(A, "csr"), x=XS), A @ XS)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("schedule", ["tile i by 4, j by 3", "relation { [i, j] -> [t, j] : t = i - j }"])
def test_a_triangular_solve_in_tiles(schedule: str) -> None:
    """Rows are made in an order in which each finds what it needs, whatever stands around them."""
    lower = np.tril(A[:7]) + 2 * np.eye(7)
    text = "x[i] = (b[i] - sum(j < i: L[i, j]*x[j]))/L[i, i]"
    kernel = spfgen.compile(text, L="csr", x="dense", b="dense", schedule=schedule)
    assert np.allclose(kernel(L=spfgen.pack(lower, "csr"), b=X), np.linalg.solve(lower, X))


LOWER = "x[i] = (b[i] - sum(j < i: L[i, j]*x[j]))/L[i, i]"
UPPER = LOWER.replace("<", ">")
ROWS = "X[i, k] = (B[i, k] - sum(j < i: L[i, j]*X[j, k]))/L[i, i]"
TWO = "x[i] = sum(j: L[i, j]*b[j])*sum(j: L[i, j])"
SHARES = "X[i, k] = sum(j: L[i, j]*B[j, k])/b[i]"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("text", "layout", "schedule", "words"),
    [
        (LOWER, "csr", "vectorize L.pj", r"#pragma omp simd reduction\(\+:x_sum, x_sum_2\)\n *for \(\w+ pj"),
        (LOWER, "csc", "vectorize L.pi", r"#pragma omp simd\n *for \(\w+ L_pi"),
        (UPPER, "csr", "unroll L.pj by 4", r"while \(pj_next - 4 >= pj_first\)"),
        (LOWER, "csr", "unroll i by 2; prefetch L.pj by 3", r"spfgen_prefetch\(&x_val\[j_ahead\]\)"),
        (LOWER, "csc", "prefetch L.pi by 3", r"spfgen_prefetch\(&L_val\[L_pi_ahead\]\)"),
        (ROWS, "csr", "vectorize k", r"#pragma omp simd\n *for \(\w+ k"),
        (ROWS, "csr", "order i, k; vectorize L.pj", r"#pragma omp simd reduction\(\+:X_sum, X_sum_2\)"),
        (ROWS, "csr", "parallel k", r"k_begin = spfgen_part\([^!]*for \(\w+ k = k_begin;"),
        (TWO, "csr", "vectorize L.pj", r"#pragma omp simd reduction\(\+:x_sum, x_sum_2\)"),
        (SHARES, "dense", "order i, k; fuse i, k; vectorize j", r"parallel for collapse\(2\)[^!]*omp simd reduction"),
    ],
)
def test_what_is_said_of_loops_of_sums(text: str, layout: str, schedule: str, words: str) -> None:
    """Sums within a value run as others do."""
    matrix = (np.triu if text is UPPER else np.tril)(A[:7]) + 2 * np.eye(7)
    names = [n for n in "xbXB" if f"{n}[" in text]
    kernel = spfgen.compile(text, L=layout, **dict.fromkeys(names, "dense"), schedule=schedule, threads=3)
    assert re.search(words, kernel.source), kernel.source
    right = {"b": X, "B": np.where(XS > 0, XS, 1)}
    given = {n: right[n] for n in names if n in right}
    b = given.get("B", X)
    expected = np.linalg.solve(matrix, b)
    if text is TWO:
        expected = (matrix @ X) * matrix.sum(axis=1)
    if text is SHARES:
        expected = matrix @ b / X[:, None]
    assert np.allclose(kernel(L=spfgen.pack(matrix, layout), **given), expected)


@pytest.mark.parametrize(
    ("text", "layout", "schedule", "words"),
    [
        (
            LOWER,
            "csr",
            "fuse i, L.pj",
            r"`i` carries a dependence: iteration i = 0 writes x\[0\], which iteration i = 1",
        ),
        (LOWER, "csr", "vectorize i", "expected the innermost loop"),
        ("x[i] = x[i - 1]/2 + b[i]", "", "vectorize i", r"be vectorized, but `i` carries a dependence: .* x\[0\]"),
        (ROWS, "csr", "order k, i; fuse k, i", r"`i` carries a dependence: iteration i = 0 writes X\[0, 0\]"),
        (UPPER, "csr", "prefetch L.pj by 2", "`L.pj` runs downwards"),
        (LOWER, "csr", "parallel L.pj", "cannot be parallel within a value"),
        (LOWER, "csc", "levels i", "expected a loop that reads what others have written"),
    ],
)
def test_what_is_refused_of_sums(text: str, layout: str, schedule: str, words: str) -> None:
    layouts = {"L": layout} if layout else {}
    names = [n for n in "xbXB" if f"{n}[" in text]
    with pytest.raises((SpecError, Unsupported), match=words):
        spfgen.compile(text, **layouts, **dict.fromkeys(names, "dense"), schedule=schedule)


def test_what_threads_have_of_their_own_stands_inside_of_fused_loops() -> None:
    """Here an array of where the finds stand: between loops that run as one nothing may be declared."""
    layouts = {"y": "dense_col", "A": "bcsr(R=2, C=2)", "b": "dense"}
    text = "y[l, i] = A[i - i, i]*A[i, i]*b[i]"
    kernel = spfgen.compile(text, **layouts, schedule="order l; fuse l, A.pb", threads=3)
    assert "collapse(2)" in kernel.source
    assert "states_own" in kernel.source
    dense, b = np.arange(1.0, 401).reshape(20, 20), np.arange(20.0)
    found = kernel(y=spfgen.pack(np.full((30, 20), np.nan), "dense_col"), A=spfgen.pack(dense, "bcsr"), b=b)
    assert np.array_equal(found.to_numpy(), np.tile(dense[0] * np.diagonal(dense) * b, (30, 1)))


def test_what_a_vectorized_loop_cannot_clear_is_cleared_before_it() -> None:
    layouts = {"x": "dense", "L": "sv"}
    kernel = spfgen.compile("x[i] = L[i]", **layouts, schedule="vectorize L.p", threads=2)
    (plan,) = kernel.generated.plans
    (scan,) = [n for n in walk(plan, PLANS) if isinstance(n, Scan)]
    assert scan.vector
    dense = np.where(np.arange(50) % 3, np.arange(50.0), 0)
    assert np.array_equal(kernel(L=spfgen.pack(dense, "sv"), x=np.full(50, np.nan)), dense)


@pytest.mark.parametrize("clause", ["unroll A.pj by 4", "vectorize A.pj"])
def test_what_is_said_of_a_loop_is_all_that_is_done_with_it(clause: str) -> None:
    """No unrolling of ours beside that of the schedule, and no partial sums."""
    kernel = compiled(SPMV, clause)
    loop = loops(kernel)["A.pj"]
    assert not loop.partial
    assert "adds to partial sums" not in kernel.explain()
    assert loops(compiled(SPMV, ""))["A.pj"].partial
    assert np.allclose(kernel(A=spfgen.pack(A, "csr"), x=X), A @ X)
