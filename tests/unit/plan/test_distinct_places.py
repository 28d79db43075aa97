"""Loops that add to several places at a time, where no two of them are the same."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import DISTINCT, PLANS, Scan

STATEMENT = "C[i,k] = A[i,j]*B[j,k]"


def loops(kernel: spfgen.Kernel) -> list[str]:
    nodes = (n for p in kernel.generated.plans for n in walk(p, PLANS) if isinstance(n, Scan))
    return [n.dim for n in nodes if n.partial == DISTINCT]


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("csr", ["B.pj"]),
        ("csr_unsorted", []),  # a column may stand twice in a row
        ("dense", []),  # compilers see that the places differ
    ],
)
def test_that_places_differ_is_proved(layout: str, expected: list[str]) -> None:
    kernel = spfgen.compile(STATEMENT, A="csr", B=layout, C="dense")
    assert loops(kernel) == expected
    assert (DISTINCT in kernel.explain()) == bool(expected)


@pytest.mark.parametrize("threads", [1, 2])
def test_places_that_a_column_names(threads: int) -> None:
    """Each column adds to rows, and its end is where the next one begins."""
    kernel = spfgen.compile("y[i] = A[i,j]*x[j]", A="csc", x="dense", y="dense", threads=threads)
    assert loops(kernel) == ["A.pi"]
    dense, x = np.arange(60.0).reshape(10, 6) % 7, np.arange(6.0)
    assert np.array_equal(kernel(A=sp.csc_array(dense), x=x), dense @ x)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", [np.float64, np.int8, np.complex64, np.bool_])
@pytest.mark.parametrize("layout", ["csr", "csr_unsorted"])
def test_products(layout: str, kind: type) -> None:
    """Rows of no, few and many entries, and columns that stand twice, in a list of entries that nobody sorts."""
    rng = np.random.default_rng(2)
    lengths = [0, 1, 3, 4, 5, 13, 0, 8]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    columns = [np.sort(rng.choice(20, n, replace=False)) for n in lengths]
    if layout != "csr":
        columns = [rng.integers(0, 20, n) for n in lengths]
    values = rng.integers(1, 3, ends[-1]).astype(kind)
    right = sp.csr_array((values, np.concatenate(columns), ends), shape=(8, 20))
    left = (rng.random((9, 8)) < 0.5).astype(kind)
    kernel = spfgen.compile(STATEMENT, A="csr", B=layout, C="dense", threads=2)
    found = kernel(A=spfgen.pack(left, "csr"), B=right)
    assert np.array_equal(found, left @ right.toarray())
