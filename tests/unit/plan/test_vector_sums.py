"""Vectors of sums for small dense blocks: where they are used, and what they add up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import spfgen
from spfgen.errors import InternalError
from spfgen.ir import rewrite, walk
from spfgen.plan.nodes import PLANS, Accumulate, Products, Registers, Scan
from spfgen.plan.verify.meaning import check_nest

STATEMENT = "y[i] = A[i,j]*x[j]"
BLOCKS = """
layout own(nrow, ncol; R = 2, C = 4) {
    size nb
    relation { [bi, pb, r, c] -> [i, j] :
        0 <= R*bi < nrow and browptr(bi) <= pb < browptr(bi + 1) and 0 <= r < R and 0 <= c < C
        and i = R*bi + r and j = C*bcolidx(pb) + c }
    index browptr[ceil(nrow/R) + 1] {
        range 0 <= browptr(p) <= nb
        property increasing
        property browptr(0) = 0
        property browptr(ceil(nrow/R)) = nb
    }
    index bcolidx[nb] { range 0 <= RANGE < ncol }
    value val[nb, R, C] at [pb, r, c]
}
kernel k { tensor A : own tensor x, y : dense y[i] = A[i,j]*x[j] }
"""


def lanes(kernel: spfgen.Kernel) -> list[int]:
    """How many lanes the vectors of sums have."""
    nodes = (n.storage for p in kernel.generated.plans for n in walk(p, PLANS) if isinstance(n, Accumulate))
    return [s.lanes for s in nodes if isinstance(s, Registers) and s.lane]


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("bcsr(R=4,C=4)", [4]),
        ("bcsr(R=2,C=3)", [3]),
        ("bcsr(R=16,C=8)", []),  # more sums than registers hold
        ("csr", []),
    ],
)
def test_which_blocks_have_them(layout: str, expected: list[int]) -> None:
    assert lanes(spfgen.compile(STATEMENT, A=layout, x="dense", y="dense")) == expected


@pytest.mark.parametrize(("range_", "expected"), [("C*bcolidx(p)", [4]), ("bcolidx(p)", [])])
def test_that_all_blocks_are_whole_is_proved(range_: str, expected: list[int]) -> None:
    """C may divide the size, and a block lie beyond it all the same."""
    kernel = spfgen.parse(BLOCKS.replace("RANGE", range_)).kernels["k"]
    assert lanes(kernel.compile()) == expected


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64, np.complex128])
@pytest.mark.parametrize("op", ["=", "+="])
def test_sums(kind: type, op: str) -> None:
    """Columns that are whole blocks, and some too many; rows of blocks that are empty."""
    rng = np.random.default_rng(7)
    kernel = spfgen.compile(f"y[i] {op} A[i,j]*x[j]", A="bcsr(R=3,C=4)", x="dense", y="dense")
    for shape in [(0, 8), (3, 0), (3, 4), (7, 8), (9, 12), (9, 11)]:
        dense = (rng.integers(1, 9, shape) * (rng.random(shape) < 0.4)).astype(kind)
        dense[3:6] = 0
        x, y = rng.integers(0, 9, shape[1]).astype(kind), rng.integers(0, 9, shape[0]).astype(kind)
        given = y.copy()
        result = kernel(A=spfgen.pack(dense, "bcsr", R=3, C=4), x=x, y=given)
        assert np.array_equal(given if result is None else result, dense @ x + (y if op == "+=" else 0))


@pytest.mark.parametrize("pieces", [(2,), (2, 2), (4,)])
def test_pieces_that_are_not_the_loop_are_noticed(pieces: tuple[int, ...]) -> None:
    """Three lanes are a vector of two, and one more."""
    kernel = spfgen.compile(STATEMENT, A="bcsr(R=2,C=3)", x="dense", y="dense")
    ((plan,), (group,)) = kernel.generated.plans, kernel.generated.program.groups
    (instance,) = group.instances
    found = [n.pieces for n in walk(plan, PLANS) if isinstance(n, Scan) and n.pieces]
    assert set(found) == {(2, 1)}
    assert isinstance(plan, Products)
    check_nest(instance, plan.body)
    wrong = rewrite(lambda n: replace(n, pieces=pieces) if isinstance(n, Scan) and n.pieces else None, plan.body, PLANS)
    with pytest.raises(InternalError, match="pieces"):
        check_nest(instance, wrong)
