"""Assignments several points of which have one place add up what these give, whatever computes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen.errors import Unsupported
from spfgen.lang.interpret import interpret
from spfgen.lang.parse import parse_statements
from tests.fuzz.carried import by_the_interpreter

rng = np.random.default_rng(3)
A = np.where(rng.random((4, 5)) < 0.6, rng.integers(-3, 4, (4, 5)), 0).astype(float)
D = rng.integers(1, 4, (4, 5)).astype(float)
TEXTS = (
    "y[i + j] = abs(A[i,j])", "y[i + j] = cos(A[i,j])*D[i,j]", "y[i + j] = D[i,j]/sum(k: D[i,k])",
    "y[i + j] = max(A[i,j], D[i,j]) where i > j", "y[i - j + 4] = sqrt(D[i,j])", "y[2*i + j] = A[i,j] > 1",
    "for k { y[i + j] = D[i,j]*A[k,0] }", "for k { y[i + k] = abs(A[i,k]) }",
    "for k { y[i + j] = max(A[i,j], D[0,k]) }", "y[i + j] = mean(k: D[3 - i,j]*D[i,k])",
)  # fmt: skip


@pytest.mark.parametrize("layout", ["csr", "coo_unsorted"])
@pytest.mark.parametrize("text", TEXTS)
def test_values_are_added_up(text: str, layout: str) -> None:
    given: dict[str, Any] = {n: v for n, v in (("A", A), ("D", D)) if f"{n}[" in text}
    fills = {"A": 0.0} if "A" in given else {}
    expected = interpret(parse_statements(text), given, fills)["y"]
    own = {n: spfgen.pack(v, layout) if n == "A" else v for n, v in given.items()}
    with by_the_interpreter():
        found = np.asarray(spfgen.evaluate(f"{text}  # {layout}", **own))  # a kernel that is called again knows no plan
    np.testing.assert_allclose(found, expected, err_msg=text)


@pytest.mark.parametrize("out", ["csr", "dcsr", "coo_unsorted"])
def test_in_sparse_results(out: str) -> None:
    cube = np.where(rng.random((3, 4, 2)) < 0.5, rng.integers(-3, 4, (3, 4, 2)), 0).astype(float)
    expected = np.zeros((6, 2))
    for i, j, k in zip(*cube.nonzero(), strict=True):
        expected[i + j, k] += abs(cube[i, j, k])
    for layout in ("csf", "coo(rank=3)"):
        found = spfgen.evaluate("C[i + j, k] = abs(F[i,j,k])", F=spfgen.pack(cube, layout), out=out)
        np.testing.assert_allclose(found.to_numpy(), expected)


@pytest.mark.parametrize("value", ["D[i,j]*y[i + j]", "abs(D[i,j])*y[i + j]", "max(D[i,j], y[i + j])"])
def test_what_reads_its_target_is_refused(value: str) -> None:
    with pytest.raises(Unsupported, match="several points"):
        spfgen.evaluate(f"y[i + j] = {value}", D=D, y=np.ones(8))
    found = spfgen.evaluate("y[i + j] = y[i + j] + abs(D[i,j])", D=D, y=np.ones(8))
    np.testing.assert_allclose(found, 1 + np.array([np.fliplr(D).trace(4 - k) for k in range(8)]))


def test_sums_within_a_sum_that_cannot_be_multiplied_out() -> None:
    text = "y[i] = A[i,j]*(sum(k: D[k,j]*D[i,k])*sum(k: D[i,k]))"
    square = D[:, :4]
    given = {"A": A[:, :4], "D": square}
    expected = interpret(parse_statements(text), given)["y"]
    found = spfgen.evaluate(text, A=spfgen.pack(given["A"], "csr"), D=square)
    np.testing.assert_allclose(found, expected)


def test_a_choice_that_never_holds_keeps_its_other_value() -> None:
    found = spfgen.evaluate("y[i] = max(where(false, 1, 2), x[i])", x=np.zeros(3))
    np.testing.assert_array_equal(found, [2, 2, 2])
