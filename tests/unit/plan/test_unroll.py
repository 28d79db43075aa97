"""Which of two inner loops adds up a segment is decided by the plan, and said."""

from __future__ import annotations

import numpy as np
import pytest

import spfgen
from spfgen.explain import explain_text
from spfgen.ir import walk
from spfgen.plan.nodes import PLANS, Scan, UnrollWhen

TEXT = "y[i] = A[i, j]*x[j]"


def rounds(kernel: spfgen.Kernel) -> list[UnrollWhen]:
    plans = kernel.generated.plans
    return [n.unroll_when for p in plans for n in walk(p, PLANS) if isinstance(n, Scan) and n.unroll_when is not None]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("A", "x", "samples"),
    [("csr", "dense", True), ("csr<float>", "dense<float>", True), ("csr<int64>", "dense<int64>", None)],
)
def test_sums_of_fractions_over_segments(A: str, x: str, samples: bool | None) -> None:  # noqa: N803
    """Integers are added in any order by the compiler itself."""
    kernel = spfgen.compile(TEXT, A=A, x=x, y=x)
    found = rounds(kernel)
    assert [r.begins is not None for r in found] == ([] if samples is None else [samples])
    assert ("unrolled by four" in explain_text(kernel.generated)) == bool(found)
    assert not rounds(spfgen.compile(TEXT, A=A, x=x, y=x, optimize=1))


@pytest.mark.parametrize("lengths", [[40] * 50, [3] * 50, [0, 1, 7, 2] * 20, [5, 5, 5, 90] * 15])
def test_both_loops_are_right(lengths: list[int]) -> None:
    rng = np.random.default_rng(len(lengths))
    dense = np.zeros((len(lengths), 100))
    for row, length in zip(dense, lengths, strict=True):
        row[rng.choice(100, length, replace=False)] = rng.random(length)
    x = rng.random(100)
    kernel = spfgen.compile(TEXT, A="csr", x="dense", y="dense")
    np.testing.assert_allclose(kernel(A=spfgen.pack(dense, "csr"), x=x), dense @ x)
