"""Where a result is cleared: inside the loop that alone writes a part of it, or before all loops."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import PLANS, Clear, Scan
from spfgen.plan.verify.meaning import begins

PERMUTED = """
layout permuted(nrow, ncol) {
    size nnz
    relation { [pi, pj] -> [i, j] :
        0 <= pi < nrow and ptr(pi) <= pj < ptr(pi + 1) and i = perm(pi) and j = col(pj) }
    index perm[nrow] { range 0 <= perm(p) < nrow  property injective }
    index ptr[nrow + 1] { range 0 <= ptr(p) <= nnz  property increasing }
    index col[nnz] { range 0 <= col(p) < ncol }
    value val[nnz] at [pj]
}
"""


def cleared(kernel: spfgen.Kernel) -> list[bool]:
    """For each clearing whether it is inside a loop."""
    return [n.part is not None for plan in kernel.generated.plans for n in walk(plan) if isinstance(n, Clear)]


INSIDE = {
    "C[i, k] = A[i, j]*B[j, k]": {"A": "csr", "B": "csr", "C": "dense"},
    "C[i, j] = A[i, j]": {"A": "bcsr(R=3, C=2)", "C": "dense"},
    "C[j, i] = A[i, j]": {"A": "csc", "C": "dense"},
    "C[i, k] = A[i, j]*B[k, j]": {"A": "csr", "B": "csr", "C": "dense"},
}
BEFORE = {
    "C[i, j] = A[i, j] ": ({"A": "coo", "C": "dense"}, "an entry says little of the row"),
    " C[i, j] = A[i, j]": ({"A": "csc", "C": "dense"}, "a column is not one piece of memory"),
}


def matrices(rows: int, columns: int) -> tuple[csr_array, np.ndarray]:
    rng = np.random.default_rng(rows)
    dense = np.where(rng.random((rows, columns)) < 0.3, rng.integers(1, 9, (rows, columns)), 0).astype(float)
    dense[rows // 2 :][:2] = 0
    return csr_array(dense), dense


def check(kernel: spfgen.Kernel, statement: str, rows: int, columns: int) -> None:
    """The result is right whatever stood there before."""
    a, dense = matrices(rows, columns)
    operands = {"A": a}
    names = statement.replace("C[", "").replace(" ", "")
    if "B[j,k]" in names:
        operands["B"], wanted = csr_array(dense.T), dense @ dense.T
    elif "B[k,j]" in names:
        operands["B"], wanted = a, dense @ dense.T
    else:
        wanted = dense.T if names.startswith("j,i]") else dense
    c = np.full(wanted.shape, np.nan)
    kernel(**operands, C=c)
    assert np.array_equal(c, wanted)


SHAPES = [(0, 3), (3, 0), (1, 1), (7, 5), (40, 31)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("statement", INSIDE)
def test_a_part_that_one_iteration_writes_is_cleared_there(statement: str, threads: int) -> None:
    kernel = spfgen.compile(statement, threads=threads, **INSIDE[statement])
    assert set(cleared(kernel)) == {True}
    for shape in SHAPES:
        check(kernel, statement, *shape)


@pytest.mark.parametrize("statement", BEFORE)
def test_all_is_cleared_first_where(statement: str) -> None:
    kernel = spfgen.compile(statement, **BEFORE[statement][0])
    assert set(cleared(kernel)) == {False}
    for shape in SHAPES:
        check(kernel, statement, *shape)


def test_rows_that_come_in_another_order_are_not_cleared_inside() -> None:
    """The row does not tell the iteration."""
    layout = spfgen.parse(PERMUTED).layouts["permuted"]
    kernel = spfgen.compile("C[i, j] = A[i, j]", A=layout, C="dense")
    assert cleared(kernel) == [False]
    a = spfgen.tensor(
        layout,
        shape=(3, 2),
        perm=np.array([2, 0, 1]),
        ptr=np.array([0, 1, 1, 2]),
        col=np.array([1, 0]),
        val=np.array([5.0, 6.0]),
    )
    assert np.array_equal(kernel(A=a, C=np.full((3, 2), np.nan)), [[0, 0], [6, 0], [0, 5]])


def test_only_the_first_of_several_terms_clears() -> None:
    kernel = spfgen.compile("C[i, j] = A[i, j] + B[i, j]", A="csr", B="csr", C="dense")
    assert cleared(kernel) == [True]
    a, dense = matrices(9, 8)
    assert np.array_equal(kernel(A=a, B=a, C=np.full((9, 8), np.nan)), 2 * dense)


SPLIT = """
layout split(nrow, ncol) {
    relation { [w, a, b] -> [i, j] :
        0 <= a < nrow and 0 <= b < ncol and i = a and j = b and (w = 0 and b = 0 or w = 1 and b > 0) }
    FIRST
    SECOND
}
"""
ARRAYS = ("value first[nrow] at [a] when w = 0", "value rest[nrow, ncol] at [a, b] when w = 1")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("statement", ["C[i, j] = A[i, k]*B[k, j]", "C[i, j] = x[i]*x[j] + A[i, j]"])
def test_all_arrays_of_a_result_are_cleared(statement: str, order: tuple[int, int]) -> None:
    """A nest writes one of them; the others have no other clearing."""
    one, two = (ARRAYS[k] for k in order)
    layout = spfgen.parse(SPLIT.replace("FIRST", one).replace("SECOND", two)).layouts["split"]
    given = {"A": "csr", "B": "csr"} if "B[" in statement else {"A": "csr", "x": "dense"}
    kernel = spfgen.compile(statement, C=layout, **given)
    for n in (0, 1, 6):
        a, dense = matrices(n, n)
        x = np.arange(1.0, n + 1)
        operands = {"A": a, "B": a, "x": x}
        c = spfgen.tensor(layout, shape=(n, n), first=np.full(n, np.nan), rest=np.full((n, n), np.nan))
        kernel(C=c, **{name: operands[name] for name in given})
        assert np.array_equal(c.to_numpy(), dense @ dense if "B" in given else np.outer(x, x) + dense)


PIECES = """
layout pieces(nrow, ncol) {
    size np, nnz
    relation { [p, q] -> [i, j] : 0 <= p < np and ptr(p) <= q < ptr(p + 1) and i = row(p) and j = col(q) }
    index row[np] { range 0 <= row(p) < nrow  property increasing }
    index ptr[np + 1] { range 0 <= ptr(p) <= nnz  property increasing
        property ptr(0) = 0  property ptr(np) = nnz }
    index col[nnz] { range 0 <= col(q) < ncol }
    value val[nnz] at [q]
}
"""


def in_pieces(rows: np.ndarray, ends: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> dict[str, object]:
    layout = spfgen.parse(PIECES).layouts["pieces"]
    values = np.arange(1.0, len(columns) + 1)
    made = spfgen.tensor(layout, shape=shape, row=rows, ptr=ends, col=columns, val=values)
    dense = np.zeros(shape)
    np.add.at(dense, (np.repeat(rows, np.diff(ends)), columns), values)
    return {"layout": layout, "tensor": made, "dense": dense}


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("held", [[0], [5], [7] * 300, [0] * 3 + [9] * 400 + [11], [2, 2, 3, 3, 9] * 40, []])
def test_the_first_entry_of_a_row_clears_it(held: list[int], threads: int) -> None:
    """Also where a row is longer than the parts of the threads, and rows without entries follow it."""
    rng = np.random.default_rng(len(held))
    dense = np.zeros((13, 400))
    for row in held:
        dense[row, rng.integers(400)] += rng.integers(1, 9)
    b = rng.integers(0, 4, (400, 30)).astype(float)
    kernel = spfgen.compile("C[i, k] = A[i, j]*B[j, k]", A="coo", B="csr", C="dense", threads=threads)
    assert any(cleared(kernel))
    found = kernel(A=spfgen.pack(dense, "coo"), B=csr_array(b), C=np.full((13, 30), np.nan))
    assert np.array_equal(found, dense @ b)


def test_what_threads_add_to_copies_of_is_cleared_first() -> None:
    """Pieces of a row are not shared out at its ends."""
    rows, ends = np.sort(np.arange(60) % 9), np.arange(61) * 5
    made = in_pieces(rows, ends, np.arange(300) % 40, (13, 40))
    b = np.arange(40.0 * 30).reshape(40, 30) % 3
    for threads in (1, 4):
        kernel = spfgen.compile("C[i, k] = A[i, j]*B[j, k]", A=made["layout"], B="csr", C="dense", threads=threads)
        found = kernel(A=made["tensor"], B=csr_array(b), C=np.full((13, 30), np.nan))
        assert np.array_equal(found, made["dense"] @ b)


@pytest.mark.parametrize("threads", [1, 4])
def test_rows_whose_places_several_threads_store_are_cleared_first(threads: int) -> None:
    """The first part ends with the first entries of a row, which others go on with: none of them may clear the row."""
    rng = np.random.default_rng(7)
    dense, b = np.zeros((3, 90, 20)), rng.integers(1, 5, (20, 8)).astype(float)
    dense[0, :2], dense[1] = 1, rng.integers(1, 5, (90, 20))
    kernel = spfgen.compile("C[i, j, l] = A[i, j, k]*B[k, l]", A="coo", B="csc", C="dense", threads=threads)
    assert not any(cleared(kernel))
    found = kernel(A=spfgen.pack(dense, "coo"), B=spfgen.pack(b, "csc"), C=np.full((3, 90, 8), np.nan))
    assert np.array_equal(found, dense @ b)


@pytest.mark.parametrize(("op", "layout", "what"), [("=", "csc", "y"), ("+=", "csc", ""), ("=", "csr", "")])
def test_threads_clear_as_they_clear_their_copies(op: str, layout: str, what: str) -> None:
    """Where they have copies, and the statement begins with zeros."""
    kernel = spfgen.compile(f"y[i] {op} A[i, j]*x[j]", A=layout, x="dense", y="dense", threads=2)
    (plan,) = kernel.generated.plans
    loops = [n.partition for n in walk(plan, PLANS) if isinstance(n, Scan) and n.partition is not None]
    assert [p.clears for p in loops if p.adds == "copies"] == ([what] if layout == "csc" else [])
    assert begins(plan, "y") == (op == "=")
    assert not any(isinstance(n, Clear) and n.part is None for n in walk(plan, PLANS))


@pytest.mark.parametrize(("text", "clears"), [
    ("y[j] = max(i: A[i,j])*sqrt(z[j])", []),
    ("y[i] = sqrt(z[i]) y[p[i]] = z[i]", [False]),
    ("C[i,j] = sqrt(A[i,j])", [False]),
    ("C[i,j] = sqrt(A[i,j]) + 1", []),
])  # fmt: skip
def test_results_of_other_values_are_cleared_as_sums_are(text: str, clears: list[bool]) -> None:
    """By the node Clear, where they begin as zeros everywhere."""
    kinds = {"A": "csr", "C": "dense", "y": "dense", "z": "dense", "p": "dense<int64>"}
    own = {n: k for n, k in kinds.items() if f"{n}[" in text}
    kernel = spfgen.compile(text, **own)
    assert cleared(kernel) == clears
