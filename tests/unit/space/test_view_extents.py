"""Extents that views make of others: those of results and of parts, of nothing too; and what a call says otherwise."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import spfgen
from spfgen.errors import DataError

SUM_AND_MORE = "R[i] = concat((sum(k: split(T[o], o -> (m, k))*W[k]), L[n]), (m, n) -> i)"


@pytest.mark.parametrize(("whole", "part"), [(8, 2), (0, 2), (0, 0)])
def test_what_a_split_gives_goes_into_a_concatenation(whole: int, part: int) -> None:
    """A whole of nothing has no parts of nothing."""
    t, w = np.arange(float(whole)), np.ones(part)
    rows = t.reshape(-1, part).sum(1) if part else []
    found = spfgen.evaluate(SUM_AND_MORE, T=t, W=w, L=np.ones(2))
    np.testing.assert_array_equal(found, [*rows, 1, 1])


@pytest.mark.parametrize(
    ("whole", "part", "sizes", "text"),
    [
        (8, 2, {"m": 3}, "`m` is 3 and floor(T.n_1/W.n_1) is 4"),
        (0, 0, {"m": 3}, "`m` is 3 and floor(T.n_1/W.n_1) is 0"),
        (0, 0, {"i": 5}, "R.n_1 is 5 and floor(T.n_1/W.n_1) + L.n_1 is 2"),
        (7, 2, {}, "T.n_1 is 7 and floor(T.n_1/W.n_1)*W.n_1 is 6"),
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
