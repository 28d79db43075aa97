"""Zeros of blocks: passed over, or left out of a copy, where they add nothing; infinities of the other factor count."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import Copied, Skip

PRODUCT = "C[i, k] = A[i, j]*B[j, k]"


def scattered(rows: int, columns: int, density: float, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.where(rng.random((rows, columns)) < density, rng.integers(-9, 9, (rows, columns)), 0).astype(float)


def stored(dense: np.ndarray, layout: str) -> np.ndarray:
    """Where the layout has values: in blocks also beside those that are not zero."""
    if not layout.startswith("bcsr"):
        return dense != 0
    height, width = (3, 2) if "R=3" in layout else (2, 2)
    rows, columns = dense.shape
    padded = np.zeros((-(-rows // height) * height, -(-columns // width) * width), bool)
    padded[:rows, :columns] = dense != 0
    blocks = padded.reshape(padded.shape[0] // height, height, padded.shape[1] // width, width).any(axis=(1, 3))
    return np.kron(blocks, np.ones((height, width), bool))[:rows, :columns]


def product(a: np.ndarray, b: np.ndarray, first: str, second: str) -> np.ndarray:
    """The sum over all pairs of stored values."""
    some = stored(a, first)[:, :, None] & stored(b, second)[None]
    with np.errstate(invalid="ignore"):
        return np.where(some, a[:, :, None] * b[None], 0.0).sum(axis=1)


PAIRS = [
    ("csr", "bcsr"), ("bcsr", "csr"), ("bcsr", "bcsr"), ("coo", "bcsr(R=3, C=2)"), ("bcsr(R=3, C=2)", "coo"),
]  # fmt: skip
SHAPES = [(31, 27, 33), (1, 9, 1), (8, 1, 7), (0, 4, 3), (4, 0, 0)]


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_products_with_blocks_of_zeros(first: str, second: str, threads: int) -> None:
    """With finite values, and with others, which zeros that are stored make into no numbers."""
    kernel = spfgen.compile(PRODUCT, A=first, B=second, C="dense", threads=threads)
    nodes = [n for plan in kernel.generated.plans for n in walk(plan)]
    assert any(isinstance(n, Skip) for n in nodes) == first.startswith("bcsr")
    assert any(isinstance(n, Copied) for n in nodes) == second.startswith("bcsr")
    for rows, inner, columns in SHAPES:
        for strange in ("", "A", "B"):
            for density in (0.2, 1.0):
                a, b = scattered(rows, inner, density), scattered(inner, columns, density, 2)
                for name, dense in (("A", a), ("B", b)):
                    places = np.argwhere(dense)
                    if name == strange and len(places):
                        dense[tuple(places[len(places) // 2])] = np.inf
                        dense[tuple(places[0])] = np.nan
                c = np.full((rows, columns), np.nan)
                kernel(A=spfgen.pack(a, first), B=spfgen.pack(b, second), C=c)
                np.testing.assert_array_equal(c, product(a, b, first, second))


@pytest.mark.parametrize("kind", ["float32", "int32"])
def test_other_types(kind: str) -> None:
    a, b = scattered(20, 24, 0.4).astype(kind), scattered(24, 18, 0.2, 2).astype(kind)
    kernel = spfgen.compile(PRODUCT, A="bcsr", B="bcsr", C="dense")
    c = np.empty((20, 18), kind)
    kernel(A=spfgen.pack(a, "bcsr"), B=spfgen.pack(b, "bcsr"), C=c)
    assert np.array_equal(c, a @ b)


TWICE = """
layout twice(nrow, ncol) {
    size nb
    relation { [bi, pb, r, c] -> [i, j] : 0 <= 2*bi < nrow and ptr(bi) <= pb < ptr(bi + 1) and 0 <= r < 2 and 0 <= c < 2
        and i = 2*bi + r and j = 2*col(pb) + c }
    index ptr[ceil(nrow/2) + 1] {
        range 0 <= ptr(p) <= nb
        property increasing
        property ptr(0) = 0
        property ptr(ceil(nrow/2)) = nb
    }
    index col[nb] { range 0 <= 2*col(p) < ncol  property strictly increasing within ptr }
    value val[nb, 2] at [pb, c]
}
"""


def test_values_that_stand_in_several_rows_have_no_copy() -> None:
    """There would be more of them than the array holds."""
    layout = spfgen.parse(TWICE).layouts["twice"]
    columns = np.arange(10)
    values = np.where(np.arange(20).reshape(10, 2) % 2, np.arange(20.0).reshape(10, 2), 0)
    ends = np.array([0, 4, 10])
    b = spfgen.tensor(layout, shape=(4, 20), ptr=ends, col=np.concatenate([columns[:4], columns[:6]]), val=values)
    dense = np.zeros((4, 20))
    dense[0:2, :8] = values[:4].ravel()
    dense[2:4, :12] = values[4:].ravel()
    a = np.ones((200, 4))
    kernel = spfgen.compile(PRODUCT, A="csr", B=layout, C="dense")
    assert np.array_equal(kernel(A=csr_array(a), B=b, C=np.empty((200, 20))), a @ dense)


def test_what_is_only_gone_through_once_is_not_copied() -> None:
    kernel = spfgen.compile("y[i] = A[i, j]*x[j]", A="bcsr", x="dense", y="dense")
    assert not any(isinstance(n, Copied | Skip) for plan in kernel.generated.plans for n in walk(plan))
