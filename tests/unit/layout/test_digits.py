"""What ranges of index arrays say of positions: places in a block lead to the block."""

from __future__ import annotations

import numpy as np
import pytest

import spfgen
from spfgen.facts.formula import show
from spfgen.lang.spec import parse_tree
from spfgen.layout.digits import with_digits
from spfgen.layout.nodes import Layout
from spfgen.pipeline import layout_of

GRID = """
layout grid(nrow, ncol) {
    size nnz
    relation { [a, b, p] -> [i, j] :
        0 <= 4*a < nrow and 0 <= 4*b < ncol and ptr(a, b) <= p < ptr(a, b + 1) and i = 4*a + r(p) and 4*b = j - c(p) }
    index ptr[ceil(nrow/4), ceil(ncol/4) + 1] { range 0 <= ptr(a, b) <= nnz }
    index r[nnz] { range 0 <= r(p) < 4 }
    index c[nnz] { range 4 > c(p)  range c(p) > -1 }
    value val[nnz] at [p]
}
"""


def layout(text: str) -> Layout:
    tree = parse_tree(text)
    (name,) = tree.layouts
    return layout_of(tree.layouts[name], {})


def test_bounds_of_blocks() -> None:
    found = layout(GRID)
    more = show(with_digits(found, found.relation)).removeprefix(show(found.relation))
    assert more == " and 0 <= i - 4*a < 4 and 0 <= j - 4*b < 4"


@pytest.mark.parametrize(
    "part",
    [
        "i = 4*a + r(p) + c(p)",  # two digits
        "i = r(p)",  # a digit alone
        "4*a = 4*q + 1 and i = wide(p)",
    ],
)
def test_nothing_follows(part: str) -> None:
    text = f"""layout other(n) {{
        size nnz, wides
        relation {{ [a, q, p] -> [i] : 0 <= a < n and 0 <= q < n and 0 <= p < nnz and {part} }}
        index r[nnz] {{ range 0 <= r(p) < 4 }}
        index c[nnz] {{ range 0 <= c(p) < 4 }}
        index wide[nnz] {{ range 0 <= wide(p) < wides }}
        value val[nnz] at [p]
    }}"""
    found = layout(text)
    assert with_digits(found, found.relation) is found.relation


@pytest.mark.exhaustive
def test_a_product_meets_block_by_block() -> None:
    """No loop goes through all blocks of B for an entry of A."""
    rng = np.random.default_rng(0)
    one, two = (np.where(rng.random((9, 11)) < 0.3, 1.0, 0) for _ in range(2))
    grid = spfgen.parse(GRID).layouts["grid"]
    kernel = spfgen.compile("s = A[i, j]*B[i, j]", A=grid, B=grid)
    assert kernel(A=spfgen.pack(one, grid), B=spfgen.pack(two, grid)) == (one * two).sum()
    loops = kernel.explain().partition("loops:")[2].partition("dependences:")[0]
    assert "scan A.a" in loops
    assert "scan B." not in loops
