"""Each operation promotes its own operands, as in numpy, wherever it stands: in sums of products, too."""

from __future__ import annotations

import numpy as np
import pytest

import spfgen
from spfgen.lang.interpret import interpret
from spfgen.lang.parse import parse_statements

RNG = np.random.default_rng(4)
GIVEN = {
    "A": RNG.integers(-100, 100, (3, 4)).astype(np.int8),
    "B": RNG.integers(-100, 100, (3, 4)).astype(np.int8),
    "U": RNG.integers(0, 250, (3, 4)).astype(np.uint8),
    "F": (RNG.random((3, 4)) * 1e30).astype(np.float32),
    "L": RNG.integers(2**61, 2**62, (3, 4)),
    "M": RNG.random((3, 4)) < 0.5,
    "x": RNG.random((3, 4)),
}
A, B, U, F, L, M, x = GIVEN.values()
CASES = {
    "Y[i,j] = x[i,j] + A[i,j]*B[i,j]": lambda: x + A * B,
    "Y[i,j] = x[i,j] - (A[i,j] + A[i,j])*B[i,j]": lambda: x - (A + A) * B,
    "Y[i,j] = (A[i,j] + A[i,j])/2": lambda: (A + A) / 2,
    "Y[i,j] = x[i,j]*(A[i,j] - U[i,j]*U[i,j])": lambda: x * (A - U * U),
    "Y[i,j] = x[i,j] + F[i,j]*F[i,j]": lambda: x + F * F,
    "Y[i,j] = -A[i,j] + x[i,j]": lambda: -A + x,
    "Y[i,j] = 2*A[i,j]*x[i,j]": lambda: 2 * A * x,
    "Y[i,j] = M[i,j] + M[i,j] + A[i,j]": lambda: M + M + A,
    "Y[i,j] = x[i,j]*(M[i,j]*M[i,j])": lambda: x * (M * M),
    "y[i] = sum(j: A[i,j]*B[i,j])": lambda: (A * B).sum(axis=1),
    "y[i] = sum(j: x[i,j]) + sum(j: U[i,j]*U[i,j])": lambda: x.sum(axis=1) + (U * U).sum(axis=1),
    "y[i] = sum(j: x[i,j]) + sum(j: L[i,j])": lambda: x.sum(axis=1) + L.sum(axis=1),
    "y[i] = mean(j: L[i,j])": lambda: L.mean(axis=1),
    "y[i] = cos(sum(j: M[i,j])) + mean(j: L[i,j])": lambda: np.cos(M.sum(axis=1)) + L.mean(axis=1),
}


@pytest.mark.sampled(7)
@pytest.mark.parametrize("around", ["{}", "abs({})", "for i {{ {} }}"])
@pytest.mark.parametrize("text", CASES)
def test_the_order_of_promotion_is_that_of_numpy(text: str, around: str) -> None:
    with np.errstate(all="ignore"):
        wanted = CASES[text]()
    left, _, value = text.partition(" = ")
    wanted = np.abs(wanted) if around.startswith("abs") else wanted
    whole = around.format(text) if "for" in around else f"{left} = {around.format(value)}"
    given = {n: a for n, a in GIVEN.items() if f"{n}[" in value}
    for layout in ("dense", "csr"):
        found = spfgen.evaluate(whole, **{n: spfgen.pack(a, layout) for n, a in given.items()})
        assert found.dtype == wanted.dtype
        assert np.allclose(found, wanted, rtol=1e-12)
    assert np.allclose(interpret(parse_statements(whole), given, {})[left[0]], wanted, rtol=1e-12)


def test_a_declared_result_converts_at_last() -> None:
    kernel = spfgen.compile("Y[i,j] = A[i,j]*B[i,j]", A="csr", B="csr", Y="dense<double>")
    found = kernel(A=spfgen.pack(A, "csr<int8>"), B=spfgen.pack(B, "csr<int8>"))
    assert found.dtype == np.float64
    assert np.array_equal(found, A * B)


def test_numbers_that_nothing_is_stored_for_have_their_type() -> None:
    """~3 of uint64 is no int of C: what both operands make of their fills is a number of their type."""
    b, u = np.array([3, 5, 3], np.uint64), np.array([-1, 2, 0], np.int32)
    packed = {"B": spfgen.pack(b, "sv", fill=3), "u": spfgen.pack(u, "sv_unsorted")}
    found = spfgen.evaluate("R[i] = invert(B[i])*floor_divide(u[i], u[i])", **packed)
    with np.errstate(all="ignore"):
        assert np.array_equal(found, np.invert(b) * np.floor_divide(u, u))
