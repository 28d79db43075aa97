"""Sizes with which what is computed of them would leave 64 bits: refused, or right, never wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen.errors import DataError

N = 2**63 - 1


def coo(shape: int, **entries: float) -> spfgen.Tensor:
    places = np.array([int(k[1:]) for k in entries], np.int64)
    return spfgen.pack((places.reshape(1, -1), np.array(list(entries.values()))), "coo", shape=(shape,))


def at(shape: int, *places: int) -> spfgen.Tensor:
    return coo(shape, **{f"_{p}": 3.0 for p in places})


SPEC = spfgen.parse("""
kernel above { tensor A : csr  tensor y : dense  size n  y[i] = A[i, j] where 2*n <= i }
kernel shifted { tensor A : csr  tensor y : dense  size n  y[i] = A[i, j] where j <= i + n }
layout fourfold(n) {
    size m
    relation { [p] -> [i] : 0 <= p < m and i = 4*at(p) }
    index at[m] { range 0 <= at(p) < n }
    value val[m] at [p]
}
layout undeclared(n) {
    size m
    relation { [p] -> [i] : 0 <= p < m and i = 4*at(p) }
    index at[m] { }
    value val[m] at [p]
}
""")
ONES = spfgen.pack(np.ones((4, 4)), "csr")
SMALL = at(100, 0, 3, 20)


def sized(name: str, n: int) -> Any:
    return SPEC.kernels[name].compile(threads=1)(A=ONES, n=n)


REFUSED: list[tuple[str, Callable[[], Any]]] = [
    ("4*i", lambda: spfgen.evaluate("s = A[i]*B[4*i]", A=at(2**62 + 10, 2**62 + 5), B=SMALL)),
    ("2*i", lambda: spfgen.evaluate("s = A[i]*B[2*i + 4]", A=at(N, N - 1), B=SMALL)),
    ("i + 3", lambda: spfgen.evaluate("s = A[i]*x[i + 3]", A=at(N, N - 1), x=np.arange(10.0))),
    ("2*i", lambda: spfgen.evaluate("y[2*i + 4] = A[i]", A=at(N, N - 1), y=np.zeros(10))),
    ("2*n", lambda: sized("above", 2**62)),
    ("n + i", lambda: sized("shifted", N)),
    ("A.ncol + 1", lambda: spfgen.evaluate("s = A[i, j]", A=spfgen.tensor("band", shape=(3, N), val=np.ones((3, 3))))),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("expr", "run"), REFUSED)
def test_what_would_wrap_around_is_refused(expr: str, run: Callable[[], Any]) -> None:
    with pytest.raises(DataError, match="fits in 64 bits") as caught:
        run()
    assert expr in caught.value.message
    assert any("make the extents smaller" in note for note in caught.value.notes)


def test_the_same_with_sizes_that_fit() -> None:
    large = 2**61
    assert spfgen.evaluate("s = A[i]*B[4*i]", A=at(large, 5, large - 1), B=SMALL) == 9.0
    assert spfgen.evaluate("s = A[i]*x[i + 3]", A=at(large, 2, large - 1), x=np.arange(10.0)) == 15.0
    assert sized("above", 2**61).tolist() == [0.0] * 4
    assert sized("shifted", 2**62).tolist() == [4.0] * 4
    assert spfgen.evaluate("s = A[i, j]", A=spfgen.tensor("band", shape=(3, large), val=np.ones((3, 3)))) == 8.0


@pytest.mark.parametrize("layout", ["fourfold", "undeclared"])
def test_what_an_index_array_holds_counts(layout: str) -> None:
    """Four times 2^62 + 5 is 20 in 64 bits. Where the array declares no range, its numbers say how far it reaches."""
    handle = SPEC.layouts[layout]
    shape = (2**62 + 10,)
    far = spfgen.tensor(handle, shape=shape, at=np.array([3, 2**62 + 5]), val=np.ones(2))
    with pytest.raises(DataError, match="fits in 64 bits"):
        spfgen.evaluate("s = A[i]", A=far)
    with pytest.raises(DataError, match="fits in 64 bits"):
        far.to_coo()
    near = spfgen.tensor(handle, shape=(2**61,), at=np.array([3, 2**59 - 1]), val=np.ones(2))
    assert spfgen.evaluate("s = A[i]", A=near) == 2.0
    assert near.to_coo().coords[0].tolist() == [12, 2**61 - 4]


def test_memory_for_parts_of_a_result_without_rows() -> None:
    """So many threads times 2^59 places is no number of 64 bits: there is no memory for it, and nothing is written."""
    kernel = spfgen.compile("C[i, j] = A[i, k]*B[k, j]", A="csr", B="dense", C="dense", threads=16)
    empty = spfgen.pack(np.zeros((0, 0)), "csr")
    with pytest.raises(DataError, match="memory"):
        kernel(A=empty, B=np.zeros((0, 2**59)), C=np.zeros((0, 2**59)))


def test_the_header_says_up_to_which_sizes_it_is_good() -> None:
    plain = spfgen.compile("y[i] = A[i, j]*x[j]", A="csr", x="dense", y="dense")
    assert "2^62:" in plain.header
    steep = spfgen.compile("s = A[i]*B[2147483647*i]", A="coo<double, int64>", B="coo<double, int64>")
    assert "2^31:" in steep.header
