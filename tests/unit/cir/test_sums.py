"""Sums that run side by side, and what is fetched ahead for them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import Scan
from spfgen.tuning import PREFETCH_LONG, PREFETCH_SHORT, PREFETCH_VALUES, VECTOR_SUM_LONG

STATEMENT = "y[i] = A[i,j]*x[j]"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.complex128, np.int64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_rows_of_each_length(kind: type, index: type) -> None:
    """All remainders, in rows that are added up in one go and in several."""
    lengths = [*range(12), *range(30, 41), 0, 0, 1]
    indptr = np.cumsum([0, *lengths]).astype(index)
    indices = np.concatenate([np.arange(n) for n in lengths]).astype(index)
    data = (np.arange(len(indices)) % 7 + 1).astype(kind)
    a = csr_array((data, indices, indptr), shape=(len(lengths), max(lengths)))
    x = (np.arange(max(lengths)) % 5 - 1).astype(kind)
    y = spfgen.compile(STATEMENT, A="csr", x="dense", y="dense")(A=a, x=x)
    assert y.dtype == kind
    assert np.array_equal(y, a.toarray() @ x)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.complex128])
def test_vectors_of_each_length(kind: type) -> None:
    """All remainders, from loops with fewer values than a vector to those with two vectors."""
    kernel = spfgen.compile("y[i] = A[i,j]*x[j]", A="dense", x="dense", y="dense")
    for length in (*range(10), *range(VECTOR_SUM_LONG - 2, VECTOR_SUM_LONG + 18)):
        a, x = (np.arange(3 * length) % 7 + 1).reshape(3, length).astype(kind), (np.arange(length) % 5 - 1).astype(kind)
        assert np.array_equal(kernel(A=a, x=x), a @ x)


def test_vectors_from_a_later_place() -> None:
    """Diagonals begin and end where the matrix does."""
    a = np.triu(np.tril(np.arange(1.0, 46 * 40 + 1).reshape(46, 40) % 11, 3), -44)
    kernel = spfgen.compile("s = A[i,j]", A="dia")
    assert kernel(A=spfgen.pack(a, "dia")) == a.sum()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.complex128])
def test_values_taken_off_in_rows_of_each_length(kind: type, upper: bool) -> None:
    """All remainders, around the length from which a row has several sums."""
    free, lengths = PREFETCH_LONG + 20, np.array([*range(9), *range(PREFETCH_LONG - 3, PREFETCH_LONG + 18)])
    a = np.eye(free + lengths.size, dtype=kind)
    a[free:, :free] = (np.arange(free) < lengths[:, None]) * (np.arange(free) % 7 + 1)
    b = (np.arange(len(a)) % 5 - 1).astype(kind)
    expected = b - (a - np.eye(len(a))) @ b
    if upper:
        a, b, expected = a[::-1, ::-1], b[::-1], expected[::-1]
    text = f"x[i] = (b[i] - sum(j {'>' if upper else '<'} i: L[i,j]*x[j]))/L[i,i]"
    kernel = spfgen.compile(text, L="csr", b="dense", x="dense")
    assert "four partial sums" in kernel.source
    found = kernel(L=csr_array(a), b=b.copy())
    assert found.dtype == kind
    assert np.array_equal(found, expected)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 12, 40])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("kind", [np.float64, np.complex128])
def test_values_taken_off_in_blocks(kind: type, upper: bool, size: int) -> None:
    """Whole blocks, those at the diagonal and at the edge; each has a sum of its own."""
    triangle = np.tril(np.random.default_rng(3).integers(0, 3, (size, size)), -1) + np.eye(size, dtype=int)
    dense = triangle.T if upper else triangle
    wanted = np.arange(size) % 3 - 1
    text = f"x[i] = (b[i] - sum(j {'>' if upper else '<'} i: L[i,j]*x[j]))/L[i,i]"
    kernel = spfgen.compile(text, L="bcsr(R=3, C=3)", b="dense", x="dense")
    assert "_few" in kernel.source
    found = kernel(L=spfgen.pack(dense.astype(kind), "bcsr(R=3, C=3)"), b=(dense @ wanted).astype(kind))
    assert np.array_equal(found, wanted)


def test_a_short_row_is_no_block() -> None:
    """Nothing goes on with its sum: one of its own would be one addition more."""
    kernel = spfgen.compile("x[i] = b[i] - sum(j < i: L[i,j]*x[j])", L="ell", b="dense", x="dense")
    assert "_few" not in kernel.source


@pytest.mark.parametrize(
    ("statement", "layouts", "arrays"),
    [
        (STATEMENT, {"A": "csr", "x": "dense", "y": "dense"}, 2),
        (STATEMENT, {"A": "csc", "x": "dense", "y": "dense"}, 2),
        (STATEMENT, {"A": "dcsr", "x": "dense", "y": "dense"}, 2),
        (STATEMENT, {"A": "ell", "x": "dense", "y": "dense"}, 2),
        (STATEMENT, {"A": "dia", "x": "dense", "y": "dense"}, 1),
        ("C[i,k] = A[i,j]*B[j,k]", {"A": "csr", "B": "csr", "C": "dense"}, None),  # rows of B in any order
    ],
)
def test_what_is_fetched_ahead(statement: str, layouts: dict[str, str], arrays: int | None) -> None:
    kernel = spfgen.compile(statement, **layouts)
    found = {len(n.ahead.arrays) for p in kernel.generated.plans for n in walk(p) if isinstance(n, Scan) and n.ahead}
    assert found == ({arrays} if arrays else set())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["csr", "csc", "ell"])
def test_large_and_short(layout: str) -> None:
    """As much, in segments as short, as it takes to fetch ahead."""
    count = PREFETCH_VALUES // PREFETCH_SHORT
    columns = np.tile(np.arange(PREFETCH_SHORT, dtype=np.int32), count)
    a = csr_array(
        (np.ones(PREFETCH_VALUES), columns, np.arange(count + 1) * PREFETCH_SHORT),
        shape=(count, PREFETCH_SHORT),
    )
    if layout == "csc":
        a = a.T
    if layout == "ell":
        a = spfgen.pack(a, "ell")
    kernel = spfgen.compile(STATEMENT, A=layout, x="dense", y="dense")
    expected = np.full(a.shape[0], a.shape[1])
    assert np.array_equal(kernel(A=a, x=np.ones(a.shape[1])), expected)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["csr", "dcsr", "ell"])
def test_large_and_long(layout: str) -> None:
    """As much, in segments as long, as it takes to fetch values in each round; one is shorter than a round."""
    lengths = np.full(PREFETCH_VALUES // 13 + 2, 13)
    lengths[7] = 2
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    a = csr_array((np.ones(indptr[-1]), np.arange(indptr[-1]) - np.repeat(indptr[:-1], lengths), indptr),
                  shape=(len(lengths), 13))  # fmt: skip
    assert a.nnz >= PREFETCH_VALUES
    kernel = spfgen.compile(STATEMENT, A=layout, x="dense", y="dense")
    assert np.array_equal(kernel(A=spfgen.pack(a, layout), x=np.ones(13)), lengths)


def test_large_and_of_many_lengths() -> None:
    """As much, in segments of which each is much longer or shorter than its neighbours."""
    lengths = np.tile([0, 1, 14, 2, 23], PREFETCH_VALUES // 40 + 1)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    assert indptr[-1] >= PREFETCH_VALUES
    columns = np.arange(indptr[-1]) - np.repeat(indptr[:-1], lengths)
    a = csr_array((np.ones(indptr[-1]), columns, indptr), shape=(len(lengths), 23))
    kernel = spfgen.compile(STATEMENT, A="csr", x="dense", y="dense")
    assert np.array_equal(kernel(A=a, x=np.ones(23)), lengths)
