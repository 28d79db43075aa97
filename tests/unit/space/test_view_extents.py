"""Extents that views make of others: those of results and of parts, of nothing too; and what a call says otherwise."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import spfgen
from spfgen.errors import DataError, UsageError

SUM_AND_MORE = "R[i] = concat((sum(k: split(T[o], o -> (m, k))*W[k]), L[n]), (m, n) -> i)"


@pytest.mark.parametrize(("whole", "part", "rows"), [(8, 2, 4), (0, 2, 0), (0, 0, 0), (0, 0, 3)])
def test_what_a_split_gives_goes_into_a_concatenation(whole: int, part: int, rows: int) -> None:
    """The caller says how many parts of nothing there are, in C too, and may say how many parts there are of others."""
    t, w = np.arange(float(whole)), np.ones(part)
    for sizes in ({"m": rows}, {} if part else {"m": rows}):
        found = spfgen.evaluate(SUM_AND_MORE, T=t, W=w, L=np.ones(2), sizes=sizes)
        np.testing.assert_array_equal(found, [*t.reshape(rows, part).sum(1), 1, 1])


def test_parts_of_nothing_must_be_said() -> None:
    with pytest.raises(UsageError, match="expected the extent of `m`"):
        spfgen.evaluate(SUM_AND_MORE, T=np.ones(0), W=np.ones(0), L=np.ones(2))


@pytest.mark.parametrize(
    ("whole", "part", "sizes", "text"),
    [
        (8, 2, {"m": 3}, "T.n_1 is 8 and m_extent*W.n_1 is 6"),
        (0, 2, {"m": 3}, "T.n_1 is 0 and m_extent*W.n_1 is 6"),
        (0, 0, {"m": 3, "i": 4}, "R.n_1 is 4 and m_extent + L.n_1 is 5"),
        (7, 2, {}, "T.n_1 is 7 and m_extent*W.n_1 is 6"),
    ],
)
def test_extents_that_are_not_so(whole: int, part: int, sizes: Mapping[str, int], text: str) -> None:
    with pytest.raises(DataError) as caught:
        spfgen.evaluate(SUM_AND_MORE, T=np.ones(whole), W=np.ones(part), L=np.ones(2), sizes=sizes)
    assert f"expected extents that agree, but {text}" in str(caught.value)


def test_another_operand_says_what_parts_of_nothing_leave_open() -> None:
    text = "R[i, j] = concat((split(T[n], n -> (i, k))*A[i, k], B[i, l]), (k, l) -> j)"
    found = spfgen.evaluate(text, T=np.ones(0), A=np.ones((4, 0)), B=np.ones((4, 2)))
    np.testing.assert_array_equal(found, np.ones((4, 2)))


def test_coordinates_of_a_table_of_entries_lie_within_the_extents() -> None:
    """So what is computed of them fits in 64 bits for all extents that memory can hold."""
    kernel = spfgen.compile("R[i, j] = max(T[i, j]*S[i, j], 0)", T="coo_unsorted", S="sym_lower", R="csr")
    assert kernel.program.limits.safe >= 2**15
    t, s = np.arange(9.0).reshape(3, 3), np.array([[1.0, 2, 0], [2, 0, 3], [0, 3, 4]])
    found = kernel(T=spfgen.pack(t, "coo_unsorted"), S=spfgen.pack(s, "sym_lower"))
    np.testing.assert_array_equal(found.to_numpy(), t * s)
