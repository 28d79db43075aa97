"""Liu et al. 2024, Compiler Support for Sparse Tensor Convolutions: each expression, figure and experiment.

Besides, what issue and users ask of convolutions: strides, dilation, padding, groups, pooling, stencils.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from scipy import ndimage, signal

from tests.papers.support import bools, few, floats, full, positive

Check = Callable[..., None]
Array = np.ndarray[Any, Any]
VECTORS = ("sv", "sv_unsorted", "coo", "rle", "dense", "sv_decreasing")
MATRICES = ("csr", "csc", "coo", "dcsr", "bcsr(R=2, C=3)", "dense", "coo_unsorted", "dcsc")
CUBES = ("csf", "coo", "dense", "coo_unsorted")


def windows(I: Array, F: Array, strides: int = 1, dilation: int = 1) -> Array:
    """The dense reference: one output point after the other."""
    spread = [dilation * (f - 1) + 1 for f in F.shape]
    shape = [max(0, (n - s) // strides + 1) for n, s in zip(I.shape, spread, strict=True)]
    result = np.zeros(shape)
    for at in np.ndindex(*shape):
        part = tuple(slice(strides * a, strides * a + s, dilation) for a, s in zip(at, spread, strict=True))
        result[at] = (I[part] * F).sum()
    return result


# --- sections 1 and 2 ---------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", few(VECTORS))
def test_fig_2_convolution_of_a_vector(check: Check, layout: str) -> None:
    check(
        "A[i] = C[i + j]*B[j]",
        lambda C, B: windows(C, B),
        {"C": floats("n+k-1"), "B": full("k")},
        [f"C: {layout}; B: dense; A: dense", f"C: {layout}; B: sv; A: dense"],
        sizes={"i": "n"},
        empty=False,
    )


def test_fig_3_two_wide_windows(check: Check) -> None:
    """Eight windows of two, with values at 2, 8 and 9 among others."""
    text, data = "A[i] = sum(j: C[i + j]*B[j])", {"C": floats("9", density=0.3), "B": full("2")}
    check(text, lambda C, B: windows(C, B), data, ["C: sv; B: dense; A: dense"], sizes={"i": "8"})


def test_section_2_sum_of_window_and_filter(check: Check) -> None:
    """A disjunction: where the window is empty the filter is still there."""
    check(
        "A[i] = sum(j: C[i + j] + B[j])",
        lambda C, B: np.array([(C[i : i + len(B)] + B).sum() for i in range(len(C) - len(B) + 1)]),
        {"C": floats("n+k-1"), "B": floats("k")},
        ["C: sv; B: dense; A: dense", "C: sv_unsorted; B: sv; A: dense"],
        sizes={"i": "n"},
        empty=False,
    )


def test_fig_8_merge_of_window_and_vector(check: Check) -> None:
    def expected(B: Array, C: Array) -> Array:
        return np.array([[B[i] + C[i + j] for j in range(2)] for i in range(4)])

    layouts = ["B: sv; C: sv; A: dense", "B: sv_unsorted; C: sv; A: dense"]
    text, data = "A[i, j] = B[i] + C[i + j]", {"B": floats("4"), "C": floats("5")}
    check(text, expected, data, layouts, sizes={"j": "2"})


# --- section 1 and 3: compound subscripts -------------------------------------------------------------


def test_section_1_three_indices_in_one_subscript(check: Check) -> None:
    def expected(B: Array, x: Array, y: Array) -> Array:
        n = len(B) - len(x) - len(y) + 2
        return np.array(
            [sum(B[i + j + k] * x[j] * y[k] for j in range(len(x)) for k in range(len(y))) for i in range(n)]
        )

    check(
        "A[i] = B[i + j + k]*x[j]*y[k]",
        expected,
        {"B": floats("n+m+k-2"), "x": full("m"), "y": full("k")},
        ["B: sv; x: dense; y: dense; A: dense", "B: rle; x: sv; y: sv; A: dense"],
        sizes={"i": "n"},
        empty=False,
    )


def test_section_1_two_tensors_with_compound_subscripts(check: Check) -> None:
    def expected(A: Array, B: Array) -> Array:
        return np.array(
            [[[A[i + j] * B[i + k] for k in range(2)] for j in range(3)] for i in range(len(A) - 2)]
        ).reshape(-1, 3, 2)

    check(
        "C[i, j, k] = A[i + j]*B[i + k]",
        expected,
        {"A": floats("n+2"), "B": floats("n+1")},
        ["A: sv; B: sv; C: dense", "A: sv_unsorted; B: dense; C: dense"],
        sizes={"i": "n", "j": "3", "k": "2"},
        empty=False,
    )


@pytest.mark.parametrize("layout", few(["sv", "sv_unsorted", "coo", "dense"]))
def test_section_1_coefficients(check: Check, layout: str) -> None:
    """Strided: A[2i + j]."""
    check(
        "y[i] = A[2*i + j]*w[j]",
        lambda A, w: windows(A, w, strides=2),
        {"A": floats("2*n+1"), "w": full("3")},
        [f"A: {layout}; w: dense; y: dense"],
        sizes={"i": "n"},
        empty=False,
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", few(["csr", "csc", "coo", "dcsr"]))
def test_fig_7_subscripts_of_a_matrix(check: Check, layout: str) -> None:
    def expected(B: Array, C: Array) -> Array:
        return np.array([(B[i : i + 3, m : m + 2] * C).sum() for i in range(4) for m in range(3)]).reshape(4, 3)

    check(
        "A[i, m] = sum(j, k: B[i + j, m + k]*C[j, k])",
        expected,
        {"B": floats("6 4"), "C": floats("3 2", density=0.8)},
        [f"B: {layout}; C: dense; A: dense", f"B: {layout}; C: csr; A: dense"],
        sizes={"i": "4", "m": "3"},
    )


@pytest.mark.parametrize("layout", few(MATRICES))
def test_fig_5_windows_of_a_matrix(check: Check, layout: str) -> None:
    """T[i + k, j + l] with k and l below 2."""
    check(
        "A[i, j] = T[i + k, j + l]*F[k, l]",
        lambda T, F: windows(T, F),
        {"T": floats("n+1 m+1"), "F": full("2 2")},
        [f"T: {layout}; F: dense; A: dense"],
        sizes={"i": "n", "j": "m"},
        empty=False,
    )


# --- section 6: experiments ---------------------------------------------------------------------------

NHWC = "O[n, h, w, f] = sum(r, q, c: I[n, {0}, {1}, c]*F[r, q, c, f])"
NCHW = "O[n, f, h, w] = sum(r, q, c: I[n, c, {0}, {1}]*F[f, c, r, q])"


def layer(I: Array, F: Array, stride: int = 1) -> Array:
    """NHWC: images, rows, columns, channels; the filter rows, columns, channels, filters."""
    height, width = ((I.shape[d] - F.shape[d - 1]) // stride + 1 for d in (1, 2))
    result = np.zeros((len(I), height, width, F.shape[3]))
    for h in range(height):
        for w in range(width):
            part = I[:, stride * h : stride * h + F.shape[0], stride * w : stride * w + F.shape[1]]
            result[:, h, w] = np.einsum("nrqc,rqcf->nf", part, F)
    return result


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", few(["csf", "coo", "dense"]))
@pytest.mark.parametrize("stride", [1, 2])
def test_fig_15_and_16_layers_of_a_network(check: Check, layout: str, stride: int) -> None:
    rows, columns = ("h + r", "w + q") if stride == 1 else ("2*h + r", "2*w + q")
    check(
        NHWC.format(rows, columns),
        lambda I, F: layer(I, F, stride),
        {"I": floats(f"b {stride}*x+2 {stride}*y+2 c"), "F": full("3 3 c 2")},
        [f"I: {layout}; F: dense; O: dense"],
        sizes={"h": "x" if stride == 1 else "(2*x+2-3)//2+1", "w": "y" if stride == 1 else "(2*y+2-3)//2+1"},
        empty=False,
    )


@pytest.mark.parametrize("layout", few(["csf", "coo_unsorted"]))
def test_nchw(check: Check, layout: str) -> None:
    check(
        NCHW.format("h + r", "w + q"),
        lambda I, F: layer(I.transpose(0, 2, 3, 1), F.transpose(2, 3, 1, 0)).transpose(0, 3, 1, 2),
        {"I": floats("b c x+2 y+2"), "F": full("2 c 3 3")},
        [f"I: {layout}; F: dense; O: dense"],
        sizes={"h": "x", "w": "y"},
        empty=False,
    )


@pytest.mark.parametrize("layout", few(VECTORS))
def test_fig_17_one_dimension(check: Check, layout: str) -> None:
    """scipy's correlation of the part where the filter lies within."""
    check(
        "A[i] = sum(p: I[i + p]*F[p])",
        lambda I, F: signal.correlate(I, F, "valid"),
        {"I": floats("n+2"), "F": full("3")},
        [f"I: {layout}; F: dense; A: dense"],
        sizes={"i": "n"},
        empty=False,
    )


@pytest.mark.parametrize("layout", few(MATRICES))
def test_fig_17_two_dimensions(check: Check, layout: str) -> None:
    check(
        "A[i, j] = sum(p, q: I[i + p, j + q]*F[p, q])",
        lambda I, F: signal.correlate2d(I, F, "valid"),
        {"I": floats("n+2 m+2"), "F": full("3 3")},
        [f"I: {layout}; F: dense; A: dense"],
        sizes={"i": "n", "j": "m"},
        empty=False,
    )


@pytest.mark.parametrize("layout", few(CUBES))
def test_fig_17_three_dimensions(check: Check, layout: str) -> None:
    check(
        "A[i, j, k] = sum(p, q, r: I[i + p, j + q, k + r]*F[p, q, r])",
        lambda I, F: windows(I, F),
        {"I": floats("n+2 m+2 k+2"), "F": full("3 3 3")},
        [f"I: {layout}; F: dense; A: dense"],
        sizes={"i": "n", "j": "m", "k": "k"},
        empty=False,
    )


ORDERS = ("i, p", "p, i")


@pytest.mark.parametrize("order", ORDERS)
def test_fig_19_orders_of_loops(check: Check, order: str) -> None:
    check(
        f"for {order} {{ A[i] += I[i + p]*F[p] }}",
        lambda I, F: windows(I, F),
        {"I": floats("n+2"), "F": full("3")},
        ["I: sv; F: dense; A: dense", "I: sv_unsorted; F: dense; A: dense"],
        sizes={"i": "n"},
        empty=False,
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("order", ["i, p, q, j", "p, q, i, j", "i, j, p, q", "p, i, q, j"])
def test_fig_20_orders_of_loops_in_two_dimensions(check: Check, order: str) -> None:
    check(
        f"for {order} {{ A[i, j] += I[i + p, j + q]*F[p, q] }}",
        lambda I, F: windows(I, F),
        {"I": floats("n+2 m+2"), "F": full("3 3")},
        ["I: csr; F: dense; A: dense"],
        sizes={"i": "n", "j": "m"},
        empty=False,
    )


# --- dilation, padding, groups ------------------------------------------------------------------------


@pytest.mark.parametrize("layout", few(["sv", "coo", "dense"]))
def test_dilated(check: Check, layout: str) -> None:
    check(
        "A[i] = sum(p: I[i + 2*p]*F[p])",
        lambda I, F: windows(I, F, dilation=2),
        {"I": floats("n+4"), "F": full("3")},
        [f"I: {layout}; F: dense; A: dense"],
        sizes={"i": "n"},
        empty=False,
    )


@pytest.mark.parametrize("layout", few(["csr", "csc", "coo"]))
def test_strided_and_dilated_in_two_dimensions(check: Check, layout: str) -> None:
    check(
        "A[i, j] = sum(p, q: I[2*i + 3*p, 2*j + 3*q]*F[p, q])",
        lambda I, F: windows(I, F, strides=2, dilation=3),
        {"I": floats("2*n+2 2*m+2"), "F": full("2 2")},
        [f"I: {layout}; F: dense; A: dense"],
        sizes={"i": "n", "j": "m"},
        empty=False,
        least=2,
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", few(["csr", "csc", "coo_unsorted", "dense"]))
def test_padded_by_zeros(check: Check, layout: str) -> None:
    """What lies outside is no part of a sum of products."""
    data = {"I": floats("n m"), "F": full("3 3")}
    layouts = [f"I: {layout}; F: dense; A: dense"]

    def expected(I: Array, F: Array) -> Array:
        return ndimage.correlate(I, F, mode="constant") if I.size else I

    sizes = {"i": "n", "j": "m"}
    check("A[i, j] = I[i + p - 1, j + q - 1]*F[p, q]", expected, data, layouts, sizes=sizes)
    text = "A[i, j] = sum(p, q: coalesce(I[i + p - 1, j + q - 1], 0)*F[p, q])"
    check(text, expected, data, layouts, sizes=sizes)


def test_padded_by_another_value(check: Check) -> None:
    check(
        "A[i] = sum(p: coalesce(I[i + p - 1], 5)*F[p])",
        lambda I, F: windows(np.pad(I, 1, constant_values=5), F),
        {"I": floats("n"), "F": full("3")},
        ["I: sv; F: dense; A: dense", "I: dense; F: sv; A: dense"],
        sizes={"i": "n"},
        empty=False,
    )


@pytest.mark.parametrize("layout", few(["sv", "coo", "dense"]))
def test_full_convolution(check: Check, layout: str) -> None:
    """numpy.convolve, as a gather."""
    data = {"I": floats("n"), "F": full("3")}
    layouts, sizes = [f"I: {layout}; F: dense; A: dense"], {"i": "n+2"}

    def expected(I: Array, F: Array) -> Array:
        return np.convolve(I, F)

    check("A[i] = I[i - p]*F[p]", expected, data, layouts, sizes=sizes, empty=False)


def test_transposed_convolution(check: Check) -> None:
    """Every input point spreads the filter, two places apart; the result is given."""

    def expected(I: Array, F: Array, A: Array) -> Array:
        for i, value in enumerate(I):
            A[2 * i : 2 * i + len(F)] += value * F
        return A

    data = {"I": floats("n"), "F": full("3"), "A": floats("2*n+1", density=1)}
    check("A[2*i + p] += I[i]*F[p]", expected, data, ["I: sv; F: dense; A: dense"], in_place=("A",))


@pytest.mark.parametrize("layout", few(["csf", "coo"]))
def test_depthwise(check: Check, layout: str) -> None:
    check(
        "O[h, w, c] = sum(r, q: I[h + r, w + q, c]*F[r, q, c])",
        lambda I, F: np.stack([windows(I[..., c], F[..., c]) for c in range(I.shape[2])], 2),
        {"I": floats("x+2 y+2 c"), "F": full("3 3 c")},
        [f"I: {layout}; F: dense; O: dense"],
        sizes={"h": "x", "w": "y"},
        empty=False,
    )


def test_grouped(check: Check) -> None:
    def expected(I: Array, F: Array) -> Array:
        n = I.shape[1] - 2
        return np.array(
            [
                [[sum(windows(I[3 * g + c], F[g, k, c])[w] for c in range(3)) for w in range(n)] for k in range(2)]
                for g in range(2)
            ]
        ).reshape(2, 2, n)

    check(
        "O[g, k, w] = sum(r, c: I[3*g + c, w + r]*F[g, k, c, r])",
        expected,
        {"I": floats("6 x+2"), "F": full("2 2 3 3")},
        ["I: csr; F: dense; O: dense", "I: coo; F: dense; O: dense"],
        sizes={"w": "x"},
        empty=False,
    )


@pytest.mark.parametrize("layout", few(["csr", "csc", "coo"]))
def test_submanifold(check: Check, layout: str) -> None:
    """Computed only where the input stores something."""

    def expected(I: Array, F: Array) -> Array:
        return np.where(I != 0, ndimage.correlate(I, F, mode="constant") if I.size else I, 0)

    check(
        "O[i, j] = where(I[i, j] != 0, sum(p, q: coalesce(I[i + p - 1, j + q - 1], 0)*F[p, q]), 0)",
        expected,
        {"I": floats("n m"), "F": full("3 3")},
        [f"I: {layout}; F: dense; O: dense"],
    )


# --- pooling, morphology, stencils --------------------------------------------------------------------

POOLED: Mapping[str, tuple[str, Callable[[Array], Array]]] = {
    "greatest": ("max(p, q: I[2*i + p, 2*j + q] where 0 <= p < 2 and 0 <= q < 2)", lambda W: W.max((1, 3))),
    "mean": ("sum(p, q: I[2*i + p, 2*j + q] where 0 <= p < 2 and 0 <= q < 2)/4", lambda W: W.mean((1, 3))),
    "any": ("any(p, q: I[2*i + p, 2*j + q] != 0 where 0 <= p < 2 and 0 <= q < 2)", lambda W: (W != 0).any((1, 3))),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", few(["csr", "csc", "coo", "dense"]))
@pytest.mark.parametrize("name", POOLED)
def test_pooling(check: Check, layout: str, name: str) -> None:
    text, numpy = POOLED[name]
    check(
        f"O[i, j] = {text}",
        lambda I: numpy(I.reshape(I.shape[0] // 2, 2, I.shape[1] // 2, 2)),
        {"I": floats("2*n 2*m", density=0.7)},
        [f"I: {layout}; O: dense"],
        sizes={"i": "n", "j": "m"},
        empty=False,
    )


@pytest.mark.parametrize("layout", few(["csr", "coo", "dense"]))
def test_pooling_by_views(check: Check, layout: str) -> None:
    """The same by splitting rows and columns."""
    check(
        "O[i, j] = max(p, q: split(split(I[r, c], r -> (i, p)), c -> (j, q)))",
        lambda I: I.reshape(I.shape[0] // 2, 2, -1, 3).max((1, 3)),
        {"I": floats("2*n 3*m", density=0.7)},
        [f"I: {layout}; O: dense"],
        sizes={"p": "2", "q": "3"},
        empty=False,
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", few(["sv", "rle", "dense"]))
def test_stencil_with_reflecting_ends(check: Check, layout: str) -> None:
    check(
        "y[i] = coalesce(x[i - 1], x[i]) - 2*x[i] + coalesce(x[i + 1], x[i])",
        lambda x: np.pad(x, 1, mode="edge")[:-2] - 2 * x + np.pad(x, 1, mode="edge")[2:] if len(x) else x,
        {"x": floats("n")},
        [f"x: {layout}; y: dense"],
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("layout", few(["csf", "dense"], 1))
def test_stencil_in_three_dimensions(check: Check, layout: str) -> None:
    def expected(u: Array) -> Array:
        p = np.pad(u, 1)
        near = p[:-2, 1:-1, 1:-1] + p[2:, 1:-1, 1:-1] + p[1:-1, :-2, 1:-1] + p[1:-1, 2:, 1:-1]
        return near + p[1:-1, 1:-1, :-2] + p[1:-1, 1:-1, 2:] - 6 * u

    text = " + ".join(
        f"coalesce(u[i{a}, j{b}, k{c}], 0)"
        for a, b, c in (
            (" - 1", "", ""),
            (" + 1", "", ""),
            ("", " - 1", ""),
            ("", " + 1", ""),
            ("", "", " - 1"),
            ("", "", " + 1"),
        )
    )
    check(
        f"v[i, j, k] = {text} - 6*u[i, j, k]",
        expected,
        {"u": floats("n m k")},
        [f"u: {layout}; v: dense"],
    )


def test_distance_transform_step(check: Check) -> None:
    """min and + in place of + and *: windows of infinities."""
    check(
        "y[i] = min(p: coalesce(x[i + p - 1], inf) + w[p])",
        lambda x, w: np.array(
            [min(x[k] + w[k - i + 1] for k in (i - 1, i, i + 1) if 0 <= k < len(x)) for i in range(len(x))]
        ),
        {"x": positive("n", fill=np.inf), "w": positive("3", density=1)},
        ["x: sv; w: dense; y: dense", "x: dense; w: dense; y: dense"],
        sizes={"i": "n"},
        empty=False,
    )


def test_binary_dilation(check: Check) -> None:
    check(
        "q[i, j] = any(r, c: coalesce(p[i + r - 1, j + c - 1], false) and s[r, c])",
        lambda p, s: ndimage.binary_dilation(p, s[::-1, ::-1]) if p.size else p,
        {"p": bools("n m", density=0.2), "s": bools("3 3", density=0.6)},
        ["p: csr; s: dense; q: dense", "p: coo; s: csr; q: dense"],
        sizes={"i": "n", "j": "m"},
    )


# --- Toeplitz, Hankel, polynomials --------------------------------------------------------------------


def test_toeplitz_and_hankel_products(check: Check) -> None:
    def toeplitz(t: Array, x: Array) -> Array:
        n = len(x)
        return np.array([sum(t[i - j + n - 1] * x[j] for j in range(n)) for i in range(n)])

    data = {"t": floats("2*n-1"), "x": full("n")}
    layouts = ["t: sv; x: dense; y: dense", "t: dense; x: dense; y: dense"]
    text = "y[i] = sum(j: t[i - j + n - 1]*x[j])"
    check(text, toeplitz, data, layouts, sizes={"i": "n", "n": "n"}, extra="size n", empty=False)

    def hankel(t: Array, x: Array) -> Array:
        return np.array([t[i : i + len(x)] @ x for i in range(len(x))])

    check("y[i] = sum(j: t[i + j]*x[j])", hankel, data, layouts, sizes={"i": "n"}, empty=False)


def test_product_of_polynomials(check: Check) -> None:
    data = {"p": floats("n"), "q": floats("m")}
    layouts = ["p: sv; q: sv; r: dense", "p: sv_unsorted; q: dense; r: dense"]
    text = "r[k] = sum(i: p[i]*coalesce(q[k - i], 0))"
    check(text, lambda p, q: np.convolve(p, q), data, layouts, sizes={"k": "n+m-1"}, empty=False)
    check("r[k] = p[i]*q[k - i]", lambda p, q: np.convolve(p, q), data, layouts, sizes={"k": "n+m-1"}, empty=False)
