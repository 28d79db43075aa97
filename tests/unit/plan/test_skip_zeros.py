"""Zeros that small dense blocks store are passed over where they add nothing."""

from __future__ import annotations

import numpy as np
import pytest

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import PLANS, SkipZero

STATEMENT = "C[i,k] = A[i,j]*B[j,k]"


def skipped(kernel: spfgen.Kernel) -> set[tuple[str, str]]:
    """The tensors whose zeros are passed over, with what must be finite."""
    nodes = (n for p in kernel.generated.plans for n in walk(p, PLANS) if isinstance(n, SkipZero))
    return {(n.value.tensor, n.other.tensor) for n in nodes}


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("bcsr", "csr", {("A", "B")}),
        ("bcsr", "coo", {("A", "B")}),
        ("csr", "csr", set()),
        ("bcsr", "dense", set()),  # runs by vectors
        ("csr", "bcsr", set()),  # nothing goes on with a value of B
    ],
)
def test_whose_zeros(left: str, right: str, expected: set[tuple[str, str]]) -> None:
    assert skipped(spfgen.compile(STATEMENT, A=left, B=right, C="dense")) == expected


@pytest.mark.sampled(1)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64])
def test_products(kind: type, threads: int) -> None:
    rng = np.random.default_rng(1)
    kernel = spfgen.compile(STATEMENT, A="bcsr", B="csr", C="dense", threads=threads)
    for shape in ((0, 3, 2), (1, 1, 1), (20, 31, 25)):
        left, right = ((rng.integers(1, 9, s) * (rng.random(s) < 0.3)).astype(kind) for s in (shape[:2], shape[1:]))
        found = kernel(A=spfgen.pack(left, "bcsr"), B=spfgen.pack(right, "csr"))
        assert np.array_equal(found, left @ right)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_zero_times_what_is_not_finite(value: float) -> None:
    """What is stored counts: the zeros of a block are."""
    left, right = np.zeros((20, 20)), np.zeros((20, 20))
    left[::2, ::2], right[:, ::3] = 1, 2
    right[1, 0] = value
    blocks = spfgen.pack(left, "bcsr")
    found = spfgen.compile(STATEMENT, A="bcsr", B="csr", C="dense")(A=blocks, B=spfgen.pack(right, "csr"))
    assert np.isnan(found[:, 0]).all()
    assert np.array_equal(found[:, 1:], left @ right[:, 1:])
