"""Positions of one place that lie side by side."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import coo_array

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import Scan


@pytest.mark.parametrize(
    ("statement", "layouts", "keys"),
    [
        ("y[i] = A[i,j]*x[j]", {"A": "coo", "x": "dense", "y": "dense"}, 1),
        ("C[i,j] = A[i,j,k]*x[k]", {"A": "coo", "x": "dense", "C": "dense"}, 2),
        ("y[i] = A[i,j]*x[j]", {"A": "coo_unsorted", "x": "dense", "y": "dense"}, 0),
        ("y[j] = A[i,j]*x[i]", {"A": "coo", "x": "dense", "y": "dense"}, 0),  # columns come in no order
        ("y[i] = A[i,j]*x[j]", {"A": "csr", "x": "dense", "y": "dense"}, 0),  # has a sum anyway
    ],
)
def test_where_there_are_runs(statement: str, layouts: dict[str, str], keys: int) -> None:
    kernel = spfgen.compile(statement, **layouts)
    found = [
        len(n.segment_keys) for p in kernel.generated.plans for n in walk(p) if isinstance(n, Scan) and n.segment_keys
    ]
    assert found == ([keys] if keys else [])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kind", [np.float64, np.bool_, np.int8])
def test_results(kind: type, threads: int) -> None:
    """No entry, one, and runs of each length, up to one that all threads share."""
    kernel = spfgen.compile("y[i] = A[i,j]*x[j]", A="coo", x="dense", y="dense", threads=threads)
    assert "spfgen_predictable_segments_int32" in kernel.source
    for lengths in (
        [],
        [0, 0],
        [1],
        [0, 1, 0],
        [3, 0, 1, 1, 2, 9, 0],
        [1, 20_000, 2],
        [17, 4, 0, 8, 1, 3, 40] * 6,
        [31] * 40,
        [5] * 300,
        [1] * 1100,
        [1, 2, 0, 3, 1, 5, 2, 4] * 80,
    ):
        dense = np.zeros((len(lengths), 20_000), kind)
        for row, length in enumerate(lengths):
            dense[row, :length] = 1
        x = (np.arange(20_000) % 3 == 0).astype(kind)
        assert np.array_equal(kernel(A=spfgen.pack(dense, "coo"), x=x), dense @ x)


def in_fours(values: np.ndarray) -> float:
    """The first value, then four at a time in turn for two sums, then the others."""
    total, at = values[0], 1
    for at in range(1, len(values) - 3, 4):
        total += (values[at] + values[at + 2]) + (values[at + 1] + values[at + 3])
    rest = values[1 + (len(values) - 1) // 4 * 4 :]
    return float(total + sum(rest[1:], rest[0])) if len(rest) else float(total)


@pytest.mark.parametrize(
    ("lengths", "summed"),
    [
        ([5] * 300, True),
        ([40, 9, 75, 20, 33] * 60, True),
        ([6, 3, 7, 4, 2, 5, 3, 6, 2] * 60, False),
        ([5] * 30, False),  # too few to look
    ],
)
def test_only_runs_whose_ends_are_foreseen_are_summed(lengths: list[int], summed: bool) -> None:
    """Which sums there are shows in what is rounded."""
    kernel = spfgen.compile("y[i] = A[i,j]*x[j]", A="coo", x="dense", y="dense", threads=1)
    pointer = np.cumsum([0, *lengths])
    values = np.random.default_rng(3).normal(size=pointer[-1])
    columns = np.concatenate([np.arange(n) for n in lengths])
    rows = [values[a:b] for a, b in pairwise(pointer)]
    result = kernel(A=coo_array((values, (np.repeat(np.arange(len(rows)), lengths), columns))), x=np.ones(max(lengths)))
    orders = [[in_fours(row) for row in rows], [sum(row[1:], row[0]) for row in rows]]
    assert [np.array_equal(result, order) for order in orders] == [summed, not summed]


@pytest.mark.parametrize("longest", [3, 60])
def test_places_of_two_subscripts(longest: int) -> None:
    """Runs begin anew where the first subscript changes and the second does not; values that are no numbers stay in the
    run that has them."""
    kernel = spfgen.compile("C[i,j] = A[i,j,k]*x[k]", A="coo", x="dense", C="dense", threads=2)
    rng = np.random.default_rng(2)
    lengths = rng.integers(0, longest + 1, (30, 3))
    dense = np.where(np.arange(60) < lengths[..., None], rng.integers(1, 5, (30, 3, 60)), 0.0)
    dense[7, 1, 0] = np.inf
    assert np.array_equal(kernel(A=spfgen.pack(dense, "coo"), x=np.ones(60)), dense.sum(axis=2))
