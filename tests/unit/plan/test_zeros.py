"""Zeros of blocks: left out of lists and copies, where they add nothing; infinities of the other factor count."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import spfgen
from spfgen.ir import walk
from spfgen.plan.listed import MOST
from spfgen.plan.nodes import Copied, Listed, Scan, Seq, Skip, chain

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
SHAPES = [(31, 27, 33), (1, 9, 1), (8, 1, 7), (0, 4, 3), (4, 0, 0), (3, 2 * MOST + 3, 2)]


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_products_with_blocks_of_zeros(first: str, second: str, threads: int) -> None:
    """With finite values, and with others, which zeros that are stored make into no numbers."""
    kernel = spfgen.compile(PRODUCT, A=first, B=second, C="dense", threads=threads)
    nodes = [n for plan in kernel.generated.plans for n in walk(plan)]
    assert any(isinstance(n, Listed) for n in nodes) == first.startswith("bcsr")
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
    assert not any(isinstance(n, Copied | Listed | Skip) for plan in kernel.generated.plans for n in walk(plan))


def loops(plan: object) -> list[str]:
    """What is looped over, outermost first, down to the list."""
    return [n.dim for n in chain(plan) if isinstance(n, Scan)]


@pytest.mark.parametrize(("layout", "first"), [("bcsr", ["A.bi", "A.r", "A.q"]), (TWICE, ["A.bi", "A.r", "A.q"])])
def test_one_row_of_the_result_is_added_to_after_the_other(layout: str, first: list[str]) -> None:
    given = spfgen.parse(layout).layouts["twice"] if layout == TWICE else layout
    kernel = spfgen.compile(PRODUCT, A=given, B="csr", C="dense")
    (plan,) = kernel.generated.plans
    assert loops(plan)[:3] == first


def rows_of_blocks(bounds: str) -> tuple[spfgen.Kernel, list[str]]:
    """A product with blocks that know which of their rows are stored, and what is looped over."""
    some = "index some[nb] { range 0 <= some(p) <= nrow }"
    text = TWICE.replace("0 <= r < 2", bounds).replace("index col", f"{some}\n    index col")
    layout = spfgen.parse(text).layouts["twice"]
    kernel = spfgen.compile(PRODUCT, A=layout, B="csr", C="dense")
    (plan,) = kernel.generated.plans
    ends, columns = np.array([0, 2, 3]), np.array([0, 2, 1])
    values = np.array([[1.0, 0.0], [2.0, 3.0], [0.0, 4.0]])
    a = spfgen.tensor(layout, shape=(4, 6), ptr=ends, col=columns, val=values, some=np.array([2, 1, 1]))
    top = bounds.endswith("some(pb)")
    dense = np.zeros((4, 6))
    dense[[0, 1], 0] = (1, 1) if top else (0, 0)
    dense[0 if top else 1, 4:] = (2, 3)
    dense[2 if top else 3, 2:4] = (0, 4)
    b = scattered(6, 5, 0.7)
    assert np.array_equal(kernel(A=a, B=csr_array(b), C=np.empty((4, 5))), dense @ b)
    return kernel, loops(plan.parts[-1] if isinstance(plan, Seq) else plan)


def test_rows_whose_bounds_blocks_know_are_listed_with_the_blocks() -> None:
    """They cannot come before the loop over blocks."""
    assert rows_of_blocks("0 <= r < 2 and r < some(pb)")[1][:2] == ["A.bi", "A.q"]


@pytest.mark.parametrize("bounds", ["some(pb) <= r < 2", "0 <= r < some(pb)"])
def test_a_few_values_are_not_listed(bounds: str) -> None:
    kernel, dims = rows_of_blocks(bounds)
    assert dims[:3] == ["A.bi", "A.pb", "A.r"]
    assert any(isinstance(n, Skip) for plan in kernel.generated.plans for n in walk(plan))


WHOLE = """
layout whole(nrow, ncol) {
    size nb
    relation { [pi, q, c] -> [i, j] : 0 <= pi < nrow and ptr(pi) <= q < ptr(pi + 1) and 0 <= c < 2 and i = pi
        and j = 2*col(q) + c }
    index ptr[nrow + 1] { range 0 <= ptr(p) <= nb  property increasing  property ptr(0) = 0  property ptr(nrow) = nb }
    index col[nb] { range 0 <= 2*col(p) and 2*col(p) + 2 <= ncol }
    value val[nb, 2] at [q, c]
}
"""


def test_what_a_key_is_computed_from_is_read_in_the_list() -> None:
    """Neither bounds nor places of values need the column of a block that never ends before it is whole."""
    layout = spfgen.parse(WHOLE).layouts["whole"]
    kernel = spfgen.compile(PRODUCT, A=layout, B="csr", C="dense")
    (plan,) = kernel.generated.plans
    assert any(isinstance(n, Listed) for n in walk(plan))
    a, b = scattered(9, 40, 0.2), scattered(40, 7, 0.4)
    stored = spfgen.pack(a, layout)
    assert np.array_equal(kernel(A=stored, B=csr_array(b), C=np.empty((9, 7))), a @ b)


CUBES = """
layout cubes(n, m, o) {
    size nb
    relation { [b, p, x, y, z] -> [i, j, k] : 0 <= 8*b < n and ptr(b) <= p < ptr(b + 1) and 0 <= x, y, z < 8
        and i = 8*b + x and j = 8*mid(p) + y and k = 8*last(p) + z }
    index ptr[ceil(n/8) + 1] { range 0 <= ptr(p) <= nb  property increasing  property ptr(0) = 0 }
    index mid[nb] { range 0 <= 8*mid(p) < m }
    index last[nb] { range 0 <= 8*last(p) < o }
    value val[nb, 8, 8, 8] at [p, x, y, z]
}
"""


def test_lists_of_large_blocks() -> None:
    """As many blocks at a time as a list has room for."""
    layout = spfgen.parse(CUBES).layouts["cubes"]
    kernel = spfgen.compile("C[i, l] = A[i, j, k]*B[k, l]", A=layout, B="csr", C="dense")
    (found,) = (n for plan in kernel.generated.plans for n in walk(plan) if isinstance(n, Listed))
    assert found.each * 8 * 8 == MOST
    rng = np.random.default_rng(3)
    values = np.where(rng.random((6, 8, 8, 8)) < 0.3, rng.integers(1, 9, (6, 8, 8, 8)), 0).astype(float)
    mid, last = np.array([0, 0, 1, 1, 2, 0]), np.array([0, 1, 0, 1, 1, 0])
    a = spfgen.tensor(layout, shape=(16, 24, 16), ptr=np.array([0, 5, 6]), mid=mid, last=last, val=values)
    dense = np.zeros((16, 16))
    for p in range(6):
        rows, columns = 8 * int(p == 5), 8 * int(last[p])
        dense[rows : rows + 8, columns : columns + 8] += values[p].sum(axis=1)
    b = scattered(16, 5, 0.5)
    assert np.array_equal(kernel(A=a, B=csr_array(b), C=np.empty((16, 5))), dense @ b)
