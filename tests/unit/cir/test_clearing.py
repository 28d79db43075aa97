"""A large result to which little is added is cleared before the loop that would clear it part by part."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import spfgen

PRODUCT = "C[i,k] = A[i,j]*B[j,k]"
SIZE = 2_900
"""Its square has 64 MB of numbers."""


@pytest.mark.parametrize(("layout", "threads"), [("csr", 1), ("csr", 3), ("coo", 2), ("dcsr", 2), ("bcsr", 3)])
def test_all_places_are_cleared(layout: str, threads: int) -> None:
    """Whether it is cleared as a whole or not, nothing of what was there is left."""
    kernel = spfgen.compile(PRODUCT, A=layout, B="csr", C="dense", threads=threads)
    assert "if (!C_cleared)" in kernel.source
    assert "#pragma omp parallel for schedule(static)" in kernel.source
    rng = np.random.default_rng(1)
    # With few entries it is, with some more it is not, but for many additions to few places; a narrow one is small.
    for entries, columns, most in ((300, SIZE, SIZE), (SIZE * 16, SIZE, SIZE), (SIZE * 8, SIZE, 40), (300, 7, SIZE)):
        rows, cols = rng.integers(0, SIZE // 2, entries), rng.integers(0, min(most, SIZE // 2), entries)
        a = csr_array((np.ones(entries), (rows, cols)), shape=(SIZE, SIZE))
        a.sum_duplicates()
        b = a[:, :columns] if columns < SIZE else a
        c = np.full((SIZE, columns), np.nan)
        kernel.bind(A=spfgen.pack(a, layout), B=spfgen.pack(csr_array(b), "csr"), C=c)()
        expected = (a @ b).tocoo()
        assert np.array_equal(c[expected.coords], expected.data)
        assert np.count_nonzero(c) == np.count_nonzero(expected.data)


def test_what_is_cleared_first_counts_for_no_part() -> None:
    """Parts are shared out by what they clear only where they do."""
    source = spfgen.compile(PRODUCT, A="csr", B="csr", C="dense").source
    assert "nrow, C_cleared ? 1 : i_cost," in source


def test_vectors_are_left_as_they_are() -> None:
    """A vector is not read before it is cleared: its neighbours are cleared with it."""
    kernel = spfgen.compile("y[i] = A[i,j]*x[j]", A="dcsr", x="dense", y="dense")
    assert "y_cleared" not in kernel.source
