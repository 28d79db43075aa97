# ruff: noqa: N803  (tensors have capital names, as in the statements)
"""Kernels that are more than sums of products, their plans carried out by the interpreter: what C is tested with gives
the same, in all layouts. Nothing is compiled."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest

import spfgen
from spfgen.errors import DataError
from spfgen.ir import walk
from spfgen.plan.nodes import PLANS, STATEMENTS, Append, RowWorkspace
from tests.differential import test_steps
from tests.fuzz.carried import by_the_interpreter

ALL_STATEMENTS = frozenset({*get_args(STATEMENTS), Append, RowWorkspace})
RNG = np.random.default_rng(5)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", test_steps.EQUATIONS)
def test_equations(case: str) -> None:
    with by_the_interpreter() as ran:
        test_steps.test_equations(case, 2)
    assert ran


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", test_steps.KERNELS)
def test_kernels(case: str) -> None:
    with by_the_interpreter() as ran:
        test_steps.test_kernels(case, 2)
    assert ran


def matrix(*shape: int) -> np.ndarray[Any, Any]:
    return np.where(RNG.random(shape) < 0.4, RNG.integers(1, 9, shape).astype(float), 0.0)


A, B = matrix(5, 6), matrix(5, 6)
ALL_KINDS = {
    "a result of two updates": (
        "tensor A, B, C : csr  C[i,j] = A[i,j]  C[i,j] max= B[i,j]",
        {"A": "csr", "B": "csr"}, lambda A, B: np.maximum(A, B),
    ),
    "a result in a loop": (
        "tensor A, B : csr  tensor C : csr  for i { let s = sum(j: B[i,j])  C[i,j] = s*A[i,j] }",
        {"A": "csr", "B": "csr"}, lambda A, B: B.sum(1)[:, None] * A,
    ),
    "a product": ("tensor A, B, C : csr  C[i,j] = A[i,k]*B[j,k]", {"A": "csr", "B": "csr"}, lambda A, B: A @ B.T),
    "a product by rows": (
        "tensor A : csc tensor B, C : csr  C[j,k] = A[i,j]*B[i,k]", {"A": "csc", "B": "csr"}, lambda A, B: A.T @ B,
    ),
    "what is not sorted": (
        "tensor A : csr  tensor B : coo_unsorted  tensor C : dense  C[i,j] = where(A[i,j] > 2, B[i,j], 1)",
        {"A": "csr", "B": "coo_unsorted"}, lambda A, B: np.where(A > 2, B, 1),
    ),
    "the first one": (
        """tensor A, B : csr  tensor f : dense<int64>
        for i { let first = -1  for j { if A[i,j] > B[i,j] { first = j  break } }  f[i] = first }""",
        {"A": "csr", "B": "csr"},
        lambda A, B: [next((j for j in range(6) if a[j] > b[j]), -1) for a, b in zip(A, B, strict=True)],
    ),
    "counted in a workspace": (
        """tensor A : csr  tensor c : dense<int64>  local tensor w : dense
        for i { w[j] = A[i,j]  let n = 0  let s = 0  while s < sum(j: w[j]) { s += 2  n += 1 }  c[i] = n }""",
        {"A": "csr"}, lambda A, B: np.ceil(A.sum(1)/2),
    ),
    "a matrix in a row, gathered": (
        "tensor A : csr  tensor B : dense  tensor c : dense  c[k] = collapse(A[int64(B[i,j])/2, j], (i,j) -> k)",
        {"A": "csr"}, lambda A, B: A[(B // 2).astype(int), np.arange(6)].ravel(),
    ),
}  # fmt: skip


def test_all_kinds_of_statements() -> None:
    """Each is in the plan of one of these."""
    kinds = set()
    for text, layouts, meaning in ALL_KINDS.values():
        with by_the_interpreter() as ran:
            kernel = spfgen.parse(f"kernel k {{ {text} }}").kernels["k"].compile()
            given = {n: v for n, v in (("A", A), ("B", B)) if f"{n}[" in text}
            found = kernel(**{n: spfgen.pack(v, layouts[n]) if n in layouts else v for n, v in given.items()})
        dense = found.to_numpy() if hasattr(found, "to_numpy") else found
        np.testing.assert_array_equal(dense, meaning(A, B))
        kinds |= {type(n) for made in ran for p in made.plans for n in walk(p, PLANS)}
    assert not {k.__name__ for k in ALL_STATEMENTS - kinds}


def test_places_outside_are_refused() -> None:
    with by_the_interpreter(), pytest.raises(DataError, match="subscripts"):
        spfgen.compile("y[i] = x[at[i]]", x="dense", at="dense", y="dense")(x=np.ones(3), at=np.array([0, 3]))
