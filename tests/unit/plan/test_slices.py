"""Rows that are stored in slices, in an order of their own: summed side by side, where that is proved right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import spfgen
from spfgen.catalogue import source_text

SPMV = "y[i] = A[i, j]*x[j]"
LAYOUT = "sell_sigma(C=4, sigma=8)"


def kernel(statement: str = SPMV, layout: Any = LAYOUT, **more: Any) -> Any:
    return spfgen.compile(statement, A=layout, x="dense", y="dense", **more)


def matrix(rows: int, columns: int, density: float, seed: int = 0) -> Any:
    return scipy.sparse.random_array((rows, columns), density=density, format="csr", rng=np.random.default_rng(seed))


def test_a_slice_has_its_sums_in_registers() -> None:
    source = kernel().source
    assert "4 sums, in registers" in source
    assert "% 4" not in source.partition("4 sums, in registers")[2].partition("else")[0]
    assert "A_perm[4 * q_slice + q_own]" in source


@pytest.mark.sampled(1)
@pytest.mark.parametrize("threads", [1, 2, 4, 7])
@pytest.mark.parametrize("statement", [SPMV, "y[i] += A[i, j]*x[j]"])
def test_results(statement: str, threads: int) -> None:
    """Fewer rows than a slice, a last slice that is not whole, empty slices, a row that is long."""
    multiply = kernel(statement, threads=threads)
    for rows, columns, density in ((0, 0, 1.0), (1, 1, 1.0), (3, 5, 0.5), (8, 3, 0.0), (41, 300, 0.2), (3000, 20, 0.3)):
        given = matrix(rows, columns, density).tolil()
        if rows == 41:
            given[17] = 1.0
        given = given.tocsr()
        x, y = np.arange(1.0, columns + 1), np.ones(rows)
        expected = given @ x + ("+=" in statement)
        assert np.allclose(multiply(A=given, x=x, y=y), expected)


def test_places_that_are_not_read_meet_no_infinity() -> None:
    given, x = matrix(30, 9, 0.3), np.ones(9)
    x[0] = np.inf
    assert np.array_equal(kernel()(A=given, x=x), given @ x)


def test_rows_that_may_come_twice_are_not_summed_in_slices() -> None:
    """Slices may then add to one place: the order of rows is kept, and threads do not meet."""
    text = source_text("sell_sigma").replace("property injective", "").replace("sell_sigma", "twice")
    text = text.replace("    pack q by floor(i/sigma), -count(i), i\n", "")
    twice = spfgen.parse(text).layouts["twice"](C=2, sigma=2)
    assert "in registers" not in kernel(layout=twice).source
    tensor = spfgen.tensor(
        twice,
        shape=(3, 2),
        perm=np.array([1, 1, 1]),
        sliceptr=np.array([0, 1, 2]),
        colidx=np.array([[0, 1], [1, -1]]),
        val=np.array([[2.0, 3.0], [5.0, 7.0]]),
    )
    for threads in (1, 2):
        found = kernel(layout=twice, threads=threads)(A=tensor, x=np.array([1.0, 10.0]))
        assert found.tolist() == [0.0, 82.0, 0.0]
