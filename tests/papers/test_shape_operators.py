"""Root et al. 2024, Compilation of Shape Operators on Sparse Arrays: each operator, example, figure and benchmark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.papers.support import few, floats, full

Check = Callable[..., None]
Array = np.ndarray[Any, Any]
SPARSE = ("csr", "csc", "coo", "bcsr(R=2, C=3)")


def flat(A: Array) -> Array:
    return A.reshape(-1)


# --- section 1 ----------------------------------------------------------------------------------------


def test_section_1_stacked_product(check: Check) -> None:
    check(
        "y[l] = sum(k: concat((A[h, k], B[i, k], C[j, k]), (h, i, j) -> l)*x[k])",
        lambda A, B, C, x: np.vstack((A, B, C)) @ x,
        {"A": floats("n m"), "B": floats("k m"), "C": floats("h m"), "x": full("m")},
        ["A: csr; B: csr; C: csr; x: dense; y: dense", "A: csc; B: coo; C: dense; x: sv; y: dense"],
    )


def test_section_1_linear_layer_on_a_flattened_matrix(check: Check) -> None:
    check(
        "y[i] = sum(l: A[i, l]*collapse(X[r, c], (r, c) -> l))",
        lambda A, X: A @ flat(X),
        {"A": floats("n m*k"), "X": floats("m k")},
        [
            "A: csr; X: dense; y: dense",
            "A: csr; X: csr; y: dense",
            "A: dense; X: coo; y: dense",
            "A: csc; X: csc; y: dense",
        ],
    )


@pytest.mark.parametrize("layout", few(["csf", "coo", "dense_col"]))
def test_section_1_slice_of_an_mri(check: Check, layout: str) -> None:
    text, data = "Y[i, k] = A[i, 3, k]", {"A": floats("n 5 k", density=0.6)}
    check(text, lambda A: A[:, 3, :], data, [f"A: {layout}; Y: dense"])


# --- section 2 ----------------------------------------------------------------------------------------


def test_fig_2_vector_plus_product(check: Check) -> None:
    check(
        "y[i] = b[i] + sum(j: A[i, j]*x[j])",
        lambda b, A, x: b + A @ x,
        {"b": floats("n"), "A": floats("n m"), "x": floats("m")},
        ["b: sv; A: dcsr; x: sv; y: dense", "b: sv; A: csc; x: dense; y: dense"],
    )


# --- section 4.1: the four operators ------------------------------------------------------------------


@pytest.mark.parametrize("layout", few(SPARSE))
def test_section_4_1_collapse(check: Check, layout: str) -> None:
    data = {"B": floats("n m")}
    check("c[k] = collapse(B[i, j], (i, j) -> k)", flat_of, data, [f"B: {layout}; c: dense"])
    check("c[k] = collapse(B[i, j], (j, i) -> k)", lambda B: flat(B.T), data, [f"B: {layout}; c: dense"])


def flat_of(B: Array) -> Array:
    return B.reshape(-1)


@pytest.mark.parametrize("layout", few(["csf", "coo", "dense"]))
def test_section_4_1_collapse_of_a_cube(check: Check, layout: str) -> None:
    data, layouts = {"E": floats("n m k")}, [f"E: {layout}; C: dense"]
    n, m, k = (lambda E, d=d: E.shape[d] for d in range(3))
    check("C[l, k] = collapse(E[i, j, k], (i, j) -> l)", lambda E: E.reshape(n(E) * m(E), k(E)), data, layouts)
    text = "C[i, l] = collapse(E[i, j, k], (j, k) -> l)"
    check(text, lambda E: E.reshape(n(E), m(E) * k(E)), data, layouts)
    text = "C[j, l] = collapse(E[i, j, k], (k, i) -> l)"
    check(text, lambda E: E.transpose(1, 2, 0).reshape(m(E), n(E) * k(E)), data, layouts)


@pytest.mark.parametrize("layouts", few(["B: csr; C: csr", "B: csc; C: coo", "B: dense; C: bcsr(R=2, C=3)"]))
def test_section_4_1_concat(check: Check, layouts: str) -> None:
    text, numpy = "D[i, l] = concat((B[i, j], C[i, k]), (j, k) -> l)", lambda B, C: np.hstack((B, C))
    check(text, numpy, {"B": floats("n m"), "C": floats("n k")}, [f"{layouts}; D: dense"])
    text, numpy = "D[l, j] = concat((B[i, j], C[k, j]), (i, k) -> l)", lambda B, C: np.vstack((B, C))
    check(text, numpy, {"B": floats("n m"), "C": floats("k m")}, [f"{layouts}; D: dense"])


@pytest.mark.parametrize("layout", few(["sv", "sv_unsorted", "dense", "coo"]))
def test_section_4_1_split(check: Check, layout: str) -> None:
    text = "c[i, j] = split(b[k], k -> (i, j))"
    data = {"b": floats("n*3")}
    check(text, lambda b: b.reshape(-1, 3), data, [f"b: {layout}; c: dense"], sizes={"j": "3"})
    text = "c[i, j] = split(b[k], k -> (j, i))"
    check(text, lambda b: b.reshape(4, -1).T, {"b": floats("4*n")}, [f"b: {layout}; c: dense"], sizes={"j": "4"})


@pytest.mark.parametrize("layout", few(["csr", "csc", "coo"]))
def test_section_4_1_split_of_columns(check: Check, layout: str) -> None:
    check(
        "C[i, k, l] = split(E[i, j], j -> (k, l))",
        lambda E: E.reshape(E.shape[0], E.shape[1] // 2, 2),
        {"E": floats("n m*2")},
        [f"E: {layout}; C: dense"],
        sizes={"l": "2"},
    )


@pytest.mark.parametrize("layout", few(["sv", "sv_unsorted", "rle", "dense"]))
def test_section_4_1_slice(check: Check, layout: str) -> None:
    text, data = "c[i] = slice(b[j], j -> i, (2, 5, 1))", {"b": floats("6")}
    check(text, lambda b: b[2:5], data, [f"b: {layout}; c: dense"])
    text = "c[i] = slice(b[j], j -> i, (1, 6, 3))"
    check(text, lambda b: b[1:6:3], data, [f"b: {layout}; c: dense"])


def test_section_4_1_slice_of_the_first_half(check: Check) -> None:
    """A bound may be a size."""
    check(
        "c[i] = slice(b[j], j -> i, (0, half, 1))",
        lambda b: b[: len(b) // 2],
        {"b": floats("2*n")},
        ["b: sv; c: dense"],
        sizes={"half": "n"},
        extra="size half",
    )


def test_section_4_1_slice_downwards(check: Check) -> None:
    text = "B[k, j] = slice(A[i, j], i -> k, (6, 1, -2))"
    check(text, lambda A: A[6:1:-2], {"A": floats("7 m")}, ["A: csr; B: dense", "A: coo; B: dense"])


# --- sections 4.2 to 7: expressions -------------------------------------------------------------------


@pytest.mark.parametrize(
    "layouts", few(["a: sv; B: csr", "a: sv; B: csc", "a: dense; B: coo", "a: sv_unsorted; B: dcsr"])
)
def test_section_4_2_vector_times_flattened_matrix(check: Check, layouts: str) -> None:
    check(
        "c[k] = a[k]*collapse(B[i, j], (i, j) -> k)",
        lambda a, B: a * flat(B),
        {"a": floats("n*m"), "B": floats("n m")},
        [f"{layouts}; c: dense"],
    )


def test_fig_10_and_16_flattened_matrix_plus_vector(check: Check) -> None:
    check(
        "c[k] = collapse(A[i, j], (i, j) -> k) + b[k]",
        lambda A, b: flat(A) + b,
        {"A": floats("n m"), "b": floats("n*m")},
        ["A: csr; b: sv; c: dense", "A: coo_unsorted; b: sv; c: dense", "A: csc; b: dense; c: dense"],
    )


def test_fig_14_a_concatenation_of_vectors(check: Check) -> None:
    check(
        "d[k] = concat((a[i], b[j]), (i, j) -> k)",
        lambda a, b: np.concatenate((a, b)),
        {"a": floats("n"), "b": floats("m")},
        ["a: sv; b: sv; d: dense", "a: sv_unsorted; b: rle; d: dense"],
    )


def test_fig_14_c_product_of_a_union(check: Check) -> None:
    check(
        "d[k] = collapse((a[i] + b[i])*c[j], (i, j) -> k)",
        lambda a, b, c: flat(np.outer(a + b, c)),
        {"a": floats("n"), "b": floats("n"), "c": floats("m")},
        ["a: sv; b: sv; c: sv; d: dense", "a: sv_decreasing; b: sv; c: dense; d: dense"],
    )


def test_fig_14_d_union_with_a_dense_vector(check: Check) -> None:
    data = {"a": floats("n"), "b": floats("n", density=1)}
    check("d[i] = a[i] + b[i]", lambda a, b: a + b, data, ["a: sv; b: dense; d: dense"])


def test_fig_14_e_concatenation_times_vector(check: Check) -> None:
    check(
        "d[k] = concat((a[i], b[j]), (i, j) -> k)*c[k]",
        lambda a, b, c: np.concatenate((a, b)) * c,
        {"a": floats("n"), "b": floats("m"), "c": floats("n+m")},
        ["a: sv; b: sv; c: sv; d: dense", "a: dense; b: sv; c: sv_unsorted; d: dense"],
    )


def test_fig_14_f_slice_plus_flattened_product(check: Check) -> None:
    check(
        "d[k] = slice(a[l], l -> k, (3, 93, 3)) + collapse(b[i]*c[j], (i, j) -> k)",
        lambda a, b, c: a[3:93:3] + flat(np.outer(b, c)),
        {"a": floats("95"), "b": floats("5"), "c": floats("6")},
        ["a: sv; b: sv; c: sv; d: dense", "a: sv_unsorted; b: dense; c: sv; d: dense"],
    )


def test_fig_17_split_vector_times_matrix(check: Check) -> None:
    check(
        "C[i, j] = split(a[k], k -> (i, j))*B[i, j]",
        lambda a, B: a.reshape(B.shape) * B,
        {"a": floats("n*m"), "B": floats("n m")},
        ["a: sv; B: csr; C: dense", "a: sv_unsorted; B: csc; C: dense", "a: dense; B: coo; C: dense"],
    )


# --- section 8: benchmarks ----------------------------------------------------------------------------

TWO = ("csr csr", "csc csc", "coo coo", "csr coo", "csr csc")


@pytest.mark.parametrize("layout", few(["coo", "csr"]))
def test_fig_24_a_reshape_to_a_vector(check: Check, layout: str) -> None:
    check("c[k] = collapse(A[i, j], (i, j) -> k)", lambda A: flat(A), {"A": floats("n m")}, [f"A: {layout}; c: dense"])


@pytest.mark.parametrize("layouts", few(TWO))
def test_fig_24_b_to_e_stacks(check: Check, layouts: str) -> None:
    """vstack, hstack."""
    b, c = layouts.split()
    chosen = [f"B: {b}; C: {c}; D: dense"]
    text, numpy = "D[l, j] = concat((B[i, j], C[k, j]), (i, k) -> l)", lambda B, C: np.vstack((B, C))
    check(text, numpy, {"B": floats("n m"), "C": floats("k m")}, chosen)
    text, numpy = "D[i, l] = concat((B[i, j], C[i, k]), (j, k) -> l)", lambda B, C: np.hstack((B, C))
    check(text, numpy, {"B": floats("n m"), "C": floats("n k")}, chosen)


@pytest.mark.parametrize("layout", few(["csr", "csc", "coo"]))
def test_fig_24_f_slice_of_rows(check: Check, layout: str) -> None:
    """Every second row of the first half."""
    check("B[i, j] = A[i(0:4:2), j]", lambda A: A[0:4:2], {"A": floats("8 m")}, [f"A: {layout}; B: dense"])
    text = "B[k, j] = slice(A[i, j], i -> k, (0, 4, 2))"
    check(text, lambda A: A[0:4:2], {"A": floats("8 m")}, [f"A: {layout}; B: dense"])


def test_fig_26_a_flattened_matrix_times_vector(check: Check) -> None:
    check(
        "c[k] = collapse(A[i, j], (i, j) -> k)*b[k]",
        lambda A, b: flat(A) * b,
        {"A": floats("n m"), "b": floats("n*m")},
        ["A: csr; b: sv; c: dense"],
    )


@pytest.mark.parametrize("layouts", few(["A: csr; B: csr", "A: csc; B: csr", "A: bcsr(R=2, C=3); B: coo_unsorted"]))
def test_fig_26_b_stacked_matrices_times_vector(check: Check, layouts: str) -> None:
    check(
        "y[l] = sum(k: concat((A[i, k], B[j, k]), (i, j) -> l)*x[k])",
        lambda A, B, x: np.vstack((A, B)) @ x,
        {"A": floats("n m"), "B": floats("k m"), "x": full("m")},
        [f"{layouts}; x: dense; y: dense"],
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layouts", few(["A: csr; B: csr", "A: csc; B: csr", "A: coo; B: dense"]))
def test_fig_26_c_slice_times_matrix(check: Check, layouts: str) -> None:
    check(
        "C[i, j] = slice(A[k, j], k -> i, (0, 8, 2))*B[i, j]",
        lambda A, B: A[0:8:2] * B,
        {"A": floats("8 m"), "B": floats("4 m")},
        [f"{layouts}; C: dense"],
    )


# --- nests of operators -------------------------------------------------------------------------------

NESTS = {
    "slice of collapse": (
        "c[l] = slice(collapse(A[i, j], (i, j) -> k), k -> l, (2, 20, 3))",
        lambda A: flat(A)[2:20:3],
        {"A": floats("5 4")},
        {},
    ),
    "collapse of slice": (
        "c[l] = collapse(slice(A[i, j], j -> k, (1, 6, 2)), (i, k) -> l)",
        lambda A: flat(A[:, 1:6:2]),
        {"A": floats("n 7")},
        {},
    ),
    "collapse of concat": (
        "c[m] = collapse(concat((A[i, j], B[i, k]), (j, k) -> l), (i, l) -> m)",
        lambda A, B: flat(np.hstack((A, B))),
        {"A": floats("n m"), "B": floats("n k")},
        {},
    ),
    "concat of collapses": (
        "c[k] = concat((collapse(A[i, j], (i, j) -> l), collapse(B[p, q], (q, p) -> m)), (l, m) -> k)",
        lambda A, B: np.concatenate((flat(A), flat(B.T))),
        {"A": floats("n m"), "B": floats("k h")},
        {},
    ),
    "split of collapse": (
        "C[p, q] = split(collapse(A[i, j], (i, j) -> k), k -> (p, q))",
        lambda A: A.reshape(-1, 3),
        {"A": floats("n 6")},
        {"q": "3"},
    ),
    "split of concat": (
        "C[p, q] = split(concat((a[i], b[j]), (i, j) -> k), k -> (p, q))",
        lambda a, b: np.concatenate((a, b)).reshape(-1, 2),
        {"a": floats("2*n"), "b": floats("4")},
        {"q": "2"},
    ),
    "slice of a sum": (
        "C[k, j] = slice(A[i, j] + B[i, j], i -> k, (1, 6, 2))",
        lambda A, B: (A + B)[1:6:2],
        {"A": floats("6 m"), "B": floats("6 m")},
        {},
    ),
    "slice of a product": (
        "y[k] = slice(sum(j: A[i, j]*x[j]), i -> k, (0, 5, 2))",
        lambda A, x: (A @ x)[0:5:2],
        {"A": floats("5 m"), "x": full("m")},
        {},
    ),
    "greatest of a concat": (
        "s = max(l: concat((a[i], b[j]), (i, j) -> l))",
        lambda a, b: max(a.max(initial=-np.inf), b.max(initial=-np.inf)),
        {"a": floats("n", density=0.9), "b": floats("m", density=0.9)},
        {},
    ),
    "concat of three": (
        "d[l] = concat((a[i], 2*b[j], a[k]*c[k]), (i, j, k) -> l)",
        lambda a, b, c: np.concatenate((a, 2 * b, a * c)),
        {"a": floats("n"), "b": floats("m"), "c": floats("n")},
        {},
    ),
    "product of two views": (
        "c[k] = collapse(A[i, j], (i, j) -> k)*collapse(B[p, q], (q, p) -> k)",
        lambda A, B: flat(A) * flat(B.T),
        {"A": floats("n m"), "B": floats("m n")},
        {},
    ),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", NESTS)
def test_nests(check: Check, name: str) -> None:
    text, numpy, data, sizes = NESTS[name]
    result = text.partition("[")[0] if "[" in text.partition("=")[0] else ""
    layouts = []
    for matrix, vector in (("csr", "sv"), ("csc", "sv_unsorted"), ("coo", "dense")):
        chosen = [f"{n}: {matrix if d.rank == 2 else vector}" for n, d in data.items()]
        layouts.append("; ".join([*chosen, *([f"{result}: dense"] if result else [])]))
    check(text, numpy, data, layouts, sizes=sizes, empty="greatest" not in name)


# --- fills other than 0 -------------------------------------------------------------------------------


def test_views_of_other_fills(check: Check) -> None:
    """What is not stored is the fill wherever the view puts it."""
    text, data = "c[k] = collapse(B[i, j], (i, j) -> k)", {"B": floats("n m", fill=np.inf)}
    check(text, flat_of, data, ["B: csr; c: dense"])
    check(
        "D[l, j] = concat((B[i, j], C[k, j]), (i, k) -> l)",
        lambda B, C: np.vstack((B, C)),
        {"B": floats("n m", fill=1.0), "C": floats("k m", fill=-2.0)},
        ["B: csr; C: csc; D: dense"],
    )


# --- affine subscripts on the left --------------------------------------------------------------------


def test_slices_on_the_left(check: Check) -> None:
    def expected(a: Array, B: Array) -> Array:
        B[0:6:2] = a
        return B

    data = {"a": floats("3"), "B": floats("7", density=1)}
    check("B[i(0:6:2)] = a[i]", expected, data, ["a: sv; B: dense", "a: dense; B: dense"], in_place=("B",))
