"""Facts about matrices against what a loop over the dense array finds."""

from __future__ import annotations

import json
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spfgen.catalogue import layouts_of_rank
from spfgen.run.coordinates import Coordinates
from spfgen.run.drawings.draw import _cells
from spfgen.run.drawings.inspect import BLOCKS, as_dict, as_text, costs, distinct, entries_of, facts_of


@st.composite
def tensors(draw):
    """Stored entries in any order, some twice; most of them small numbers, so that many are equal."""
    shape = tuple(draw(st.lists(st.integers(0, 6), min_size=0, max_size=3)))
    count = draw(st.integers(0, 12)) if 0 not in shape else 0
    coords = tuple(
        np.array(draw(st.lists(st.integers(0, max(0, n - 1)), min_size=count, max_size=count)), np.int64) for n in shape
    )
    dtype = draw(st.sampled_from(["float64", "int64", "complex128", "bool", "uint8"]))
    values = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    return Coordinates(shape, coords, np.array(values, dtype))


def stored(data):
    """{place: value} of all places that hold an entry."""
    if not data.shape:
        return {(): np.add.reduce(data.values)} if data.values.size else {}
    found = {}
    for place, value in zip(zip(*data.coords, strict=True), data.values, strict=True):
        key = tuple(map(int, place))
        found[key] = found[key] + value if key in found else value
    return found


def runs(places):
    """The lengths of runs of neighbours among sorted places."""
    return [len(list(run)) for _, run in groupby(enumerate(places), lambda e: (e[1][:-1], e[1][-1] - e[0]))]


@settings(max_examples=150, deadline=None)
@given(tensors())
def test_facts_as_a_loop_finds_them(data) -> None:
    facts = facts_of(data, distinct(data))
    expected = stored(data)
    dense = data.to_dense()
    assert (facts.shape, facts.stored, facts.places) == (data.shape, data.values.size, len(expected))
    assert facts.density == pytest.approx(len(expected) / max(1, dense.size))
    assert facts.values.dtype == data.values.dtype.name
    assert facts.values.zeros == sum(v == 0 for v in expected.values())
    assert facts.values.distinct == len(set(expected.values()))
    for k, spread in enumerate(facts.spread):
        counts = [sum(p[k] == index for p in expected) for index in range(data.shape[k])]
        assert (spread.extent, spread.empty) == (data.shape[k], counts.count(0))
        if counts:
            assert (spread.least, spread.median, spread.most) == (min(counts), np.median(counts), max(counts))
            assert spread.mean == pytest.approx(np.mean(counts))
    assert list(facts.fibers) == [len({p[: k + 1] for p in expected}) for k in range(len(data.shape) - 1)]
    if data.shape:
        lengths = runs(sorted(expected))
        assert facts.runs is not None
        assert (facts.runs.count, facts.runs.longest) == (len(lengths), max(lengths, default=0))
        equal = [runs([p for p in sorted(expected) if expected[p] == v]) for v in set(expected.values())]
        lengths = [n for each in equal for n in each]
        assert facts.equal_runs is not None
        assert (facts.equal_runs.count, facts.equal_runs.longest) == (len(lengths), max(lengths, default=0))


@settings(max_examples=150, deadline=None)
@given(tensors().filter(lambda t: len(t.shape) == 2))
def test_facts_of_matrices(data) -> None:
    facts, expected, dense = facts_of(data, distinct(data)), stored(data), data.to_dense()
    offsets = {j - i for i, j in expected}
    found = facts.diagonals
    assert found is not None
    assert (found.below, found.above) == (max(0, *(-d for d in offsets), 0), max(0, *offsets, 0))
    assert (found.count, found.main) == (len(offsets), sum(i == j for i, j in expected))
    assert found.places == sum(len(np.diagonal(dense, d)) for d in offsets)
    assert len(facts.blocks) == (len(BLOCKS) if expected else 0)
    for block in facts.blocks:
        held = {(i // block.rows, j // block.columns) for i, j in expected}
        assert block.count == len(held)
        assert block.fill == pytest.approx(len(expected) / (len(held) * block.rows * block.columns))
    symmetry = facts.symmetry
    if data.shape[0] != data.shape[1]:
        assert symmetry is None
        return
    assert symmetry is not None
    off = [p for p in expected if p[0] != p[1]]
    assert symmetry.pattern == pytest.approx(sum(p[::-1] in expected for p in off) / len(off) if off else 1)
    assert symmetry.symmetric == np.array_equal(dense, dense.T)
    assert symmetry.hermitian == np.array_equal(dense, dense.conj().T)
    assert symmetry.skew == np.array_equal(dense.astype(complex), -dense.T.astype(complex))


def test_kinds_of_symmetry() -> None:
    def symmetry(rows):
        data = entries_of(np.array(rows))
        found = facts_of(data, data).symmetry
        assert found is not None
        return found.pattern, found.symmetric, found.skew, found.hermitian

    assert symmetry([[1.0, 2], [2, 0]]) == (1, True, False, True)
    assert symmetry([[0.0, 2], [-2, 0]]) == (1, False, True, False)
    assert symmetry([[1, 2j], [-2j, 0]]) == (1, False, False, True)
    assert symmetry([[0, 2j], [-2j, 0]]) == (1, False, True, True)
    assert symmetry([[1, 2j], [2j, 0]]) == (1, True, False, False)
    assert symmetry([[1.0, 2], [0, 0]]) == (0, False, False, False)
    assert symmetry([[np.nan, np.inf], [np.inf, 0]]) == (1, True, False, True)
    assert symmetry(np.array([[0, 1], [255, 0]], np.uint8)) == (1, False, False, False)


def test_nan_and_infinity_are_counted_and_no_number_of_json() -> None:
    data = entries_of(np.array([[np.nan, np.inf, -np.inf], [3, np.nan, -2]]))
    facts = facts_of(data, data)
    assert (facts.values.nans, facts.values.infinities, facts.values.distinct) == (2, 2, 5)
    assert (facts.values.least, facts.values.most) == (-2, 3)
    assert json.loads(json.dumps(as_dict(facts, costs(data, layouts_of_rank(2))), allow_nan=False))["places"] == 6


@pytest.mark.parametrize("kind", ["float16", "longdouble", "clongdouble", "uint64", "bool", ">f4"])
def test_types_that_only_numpy_has(kind) -> None:
    values = np.array([1, 0, 1], kind)
    if kind == "longdouble":
        values[2] = np.finfo(kind).max
    data = entries_of(values)
    facts = facts_of(data, distinct(data))
    found = costs(data, layouts_of_rank(1))
    assert as_text(facts, found)
    json.dumps(as_dict(facts, found), allow_nan=False)


def test_texts() -> None:
    data = Coordinates((2, 3), tuple(np.array(c) for c in ([0, 1, 0], [1, 2, 1])), np.array([1.0, 2.0, 4.0]))
    single = distinct(data)
    facts = facts_of(data, single)
    lines = as_text(facts, costs(single, layouts_of_rank(2))).splitlines()
    assert lines[:4] == [
        "shape       2 x 3",
        "entries     3 stored, 2 without duplicates, density 0.333",
        "values      float64, 2 to 5, 2 different",
        "rows        1 to 1 entries, median 1, mean 1; 0 of 2 are empty",
    ]
    assert "bandwidth   0 below and 1 above the main diagonal; an upper triangle" in lines
    assert "csr 18 B 36 B nnz = 2".split() in [line.split() for line in lines]
    assert any(line.startswith("  lower ") and "no place for the value 5.0 at (0, 1)" in line for line in lines)
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (0, 0), (0, 4), (2, 2, 0), (1, 1, 1, 1)])
def test_nothing_is_too_small(shape) -> None:
    for array in (np.zeros(shape), np.ones(shape)):
        data = entries_of(array)
        facts = facts_of(data, distinct(data))
        found = costs(data, layouts_of_rank(len(shape)))
        assert as_text(facts, found)
        assert facts.places == (np.count_nonzero(array) if shape else 1), "a number is stored, whatever it is"
        json.dumps(as_dict(facts, found), allow_nan=False)


def test_layouts_by_rank() -> None:
    assert "csr" in layouts_of_rank(2)
    assert "csr" not in layouts_of_rank(3)
    assert "bcsr(R=2, C=2)" in layouts_of_rank(2)
    assert list(layouts_of_rank(2, more=["bcsr(R=2, C=2)", "bcsr(R=5, C=1)"]))[-1] == "bcsr(R=5, C=1)"
    assert len(set(layouts_of_rank(3).values())) == len(layouts_of_rank(3))
    assert layouts_of_rank(0) == {}


def test_cells_of_a_picture() -> None:
    rows, columns = np.array([0, 1, 999, 2]), np.array([0, 0, 2, 1])
    cells = _cells((rows, columns), (1000, 3))
    assert cells.shape == (500, 3)
    assert cells.sum() == 4
    assert (cells[0, 0], cells[499, 2], cells[1, 1]) == (2, 1, 1)
    assert _cells((np.array([2**62]), np.array([0])), (2**62 + 1, 1)).sum() == 1
    assert _cells((rows[:0], rows[:0]), (0, 0)).shape == (1, 1)


PICTURES = [
    ("png", b"\x89PNG", (3, 4)),
    ("pdf", b"%PDF", (2, 3, 4)),
    ("svg", b"<?xml", (5,)),
    ("SVG", b"<?xml", ()),
    ("png", b"\x89PNG", (0, 0)),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("ending", "start", "shape"), PICTURES)
def test_pictures(tmp_path, ending, start, shape) -> None:
    pytest.importorskip("matplotlib")
    from spfgen.run.drawings.draw import draw_entries

    path = tmp_path / f"x.{ending}"
    draw_entries(str(path), entries_of(np.ones(shape)), "x $1_", force=False)
    assert path.read_bytes().startswith(start)
