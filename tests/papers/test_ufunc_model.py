"""Henry et al. 2021, Compilation of Sparse Array Programming Models: the programming model (sections 2 to 7).

Every expression of the text and the figures, in the fill values that it has there.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.papers.support import floats

Check = Callable[..., None]


def test_section_2_addition_and_multiplication(check: Check) -> None:
    data = {"B": floats("n m"), "C": floats("n m")}
    layouts = ["B: csr; C: csr; A: dense", "B: coo; C: csc; A: dense", "B: bcsr(R=2, C=3); C: dcsr; A: dense"]
    check("A[i, j] = B[i, j] + C[i, j]", lambda B, C: B + C, data, layouts)
    check("A[i, j] = B[i, j]*C[i, j]", lambda B, C: B * C, data, layouts)


def test_section_4_2_addition_of_cubes(check: Check) -> None:
    data = {"B": floats("n m k"), "C": floats("n m k")}
    layouts = ["B: csf; C: csf; A: dense", "B: coo; C: csf; A: dense", "B: coo_unsorted; C: dense_col; A: dense"]
    check("A[i, j, k] = B[i, j, k] + C[i, j, k]", lambda B, C: B + C, data, layouts)


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "bcsr(R=2, C=3)"])
def test_section_4_2_sum_of_rows(check: Check, layout: str) -> None:
    check("y[i] = sum(j: A[i, j])", lambda A: A.sum(1), {"A": floats("n m")}, [f"A: {layout}; y: dense"])
