"""The value of the iteration before, which is kept in a register where nearly all iterations need it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import spfgen
from spfgen.run import compile as compiling

LOWER = "x[i] = (b[i] - sum(j < i: L[i, j]*x[j]))/L[i, i]"
UPPER = "x[i] = (b[i] - sum(j > i: L[i, j]*x[j]))/L[i, i]"
FORWARDED, NEAR = "prev_at", "const bool near = hits > 0;"


def triangle(size: int, text: str, without: int = 0) -> np.ndarray:
    """Ones and minus ones near the diagonal, further on in some rows; each `without`-th row does not need the next."""
    rng = np.random.default_rng(size)
    dense = np.tril(np.triu(rng.choice([-1.0, 1.0], (size, size)), -2))
    dense[size // 2 :, : size // 3] = rng.choice([0.0, 1.0], dense[size // 2 :, : size // 3].shape, p=[0.7, 0.3])
    rows = np.arange(1, size)
    if without:
        dense[rows[::without], rows[::without] - 1] = 0
    return dense if text == LOWER else dense.T.copy()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("without", [0, 20, 2, 1])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 17, 40, 200])
@pytest.mark.parametrize("text", [LOWER, UPPER])
def test_solutions_are_exact(text: str, size: int, without: int) -> None:
    """All numbers are whole: not one bit may differ."""
    dense = triangle(size, text, without)
    x = np.random.default_rng(2).integers(-3, 4, size).astype(float)
    kernel = spfgen.compile(text, L="csr", b="dense", x="dense", schedule="serial i")
    assert FORWARDED in kernel.source
    assert NEAR in kernel.source
    for kind, index in (("float64", "int32"), ("float32", "int64")):
        given = csr_array(dense.astype(kind))
        given.indptr, given.indices = given.indptr.astype(index), given.indices.astype(index)
        np.testing.assert_array_equal(kernel(L=given, b=(dense @ x).astype(kind)), x)


@pytest.mark.parametrize(("without", "used"), [(0, True), (2, False)])
@pytest.mark.parametrize("text", [LOWER, UPPER])
def test_it_is_used_where_nearly_all_need_it(
    text: str, without: int, used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong one is seen in the solution, or is not."""
    real, right = compiling.build, "own == prev_at ? prev :"

    def build(source: str) -> object:
        assert right in source
        return real(source.replace(right, "own == prev_at ? 2*prev :"))

    monkeypatch.setattr(compiling, "build", build)
    dense = triangle(200, text, without)
    kernel = spfgen.compile(text, L="csr", b="dense", x="dense", schedule="serial i")
    x = kernel(L=csr_array(dense), b=dense @ np.ones(200))
    assert bool(np.any(x != 1)) == used


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "text",
    [
        "x[i] = b[i] - sum(j: L[i, j]*b[j])",
        "x[i, k] = (b[i, k] - sum(j < i: L[i, j]*x[j, k]))/L[i, i]",
        "x[i] = (b[i] - sum(j < i: L[i, j]*x[j]*x[j]))/L[i, i]",
    ],
)
def test_other_loops_are_left_alone(text: str) -> None:
    layouts: dict[str, Any] = {"L": "csr", "b": "dense", "x": "dense"}
    assert FORWARDED not in spfgen.compile(text, **layouts).source
