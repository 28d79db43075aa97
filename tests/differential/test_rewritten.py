"""Results in sparse layouts that several equations, or iterations, write at one place: the last one counts, also where
its value is not stored or is the fill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import spfgen

RNG = np.random.default_rng(3)
A, B = (np.where(RNG.random((5, 6)) < 0.5, RNG.integers(1, 9, (5, 6)), 0).astype(float) for _ in range(2))
X = RNG.integers(0, 3, 6).astype(float)
SAT = "function sat(x, y) { let s = x + y  if s > 9 { return 9 } else { return s } }\n"


def moved() -> Any:
    """B[i, j] at (i, j), then A[i, j] at (i, j - 1), point after point."""
    result = np.zeros((5, 6))
    for i, j in np.ndindex(5, 6):
        result[i, j] = B[i, j]
        if j > 0:
            result[i, j - 1] = A[i, j]
    return result


CASES: dict[str, Callable[[], Any]] = {
    "for i, j { C[i,j] = B[i,j]  C[i,j] = A[i,j] }": lambda: A,
    "C[i,j] = B[i,j]\n for i, j { C[i,j] = A[i,j] }": lambda: A,
    "for i { C[i,j] = B[i,j]  C[i,j] = A[i,j]*x[j] }": lambda: A * X,
    "for i, j { if B[i,j] > 0 { C[i,j] = 3 } }\n for i, j { C[i,j] = A[i,j] }": lambda: A,
    "C[i,j] = A[i,j]\n for i, j { if A[i,j] < 4 { C[i,j] = 0 } }": lambda: np.where(A < 4, 0, A),
    "for i, j { C[i,j] = A[i,j]  if A[i,j] > 6 { C[i,j] = 0 } }": lambda: np.where(A > 6, 0, A),
    "for i { C[i,j] = B[i,j]  for j { C[i,j] += A[i,j] }  C[i,j] = A[i,j]*x[j] }": lambda: A * X,
    "let c = 2  while c >= 0 { for i, j { C[i,j] = c*A[i,j] }  c -= 1 }": lambda: 0 * A,
    "let c = 2  while c >= 0 { for i, j { C[i,j] = c + A[i,j] }  c -= 1 }": lambda: A,
    "for i, j { C[i,j] = B[i,j]  if j > 0 { C[i,j-1] = A[i,j] } }": moved,
    "for i, j { C[i,j] = B[i,j] } for i, j { C[i,j] = C[i,j]*x[j] }": lambda: B * X,
    "C[i,j] = B[i,j]\n for i { C[i,j] = A[i,j] where j < 3 }": lambda: np.where(np.arange(6) < 3, A, 0),
    "for i, j { C[i,j] = B[i,j] } for i, j { C[i,j] sat= A[i,j] }": lambda: np.minimum(A + B, 9),
    "C[i,j] sat= A[i,j]": lambda: A,
    "for i, j { C[i,j] = B[i,j] } for i { C[i,0] = A[i,1] }": lambda: np.hstack([A[:, 1:2], B[:, 1:]]),
}


@pytest.mark.parametrize(
    "layout", ["csr", *(pytest.param(n, marks=pytest.mark.exhaustive) for n in ("coo", "bcsr(R=2, C=3)"))]
)
@pytest.mark.parametrize("body", CASES)
def test_the_last_value_counts(body: str, layout: str) -> None:
    used = "y[j] = A[i,j] + B[i,j] + x[j]"
    text = f"kernel k {{ tensor A, B : csr  tensor x, y : dense  tensor C : {layout}\n {body}\n {used} }}"
    kernel = spfgen.parse(SAT + text).kernels["k"].compile(optimize=1)
    found = kernel(A=spfgen.pack(A, "csr"), B=spfgen.pack(B, "csr"), x=X)["C"]
    assert np.array_equal(found.to_numpy(), CASES[body]())


@pytest.mark.parametrize("place", ["i-1,j", "2,j"])
def test_places_outside_of_a_result_that_is_added_to_are_none(place: str) -> None:
    text = f"kernel k {{ tensor A, B, C : csr  for i, j {{ C[i,j] += A[i,j]  C[{place}] += B[i,j] }} }}"
    kernel = spfgen.parse(text).kernels["k"].compile()
    found = kernel(A=spfgen.pack(A[:1], "csr"), B=spfgen.pack(B[:1], "csr"))
    assert np.array_equal(found.to_numpy(), A[:1])


def test_what_becomes_the_fill_again_is_not_stored() -> None:
    text = "kernel k { tensor A, C : csr  C[i,j] = A[i,j]  for i, j { if A[i,j] < 4 { C[i,j] = 0 } } }"
    found = spfgen.parse(text).kernels["k"].compile()(A=spfgen.pack(A, "csr"))
    assert len(found.to_coo().values) == np.count_nonzero(A >= 4)


def test_only_what_may_be_overwritten_is_gone_through() -> None:
    text = "kernel k { tensor A, B, C : csr  for i, j { C[i,j] = B[i,j] } for i, j { C[i,j] = A[i,j] } }"
    told = spfgen.parse(text).kernels["k"].compile().explain()
    assert "in [0, A.ncol)" not in told


@pytest.mark.parametrize("layout", ["sv", "dense"])
def test_a_loop_that_runs_0_times_decides_no_fill(layout: str) -> None:
    text = f"kernel k {{ tensor A : csr  tensor h : {layout}  for l {{ for k {{ h[k] = A[k,l] + 3 }} }} }}"
    kernel = spfgen.parse(text).kernels["k"].compile()
    for columns in (0, 2):
        found = kernel(A=spfgen.pack(A[:, :columns], "csr"))
        found = found if layout == "dense" else found.to_numpy()
        assert np.array_equal(found, A[:, 1] + 3 if columns else np.zeros(5))


@pytest.mark.parametrize("layout", ["jds", "coo_unsorted", "csr_unsorted", "csr"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_sign_of_a_stored_zero_is_read(layout: str, dtype: type) -> None:
    """Also where entries at one coordinate are added up first."""
    values = np.array([[0, -0.0, 0, 2], [1, 0, -0.0, 0]], dtype)
    found = spfgen.evaluate("R[i, j] = copysign(1, B[i, j])", B=spfgen.pack(values, layout), out="dense")
    np.testing.assert_array_equal(found, np.copysign(1, values))
