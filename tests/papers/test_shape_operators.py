"""Root et al. 2024, Compilation of Shape Operators on Sparse Arrays: each operator, example, figure and benchmark."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.papers.support import floats

Check = Callable[..., None]


# --- section 1 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["csf", "coo", "dense_col"])
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


# --- sections 4.2 to 7: expressions -------------------------------------------------------------------


def test_fig_14_d_union_with_a_dense_vector(check: Check) -> None:
    data = {"a": floats("n"), "b": floats("n", density=1)}
    check("d[i] = a[i] + b[i]", lambda a, b: a + b, data, ["a: sv; b: dense; d: dense"])
