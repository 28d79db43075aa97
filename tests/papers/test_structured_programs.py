"""Ahrens et al. 2024, Finch: Sparse and Structured Array Programming with Control Flow: every program of the figures.

Programs with loops are written as in the paper, but for Python's conventions: indices begin at 0.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.papers.support import floats

Check = Callable[..., None]


# --- section 5: masks, dimensions, accesses -----------------------------------------------------------


def test_table_4_offset(check: Check) -> None:
    check("y[i] = x[i + 2]", lambda x: x[2:], {"x": floats("n+2")}, ["x: sv; y: dense"], sizes={"i": "n"})


def test_table_4_toeplitz(check: Check) -> None:
    check(
        "T[i, k] = x[i + k]",
        lambda x: np.array([x[i : i + 3] for i in range(len(x) - 2)]).reshape(-1, 3),
        {"x": floats("n+2")},
        ["x: sv; T: dense", "x: rle; T: dense"],
        sizes={"i": "n", "k": "3"},
    )


def test_table_4_swizzle(check: Check) -> None:
    data = {"A": floats("n m k")}
    check("B[k, i, j] = A[i, j, k]", lambda A: A.transpose(2, 0, 1), data, ["A: csf; B: dense", "A: coo; B: dense"])
