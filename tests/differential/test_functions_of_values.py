"""Functions of numpy in texts, over sparse operands with fill values: results and types are those of dense numpy."""

from __future__ import annotations

import numpy as np
import pytest

import spfgen
from spfgen.lang.interpret import interpret
from spfgen.lang.parse import parse_statements

RNG = np.random.default_rng(3)
MASK = RNG.random((3, 5, 6)) < 0.4
A = np.where(MASK[0], RNG.normal(0, 2, (5, 6)), 0.0)
B = np.where(MASK[1], RNG.integers(-3, 4, (5, 6)) / 2, np.inf)
N = np.where(MASK[2], RNG.normal(0, 1, (5, 6)), np.nan)
I = np.where(MASK[1], RNG.integers(-120, 120, (5, 6)), 0).astype(np.int8)  # noqa: E741
J = np.where(MASK[2], RNG.integers(-9, 9, (5, 6)), -1).astype(np.int8)
U = np.where(MASK[0], 2**63 + 5, 0).astype(np.uint64)
M = MASK[2]
DENSE = {"A": A, "B": B, "N": N, "I": I, "J": J, "U": U, "M": M}
FILLS = dict(zip(DENSE, ("0", "inf", "nan", "0", "-1", "0", "false"), strict=True))
CASES = {
    "A[i, j]*B[i, j]": lambda: A * B,
    "maximum(A[i, j]*B[i, j], 1)": lambda: np.maximum(A * B, 1),
    "(0*B[i, j] > 1) + 1": lambda: (0 * B > 1) + 1,
    "fmin(N[i, j], A[i, j])": lambda: np.fmin(N, A),
    "minimum(N[i, j], A[i, j])": lambda: np.minimum(N, A),
    "isnan(N[i, j]) or M[i, j]": lambda: np.isnan(N) | M,
    "power(I[i, j], abs(J[i, j]))": lambda: np.power(I, np.abs(J)),
    "I[i, j] // J[i, j] + I[i, j] % J[i, j]": lambda: I // J + I % J,
    "I[i, j] << J[i, j]": lambda: I << J,
    "gcd(I[i, j], J[i, j])": lambda: np.gcd(I, J),
    "I[i, j] < 300": lambda: I < 300,
    "U[i, j] > J[i, j]": lambda: U > J,
    "where(M[i, j], I[i, j], A[i, j])": lambda: np.where(M, I, A),
    "logical_xor(A[i, j], I[i, j])": lambda: np.logical_xor(A, I),
    "sqrt(abs(I[i, j]))": lambda: np.sqrt(np.abs(I).astype(np.float32)),
    "ldexp(A[i, j], J[i, j])": lambda: np.ldexp(A, J),
    "clip(A[i, j], -0.5, N[i, j])": lambda: np.clip(A, -0.5, N),
    "exp(-B[i, j])*I[i, j]": lambda: np.exp(-B) * I,
    "A[i, j]**2 + hypot(A[i, j], 3)": lambda: A**2 + np.hypot(A, 3),
    "not (A[i, j] <= B[i, j]) and M[i, j]": lambda: ~(A <= B) & M,
    "~I[i, j] ^ J[i, j] & 12": lambda: ~I ^ J & 12,
    "round(A[i, j]) + floor(I[i, j])": lambda: np.round(A) + np.floor(I),
}


@pytest.fixture(scope="module")
def packed():
    return {name: spfgen.pack(array, f"csr fill {FILLS[name]}") for name, array in DENSE.items()}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("text", CASES)
def test_the_same_as_dense_numpy(packed, text: str) -> None:
    with np.errstate(all="ignore"):
        wanted = CASES[text]()
    found = spfgen.evaluate(f"C[i, j] = {text}", **{n: t for n, t in packed.items() if f"{n}[" in text})
    assert found.dtype == wanted.dtype
    assert np.allclose(found, wanted, rtol=1e-12, equal_nan=True)


NO_ROW = np.where(np.arange(5)[:, None] == 2, 0, A)
MORE = np.where(MASK[2], 1.0, 0.0)
Z = np.array([0.0, 2, 0, np.inf, 1, 0])


def of_stored(value: np.ndarray) -> np.ndarray:
    """0 where the dividend, or the factor, is not stored."""
    return np.where(NO_ROW != 0, value, 0)


UNSTORED = {
    "abs(A[i, j])/z[j] + C[i, j]": lambda own: own(np.abs(NO_ROW) / Z) + MORE,
    "abs(A[i, j])*z[j] + C[i, j]": lambda own: own(np.abs(NO_ROW) * Z) + MORE,
    "max(2*A[i, j]*z[j], C[i, j])": lambda own: np.maximum(own(2 * NO_ROW * Z), MORE),
    "abs(A[i, j])/C[i, j] + C[i, j]": lambda own: own(np.abs(NO_ROW) / MORE) + MORE,
    "A[i, j] // C[i, j] - C[i, j]": lambda own: own(NO_ROW // MORE) - MORE,
    "A[i, j] % z[j] + abs(C[i, j])": lambda own: own(NO_ROW % Z) + MORE,
    "A[i, j]/sum(k: A[i, k])": lambda own: own(NO_ROW / NO_ROW.sum(1, keepdims=True)),
    "A[i, j]/(sum(k: abs(A[i, k])) + 0) + C[i, j]": lambda own: (
        own(NO_ROW / np.abs(NO_ROW).sum(1, keepdims=True)) + MORE
    ),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("text", UNSTORED)
def test_what_is_not_stored_contributes_nothing(text: str) -> None:
    """Nor does it at points where something else is stored, beside 0 and infinity. But where a quotient is not summed
    and the result is dense, all of it is as in numpy."""
    operands = {"A": spfgen.pack(NO_ROW, "csr"), "C": spfgen.pack(MORE, "csr"), "z": Z}
    with np.errstate(all="ignore"):
        wanted = UNSTORED[text](of_stored)
        plain = wanted if "*z" in text else UNSTORED[text](np.asarray)
    used = {n: t for n, t in operands.items() if f"{n}[" in text}
    found = spfgen.evaluate(f"D[i, j] = {text}", out="csr", **used)
    assert np.allclose(found.to_numpy(), wanted, rtol=1e-12, equal_nan=True)
    assert found.nse < found.size
    found = spfgen.evaluate(f"D[i, j] = {text}", **used)
    assert np.allclose(found, plain, rtol=1e-12, equal_nan=True)
    total = spfgen.evaluate(f"s[i] = sum(j: {text})", **used)
    assert np.allclose(total, wanted.sum(1), rtol=1e-12, equal_nan=True)


@pytest.mark.sampled(1)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("layout", ["csr", "csr_rle", "coo_unsorted", "dense"])
@pytest.mark.parametrize("text", ["Y[i,j] = C[i,j]/sum(k: C[i,k])", "Y[i,j] += C[i,j]/(1 + sum(k: C[i,k]))"])
def test_quotients_in_dense_results_are_numpys(text: str, layout: str) -> None:
    """0/0 is nan at all points, whatever the layout, and so whichever way the kernel is compiled."""
    c = np.array([[2.0, 0, 2], [0, 0, 0], [-1, 0, 0]])
    y = np.ones((3, 3))
    divisor = c.sum(1, keepdims=True)
    wanted = c / divisor if "+=" not in text else y + c / (1 + divisor)
    given = {"Y": y.copy()} if "+=" in text else {}
    kernel = spfgen.compile(text, C=layout, Y="dense")
    np.testing.assert_array_equal(kernel(C=spfgen.pack(c, layout), **given), wanted)


@pytest.mark.parametrize("text", ["R[l] = sum(j, i: 2.0/(T[i,l,j] + 0.5))", "R[l] = sum(i, j: 2.0/(T[i,l,j] + 0.5))"])
def test_sums_of_quotients_over_several_indices(text: str) -> None:
    given = np.arange(24.0).reshape(2, 3, 4)
    for level in (0, 1, 2):
        found = spfgen.compile(text, T="dense", R="dense", optimize=level)(T=given)
        np.testing.assert_allclose(found, (2.0 / (given + 0.5)).sum((0, 2)))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("result", ["dense<bool>", "csr<bool>"])
@pytest.mark.parametrize(("layout", "vector"), [("csr", "sv"), ("coo_unsorted", "sv_unsorted"), ("csc", "sv")])
def test_terms_with_the_same_tensors_in_another_order(layout: str, vector: str, result: str) -> None:
    x = np.array([18.0, 0, -1, 0, 3])
    a = RNG.random((5, 4)) < 0.6
    for text, expected in (
        ("C[l,k] = ((x[l] < 0) and A[l,k]) ^ (A[l,k] & (4 < x[l]))", (x < 0)[:, None] & a ^ a & (x > 4)[:, None]),
        ("C[l,k] = ((x[l] < x[l]) and A[l,k]) or (A[l,k] & (4 < x[l]))", a & (x > 4)[:, None]),
    ):
        kernel = spfgen.compile(text, A=f"{layout}<bool>", x=vector, C=result)
        found = kernel(A=spfgen.pack(a, layout), x=spfgen.pack(x, vector))
        np.testing.assert_array_equal(found if isinstance(found, np.ndarray) else found.to_numpy(), expected)


P, Q = np.array([-np.inf, 1, -np.inf, 3]), np.array([np.inf, 2, 3, np.inf])


@pytest.mark.parametrize("text", ["P[i] + Q[i]", "max(P[i] + Q[i], P[i] + Q[i])", "P[i] - -Q[i]", "exp(Q[i] - -P[i])"])
@pytest.mark.parametrize("layouts", [("sv fill -inf", "dense"), ("sv fill -inf", "sv fill inf"), ("sv", "sv fill inf")])
@pytest.mark.sampled(5)
def test_infinities_that_are_not_stored_are_added_as_in_numpy(text: str, layouts: tuple[str, str]) -> None:
    given = {n: spfgen.pack(v, layout) for n, v, layout in zip("PQ", (P, Q), layouts, strict=True)}
    meant = interpret(parse_statements(f"y[i] = {text}"), {"P": P, "Q": Q}, {"P": -np.inf})["y"]
    with np.errstate(all="ignore"):
        wanted = np.exp(P + Q) if text.startswith("exp") else P + Q
    for found in (spfgen.evaluate(f"y[i] = {text}", **given), meant):
        assert np.array_equal(found, wanted, equal_nan=True)


def test_a_sum_of_complex_infinities_that_are_not_stored() -> None:
    a = np.array([[1 + 1j, 0, 0], [2, 0, 1j]])
    found = spfgen.evaluate("y[i] = sum(j: log(A[i, j]))", A=spfgen.pack(a, "csr"))
    with np.errstate(all="ignore"):
        assert np.array_equal(found, np.log(a).sum(axis=1))


def test_fills_of_both_signs_in_tables() -> None:
    """A table of entries is made for each, one after another: it has the sign of the fill value."""
    stored = np.array([[False, True, False], [False, True, True]])
    for fill in (0.0, -0.0):
        dense = np.where(stored, 2.0, fill)
        at = np.nonzero(stored)
        b = spfgen.pack((at, dense[at]), "jds", shape=dense.shape, fill=fill)
        a = spfgen.pack(np.zeros(dense.shape), "bcsr(R=2, C=2)", fill=1)
        found = spfgen.evaluate("y[i,j] = hypot(floor(A[i,j]), arctan2(B[i,j], B[i,j]))", A=a, B=b)
        np.testing.assert_allclose(np.asarray(found), np.hypot(0, np.arctan2(dense, dense)))


def test_what_is_made_of_a_total_knows_what_stands_above() -> None:
    """The count of what is stored in a row needs the bound of the loop that the total needs, too."""
    dense = np.array([[1.0, 2.0, -3.0, 4.0, 5.0], [0.5, 1.5, -2.0, 2.5, 3.0]])
    dense[0, 2], dense[1, 0] = np.nan, np.nan
    at = np.nonzero([[1, 1, 0, 0, 1], [0, 1, 1, 0, 0]])
    t = spfgen.pack((at, dense[at]), "warp24", shape=dense.shape, fill=0.25)
    found = spfgen.evaluate("y[i] = max(j: T[i,j])", T=t)
    np.testing.assert_array_equal(np.asarray(found), t.to_numpy().max(axis=1))
