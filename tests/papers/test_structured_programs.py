"""Ahrens et al. 2024, Finch: Sparse and Structured Array Programming with Control Flow: every program of the figures.

Programs with loops are written as in the paper, but for Python's conventions: indices begin at 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.papers.support import bools, few, floats, fractions, full, ints, positive

Check = Callable[..., None]
Array = np.ndarray[Any, Any]
MATRICES = ("csr", "csc", "coo", "dcsr", "bcsr(R=2, C=3)", "vbl", "csr_rle", "dense", "ell")


# --- section 1: the even places of two vectors --------------------------------------------------------

EVEN = {
    "at once": "for i { if i % 2 == 0 { c[i] = a[i]*b[i] } }",
    "a copy": "local tensor p : sv\nfor i { if i % 2 == 0 { p[i] = a[i] } }\nfor i { c[i] = p[i]*b[i] }",
    "filtered after": "local tensor p : sv\nfor i { p[i] = a[i]*b[i] }\nfor i { if i % 2 == 0 { c[i] = p[i] } }",
    "a mask": "local tensor f : sv\nfor i { if i % 2 == 0 { f[i] = 1 } }\nfor i { c[i] = a[i]*b[i]*f[i] }",
    "a condition": "c[i] = where(i % 2 == 0, a[i]*b[i], 0)",
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", EVEN)
def test_section_1_even_places(check: Check, name: str) -> None:
    check(
        EVEN[name],
        lambda a, b: np.where(np.arange(len(a)) % 2 == 0, a * b, 0),
        {"a": floats("n", density=0.6), "b": floats("n", density=0.6)},
        ["a: sv; b: sv; c: dense", "a: sv_unsorted; b: dense; c: dense"],
    )


# --- section 5: masks, dimensions, accesses -----------------------------------------------------------

MASKS = {
    "i <= j": lambda i, j: i <= j,
    "i < j": lambda i, j: i < j,
    "i >= j": lambda i, j: i >= j,
    "j - 1 <= i and i < j + 2": lambda i, j: (j - 1 <= i) & (i < j + 2),
    "i == j": lambda i, j: i == j,
    "i != j": lambda i, j: i != j,
    "3*j <= i and i < 3*j + 3": lambda i, j: (3 * j <= i) & (i < 3 * j + 3),
    "i + j > 4 or i == 0": lambda i, j: (i + j > 4) | (i == 0),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mask", MASKS)
def test_table_4_masks(check: Check, mask: str) -> None:
    """Conditions on indices: triangles, bands, diagonals, chunks."""
    check(
        f"for i, j {{ if {mask} {{ s += A[i, j] }} }}",
        lambda A: A[np.fromfunction(MASKS[mask], A.shape)].sum() if A.size else 0.0,
        {"A": floats("n m", density=0.7)},
        ["A: csr", "A: csc", "A: coo"],
    )


def test_table_4_offset(check: Check) -> None:
    check("y[i] = x[i + 2]", lambda x: x[2:], {"x": floats("n+2")}, ["x: sv; y: dense"], sizes={"i": "n"})


def test_table_4_toeplitz(check: Check) -> None:
    check(
        "T[i, k] = x[i + k]",
        lambda x: np.array([x[i : i + 3] for i in range(len(x) - 2)]).reshape(-1, 3),
        {"x": floats("n+2")},
        ["x: sv; T: dense", "x: rle; T: dense"],
        sizes={"i": "n", "k": "3"},
    )


def test_table_4_window(check: Check) -> None:
    check("y[i] = x[i(2:5)]", lambda x: x[2:5], {"x": floats("7")}, ["x: sv; y: dense", "x: rle; y: dense"])


@pytest.mark.parametrize("layout", few(["sv", "sv_unsorted", "rle", "dense"]))
def test_table_4_permissive(check: Check, layout: str) -> None:
    def expected(x: Array) -> Array:
        padded = np.concatenate(([7.0], x, [-7.0]))
        return padded[:-2] + x + 2 * padded[2:]

    text = "y[i] = coalesce(x[i - 1], 7) + x[i] + 2*coalesce(x[i + 1], -7)"
    check(text, expected, {"x": floats("n")}, [f"x: {layout}; y: dense"])


def test_table_4_swizzle(check: Check) -> None:
    data = {"A": floats("n m k")}
    check("B[k, i, j] = A[i, j, k]", lambda A: A.transpose(2, 0, 1), data, ["A: csf; B: dense", "A: coo; B: dense"])


def test_fig_10_dimensions(check: Check) -> None:
    check(
        "for i, j, k { C[i, j] += A[i, k]*B[k, j] }",
        lambda A, B: A @ B,
        {"A": floats("n k"), "B": floats("k m")},
        ["A: csr; B: csr; C: dense", "A: csc; B: coo; C: dense"],
    )


@pytest.mark.parametrize("layout", few(MATRICES))
def test_fig_11_discordant_sum(check: Check, layout: str) -> None:
    check("for i, j { s += A[i, j] }", lambda A: A.sum(), {"A": floats("n m")}, [f"A: {layout}"])


def test_fig_11_scatter(check: Check) -> None:
    def expected(at: Array, a: Array) -> Array:
        np.add.at(a, at, 1)
        return a

    data = {"at": ints("n", 0, 5, density=1), "a": ints("6", density=1)}
    check("for i { a[at[i]] += 1 }", expected, data, ["at: dense; a: dense"], in_place=("a",))
    check("a[at[i]] += 1", expected, data, ["at: dense; a: dense"], in_place=("a",))


def test_fig_11_gather(check: Check) -> None:
    data = {"at": ints("n", 0, 5, density=0.6), "x": floats("6")}
    check("y[i] = x[at[i]]", lambda at, x: x[at], data, ["at: dense; x: dense; y: dense", "at: sv; x: sv; y: dense"])


def test_fig_12_life_cycles(check: Check) -> None:
    def expected(x: Array) -> dict[str, Array]:
        y = x + 1
        x, y = x + 1, y + 1
        return {"x": x + y, "y": y}

    loops = "for i { y[i] = x[i] + 1 }\nfor i { x[i] += 1  y[i] += 1 }\nfor i { x[i] += y[i] }"
    check(loops, expected, {"x": floats("n", density=1)}, ["x: dense; y: dense"], in_place=("x",))


# --- 6.1: products of a matrix and a vector -----------------------------------------------------------


@pytest.mark.parametrize("layout", few(MATRICES))
def test_fig_13_product_by_rows_and_columns(check: Check, layout: str) -> None:
    data = {"A": floats("n m"), "x": full("m")}
    check("for j, i { y[i] += A[i, j]*x[j] }", lambda A, x: A @ x, data, [f"A: {layout}; x: dense; y: dense"])
    data = {"A": floats("n m"), "x": full("n")}
    check("for j, i { y[j] += A[i, j]*x[i] }", lambda A, x: A.T @ x, data, [f"A: {layout}; x: dense; y: dense"])


@pytest.mark.parametrize("layout", few(["csc", "csr", "coo", "vbl", "dense"]))
def test_fig_13_symmetric_product(check: Check, layout: str) -> None:
    """Each value of the triangle is read once; D is the diagonal."""
    check(
        """
        for j {
            let t = x[j]
            let s = 0.0
            for i { let a = A[i, j]  y[i] += t*a  s += a*x[i] }
            y[j] += s + D[j]*t
        }
        """,
        lambda A, D, x: (A + A.T + np.diag(D)) @ x,
        {"A": floats("n n", makes=lambda A: np.triu(A, 1)), "D": full("n"), "x": full("n")},
        [f"A: {layout}; D: dense; x: dense; y: dense"],
    )


@pytest.mark.parametrize("layout", few(["csr", "coo", "vbl", "csr_rle"]))
def test_fig_14_truth_values(check: Check, layout: str) -> None:
    """A pattern times numbers."""
    check(
        "y[i] = sum(j: where(A[i, j], x[j], 0))",
        lambda A, x: A @ x,
        {"A": bools("n m"), "x": full("m")},
        [f"A: {layout}; x: dense; y: dense"],
    )


@pytest.mark.parametrize(
    "layouts", few(["A: csr; x: sv", "A: csc; x: sv", "A: dcsr; x: sv_unsorted", "A: bcsr(R=2, C=3); x: sv"])
)
def test_section_6_1_sparse_matrix_times_sparse_vector(check: Check, layouts: str) -> None:
    text, data = "for i, j { y[i] += A[i, j]*x[j] }", {"A": floats("n m"), "x": floats("m")}
    check(text, lambda A, x: A @ x, data, [f"{layouts}; y: dense"])


# --- 6.2: products of sparse matrices -----------------------------------------------------------------

PRODUCT = {"A": floats("n k"), "B": floats("k m")}


@pytest.mark.parametrize("layouts", few(["A: csc; B: csc", "A: csr; B: csr", "A: coo; B: dcsr"]))
def test_fig_16_inner_products(check: Check, layouts: str) -> None:
    text = "for j, i, k { C[i, j] += A[k, i]*B[k, j] }"
    check(text, lambda A, B: A.T @ B, {"A": floats("k n"), "B": floats("k m")}, [f"{layouts}; C: dense"])


GUSTAVSON = """
local tensor w : {0}
for j {{
    w[i] = 0
    for k, i {{ w[i] += A[i, k]*B[k, j] }}
    for i {{ C[i, j] = w[i] }}
}}
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("workspace", ["dense", "sv_unsorted", "sv"])
@pytest.mark.parametrize("layouts", few(["A: csc; B: csc", "A: csr; B: csr"]))
def test_fig_16_gustavson(check: Check, workspace: str, layouts: str) -> None:
    check(GUSTAVSON.format(workspace), lambda A, B: A @ B, PRODUCT, [f"{layouts}; C: dense"])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("workspace", ["dense", "coo", "csr"])
def test_fig_16_outer_products(check: Check, workspace: str) -> None:
    check(
        f"""
        local tensor w : {workspace}
        for k, j, i {{ w[i, j] += A[i, k]*B[k, j] }}
        for j, i {{ C[i, j] = w[i, j] }}
        """,
        lambda A, B: A @ B,
        PRODUCT,
        ["A: csc; B: csr; C: dense", "A: coo; B: csr; C: dense"],
    )


# --- 6.3: graphs --------------------------------------------------------------------------------------

GRAPH = {"A": bools("n n"), "F": bools("n"), "V": bools("n", density=0.3), "P": ints("n", 0, 0)}


def reached(A: Array, F: Array, V: Array) -> Array:
    return (A & F).any(1) & ~V


def test_fig_18_breadth_first_push(check: Check) -> None:
    """The neighbours of the frontier that were not visited, and the least of their parents, counted from 1."""

    def expected(A: Array, F: Array, V: Array, P: Array) -> dict[str, Array]:
        parents = np.where(A & F, np.arange(1, len(F) + 1), 99).min(1, initial=99)
        return {"G": reached(A, F, V), "P": np.where(reached(A, F, V), parents, P)}

    check(
        "for j, k { if F[j] and A[k, j] and not V[k] { G[k] or= true  P[k] least= j + 1 } }",
        expected,
        GRAPH,
        ["A: csc; F: sv; V: dense; P: dense; G: dense", "A: csr; F: dense; V: dense; P: dense; G: dense"],
        functions="function least(x, y) { if x == 0 { return y }  return min(x, y) }",
        in_place=("P",),
    )


def test_fig_18_breadth_first_push_of_any_parent(check: Check) -> None:
    """`choose`: any that is not 0. All frontier nodes that reach a node are one here, so that there is no choice."""
    check(
        "for j, k { if F[j] and A[k, j] and not V[k] { G[k] or= true  P[k] choose= 5 } }",
        lambda A, F, V, P: {"G": reached(A, F, V), "P": np.where(reached(A, F, V), 5, P)},
        GRAPH,
        ["A: csc; F: sv; V: dense; P: dense; G: dense"],
        functions="function choose(x, y) { if x != 0 { return x }  return y  property identity 0 }",
        in_place=("P",),
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layouts", few(["A: csc; F: dense", "A: csc; F: sv", "A: csr; F: dense"]))
def test_fig_18_breadth_first_pull(check: Check, layouts: str) -> None:
    """Ends at the first neighbour in the frontier."""

    def expected(A: Array, F: Array, V: Array, P: Array) -> dict[str, Array]:
        found = reached(A.T, F, V)
        first = np.array([np.flatnonzero(A[:, k] & F)[0] if found[k] else 0 for k in range(len(F))], int)
        return {"G": found, "P": np.where(found, first + 1, P)}

    check(
        """
        for k {
            if not V[k] {
                let p = 0
                for j { if F[j] and A[j, k] { p = j + 1  break } }
                if p != 0 { G[k] = true  P[k] = p }
            }
        }
        """,
        expected,
        GRAPH,
        [f"{layouts}; V: dense; P: dense; G: dense"],
        in_place=("P",),
    )


RELAX = "for j { if f[j] { for i { let n = d[j] + A[i, j]  e[i] min= n  g[i] or= n < d[i] } } }"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", few(["csc", "csr", "coo"]))
@pytest.mark.parametrize("frontier", ["dense", "sv"])
def test_fig_18_bellman_ford(check: Check, layout: str, frontier: str) -> None:
    def expected(A: Array, f: Array, d: Array, e: Array) -> dict[str, Array]:
        lengths = (A + d)[:, f]
        return {"e": np.minimum(e, lengths.min(1, initial=np.inf)), "g": (lengths < d[:, None]).any(1)}

    check(
        RELAX,
        expected,
        {
            "A": positive("n n", fill=np.inf),
            "f": bools("n"),
            "d": positive("n", fill=np.inf),
            "e": positive("n", fill=np.inf),
        },
        [f"A: {layout}; f: {frontier}; d: dense; e: dense; g: dense<bool>"],
        in_place=("e",),
    )


# --- 6.4: images --------------------------------------------------------------------------------------

IMAGES = ("dense", "csr_rle", "csr", "vbl", "csc")


def runs(array: Array) -> Array:
    """Neighbours made equal, so that there are runs."""
    result = array.copy()
    for k in range(1, array.shape[-1], 2):
        result[..., k] = result[..., k - 1]
    return result


def eroded(image: Array) -> Array:
    padded = np.pad(image, 1, constant_values=True)
    n, m = image.shape
    result = np.ones(image.shape, bool)
    for r in range(3):
        for c in range(3):
            result &= padded[r : r + n, c : c + m]
    return result


def dilated(image: Array) -> Array:
    return ~eroded(~image)


EROSION = """
local tensor t : dense<bool>
for y {
    for x { t[x] = coalesce(p[y - 1, x], true) & p[y, x] & coalesce(p[y + 1, x], true) }
    for x { q[y, x] = coalesce(t[x - 1], true) & t[x] & coalesce(t[x + 1], true) }
}
"""
EROSION_OF_WHOLE_IMAGES = """
t[y, x] = coalesce(p[y - 1, x], true) & p[y, x] & coalesce(p[y + 1, x], true)
q[y, x] = coalesce(t[y, x - 1], true) & t[y, x] & coalesce(t[y, x + 1], true)
"""
OPENING = """
local tensor t, e, d : dense<bool>
t[y, x] = coalesce(p[y - 1, x], true) & p[y, x] & coalesce(p[y + 1, x], true)
e[y, x] = coalesce(t[y, x - 1], true) & t[y, x] & coalesce(t[y, x + 1], true)
d[y, x] = coalesce(e[y - 1, x], false) | e[y, x] | coalesce(e[y + 1, x], false)
q[y, x] = coalesce(d[y, x - 1], false) | d[y, x] | coalesce(d[y, x + 1], false)
"""
IMAGE = bools("n m", density=0.85, makes=runs)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", few(IMAGES))
def test_fig_20_erosion(check: Check, layout: str) -> None:
    check(EROSION, lambda p: eroded(p), {"p": IMAGE}, [f"p: {layout}; q: dense"])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", few(["dense", "csr_rle", "csr"]))
def test_fig_20_erosion_of_whole_images(check: Check, layout: str) -> None:
    local = "local tensor t : dense<bool>"
    check(EROSION_OF_WHOLE_IMAGES, lambda p: eroded(p), {"p": IMAGE}, [f"p: {layout}; q: dense"], extra=local)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", few(["dense", "csr_rle"]))
def test_section_6_4_opening(check: Check, layout: str) -> None:
    check(OPENING, lambda p: dilated(eroded(p)), {"p": IMAGE}, [f"p: {layout}; q: dense"])


def test_fig_20_erosion_of_words(check: Check) -> None:
    """Bits of 64 pixels in each word, without what is left and right; a mask leaves out the words that are 0."""

    def expected(p: Array, m: Array, all_ones: Array, one: Array) -> Array:
        padded = np.pad(p, ((1, 1), (0, 0)), constant_values=all_ones)
        t = np.where(m, padded[:-2] & p & padded[2:], 0).astype(p.dtype)
        return np.where(m, (t << one) & t & (t >> one), 0).astype(p.dtype)

    check(
        """
        local tensor t : dense<int64>
        for y {
            for x { t[x] = 0 }
            for x { if m[y, x] { t[x] = coalesce(p[y - 1, x], all_ones) & p[y, x] & coalesce(p[y + 1, x], all_ones) } }
            for x { if m[y, x] { let c = t[x]  q[y, x] = (c << one) & c & (c >> one) } }
        }
        """,
        expected,
        {
            "p": ints("n m", 0, 2**40),
            "m": bools("n m", density=0.7),
            "all_ones": ints("", -1, -1),
            "one": ints("", 1, 1),
        },
        ["p: dense; m: csr_rle; q: dense", "p: csr; m: csr; q: dense"],
    )


def test_fig_20_histogram(check: Check) -> None:
    def expected(p: Array, h: Array) -> Array:
        np.add.at(h, p // 16, 1)
        return h

    data = {"p": ints("n m", 0, 255), "h": ints("16", density=0)}
    for quotient in ("p[y, x]/16", "p[y, x]//16"):
        layouts = ["p: dense; h: dense", "p: csr; h: dense", "p: csr_rle; h: dense"]
        check(f"h[{quotient}] += 1", expected, data, layouts, in_place=("h",))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mask", ["dense", "csr_rle", "csr", "csc"])
def test_fig_20_masked_histogram(check: Check, mask: str) -> None:
    def expected(m: Array, p: Array, h: Array) -> Array:
        np.add.at(h, p[m] // 16, 1)
        return h

    check(
        "for x, y { if m[y, x] { h[p[y, x]//16] += 1 } }",
        expected,
        {"m": bools("n m", makes=runs), "p": ints("n m", 0, 255, density=1), "h": ints("16", density=0)},
        [f"m: {mask}; p: dense; h: dense"],
        in_place=("h",),
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", few(IMAGES))
def test_section_6_4_blur(check: Check, layout: str) -> None:
    """The mean of the neighbours that there are, 0 for the others."""

    def expected(p: Array) -> Array:
        padded = np.pad(p, 1)
        n, m = p.shape
        return sum(padded[r : r + n, c : c + m] for r in range(3) for c in range(3)) / 9

    terms = " + ".join(f"coalesce(p[y + {r}, x + {c}], 0)" for r in (-1, 0, 1) for c in (-1, 0, 1))
    text = f"q[y, x] = ({terms})/9".replace("+ -", "- ").replace("[y + 0", "[y").replace(", x + 0", ", x")
    check(text, expected, {"p": floats("n m", makes=runs)}, [f"p: {layout}; q: dense"], exact=False)


@pytest.mark.parametrize(
    "layouts", few(["B: csr_rle; C: csr_rle", "B: csr_rle; C: dense", "B: csr; C: csr_rle", "B: vbl; C: csc"])
)
def test_alpha_blending(check: Check, layouts: str) -> None:
    """Of two images with runs; the result rounded, as in images of bytes."""
    check(
        "A[i, j] = rint(alpha*B[i, j] + beta*C[i, j])",
        lambda B, C, alpha, beta: np.rint(alpha * B + beta * C),
        {
            "B": floats("n m", makes=runs),
            "C": floats("n m", makes=runs),
            "alpha": fractions(""),
            "beta": fractions(""),
        },
        [f"{layouts}; A: dense"],
    )


@pytest.mark.parametrize("layout", few(["csr_rle", "csr", "vbl", "dense"]))
def test_all_pairs_similarity_of_images(check: Check, layout: str) -> None:
    """One image in each row."""

    def expected(A: Array) -> Array:
        return ((A[:, None] - A[None]) ** 2).sum(2)

    text = "local tensor r : dense\nr[k] = sum(p: A[k, p]**2)\nO[k, l] = r[k] + r[l] - 2*sum(p: A[k, p]*A[l, p])"
    check(text, expected, {"A": floats("n m", makes=runs)}, [f"A: {layout}; O: dense"])


# --- 6.5: the array API, fused ------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", few(["csr", "csc", "coo", "dense"]))
def test_fig_23_functions(check: Check, layout: str) -> None:
    data = {"A": floats("n m"), "B": floats("m k"), "C": floats("n m"), "b": bools("n m")}

    def of(*names: str) -> dict[str, Any]:
        return {n: data[n] for n in names}

    check("y[i] = sum(j: A[i, j])", lambda A: A.sum(1), of("A"), [f"A: {layout}; y: dense"])
    check("s = sqrt(sum(i, j: A[i, j]**2))", lambda A: np.sqrt((A**2).sum()), of("A"), [f"A: {layout}"])
    check(
        "W[i, j] = where(b[i, j], A[i, j], C[i, j])",
        lambda b, A, C: np.where(b, A, C),
        of("b", "A", "C"),
        [f"b: {layout}; A: {layout}; C: csr; W: dense"],
    )
    check("M[i, k] = sum(j: A[i, j]*B[j, k])", lambda A, B: A @ B, of("A", "B"), [f"A: {layout}; B: csr; M: dense"])


def test_fig_23_argmin_of_a_vector(check: Check) -> None:
    data = {"x": ints("n", -3, 3, density=0.8)}
    check("s = argmin(i: x[i])", lambda x: x.argmin(), data, ["x: sv", "x: sv_unsorted", "x: dense"], empty=False)


def test_fig_24_triangle_counting(check: Check) -> None:
    def expected(A: Array) -> Array:
        return np.array((A @ A * A).sum())

    data = {"A": positive("n n", makes=lambda A: np.tril(A != 0, -1).astype(float))}
    check("t = A[i, j]*A[j, k]*A[i, k]", expected, data, ["A: csr", "A: coo", "A: dcsr"])
    check("for i, j, k { t += A[i, j]*A[j, k]*A[i, k] }", expected, data, ["A: csr", "A: csc"])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", few(["csr", "csc", "coo", "bcsr(R=2, C=3)"]))
def test_fig_24_sddmm(check: Check, layout: str) -> None:
    data = {"S": floats("n m"), "A": full("n k"), "B": full("k m")}
    layouts = [f"S: {layout}; A: dense; B: dense; C: dense"]
    check("C[i, j] = S[i, j]*sum(k: A[i, k]*B[k, j])", lambda S, A, B: S * (A @ B), data, layouts)
    text = "for i, j { if S[i, j] != 0 { let t = sum(k: A[i, k]*B[k, j])  C[i, j] = S[i, j]*t } }"
    check(text, lambda S, A, B: S * (A @ B), data, layouts)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("text", "numpy"),
    [
        ("s = sum(i, j: A[i, j]*B[i, j]*C[i, j])", lambda A, B, C: (A * B * C).sum()),
        ("s = sum(i, j: (A[i, j] + B[i, j])*C[i, j])", lambda A, B, C: ((A + B) * C).sum()),
        ("s = sum(i, j: max(A[i, j], B[i, j])*(C[i, j] > 0))", lambda A, B, C: (np.maximum(A, B) * (C > 0)).sum()),
    ],
)
def test_fig_24_fused_chains(check: Check, text: str, numpy: Callable[..., Any]) -> None:
    data = {n: floats("n m") for n in "ABC"}
    check(text, numpy, data, ["A: csr; B: csr; C: csr", "A: csr; B: csc; C: coo", "A: csr_rle; B: vbl; C: dense"])


# --- statements ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", few(["csr", "csc", "coo_unsorted"]))
def test_condition_on_a_sum(check: Check, layout: str) -> None:
    check(
        "for i { let s = sum(j: A[i, j]*x[j])  if s != 0 { for k { C[i, k] = s*B[i, k] } } }",
        lambda A, x, B: (A @ x)[:, None] * B,
        {"A": floats("n m"), "x": floats("m"), "B": full("n k")},
        [f"A: {layout}; x: sv; B: dense; C: dense"],
    )


@pytest.mark.parametrize("layout", few(["csr", "csc", "coo_unsorted", "dense", "ell"]))
def test_first_of_each_row(check: Check, layout: str) -> None:
    """Ends early; in the order of the columns, however they are stored."""

    def expected(A: Array) -> Array:
        return np.array([next((j for j, v in enumerate(row) if v > 0.8), -1) for row in A], np.int64)

    text = "for i { let first = -1  for j { if A[i, j] > 0.8 { first = j  break } }  f[i] = first }"
    check(text, expected, {"A": fractions("n m", density=0.9)}, [f"A: {layout}; f: dense<int64>"])


def test_several_results_of_one_nest(check: Check) -> None:
    def expected(A: Array) -> dict[str, Array]:
        return {
            "low": A.min(1, initial=0),
            "high": A.max(1, initial=0),
            "total": A.sum(1),
            "count": (A > 0).sum(1),
            "column": np.abs(A).sum(0),
        }

    check(
        """
        for i {
            let l = 0.0  let h = 0.0
            for j {
                let a = A[i, j]
                l min= a  h max= a
                total[i] += a
                if a > 0 { count[i] += 1 }
                column[j] += abs(a)
            }
            low[i] = l  high[i] = h
        }
        """,
        expected,
        {"A": floats("n m")},
        [
            f"A: {layout}; low: dense; high: dense; total: dense; count: dense<int64>; column: dense"
            for layout in ("csr", "csc", "coo", "dense")
        ],
    )


def test_else(check: Check) -> None:
    check(
        "for i, j { if A[i, j] > B[i, j] { C[i, j] = A[i, j] } else { C[i, j] = -B[i, j] } }",
        lambda A, B: np.where(A > B, A, -B),
        {"A": floats("n m"), "B": floats("n m")},
        ["A: csr; B: csr; C: dense", "A: csc; B: coo; C: dense"],
    )


def test_while(check: Check) -> None:
    """How often each number can be halved."""

    def expected(a: Array) -> Array:
        return np.array([(int(v) & -int(v)).bit_length() - 1 if v else 0 for v in a], np.int64)

    check(
        "for i { let v = a[i]  let n = 0  if v != 0 { while v % 2 == 0 { v = v//2  n += 1 } }  c[i] = n }",
        expected,
        {"a": ints("n", 0, 64)},
        ["a: sv; c: dense<int64>", "a: dense; c: dense<int64>", "a: sv_unsorted; c: dense<int64>"],
    )


def test_running_total(check: Check) -> None:
    """Iterations that need one another keep their order."""
    text = "for i { let before = coalesce(y[i - 1], 0)  y[i] = before + x[i] }"
    layouts = ["x: sv; y: dense", "x: dense; y: dense"]
    check(text, lambda x: np.cumsum(x), {"x": floats("n")}, layouts, only_dense=True)
