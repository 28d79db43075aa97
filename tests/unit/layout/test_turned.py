"""Alternatives of a relation that do something to the stored value: antisymmetric and Hermitian matrices."""

from __future__ import annotations

import numpy as np
import pytest

import spfgen
from spfgen.errors import DataError

RANDOM = np.random.default_rng(0)
B = np.where(RANDOM.random((7, 7)) < 0.5, RANDOM.integers(-3, 4, (7, 7)), 0).astype(float)
LOWER = np.tril(B, -1)
ANTISYMMETRIC = LOWER - LOWER.T
COMPLEX = np.tril(B + 1j * np.where(B != 0, RANDOM.integers(1, 4, (7, 7)), 0), -1)
HERMITIAN = COMPLEX + COMPLEX.conj().T + np.diag(np.diag(B))
SKEW = COMPLEX - COMPLEX.conj().T
X = np.arange(7.0) + 1
OWN = """
layout skew(nrow, ncol) {
    relation {
        [a, b] -> [i, j] : 0 <= b < a < nrow and a < ncol and i = a and j = b ;
        [a, b] -> [i, j] : 0 <= b < a < nrow and a < ncol and i = b and j = a as -conj(val) }
    value val[nrow*(nrow + 1)/2] at [a*(a - 1)/2 + b]
}
"""
CASES = {
    "antisym_csr": ANTISYMMETRIC, "antisym_lower": ANTISYMMETRIC, "hermitian_csr": HERMITIAN,
    "hermitian_lower": HERMITIAN, "skew": SKEW,
}  # fmt: skip


def named(name: str):
    return spfgen.parse(OWN).layouts[name]


@pytest.mark.parametrize("name", CASES)
def test_there_and_back(name: str) -> None:
    dense = CASES[name]
    tensor = spfgen.pack(dense, named(name))
    tensor.validate()
    np.testing.assert_array_equal(tensor.to_numpy(), dense)
    listed = tensor.convert("csr")
    assert listed.nse == np.count_nonzero(dense)
    np.testing.assert_array_equal(listed.convert(named(name)).to_numpy(), dense)
    wrong = dense.copy()
    wrong[2, 1] += 1
    with pytest.raises(DataError):
        spfgen.pack(wrong, named(name))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("optimize", [0, 2])
@pytest.mark.parametrize("name", CASES)
def test_kernels(name: str, optimize: int) -> None:
    dense = CASES[name]
    tensor = spfgen.pack(dense, named(name))
    for text, right in (
        ("y[i] = A[i, j]*x[j]", dense @ X),
        ("y[j] += A[i, j]*x[i]", dense.T @ X),
        ("y[i] = A[i, j]*A[j, k]*x[k]", dense @ (dense @ X)),
        ("y[i] = sum(j: abs(A[i, j])*x[j])", abs(dense) @ X),
    ):
        kernel = spfgen.compile(text, A=named(name), x="dense", y="dense", optimize=optimize)
        np.testing.assert_allclose(kernel(A=tensor, x=X), right, atol=1e-12)


def test_what_cannot_be_turned() -> None:
    with pytest.raises(DataError, match="stores -val, but they are bool"):
        spfgen.pack(ANTISYMMETRIC != 0, "antisym_lower")
    with pytest.raises(DataError, match="the fill value 0 or nan for layout `antisym_csr`"):
        spfgen.pack(ANTISYMMETRIC, "antisym_csr fill inf")
    tensor = spfgen.pack(np.where(ANTISYMMETRIC == 0, np.nan, ANTISYMMETRIC), "antisym_csr fill nan")
    assert tensor.nse == np.count_nonzero(LOWER)


def test_functions_of_numpy_see_the_values_and_not_what_is_stored() -> None:
    tensor = spfgen.pack(ANTISYMMETRIC, "antisym_csr")
    np.testing.assert_allclose(np.exp(tensor).to_numpy(), np.exp(ANTISYMMETRIC))
    np.testing.assert_allclose((2 * tensor).to_numpy(), 2 * ANTISYMMETRIC)
    np.testing.assert_allclose(abs(tensor).to_numpy(), abs(ANTISYMMETRIC))
    pattern = spfgen.pack(ANTISYMMETRIC, "csr_pattern")
    np.testing.assert_array_equal((3 * pattern).to_numpy(), 3 * (ANTISYMMETRIC != 0))
    np.testing.assert_array_equal(np.logical_not(pattern).to_numpy(), ANTISYMMETRIC == 0)
