"""Results that are gone through again and again, block by block."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.sparse import dia_array, diags_array

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import Ahead, Scan
from spfgen.tuning import BLOCK_PLACES, PREFETCH_VALUES

STATEMENT = "y[i] = A[i,j]*x[j]"


def loops(kernel: spfgen.Kernel) -> list[str]:
    return [n.dim for p in kernel.generated.plans for n in walk(p) if isinstance(n, Scan)]


@pytest.mark.parametrize(
    ("statement", "layouts", "wanted"),
    [
        (STATEMENT, {"A": "dia", "x": "dense", "y": "dense"}, True),
        (STATEMENT, {"A": "csr", "x": "dense", "y": "dense"}, False),  # each place is written once
        (STATEMENT, {"A": "csc", "x": "dense", "y": "dense"}, False),  # the places come in no order
        (STATEMENT, {"A": "diagonal", "x": "dense", "y": "dense"}, False),  # gone through once
        ("y[j] = A[i,j]*x[i]", {"A": "dia", "x": "dense", "y": "dense"}, True),
        ("y[j] = A[i,j]*x[i]", {"A": "vbl", "x": "dense", "y": "dense"}, False),  # runs of any length
        ("y[j] = A[i,j]*x[i]", {"A": "row_interval", "x": "dense", "y": "dense"}, False),
        ("C[i,k] = A[i,j]*B[j,k]", {"A": "dia", "B": "dense", "C": "dense"}, False),  # rows, not places
        ("s = A[i,j]*x[j]", {"A": "dia", "x": "dense"}, False),
    ],
)
def test_what_has_blocks(statement: str, layouts: dict[str, str], wanted: bool) -> None:
    kernel = spfgen.compile(statement, **layouts)
    assert any("block" in dim for dim in loops(kernel)) == wanted
    ahead = [n for p in kernel.generated.plans for n in walk(p) if isinstance(n, Ahead) and n.each]
    assert bool(ahead) == wanted
    if wanted:
        assert "parallel over" in kernel.source
        assert not re.search("omp atomic$", kernel.source, re.MULTILINE)


def test_the_schedule_of_a_person_stands() -> None:
    kernel = spfgen.compile(STATEMENT, A="dia", x="dense", y="dense", schedule="tile i by 32")
    assert not any("block" in dim for dim in loops(kernel))


def test_nothing_is_fetched_ahead_where_another_subscript_changes_in_the_loop() -> None:
    """The next value does not lie beside this one, and its subscripts are not known yet."""
    kernel = spfgen.compile("y[i] = B[i,j,i]*A[i + j,i]", A="csr_rle", B="dense", y="dense")
    assert not any(isinstance(n, Ahead) for p in kernel.generated.plans for n in walk(p))
    rng = np.random.default_rng(6)
    a, b = rng.integers(0, 3, (6, 4)).astype(float), rng.integers(1, 9, (4, 3, 4)).astype(float)
    wanted = [sum(b[i, j, i] * a[i + j, i] for j in range(3)) for i in range(4)]
    assert np.array_equal(kernel(A=spfgen.pack(a, "csr_rle"), B=b), wanted)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("rows", [0, 1, BLOCK_PLACES - 1, BLOCK_PLACES, BLOCK_PLACES + 1, 3 * BLOCK_PLACES + 5])
@pytest.mark.parametrize("more", [-7, 300])
def test_results(rows: int, more: int, threads: int) -> None:
    """Diagonals that begin or end within a block, and some outside of all but one."""
    columns = max(rows + more, 0)
    rng = np.random.default_rng(rows)
    offsets = [o for o in (-rows + 1, -BLOCK_PLACES, -3, 0, 1, BLOCK_PLACES - 1, columns - 1) if -rows < o < columns]
    a = dia_array((rng.integers(1, 9, (len(set(offsets)), columns)).astype(float), sorted(set(offsets))),
                  shape=(rows, columns))  # fmt: skip
    x, z = rng.integers(1, 9, columns).astype(float), rng.integers(1, 9, rows).astype(float)
    kernel = spfgen.compile(STATEMENT, A="dia", x="dense", y="dense", threads=threads)
    assert np.array_equal(kernel(A=a, x=x), a.toarray() @ x)
    kernel = spfgen.compile("y[j] = A[i,j]*x[i]", A="dia", x="dense", y="dense", threads=threads)
    assert np.array_equal(kernel(A=a, x=z), z @ a.toarray())


def test_large() -> None:
    """As much as it takes to fetch ahead."""
    size = PREFETCH_VALUES // 2
    a = dia_array(diags_array([np.ones(size), np.ones(size - 1)], offsets=[0, 1]))
    y = spfgen.compile(STATEMENT, A="dia", x="dense", y="dense")(A=a, x=np.ones(size))
    assert np.array_equal(y, np.append(np.full(size - 1, 2.0), 1.0))
