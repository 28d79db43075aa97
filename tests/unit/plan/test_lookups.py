"""Finds that are the same in all iterations of a loop are made before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen.ir import children
from spfgen.pipeline import make_plans
from spfgen.plan.nodes import PLANS, Find, Scan
from tests.fuzz.carried import by_the_interpreter
from tests.plans.effort import Effort
from tests.unit.plan.asking import LISTED_ROWS

Array = np.ndarray[Any, Any]
PROGRAMS: dict[str, Callable[..., Array]] = {
    "C[i,j,k] = logical_xor(A[i,j,k], B[i,j,k])": lambda a, b: np.logical_xor(a, b),
    "C[i,j,k] = maximum(A[i,j,k], B[i,j,k])": lambda a, b: np.maximum(a, b),
    "C[i,j,k] = A[i,j,k] - B[i,j,k]**2": lambda a, b: a - b**2,
    "C[i,j,k] = where(B[i,j,k] > 0, A[i,j,k], -A[i,j,k])": lambda a, b: np.where(b > 0, a, -a),
    "C[i,j,k] = hypot(A[i,j,k], sum(l: B[i,l,k]))": lambda a, b: np.hypot(a, b.sum(1)[:, None, :]),
}
CUBES = [("csf", "csf"), ("coo", "csf"), ("dense", "csf"), ("csf", "dense"), ("csf", "coo"), ("coo_unsorted", "csf")]


def cube(rng: np.random.Generator, *shape: int) -> Array:
    """Some slices and rows are empty."""
    kept = rng.random(shape) < 0.4
    kept &= rng.random(shape[:1])[:, None, None] < 0.7
    kept &= rng.random(shape[:2])[:, :, None] < 0.7
    return np.where(kept, rng.integers(-4, 5, shape), 0).astype(float)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layouts", CUBES)
@pytest.mark.parametrize("text", PROGRAMS)
def test_results(text: str, layouts: tuple[str, str]) -> None:
    """At all levels, on several threads, and carried out by the interpreter."""
    named = {"A": layouts[0], "B": layouts[1], "C": "dense"}
    rng = np.random.default_rng(len(text))
    kernels = [spfgen.compile(text, optimize=level, threads=2, **named) for level in (0, 1, 2)]
    for shape in ((4, 5, 6), (6, 2, 3), (1, 1, 1), (3, 0, 2), (0, 2, 2)):
        given = {"A": cube(rng, *shape), "B": cube(rng, *shape)}
        for kernel in kernels:
            np.testing.assert_array_equal(kernel(**given), PROGRAMS[text](*given.values()))
    given = {"A": cube(rng, 3, 4, 3), "B": cube(rng, 3, 4, 3)}
    with by_the_interpreter() as ran:
        np.testing.assert_array_equal(spfgen.compile(text, **named)(**given), PROGRAMS[text](*given.values()))
    assert ran


def depths(text: str, **layouts: Any) -> dict[str, int]:
    """How many loops are around each find."""

    def around(node: Any, depth: int) -> Iterator[tuple[str, int]]:
        if isinstance(node, Find):
            yield node.key.dim if node.key else node.dim, depth
        inner = depth + isinstance(node, Scan)
        for child in (n for n in children(node) if isinstance(n, PLANS)):
            yield from around(child, inner)

    return dict(found for p in make_plans(spfgen.compile(text, **layouts).program) for found in around(p, 0))


def test_each_level_is_looked_up_where_it_is_known() -> None:
    found = depths("C[i,j,k] = minimum(A[i,j,k], B[i,j,k])", A="csf", B="csf", C="dense")
    assert [found[f"B.idx_{k}(B.p_{k})"] for k in (1, 2, 3)] == [1, 2, 3]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("rule", "moves"), [("strictly increasing", True), ("increasing", False)])
def test_rows_that_may_stand_twice_are_no_one_position(rule: str, moves: bool) -> None:
    layout = spfgen.parse(LISTED_ROWS % rule).layouts["rows"]
    text = "C[i,j] = maximum(A[i,j], B[i,j])"
    found = depths(text, A="csr", B=layout, C="dense")
    assert (found.get("B.row(B.p)") == 1) == moves
    row = np.array([0, 2, 3], np.int32) if moves else np.array([0, 2, 2], np.int32)
    begin, col = np.array([0, 2, 3, 5], np.int32), np.array([0, 1, 0, 1, 2], np.int32)
    b = spfgen.tensor(layout, shape=(4, 3), row=row, begin=begin, col=col, data=np.array([4.0, 1, 3, 2, 5]))
    a = np.array([[1.0, 2, 0], [0, 0, 3], [5, 0, 0], [0, 0, 9]])
    kernel = spfgen.compile(text, A="csr", B=layout, C="dense")
    np.testing.assert_array_equal(kernel(A=a, B=b), np.maximum(a, b.to_numpy()))


def test_nothing_is_looked_up_for_rows_without_entries() -> None:
    """A row of the first tensor that stores nothing costs no find in the second."""
    text, taken = "C[i,j] = maximum(A[i,j], B[i,j])", []
    for rows in (40, 400):
        a, b = np.zeros((rows, 3)), np.zeros((rows, 3))
        a[:5, 1], b[3:9, 2] = 2.0, 1.0
        effort = Effort()
        with by_the_interpreter(effort):
            spfgen.compile(text, A="dcsr", B="dcsr", C="dcsr")(A=a, B=b)
        taken.append(effort.total)
    assert taken[0] == taken[1]
