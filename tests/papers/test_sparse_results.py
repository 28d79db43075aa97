"""Results of the papers' programs in sparse layouts: the pattern is computed.

Root et al. 2024 measure conversions (figures 24 and 25), Henry et al. 2021 functions of cubes (figures 21 to 28),
Ahrens et al. 2024 products of sparse matrices (figure 16).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import spfgen
from tests.papers.support import bools, few, floats, full, ints, positive

Check = Callable[..., None]
Array = np.ndarray[Any, Any]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "layouts", few(["A: csr; c: sv", "A: coo; c: sv", "A: csc; c: sv_unsorted", "A: csc; c: sv"], 3)
)
def test_fig_24_a_reshape(check: Check, layouts: str) -> None:
    check("c[k] = collapse(A[i, j], (i, j) -> k)", lambda A: A.reshape(-1), {"A": floats("n m")}, [layouts])


STACKS = ["B: csr; C: csr; D: csr", "B: coo; C: coo; D: coo", "B: csr; C: csr; D: coo", "B: csr; C: csc; D: csr"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layouts", few(STACKS))
def test_fig_24_and_25_stacks(check: Check, layouts: str) -> None:
    text, numpy = "D[l, j] = concat((B[i, j], C[k, j]), (i, k) -> l)", lambda B, C: np.vstack((B, C))
    check(text, numpy, {"B": floats("n m"), "C": floats("k m")}, [layouts])
    text, numpy = "D[i, l] = concat((B[i, j], C[i, k]), (j, k) -> l)", lambda B, C: np.hstack((B, C))
    check(text, numpy, {"B": floats("n m"), "C": floats("n k")}, [layouts])


@pytest.mark.parametrize("layouts", few(["A: csr; B: csr", "A: csr; B: coo", "A: csc; B: csr", "A: coo; B: csc"]))
def test_fig_24_f_and_25_f_slices(check: Check, layouts: str) -> None:
    check("B[i, j] = A[i(0:4:2), j]", lambda A: A[0:4:2], {"A": floats("8 m")}, [layouts])


@pytest.mark.parametrize("layout", few(["coo", "csr", "csc", "dcsr"]))
def test_fig_25_a_and_b_split(check: Check, layout: str) -> None:
    check(
        "C[i, j] = split(b[k], k -> (i, j))",
        lambda b: b.reshape(-1, 3),
        {"b": floats("n*3")},
        [f"b: sv; C: {layout}"],
        sizes={"j": "3"},
    )


def test_fig_26_fused(check: Check) -> None:
    check(
        "c[k] = collapse(A[i, j], (i, j) -> k)*b[k]",
        lambda A, b: A.reshape(-1) * b,
        {"A": floats("n m"), "b": floats("n*m")},
        ["A: csr; b: sv; c: sv"],
    )
    check(
        "C[i, j] = slice(A[k, j], k -> i, (0, 8, 2))*B[i, j]",
        lambda A, B: A[0:8:2] * B,
        {"A": floats("8 m"), "B": floats("4 m")},
        ["A: csr; B: csr; C: csr"],
    )


UFUNCS = {
    "logical_xor": (bools, bools, np.logical_xor),
    "ldexp": (floats, lambda s: ints(s, -3, 5), np.ldexp),
    "right_shift": (lambda s: ints(s, -99, 99), lambda s: ints(s, 0, 5), np.right_shift),
    "power": (positive, positive, np.power),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", UFUNCS)
@pytest.mark.parametrize("layout", few(["csf", "coo"], 1))
def test_fig_20_and_21_ufuncs_of_cubes(check: Check, name: str, layout: str) -> None:
    """What is not stored of a power is 1."""
    first, second, numpy = UFUNCS[name]
    result = f"{layout} fill 1" if name == "power" else layout
    text = f"C[i, j, k] = {name}(A[i, j, k], B[i, j, k])"
    data = {"A": first("n m k"), "B": second("n m k")}
    check(text, lambda A, B: numpy(A, B), data, [f"A: {layout}; B: {layout}; C: {result}"])


def test_fig_2_masked_power_of_ones(check: Check) -> None:
    check(
        "A[i, j] = power(B[i, j], C[i, j])*(not D[i, j])",
        lambda B, C, D: np.power(B, C) * ~D,
        {"B": positive("n m"), "C": positive("n m"), "D": bools("n m")},
        ["B: csr; C: csr; D: csr; A: csr fill 1", "B: csr; C: csc; D: coo; A: csr"],
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("text", "fill"), [("A[i, j] + B[i, j]", 0), ("max(A[i, j], B[i, j])", 0), ("A[i, j] - B[i, j] + 1", 1)]
)
@pytest.mark.parametrize(
    "layouts", few(["A: csr; B: csr; C: csr", "A: csc; B: coo; C: dcsr", "A: coo; B: csr; C: bcsr(R=2, C=3)"])
)
def test_fig_27_sums(check: Check, text: str, fill: float, layouts: str) -> None:
    meaning = {"A[i, j] + B[i, j]": np.add, "max(A[i, j], B[i, j])": np.maximum}
    numpy = meaning.get(text, lambda A, B: A - B + 1)
    chosen = f"{layouts} fill {fill}" if fill else layouts
    check(f"C[i, j] = {text}", lambda A, B: numpy(A, B), {"A": floats("n m"), "B": floats("n m")}, [chosen])


def test_table_4_tropical_product(check: Check) -> None:
    check(
        "A[i, j] = min(k: B[i, k] + C[k, j])",
        lambda B, C: (B[:, :, None] + C).min(1, initial=np.inf),
        {"B": positive("n k", fill=np.inf), "C": positive("k m", fill=np.inf)},
        ["B: csr; C: csr; A: csr fill inf"],
        empty=False,
    )


PRODUCTS = ["A: csr; B: csr; C: csr", "A: csc; B: csc; C: csc", "A: csr; B: csc; C: coo", "A: coo; B: dcsr; C: csr"]


@pytest.mark.parametrize("layouts", few(PRODUCTS))
def test_fig_16_products(check: Check, layouts: str) -> None:
    data = {"A": floats("n k"), "B": floats("k m")}
    check("C[i, j] = A[i, k]*B[k, j]", lambda A, B: A @ B, data, [layouts])
    text = (
        "local tensor w : dense\nfor j { w[i] = 0\n for k, i { w[i] += A[i, k]*B[k, j] }\n for i { C[i, j] = w[i] } }"
    )
    check(text, lambda A, B: A @ B, data, [layouts])


@pytest.mark.parametrize("layout", few(["csr", "csc", "coo", "bcsr(R=2, C=3)"]))
def test_fig_24_sddmm(check: Check, layout: str) -> None:
    data = {"S": floats("n m"), "A": full("n k"), "B": full("k m")}
    text = "C[i, j] = S[i, j]*sum(k: A[i, k]*B[k, j])"
    check(text, lambda S, A, B: S * (A @ B), data, [f"S: {layout}; A: dense; B: dense; C: {layout}"])


@pytest.mark.parametrize("layout", few(["csr", "coo", "csc"]))
def test_fig_20_convolution(check: Check, layout: str) -> None:
    def expected(I: Array, F: Array) -> Array:
        n, m = I.shape[0] - 2, I.shape[1] - 2
        return sum(I[r : r + n, c : c + m] * F[r, c] for r in range(3) for c in range(3))

    check(
        "A[i, j] = I[i + p, j + q]*F[p, q]",
        expected,
        {"I": floats("n+2 m+2"), "F": full("3 3")},
        [f"I: {layout}; F: dense; A: {layout}"],
        sizes={"i": "n", "j": "m"},
        empty=False,
    )


def test_only_what_differs_is_stored() -> None:
    """The pattern is that of the operands' union or intersection; nothing is stored twice."""
    A = np.array([[1.0, 0, 2], [0, 0, 0], [0, 3, 0]])
    B = np.array([[0.0, 0, 5], [0, 4, 0], [0, 0, 0]])
    for sign, count in (("+", 4), ("*", 1)):
        found = spfgen.compile(f"C[i, j] = A[i, j]{sign}B[i, j]", A="csr", B="csr", C="csr")(
            A=spfgen.pack(A, "csr"), B=spfgen.pack(B, "csr")
        )
        assert len(found.to_coo().values) == count
        np.testing.assert_array_equal(found.to_numpy(), A + B if sign == "+" else A * B)


def test_what_is_not_reached_keeps_the_fill() -> None:
    """A value under a condition is not what the result is elsewhere."""
    text = "kernel mark { tensor V : dense<bool>  tensor G : sv<bool>  for k { if V[k] { G[k] = true } } }"
    found = spfgen.parse(text).kernels["mark"].compile()(V=np.array([False, True, False]))
    np.testing.assert_array_equal(found.to_numpy(), [False, True, False])
