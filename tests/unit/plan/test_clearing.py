"""Where a result is cleared: inside the loop that alone writes a part of it, or before all loops."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import Clear

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
