"""Subscripts that are values, of sparse operands: what they lead to is gone through, in every layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen.errors import UsageError
from spfgen.lang.interpret import interpret
from spfgen.lang.parse import parse_statements
from tests.fuzz.carried import by_the_interpreter
from tests.plans.effort import Effort

RNG = np.random.default_rng(9)
LAYOUTS = ("csr", "csc", "coo", "coo_unsorted", "dcsr", "csr_unsorted", "bcsr", "ell", "vbl", "csr_rle", "dense")
A = np.where(RNG.random((5, 6)) < 0.5, RNG.integers(1, 9, (5, 6)), 0).astype(float)
B = np.where(RNG.random((7, 6)) < 0.4, RNG.integers(1, 9, (7, 6)), 0).astype(float)
P = np.array([4, 0, 0, 2, 1, 4, 3])
Q = np.array([5, 1, 1, 0])
S = np.array([2, 6, 0, 0, 5])
X = RNG.integers(1, 5, 6).astype(float)
CASES: dict[str, tuple[str, Any]] = {
    "rows": ("C[i,j] = A[p[i], j]", A[P]),
    "columns": ("C[i,j] = A[i, q[j]]", A[:, Q]),
    "both": ("C[i,j] = A[p[i], q[j]]", A[np.ix_(P, Q)]),
    "a sum": ("C[i,j] = A[p[i], j] + B[i,j]", A[P] + B),
    "a product": ("C[i,j] = A[p[i], j]*B[i,j]", A[P] * B),
    "twice": ("C[i,j] = A[p[s[i]], j]", A[P[S]]),
    "the same row twice": ("C[i,j] = A[p[i], j]*A[p[i], j] - A[p[i], j]", A[P] ** 2 - A[P]),
    "two rows": ("C[i,k] = sum(j: A[p[i], j]*A[p[k], j])", A[P] @ A[P].T),
    "times a vector": ("y[i] = sum(j: A[p[i], j]*x[j])", A[P] @ X),
    "greatest": ("y[i] = max(j: A[p[i], j])", A[P].max(1)),
    "under a mask": ("C[i,j] = where(i < j, A[p[i], j], 0)", np.triu(A[P], 1)),
    "in part of it": ("y[i] = sum(j: A[p[i], j] where j > 2)", A[P][:, 3:].sum(1)),
    "a condition": ("C[i,j] = A[p[i], j] where i > 1", np.concatenate([0 * A[P][:2], A[P][2:]])),
    "in a loop": ("for i, j { if A[p[i], j] != 0 { y[i] = y[i]*2 + A[p[i], j] } }", None),
}


def in_a_loop() -> np.ndarray:
    y = np.zeros(7)
    for i in range(7):
        for j in range(6):
            if A[P[i], j] != 0:
                y[i] = y[i] * 2 + A[P[i], j]
    return y


def given_of(text: str, layout: str) -> dict[str, Any]:
    dense = {"p": P, "q": Q, "s": S, "x": X, "y": np.zeros(7)}
    found = {n: v for n, v in dense.items() if f"{n}[" in text and (n != "y" or text.startswith("for"))}
    found |= {n: spfgen.pack(m, layout) for n, m in (("A", A), ("B", B)) if f"{n}[" in text}
    return found


@pytest.mark.sampled(1)
@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", CASES)
def test_a_gather(case: str, layout: str, level: int) -> None:
    text, expected = CASES[case]
    for result in ("dense", "csr") if text.startswith("C") else ("dense",):
        given = given_of(text, layout)
        layouts = {n: layout if n in "AB" else "dense<int64>" if n in "pqs" else "dense" for n in given}
        kernel = spfgen.compile(text, **{**layouts, text[0] if expected is not None else "y": result}, optimize=level)
        found = kernel(**given)
        found = found if isinstance(found, np.ndarray) else found.to_numpy()
        np.testing.assert_array_equal(found, in_a_loop() if expected is None else expected)


def test_rows_are_gone_through_not_looked_up() -> None:
    n = 120
    a = np.zeros((n, n))
    a[np.arange(n), RNG.permutation(n)] = 2.0
    p = RNG.permutation(n)
    for text, expected in (
        ("C[i,j] = A[p[i], j]", a[p]),
        ("y[i] = sum(j: A[p[i], j]*x[j])", a[p] @ np.ones(n)),
    ):
        effort = Effort()
        given = {"A": spfgen.pack(a, "csr"), "p": p, **({"x": np.ones(n)} if "x[" in text else {})}
        layouts = {"A": "csr", "p": "dense<int64>", **({"x": "dense"} if "x[" in text else {"C": "csr"})}
        with by_the_interpreter(effort) as ran:
            found = spfgen.compile(text, **layouts)(**given)
        assert ran
        np.testing.assert_array_equal(found if text[0] == "y" else found.to_numpy(), expected)
        assert effort.total < 20 * n, effort


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["csr", "csc", "coo_unsorted"])
def test_what_is_outside_is_refused_where_it_counts(layout: str) -> None:
    a, wrong = spfgen.pack(A, layout), np.array([1, 9, 2])
    layouts = {"A": layout, "p": "dense<int64>", "C": "csr"}
    with pytest.raises(spfgen.SpfgenError, match="to lie within"):
        spfgen.compile("C[i,j] = A[p[i], j]", **layouts)(A=a, p=wrong)
    found = spfgen.compile("C[i,j] = where(i != 1, A[p[i], j], 0)", **layouts)(A=a, p=wrong)
    np.testing.assert_array_equal(found.to_numpy(), [A[1], 0 * A[1], A[2]])
    found = spfgen.compile("C[i,j] = coalesce(A[p[i], j], 0)", **layouts)(A=a, p=wrong)
    np.testing.assert_array_equal(found.to_numpy(), [A[1], 0 * A[1], A[2]])


OUT_OF_RANGE = np.array([2, -1, 0, 3, 99, 1])
SHORT = [
    "y[i] = where(p[i] >= 0 and p[i] < 5, x[p[i]], -7)",
    "y[i] = p[i] < 0 or p[i] >= 5 or x[p[i]] > 1",
    "y = any(i: p[i] >= 0 and p[i] < 5 and x[p[i]] > 1)",
    "for i { if p[i] >= 0 and p[i] < 5 and x[p[i]] > 0 { y[i] = 1 } else { y[i] = 2 } }",
    "y[i] = where(p[i] >= 0 and p[i] < 4, x[q[p[i]]], 0)",
    "for i { let k = where(p[i] > 4, 4, p[i])  while k > 0 and x[k - 1] >= 0 { k = k - 1 }  y[i] = k }",
    "y[i] = sum(j: where(p[i] >= 0 and p[i] < 4, A[p[i], j], 0))",
    "y[i] = f[i] and x[p[i]] > 0",
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("text", SHORT)
def test_what_a_condition_excludes_is_not_read(text: str, packed: bool) -> None:
    given = {
        "p": OUT_OF_RANGE,
        "q": np.array([1, 0, 4, 2]),
        "x": np.array([0, 1.5, 0, 2, -1]),
        "A": np.where(np.arange(20) % 3, 0, np.arange(20.0)).reshape(4, 5),
        "f": np.array([True, False, True, True, False, False]),
    }
    given = {n: a for n, a in given.items() if f"{n}[" in text}
    wanted = interpret(parse_statements(text), given, {})["y"]
    layouts = {"x": "sv", "f": "sv", "A": "csr"} if packed else {}
    found = spfgen.evaluate(text, **{n: spfgen.pack(a, layouts[n]) if n in layouts else a for n, a in given.items()})
    assert np.array_equal(found, wanted)


def test_extents_that_only_the_caller_knows_are_named() -> None:
    matrix = spfgen.pack(np.eye(3), "csr")
    with pytest.raises(UsageError) as caught:
        spfgen.evaluate("B[q[i], j] = A[i, j]", A=matrix, q=np.arange(3), out="csr")
    assert "'B.nrow': ..." in str(caught.value)
    found = spfgen.evaluate("B[q[i], j] = A[i, j]", A=matrix, q=np.arange(3) + 1, out="csr", sizes={"B.nrow": 4})
    np.testing.assert_array_equal(found.to_numpy(), np.eye(4, 3, -1))


@pytest.mark.parametrize("layout", ["csr", "coo"])
def test_the_last_that_is_written_to_a_place_counts(layout: str) -> None:
    """Also where it is not stored."""
    dense = np.array([[1.0, 2, 0], [0, 3, 4], [5, 0, 6]])
    q, p, expected = np.array([0, 2, 0]), np.array([1, 1, 2]), np.zeros((3, 3))
    for i, j in np.ndindex(3, 3):
        expected[q[i], p[j]] = dense[i, j]
    given = {"A": spfgen.pack(dense, layout), "q": q, "p": p}
    sizes = {"B.nrow": 3, "B.ncol": 3}
    found = spfgen.evaluate("B[q[i], p[j]] = A[i, j]", **given, out="csr", sizes=sizes)
    np.testing.assert_array_equal(found.to_numpy(), expected)
