"""How loops that only add do so: what the plan says, and when it says nothing."""

from __future__ import annotations

import numpy as np
import pytest

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import ACROSS, IN_TURN, LEFT, PLANS, SEVERAL, Scan

KERNELS: dict[str, tuple[str, dict[str, str], set[str]]] = {
    "through an index array": ("y[i] = A[i, j]*x[j]", {"A": "csr"}, {IN_TURN}),
    "side by side": ("y[i] = sum(j: X[i, j]*x[j] where j < 20)", {}, {ACROSS}),
    "few values": ("y[i] = sum(j: X[i, j]*x[j] where j < 3)", {}, set()),
    "each iteration has a place of its own": ("y[i] = d[i]*x[i]", {}, set()),
    "whole numbers wait for nothing": ("y[i] = A[i, j]*x[j]", {"A": "csr<int32>", "y": "dense<int32>"}, set()),
    "a solve": ("x[i] = (b[i] - sum(j < i: L[i, j]*x[j]))/L[i, i]", {"L": "csr"}, {LEFT}),
}


def partial(text: str, layouts: dict[str, str], level: int) -> set[str]:
    kind = layouts.get("y", "dense")
    dense = {n: kind for n in "xyXYZbd" if f"{n}[" in text}
    made = spfgen.compile(text, **dense | layouts, optimize=level)
    return {n.partial for p in made.generated.plans for n in walk(p, PLANS) if isinstance(n, Scan)} - {""}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", KERNELS)
def test_how_loops_add(name: str) -> None:
    text, layouts, wanted = KERNELS[name]
    assert partial(text, layouts, 2) == wanted
    assert not partial(text, layouts, 1)


def test_several_sums_of_one_loop() -> None:
    """Each has a vector of its own."""
    text = "y[i] = sum(j: X[i, j]*x[j])/sum(j: X[i, j])"
    assert SEVERAL in partial(text, {}, 2)
    kernel = spfgen.compile(text, X="dense", x="dense", y="dense")
    for length in (1, 3, 8, 37):
        dense, x = np.arange(1.0, 2 * length + 1).reshape(2, length), np.arange(length) + 1.0
        np.testing.assert_allclose(kernel(X=dense, x=x), dense @ x / dense.sum(axis=1))


@pytest.mark.parametrize("lengths", [[40] * 50, [3] * 50, [0, 1, 7, 2] * 20, [5, 5, 5, 90] * 15])
def test_rows_of_each_length(lengths: list[int]) -> None:
    rng = np.random.default_rng(len(lengths))
    dense = np.zeros((len(lengths), 100))
    for row, length in zip(dense, lengths, strict=True):
        row[rng.choice(100, length, replace=False)] = rng.random(length)
    x = rng.random(100)
    kernel = spfgen.compile("y[i] = A[i, j]*x[j]", A="csr", x="dense", y="dense")
    np.testing.assert_allclose(kernel(A=spfgen.pack(dense, "csr"), x=x), dense @ x)


@pytest.mark.parametrize(("layout", "expected"), [("coo", True), ("coo_unsorted", False), ("csr", False)])
def test_how_parts_add_to_a_place_that_they_share(layout: str, expected: bool) -> None:
    """Rows of a sorted list of entries may go on in the next part, which has a sum of what it has of the first one."""
    made = spfgen.compile("y[i] = A[i, j]*x[j]", A=layout, x="dense", y="dense")
    loops = [n for p in made.generated.plans for n in walk(p, PLANS) if isinstance(n, Scan)]
    found = [how for n in loops if n.partition is not None for _, how in n.partition.partial]
    assert found == [IN_TURN] * expected
