"""What is the same in all of an innermost loop is read above it, if it is known to be there."""

from __future__ import annotations

import numpy as np
import pytest

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import PLANS, Scan

OUTER = "Y[i, j] += A[i, j]*x[i]"


def read_above(kernel: spfgen.Kernel) -> dict[str, tuple[str, ...]]:
    """The loops that have such values, and their labels."""
    loops = [n for p in kernel.generated.plans for n in walk(p, PLANS) if isinstance(n, Scan)]
    return {n.dim: n.reads_above for n in loops if n.reads_above}


@pytest.mark.parametrize(("level", "expected"), [(1, {}), (2, {"A.pj": ("x",)})])
def test_a_factor_of_the_row(level: int, expected: dict[str, tuple[str, ...]]) -> None:
    kernel = spfgen.compile(OUTER, A="csr", x="dense", Y="dense", optimize=level, threads=2)
    assert read_above(kernel) == expected
    a, x = np.arange(12.0).reshape(3, 4) % 5, np.array([2.0, 3.0, 5.0])
    before = np.ones((3, 4))
    assert np.array_equal(kernel(A=spfgen.pack(a, "csr"), x=x, Y=before.copy()), before + a * x[:, None])


def test_what_the_program_stores_is_read_in_the_loop() -> None:
    """Another statement may have stored it, and this one is compiled with it."""
    kernel = spfgen.compile(
        "z[i] = 2*x[i]; Y[i, j] += A[i, j]*z[i]", A="csr", x="dense", z="dense", Y="dense", threads=1
    )
    assert read_above(kernel) == {}
