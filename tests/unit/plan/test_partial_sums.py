"""How loops that only add do so: what the plan says, and when it says nothing."""

from __future__ import annotations

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


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", KERNELS)
def test_how_loops_add(name: str) -> None:
    text, layouts, wanted = KERNELS[name]
    assert partial(text, layouts, 2) == wanted
    assert not partial(text, layouts, 1)


def test_several_iterations_at_once() -> None:
    """Each has a vector of its own; what is left of them has one."""
    text = "tensor A : csr tensor B, D : dense tensor C : csr shares A C[i, j] = A[i, j]*B[i, k]*D[j, k]"
    made = spfgen.parse(f"kernel k {{ {text} }}").kernels["k"].compile()
    found = {n.partial for p in made.generated.plans for n in walk(p, PLANS) if isinstance(n, Scan)}
    assert {ACROSS, SEVERAL} <= found


@pytest.mark.parametrize(("layout", "expected"), [("coo", True), ("coo_unsorted", False), ("csr", False)])
def test_how_parts_add_to_a_place_that_they_share(layout: str, expected: bool) -> None:
    """Rows of a sorted list of entries may go on in the next part, which has a sum of what it has of the first one."""
    made = spfgen.compile("y[i] = A[i, j]*x[j]", A=layout, x="dense", y="dense")
    loops = [n for p in made.generated.plans for n in walk(p, PLANS) if isinstance(n, Scan)]
    found = [how for n in loops if n.partition is not None for _, how in n.partition.partial]
    assert found == [IN_TURN] * expected
