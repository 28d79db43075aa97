"""Positions of one place that lie side by side."""

from __future__ import annotations

import numpy as np
import pytest

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
    found = [len(n.runs) for p in kernel.generated.plans for n in walk(p) if isinstance(n, Scan) and n.runs]
    assert found == ([keys] if keys else [])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kind", [np.float64, np.bool_, np.int8])
def test_results(kind: type, threads: int) -> None:
    """No entry, one, and runs of each length, up to one that all threads share."""
    kernel = spfgen.compile("y[i] = A[i,j]*x[j]", A="coo", x="dense", y="dense", threads=threads)
    assert "spfgen_long_runs_int32" in kernel.source
    for lengths in (
        [],
        [0, 0],
        [1],
        [0, 1, 0],
        [3, 0, 1, 1, 2, 9, 0],
        [1, 20_000, 2],
        [17, 4, 0, 8, 1, 3, 40] * 6,
        [31] * 9,
    ):
        dense = np.zeros((len(lengths), 20_000), kind)
        for row, length in enumerate(lengths):
            dense[row, :length] = 1
        x = (np.arange(20_000) % 3 == 0).astype(kind)
        assert np.array_equal(kernel(A=spfgen.pack(dense, "coo"), x=x), dense @ x)


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
