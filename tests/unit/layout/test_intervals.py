"""Intervals that the C assembles are what packing coordinate by coordinate gives; which layouts store them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from spfgen.facts.formula import Var
from spfgen.lang.spec import builtin_names, parse_tree
from spfgen.layout.checked import layout_of
from spfgen.layout.intervals import interval_axis
from spfgen.layout.nodes import Layout
from spfgen.layout.pack import pack
from spfgen.layout.validate import violation
from tests.differential.assembled import assembled
from tests.fuzz import unseen
from tests.unit.layout.test_pack import all_layouts, get

BY_ROWS = """layout upside_down(nrow, ncol) {
    size nrun
    relation { [i, q, j] -> [i, j] : 0 <= i < nrow and ptr(i) <= q < ptr(i + 1) and first(q) - 2 <= j <= last(q) }
    index ptr[nrow + 1] {
        range 0 <= ptr(i) <= nrun  property increasing  property ptr(0) = 0  property ptr(nrow) = nrun
    }
    index first[nrun] { range 2 <= first(q) < ncol + 2 }
    index last[nrun] { range 0 <= last(q) < ncol }
    value val[nrun] at [q]
}"""
BY_COLUMNS = """layout by_columns(nrow, ncol) {
    size nrun
    relation { [j, q, p] -> [i, j] :
        0 <= j < ncol and ptr(j) <= q < ptr(j + 1) and start(q) <= p < stop(q) and i = p }
    index ptr[ncol + 1] {
        range 0 <= ptr(j) <= nrun  property increasing  property ptr(0) = 0  property ptr(ncol) = nrun
    }
    index start[nrun] { range 0 <= start(q) < nrow  property strictly increasing within ptr }
    index stop[nrun] { range 0 <= stop(q) <= nrow }
    value val[nrun] at [q]
}"""


def layouts() -> dict[str, Layout]:
    found = {name: get(name) for name in ("rle", "sparse_rle", "csr_rle")}
    found["run_vector"] = unseen.resolved("run_vector")
    tree = parse_tree(BY_ROWS + BY_COLUMNS)
    found |= {name: layout_of(tree.layouts[name], {}, 0) for name in ("upside_down", "by_columns")}
    return found


ALL = layouts()


def random_intervals(rng: np.random.Generator, shape: tuple[int, ...], axis: int) -> tuple[np.ndarray, ...]:
    """(the coordinates of each, their last ones, their values), of which none meet, in no order."""
    found = []
    for row in np.ndindex(*shape[:axis], *shape[axis + 1 :]):
        cuts = np.sort(rng.choice(shape[axis] + 1, min(6, shape[axis] + 1), replace=False))
        for low, high in pairwise(cuts):
            if rng.random() < 0.7:
                at = (*row[:axis], int(low), *row[axis:])
                found.append((*at, int(high) - 1, int(rng.integers(1, 3))))
    table = np.array(found, np.int64).reshape(len(found), len(shape) + 2)
    return table[rng.permutation(len(found))].T


def one_by_one(axis: int, coords: list[np.ndarray], last: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, ...]:
    """The coordinates of all entries that intervals stand for, and their values."""
    lengths = last - coords[axis] + 1
    along = np.concatenate(
        [np.zeros(0, np.int64), *(np.arange(a, b + 1) for a, b in zip(coords[axis], last, strict=True))]
    )
    others = [along if k == axis else np.repeat(c, lengths) for k, c in enumerate(coords)]
    return tuple(others), np.repeat(values, lengths)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("seed", range(6))
def test_intervals_are_assembled_as_their_coordinates(name: str, seed: int) -> None:
    layout = ALL[name]
    axis = interval_axis(layout)
    assert axis is not None
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(0 if seed == 5 else 1, 12, layout.rank))
    *coords, last, values = random_intervals(rng, shape, axis)
    found = assembled(layout, shape, (*coords, last), values.astype(float), axis=axis)
    wanted = pack(layout, shape, *one_by_one(axis, coords, last, values.astype(float)))
    assert (found.status, found.sizes) == (0, wanted.sizes)
    for array, expected in wanted.arrays.items():
        np.testing.assert_array_equal(found.arrays[array], expected)
    assert violation(layout, found.sizes, found.arrays) is None


def test_what_meets_is_told_coordinate_by_coordinate() -> None:
    """Values at one coordinate add up."""
    layout = ALL["csr_rle"]
    given = np.array([0, 0]), np.array([1, 3]), np.array([3, 5])
    found = assembled(layout, (1, 9), given, np.ones(2), axis=1)
    wanted = pack(layout, (1, 9), (np.zeros(5, np.int64), np.arange(1, 6)), np.array([1.0, 1, 2, 1, 1]))
    assert found.status == 0
    for array, expected in wanted.arrays.items():
        np.testing.assert_array_equal(found.arrays[array], expected)


def test_which_layouts_store_intervals() -> None:
    """Those whose places are one value for a range of a coordinate, and no others."""
    found = {layout.name for layout in all_layouts() if interval_axis(layout) is not None}
    assert found & set(builtin_names()) == {"rle", "sparse_rle", "csr_rle"}


def test_a_value_for_each_coordinate_is_no_interval() -> None:
    layout = ALL["csr_rle"]
    (value,) = layout.values
    assert interval_axis(replace(layout, values=(replace(value, position=(Var("p"),)),))) is None
