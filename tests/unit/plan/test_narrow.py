"""Loops inside of tiles begin and end where a sorted array says so; the search needs a proof that it is sorted."""

from __future__ import annotations

import numpy as np
import pytest

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import Bound, Guard

UNSORTED = """
layout loose(n, m) {
    size nnz
    relation { [pi, pj] -> [i, j] : 0 <= pi < n and ptr(pi) <= pj < ptr(pi + 1) and i = pi and j = idx(pj) }
    index ptr[n + 1] { range 0 <= ptr(p) <= nnz  property increasing }
    index idx[nnz] { range 0 <= idx(p) < m }
    value val[nnz] at [pj]
}
"""


def bounds(layout: object, schedule: str) -> list[str]:
    kernel = spfgen.compile("y[i] = A[i, j]*x[j]", A=layout, x="dense", y="dense", schedule=schedule)
    return [n.dim for p in kernel.generated.plans for n in walk(p) if isinstance(n, Bound)]


@pytest.mark.parametrize(
    ("layout", "schedule", "expected"),
    [
        ("csr", "tile j by 8", ["A.pj", "A.pj"]),  # where a row has columns of the tile
        ("csr", "tile A.pj by 8", ["i", "i"]),  # which rows have positions of the tile
        ("coo", "tile i by 8", ["A.p", "A.p"]),
        ("coo", "tile j by 8", []),  # sorted by rows only
        ("csr", "tile i by 8", []),  # rows are counted, not looked for
        ("csr", "", []),
    ],
)
def test_where_an_array_is_sorted(layout: str, schedule: str, expected: list[str]) -> None:
    assert bounds(layout, schedule) == expected


def test_not_where_it_may_not_be() -> None:
    loose = spfgen.parse(UNSORTED).layouts["loose"]
    assert bounds(loose, "tile j by 8") == []
    assert bounds(loose, "tile A.pj by 8") == ["i", "i"]
    kernel = spfgen.compile("y[i] = A[i, j]*x[j]", A=loose, x="dense", y="dense", schedule="tile j by 8")
    assert any(isinstance(n, Guard) or getattr(n, "conditions", ()) for p in kernel.generated.plans for n in walk(p))


def test_an_array_that_falls() -> None:
    text = UNSORTED.replace("0 <= idx(p) < m }", "0 <= idx(p) < m  property decreasing within ptr }")
    falling = spfgen.parse(text).layouts["loose"]
    kernel = spfgen.compile("y[i] = A[i, j]*x[j]", A=falling, x="dense", y="dense", schedule="tile j by 3")
    assert all(n.descending for p in kernel.generated.plans for n in walk(p) if isinstance(n, Bound))
    ptr, idx = np.array([0, 3, 3, 6, 7]), np.array([6, 4, 2, 5, 3, 0, 1])
    matrix = spfgen.tensor(falling, shape=(4, 7), ptr=ptr, idx=idx, val=np.arange(1.0, 8.0))
    x = np.arange(1.0, 8.0)
    assert np.array_equal(kernel(A=matrix, x=x), matrix.to_numpy() @ x)
