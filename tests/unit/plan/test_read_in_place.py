"""Index arrays that are read where their values are used: what the plan says."""

from __future__ import annotations

import numpy as np
import pytest

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import PLANS, Find, Load


def in_place(kernel: spfgen.Kernel) -> dict[str, bool]:
    """Of what is loaded at the positions of A, whether it is read in place."""
    nodes = [n for p in kernel.generated.plans for n in walk(p, PLANS)]
    loads = [n for n in nodes if isinstance(n, Load)] + [x for n in nodes if isinstance(n, Find) for x in n.loads]
    return {n.dim: n.in_place for n in loads if "A.pj" in str(n.call)}


@pytest.mark.parametrize(
    ("text", "level", "expected"),
    [
        ("y[i] = A[i,j]*x[j]", 1, True),
        ("y[i] = A[i,j]*x[j]", 2, True),
        ("y[i] = A[i,j]*x[j]", 0, False),  # as the scan has it
        ("y[i] = A[i,j]*x[j]*z[j]", 2, False),  # it is used twice
        ("Y[i,k] = A[i,j]*X[j,k]", 1, False),  # in a loop further in: it would be read again and again
        ("y[i] = sum(j: max(A[i,j], x[j]))", 0, False),  # a statement of the second path
    ],
)
def test_what_is_used_once_has_no_name(text: str, level: int, expected: bool) -> None:
    dense = {n: "dense" for n in "xyzXY" if f"{n}[" in text}
    found = in_place(spfgen.compile(text, A="csr", **dense, optimize=level))
    assert found
    assert set(found.values()) == {expected}


@pytest.mark.parametrize("level", [0, 1, 2])
def test_results_are_the_same(level: int) -> None:
    dense = np.where(np.random.default_rng(2).random((7, 9)) < 0.4, 2.0, 0.0)
    kernel = spfgen.compile("y[i] = A[i,j]*B[i,j]*x[j]", A="csr", B="coo", x="dense", y="dense", optimize=level)
    found = kernel(A=spfgen.pack(dense, "csr"), B=spfgen.pack(dense.clip(0, 1), "coo"), x=np.arange(9.0))
    assert np.array_equal(found, dense @ np.arange(9.0))
