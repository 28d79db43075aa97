"""Henry et al. 2021, Compilation of Sparse Array Programming Models: the programming model (sections 2 to 7).

Every expression of the text and the figures, in the fill values that it has there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.papers.support import Data, bools, few, floats, full, ints, positive

Check = Callable[..., None]
GCD = """
function gcd_of(x, y) {
    case x, 0 : abs(x)
    case 0, y : abs(y)
    let a = abs(x)
    let b = abs(y)
    while a != 0 { let t = a  a = b % a  b = t }
    return b
    space x or y
}
"""
BOTH = """
function both(x, y) {
    return x & y
    property commutative
    property annihilator 0
}
"""
VECTORS = "b: {0}; c: {1}; a: dense"


def vectors(*pairs: str) -> list[str]:
    return [VECTORS.format(*p.split()) for p in pairs]


def test_section_2_addition_and_multiplication(check: Check) -> None:
    data = {"B": floats("n m"), "C": floats("n m")}
    layouts = ["B: csr; C: csr; A: dense", "B: coo; C: csc; A: dense", "B: bcsr(R=2, C=3); C: dcsr; A: dense"]
    check("A[i, j] = B[i, j] + C[i, j]", lambda B, C: B + C, data, layouts)
    check("A[i, j] = B[i, j]*C[i, j]", lambda B, C: B * C, data, layouts)


def test_fig_2_masked_power(check: Check) -> None:
    """Where D is True the result is 0; where all three are absent it is 0**0 = 1."""
    check(
        "A[i, j] = power(B[i, j], C[i, j])*(not D[i, j])",
        lambda B, C, D: np.power(B, C) * ~D,
        {"B": positive("n m"), "C": positive("n m"), "D": bools("n m")},
        ["B: csr; C: csr; D: csr; A: dense", "B: csc; C: coo; D: dcsr; A: dense", "B: ell; C: dense; D: csr; A: dense"],
    )


def test_fig_2_masked_power_of_ones(check: Check) -> None:
    """What is not stored of B is 1: nothing but B and D decide."""
    check(
        "A[i, j] = power(B[i, j], C[i, j])*(not D[i, j])",
        lambda B, C, D: np.power(B, C) * ~D,
        {"B": positive("n m", fill=1.0), "C": positive("n m"), "D": bools("n m")},
        ["B: csr; C: csr; D: csr; A: dense", "B: coo; C: csc; D: csc; A: dense"],
    )


def test_fig_5_gcd(check: Check) -> None:
    check(
        "a[i] = gcd_of(b[i], c[i])",
        lambda b, c: np.gcd(b, c),
        {"b": ints("n"), "c": ints("n")},
        vectors("sv sv", "sv_unsorted sv", "dense sv", "sv_decreasing coo_unsorted"),
        functions=GCD,
    )


def test_fig_6_gcd_of_numpy(check: Check) -> None:
    layouts = vectors("sv sv", "coo sv_unsorted", "rle sv")
    check("a[i] = gcd(b[i], c[i])", lambda b, c: np.gcd(b, c), {"b": ints("n"), "c": ints("n")}, layouts)


@pytest.mark.parametrize("layout", few(["coo", "csr", "csc", "dcsr", "bcsr(R=2, C=2)", "ell"]))
def test_fig_7_fill_value_of_1(check: Check, layout: str) -> None:
    """What is not stored is 1, in each format."""
    check("A[i, j] = B[i, j]", lambda B: B, {"B": floats("n m", fill=1.0)}, [f"B: {layout}; A: dense"])


def test_fig_8_a_sum_of_slices(check: Check) -> None:
    check(
        "A[i, j] = B[i(0:2), j(0:2)] + C[i(1:3), j(2:4)]",
        lambda B, C: B[0:2, 0:2] + C[1:3, 2:4],
        {"B": floats("4 4"), "C": floats("5 6")},
        ["B: csr; C: csr; A: dense", "B: csc; C: coo; A: dense", "B: dense; C: bcsr(R=2, C=3); A: dense"],
    )


def test_fig_8_b_sum_of_strided_slices(check: Check) -> None:
    check(
        "a[i] = b[i(0:8:2)] + c[i(0:8:2)]",
        lambda b, c: b[0:8:2] + c[0:8:2],
        {"b": floats("8"), "c": floats("9")},
        vectors("sv sv", "sv_unsorted rle", "dense coo"),
    )


def test_section_4_2_addition_of_cubes(check: Check) -> None:
    data = {"B": floats("n m k"), "C": floats("n m k")}
    layouts = ["B: csf; C: csf; A: dense", "B: coo; C: csf; A: dense", "B: coo_unsorted; C: dense_col; A: dense"]
    check("A[i, j, k] = B[i, j, k] + C[i, j, k]", lambda B, C: B + C, data, layouts)


@pytest.mark.parametrize("layout", few(["csr", "csc", "coo", "bcsr(R=2, C=3)"]))
def test_section_4_2_sum_of_rows(check: Check, layout: str) -> None:
    check("y[i] = sum(j: A[i, j])", lambda A: A.sum(1), {"A": floats("n m")}, [f"A: {layout}; y: dense"])


def test_section_4_2_xor_of_three(check: Check) -> None:
    """One function of three arguments."""
    check(
        "A[i, j, k] = xor3(B[i, j, k], C[i, j, k], D[i, j, k])",
        lambda B, C, D: B ^ C ^ D,
        {n: bools("n m k") for n in "BCD"},
        ["B: csf; C: csf; D: csf; A: dense", "B: coo; C: csf; D: dense; A: dense"],
        functions="function xor3(x, y, z) { return logical_xor(logical_xor(x, y), z) }",
    )


@pytest.mark.parametrize("layout", few(["csr", "csc", "coo", "ell", "dcsr", "dense"]))
def test_section_4_2_least_of_rows(check: Check, layout: str) -> None:
    """What is not stored counts: it is 0."""
    check(
        "y[i] = min(j: A[i, j])",
        lambda A: A.min(1),
        {"A": floats("n m", density=0.8)},
        [f"A: {layout}; y: dense"],
        empty=False,
    )


def test_section_4_2_least_of_rows_of_a_road_network(check: Check) -> None:
    """Points that no road connects are infinitely far."""
    check(
        "y[i] = min(j: A[i, j])",
        lambda A: A.min(1, initial=np.inf),
        {"A": positive("n m", fill=np.inf)},
        ["A: csr; y: dense fill inf", "A: csc; y: dense fill inf", "A: coo; y: dense fill inf"],
    )


def test_fig_9_bitwise_and(check: Check) -> None:
    data = {"b": ints("n"), "c": ints("n")}
    layouts = vectors("sv sv", "sv_unsorted dense", "coo_unsorted sv_decreasing")
    check("a[i] = both(b[i], c[i])", lambda b, c: b & c, data, layouts, functions=BOTH)
    check("a[i] = b[i] & c[i]", lambda b, c: b & c, data, layouts)


def test_fig_11_greatest_of_three_with_annihilator(check: Check) -> None:
    check(
        "D[i, j] = max(A[i, j], B[i, j], C[i, j])",
        lambda A, B, C: np.maximum(np.maximum(A, B), C),
        {"A": floats("n m", fill=np.inf), "B": floats("n m", fill=np.inf), "C": floats("n m")},
        [
            "A: csr; B: csr; C: csr; D: dense",
            "A: coo; B: csc; C: csr; D: dense",
            "A: csr; B: csr; C: csr; D: dense fill inf",
        ],
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("fill", [7.0, -1.5, np.inf])
def test_fig_12_least_of_two_with_equal_fills(check: Check, fill: float) -> None:
    check(
        "C[i, j] = min(A[i, j], B[i, j])",
        lambda A, B: np.minimum(A, B),
        {"A": floats("n m", fill=fill), "B": floats("n m", fill=fill)},
        ["A: csr; B: csr; C: dense", "A: csc; B: coo; C: dense"],
    )


def test_fig_13_greatest_of_two_with_identity(check: Check) -> None:
    check(
        "C[i, j] = max(A[i, j], B[i, j])",
        lambda A, B: np.maximum(A, B),
        {"A": floats("n m", fill=-np.inf), "B": floats("n m", fill=42.0)},
        ["A: csr; B: csr; C: dense", "A: coo_unsorted; B: ell; C: dense"],
    )


def test_section_5_2_division_by_position(check: Check) -> None:
    """0 annihilates in the first place alone; a user's function that says so."""
    data = {"a": floats("n"), "b": full("n")}
    layouts = ["a: sv; b: dense; c: dense", "a: rle; b: dense; c: dense"]
    check("c[i] = a[i]/b[i]", lambda a, b: a / b, data, layouts, only_dense=True)
    function = "function over(x, y) { return x*(y > 0)  property annihilator 0 at 1 }"
    check("c[i] = over(a[i], b[i])", lambda a, b: a * (b > 0), data, layouts, functions=function)


def test_section_5_2_power_is_not_commutative(check: Check) -> None:
    check(
        "c[i] = power(a[i], b[i])",
        lambda a, b: np.power(a, b),
        {"a": positive("n"), "b": positive("n", fill=1.0)},
        ["a: sv; b: sv; c: dense", "a: sv; b: sv_unsorted; c: dense", "a: dense; b: sv; c: dense"],
    )


def test_fig_14_sum_times_and_bitwise_and_of_gcd(check: Check) -> None:
    data = {"b": ints("n"), "c": ints("n"), "d": ints("n")}
    layouts = ["b: sv; c: sv; d: sv; a: dense", "b: sv_unsorted; c: dense; d: coo_unsorted; a: dense"]
    check("a[i] = (b[i] + c[i])*d[i]", lambda b, c, d: (b + c) * d, data, layouts)
    check("a[i] = bitwise_and(gcd(b[i], c[i]), d[i])", lambda b, c, d: np.gcd(b, c) & d, data, layouts)
    text = "a[i] = both(gcd_of(b[i], c[i]), d[i])"
    check(text, lambda b, c, d: np.gcd(b, c) & d, data, layouts[:1], functions=GCD + BOTH)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("text", "numpy"),
    [
        ("logical_xor(a[i], b[i])", lambda a, b: a ^ b),
        ("a[i] and not b[i]", lambda a, b: a & ~b),
        ("a[i] or not b[i]", lambda a, b: a | ~b),
        ("(a[i] and not b[i]) or (b[i] and c[i])", None),
        ("(a[i] or b[i]) and not (a[i] and b[i])", lambda a, b: a ^ b),
    ],
    ids=["fig_15_symmetric_difference", "fig_16_intersection", "fig_17_union", "fig_18_repeated", "section_6_2"],
)
def test_iteration_spaces_with_complements(check: Check, text: str, numpy: Callable[..., np.ndarray]) -> None:
    """Figures 15 to 18."""
    names = "abc" if numpy is None else "ab"
    layouts = [
        "a: sv; b: sv; c: sv; r: dense",
        "a: sv_unsorted; b: sv; c: sv; r: dense",
        "a: sv; b: rle; c: sv; r: dense",
    ]
    layouts = [one if numpy is None else one.replace("c: sv; ", "") for one in layouts]
    expected = numpy or (lambda a, b, c: (a & ~b) | (b & c))
    check(f"r[i] = {text}", expected, {n: bools("n") for n in names}, layouts)


def test_section_7_1_xor_of_matrices(check: Check) -> None:
    """Where both store a row, the row is not left out."""
    layouts = ["A: csr; B: csr; C: dense", "A: dcsr; B: dcsr; C: dense", "A: csc; B: dcsr; C: dense"]
    data = {"A": bools("n m"), "B": bools("n m")}
    check("C[i, j] = logical_xor(A[i, j], B[i, j])", lambda A, B: A ^ B, data, layouts)


REDUCED = {
    "any": (bools("n m k"), lambda A: A.any(2)),
    "all": (bools("n m k", density=0.8), lambda A: A.all(2)),
    "prod": (floats("n m k", density=0.8), lambda A: A.prod(2)),
    "sum": (floats("n m k"), lambda A: A.sum(2)),
    "max": (floats("n m k", density=0.7), lambda A: A.max(2)),
    "min": (floats("n m k", density=0.7), lambda A: A.min(2)),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", REDUCED)
def test_section_7_2_reductions(check: Check, name: str) -> None:
    """Identities leave out what is not stored, annihilators end a reduction early; both do not change the result."""
    data, numpy = REDUCED[name]
    layouts = ["A: csf; B: dense", "A: coo; B: dense", "A: dense_col; B: dense"]
    check(f"B[i, j] = {name}(k: A[i, j, k])", numpy, {"A": data}, layouts, empty=name not in ("max", "min"))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "fill", "data"),
    [
        ("prod", 1.0, floats("n m", fill=1.0)),
        ("prod", 2.0, floats("n m", fill=2.0)),
        ("sum", 1.0, floats("n m", fill=1.0)),
        ("max", -np.inf, floats("n m", fill=-np.inf)),
        ("min", np.inf, floats("n m", fill=np.inf)),
        ("all", True, bools("n m", fill=True)),
        ("any", True, bools("n m", fill=True)),
        ("max", 3.0, floats("n m", fill=3.0)),
    ],
    ids=lambda v: "" if isinstance(v, Data) else str(v),
)
def test_section_7_2_reductions_over_fills(check: Check, name: str, fill: object, data: object) -> None:
    """A sum over n fills of 1 is n, as in numpy."""
    initial = {"max": -np.inf, "min": np.inf}
    check(
        f"y[i] = {name}(j: A[i, j])",
        lambda A: getattr(np, name)(A, axis=1, **({"initial": initial[name]} if name in initial else {})),
        {"A": data},
        ["A: csr; y: dense", "A: csc; y: dense", "A: coo_unsorted; y: dense"],
        empty=name not in initial,
    )


def test_fig_19_strided_slice_of_a_matrix(check: Check) -> None:
    check(
        "B[i, j] = A[i(1:5:2), j(2:6:2)]",
        lambda A: A[1:5:2, 2:6:2],
        {"A": floats("6 7", density=0.6)},
        [f"A: {layout}; B: dense" for layout in ("csr", "csc", "coo_unsorted", "bcsr(R=2, C=3)", "dense")],
    )


def test_section_4_2_numpy_slices(check: Check) -> None:
    """Bounds that are left out, from the end, negative steps."""
    for text, numpy in (
        ("B[i, j] = A[i(::2), j(1:)]", lambda A: A[::2, 1:]),
        ("B[i, j] = A[i(:-1), j(-3:)]", lambda A: A[:-1, -3:]),
        ("B[i, j] = A[i(::-1), j(5:1:-2)]", lambda A: A[::-1, 5:1:-2]),
    ):
        check(text, numpy, {"A": floats("6 7", density=0.6)}, ["A: csr; B: dense", "A: coo; B: dense"])


def test_broadcasting(check: Check) -> None:
    """Operands of lower rank, and numbers."""
    check(
        "C[i, j] = max(A[i, j], x[j]) + min(y[i], s)",
        lambda A, x, y, s: np.maximum(A, x) + np.minimum(y, s)[:, None],
        {"A": floats("n m"), "x": floats("m"), "y": floats("n"), "s": floats("")},
        ["A: csr; x: sv; y: dense; C: dense", "A: csc; x: dense; y: sv; C: dense"],
    )
