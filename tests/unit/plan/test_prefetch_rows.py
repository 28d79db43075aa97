"""Rows that are read through an index array are fetched ahead, at places that the array has."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

import spfgen
from spfgen.cir.files import runtime
from spfgen.facts.formula import Call, Var, show, variables
from spfgen.ir import rewrite, walk
from spfgen.plan.nodes import Scan, Tile
from spfgen.plan.prefetch_rows import rows_fetched
from spfgen.run.compile import build, load
from spfgen.space.nodes import Operand

PRODUCT = "C[i, c] = A[i, j]*B[j, c]"
LONGER = """
layout longer(nrow, ncol) {
    size nnz
    size room
    relation { [pi, pj] -> [i, j] :
        0 <= pi < nrow and ptr(pi) <= pj < ptr(pi + 1) and i = pi and j = idx(pj) }
    index ptr[nrow + 1] { range 0 <= ptr(p) <= nnz property increasing property ptr(0) = 0 property ptr(nrow) = nnz }
    index idx[nnz] { range 0 <= idx(p) < ncol property strictly increasing within ptr }
    value val[nnz + room] at [pj]
}
kernel k { tensor A : longer tensor B, C : dense C[i, c] = A[i, j]*B[j, c] }
"""


def fetched(kernel: spfgen.Kernel) -> list[Operand]:
    """What loops inside of tiles fetch of operands that a later iteration reads."""
    found = []
    for plan in kernel.generated.plans:
        for node in walk(plan):
            if isinstance(node, Scan) and node.ahead is not None and node.ahead.spread:
                found += [a for a in node.ahead.arrays if isinstance(a, Operand)]
    return found


@pytest.mark.parametrize(
    ("statement", "layouts", "rows"),
    [
        (PRODUCT, {"A": "csr", "B": "dense", "C": "dense"}, {"B"}),
        (PRODUCT, {"A": "dcsr", "B": "dense", "C": "dense"}, {"B"}),
        (PRODUCT, {"A": "ell", "B": "dense", "C": "dense"}, {"B"}),
        ("C[i, j, c] = A[i, j, k]*B[k, c]", {"A": "csf3", "B": "dense", "C": "dense"}, {"B"}),
        ("C[i, c] = A[i, j, k]*B[j, c]*D[k, c]", {"A": "csf3", "B": "dense", "D": "dense", "C": "dense"}, {"D"}),
        (PRODUCT, {"A": "dense", "B": "dense", "C": "dense"}, set()),  # one row after the other
        (PRODUCT, {"A": "dia", "B": "dense", "C": "dense"}, set()),
    ],
)
def test_what_is_fetched(statement: str, layouts: dict[str, str], rows: set[str]) -> None:
    assert {o.tensor for o in fetched(spfgen.compile(statement, **layouts))} == rows


def test_the_index_array_is_read_no_further_than_it_goes() -> None:
    """Its own size counts, not that of values at the same places, of which there may be more."""
    kernel = spfgen.parse(LONGER).kernels["k"].compile()
    (row,) = fetched(kernel)
    (read,) = (n for e in row.place for n in walk(e) if isinstance(n, Call))
    (place,) = read.arguments
    assert show(place) == "min(A.pj + 4, A.nnz - 1)"
    assert not any("room" in name for name in variables(place))


@pytest.mark.parametrize(("high", "found"), [("n", True), ("i", False)])
def test_how_many_there_are_is_asked_once(high: str, found: bool) -> None:
    """Not in each iteration, where it would take longer than what is fetched."""
    kernel = spfgen.compile(PRODUCT, A="csr", B="dense", C="dense")
    (tile,) = (n for plan in kernel.generated.plans for n in walk(plan) if isinstance(n, Tile))
    plain = rewrite(lambda n: replace(n, ahead=None) if isinstance(n, Scan) else None, replace(tile, high=(Var(high),)))
    shapes = {"A.colidx": (Var("A.nnz"),)}
    made = rows_fetched(plain, shapes, ["n", "A.nnz"])
    assert any(isinstance(n, Scan) and n.ahead is not None for n in walk(made)) == found


@pytest.mark.parametrize(
    ("numbers", "spread"),
    [
        (np.arange(1000) % 31, False),
        (np.arange(1000), True),  # of each stretch, twice the window
        (np.arange(1000) // 3 % 300, False),
        (np.random.default_rng(1).integers(0, 500, 1000), True),
        (np.random.default_rng(1).integers(0, 30, 1000), False),
        (np.where(np.arange(1000) < 300, np.arange(1000) * 77 % 500, 5), False),  # in less than half of them
        (np.where(np.arange(1000) < 700, np.arange(1000) * 77 % 500, 5), True),
        (np.array([0, 900] * 31), False),  # too few
        (np.array([0, 900] * 32), True),
        (np.zeros(0), False),
    ],
)
def test_samples_say_whether_numbers_are_spread(numbers: np.ndarray, spread: bool) -> None:
    text = "#include <stdbool.h>\n#include <stdint.h>\n" + runtime("spread.h").replace("TYPE", "int32")
    text += "\nint asked(const int32_t *a, int64_t n, int64_t window) { return spfgen_spread_int32(a, n, window); }"
    asked = load(build(text, optimise=False)).asked
    given = np.ascontiguousarray(numbers, np.int32)
    count, window = ctypes.c_int64(len(given)), ctypes.c_int64(32)
    assert asked(given.ctypes.data_as(ctypes.c_void_p), count, window) == spread


@pytest.mark.parametrize("kind", ["random", "band", "one column", "few"])
@pytest.mark.parametrize("layout", ["csr", "ell", "csr_unsorted"])
def test_results(kind: str, layout: str) -> None:
    """Whether rows are fetched or not: samples that say so, and such as do not."""
    rng = np.random.default_rng(3)
    full = rng.integers(1, 9, (70, 90)).astype(float)
    kept = {
        "random": rng.random(full.shape) < 0.2,
        "band": np.abs(np.arange(90) - np.arange(70)[:, None]) < 5,
        "one column": np.arange(90) == np.full((70, 1), 17),
        "few": rng.random(full.shape) < 0.002,
    }[kind]
    a = csr_array(np.where(kept, full, 0))
    for columns in (16, 17, 64, 100, 300):
        b = rng.integers(-4, 5, (90, columns)).astype(float)
        for threads in (1, 3):
            product = spfgen.compile(PRODUCT, A=layout, B="dense", C="dense", threads=threads)
            assert np.array_equal(product(A=a, B=b), a @ b), (columns, threads)
