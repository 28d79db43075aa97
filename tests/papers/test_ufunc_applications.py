"""Henry et al. 2021, Compilation of Sparse Array Programming Models: the evaluation (section 8)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import spfgen
from tests.papers.support import Data, bools, few, floats, fractions, ints, positive, to_numpy

Check = Callable[..., None]
Array = np.ndarray[Any, Any]

# --- 8.2.1: functions of numpy ------------------------------------------------------------------------

UFUNCS = {
    "logical_xor": (bools, bools, np.logical_xor),
    "ldexp": (lambda s: floats(s), lambda s: ints(s, -3, 5), np.ldexp),
    "right_shift": (lambda s: ints(s, -99, 99), lambda s: ints(s, 0, 5), np.right_shift),
    "power": (positive, positive, np.power),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", UFUNCS)
@pytest.mark.parametrize("shape", ["n m", "n m k"], ids=["matrices", "cubes"])
def test_fig_20_ufuncs(check: Check, name: str, shape: str) -> None:
    first, second, numpy = UFUNCS[name]
    index = ", ".join("ijk"[: len(shape.split())])
    layouts = ["A: csf; B: csf; C: dense", "A: coo; B: coo; C: dense"]
    layouts += ["A: csr; B: csc; C: dense"] if shape == "n m" else ["A: coo_unsorted; B: csf; C: dense"]
    data = {"A": first(shape), "B": second(shape)}
    check(f"C[{index}] = {name}(A[{index}], B[{index}])", lambda A, B: numpy(A, B), data, layouts)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("order", [4, 5])
@pytest.mark.parametrize("name", ["logical_xor", "power"])
def test_table_2_tensors_of_higher_order(check: Check, name: str, order: int) -> None:
    """The second operand is the first, shifted by one along the last mode."""
    first, second, numpy = UFUNCS[name]
    index, shape = ", ".join("ijklm"[:order]), " ".join(["2", "n", "3", "m", "2"][:order])
    layouts = ["A: csf; B: csf; C: dense"] if order == 4 else ["A: coo; B: coo; C: dense"]
    text = f"C[{index}] = {name}(A[{index}], B[{index}])"
    check(text, lambda A, B: numpy(A, B), {"A": first(shape), "B": second(shape)}, layouts)


ALL_OF_NUMPY = {
    "arithmetic": (
        "add subtract multiply divide power mod floor_divide fmod remainder",
        lambda: (floats("n"), positive("n", fill=1.0)),
    ),
    "of two": (
        "maximum minimum fmax fmin hypot arctan2 copysign logaddexp nextafter",
        lambda: (floats("n"), floats("n")),
    ),
    "comparison": (
        "equal not_equal less less_equal greater greater_equal",
        lambda: (ints("n", -2, 2), ints("n", -2, 2)),
    ),
    "logic": ("logical_and logical_or logical_xor", lambda: (bools("n"), bools("n"))),
    "bits": ("bitwise_and bitwise_or bitwise_xor gcd lcm", lambda: (ints("n"), ints("n"))),
    "shifts": ("left_shift right_shift", lambda: (ints("n", -50, 50), ints("n", 0, 7))),
    "whole numbers": (
        "add subtract multiply maximum minimum floor_divide mod",
        lambda: (ints("n"), ints("n", 1, 9, fill=1)),
    ),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ALL_OF_NUMPY)
def test_functions_of_two_arguments(check: Check, kind: str) -> None:
    names, data = ALL_OF_NUMPY[kind]
    text = "\n".join(f"c{n}[i] = {name}(a[i], b[i])" for n, name in enumerate(names.split()))
    outputs = "; ".join(f"c{n}: dense" for n in range(len(names.split())))
    first, second = data()

    def expected(a: Array, b: Array) -> dict[str, Array]:
        return {f"c{n}": getattr(np, name)(a, b) for n, name in enumerate(names.split())}

    check(text, expected, {"a": first, "b": second}, [f"a: sv; b: sv_unsorted; {outputs}"], exact=False)


OF_ONE = {
    "whole": ("negative abs sign square rint floor ceil trunc", lambda: floats("n")),
    "fractions": (
        "rint floor ceil trunc sqrt exp exp2 expm1 log1p sin cos tan arcsin arctan sinh cosh tanh cbrt",
        lambda: fractions("n"),
    ),
    "logarithms": ("log log2 log10 reciprocal", lambda: Data("n", lambda rng, s: rng.random(s) + 0.5, 1.0)),
    "tests": ("isnan isinf isfinite signbit", lambda: Data("n", lambda rng, s: rng.choice([np.nan, np.inf, -1.0], s))),
    "integers": ("invert negative abs sign", lambda: ints("n")),
    "truth": ("logical_not", lambda: bools("n")),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", OF_ONE)
def test_functions_of_one_argument(check: Check, kind: str) -> None:
    names, data = OF_ONE[kind]
    text = "\n".join(f"c{n}[i] = {name}(a[i])" for n, name in enumerate(names.split()))
    outputs = "; ".join(f"c{n}: dense" for n in range(len(names.split())))

    def expected(a: Array) -> dict[str, Array]:
        found = {f"c{n}": getattr(np, name)(a) for n, name in enumerate(names.split())}
        return found if len(found) > 1 else next(iter(found.values()))

    check(text, expected, {"a": data()}, [f"a: sv; {outputs}"], exact=False)


def test_functions_of_three_arguments(check: Check) -> None:
    data = {"a": floats("n"), "b": floats("n"), "c": floats("n")}
    layouts = ["a: sv; b: sv; c: sv_unsorted; r: dense", "a: dense; b: sv; c: rle; r: dense"]
    check("r[i] = where(a[i], b[i], c[i])", lambda a, b, c: np.where(a, b, c), data, layouts)
    check(
        "r[i] = where(a[i] > b[i], b[i], 2)",
        lambda a, b: np.where(a > b, b, 2),
        {"a": data["a"], "b": data["b"]},
        [one.replace("c: sv_unsorted; ", "").replace("c: rle; ", "") for one in layouts],
    )
    check("r[i] = clip(a[i], -1, 2)", lambda a: np.clip(a, -1, 2), {"a": data["a"]}, ["a: sv; r: dense"])


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("text", "numpy", "kind"),
    [
        ("(a[i] & b[i]) | (a[i] ^ 5)", lambda a, b: (a & b) | (a ^ 5), ints),
        ("~a[i] & b[i]", lambda a, b: ~a & b, ints),
        ("(a[i] << 2) + (b[i] >> 1)", lambda a, b: (a << 2) + (b >> 1), ints),
        ("a[i] % 3 + b[i]//2", lambda a, b: a % 3 + b // 2, ints),
        ("a[i]**2 - b[i]**3", lambda a, b: a**2 - b**3, floats),
        ("(a[i] == b[i]) + (a[i] != 0)", lambda a, b: (a == b) | (a != 0), floats),
        ("(a[i] <= b[i]) and (a[i] >= -1) or not (b[i] < 2)", lambda a, b: (a <= b) & (a >= -1) | ~(b < 2), floats),
        ("i*a[i] + (i > 2)", lambda a, b: np.arange(len(a)) * a + (np.arange(len(a)) > 2), floats),
        ("-a[i] + +b[i]", lambda a, b: -a + b, floats),
    ],
)
def test_operators(check: Check, text: str, numpy: Callable[..., Array], kind: Callable[..., Data]) -> None:
    """Signs and words in place of names; an index is a value."""
    names = [n for n in "ab" if f"{n}[" in text]
    expected = numpy if len(names) == 2 else lambda a: numpy(a, a)
    layouts = "; ".join([*(f"{n}: sv" for n in names), "r: dense"])
    check(f"r[i] = {text}", expected, {n: kind("n") for n in names}, [layouts, layouts.replace("a: sv", "a: dense")])


# --- 8.2.2: fused functions ---------------------------------------------------------------------------

WORDS = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("outer", "inner"), list(permutations(WORDS, 2)))
def test_fig_24_fused_functions(check: Check, outer: str, inner: str) -> None:
    check(
        f"D[i, j, k] = logical_{outer}(logical_{inner}(A[i, j, k], B[i, j, k]), C[i, j, k])",
        lambda A, B, C: WORDS[outer](WORDS[inner](A, B), C),
        {n: bools("n m k") for n in "ABC"},
        ["A: csf; B: csf; C: csf; D: dense", "A: coo; B: csf; C: coo_unsorted; D: dense"],
    )


def test_fig_23_and_of_xor_of_matrices(check: Check) -> None:
    check(
        "D[i, j] = logical_and(logical_xor(A[i, j], B[i, j]), C[i, j])",
        lambda A, B, C: (A ^ B) & C,
        {n: bools("n m", density=0.3) for n in "ABC"},
        ["A: csr; B: csr; C: csr; D: dense", "A: csc; B: dcsr; C: bcsr(R=2, C=3); D: dense"],
    )


# --- 8.2.4: slices ------------------------------------------------------------------------------------

SLICES = {
    "constant": ("A[i(1:5), j(2:6)] + B[i(0:4), j(3:7)]", lambda A, B: A[1:5, 2:6] + B[:4, 3:7]),
    "fraction": ("A[i(2:4), j] + B[i(4:6), j]", lambda A, B: A[2:4] + B[4:6]),
    "all but the ends": ("A[i(1:7), j] + B[i(1:7), j]", lambda A, B: A[1:7] + B[1:7]),
    "stride 2": ("A[i(0:8:2), j] + B[i(0:8:2), j]", lambda A, B: A[::2] + B[::2]),
    "stride 4": ("A[i(0:8:4), j(0:8:4)] + B[i(0:8:4), j(0:8:4)]", lambda A, B: A[::4, ::4] + B[::4, ::4]),
    "stride 8": ("A[i(0:8:8), j] + B[i(0:8:8), j]", lambda A, B: A[::8] + B[::8]),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", SLICES)
def test_fig_27_and_28_sums_of_slices(check: Check, name: str) -> None:
    text, numpy = SLICES[name]
    layouts = ["A: csr; B: csr; C: dense", "A: csc; B: coo_unsorted; C: dense"]
    check(f"C[i, j] = {text}", numpy, {"A": floats("8 8"), "B": floats("8 8")}, layouts)


# --- 8.3: GraphBLAS -----------------------------------------------------------------------------------

SEMIRING = [
    "A: csr; x: {x}; m: dense; y: dense",
    "A: csc; x: {x}; m: dense; y: dense",
    "A: csr; x: dense; m: {m}; y: dense",
]


def semiring(x: str, m: str = "sv") -> list[str]:
    return [one.format(x=x, m=m) for one in SEMIRING]


def test_table_3_boolean_semiring(check: Check) -> None:
    check(
        "y[i] = not m[i] and any(j: A[i, j] and x[j])",
        lambda A, x, m: ~m & (A & x).any(1),
        {"A": bools("n k"), "x": bools("k", density=0.25), "m": bools("n", density=0.75)},
        semiring("sv"),
    )


def test_table_3_tropical_semiring(check: Check) -> None:
    check(
        "y[i] = where(m[i], 0, min(j: A[i, j] + x[j]))",
        lambda A, x, m: np.where(m, 0, (A + x).min(1, initial=np.inf)),
        {"A": positive("n k", fill=np.inf), "x": positive("k", fill=np.inf), "m": bools("n", density=0.75)},
        semiring("sv", "sv_unsorted"),
        empty=False,
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "layouts", few(["B: csr; C: csr; A: dense", "B: csc; C: csr; A: dense", "B: csr; C: csc; A: dense"])
)
def test_table_4_matrix_products_in_semirings(check: Check, layouts: str) -> None:
    data = {"B": bools("n k"), "C": bools("k m")}
    check("A[i, j] = any(k: B[i, k] and C[k, j])", lambda B, C: (B[:, :, None] & C).any(1), data, [layouts])
    data = {"B": positive("n k", fill=np.inf), "C": positive("k m", fill=np.inf)}
    check(
        "A[i, j] = min(k: B[i, k] + C[k, j])",
        lambda B, C: (B[:, :, None] + C).min(1, initial=np.inf),
        data,
        [layouts],
        empty=False,
    )


def graph(n: int, seed: int) -> Array:
    rng = np.random.default_rng([n, seed])
    return np.where(rng.random((n, n)) < 2.0 / max(n, 1), rng.integers(1, 9, (n, n)), 0).astype(float)


def levels_of(weights: Array, source: int) -> Array:
    """Breadth first, by a queue; -1 where nothing leads."""
    found = np.full(len(weights), -1)
    found[source] = 0
    todo = deque([source])
    while todo:
        at = todo.popleft()
        for to in np.flatnonzero(weights[:, at]):
            if found[to] < 0:
                found[to] = found[at] + 1
                todo.append(int(to))
    return found


def distances(weights: Array, source: int) -> Array:
    """Dijkstra's algorithm."""
    found = np.full(len(weights), np.inf)
    todo = [(0.0, source)]
    while todo:
        length, at = heappop(todo)
        if length < found[at]:
            found[at] = length
            for to in np.flatnonzero(weights[:, at]):
                heappush(todo, (length + weights[to, at], int(to)))
    return found


@pytest.mark.parametrize("layout", few(["csr", "csc", "coo"]))
def test_section_8_3_breadth_first_search(layout: str) -> None:
    """The next frontier, without what was visited: a masked product."""
    text = "g[i] = not v[i] and any(j: A[i, j] and f[j])"
    step = spfgen.compile(text, optimize=1, A=layout, f="sv", v="dense", g="dense")
    for n, seed in ((1, 0), (12, 1), (30, 2)):
        weights = graph(n, seed)
        matrix = spfgen.pack(weights != 0, layout)
        visited, frontier = np.zeros(n, bool), np.zeros(n, bool)
        levels, level = np.full(n, -1), 0
        frontier[0] = True
        while frontier.any():
            levels[frontier] = level
            visited |= frontier
            frontier = to_numpy(step(A=matrix, f=spfgen.pack(frontier, "sv"), v=visited))
            level += 1
        np.testing.assert_array_equal(levels, levels_of(weights, 0))


@pytest.mark.parametrize("layout", few(["csr", "csc", "coo"]))
def test_section_8_3_shortest_paths(layout: str) -> None:
    text = "e[i] = min(d[i], min(j: A[i, j] + d[j]))"
    step = spfgen.compile(text, optimize=1, A=f"{layout} fill inf", d="dense", e="dense")
    for n, seed in ((1, 0), (12, 1), (30, 2)):
        weights = graph(n, seed)
        matrix = spfgen.pack(np.where(weights == 0, np.inf, weights), f"{layout} fill inf")
        length = np.full(n, np.inf)
        length[0] = 0
        for _ in range(n):
            length = to_numpy(step(A=matrix, d=length))
        np.testing.assert_array_equal(length, distances(weights, 0))


@pytest.mark.parametrize("layout", few(["csr", "csc"]))
def test_section_8_3_page_rank(layout: str) -> None:
    step = spfgen.compile(
        "s[i] = 0.15/n + 0.85*sum(j: where(d[j] > 0, A[i, j]*r[j]/d[j], 0))",
        optimize=1,
        A=layout,
        r="dense",
        d="dense",
        s="dense",
    )
    weights = (graph(20, 4) != 0).astype(float)
    degree = weights.sum(0)
    matrix = spfgen.pack(weights, layout)
    rank = ours = np.full(20, 1 / 20)
    for _ in range(5):
        with np.errstate(all="ignore"):
            rank = 0.15 / 20 + 0.85 * (np.where(degree > 0, weights * rank / degree, 0)).sum(1)
        ours = to_numpy(step(A=matrix, r=ours, d=degree, n=20.0))
    np.testing.assert_allclose(ours, rank, rtol=1e-12)


def test_section_8_3_triangles(check: Check) -> None:
    def symmetric(A: Array) -> Array:
        return (A | A.T) & ~np.eye(len(A), dtype=bool)

    check(
        "t = sum(i: sum(j < i: sum(k < j: where(A[i, j] and A[j, k] and A[i, k], 1, 0))))",
        lambda A: np.trace(np.linalg.matrix_power(A.astype(int), 3)) // 6,
        {"A": bools("n n", makes=symmetric)},
        ["A: csr", "A: coo"],
    )


# --- 8.4: applications --------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layouts", few(["p: csr; q: csr; r: csr; e: dense", "p: csc; q: coo; r: dense; e: dense"]))
def test_fig_29_mri_edges(check: Check, layouts: str) -> None:
    """Two thresholds of an image, each within the region of interest; their difference is the edge."""
    check(
        "e[i, j] = logical_xor(logical_and(p[i, j], r[i, j]), logical_and(q[i, j], r[i, j]))",
        lambda p, q, r: (p & r) ^ (q & r),
        {"p": bools("n m"), "q": bools("n m"), "r": bools("n m")},
        [layouts],
    )


def test_fig_29_mri_edges_from_the_image(check: Check) -> None:
    """Fused with the thresholds."""
    check(
        "e[i, j] = ((p[i, j] > 0.8) and r[i, j]) ^ ((p[i, j] > 0.75) and r[i, j])",
        lambda p, r: ((p > 0.8) & r) ^ ((p > 0.75) & r),
        {"p": fractions("n m", density=0.9), "r": bools("n m")},
        ["p: csr; r: csr; e: dense", "p: dense; r: coo; e: dense", "p: bcsr(R=2, C=3); r: csc; e: dense"],
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("order", [3, 5, 7])
@pytest.mark.parametrize("fill", [0.0, -np.inf, 2.0])
def test_fig_30_minimax(check: Check, order: int, fill: float) -> None:
    """The players choose in turn: the greatest of the least of the greatest ..."""
    indices = "ijklmno"[:order]
    text = f"A[{', '.join(indices)}]"
    for depth, index in reversed(list(enumerate(indices))):
        text = f"{'min' if depth % 2 else 'max'}({index}: {text})"

    def expected(A: Array) -> Array:
        for depth in reversed(range(order)):
            A = A.min(depth) if depth % 2 else A.max(depth)
        return A

    shape = " ".join(["n", "m", "3", "2", "2", "2", "2"][:order])
    layouts = ["A: csf", "A: coo"] if order == 3 else ["A: csf"]
    check(f"opt = {text}", expected, {"A": floats(shape, fill=fill, density=0.6)}, layouts, empty=False)


def test_argmin_and_argmax(check: Check) -> None:
    """numpy's choice among equals: the first."""
    data = {"A": ints("n m", -2, 2, density=0.7)}
    layouts = ["A: csr; y: dense; z: dense", "A: csc; y: dense; z: dense", "A: coo_unsorted; y: dense; z: dense"]
    text = "y[i] = argmin(j: A[i, j])\nz[i] = argmax(j: A[i, j])"
    check(text, lambda A: {"y": A.argmin(1), "z": A.argmax(1)}, data, layouts, empty=False)


def test_updates_by_functions(check: Check) -> None:
    check(
        "D[i] min= x[j] + A[i, j]",
        lambda A, x, D: np.minimum(D, (A + x).min(1, initial=np.inf)),
        {"A": positive("n m", fill=np.inf), "x": positive("m", fill=np.inf), "D": positive("n", density=1)},
        ["A: csr; x: dense; D: dense", "A: csc; x: sv; D: dense"],
        in_place=("D",),
    )
    check(
        "y[i] *= x[i]",
        lambda x, y: y * x,
        {"x": floats("n"), "y": floats("n", density=1)},
        ["x: sv; y: dense", "x: dense; y: dense"],
        in_place=("y",),
    )
    check(
        "g[i] or= m[i] and h[i]",
        lambda m, h, g: g | m & h,
        {"m": bools("n"), "h": bools("n"), "g": bools("n")},
        ["m: sv; h: sv; g: dense"],
        in_place=("g",),
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", few(["sv", "coo"]))
def test_a_sum_of_eight(check: Check, layout: str) -> None:
    """Eight sparse vectors: no table of 256 regions."""
    names = "abcdefgh"
    text = " + ".join(f"{n}[i]" for n in names)
    layouts = "; ".join(f"{n}: {layout}" for n in names)
    data = {n: floats("n", density=0.2) for n in names}
    check(f"r[i] = {text}", lambda **given: sum(given.values()), data, [f"{layouts}; r: dense"])
