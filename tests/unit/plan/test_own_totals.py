"""Reductions into scalars on several threads: which of them have totals for each part, and what comes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import Scan

RNG = np.random.default_rng(8)
A = np.where(RNG.random((40, 30)) < 0.3, RNG.integers(-9, 9, (40, 30)), 0)
A[7] = A[:, 3] = 0
X = RNG.integers(-9, 9, 30)
LAYOUTS = ("dense", "csr", "csc", "coo", "coo_unsorted", "bcsr(R=2, C=3)", "dia", "ell", "csr_rle", "bit_map")
REDUCTIONS: dict[str, Any] = {
    "s = max(i, j: A[i,j]*x[j])": lambda a, x: (a * x).max(),
    "s = min(i, j: A[i,j] + x[j])": lambda a, x: (a + x).min(),
    "s = sum(i, j: abs(A[i,j] - x[j]))": lambda a, x: abs(a - x).sum(),
    "s = prod(i, j: 1 + (A[i,j] > 8)*(x[j] > 0))": lambda a, x: (1 + (a > 8) * (x > 0)).prod(),
    "s = all(i, j: A[i,j] <= x[j] + 18)": lambda a, x: (a <= x + 18).all(),
    "s = bitwise_xor(i, j: A[i,j] ^ x[j])": lambda a, x: np.bitwise_xor.reduce(a ^ x, axis=None),
    "s = sum(i, j: where(A[i,j] > max(k: x[k]) - 12, A[i,j], 1))": lambda a, x: np.where(a > x.max() - 12, a, 1).sum(),
}


def private(kernel: Any) -> list[Scan]:
    """The loops with totals for each part."""
    return [n for p in kernel.generated.plans for n in walk(p) if isinstance(n, Scan) and n.private]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("text", REDUCTIONS)
def test_all_numbers_of_threads_agree(text: str, layout: str) -> None:
    packed = spfgen.pack(A, layout)
    for threads in (1, 3, 50):
        kernel = spfgen.compile(text, A=f"{layout}<int64>", x="dense<int64>", threads=threads)
        assert kernel(A=packed, x=X) == REDUCTIONS[text](A, X)


@pytest.mark.parametrize("shape", [(0, 30), (1, 30), (40, 0), (2, 1)])
def test_few_iterations_and_many_parts(shape: tuple[int, int]) -> None:
    a, x = A[: shape[0], : shape[1]], X[: shape[1]]
    for layout in ("csr", "csc", "dense"):
        for text in ("s = sum(i, j: abs(A[i,j] - x[j]))", "s = all(i, j: A[i,j] <= x[j])"):
            kernel = spfgen.compile(text, A=f"{layout}<int64>", x="dense<int64>", threads=5)
            wanted = abs(a - x).sum() if "sum" in text else (a <= x).all()
            assert kernel(A=spfgen.pack(a, layout), x=x) == wanted


FUNCTION = """
function f(a, b) {{ return a + b + a*b  {} }}
kernel k {{
    tensor A : csr<int64>
    tensor s : dense<int64>
    s = f(i, j: A[i, j])
}}
"""
ALL = ("property commutative", "property associative", "property identity 0")


@pytest.mark.parametrize("missing", [None, *ALL])
def test_parts_need_the_properties(tmp_path: Path, missing: str | None) -> None:
    spec = tmp_path / "f.spf"
    spec.write_text(FUNCTION.format("  ".join(p for p in ALL if p != missing)), encoding="utf-8")
    kernel = spfgen.load(spec).kernels["k"].compile()
    assert len(private(kernel)) == (missing is None)
    assert kernel(A=spfgen.pack(A % 2, "csr")) == 2 ** np.count_nonzero(A % 2) - 1


def test_rounding_is_a_matter_of_the_number_of_parts() -> None:
    """Sums of floats are serial where the result may not depend on the number of threads; what is exact is not."""
    for text, kind, wanted in (
        ("s = sum(i, j: abs(A[i,j]))", "float64", False),
        ("s = max(i, j: abs(A[i,j]))", "float64", True),
        ("s = sum(i, j: abs(A[i,j]))", "int64", True),
    ):
        free = spfgen.compile(text, A=f"csr<{kind}>")
        fixed = spfgen.compile(text, A=f"csr<{kind}>", deterministic=True)
        assert private(free), text
        assert bool(private(fixed)) is wanted, text


def test_what_ends_early_has_no_parts() -> None:
    """Other threads would not know when one of them has found what decides."""
    kernel = spfgen.compile("s = any(i: v[i] > 3)", v="dense")
    assert not private(kernel)
    assert kernel(v=np.arange(9.0))
