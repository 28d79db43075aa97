"""Runs, room, hints and slices: what packing makes of them, by example."""

import numpy as np
import pytest

from spfgen.errors import DataError, Unsupported
from spfgen.lang.spec import parse_tree
from spfgen.layout.pack import pack
from spfgen.layout.points import to_coordinates
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
    with pytest.raises(Unsupported, match=r"none of the 4 orders .* satisfies its properties"):
        arrays(written(HINTED.format(keys="j")), np.eye(3))
    with pytest.raises(Unsupported, match=r"`p` in `pack q by \.\.\.` is not known"):
        arrays(written(HINTED.format(keys="p")), np.eye(3))


def test_what_has_no_place():
    with pytest.raises(DataError, match=r"no place for the value 1.0 at \(0, 2\)"):
        arrays(get("skyline"), [[0, 0, 1], [0, 0, 0], [0, 0, 0]])
    with pytest.raises(DataError, match=r"no place for the value 1.0 at \(0, 2\)"):
        arrays(get("band"), [[0, 0, 1], [0, 0, 0], [0, 0, 0]])


BANDS = {
    "room above, as for LAPACK's dgbtrf": """size kl, ku
        relation { [r, j] -> [i, j] : 0 <= j < m and kl <= r < 2*kl + ku + 1 and i = j + r - kl - ku }
        value val[2*kl + ku + 1, m] at [r, j]""",
    "a leading dimension": """size ldab, ku
        relation { [r, j] -> [i, j] : 0 <= j < m and 0 <= r < ldab and i = j + r - ku }
        value val[ldab, m] at [r, j]""",
    "by rows": """size w, low
        relation { [i, d] -> [i, j] : 0 <= i < n and 0 <= d < w and j = i + d - low }
        value val[n, w] at [i, d]""",
    "half of a symmetric one": """size k
        relation {
            [r, j] -> [i, c] : 0 <= j < n and j < m and 0 <= r <= k and i = j + r - k and c = j ;
            [r, j] -> [i, c] : 0 <= j < n and j < m and 0 <= r < k and i = j and c = j + r - k }
        value val[k + 1, n] at [r, j]""",
}


@pytest.mark.parametrize("below", [0, 1, 3])
@pytest.mark.parametrize("above", [0, 2])
@pytest.mark.parametrize("text", BANDS.values(), ids=BANDS)
def test_bands_are_as_wide_as_their_entries_need(text, below, above):
    """Their widths are sizes that no index array is as long as."""
    layout = written(f"layout made(n, m) {{ {text} }}")
    i, j = np.indices((5, 5))
    dense = np.where((i - j <= below) & (j - i <= above), 1.0 + i + j, 0)
    if "size k\n" in text:
        dense = dense if below <= above else dense.T
        dense = np.triu(dense) + np.triu(dense, 1).T
    coords = np.nonzero(dense)
    packed = pack(layout, dense.shape, coords, dense[coords])
    reach = {"kl": below, "ku": above, "ldab": below + above + 1, "w": below + above + 1, "low": below}
    reach["k"] = max(below, above)
    assert {n: packed.sizes[n] for n in layout.sizes} == {n: reach[n] for n in layout.sizes}
    coords, values = to_coordinates(layout, packed.sizes, packed.arrays, {"val": packed.arrays["val"]})
    found = np.zeros_like(dense)
    found[tuple(coords)] = values
    assert np.array_equal(found, dense)


def test_coordinates_that_the_text_has_no_names_for():
    layout = written(
        "layout made(n, m) { relation { [i, d] -> [i, i + d] : 0 <= i < n and 0 <= d < 2 } value val[n, 2] at [i, d] }"
    )
    assert list(layout.written.values()) == ["i", "i + d"]
    with pytest.raises(DataError) as caught:
        arrays(layout, [[0, 0], [1, 0]])
    (note,) = caught.value.notes
    assert "1 = i" in note
    assert not set(layout.coordinates) & set(note.split())
