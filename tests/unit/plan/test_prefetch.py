"""Segments that are reached through an array are fetched ahead, where what is read for that will be read anyway."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csc_array, csr_array

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import Prefetch

PRODUCT = "C[i, k] = A[i, j]*B[j, k]"


def fetched(kernel: spfgen.Kernel) -> set[str]:
    """The positions from which on something is fetched."""
    return {n.position for plan in kernel.generated.plans for n in walk(plan) if isinstance(n, Prefetch)}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("statement", "layouts", "positions"),
    [
        ("y[i] = A[i, j]*x[j]", {"A": "csc", "x": "sv", "y": "dense"}, {"A.pi"}),
        (PRODUCT, {"A": "csr", "B": "csr", "C": "dense"}, {"B.pj"}),
        (
            PRODUCT,
            {"A": "csr", "B": "bcsr", "C": "dense"},
            {"B.pb"},
        ),
        (PRODUCT, {"A": "ell", "B": "csr", "C": "dense"}, set()),  # a place without a column has no row of B
        (PRODUCT, {"A": "dense", "B": "csr", "C": "dense"}, set()),  # the rows come one after the other
        ("y[i] = A[i, j]*x[j]", {"A": "csr", "x": "dense", "y": "dense"}, set()),
    ],
)
def test_what_is_fetched(statement: str, layouts: dict[str, str], positions: set[str]) -> None:
    assert fetched(spfgen.compile(statement, **layouts)) == positions


@pytest.mark.sampled(1)
@pytest.mark.parametrize("columns", [0, 1, 7, 8, 9, 40])
def test_results(columns: int) -> None:
    """With fewer entries than are looked ahead, and with more."""
    rng = np.random.default_rng(columns)
    a = np.where(rng.random((11, columns)) < 0.6, rng.integers(1, 9, (11, columns)), 0).astype(float)
    b = np.where(rng.random((columns, 13)) < 0.3, rng.integers(1, 9, (columns, 13)), 0).astype(float)
    product = spfgen.compile(PRODUCT, A="csr", B="csr", C="dense")
    assert np.array_equal(product(A=csr_array(a), B=csr_array(b)), a @ b)
    product = spfgen.compile(PRODUCT, A="ell", B="csr", C="dense")
    assert np.array_equal(product(A=csr_array(a), B=csr_array(b)), a @ b)
    index = np.arange(0, columns, 2, dtype=np.int32)
    x = spfgen.tensor("sv", shape=columns, idx=index, val=np.ones(len(index)))
    columnwise = spfgen.compile("y[i] = A[i, j]*x[j]", A="csc", x="sv", y="dense")
    assert np.array_equal(columnwise(A=csc_array(a), x=x), a[:, ::2].sum(axis=1))
