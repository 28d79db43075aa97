"""Loops whose order matters: they keep it, and are driven by what is stored where the nest is proved to keep it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import spfgen
from tests.fuzz.carried import by_the_interpreter
from tests.plans.effort import Effort

RNG = np.random.default_rng(5)
SHAPES = ((0, 0), (0, 3), (3, 0), (1, 1), (4, 7), (7, 4), (6, 6))
LAYOUTS = ("csr", "csc", "coo", "coo_unsorted", "dcsr", "csr_unsorted", "bcsr", "ell", "dense")


def some(shape: tuple[int, int], share: float = 0.5) -> np.ndarray:
    return np.where(RNG.random(shape) < share, RNG.integers(-4, 5, shape), 0).astype(float)


# --- what is computed, in every layout -----------------------------------------------------------------


def halved(i: int, j: int, y: np.ndarray, a: np.ndarray) -> None:
    if a[i, j] != 0:
        y[i] = y[i] * 0.5 + a[i, j] if j < i else y[i] - a[i, j] * j


def several(i: int, j: int, y: np.ndarray, a: np.ndarray) -> None:
    if a[i, j] > 0:
        if i == j:
            y[i] = a[i, j]
        elif j > i + 1:
            y[i] = y[i] * 0.5 + a[i, j]


def passed_on(i: int, j: int, y: np.ndarray, a: np.ndarray) -> None:
    if a[i, j] != 0 and i > 0:
        y[i] = y[i] + a[i, j] - y[i - 1]


HALVED = """
    for {} { if A[i,j] != 0 {
        if j < i { y[i] = y[i]*0.5 + A[i,j] } else { y[i] = y[i] - A[i,j]*j }
    } }
"""
SEVERAL = """
    for {} { if A[i,j] > 0 {
        if i == j { y[i] = A[i,j] } else { if j > i + 1 { y[i] = y[i]*0.5 + A[i,j] } }
    } }
"""
PASSED_ON = "for {} where i > 0 { if A[i,j] != 0 { y[i] = y[i] + A[i,j] - y[i-1] } }"
PROGRAMS = ((HALVED, halved), (SEVERAL, several), (PASSED_ON, passed_on))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("order", ["i, j", "j, i"])
def test_iterations_stay_in_their_order(layout: str, order: str) -> None:
    for text, meaning in PROGRAMS:
        for level in (0, 1, 2):
            kernel = spfgen.compile(text.replace("{}", order), A=layout, y="dense", optimize=level)
            for shape in SHAPES:
                a, y = some(shape), RNG.integers(0, 5, shape[0]).astype(float)
                expected = y.copy()
                rows, columns = map(range, shape)
                points = [(i, j) for i in rows for j in columns]
                if order == "j, i":
                    points = [(i, j) for j in columns for i in rows]
                for i, j in points:
                    meaning(i, j, expected, a)
                kernel(A=spfgen.pack(a, layout), y=y)
                np.testing.assert_array_equal(y, expected)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_loop_that_break_leaves_is_the_written_one(layout: str) -> None:
    inner = "for i { let found = -1  for j { if A[i,j] > 0 { found = j  break } }  y[i] = found }"
    parts = "for i { let n = 0  for j { if A[i,j] > 0 { if j < i { n += 1  break } else { n = 2*n + 5 } } }  y[i] = n }"
    both = "let n = 0  for i, j { if A[i,j] > 0 { n += 1  break } }  y[0] = n"
    merged = "for i { let found = -1  for j { if A[i,j] + B[i,j] > 0 { found = j  break } }  y[i] = found }"
    for shape in SHAPES[3:]:
        a, b = some(shape), some(shape, 0.2)
        given, other = spfgen.pack(a, layout), spfgen.pack(b, layout)
        first = [int(np.argmax(row > 0)) if (row > 0).any() else -1 for row in a]
        np.testing.assert_array_equal(spfgen.compile(inner, A=layout, y="dense<int64>")(A=given), first)
        first = [int(np.argmax(row > 0)) if (row > 0).any() else -1 for row in a + b]
        found = spfgen.compile(merged, A=layout, B=layout, y="dense<int64>")(A=given, B=other)
        np.testing.assert_array_equal(found, first)
        plain = spfgen.compile(parts, A="dense", y="dense<int64>", optimize=0)(A=a)
        np.testing.assert_array_equal(spfgen.compile(parts, A=layout, y="dense<int64>")(A=given), plain)
        plain = spfgen.compile(both, A="dense", y="dense<int64>", optimize=0)(A=a, y=np.zeros(1, "int64"))
        found = spfgen.compile(both, A=layout, y="dense<int64>")(A=given, y=np.zeros(1, "int64"))
        np.testing.assert_array_equal(found, plain)


# --- how much is done ----------------------------------------------------------------------------------

SWEEP = """
    for i {
        let s = b[i]
        let d = 1.0
        for j { if j == i { d = A[i,j] } else { s -= A[i,j]*x[j] } }
        x[i] = s/d
    }
"""


WITH_A_SCALAR = SWEEP.replace(
    "{ if j == i { d = A[i,j] } else { s -= A[i,j]*x[j] } }",
    """{
    let a = A[i,j]
    if j == i { d = a } else { s -= a*x[j] } }""",
)


def swept(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    x = x.copy()
    for i in range(len(b)):
        x[i] = (b[i] - a[i] @ x + a[i, i] * x[i]) / a[i, i]
    return x


def work(text: str, layouts: dict[str, str], **given: Any) -> tuple[Any, float]:
    effort = Effort()
    with by_the_interpreter(effort) as ran:
        result = spfgen.compile(text, **layouts)(**given)
    assert ran
    return result, effort.total


@pytest.mark.parametrize("text", [SWEEP, WITH_A_SCALAR])
def test_gauss_seidel_goes_over_what_is_stored(text: str) -> None:
    n = 150
    a = 4 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1) - np.eye(n, k=30)
    b, x = RNG.integers(0, 5, n).astype(float), np.zeros(n)
    expected = swept(a, b, x)
    layouts = {"A": "csr", "b": "dense", "x": "dense"}
    _, done = work(text, layouts, A=spfgen.pack(a, "csr"), b=b, x=x)
    np.testing.assert_allclose(x, expected)
    assert done < 30 * n


@pytest.mark.parametrize(("layout", "driven"), [("csr", True), ("csr_unsorted", False), ("csc", False)])
def test_the_order_has_to_be_proved(layout: str, driven: bool) -> None:
    n = 60
    a = np.zeros((n, n))
    a[[5, 5, 40], [7, 3, 40]] = 2.0, 3.0, 4.0
    y = np.ones(n)
    text = "for i, j { if A[i,j] != 0 { y[i] = y[i]*0.5 + A[i,j] } }"
    _, done = work(text, {"A": layout, "y": "dense"}, A=spfgen.pack(a, layout), y=y)
    assert (y[5], y[40]) == ((1 * 0.5 + 3) * 0.5 + 2, 4.5)
    assert (done < 10 * n) == driven


def test_what_the_loop_writes_does_not_drive_it() -> None:
    text = "for i, j { if A[i,j] != 0 { A[i,j] = A[i,j] + y[i]  y[i] = y[i]*0.5 + A[i,j] } }"
    a, y = some((5, 6)), np.ones(5)
    expected_a, expected_y = a.copy(), y.copy()
    for i in range(5):
        for j in range(6):
            if expected_a[i, j] != 0:
                expected_a[i, j] += expected_y[i]
                expected_y[i] = expected_y[i] * 0.5 + expected_a[i, j]
    given = spfgen.pack(a, "csr")
    spfgen.compile(text, A="csr", y="dense")(A=given, y=y)
    np.testing.assert_array_equal(y, expected_y)
    np.testing.assert_array_equal(given.to_numpy(), expected_a)


@pytest.mark.exhaustive
def test_sides_that_have_nothing_in_common_are_loops_of_their_own() -> None:
    """One writes what the other reads: then they stay together."""
    apart = (
        "for i { let n = 0.0  let d = 0.0  for j { if i == j { d = A[i,j] } else { n = n*2 + A[i,j] } }  y[i] = n + d }"
    )
    shared = (
        "for i { let n = 0.0  let d = 0.0  for j { if i == j { d = A[i,j] } else { n = n*2 + A[i,j]*d } }  y[i] = n }"
    )
    a = some((6, 6))
    for layout in LAYOUTS:
        given = spfgen.pack(a, layout)
        for text in (apart, shared):
            expected = []
            for i in range(6):
                n = d = 0.0
                for j in range(6):
                    if i == j:
                        d = a[i, j]
                    else:
                        n = n * 2 + a[i, j] * (d if text is shared else 1.0)
                expected.append(n if text is shared else n + d)
            np.testing.assert_array_equal(spfgen.compile(text, A=layout, y="dense")(A=given), expected)


def test_relaxing_goes_over_edges() -> None:
    """Nothing is more than infinity, so `n < d[j]` is false where there is no edge."""
    text = "for i { if f[i] { for j { let n = d[i] + A[i,j]  e[j] min= n  g[j] or= n < d[j] } } }"
    n = 80
    lengths = np.full((n, n), np.inf)
    lengths[np.arange(n - 1), np.arange(1, n)] = RNG.integers(1, 9, n - 1)
    d, front = np.full(n, np.inf), np.zeros(n)
    d[3], front[3] = 2.0, 1.0
    layouts = {"A": "csr fill inf", "f": "sv", "g": "dense<bool>", "d": "dense", "e": "dense"}
    given = {"A": spfgen.pack(lengths, "csr", fill=np.inf), "f": spfgen.pack(front, "sv"), "d": d}
    found, done = work(text, layouts, **given, e=d.copy(), g=np.zeros(n, bool))
    assert np.flatnonzero(found["g"]).tolist() == [4]
    assert found["e"][4] == 2.0 + lengths[3, 4]
    assert done < 60


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["float64", "float32", "int64", "int32", "uint8", "bool"])
def test_nothing_is_beyond_the_ends_of_a_type(kind: str) -> None:
    """Each comparison with a fill value that decides it, beside numpy; nan among the others."""
    dtype = np.dtype(kind)
    ends = [False, True] if kind == "bool" else [-np.inf, np.inf] if dtype.kind == "f" else None
    ends = ends or [np.iinfo(dtype).min, np.iinfo(dtype).max]
    others = np.array([0, 1, *ends, *([np.nan] if dtype.kind == "f" else [])]).astype(dtype)
    for fill in ends:
        stored = np.full(len(others), fill, dtype)
        stored[1] = 1
        a = spfgen.pack(stored, "sv", fill=dtype.type(fill))
        for name in ("less", "less_equal", "greater", "greater_equal"):
            for text, expected in (
                (f"y[i] = {name}(a[i], b[i])", getattr(np, name)(stored, others)),
                (f"y[i] = {name}(b[i], a[i])", getattr(np, name)(others, stored)),
            ):
                np.testing.assert_array_equal(spfgen.evaluate(text, a=a, b=others), expected)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["csr", "coo_unsorted", "dense"])
def test_places_that_other_iterations_reach_by_another_subscript(layout: str) -> None:
    """`R[l,i]` is `R[l,k]` in one of the iterations over k, `y[k]` is `y[i]` in one over i: the order matters."""
    a = some((4, 4))
    r, y = np.ones((4, 4)), np.zeros(4)
    expected_r, expected_y = r.copy(), y.copy()
    for m, i, k in np.ndindex(4, 4, 4):
        if a[k, m] != 0:
            expected_r[m, i] += expected_r[m, k]
            expected_r[m, k] = 1
    for k, i in np.ndindex(4, 4):
        expected_y[k] += a[i, k]
        expected_y[i] = min(expected_y[i], 3.0 - a[i, k])
    given = spfgen.pack(a, layout)
    text = "for l, i { for k { if A[k,l] != 0 { R[l,i] += R[l,k]  R[l,k] = 1 } } }"
    spfgen.compile(text, A=layout, R="dense")(A=given, R=r)
    np.testing.assert_array_equal(r, expected_r)
    text = "for k { for i { y[k] += A[i,k]  y[i] min= 3 - A[i,k] } }"
    spfgen.compile(text, A=layout, y="dense")(A=given, y=y)
    np.testing.assert_array_equal(y, expected_y)
