"""Loops that are left where what they ask for can no longer hold."""

from __future__ import annotations

import numpy as np
import pytest

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import Guard

LOWER = "y[i] = sum(j<i: A[i,j]*x[j])"


def matrix(rows: int, columns: int) -> np.ndarray:
    """Rows of each length, the first one empty."""
    dense = np.zeros((rows, columns))
    for row in range(rows):
        dense[row, columns - row % (columns + 1) :] = row
    return dense


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("statement", "layout", "ends"),
    [
        ("y[i] = A[i,j]*x[j]", "ell", True),
        (LOWER, "csr", True),
        (LOWER, "csr_unsorted", False),
        ("y[i] = sum(j>i: A[i,j]*x[j])", "csr_unsorted", False),
        ("y[i] = A[i,j]*x[j]", "sell", False),  # the places in a row of the array are of different rows
    ],
)
def test_where_loops_end(statement: str, layout: str, ends: bool) -> None:
    kernel = spfgen.compile(statement, A=layout, x="dense", y="dense")
    guards = [n for p in kernel.generated.plans for n in walk(p) if isinstance(n, Guard)]
    assert guards
    assert any(g.exits for g in guards) == ends
    assert ("the loop ends" in kernel.explain()) == ends
    for rows, columns in ((0, 3), (1, 1), (7, 5), (9, 9)):
        dense, x = matrix(rows, columns), np.arange(columns) + 1.0
        kept = np.tril(dense, -1) if "j<i" in statement else np.triu(dense, 1) if "j>i" in statement else dense
        assert np.array_equal(kernel(A=spfgen.pack(dense, layout), x=x), kept @ x)
