"""Conditions on indices say where loops run: nothing asks at each point what is known before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen.facts.formula import Compare, variables
from spfgen.ir import walk
from spfgen.plan.nodes import BoundSearch, Plan, Scan
from spfgen.space.typed import Holds
from tests.fuzz.carried import by_the_interpreter
from tests.plans.effort import Effort

RNG = np.random.default_rng(3)
SHAPES = ((0, 0), (1, 1), (4, 7), (7, 4), (6, 6))


def asked(kernel: spfgen.Kernel) -> list[Compare]:
    """The comparisons with its own index that are made in a loop."""
    loops = [n for p in kernel.generated.plans for n in walk(p, Plan) if isinstance(n, Scan)]
    return [
        part
        for loop in loops
        for node in walk(loop.body)
        if isinstance(node, Holds)
        for part in walk(node)
        if isinstance(part, Compare) and loop.dim in variables(part)
    ]


def grid(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(rows)[:, None], np.arange(columns)[None, :]


Masked = Callable[[np.ndarray, np.ndarray], np.ndarray]
MASKS: dict[str, Masked] = {
    "i <= j": lambda i, j: i <= j,
    "j < i + 2": lambda i, j: j < i + 2,
    "i == j": lambda i, j: i == j,
    "i != j + 1": lambda i, j: i != j + 1,
    "abs(i - j) <= 1": lambda i, j: abs(i - j) <= 1,
    "abs(j - i) > 2": lambda i, j: abs(j - i) > 2,
    "i - 1 <= j and j <= i + 1": lambda i, j: (i - 1 <= j) & (j <= i + 1),
    "not (i < j or j == 2)": lambda i, j: ~((i < j) | (j == 2)),
    "(2 <= j) & ~(j >= 5)": lambda i, j: (j >= 2) & (j < 5),
}
PROGRAMS = (
    "C[i,j] = where({}, A[i,j], B[i,j])",
    "C[i,j] = 2*where({}, A[i,j], B[i,j] + 1) - A[i,j]",
    "for i, j {{ if {} {{ C[i,j] = A[i,j] }} else {{ C[i,j] = B[i,j] }} }}",
)


def meant(text: str, mask: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return 2 * np.where(mask, a, b + 1) - a if "2*" in text else np.where(mask, a, b)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("mask", MASKS)
def test_loops_are_split(mask: str, level: int) -> None:
    for text in PROGRAMS:
        kernel = spfgen.compile(text.format(mask), A="dense", B="dense", C="dense", optimize=level)
        assert not asked(kernel)
        for shape in SHAPES:
            a, b = RNG.integers(1, 9, (2, *shape)).astype(float)
            result = kernel(A=a, B=b)
            np.testing.assert_array_equal(result, meant(text, MASKS[mask](*grid(*shape)), a, b))


def test_reductions_are_split() -> None:
    text = "y[i] = max(j: where(i <= j, A[i,j], B[i,j]))"
    kernel = spfgen.compile(text, A="dense", B="dense", optimize=1)
    assert not asked(kernel)
    a, b = RNG.integers(1, 9, (2, 5, 6)).astype(float)
    np.testing.assert_array_equal(kernel(A=a, B=b), np.where(np.triu(np.ones((5, 6))), a, b).max(1))


def test_a_loop_that_ends_early_stays_one() -> None:
    steps = "if j < 3 { n += 1 } else { n += 10  if A[i,j] > 5 { break } }"
    text = f"for i {{ let n = 0  for j {{ {steps} }}  y[i] = n + 0*A[i,0] }}"
    a = np.array([[1, 1, 9, 1, 1.0], [9, 9, 9, 9, 9], [1, 1, 1, 1, 9]])
    kernel = spfgen.compile(text, A="dense")
    np.testing.assert_array_equal(kernel(A=a), [23, 13, 23])


def test_iterations_stay_in_their_order() -> None:
    text = "for i { let n = 0.0  for j { n += A[i,j]  if j >= 2 { n *= 2 } else { n -= 1 } }  y[i] = n }"
    a = RNG.integers(1, 9, (4, 5)).astype(float)
    expected = []
    for row in a:
        n = 0.0
        for j, value in enumerate(row):
            n = (n + value) * 2 if j >= 2 else n + value - 1
        expected.append(n)
    np.testing.assert_array_equal(spfgen.compile(text, A="dense")(A=a), expected)


def test_updates_by_several_functions_keep_their_order() -> None:
    """Where nothing is stored, both leave all as it is; but which one comes first matters."""
    text = "for i { for j { y[i] max= A[i,j]  y[i] += B[i,j] } }"
    a = np.array([[-np.inf, 9.0, -np.inf, 1.0], [5.0, -np.inf, 50.0, -np.inf]])
    b = np.array([[4.0, 0.0, 3.0, 0.0], [1.0, 7.0, 0.0, 2.0]])
    kernel = spfgen.compile(text, A="csr fill -inf", B="csr", y="dense")
    y = np.zeros(2)
    kernel(A=spfgen.pack(a, "csr", fill=-np.inf), B=spfgen.pack(b, "csr"), y=y)
    expected = np.zeros(2)
    for i in range(2):
        for j in range(4):
            expected[i] = max(expected[i], a[i, j]) + b[i, j]
    np.testing.assert_array_equal(y, expected)


def test_what_is_subtracted_drives_as_what_is_added() -> None:
    effort = Effort()
    text = "for i, j { if i < j { y[i] += A[i,j]*x[j] } else { y[i] -= A[i,j] } }"
    dense = np.zeros((60, 60))
    dense[3, 4], dense[50, 2] = 5.0, 7.0
    with by_the_interpreter(effort) as ran:
        kernel = spfgen.compile(text, A="csr", x="dense", y="dense")
        result = kernel(A=spfgen.pack(dense, "csr"), x=np.full(60, 2.0))
    assert ran
    assert np.flatnonzero(result).tolist() == [3, 50]
    assert (result[3], result[50]) == (10.0, -7.0)
    assert effort.total < 4 * 60, effort


# --- sparse operands -----------------------------------------------------------------------------------

SPARSE = {
    "band, sparse result": ("C[i,j] = where(abs(i - j) <= 1, A[i,j], 0)", "csr", lambda d: np.triu(np.tril(d, 1), -1)),
    "upper, sparse result": ("C[i,j] = A[i,j]*(i <= j)", "csr", np.triu),
    "identity": ("C[i,j] = A[i,j] + (i == j)", "csr", lambda d: d + np.eye(len(d))),
    "sum of a band": ("y[i] = sum(j: A[i,j] where abs(i - j) <= 1)", "dense", None),
    "the same by a value": ("y[i] = sum(j: where(abs(i - j) <= 1, A[i,j], 0))", "dense", None),
    "two, each in its half": ("C[i,j] = where(i < j, A[i,j], 2*A[i,j])", "csr", lambda d: 2 * d - np.triu(d, 1)),
}


def carried_out(text: str, result: str, given: Any, layout: str = "csr") -> tuple[Any, Effort, spfgen.Kernel]:
    effort = Effort()
    with by_the_interpreter(effort) as ran:
        kernel = spfgen.compile(text, **{"A": layout, text[0]: result})
        found = kernel(A=spfgen.pack(given, layout))
    assert ran
    return found if isinstance(found, np.ndarray) else found.to_numpy(), effort, kernel


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", SPARSE)
def test_the_part_of_a_row_under_a_mask_is_looked_for(case: str) -> None:
    """Rows of 200 entries, of which a band has 3: what is done grows with the logarithm of a row's length."""
    text, result, meaning = SPARSE[case]
    dense = RNG.integers(1, 9, (4, 200)).astype(float)
    square = dense[:, :4]
    small, _, _ = carried_out(text, result, square)
    expected = np.triu(np.tril(square, 1), -1).sum(1) if meaning is None else meaning(square)
    np.testing.assert_array_equal(small, expected)
    if "abs" in text:
        _, effort, _ = carried_out(text, result, dense)
        assert effort.total < 4 * 30, effort


@pytest.mark.parametrize(("layout", "searched"), [("csr", True), ("csr_unsorted", False)])
def test_the_search_needs_sorted_columns(layout: str, searched: bool) -> None:
    text = "y[i] = sum(j: A[i,j] where i <= j)"
    kernel = spfgen.compile(text, A=layout, y="dense")
    assert any(isinstance(n, BoundSearch) for p in kernel.generated.plans for n in walk(p)) == searched
    for shape in SHAPES:
        dense = RNG.integers(0, 3, shape).astype(float)
        np.testing.assert_array_equal(kernel(A=spfgen.pack(dense, layout)), np.triu(dense).sum(1))


# --- merges --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["csr", "csr_unsorted", "csc", "coo", "dcsr", "csr_rle", "vbl"])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.exhaustive
def test_a_merge_under_a_mask(mask: str, layout: str) -> None:
    for text in (f"C[i,j] = where({mask}, A[i,j] + B[i,j], 0)", f"C[i,j] = where({mask}, A[i,j], B[i,j+1])"):
        for shape in SHAPES:
            a, b = RNG.integers(0, 3, (2, *shape)).astype(float)
            shifted = np.pad(b, ((0, 0), (0, 1)))
            held = MASKS[mask](*grid(*shape))
            other = shifted if "j+1" in text else b
            expected = np.where(held, a, shifted[:, 1:]) if "j+1" in text else np.where(held, a + b, 0)
            given = spfgen.pack(a, layout), spfgen.pack(other, layout)
            for result in ("dense", "csr"):
                found = spfgen.compile(text, A=layout, B=layout, C=result)(A=given[0], B=given[1])
                np.testing.assert_array_equal(found if result == "dense" else found.to_numpy(), expected)


@pytest.mark.parametrize(("layout", "bound"), [("csr", 60), ("csr_rle", 120)])
def test_a_merge_begins_and_ends_where_the_mask_does(layout: str, bound: int) -> None:
    """Rows of 200 entries, or as many runs, of which the mask leaves three."""
    text = "C[i,j] = where(abs(i - j) <= 1, A[i,j] + B[i,j], 0)"
    a, b = np.tile([1.0, 2.0], (2, 4, 100))
    effort = Effort()
    with by_the_interpreter(effort) as ran:
        kernel = spfgen.compile(text, A=layout, B=layout, C="csr")
        found = kernel(A=spfgen.pack(a, layout), B=spfgen.pack(b, layout))
    assert ran
    np.testing.assert_array_equal(found.to_numpy(), np.triu(np.tril(a + b, 1), -1))
    assert effort.total < 4 * bound, effort


# --- types ---------------------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_what_is_left_of_a_value_keeps_the_type_of_the_whole(level: int, layout: str) -> None:
    """`i != 1 and a` is a truth value where only `a` decides; a choice of small and large types is a large one."""
    a = np.array([[3.0, 0.0, 2.0], [5.0, 7.0, 0.0]])
    small = np.array([[100, 0, 90], [80, 70, 0]], np.int8)
    i, j = grid(2, 3)
    for text, given, expected in (
        ("C[i,j] = 2*((i != 1) and A[i,j])", a, 2 * ((i != 1) & (a != 0))),
        ("C[i,j] = 2*(A[i,j] or (j < 1))", a, 2 * ((a != 0) | (j < 1))),
        ("C[i,j] = ((2 != i) and A[i,j]) & (A[i,j] != 5)", a, (i != 2) & (a != 0) & (a != 5)),
        ("C[i,j] = 3*where(i <= j, A[i,j], 0.5)", small, 3 * np.where(i <= j, small, 0.5)),
        ("y[i] = sum(j: 3*where(i <= j, A[i,j], 1000.5))", small, (3 * np.where(i <= j, small, 1000.5)).sum(1)),
    ):
        kernel = spfgen.compile(text, A=layout, optimize=level, **{text[0]: "dense"})
        np.testing.assert_array_equal(kernel(A=spfgen.pack(given, layout)), expected)
