"""Values that read outside of a tensor within reductions: as the oracle says, they are left out, in every layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen.lang.interpret import interpret
from spfgen.lang.parse import parse_statements
from tests.fuzz.carried import by_the_interpreter

D = np.array([[0, -2, -1, -3.0], [5, 0, -7, -1]])
OPERANDS = {
    "D": D,
    "E": np.array([[np.inf, 1, 2, np.inf], [1, np.inf, 1, 1]]),
    "A": np.array([[0, 2, 0, -1.0], [1, 0, 0, 0], [0, 0, 3, 1]]),
    "x": np.array([1.0, 2]),
    "z": np.array([3.0, -1, 2, 4]),
    "at": np.array([1, 0]),
    "n": np.array([3, 4], np.int32),
    "b": np.array([True, False]),
}
SUMS = (
    "sum(j: D[i,j]*exp(x[j-2]))", "D[i,j]*exp(x[j-2])", "sum(j: exp(x[j-2]*D[i,j]))", "mean(j: exp(x[j-2])*D[i,j])",
    "sum(j: where(D[i,j] < -1, 9, exp(x[j-2])))", "sum(j: where(j < 1, D[i,j] + 7, exp(x[j-2])))",
    "sum(j: max(x[j-2], D[i,j]))", "sum(j: x[j-2] == 0 and D[i,j] < 3)", "sum(j: b[j-2] or D[i,j] < 3)",
    "sum(j: D[i,j] < 3 or b[j-2])", "sum(j: not b[j-2])", "sum(j: (n[j-2] == 3) + (D[i,j] < 3))",
    "sum(j: exp(x[j-2])*D[i,j] + D[i,j])", "sum(j: -(exp(x[j-2]) - D[i,j]))", "sum(j: exp(2 + x[j-2])*D[i,j])",
    "sum(j: exp(x[j-2] + x[j-1])*D[i,j])", "sum(j: (D[i,j] + 1)/(2 + exp(x[j-2])))", "sum(j: D[i,j]/x[j-2])",
    "exp(-abs(sum(j: E[i,j]*x[j-2])))", "sum(j: x[j-2]*exp(E[i,j]))", "sum(j: D[i,j]**x[j-2])",
    "sum(j: exp(x[i-1])*D[i,j])", "sum(j: D[i,j] + exp(x[i-1]))", "sum(j: exp(D[i-1,j-2])*D[i,j])",
    "sum(j: D[i,3-j]*exp(z[2*j]))", "sum(j: exp(z[j/2])*exp(z[3-j]))", "sum(j: hypot(x[j/2], D[i,j-1]))",
    "sum(j: exp(x[j-2])*z[j] where j > i)", "D[i,j]*exp(x[j-2]) - exp(z[i-1])*D[i,j]",
    "sum(j: where(x[j-2] < 2, D[i,j], z[j-1]))", "sum(j: exp(where(D[i,j] < -1, 1, x[j-2]) + z[j-1]))",
    "sum(j: D[i,j]*x[at[j-2]])", "sum(j: D[i,j]*exp(x[at[j-2]]))", "sum(j: n[j-2] // 2*D[i,j])",
    "sum(j: D[i,j]*exp(coalesce(x[at[j-2]], x[j-1])))", "sum(j: D[i,j]*coalesce(x[j-2] + 3, 5))",
    "sum(j: sum(k: exp(x[k+j-2])*D[i,k])*D[i,j])", "sum(j: exp(x[j-2])*max(k: D[i,k]*x[k+j-3]))",
    "D[i,0]*sum(j: exp(x[j-2]) + exp(x[j-3]))", "D[i,0]*sum(j: exp(x[j-2] + x[j-3]))",
    "D[i,0]*sum(j: 3 - exp(x[j-2]))",
    "D[i,0]*coalesce(sum(j: x[j-2]*D[i,j]), 5)", "(D[i,0] + 1)*coalesce(where(D[i,0] < 1, 3, x[i-1]), 5)",
)  # fmt: skip
OTHERS = (
    "prod(j: 2 + D[i,j]*x[j-2])", "max(j: D[i,j] + x[j-2])", "max(j: exp(2 + x[j-2])*D[i,j])",
    "prod(j: where(D[i,j] < -1, D[i,j], x[j-2]))", "max(j: where(j < 1, 7, -exp(x[j-2]) + D[i,j]))",
    "max(j: exp(where(D[i,j] < -1, 1, x[j-2]) + z[j-1]))", "max(j: D[i,j]*exp(x[at[j-2]]))",
    "argmax(j: where(D[i,j] < -1, 1, x[j-2]))", "subtract(j: where(D[i,j] < -1, 1, x[j-2]))",
    "D[i,0]*prod(j: where(D[i,0] > 1, x[j-2], x[j-1]))",
    "any(j: D[i,j] < -1 and x[j-2] > 1)", "all(j: D[i,j] < -1 or x[j-2] > 1)", "argmin(j: D[i,j] - exp(x[j-2]))",
)  # fmt: skip
OF_SPARSE = (
    "sum(j: exp(A[i,j-2])*z[j])", "sum(j: A[i,j-2]*exp(z[j]))", "sum(j: A[i,j-2]*z[j])", "sum(j: sqrt(abs(A[i,j+1])))",
    "sum(j: exp(A[i-1,j]) + A[i,3-j])", "sum(j: where(A[i,j-1] > 0, exp(A[i+1,j]), z[j-1]))", "A[i,j]*exp(A[i-1,j-1])",
    "sum(j: max(A[i,j-1], A[i,j]))", "max(j: A[i,j] + A[i,j-1])", "sum(j: A[i,j]*exp(A[at[j-2],j]))",
    "sum(j: (A[i,2*j] + 2)*cos(z[j]))", "prod(j: 2 + A[i,j-1])",
)  # fmt: skip
SYMMETRIC = np.array([[1.0, 0, 2, 0], [0, 0, 3, 0], [2, 3, 0, -1], [0, 0, -1, 0]])
LAYOUTS = (
    *((name, fill) for name in ("csr", "coo", "bcsr(R=2, C=3)", "dcsc") for fill in (0.0, 1.0)),
    ("csr_rle", 0.0),
    ("sym_csr", 0.0),
)
"""Some have alternatives: an element may be stored in one of two places."""
STEPS = (
    "y[i] += exp(x[j-2])*z[j]", "y[i] -= exp(x[j-2])*z[j]", "y[i] max= exp(x[j-2])*z[j]",
    "for i { y[i] += exp(x[j-2])*D[i,j] }", "for i { y[i] = y[i] + sum(j: max(x[j-2+i], D[i,j])) }",
    "let t = exp(x[j-2])*z[j]; y[i] = t*D[i,0]", "y[at[i]] += exp(x[j-2])*D[i,j]",
)  # fmt: skip


def compare(
    text: str, given: Mapping[str, Any], arrays: Mapping[str, Any], fills: Mapping[str, Any], rows: int
) -> None:
    sizes = {} if "y" in given else {"i": rows}
    expected = interpret(parse_statements(text), arrays, fills, sizes)["y"]
    with by_the_interpreter():
        found = np.asarray(spfgen.evaluate(text, **given, sizes=sizes))
    np.testing.assert_allclose(found, expected, err_msg=text)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("text", [*SUMS, *OTHERS])
def test_points_outside_are_left_out(text: str) -> None:
    given = {n: v for n, v in OPERANDS.items() if f"{n}[" in text}
    compare(f"y[i] = {text}", given, given, {}, 2)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("text", STEPS)
def test_updates_of_sums_leave_them_out(text: str) -> None:
    given = {n: v for n, v in OPERANDS.items() if f"{n}[" in text} | {"y": np.array([1.0, 2])}
    compare(text, {**given, "y": given["y"].copy()}, given, {}, 2)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("text", OF_SPARSE)
@pytest.mark.parametrize(("layout", "fill"), LAYOUTS)
def test_of_sparse_tensors(layout: str, fill: float, text: str) -> None:
    dense = SYMMETRIC if layout == "sym_csr" else OPERANDS["A"]
    dense = np.where(dense == 0, fill, dense)
    arrays = {n: dense if n == "A" else v for n, v in OPERANDS.items() if f"{n}[" in text}
    packed = spfgen.pack(dense, f"{layout} fill {fill}" if fill else layout)
    fills = {"A": fill} if layout != "csr_rle" else {}
    compare(f"y[i] = {text}", {**arrays, "A": packed}, arrays, fills, len(dense))


def test_compiled() -> None:
    """Some of them in C, in one kernel."""
    lines = [f"y{k}[i] = {text}" for k, text in enumerate((*SUMS[:2], *SUMS[4:5], OTHERS[-1]))]
    given = {n: v for n, v in OPERANDS.items() if any(f"{n}[" in line for line in lines)}
    found = spfgen.compile("\n".join(lines), **dict.fromkeys(given, "dense"))(**given)
    expected = interpret(parse_statements("\n".join(lines)), given)
    for name, array in found.items():
        np.testing.assert_allclose(np.asarray(array), expected[name], err_msg=name)


@pytest.mark.parametrize(
    "text",
    [
        "for i { let t = 0  let u = where(2 == i, x[i], t)  y[i] = u }",
        "let t = 2  for i { t min= where(abs(2 - i) <= 1, 2, t)  y[i] = t*x[i] }",
    ],
)
def test_a_choice_of_a_scalar_has_its_type(text: str) -> None:
    """Types are asked for where it is looked at what reductions read outside: scalars are known by then."""
    x = np.arange(5.0)
    found = spfgen.parse(f"kernel k {{ tensor x, y : dense  {text} }}").kernels["k"].compile()(x=x)
    wanted = [0, 0, 2, 0, 0] if "let u" in text else [2 * v for v in x]
    np.testing.assert_array_equal(np.asarray(found), wanted)


@pytest.mark.parametrize(
    "text",
    [
        "y[i] = exp(x[i - 2])*z[i]", "y[i] = max(x[i - 1], 1) + z[i]", "let t = exp(x[7])  y[i] = t*z[i]",
        "for j { y[i] += exp(x[j - 2])*D[i,j] }", "for i { if x[i - 1] == 0 { y[i] += z[i] } }",
        "y[i] = z[i]/(2 + x[at[i - 1]])",
    ],
)  # fmt: skip
def test_the_fill_is_read_outside_of_reductions(text: str) -> None:
    given = {n: v for n, v in OPERANDS.items() if f"{n}[" in text} | {"y": np.array([1.0, 2])}
    given |= {"z": np.array([1.0, 3])} if "z[" in text else {}
    compare(text, {**given, "y": given["y"].copy()}, given, {}, 2)
