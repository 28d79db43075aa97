"""Runs, room, hints and slices: what packing makes of them, by example."""

import numpy as np
import pytest

from spfgen.errors import DataError, Unsupported
from spfgen.lang.spec import parse_tree
from spfgen.layout.pack import pack
from spfgen.layout.validate import violation
from spfgen.pipeline import layout_of
from tests.unit.layout.test_pack import get


def arrays(layout, dense):
    dense = np.array(dense, dtype=float)
    coords = np.nonzero(dense)
    packed = pack(layout, dense.shape, coords, dense[coords])
    assert violation(layout, packed.sizes, packed.arrays) is None
    return {n: a.tolist() for n, a in packed.arrays.items()}


def written(text):
    return layout_of(parse_tree(text).layouts["made"], {})


def test_pictures():
    assert arrays(get("jds"), [[5, 0, 6], [0, 0, 0], [7, 0, 0]]) == {
        "perm": [0, 2, 1], "jdptr": [0, 2, 3], "colidx": [0, 0, 2], "val": [5, 7, 6],
    }  # fmt: skip
    assert arrays(get("sell", C=2), [[5, 0, 6, 0], [0, 7, 0, 0], [0, 0, 0, 8], [0, 0, 0, 0]]) == {
        "sliceptr": [0, 2, 3], "colidx": [[0, 1], [2, -1], [3, -1]], "val": [[5, 7], [6, 0], [8, 0]],
    }  # fmt: skip
    assert arrays(get("sell_sigma", C=2, sigma=4), [[5, 0, 0, 0], [6, 7, 0, 0], [0, 0, 8, 9], [0, 0, 0, 0]]) == {
        "perm": [1, 2, 0, 3], "sliceptr": [0, 2, 3], "colidx": [[0, 2], [1, 3], [0, -1]],
        "val": [[6, 8], [7, 9], [5, 0]],
    }  # fmt: skip
    assert arrays(get("rle"), [0, 0, 5, 5, 5, 0]) == {"start": [0, 2, 5, 6], "val": [0, 5, 0]}
    assert arrays(get("csr_rle"), [[5, 5, 0, 6], [0, 0, 0, 0], [0, 7, 7, 7]]) == {
        "rowptr": [0, 2, 2, 3], "start": [0, 3, 1], "stop": [2, 4, 4], "val": [5, 6, 7],
    }  # fmt: skip
    assert arrays(get("vbl"), [[5, 6, 0, 7], [0, 0, 0, 0], [0, 8, 9, 0]]) == {
        "rowptr": [0, 2, 2, 3], "start": [0, 3, 1], "blkptr": [0, 2, 3, 5], "val": [5, 6, 7, 8, 9],
    }  # fmt: skip
    assert arrays(get("vbr"), [[5, 6, 0], [7, 8, 0], [0, 0, 9]]) == {
        "rowsplit": [0, 2, 3], "colsplit": [0, 2, 3], "browptr": [0, 1, 2], "bcolidx": [0, 1], "blkptr": [0, 4, 5],
        "val": [5, 6, 7, 8, 9],
    }  # fmt: skip
    assert arrays(get("skyline"), [[5, 0, 0], [6, 7, 0], [0, 0, 8]]) == {"rowptr": [0, 1, 3, 4], "val": [5, 6, 7, 8]}
    assert arrays(get("band"), [[5, 6, 0], [7, 8, 9], [0, 2, 3]]) == {"val": [[0, 5, 6], [7, 8, 9], [2, 3, 0]]}
    assert arrays(get("sym_csr"), [[5, 6, 0], [6, 0, 7], [0, 7, 8]]) == {
        "rowptr": [0, 1, 2, 4], "colidx": [0, 0, 1, 2], "val": [5, 6, 7, 8],
    }  # fmt: skip
    assert arrays(get("sym_lower"), [[5, 6, 7], [6, 8, 9], [7, 9, 1]]) == {"val": [5, 6, 8, 7, 9, 1]}


def test_runs_end_at_gaps_and_where_values_change():
    assert arrays(get("rle"), []) == {"start": [0], "val": []}
    assert arrays(get("rle"), [0, 0]) == {"start": [0, 2], "val": [0]}
    assert arrays(get("rle"), [1, 2, 2, 0, 2]) == {"start": [0, 1, 3, 4, 5], "val": [1, 2, 0, 2]}
    packed = pack(get("rle"), (4,), (np.arange(4),), np.array([np.nan, np.nan, 0.0, -0.0]))
    assert packed.arrays["start"].tolist() == [0, 2, 3, 4]
    assert np.signbit(packed.arrays["val"]).tolist()[1:] == [False, True]


def test_blocks_follow_the_pattern_and_not_the_gaps():
    """Rows with one pattern are one block row even where a block is not full... of values, zeros are kept."""
    dense = np.kron([[1, 0], [0, 1]], [[1, 2], [3, 0]])
    found = arrays(get("vbr"), dense)
    assert found["rowsplit"] == [0, 1, 2, 3, 4]
    dense[1, 1] = dense[3, 3] = 4
    found = arrays(get("vbr"), dense)
    assert found["rowsplit"] == found["colsplit"] == [0, 2, 4]
    assert found["val"] == [1, 2, 3, 4, 1, 2, 3, 4]


HINTED = """
layout made(n, m) {{ size nnz
    relation {{ [q, p] -> [i, j] : 0 <= q < n and ptr(q) <= p < ptr(q + 1) and i = perm(q) and j = col(p) }}
    index perm[n] {{ range 0 <= perm(q) < n property injective }}
    index ptr[n + 1] {{ range 0 <= ptr(q) <= nnz property increasing }}
    index col[nnz] {{ range 0 <= col(p) < m }}
    value val[nnz] at [p]
    pack q by {keys} }}"""


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("i", [0, 1, 2, 3]),
        ("-i", [3, 2, 1, 0]),
        ("count(i), -i", [3, 2, 0, 1]),
        ("floor(i/2), -count(i)", [1, 0, 2, 3]),
        ("-count(floor(i/2)), -i", [1, 0, 3, 2]),
        ("pattern(i), i", [0, 2, 1, 3]),
    ],
)
def test_orders_by_hint(keys, expected):
    dense = [[5, 0, 0], [6, 7, 8], [9, 0, 0], [0, 0, 0]]
    assert arrays(written(HINTED.format(keys=keys)), dense)["perm"] == expected


def test_hints_that_say_too_much():
    with pytest.raises(Unsupported, match="no order of the entries satisfies its properties"):
        arrays(written(HINTED.format(keys="j")), np.eye(3))
    with pytest.raises(Unsupported, match=r"`p` in `pack q by \.\.\.` is not known"):
        arrays(written(HINTED.format(keys="p")), np.eye(3))


def test_what_has_no_place():
    with pytest.raises(DataError, match=r"no place for the value 1.0 at \(0, 2\)"):
        arrays(get("skyline"), [[0, 0, 1], [0, 0, 0], [0, 0, 0]])
    with pytest.raises(DataError, match=r"no place for the value 1.0 at \(0, 2\)"):
        arrays(get("band"), [[0, 0, 1], [0, 0, 0], [0, 0, 0]])
