"""Root et al. 2024, Compilation of Shape Operators on Sparse Arrays: each operator, example, figure and benchmark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.papers.support import few, floats, full

Check = Callable[..., None]
Array = np.ndarray[Any, Any]


# --- section 1 ----------------------------------------------------------------------------------------


def test_section_1_stacked_product(check: Check) -> None:
    check(
        "y[l] = sum(k: concat((A[h, k], B[i, k], C[j, k]), (h, i, j) -> l)*x[k])",
        lambda A, B, C, x: np.vstack((A, B, C)) @ x,
        {"A": floats("n m"), "B": floats("k m"), "C": floats("h m"), "x": full("m")},
        ["A: csr; B: csr; C: csr; x: dense; y: dense", "A: csc; B: coo; C: dense; x: sv; y: dense"],
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


@pytest.mark.parametrize("layouts", few(["B: csr; C: csr", "B: csc; C: coo", "B: dense; C: bcsr(R=2, C=3)"]))
def test_section_4_1_concat(check: Check, layouts: str) -> None:
    text, numpy = "D[i, l] = concat((B[i, j], C[i, k]), (j, k) -> l)", lambda B, C: np.hstack((B, C))
    check(text, numpy, {"B": floats("n m"), "C": floats("n k")}, [f"{layouts}; D: dense"])
    text, numpy = "D[l, j] = concat((B[i, j], C[k, j]), (i, k) -> l)", lambda B, C: np.vstack((B, C))
    check(text, numpy, {"B": floats("n m"), "C": floats("k m")}, [f"{layouts}; D: dense"])


@pytest.mark.parametrize("layout", few(["sv", "sv_unsorted", "rle", "dense"]))
def test_section_4_1_slice(check: Check, layout: str) -> None:
    text, data = "c[i] = slice(b[j], j -> i, (2, 5, 1))", {"b": floats("6")}
    check(text, lambda b: b[2:5], data, [f"b: {layout}; c: dense"])
    text = "c[i] = slice(b[j], j -> i, (1, 6, 3))"
    check(text, lambda b: b[1:6:3], data, [f"b: {layout}; c: dense"])


def test_section_4_1_slice_downwards(check: Check) -> None:
    text = "B[k, j] = slice(A[i, j], i -> k, (6, 1, -2))"
    check(text, lambda A: A[6:1:-2], {"A": floats("7 m")}, ["A: csr; B: dense", "A: coo; B: dense"])


# --- sections 4.2 to 7: expressions -------------------------------------------------------------------


def test_fig_14_a_concatenation_of_vectors(check: Check) -> None:
    check(
        "d[k] = concat((a[i], b[j]), (i, j) -> k)",
        lambda a, b: np.concatenate((a, b)),
        {"a": floats("n"), "b": floats("m")},
        ["a: sv; b: sv; d: dense", "a: sv_unsorted; b: rle; d: dense"],
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


# --- section 8: benchmarks ----------------------------------------------------------------------------

TWO = ("csr csr", "csc csc", "coo coo", "csr coo", "csr csc")


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


@pytest.mark.parametrize("layouts", few(["A: csr; B: csr", "A: csc; B: csr", "A: bcsr(R=2, C=3); B: coo_unsorted"]))
def test_fig_26_b_stacked_matrices_times_vector(check: Check, layouts: str) -> None:
    check(
        "y[l] = sum(k: concat((A[i, k], B[j, k]), (i, j) -> l)*x[k])",
        lambda A, B, x: np.vstack((A, B)) @ x,
        {"A": floats("n m"), "B": floats("k m"), "x": full("m")},
        [f"{layouts}; x: dense; y: dense"],
    )


@pytest.mark.parametrize("layouts", few(["A: csr; B: csr", "A: csc; B: csr", "A: coo; B: dense"]))
def test_fig_26_c_slice_times_matrix(check: Check, layouts: str) -> None:
    check(
        "C[i, j] = slice(A[k, j], k -> i, (0, 8, 2))*B[i, j]",
        lambda A, B: A[0:8:2] * B,
        {"A": floats("8 m"), "B": floats("4 m")},
        [f"{layouts}; C: dense"],
    )


# --- affine subscripts on the left --------------------------------------------------------------------


def test_slices_on_the_left(check: Check) -> None:
    def expected(a: Array, B: Array) -> Array:
        B[0:6:2] = a
        return B

    data = {"a": floats("3"), "B": floats("7", density=1)}
    check("B[i(0:6:2)] = a[i]", expected, data, ["a: sv; B: dense", "a: dense; B: dense"], in_place=("B",))
