"""Reductions within reductions: entries that come together need no table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen.ir import walk
from spfgen.pipeline import make_plans
from spfgen.plan.nodes import PLANS, Collect
from tests.fuzz.carried import by_the_interpreter
from tests.unit.plan.asking import LISTED_ROWS

Array = np.ndarray[Any, Any]
MATRICES = ["csr", "csc", "dcsr", "dcsc", "coo", "coo_unsorted", "csf", "bcsr(R=2, C=3)", "ell", "dense"]
PROGRAMS: dict[str, Callable[[Array], Any]] = {
    "s = max(i: min(j: A[i,j]))": lambda a: a.min(1).max(),
    "s = min(j: max(i: A[i,j]))": lambda a: a.max(0).min(),
    "s = sum(i: max(j: A[i,j]))": lambda a: a.max(1).sum(),
    "s = sum(i: exp(-max(j: A[i,j]*A[i,j]))) ": lambda a: np.exp(-(a * a).max(1)).sum(),
    "s = max(i: sum(j: A[i,j]))": lambda a: a.sum(1).max(),
    "s = sum(i: sqrt(sum(j: A[i,j]*A[i,j])))": lambda a: np.sqrt((a * a).sum(1)).sum(),
    "s = any(i: all(j: A[i,j] > 0))": lambda a: (a > 0).all(1).any(),
    "y[i] = max(j: A[i,j])*min(k: max(l: A[k,l]))": lambda a: a.max(1) * a.max(1).min(),
}


def matrix(rows: int, columns: int, density: float, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    return np.where(rng.random((rows, columns)) < density, rng.integers(-5, 6, (rows, columns)), 0).astype(float)


def tables(kernel: Any) -> int:
    return sum(isinstance(n, Collect) for p in make_plans(kernel.program) for n in walk(p, PLANS))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", MATRICES)
@pytest.mark.parametrize("text", PROGRAMS)
def test_results(text: str, layout: str) -> None:
    """Of empty rows, full ones, and matrices of all sizes, in C and carried out by the interpreter."""
    target = text[0]
    layouts = {"A": layout} | ({"y": "dense"} if target == "y" else {})
    for level in (0, 1, 2):
        kernel = spfgen.compile(text, optimize=level, threads=2, **layouts)
        for seed, (rows, columns, density) in enumerate(
            [(6, 5, 0.4), (7, 3, 1.0), (5, 9, 0.1), (4, 4, 0.0), (1, 1, 1)]
        ):
            a = matrix(rows, columns, density, seed)
            np.testing.assert_allclose(kernel(A=a), PROGRAMS[text](a), err_msg=f"{level} {a}")
    with by_the_interpreter() as ran:
        a = matrix(5, 4, 0.5)
        np.testing.assert_allclose(spfgen.compile(text, **layouts)(A=a), PROGRAMS[text](a))
    assert ran


def game(order: int) -> str:
    """The best that a player can reach who is to move, to the last leaf."""
    text = f"A[{','.join('ijklmn'[:order])}]"
    for depth in reversed(range(order)):
        text = f"{'min' if depth % 2 else 'max'}({'ijklmn'[depth]}: {text})"
    return f"s = {text}"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize(
    ("layout", "is_tree"), [("csf", True), ("coo", False), ("coo_unsorted", False), ("dense", True)]
)
def test_trees(order: int, layout: str, is_tree: bool) -> None:
    """One nest of loops where the layout is a tree itself."""
    kernel = spfgen.compile(game(order), A=layout)
    assert (tables(kernel) == 0) == is_tree
    rng = np.random.default_rng(order)
    for density in (0.0, 0.1, 0.5, 0.95, 1.0):
        for shape in ((3, 4, 2, 3), (2, 1, 5, 2), (4, 4, 4, 4)):
            values = rng.integers(-9, 10, shape[:order])
            a = np.where(rng.random(values.shape) < density, values, 0).astype(float)
            expected: Any = a
            for depth in reversed(range(order)):
                expected = (np.min if depth % 2 else np.max)(expected, axis=depth)
            assert kernel(A=a) == expected, (density, a)
    assert kernel(A=np.zeros((3, 0, 2, 2)[:order])) == np.inf  # the least of nothing


@pytest.mark.parametrize(
    ("rule", "come_together"),
    [("strictly increasing", True), ("injective", True), ("increasing", False)],
)
def test_rows_that_may_come_twice_need_a_table(rule: str, come_together: bool) -> None:
    layout = spfgen.parse(LISTED_ROWS % rule).layouts["rows"]
    kernel = spfgen.compile("s = max(i: min(j: A[i,j]))", A=layout)
    assert (tables(kernel) == 0) == come_together
    row = np.array([0, 2, 3], np.int32) if come_together else np.array([0, 2, 2], np.int32)
    begin, col = np.array([0, 2, 3, 5], np.int32), np.array([0, 1, 0, 1, 2], np.int32)
    a = spfgen.tensor(layout, shape=(4, 3), row=row, begin=begin, col=col, data=np.array([4.0, 1, 3, 2, 5]))
    assert kernel(A=a) == a.to_numpy().min(1).max()


def test_on_several_threads() -> None:
    """The outermost loop is shared out; each part has a best value of its own."""
    kernel = spfgen.compile("s = max(i: min(j: A[i,j]))", A="dcsr", threads=4)
    a = matrix(400, 6, 0.9, 3)
    assert kernel(A=a) == a.min(1).max()
    assert "parallel" in kernel.explain()


@pytest.mark.parametrize("first", ["csr", "diagonal"])
def test_coordinates_that_follow_from_others(first: str) -> None:
    """The column of a product with a diagonal is the one that is summed over."""
    b, c = np.where(matrix(4, 4, 0.6) != 0, matrix(4, 4, 1.0, 2), np.inf), np.where(np.eye(4) > 0, 2.0, np.inf)
    layouts = {"B": "csr", "C": "diagonal"} if first == "csr" else {"B": "diagonal", "C": "csr"}
    one, other = (b, c) if first == "csr" else (c, b)
    named = {n: f"{layout} fill inf" for n, layout in layouts.items()}
    kernel = spfgen.compile("A[i,j] = min(k: B[i,k] + C[k,j])", A="csr fill inf", **named)
    given = {n: spfgen.pack(v, layouts[n], fill=np.inf) for n, v in zip("BC", (one, other), strict=True)}
    np.testing.assert_array_equal(kernel(**given).to_numpy(), (one[:, :, None] + other[None]).min(1))
