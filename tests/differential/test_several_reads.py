"""Values that read one tensor several times, or through several mappings: what finds keep for one read is not that of
another, in the plan and in C. Solves, where several sums stand in one loop, among them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen.run.handles import LayoutHandle

Array = np.ndarray[Any, Any]

TWO_ENDS = """layout edges(n, m) {
    relation { [e] -> [i, j] : 0 <= e < n and i = e and j = a(e) ; [e] -> [i, j] : 0 <= e < n and i = e and j = b(e) }
    index a[n] { range 0 <= a(e) < m }
    index b[n] { range 0 <= b(e) < m }
    value w[n] at [e]
}"""
CLASSES = """layout classes(n, m) {
    size na, nb
    relation { [a, b] -> [i, j] : 0 <= a < na and 0 <= b < nb and 0 <= i < n and 0 <= j < m and r(i) = a and c(j) = b }
    index r[n] { range 0 <= r(i) < na }
    index c[m] { range 0 <= c(j) < nb }
    value val[na, nb] at [a, b]
}"""
STRICT_HALF = """layout half(n, m) {
    size nnz
    relation {
        [a, p] -> [i, j] : 0 <= a < n and ptr(a) <= p < ptr(a + 1) and i = a and j = col(p) and j < i ;
        [a, p] -> [i, j] : 0 <= a < n and ptr(a) <= p < ptr(a + 1) and j = a and i = col(p) and i < j }
    index ptr[n + 1] { range 0 <= ptr(p) <= nnz  property increasing }
    index col[nnz] { range 0 <= col(p) < m  property strictly increasing within ptr }
    value low[nnz] at [p]
}"""
MSR = """layout msr(n, m) {
    size len
    relation {
        [part, a, p] -> [i, j] : part = 0 and 0 <= a < n and a < m and p = a and i = a and j = a ;
        [part, a, p] -> [i, j] : part = 1 and 0 <= a < n and ja(a) <= p < ja(a + 1) and n < p < len and i = a and j = ja(p) and 0 <= j < m }
    index ja[len] { range 0 <= ja(p) }
    value val[len] at [p]
}"""  # noqa: E501
SEGMENTS = """layout segments(nrow, ncol) {
    size ns, nnz
    relation { [a, q, p] -> [i, j] : 0 <= a < nrow and ptr(a) <= q < ptr(a + 1) and sptr(q) <= p < sptr(q + 1)
        and i = a and j = col(p) }
    index ptr[nrow + 1] { range 0 <= ptr(a) <= ns  property increasing }
    index sptr[ns + 1] { range 0 <= sptr(q) <= nnz  property increasing }
    index col[nnz] { range 0 <= col(p) < ncol }
    value val[nnz] at [p]
}"""
SHORT_BLOCKS = """layout blocks(nrow, ncol) {
    relation { [b, r] -> [i, j] : 0 <= 4*b < nrow and 0 <= r < min(4, nrow - 4*b) and i = 4*b + r and j = col(b) }
    index col[ceil(nrow/4)] { range 0 <= col(p) < ncol }
    value val[ceil(nrow/4)] at [b]
}"""
COLUMN_RANGES = """layout ranges(nrow, ncol) {
    size len
    relation { [c, r] -> [i, j] : 0 <= c < ncol and top(c) <= r < bottom(c) and i = r and j = c }
    index top[ncol] { range 0 <= top(c) <= nrow }
    index bottom[ncol] { range 0 <= bottom(c) <= nrow }
    index ptr[ncol] { range 0 <= ptr(c) <= len }
    value val[len] at [ptr(c) + r - top(c)]
}"""


def layout(text: str) -> LayoutHandle:
    ((_name, found),) = [(n, h) for n, h in spfgen.parse(text).layouts.items() if f"layout {n}(" in text]
    return found


ENDS = {"a": [0, 1, 2], "b": [1, 2, 0], "w": [2.0, 6.0, 5.0]}
ENDS_DENSE = np.array([[2, 2, 0], [0, 6, 6], [5, 0, 5.0]])
CLASS = {"r": [0, 1, 1], "c": [1, 1, 0], "val": [[1.0, 2], [3, 4]]}
CLASS_DENSE = np.array([[2, 2, 1], [4, 4, 3], [4, 4, 3.0]])
HALF = {"ptr": [0, 0, 1, 2], "col": [0, 1], "low": [2.0, 3.0]}
HALF_DENSE = np.array([[0, 2, 0], [2, 0, 3], [0, 3, 0.0]])
X = np.array([1.0, 2, 3])
SOLVE = "x[i] = q[i] - sum(j < i: A[i, j]*x[j])"

READS = {
    "y[j] = sum(i: A[i, j])/(1 + x[j])": lambda d: d.sum(0) / (1 + X),
    "y[i] = sum(j: A[i, j])*sum(j: A[j, i])": lambda d: d.sum(1) * d.sum(0),
    "y[i] = A[i, i]*sum(j: A[i, j]) + sum(j: A[j, i]*x[j])": lambda d: np.diag(d) * d.sum(1) + d.T @ X,
    "y[i] = sum(j: A[i, j]*A[j, i])/(1 + A[i, i]*x[i])": lambda d: (d * d.T).sum(1) / (1 + np.diag(d) * X),
    "Y[i, j] = A[i, j]/(1 + A[j, i])": lambda d: d / (1 + d.T),
    "Y[i, j] = A[i, j]*A[j, i] + sum(k: A[i, k]*A[k, j])": lambda d: d * d.T + d @ d,
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("optimize", [0, 1, 2])
@pytest.mark.parametrize("text", READS)
@pytest.mark.parametrize(
    ("spec", "arrays", "dense"),
    [(TWO_ENDS, ENDS, ENDS_DENSE), (CLASSES, CLASS, CLASS_DENSE), (STRICT_HALF, HALF, HALF_DENSE)],
    ids=["two ends", "classes", "half"],
)
def test_each_read_has_finds_of_its_own(
    text: str, spec: str, arrays: Mapping[str, Sequence[Any]], dense: Array, optimize: int
) -> None:
    found = layout(spec)
    operand = spfgen.tensor(found, shape=(3, 3), **{n: np.array(a) for n, a in arrays.items()})
    np.testing.assert_array_equal(operand.to_numpy(), dense)
    target = text[0]
    others = {"x": "dense"} if "x[" in text else {}
    kernel = spfgen.compile(text, A=found, **{target: "dense"}, **others, optimize=optimize)
    got = kernel(A=operand, **({"x": X} if others else {}))
    np.testing.assert_allclose(got, READS[text](dense))


def test_the_states_of_two_reads_are_as_long_as_each_needs() -> None:
    """Rows far more than columns: an array of states over rows that had the length of one over columns was overrun."""
    n, m = 100_000, 2
    found = layout(MSR)
    pointers = np.append(np.arange(n + 1) + n + 1, np.arange(n) < 1).astype(np.int32)
    operand = spfgen.tensor(found, shape=(n, m), ja=pointers, val=np.ones(2 * n + 1))
    dense = operand.to_numpy()
    assert dense.sum() == n + 2
    kernel = spfgen.compile("y[j] = sum(i: A[i, j]*x[i])*sum(i: A[i, j]*A[i, j])", A=found, x="dense", y="dense")
    np.testing.assert_allclose(kernel(A=operand, x=np.ones(n)), dense.sum(0) * (dense * dense).sum(0))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("spec", "arrays", "shape", "text", "wanted"),
    [
        (SHORT_BLOCKS, {"col": [0], "val": [2.0]}, (2, 2), SOLVE, [1, -1]),
        (
            TWO_ENDS,
            {"a": [0, 0], "b": [1, 1], "w": [1.0, 2]},
            (2, 2),
            "x[i] = q[i] - sum(j < i: A[i, j]*x[j])",
            [1, -1],
        ),
        (
            *(COLUMN_RANGES, {"top": [0, 1], "bottom": [2, 2], "ptr": [0, 2], "val": [1.0, 2, 3]}, (2, 2)),
            *("x[i] = (q[i] - sum(j < i: A[i, j]*x[j]))/(1 + A[i, i])", [0.5, 0]),
        ),
    ],
    ids=["short blocks", "two ends", "ranges"],
)
def test_several_sums_in_the_loop_of_a_solve(
    spec: str, arrays: Mapping[str, Sequence[Any]], shape: tuple[int, int], text: str, wanted: list[float]
) -> None:
    found = layout(spec)
    operand = spfgen.tensor(found, shape=shape, **{n: np.array(a) for n, a in arrays.items()})
    kernel = spfgen.compile(text, A=found, q="dense", x="dense")
    np.testing.assert_allclose(kernel(A=operand, q=np.ones(shape[0])), wanted)


def test_a_reversed_solve_looks_for_segments_in_both_of_its_passes() -> None:
    """The inspector of levels needs what finds keep above the loops inside, too."""
    text = "x[i, k] = b[i, k] - sum(j < i: L[i, j]*x[j, k])"
    schedule = "relation { [i] -> [r] : r = -i }"
    kernel = spfgen.compile(text, L="coo", b="dense", x="dense", schedule=schedule)
    rng = np.random.default_rng(1)
    lower = np.tril(np.where(rng.random((6, 6)) < 0.5, rng.integers(1, 4, (6, 6)), 0), -1).astype(float)
    right = rng.random((6, 2))
    solved = np.zeros_like(right)
    bound = kernel.bind(L=spfgen.pack(lower, "coo"), b=right, x=solved)
    for _ in range(3):
        solved[...] = np.nan
        bound()
        np.testing.assert_allclose(solved, np.linalg.solve(np.eye(6) + lower, right))


def test_rows_of_segments_divided_by_a_value() -> None:
    """What the loop over rows costs is told by two arrays, one behind the other."""
    found = layout(SEGMENTS)
    arrays = {"ptr": [0, 1, 1, 3], "sptr": [0, 2, 2, 4], "col": [0, 1, 1, 0], "val": [1.0, 2, 3, 4]}
    operand = spfgen.tensor(found, shape=(3, 2), **{n: np.array(a) for n, a in arrays.items()})
    kernel = spfgen.compile("y[i] = sum(j: A[i, j])/w[i]", A=found, w="dense", y="dense")
    np.testing.assert_allclose(kernel(A=operand, w=np.array([1.0, 2, 4])), [3, 0, 1.75])
    levels = spfgen.parse("layout L = (i, j, k) -> (j : dense, i : compressed, k : compressed)").layouts["L"]
    tensor = np.arange(8.0).reshape(2, 2, 2)
    sums = spfgen.compile("y[j] = sum(i, k: A[i, j, k])/w[j]", A=levels, w="dense", y="dense")
    np.testing.assert_allclose(sums(A=spfgen.pack(tensor, levels), w=np.ones(2)), tensor.sum(axis=(0, 2)))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("optimize", [0, 1, 2])
@pytest.mark.parametrize("layout", ["sym_csr", "sym_lower", "bcsr(R=2, C=1)", "bcsr(R=1, C=1)"])
def test_a_diagonal_at_the_end_of_its_row_belongs_to_all_sums(layout: str, optimize: int) -> None:
    """Where the last entry of a row is asked whether it is the diagonal, it still counts in sums that hold it."""
    rng = np.random.default_rng(3)
    dense = rng.integers(1, 5, (5, 5)).astype(float)
    dense = dense + dense.T
    wanted = {
        "y[i] = A[i, i]*sum(j: A[i, j])": np.diag(dense) * dense.sum(1),
        "y[i] = sum(j: A[i, j]*A[j, j])/(1 + A[i, i])": dense @ np.diag(dense) / (1 + np.diag(dense)),
        "y[i] = sum(j <= i: A[i, j])/(1 + A[i, i])": np.tril(dense).sum(1) / (1 + np.diag(dense)),
    }
    for text, value in wanted.items():
        kernel = spfgen.compile(text, A=layout, y="dense", optimize=optimize)
        np.testing.assert_allclose(kernel(A=spfgen.pack(dense, layout)), value)


def test_a_property_with_an_exception_rules_no_alternative_out() -> None:
    """`p != 0` is no comparison of sets: what follows from it does not hold everywhere."""
    spec = spfgen.parse("""
        layout turned(n, m) {
            size nnz
            relation { [p] -> [i, j] : 0 <= p < nnz and i = row(p) and j = col(p) and col(p) <= row(p) ;
                [p] -> [i, j] : 0 <= p < nnz and i = n - 1 - row(p) and j = col(p) and col(p) > row(p) }
            index row[nnz] { range 0 <= row(p) < n }
            index col[nnz] { range 0 <= col(p) < m  property forall p : p != 0 => col(p) <= row(p) }
            value val[nnz] at [p]
        }""")
    row, col = np.array([0, 1], np.int32), np.array([2, 0], np.int32)
    operand = spfgen.tensor(spec.layouts["turned"], shape=(3, 3), row=row, col=col, val=np.array([5.0, 7]))
    assert spfgen.evaluate("y[i] = max(j: A[i, j])", A=operand).tolist() == [0, 7, 5]
