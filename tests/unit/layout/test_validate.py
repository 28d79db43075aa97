"""Corrupted arrays are caught, by name and place; the fast checks find what trying all instances finds."""

import numpy as np
import pytest

import spfgen
from spfgen.errors import DataError
from spfgen.facts.formula import evaluate
from spfgen.lang.nodes import LayoutUse
from spfgen.lang.spec import builtin_names, parse_tree
from spfgen.layout import check_numpy, validate
from spfgen.layout.checks import checks_of, opened
from spfgen.layout.instances import Broken, Data, broken_one_by_one
from spfgen.layout.pack import pack
from spfgen.layout.validate import check_arrays, violation
from spfgen.pipeline import layout_of

OTHERS = """
layout facts(n, m) { size nnz, rows
    relation { [p] -> [i, j] : 0 <= p < nnz and i = row(p) and j = col(p) }
    index row[nnz] { range 0 <= row(p) < n
        property forall p, q : p > q => row(p) >= row(q) }
    index col[nnz] { range 0 <= col(p) < m
        property injective where row equal }
    index seg[rows + 1] { range 0 <= seg(p) <= nnz
        property injective }
    index far[nnz] {
        property forall p < q : row(p) = row(q) => far(p) != far(q)
        property strictly decreasing within seg }
    index pair[nnz, 2] {
        property forall p : pair(p, 0) < pair(p, 1)
        property increasing
        property forall p, s : exists q : pair(q, s) = col(p) }
    value val[nnz] at [p] }
layout linked(n) { size count
    relation { [p] -> [i] : 0 <= p < count and i = idx(p) }
    index idx[count] { range 0 <= idx(p) < n
        property forall p : back(idx(p)) = p
        property forall p, q : idx(p) + idx(q) != 2*n - 3 }
    index back[n] { range -1 <= back(i) < count
        property forall i : back(i) >= 0 => idx(back(i)) = i }
    value val[count] at [p] }
"""
TREE = parse_tree(OTHERS)


def get(name, **settings):
    declaration, found = TREE.resolve(LayoutUse(name))
    return layout_of(declaration, {**found, **settings})


def all_layouts():
    for name in [*builtin_names(), *TREE.layouts]:
        declaration, settings = TREE.resolve(LayoutUse(name))
        free = "rank" in dict(declaration.constants) and "rank" not in settings
        for rank in (1, 2, 3) if free else (None,):
            yield get(name, **({"rank": rank} if free else {}))


LAYOUTS = [x for x in all_layouts() if x.indexes]


def label(layout):
    return f"{layout.name}{layout.rank}"


def matrix():
    """csr: rows 0..3 with columns 0 2 | - | 1 | 0 1 3."""
    layout = get("csr")
    packed = pack(layout, (4, 4), (np.array([0, 0, 2, 3, 3, 3]), np.array([0, 2, 1, 0, 1, 3])), np.arange(1.0, 7))
    return layout, packed.sizes, packed.arrays


@pytest.mark.parametrize(
    ("array", "place", "value", "wanted"),
    [
        ("colidx", 1, 4, ["`colidx`", "`0 <= colidx(p) < ncol`", "colidx(1) = 4", "ncol = 4"]),
        ("colidx", 0, -1, ["`colidx`", "`0 <= colidx(p) < ncol`", "colidx(0) = -1"]),
        ("colidx", 4, 0, ["`colidx`", "`strictly increasing within rowptr`", "colidx(3) = 0", "colidx(4) = 0"]),
        ("colidx", 3, 2, ["`colidx`", "`strictly increasing within rowptr`", "colidx(3) = 2", "rowptr(3) = 3"]),
        ("rowptr", 2, 1, ["`rowptr`", "`increasing`", "rowptr(1) = 2", "rowptr(2) = 1"]),
        ("rowptr", 0, 1, ["`rowptr`", "`rowptr(0) = 0`", "rowptr(0) = 1"]),
        ("rowptr", 4, 5, ["`rowptr`", "`rowptr(nrow) = nnz`", "rowptr(4) = 5", "nnz = 6"]),
        ("rowptr", 3, 7, ["`rowptr`", "`0 <= rowptr(p) <= nnz`", "rowptr(3) = 7"]),
    ],
)
def test_a_corrupted_array_is_named(array, place, value, wanted):
    layout, sizes, arrays = matrix()
    assert check_arrays(layout, sizes, arrays) == ()
    arrays[array][place] = value
    with pytest.raises(DataError) as caught:
        check_arrays(layout, sizes, arrays)
    for text in wanted:
        assert text in caught.value.message


def test_shapes_and_sizes():
    layout, sizes, arrays = matrix()
    cases = [
        ({"colidx": arrays["colidx"][:-1]}, {}, r"`colidx` .* with shape \(6,\), but it has shape \(5,\)"),
        ({"val": arrays["val"].reshape(2, 3)}, {}, r"`val` .* with shape \(6,\), but it has shape \(2, 3\)"),
        ({"colidx": arrays["colidx"] * 1.0}, {}, "expected integers in the array `colidx`, but they are float64"),
        ({}, {"nnz": 7}, r"but it has shape \(6,\)"),
        ({}, {"nnz": -1}, "expected a size `nnz` of at least 0"),
    ]
    for changed, changed_sizes, message in cases:
        with pytest.raises(DataError, match=message):
            check_arrays(layout, {**sizes, **changed_sizes}, {**arrays, **changed})
    with pytest.raises(DataError, match="expected the array `rowptr` of layout `csr`, but it is missing"):
        check_arrays(layout, sizes, {"colidx": arrays["colidx"]})
    with pytest.raises(DataError, match="expected the size `nnz` of layout `csr`, but it is missing"):
        check_arrays(layout, {"nrow": 4, "ncol": 4}, arrays)
    assert "rowptr" in (violation(layout, sizes, {**arrays, "rowptr": arrays["rowptr"][::-1]}) or "")
    assert violation(layout, sizes, arrays) is None


def _random(layout, random):
    sizes = {n: int(random.integers(1, 6)) for n in (*layout.parameters, *layout.sizes)}
    arrays = {}
    for index in layout.indexes:
        shape = tuple(max(0, evaluate(e, sizes.__getitem__, None)) for e in index.extents)
        low, end = -int(random.random() < 0.1), max(sizes.values()) + int(random.random() < 0.3)
        array = random.integers(low, end, shape)
        for axis in range(array.ndim):
            if random.random() < 0.7:
                array.sort(axis=axis)
        arrays[index.name] = array[::-1] if random.random() < 0.2 else array
    return sizes, arrays


def _outcome(layout, sizes, arrays, fact, thorough):
    """Whether one fact alone is accepted, and whether the answer is sure."""
    data = Data(layout, sizes, arrays)
    if thorough:
        found = broken_one_by_one(data, *opened(fact.formula))
    else:
        check = next(c for c in checks_of(layout) if c.fact == fact)
        found = check_numpy.run(data, check, 10**6)
    return not isinstance(found, Broken), found is not False


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS, ids=label)
def test_the_fast_checks_find_what_trying_everything_finds(monkeypatch, layout):
    monkeypatch.setattr(check_numpy, "CHUNK", 8)
    random = np.random.default_rng(29)
    accepted = {fact: set() for fact in layout.facts}
    for _ in range(75):
        sizes, arrays = _random(layout, random)
        slow = {f: _outcome(layout, sizes, arrays, f, True)[0] for f in layout.facts}
        fast = {f: _outcome(layout, sizes, arrays, f, False) for f in layout.facts}
        assert all(sure for _, sure in fast.values())
        for fact in layout.facts:
            accepted[fact].add(slow[fact])
            assert slow[fact] <= fast[fact][0]
        # One alone may rely on others: together they find all.
        assert all(slow.values()) == all(good for good, _ in fast.values())
    assert all(found == {True, False} for found in accepted.values())


def test_properties_of_every_kind():
    layout = get("facts")
    sizes = {"n": 4, "m": 4, "nnz": 4, "rows": 2}
    good = {
        "row": [0, 0, 1, 3],
        "col": [0, 1, 0, 1],
        "seg": [0, 3, 4],
        "far": [9, 5, 2, 2],
        "pair": [[0, 1], [0, 1], [1, 2], [-1, 0]],
    }
    cases = [
        ("row", [0, 0, 3, 1], "row(2) = 3"),
        ("col", [0, 0, 0, 1], "`injective where row equal`"),
        ("seg", [0, 3, 0], "seg(2) = 0"),
        ("far", [9, 9, 2, 2], "far(1) = 9"),
        ("far", [9, 5, 6, 2], "`strictly decreasing within seg`"),
        ("pair", [[0, 1], [1, 1], [0, 0], [0, 0]], "`forall p : pair(p, 0) < pair(p, 1)`"),
        ("pair", [[0, 1], [2, 3], [2, 3], [2, 3]], "exists q"),
    ]
    for thorough in (False, True):
        check_arrays(layout, sizes, {n: np.array(a) for n, a in good.items()}, thorough)
        for name, array, message in cases:
            with pytest.raises(DataError) as caught:
                check_arrays(layout, sizes, {n: np.array(a) for n, a in {**good, name: array}.items()}, thorough)
            assert message in caught.value.message
            assert f"the array `{name}` of" in caught.value.message


def test_arrays_that_point_at_each_other():
    layout = get("linked")
    sizes = {"n": 4, "count": 2}
    assert check_arrays(layout, sizes, {"idx": np.array([3, 1]), "back": np.array([-1, 1, -1, 0])}) == ()
    with pytest.raises(DataError, match=r"back\(idx\(p\)\) = p"):
        check_arrays(layout, sizes, {"idx": np.array([3, 1]), "back": np.array([-1, 0, -1, 1])})


def test_what_is_not_checked_is_said(monkeypatch):
    monkeypatch.setattr(validate, "LIMIT", 30)
    layout = get("linked")
    arrays = {"idx": np.arange(20), "back": np.r_[np.arange(20), [-1] * 10]}
    partly = check_arrays(layout, {"n": 30, "count": 20}, arrays)
    assert [p.text for p in partly] == ["forall p, q : idx(p) + idx(q) != 2*n - 3"]


def test_many_entries_in_linear_time():
    layout = get("ell")
    rows, width = 20_000, 50
    colidx = np.tile(np.arange(width), (rows, 1))
    arrays = {"colidx": colidx, "val": np.ones((rows, width))}
    sizes = {"nrow": rows, "ncol": width, "width": width}
    assert check_arrays(layout, sizes, arrays) == ()
    colidx[777, 30] = -1
    with pytest.raises(DataError, match=r"colidx\(777, 30\) = -1"):
        check_arrays(layout, sizes, arrays)


def test_so_many_instances_that_nobody_could_try_them() -> None:
    """A table of 300,000 buckets has 10^11 pairs of them: what takes linear time is checked."""
    tensor = spfgen.pack(np.diag(np.arange(1.0, 9.0)), "hash_pairs(B=300000)")
    np.testing.assert_array_equal(tensor.to_numpy(), np.diag(np.arange(1.0, 9.0)))
    buckets = tensor.arrays["bucket"].copy()
    buckets[1000] = 9
    broken = violation(tensor.layout, tensor.sizes, {**tensor.arrays, "bucket": buckets})
    assert broken is not None
    assert "bucket" in broken
