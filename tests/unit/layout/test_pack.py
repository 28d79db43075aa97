"""Packing, then enumerating, gives back the tensor; the arrays satisfy what the layout declares."""

import re
from itertools import product

import numpy as np
import pytest

import spfgen
from spfgen.errors import DataError, Unsupported, UsageError
from spfgen.lang.nodes import LayoutUse
from spfgen.lang.spec import builtin_names, parse_tree
from spfgen.layout import pack_orders
from spfgen.layout.nodes import SCALAR
from spfgen.layout.pack import pack
from spfgen.layout.points import to_coordinates
from spfgen.layout.validate import check_arrays
from spfgen.pipeline import layout_of

POINTERS = """
    index rowptr[n + 1] { range 0 <= rowptr(p) <= nnz property increasing }
    index colidx[nnz] { range 0 <= colidx(p) < m property strictly increasing within rowptr }
"""

OTHERS = (
    """
layout mirrored(n, m) { size nnz
    relation { [pi, pj] -> [i, j] : 0 <= pi < n and rowptr(pi) <= pj < rowptr(pi + 1) and i = pi and j = colidx(pj)
                                    and j <= i ;
               [pi, pj] -> [i, j] : 0 <= pi < n and rowptr(pi) <= pj < rowptr(pi + 1) and j = pi and i = colidx(pj)
                                    and i < j }
    value val[nnz] at [pj]
"""
    + POINTERS.replace("colidx(p) < m", "colidx(p) < n")
    + """ }
layout with_diagonal(n, m) { size nnz
    relation { [k, pi, pj] -> [i, j] : k = 0 and 0 <= pi < n and pj = 0 and i = pi and j = pi ;
               [k, pi, pj] -> [i, j] : k = 1 and 0 <= pi < n and rowptr(pi) <= pj < rowptr(pi + 1) and i = pi
                                       and j = colidx(pj) and j != i }
    value diagonal[n] at [pi] when k = 0
    value val[nnz] at [pj] when k = 1
"""
    + POINTERS
    + """ }
layout four_arrays(n, m) { size nnz
    relation { [pi, pj] -> [i, j] : 0 <= pi < n and begin(pi) <= pj < stop(pi) and i = pi and j = colidx(pj) }
    index begin[n] { range 0 <= begin(p) <= nnz }
    index stop[n] { range 0 <= stop(p) <= nnz }
    index colidx[nnz] { range 0 <= colidx(p) < m
        property forall s, p, q : begin(s) <= p < q < stop(s) => colidx(p) > colidx(q) }
    value val[nnz] at [pj] }
layout counted(n, m) { size nnz
    relation { [pi, pj] -> [i, j] : 0 <= pi < n and begin(pi) <= pj < begin(pi) + length(pi)
                                    and i = pi and j = colidx(pj) }
    index begin[n] { range 0 <= begin(p) <= nnz }
    index length[n] { range 0 <= length(p) <= m }
    index colidx[nnz] { range 0 <= colidx(p) < m }
    value val[nnz] at [pj] }
layout turned_rows(n, m) { size nnz
    relation { [pi, pj] -> [i, j] : 0 <= pi < n and rowptr(pi) <= pj < rowptr(pi + 1) and i = order(pi)
                                    and j = colidx(pj) }
    index order[n] { range 0 <= order(p) < n property strictly decreasing }
    value val[nnz] at [pj]
"""
    + POINTERS
    + """ }
layout by_columns(n, m) { size nnz
    relation { [p] -> [i, j] : 0 <= p < nnz and i = row(p) and j = col(p) }
    index row[nnz] { range 0 <= row(p) < n property forall p < q : col(p) = col(q) => row(p) > row(q) }
    index col[nnz] { range 0 <= col(p) < m property increasing }
    value val[nnz] at [p] }
layout full_slots(n, m) { size width
    relation { [pi, ps] -> [i, j] : 0 <= pi < n and 0 <= ps < width and i = pi and j = colidx(ps, pi) }
    index colidx[width, n] { range 0 <= colidx(s, r) < m
        property forall r, s, t : s < t => colidx(s, r) < colidx(t, r) }
    value val[width, n] at [ps, pi] }
layout high_sentinel(n, m) { size width
    relation { [pi, ps] -> [i, j] : 0 <= pi < n and 0 <= ps < width and i = pi and j = colidx(pi, ps) }
    index colidx[n, width] { range 0 <= colidx(r, s) <= m property increasing }
    value val[n, width] at [pi, ps] }
layout empty_first(n, m) { size width
    relation { [pi, ps] -> [i, j] : 0 <= pi < n and 0 <= ps < width and i = pi and j = colidx(pi, ps) }
    index colidx[n, width] { range -1 <= colidx(r, s) < m property increasing }
    value val[n, width] at [pi, ps] }
layout one_each(n, m) {
    relation { [pi] -> [i, j] : 0 <= pi < n and i = pi and j = col(pi) }
    index col[n] { range -1 <= col(r) < m }
    value val[n] at [pi] }
layout triples(n) {
    relation { [b, r] -> [i] : 0 <= b < ceil(n/3) and i = 3*block(b) + r and 0 <= r < 3 }
    index block[ceil(n/3)] { range 0 <= block(p) < ceil(n/3) property strictly decreasing }
    value val[ceil(n/3), 3] at [b, r] }
layout ones(n, m) { size nnz
    fill 1
    relation { [pi, pj, r] -> [i, j] : 0 <= pi < n and rowptr(pi) <= pj < rowptr(pi + 1) and i = pi
                                       and j = 2*colidx(pj) + r and 0 <= r < 2 }
    value val[nnz, 2] at [pj, r]
"""
    + POINTERS.replace("colidx(p) < m", "2*colidx(p) < m")
    + """ }
layout runs(n) { size count
    relation { [q, p] -> [i] : 0 <= q < count and start(q) <= p < start(q + 1) and i = p }
    index start[count + 1] { range 0 <= start(p) <= n property increasing }
    value val[count] at [q] }
layout by_sums(n, m) { size nnz
    relation { [p] -> [i, j] : 0 <= p < nnz and i = row(p) and j = col(p) }
    index row[nnz] { range 0 <= row(p) < n property forall p < q : row(p) + col(p) < row(q) + col(q) }
    index col[nnz] { range 0 <= col(p) < m }
    value val[nnz] at [p] }
layout pitched(n, m) { size pitch
    relation { [a, b] -> [i, j] : 0 <= a < n and 0 <= b < m and b < pitch and i = a and j = b }
    value val[n*pitch] at [a*pitch + b] }
layout coded(n) { size nnz, k
    relation { [p] -> [i] : 0 <= p < nnz and i = idx(p) }
    index idx[nnz] { range 0 <= idx(p) < n property strictly increasing }
    index high[nnz] { range 0 <= high(p) < k }
    index low[nnz] { range 0 <= low(p) < k }
    value table[k*k] at [k*high(p) + low(p)] }
layout unused(n, m) { size width
    relation { [b, p, r] -> [i, j] : 0 <= 2*b < n and ptr(b) <= p < ptr(b + 1) and 0 <= r < 2 and i = 2*b + r
                                     and j = colidx(p, r) }
    index ptr[ceil(n/2) + 1] { range 0 <= ptr(p) <= width }
    index colidx[width, 2] { range 0 <= colidx(p, r) < m }
    value val[width, 2] at [p, r] }
layout bands(n, m) {
    relation { [p, q] -> [i, j] : 0 <= p < n + m - 1 and 0 <= q < n and i = q and j = q + p - n + 1 }
    value val[max(n + m - 1, 0)] at [p] }
"""
)

TREE = parse_tree(OTHERS)
REFUSED = ("by_sums", "coded", "unused")
SHARED = ("mirrored", "bands", "sym_csr", "sym_lower")
SHAPES = {1: [(0,), (1,), (11,), (64,)], 2: [(0, 0), (0, 3), (3, 0), (1, 1), (1, 9), (9, 1), (7, 10), (16, 12)],
          3: [(0, 2, 2), (1, 1, 1), (4, 5, 6)]}  # fmt: skip


def get(name, **settings):
    declaration, found = TREE.resolve(LayoutUse(name))
    return layout_of(declaration, {**found, **settings})


def all_layouts():
    for name in [*builtin_names(), *TREE.layouts]:
        declaration, settings = TREE.resolve(LayoutUse(name))
        free = "rank" in dict(declaration.constants) and "rank" not in settings
        for rank in (1, 2, 3) if free else (None,):
            yield get(name, **({"rank": rank} if free else {}))


LAYOUTS = [x for x in all_layouts() if x.name not in (*REFUSED, *SHARED) and not x.value_transforms]


def label(layout):
    return f"{layout.name}{layout.rank}"


def dense_of(layout, packed, shape):
    """All points with their values, added up; the fill value elsewhere."""
    coords, values = to_coordinates(layout, packed.sizes, packed.arrays, packed.arrays)
    dense = np.zeros(shape, dtype=values.dtype)
    np.add.at(dense, coords, values)
    stored = np.zeros(shape, dtype=bool)
    stored[coords] = True
    return np.where(stored, dense, np.asarray(layout.fill).astype(values.dtype))


def storable(layout, shape, dense):
    """The dense tensor without the entries that the layout cannot store beside those before them."""
    try:
        packed_dense(layout, dense)
    except DataError:
        return some_storable(layout, shape, dense)
    return dense


def some_storable(layout, shape, dense):
    """The same for one that cannot be stored as it is."""
    kept = np.full(shape, layout.fill)
    alone = np.zeros(shape, dtype=bool)
    for at in product(*map(range, shape)):
        try:
            pack(layout, shape, tuple(np.array([k]) for k in at), np.array([layout.fill + 1]))
            alone[at] = True
        except DataError:
            continue
    wanted = np.where(alone, dense, layout.fill)
    try:
        packed_dense(layout, wanted)
    except DataError:
        for at in zip(*np.nonzero(wanted != layout.fill), strict=True):
            kept[at] = wanted[at]
            try:
                packed_dense(layout, kept)
            except DataError:
                kept[at] = layout.fill
        return kept
    return wanted


def packed_dense(layout, dense, **more):
    coords = np.nonzero(dense != layout.fill)
    return pack(layout, dense.shape, coords, dense[coords], **more)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS, ids=label)
def test_what_is_packed_comes_back(layout):
    random = np.random.default_rng(23)
    stored = 0
    for shape in SHAPES[layout.rank]:
        for density in (0.0, 0.3, 1.0) if np.prod(shape) < 30 else (0.2,):
            numbers = random.integers(2, 9, shape) * (random.random(shape) < density)
            dense = storable(layout, shape, np.where(numbers == 0, layout.fill, numbers).astype(np.float64))
            packed = packed_dense(layout, dense)
            assert np.array_equal(dense_of(layout, packed, shape), dense)
            assert check_arrays(layout, packed.sizes, packed.arrays, thorough=True) == ()
            assert list(packed.sizes)[: layout.rank] == list(layout.parameters)
            assert set(packed.sizes) == {*layout.parameters, *layout.sizes}
            stored += np.count_nonzero(dense != layout.fill)
    assert stored


@pytest.mark.parametrize("layout", LAYOUTS, ids=label)
def test_types_and_memory(layout):
    shape = tuple(3 for _ in layout.parameters)
    coords = tuple(np.array([0]) for _ in shape)
    for dtype in (np.float32, np.int8, np.complex128):
        types = {a.name: "int64" for a in layout.indexes[1:]}
        packed = pack(layout, shape, coords, np.array([1], dtype=dtype), types)
        for value in layout.values:
            assert packed.arrays[value.name].dtype == dtype
        for k, index in enumerate(layout.indexes):
            assert packed.arrays[index.name].dtype == (np.int64 if k else index.types[0])
        assert all(a.flags.c_contiguous for a in packed.arrays.values())


def test_a_single_number():
    packed = pack(SCALAR, (), (), np.array([2.0, 3.0]))
    assert packed.arrays["val"] == 5
    assert packed.arrays["val"].shape == ()
    assert pack(SCALAR, (), (), np.zeros(0)).arrays["val"] == 0


def test_pictures_of_the_layouts():
    coords, values = (np.array([0, 0, 2]), np.array([0, 2, 1])), np.array([5, 6, 7])
    expected = {
        "csr": {"rowptr": [0, 2, 2, 3], "colidx": [0, 2, 1], "val": [5, 6, 7]},
        "csc": {"colptr": [0, 1, 2, 3], "rowidx": [0, 2, 0], "val": [5, 7, 6]},
        "dcsr": {"rowidx": [0, 2], "rowptr": [0, 2, 3], "colidx": [0, 2, 1], "val": [5, 6, 7]},
        "ell": {"colidx": [[0, 2], [-1, -1], [1, -1]], "val": [[5, 6], [0, 0], [7, 0]]},
    }
    for name, arrays in expected.items():
        packed = pack(get(name), (3, 3), coords, values)
        assert {n: a.tolist() for n, a in packed.arrays.items()} == arrays
    packed = pack(get("sv_decreasing"), (5,), (np.array([1, 4]),), np.array([5, 7]))
    assert packed.arrays["idx"].tolist() == [4, 1]
    row = (np.zeros(3, dtype=int), np.array([0, 3, 5]))
    packed = pack(get("warp24"), (1, 8), row, values)
    assert packed.arrays["meta"].tolist() == [[[0, 3], [0, 1]]]
    assert packed.arrays["val"].tolist() == [[[5, 6], [0, 7]]]


def test_equal_coordinates_are_added():
    packed = pack(get("sv"), (4,), (np.array([3, 1, 3, 3]),), np.array([1, 2, 4, 8]))
    assert packed.arrays["idx"].tolist() == [1, 3]
    assert packed.arrays["val"].tolist() == [2, 13]


def test_explicit_zeros_are_kept_where_there_is_room():
    packed = pack(get("csr"), (2, 2), (np.array([0, 1]), np.array([1, 0])), np.array([0.0, 3.0]))
    assert packed.arrays["val"].tolist() == [0, 3]
    packed = pack(get("lower"), (2, 2), (np.array([0, 1]), np.array([1, 0])), np.array([0.0, 3.0]))
    assert packed.arrays["val"].tolist() == [0, 3, 0]
    five = (np.zeros(4, dtype=int), np.arange(4))
    packed = pack(get("warp24"), (1, 4), five, np.array([0.0, 1.0, 0.0, 2.0]))
    assert packed.arrays["val"].ravel().tolist() == [1, 2]


def test_an_entry_outside_the_pattern_is_named():
    with pytest.raises(DataError, match=r"`lower` can store, but it has no place for the value 7.0 at \(0, 2\)"):
        pack(get("lower"), (3, 3), (np.array([1, 0]), np.array([0, 2])), np.array([1.0, 7.0]))


def test_a_full_group_is_named():
    coords = (np.full(3, 1), np.array([4, 5, 7]))
    with pytest.raises(DataError, match=r"at most 2 entries for pi = 1, pg = 1 in layout `warp24`.* there are 3"):
        pack(get("warp24"), (2, 8), coords, np.ones(3))


def test_one_column_for_each_row():
    with pytest.raises(DataError, match=r"agree on `col\(pi\)`.*(\(0, 2\)|\(0, 1\))"):
        pack(get("one_each"), (2, 3), (np.array([0, 0]), np.array([1, 2])), np.ones(2))


def test_indices_that_do_not_fit():
    coords, value = (np.array([2**31]),), np.ones(1)
    with pytest.raises(DataError, match="indices of `idx` that fit int32, but 2147483648"):
        pack(get("sv"), (2**32,), coords, value)
    assert pack(get("sv"), (2**32,), coords, value, {"idx": "int64"}).arrays["idx"].tolist() == [2**31]


@pytest.mark.parametrize(
    ("shape", "coords", "values", "message"),
    [
        ((3,), ([0], [0]), [1.0], "expected 2 extents"),
        ((3, 3), ([0],), [1.0], "expected 2 coordinate arrays"),
        ((3, 3), ([0, 1], [0]), [1.0], "of one length"),
        ((3, 3), ([0], [3]), [1.0], r"within the shape \(3, 3\), but there is \(0, 3\)"),
        ((3, 3), ([-1], [0]), [1.0], r"there is \(-1, 0\)"),
    ],
)
def test_wrong_input(shape, coords, values, message):
    with pytest.raises(DataError, match=message):
        pack(get("csr"), shape, tuple(map(np.array, coords)), np.array(values))


def test_a_fill_value_of_another_type():
    text = "layout far(n) { fill inf relation { [p] -> [i] : 0 <= p < n and i = p } value val[n] at [p] }"
    layout = layout_of(parse_tree(text).layouts["far"], {})
    assert pack(layout, (2,), (np.array([0]),), np.ones(1)).arrays["val"].tolist() == [1, np.inf]
    with pytest.raises(DataError, match="a fill value that int64 has, but it is inf"):
        pack(layout, (2,), (np.array([0]),), np.ones(1, dtype=np.int64))


def test_values_that_several_coordinates_share():
    layout = get("mirrored")
    dense = np.array([[1.0, 2, 0], [2, 0, 3], [0, 3, 4]])
    packed = packed_dense(layout, dense)
    assert packed.sizes["nnz"] == 4
    assert np.array_equal(dense_of(layout, packed, (3, 3)), dense)
    dense[0, 1] = 5
    with pytest.raises(DataError, match=r"equal values at \(\d, \d\) and \(\d, \d\), .*5.0"):
        packed_dense(layout, dense)
    dense[0, 1] = 0
    with pytest.raises(DataError, match=r"expected a value at \(0, 1\)"):
        packed_dense(layout, dense)


def test_values_along_a_band():
    layout = get("bands")
    dense = np.array([[(j - i) ** 2 + 1.0 for j in range(5)] for i in range(4)])
    packed = packed_dense(layout, dense)
    assert packed.arrays["val"].shape == (8,)
    assert np.array_equal(dense_of(layout, packed, (4, 5)), dense)
    dense[3, 0] = 0
    assert np.array_equal(dense_of(layout, packed_dense(layout, dense), (4, 5)), dense)
    dense[1, 1] = 0
    with pytest.raises(DataError, match=r"expected a value at \(1, 1\)"):
        packed_dense(layout, dense)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("unused", "no value of `colidx` marks a place"),
        ("coded", "its size `k` cannot be derived"),
    ],
)
def test_layouts_that_cannot_be_derived(name, message):
    layout = get(name)
    with pytest.raises(Unsupported, match=message):
        pack(layout, tuple(3 for _ in layout.parameters), tuple(np.array([0]) for _ in layout.parameters), np.ones(1))


def test_other_block_sizes():
    random = np.random.default_rng(1)
    dense = random.integers(1, 9, (19, 23)) * (random.random((19, 23)) < 0.1)
    for rows, columns in ((1, 1), (3, 5), (16, 16), (32, 1)):
        layout = get("bcsr", R=rows, C=columns)
        packed = packed_dense(layout, dense)
        assert np.array_equal(dense_of(layout, packed, dense.shape), dense)
        check_arrays(layout, packed.sizes, packed.arrays, thorough=True)


def test_a_million_entries():
    random = np.random.default_rng(1)
    coords = tuple(random.integers(0, 100_000, 1_000_000) for _ in range(2))
    for name in ("csr", "bcsr"):
        layout = get(name)
        packed = pack(layout, (100_000, 100_000), coords, np.ones(1_000_000))
        check_arrays(layout, packed.sizes, packed.arrays)
        assert packed.arrays["val"].sum() == 1_000_000


def test_what_becomes_of_duplicates():
    at, values = (np.array([3, 1, 3, 3]),), np.array([2.0, 5.0, 4.0, 3.0])
    for how, expected in [
        ("sum", 9.0), ("last", 3.0), ("first", 2.0), (np.maximum, 4.0), (lambda a, b: a * b, 24.0), (max, 4.0),
    ]:  # fmt: skip
        packed = pack(get("sv"), (4,), at, values, duplicates=how)
        assert packed.arrays["idx"].tolist() == [1, 3]
        assert packed.arrays["val"].tolist() == [5.0, expected]
    with pytest.raises(DataError, match=r"each coordinate once, but \(3,\) occurs more than once"):
        pack(get("sv"), (4,), at, values, duplicates="error")
    assert pack(get("sv"), (4,), (np.array([3, 1]),), values[:2], duplicates="error").sizes["nnz"] == 2
    for wrong in ("mean", 3, None):
        with pytest.raises(UsageError, match="for duplicates"):
            pack(get("sv"), (4,), at, values, duplicates=wrong)


def test_duplicates_of_bools():
    packed = pack(get("sv"), (4,), (np.array([1, 1]),), np.array([True, True]))
    assert packed.arrays["val"].tolist() == [True]


RECTANGULAR = """
layout rfp(n, n2) {
    doc "LAPACK's rectangular full packed form of a lower triangle, for an even number of rows."
    relation { [a, b] -> [i, j] : n = n2 and 0 <= a < n + 1 and 0 <= b < n/2
        and (a > b and i = a - 1 and j = b or a <= b and i = b + n/2 and j = a + n/2) }
    value val[(n + 1)*(n/2)] at [a*(n/2) + b]
}
"""


def test_why_there_is_no_place_is_said():
    layout = layout_of(parse_tree(RECTANGULAR).layouts["rfp"], {})
    rows, columns = np.tril_indices(6)
    assert pack(layout, (6, 6), (rows, columns), np.ones(21)).arrays["val"].tolist() == [1] * 21
    rows, columns = np.tril_indices(5)
    with pytest.raises(DataError, match="no place for the value") as caught:
        pack(layout, (5, 5), (rows, columns), np.ones(15))
    at = re.search(r"at \((\d), (\d)\)", str(caught.value))
    assert at is not None
    (note,) = caught.value.notes
    assert f"for n = 5, n2 = 5, i = {at[1]}, j = {at[2]} no position satisfies" in note
    assert "b < floor(n/2) and" in note
    assert "n = n2" not in note  # that holds


def test_what_cannot_be_packed_can_be_given():
    text = """layout sums(n) { size nnz
        relation { [p] -> [i] : 0 <= p < nnz and i = high(p) + low(p) }
        index high[nnz] { range 0 <= high(p) <= n }
        index low[nnz] { range 0 <= low(p) < 8 }
        value a[nnz] at [p] }"""
    layout = layout_of(parse_tree(text).layouts["sums"], {})
    with pytest.raises(Unsupported, match="nothing says which `p` an entry has") as caught:
        pack(layout, (2,), (np.array([0]),), np.ones(1))
    assert "spfgen.tensor(layout, shape=..., high=..., low=..., a=...)" in caught.value.notes[-1]


def test_extents_for_which_nothing_can_be_stored():
    text = """layout even(n) {
        relation { [p] -> [i] : exists k : n = 2*k and 0 <= p < n and i = p }  value val[n] at [p] }"""
    layout = layout_of(parse_tree(text).layouts["even"], {})
    assert pack(layout, (2,), (np.arange(2),), np.ones(2)).arrays["val"].tolist() == [1, 1]
    with pytest.raises(DataError) as caught:
        pack(layout, (3,), (np.arange(3),), np.ones(3))
    assert "for n = 3 no position" in str(caught.value)
    assert "with these extents nothing can be stored" in str(caught.value)


def test_a_zero_of_the_other_sign_needs_no_place() -> None:
    """It is stored where there is a place for it; where there is none nothing is lost."""
    given = np.array([[-0.0, -0.0], [3.0, 1.0]])
    packed = spfgen.pack(given, "lower")
    np.testing.assert_array_equal(packed.to_numpy(), given)
    assert np.signbit(packed.to_numpy()[0, 0])


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("text", "x"),
    [
        ("R[i] = where(x[i] > 0, x[i], 2)", [2.0, -1.0]),
        ("R[i] = where(x[i] > 0, x[i], 2)", [2.0, 5.0, 2.0]),
        ("R[i] = x[i]*(-1)", [0.0, 3.0, 0.0]),
    ],
)
def test_fill_values_that_would_be_stored_twice_are_not(text: str, x: list[float]) -> None:
    """A coordinate that stands twice has the sum of both."""
    layout = spfgen.parse("""layout both_ways(n) {
        size nnz
        relation { [p] -> [i] : 0 <= p < nnz and (i = idx(p) or i = n - 1 - idx(p)) }
        index idx[nnz] { range 0 <= idx(p) < n }
        value val[nnz] at [p] }""").layouts["both_ways"]
    given = spfgen.pack(np.array(x), "sv")
    found = spfgen.evaluate(text, x=given, out=layout)
    np.testing.assert_array_equal(found.to_numpy(), spfgen.evaluate(text, x=np.array(x)))
    with pytest.raises(DataError, match=r"stores once, but it has two places for that at \(0,\)"):
        spfgen.pack(np.ones(len(x)), layout)


COO_OF_ANY_RANK = """
layout coo_{name}(n_{{1..rank}}; rank) {{
    size nnz
    relation {{ [p] -> [i_{{1..rank}}] : 0 <= p < nnz and (each k in 1..rank : i_{{k}} = idx_{{k}}(p)) }}
    each k in 1..rank {{ index idx_{{k}}[nnz] {{ range 0 <= idx_{{k}}(p) < n_{{k}} {properties} }} }}
    value val[nnz] at [p]
}}"""
LAST_FIRST = (
    "property forall p <= q : (each m in k + 1..rank : idx_{{m}}(p) = idx_{{m}}(q)) => idx_{{k}}(p) {sign} idx_{{k}}(q)"
)


@pytest.mark.parametrize("sign", ["<=", ">="])
def test_many_keys_are_put_in_the_order_that_properties_speak_of(sign: str, monkeypatch) -> None:
    """The last key of seven first: one of the last among 2^7 * 7! orders."""
    properties = LAST_FIRST.format(sign=sign).replace("{{", "{").replace("}}", "}")
    text = COO_OF_ANY_RANK.format(name="turned", properties=properties)
    layout = spfgen.parse(text).layouts["coo_turned"]
    tried = count_calls(monkeypatch, pack_orders, "_tried")
    given = np.arange(2**7).reshape((2,) * 7)
    packed = spfgen.pack(given * (given % 3 == 0), layout)
    np.testing.assert_array_equal(packed.to_numpy(), given * (given % 3 == 0))
    last = packed.arrays["idx_7"]
    assert (np.diff(last if sign == "<=" else -last) >= 0).all()
    assert len(tried) < 50  # it is the first


def test_no_order_of_many_keys_is_said_soon(monkeypatch) -> None:
    text = COO_OF_ANY_RANK.format(name="never", properties="property increasing")
    layout = spfgen.parse(text).layouts["coo_never"]
    monkeypatch.setattr(pack_orders, "ATTEMPTS", 200)
    tried = count_calls(monkeypatch, pack_orders, "_tried")
    with pytest.raises(DataError, match=r"`increasing`.* packing finds no arrays for these entries"):
        spfgen.pack(np.ones((2,) * 9), layout)
    assert len(tried) < 3 * 200 / 9


def count_calls(monkeypatch, module, name: str) -> list[object]:
    calls: list[object] = []
    function = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *a: calls.append(a) or function(*a))
    return calls


@pytest.mark.parametrize(("name", "rank"), [("coo", 12), ("csf", 8), ("coo_unsorted", 12), ("coo_pattern", 12)])
def test_tensors_of_many_dimensions(name: str, rank: int, monkeypatch) -> None:
    tried = count_calls(monkeypatch, pack_orders, "_tried")
    random = np.random.default_rng(0)
    places = np.unique(random.integers(0, 3, (rank, 40)), axis=1)
    values = np.ones(places.shape[1]) if name == "coo_pattern" else np.arange(1.0, places.shape[1] + 1)
    packed = spfgen.pack((places, values), name, shape=(3,) * rank)
    found = packed.to_coo()
    np.testing.assert_array_equal(np.array(found.coords), places)
    np.testing.assert_array_equal(found.values, values)
    assert len(tried) <= 1
    turned = spfgen.transpose(packed, tuple(range(rank - 1, -1, -1)))
    assert turned[tuple(places[::-1, 5])] == values[5]
