"""Rows of slots, whose last slot is asked for all of them."""

from __future__ import annotations

import numpy as np
import pytest

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import PLANS, Guard, Scan, Versions

STATEMENT = "y[i] = A[i,j]*x[j]"
SLOTS = """
layout own(nrow, ncol) {
    size width
    relation { [pi, ps] -> [i, j] :
        0 <= pi < nrow and 0 <= ps < width and i = pi and j = colidx(pi, ps) and 0 <= j }
    index colidx[nrow, width] {
        range -1 <= colidx(r, s) < ncol
        PROPERTY
    }
    value val[nrow, width] at [pi, ps]
}
kernel k { tensor A : own tensor x, y : dense y[i] = A[i,j]*x[j] }
"""
LAST = "property forall r, s, t : s < t and colidx(r, t) >= 0 => colidx(r, s) >= 0"


def full(kernel: spfgen.Kernel) -> list[Scan]:
    """The loops that ask nothing, where one that does stands beside."""
    nodes = [n for p in kernel.generated.plans for n in walk(p, PLANS) if isinstance(n, Versions)]
    asked = [n for n in nodes if any(isinstance(g, Guard) and g.exits for g in walk(n.versions[-1].body, PLANS))]
    found = [n.versions[0].body for n in asked]
    assert not any(isinstance(g, Guard) for f in found for g in walk(f, PLANS))
    return [f for f in found if isinstance(f, Scan)]


@pytest.mark.parametrize(("property_", "count"), [(LAST, 1), ("", 0)])
def test_that_unused_places_come_last_is_declared(property_: str, count: int) -> None:
    assert len(full(spfgen.parse(SLOTS.replace("PROPERTY", property_)).kernels["k"].compile())) == count


def test_a_part_of_a_segment_is_not_all_of_it() -> None:
    kernel = spfgen.compile("y[i] = sum(j < i: A[i,j]*x[j])", A="csr", x="dense", y="dense")
    assert any(isinstance(g, Guard) and g.exits for p in kernel.generated.plans for g in walk(p, PLANS))
    assert not full(kernel)


def test_level_1_asks_each() -> None:
    assert not full(spfgen.compile(STATEMENT, A="ell", x="dense", y="dense", optimize=1))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("width", [0, 1, 3, 4, 9])
def test_rows_that_are_full_and_others(width: int, threads: int) -> None:
    rng = np.random.default_rng(width)
    kernel = spfgen.compile(STATEMENT, A="ell", x="dense", y="dense", threads=threads)
    for fullness in (0, 0.5, 1):
        dense = np.zeros((20, 10))
        for row in dense:
            count = width if rng.random() < fullness else int(rng.integers(0, width + 1))
            row[rng.choice(10, count, replace=False)] = rng.integers(1, 9, count)
        x = rng.integers(0, 9, 10).astype(float)
        assert np.array_equal(kernel(A=spfgen.pack(dense, "ell"), x=x), dense @ x)
