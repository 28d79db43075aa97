"""Tensors over the user's own arrays: sizes solved from lengths, and a clear message for whatever does not fit."""

from __future__ import annotations

import re

import numpy as np
import pytest

import spfgen
from spfgen.errors import DataError, UsageError

POINTERS = np.array([0, 2, 3], np.int32)
COLUMNS = np.array([0, 2, 1], np.int32)
VALUES = np.array([1.0, 2.0, 3.0])
DENSE = [[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]


def csr(**changes):
    """The matrix DENSE, with other arrays, shape or sizes; an array that is None is left out."""
    arguments = {"shape": (2, 3), "rowptr": POINTERS, "colidx": COLUMNS, "val": VALUES, **changes}
    return spfgen.tensor("csr", **{n: v for n, v in arguments.items() if v is not None})


def test_arrays_are_shared_and_sizes_solved() -> None:
    tensor = csr()
    assert tensor.sizes == {"nrow": 2, "ncol": 3, "nnz": 3}
    assert tensor.arrays["val"] is VALUES
    assert tensor.arrays["rowptr"] is POINTERS
    assert tensor.to_numpy().tolist() == DENSE
    assert repr(tensor).startswith("<spfgen.Tensor csr, 2 x 3, 3 stored, float64>\n")


@pytest.mark.parametrize(
    ("changes", "nnz"),
    [
        ({"shape": None, "sizes": {"ncol": 3}}, 3),
        ({"sizes": {"nnz": 3}}, 3),
        ({"sizes": {"nnz": np.int32(3), "nrow": 2}}, 3),
        ({"rowptr": [0, 2, 3], "colidx": [0, 2, 1], "val": [1, 2, 3]}, 3),
        ({"rowptr": POINTERS.astype(np.int64), "colidx": COLUMNS}, 3),
        ({"val": np.arange(6.0)[::2]}, 3),
        ({"shape": (0, 0), "rowptr": [0], "colidx": [], "val": []}, 0),
        ({"shape": (1, 1), "rowptr": [0, 1], "colidx": [0], "val": [4.0]}, 1),
    ],
)
def test_sizes(changes, nnz) -> None:
    assert csr(**changes).sizes["nnz"] == nnz


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"shape": None}, ["`ncol`", "shape="]),
        ({"shape": (3, 3)}, ["`rowptr`", "(4,)", "(3,)", "nrow is 3"]),
        ({"shape": (2,)}, ["2 extents", "`csr`"]),
        ({"shape": 2}, ["2 extents"]),
        ({"shape": (2, -3)}, ["`ncol`", "-3"]),
        ({"shape": (2, 3.0)}, ["integer", "`ncol`", "3.0"]),
        ({"shape": (2, None)}, ["integer", "`ncol`", "None"]),
        ({"shape": (2, 2**63)}, ["`ncol`", "2^63"]),
        ({"sizes": {"nnz": 4}}, ["`colidx`", "(4,)"]),
        ({"sizes": {"nnz": -3}}, ["`nnz`", "-3"]),
        ({"sizes": {"nnz": "x"}}, ["integer", "`nnz`", "'x'"]),
        ({"sizes": {"nnnz": 3}}, ["`nnnz`", "its sizes: nrow, ncol, nnz"]),
        ({"sizes": {"nrow": 4}}, ["`nrow`", "shape says 2 and sizes says 4"]),
        ({"val": None}, ["`val`", "missing", "its arrays: rowptr, colidx, val"]),
        ({"extra": [1]}, ["`extra`", "its arrays: rowptr, colidx, val"]),
        ({"rowptr": POINTERS[:2]}, ["`rowptr`", "(3,)", "(2,)", "rowptr[nrow + 1]"]),
        ({"rowptr": np.append(POINTERS, POINTERS[-1:])}, ["`rowptr`", "(3,)", "(4,)"]),
        ({"rowptr": np.array([0, 2, 2])}, ["`rowptr`", "rowptr(nrow) = nnz", "rowptr(2) = 2"]),
        ({"rowptr": np.array([0, -2, 3])}, ["`rowptr`", "0 <= rowptr(p)", "rowptr(1) = -2"]),
        ({"rowptr": np.array([1, 2, 3])}, ["`rowptr`", "rowptr(0) = 0", "rowptr(0) = 1"]),
        ({"colidx": np.array([0, -2, 1])}, ["`colidx`", "colidx(1) = -2"]),
        ({"colidx": np.array([0, 9, 1])}, ["`colidx`", "colidx(p) < ncol", "colidx(1) = 9", "ncol = 3"]),
        ({"colidx": np.array([2, 0, 1])}, ["`colidx`", "increasing", "colidx(0) = 2", "colidx(1) = 0"]),
        ({"colidx": np.array([2, 2, 1])}, ["`colidx`", "increasing", "colidx(0) = 2", "colidx(1) = 2"]),
        ({"colidx": np.array([0, 2, 1, 1])}, ["`val`", "(4,)", "nnz is 4 by the length of `colidx`"]),
        ({"colidx": COLUMNS.astype(float)}, ["`colidx`", "int32 or int64", "float64"]),
        ({"colidx": COLUMNS.astype(np.uint64)}, ["`colidx`", "uint64"]),
        ({"val": VALUES[:2]}, ["`val`", "(3,)", "(2,)"]),
        ({"val": VALUES.reshape(1, 3)}, ["`val`", "1 dimension,", "it has 2"]),
        ({"val": np.array([1, None, 3])}, ["`val`", "object"]),
        ({"val": VALUES.astype(np.float16)}, ["`val`", "float16", "astype('float64')"]),
        ({"val": ["a", "b", "c"]}, ["`val`", "str"]),
        ({"val": [[1], [2, 3]]}, ["`val`", "an array of numbers"]),
    ],
)
def test_what_does_not_fit(changes, words) -> None:
    with pytest.raises(DataError) as caught:
        csr(**changes)
    for word in words:
        assert word in str(caught.value)


def test_unaligned_and_foreign_arrays_are_copied() -> None:
    raw = np.zeros(25, np.uint8)[1:].view(np.float64)
    raw[:] = VALUES
    assert not raw.flags.aligned
    assert csr(val=raw).arrays["val"].flags.aligned
    assert csr(val=VALUES.astype(">f8")).to_numpy().tolist() == DENSE
    assert csr(colidx=COLUMNS.astype(">i4")).to_numpy().tolist() == DENSE


def test_rank_of_a_family() -> None:
    assert spfgen.tensor("dense", val=np.ones((2, 3, 4))).shape == (2, 3, 4)
    assert spfgen.tensor("dense", shape=3, val=[1, 2, 3]).shape == (3,)
    by_names = spfgen.tensor("coo", sizes={"n_1": 2, "n_2": 3}, idx_1=[0, 1], idx_2=[2, 0], val=[1.0, 2.0])
    assert by_names.to_numpy().tolist() == [[0, 0, 1], [2, 0, 0]]
    with pytest.raises(UsageError, match=re.escape("the rank of layout `coo`")):
        spfgen.tensor("coo", idx_1=[0], idx_7=[0], val=[1.0])


def test_flat_values_are_viewed_in_their_shape() -> None:
    flat = np.arange(6.0)
    tensor = spfgen.tensor("bcsr(R=3, C=2)", shape=(3, 2), browptr=[0, 1], bcolidx=[0], val=flat)
    assert np.shares_memory(tensor.arrays["val"], flat)
    assert tensor.to_numpy().tolist() == flat.reshape(3, 2).tolist()
    assert "bcsr(R=3, C=2), 3 x 2" in repr(tensor)
