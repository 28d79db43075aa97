"""Reductions into scalars on several threads: which of them have totals for each part, and what comes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen import tuning
from spfgen.ir import walk
from spfgen.plan.nodes import Copy, Scan

RNG = np.random.default_rng(8)
A = np.where(RNG.random((40, 30)) < 0.3, RNG.integers(-9, 9, (40, 30)), 0)
A[7] = A[:, 3] = 0
X = RNG.integers(-9, 9, 30)
LAYOUTS = ("dense", "csr", "csc", "coo_unsorted", "bcsr(R=2, C=3)", "dia", "csr_rle", "bit_map")
REDUCTIONS: dict[str, Any] = {
    "s = max(i, j: A[i,j]*x[j])": lambda a, x: (a * x).max(),
    "s = min(i, j: A[i,j] + x[j])": lambda a, x: (a + x).min(),
    "s = sum(i, j: abs(A[i,j] - x[j]))": lambda a, x: abs(a - x).sum(),
    "s = prod(i, j: 1 + (A[i,j] > 8)*(x[j] > 0))": lambda a, x: (1 + (a > 8) * (x > 0)).prod(),
    "s = all(i, j: A[i,j] <= x[j] + 18)": lambda a, x: (a <= x + 18).all(),
    "s = bitwise_xor(i, j: A[i,j] ^ x[j])": lambda a, x: np.bitwise_xor.reduce(a ^ x, axis=None),
    "s = sum(i, j: where(A[i,j] > max(k: x[k]) - 12, A[i,j], 1))": lambda a, x: np.where(a > x.max() - 12, a, 1).sum(),
}


@pytest.fixture(autouse=True)
def keen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads work at anything, however little it is, and copy whatever they update."""
    for name in ("TEAM_NS", "TEAM_UNASKED_NS", "COPY_NS", "COPIES_NS"):
        monkeypatch.setattr(tuning, name, 0)


def private(kernel: Any) -> list[Scan]:
    """The loops with totals for each part."""
    return [n for p in kernel.generated.plans for n in walk(p) if isinstance(n, Scan) and n.private]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("text", REDUCTIONS)
def test_all_numbers_of_threads_agree(text: str, layout: str) -> None:
    packed = spfgen.pack(A, layout)
    for threads in (3, 50):
        kernel = spfgen.compile(text, A=f"{layout}<int64>", x="dense<int64>", threads=threads)
        assert kernel(A=packed, x=X) == REDUCTIONS[text](A, X)


@pytest.mark.sampled(1)
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


@pytest.mark.sampled(1)
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


# --- arrays ------------------------------------------------------------------------------------------

UPDATES: dict[str, Any] = {
    "y[j] = max(i: A[i,j])": lambda a, x: a.max(0),
    "y[j] = min(i: A[i,j] + 1)": lambda a, x: a.min(0) + 1,
    "y[j] max= A[i,j]": lambda a, x: np.maximum(a.max(0), 5),
    "y[j] = sum(i: abs(A[i,j]))": lambda a, x: abs(a).sum(0),
    "y[x[j] + 9] += abs(A[i,j])": lambda a, x: 5 + np.bincount(x + 9, abs(a).sum(0), 30).astype(int),
}


def copied(kernel: Any) -> list[str]:
    """The arrays of which parts have copies."""
    return [n.target.tensor for p in kernel.generated.plans for n in walk(p) if isinstance(n, Copy)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["dense", "csr", "csc", "coo_unsorted", "bcsr(R=2, C=3)", "csr_rle"])
@pytest.mark.parametrize("text", UPDATES)
def test_arrays_that_are_updated(text: str, layout: str) -> None:
    """Copies of what several iterations update, whatever their number is."""
    layouts = {"A": f"{layout}<int64>", "y": "dense<int64>", **({"x": "dense<int64>"} if "x[" in text else {})}
    kernel = spfgen.compile(text, **layouts, threads=4, optimize=1)
    found = kernel(A=spfgen.pack(A, layout), y=np.full(30, 5), **({"x": X} if "x[" in text else {}))
    np.testing.assert_array_equal(found, UPDATES[text](A, X))


def test_which_arrays_have_copies() -> None:
    """Those that the iterations of a loop meet in, if the order of what they combine does not matter."""
    for text, layout, kind, wanted in (
        ("y[j] += abs(A[i,j])", "csr", "float64", ["sum"]),
        ("y[j] += abs(A[i,j])", "csc", "float64", []),  # columns have places of their own
        ("y[j] max= A[i,j]", "csr", "float64", ["most", "visited"]),
        ("y[j] = y[j]*2 + A[0,j]", "csr", "float64", []),
    ):
        assert copied(spfgen.compile(text, A=f"{layout}<{kind}>", y=f"dense<{kind}>")) == wanted, text
    summed = "y[j] += abs(A[i,j])"
    assert copied(spfgen.compile(summed, A="csr", y="dense"))
    assert not copied(spfgen.compile(summed, A="csr", y="dense", deterministic=True))
    assert copied(spfgen.compile(summed, A="csr<int64>", y="dense<int64>", deterministic=True))
