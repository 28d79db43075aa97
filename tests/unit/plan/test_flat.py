"""Segments that lie one behind the other in one loop."""

from __future__ import annotations

import numpy as np
import pytest

import spfgen
from spfgen.plan.nodes import Scan
from tests.unit.plan.asking import ROWS, of_kind, run

UNORDERED = ROWS.replace("range 0 <= ptr(p) <= nnz  property increasing", "range 0 <= ptr(p) <= nnz", 1) % ""
SPMV, TRANSPOSED, SUMS = "y[i] = A[i,j]*x[j]", "y[j] = A[i,j]*x[i]", "y[j] = A[i,j]"


@pytest.mark.parametrize(
    ("statement", "layout", "flat"),
    [
        (SPMV, "csc", ["A.colptr"]),
        (TRANSPOSED, "csr", ["A.rowptr"]),
        (SUMS, "csr", ["A.rowptr"]),
        (SPMV, "csr", []),  # has a sum for each row
        (TRANSPOSED, "ell", []),
        ("y[j] = A[i,j]*x[i] where j < i", "csr", []),
    ],
)
def test_where_segments_may_run_as_one(statement: str, layout: str, flat: list[str]) -> None:
    operands = {"x": "dense"} if "x" in statement else {}
    kernel = spfgen.compile(statement, A=layout, y="dense", **operands)
    found = [n.flat for n in of_kind(kernel, Scan) if n.flat]
    assert found == flat


def test_segments_that_may_lie_anywhere_do_not() -> None:
    layout = spfgen.parse(UNORDERED).layouts["rows"]
    kernel = spfgen.compile(TRANSPOSED, A=layout, x="dense", y="dense")
    assert not [n for n in of_kind(kernel, Scan) if n.flat]


def _lengths(random: np.random.Generator) -> list[np.ndarray]:
    """Numbers of entries of segments: none, one, groups that are just full, even ones, uneven ones, long among short
    ones, ends without entries."""
    uneven = random.poisson(1.5, 300)
    return [
        np.zeros(0, int),
        np.array([0]),
        np.array([3]),
        np.full(129, 2),
        random.permutation(np.arange(128) % 9),  # 4 on average: as many as marks have room for
        random.permutation(np.arange(128) % 9 + 1),
        uneven,
        np.where(np.arange(300) % 150 == 70, 50, uneven),
        np.concatenate([np.zeros(130, int), uneven[:127], np.zeros(200, int)]),
        np.where(np.arange(700) % 90 == 11, 5, 0),
        np.full(700, 3),
    ]


@pytest.mark.parametrize(
    ("statement", "layout"), [(TRANSPOSED, "csr"), (TRANSPOSED, "csr<float, int64>"), (SUMS, "csr")]
)
def test_results(statement: str, layout: str) -> None:
    random = np.random.default_rng(5)
    operands = {"x": "dense"} if "x" in statement else {}
    kernel = spfgen.compile(statement, A=layout, y="dense", **operands)
    for lengths in _lengths(random):
        dense = np.zeros((len(lengths), 60))
        for row, length in enumerate(lengths):
            dense[row, random.choice(60, length, replace=False)] = random.integers(1, 9, length)
        x = random.integers(1, 9, len(lengths)).astype(float)
        x[lengths == 0] = np.nan  # is not to be read
        given = {"x": x} if operands else {}
        expected = (np.where(lengths == 0, 0, x) if operands else np.ones(len(x))) @ dense
        for threads in (1, 3):
            assert np.array_equal(run(kernel, threads, A=spfgen.pack(dense, layout), **given), expected)
