"""Transposed copies: where they are offered, and that what is read from them is right."""

from __future__ import annotations

import numpy as np
import pytest

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import Products, Transpose, Versions

SDDMM = """kernel k {{ tensor A : csr tensor B : dense tensor D : {layout} tensor C : csr shares A
C[i, j] = A[i, j]*B[i, k]*D[k, j] {schedule} }}"""


def kernel(text: str) -> spfgen.Kernel:
    return spfgen.parse(text).kernels["k"].compile(threads=2)


def copies(made: spfgen.Kernel) -> list[Transpose]:
    return [n for plan in made.generated.plans for n in walk(plan) if isinstance(n, Transpose)]


@pytest.fixture(scope="module")
def sddmm() -> spfgen.Kernel:
    return kernel(SDDMM.format(layout="dense", schedule=""))


@pytest.mark.parametrize("shape", [(9, 7), (40, 3), (3, 40), (1, 1), (0, 5), (5, 0)])
@pytest.mark.parametrize("terms", [0, 1, 5, 33])
@pytest.mark.parametrize("density", [0.1, 0.9])
def test_either_way(sddmm: spfgen.Kernel, shape: tuple[int, int], terms: int, density: float) -> None:
    """Few entries read D as it is, many a copy; columns that do not fill a line of the cache are copied too."""
    random = np.random.default_rng(1)
    a = random.integers(1, 9, shape) * (random.random(shape) < density).astype(float)
    b, d = random.integers(-3, 4, (shape[0], terms)), random.integers(-3, 4, (terms, shape[1]))
    found = sddmm(A=spfgen.pack(a, "csr"), B=b.astype(float), D=d.astype(float))
    assert np.array_equal(found.to_numpy(), a * (b @ d))


def test_both_are_offered(sddmm: spfgen.Kernel) -> None:
    (plan,) = sddmm.generated.plans
    assert isinstance(plan, Products)
    assert isinstance(plan.body, Versions)
    assert [isinstance(v.body, Transpose) for v in plan.body.versions] == [False, True]
    (copy,) = copies(sddmm)
    assert copy.operand.tensor == "D"
    assert copy.axis == 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "text",
    [
        SDDMM.format(layout="dense_col", schedule=""),  # lies as it is read
        SDDMM.format(layout="dense", schedule="schedule { order i, A.pj, k }"),  # the user has said how
        "kernel k { tensor A, x, y : dense y[j] = A[i, j]*x[i] }",  # each value is read once
        "kernel k { tensor A : csr tensor x, y : dense y[i] = A[i, j]*x[j] }",
    ],
)
def test_no_copy(text: str) -> None:
    assert not copies(kernel(text))


def test_three_subscripts() -> None:
    """The subscript that becomes the last one may stand anywhere before."""
    kernels = spfgen.parse("""kernel k { tensor A : csr tensor B : dense tensor D : dense tensor C : csr shares A
    C[i, j] = A[i, j]*B[i, k, l]*D[k, l, j] }""").kernels
    made = kernels["k"].compile(threads=2)
    assert [c.axis for c in copies(made)] == [1]
    a, b, d = np.ones((9, 10)), np.arange(9.0 * 3 * 4).reshape(9, 3, 4) % 7, np.arange(3.0 * 4 * 10).reshape(3, 4, 10)
    assert np.array_equal(made(A=spfgen.pack(a, "csr"), B=b, D=d).to_numpy(), np.einsum("ikl,klj->ij", b, d))
