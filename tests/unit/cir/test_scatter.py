"""Loops that add to places which an array names are written out four at a time."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.sparse import csr_array

import spfgen

PRODUCT = "C[i,k] = A[i,j]*B[j,k]"


def rows_of(lengths: range) -> np.ndarray:
    """A matrix whose rows have so many entries, anywhere."""
    rng = np.random.default_rng(1)
    return np.array(
        [rng.permuted(np.arange(len(lengths)) < n) * rng.integers(1, 9, len(lengths)) for n in lengths], float
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_segments_of_all_lengths(threads: int) -> None:
    """From none to some more than twice as many as are done at a time."""
    a = rows_of(range(11))
    kernel = spfgen.compile(PRODUCT, A="csr", B="csr", C="dense", threads=threads)
    assert "+ 4 <= B_pj_end" in kernel.source
    for left, right in ((a, a), (a.T, a), (a[:0], a), (a[:, :0], a[:0]), (a, a[:, :0]), (a[3:5], np.zeros_like(a))):
        found = kernel(A=spfgen.pack(left, "csr"), B=spfgen.pack(right, "csr"))
        assert np.array_equal(found, left @ right)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("left", ["csr", "coo"])
def test_positions_that_are_found(left: str, threads: int) -> None:
    """As many of one key as there may be, none of the first and the last too."""
    a = rows_of(range(11))
    kernel = spfgen.compile(PRODUCT, A=left, B="coo", C="dense", threads=threads, schedule="find B.p : array")
    assert re.search(r"_next \+ 4 <= \w+_after", kernel.source)
    for one, two in ((a, a), (a.T, a), (a, a[::-1]), (a[:0], a), (a[:, :0], a[:0]), (a, a[:, :0]), (a[:, 3:5], a[3:5])):
        found = kernel(A=spfgen.pack(one, left), B=spfgen.pack(two, "coo"))
        assert np.array_equal(found, one @ two)
    b = a.copy()
    b[[0, 4, 10]], b[2, 2] = 0, np.inf  # what is not stored adds nothing, whatever it would be multiplied with
    with np.errstate(invalid="ignore"):
        wanted = np.where((a[:, :, None] != 0) & (b != 0), a[:, :, None] * b, 0).sum(axis=1)
    assert np.array_equal(kernel(A=spfgen.pack(a, left), B=spfgen.pack(b, "coo")), wanted)


def test_only_places_that_an_array_names() -> None:
    """A sum and neighbouring places are as good as they are."""
    for text, layouts in (
        ("y[i] = A[i,j]*x[j]", {"A": "csr", "x": "dense", "y": "dense"}),
        ("C[i,k] = A[i,j]*B[j,k]", {"A": "csr", "B": "dense", "C": "dense"}),
    ):
        assert "in each round" not in spfgen.compile(text, **layouts, threads=1).source
    assert "in each round" in spfgen.compile("y[i] = A[i,j]*x[j]", A="csc", x="dense", y="dense", threads=1).source


def test_a_schedule_may_say_otherwise() -> None:
    source = spfgen.compile(PRODUCT, A="csr", B="csr", C="dense", schedule="unroll B.pj by 2").source
    assert "_next + 2 <=" in source
    assert "_next + 4" not in source


@pytest.mark.parametrize(("kind", "right"), [(np.float32, "csr"), (np.float64, "coo"), (np.int32, "csr")])
def test_places_that_differ(kind: type, right: str) -> None:
    """Rows that rise never name a place twice: four places are read before the first of them is stored."""
    a = rows_of(range(18)).astype(kind)
    kernel = spfgen.compile(PRODUCT, A="csr", B=right, C="dense", threads=1)
    assert "C_values[1] = C_val[" in kernel.source
    for one, two in ((a, a), (a.T, a), (a[:, 11:15], a[11:15])):
        found = kernel(A=spfgen.pack(one, "csr"), B=spfgen.pack(two, right))
        assert found.dtype == kind
        assert np.array_equal(found, one @ two)


def test_places_that_may_be_the_same() -> None:
    """What stands twice in a row adds up."""
    b = csr_array(([1.0, 2, 3, 4, 5, 6, 7, 8], [2, 0, 2, 2, 0, 2, 1, 1], [0, 8]), shape=(1, 3))
    a = np.array([[1.0], [0], [2]])
    kernel = spfgen.compile(PRODUCT, A="csr", B="csr_unsorted", C="dense", threads=1)
    assert "C_values" not in kernel.source
    assert np.array_equal(kernel(A=spfgen.pack(a, "csr"), B=b), a @ b.toarray())
