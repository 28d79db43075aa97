"""Small dense blocks: sums in registers, whole blocks and those at the edge."""

from __future__ import annotations

import numpy as np
import pytest

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import Accumulate, Plan, Registers, Version
from spfgen.run.calls.count import count_operations

STATEMENT = "y[i] = A[i,j]*x[j]"


def found(kernel: spfgen.Kernel) -> tuple[list[int], list[int]]:
    """How many sums there are, and how many conditions for whole blocks; without those that are vectors
    (test_vector_sums.py)."""
    nodes = [n for p in kernel.generated.plans for n in walk(p)]
    blocks = [n.count for n in nodes if isinstance(n, Registers) and not n.lane]
    special = [n for n in nodes if isinstance(n, Version) and isinstance(n.when, tuple) and n.when]
    return blocks, [len(v.when) for v in special if not _is_vector(v.body)]


def _is_vector(plan: Plan) -> bool:
    return isinstance(plan, Accumulate) and isinstance(plan.storage, Registers) and bool(plan.storage.lane)


@pytest.mark.parametrize(
    ("statement", "layouts", "sums", "wholes"),
    [
        (STATEMENT, {"A": "bcsr(R=3,C=2)", "x": "dense", "y": "dense"}, [3], 2),
        (STATEMENT, {"A": "bcsr(R=8,C=1)", "x": "dense", "y": "dense"}, [8], 1),  # its only column needs no loop
        (STATEMENT, {"A": "sell(C=4)", "x": "dense", "y": "dense"}, [4], 1),
        (STATEMENT, {"A": "bcsr(R=17,C=2)", "x": "dense", "y": "dense"}, [], 0),  # too many for registers
        (STATEMENT, {"A": "csr", "x": "dense", "y": "dense"}, [], 0),
        ("y[j] = A[i,j]*x[i]", {"A": "bcsr(R=3,C=2)", "x": "dense", "y": "dense"}, [2], 1),  # in each block anew
        ("C[i,k] = A[i,j]*B[j,k]", {"A": "bcsr(R=2,C=2)", "B": "dense", "C": "dense"}, [], 0),  # whole rows
    ],
)
def test_where_there_are_sums(statement: str, layouts: dict[str, str], sums: list[int], wholes: int) -> None:
    count, conditions = found(spfgen.compile(statement, **layouts))
    assert count == sums
    assert len(conditions) == wholes


def test_a_schedule_keeps_its_loops() -> None:
    kernel = spfgen.compile(STATEMENT, A="bcsr(R=2,C=2)", x="dense", y="dense", schedule="unroll A.r by 2")
    assert found(kernel) == ([], [])


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("layout", "kind", "op"),
    [
        ("bcsr(R=3,C=2)", np.float64, "="),
        ("bcsr(R=2,C=3)", np.float64, "+="),
        ("bcsr(R=4,C=4)", np.float64, "="),
        ("bcsr(R=1,C=7)", np.float64, "="),
        ("bcsr(R=2,C=5)", np.float32, "+="),
        ("bcsr(R=2,C=2)", np.complex64, "+="),
        ("bcsr(R=2,C=2)", np.bool_, "="),
        ("sell(C=4)", np.int32, "="),
        ("sell(C=4)", np.float32, "+="),
    ],
)
def test_results(layout: str, kind: type, op: str) -> None:
    """Rows and columns that are whole blocks, and one or two too many or too few; blocks of rows that are empty."""
    rng = np.random.default_rng(3)
    kernel = spfgen.compile(f"y[i] {op} A[i,j]*x[j]", A=layout, x="dense", y="dense")
    for shape in [(0, 0), (1, 1), (6, 6), (7, 6), (8, 9), (9, 7), (12, 1), (1, 12)]:
        dense = (rng.integers(1, 5, shape) * (rng.random(shape) < 0.4)).astype(kind)
        dense[4:8] = 0
        x = rng.integers(0, 3, shape[1]).astype(kind)
        y = rng.integers(0, 2, shape[0]).astype(kind)
        expected = dense @ x if op == "=" else y + dense @ x if kind != np.bool_ else y | (dense @ x)
        given = y.copy() if op == "+=" else np.ones(shape[0], kind)
        result = kernel(A=dense, x=x, y=given)
        assert np.array_equal(given if result is None else result, expected)


@pytest.mark.parametrize("threads", [2, 7])
def test_rows_of_blocks_that_threads_share(threads: int) -> None:
    """One row of blocks has nearly all of them."""
    dense = np.zeros((9, 6000))
    dense[3], dense[0, 0], dense[8, 5999] = np.arange(6000) % 5 + 1, 2, 3
    x = (np.arange(6000) % 3).astype(float)
    kernel = spfgen.compile(STATEMENT, A="bcsr(R=2,C=2)", x="dense", y="dense", threads=threads)
    assert np.array_equal(kernel(A=spfgen.pack(dense, "bcsr", R=2, C=2), x=x), dense @ x)


def test_operations_are_those_of_the_matrix() -> None:
    """Counting runs each term once."""
    dense = np.ones((5, 7))
    kernel = spfgen.compile(STATEMENT, A="bcsr(R=2,C=2)", x="dense", y="dense")
    matrix = spfgen.pack(dense, "bcsr", R=2, C=2)
    bound = kernel.bind(A=matrix, x=np.ones(7), y=np.zeros(5))
    assert count_operations(kernel, bound) == 2 * 35
