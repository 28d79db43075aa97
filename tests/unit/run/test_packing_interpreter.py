"""Packing by a table gives the arrays that packing with numpy gives, for all layouts that have one; else nothing."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from spfgen import folder
from spfgen.errors import DataError
from spfgen.layout.pack import Packed, pack
from spfgen.layout.table import table_of
from spfgen.run.packing_interpreter import by_table, table
from tests.unit.layout.test_pack import LAYOUTS, get, label

TABLES = [x for x in LAYOUTS if table(x) is not None]
ORDERS = ("in order", "in no order", "several times", "none")


def entries(shape: tuple[int, ...], order: str, seed: int):
    """Coordinates and values, in the order of rows, or in none, or several at one place."""
    random = np.random.default_rng(seed)
    count = 0 if order == "none" or min(shape) == 0 else min(24, int(np.prod(shape)))
    places = random.choice(max(1, int(np.prod(shape))), count, replace=order == "several times")
    if order == "in order":
        places = np.sort(places)
    coords = np.unravel_index(places, shape) if count else [np.zeros(0, np.int64) for _ in shape]
    return tuple(np.asarray(c) for c in coords), random.integers(1, 9, count).astype(float)


def same(found: Packed, wanted: Packed) -> None:
    assert found.sizes == wanted.sizes
    assert found.arrays.keys() == wanted.arrays.keys()
    for name, array in wanted.arrays.items():
        assert found.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(found.arrays[name], array)


def test_the_layouts_of_everyday_have_tables():
    names = {x.name for x in TABLES}
    assert {"csr", "csc", "coo", "csf", "dcsr", "bcsr", "dia", "ell", "sv", "sv_decreasing", "hash_table"} <= names
    assert {"jds", "rle", "csr_pattern", "sym_csr"}.isdisjoint(names)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("layout", TABLES, ids=label)
def test_the_arrays_are_those_of_numpy(layout, kind):
    seen = 0
    for number, (order, extent) in enumerate(product(ORDERS, (0, 1, 7, 12))):
        for shape in {(extent,) * layout.rank, (extent,) + (9,) * (layout.rank - 1)}:
            coords, values = entries(shape, order, number)
            try:
                wanted = pack(layout, shape, coords, values)
            except DataError:
                wanted = None  # what numpy refuses, a table does not store
            found = by_table(layout, shape, [c.astype(kind) for c in coords], values, {})
            assert (found is None) or wanted is not None
            if found is not None and wanted is not None:
                seen += 1
                same(found, wanted)
    assert seen > 3


@pytest.mark.parametrize("name", ["csr", "csc", "dcsr", "bcsr", "ell", "csf3"])
def test_more_entries_than_a_block(name):
    """Where one block ends and another begins, levels go on."""
    layout = get(name)
    random = np.random.default_rng(3)
    shape = (40, 50, 30)[: layout.rank]
    places = random.choice(int(np.prod(shape)), 1700, replace=False)
    for chosen in (np.sort(places), places):
        coords = np.unravel_index(chosen, shape)
        values = random.random(len(chosen))
        found = by_table(layout, shape, coords, values, {})
        assert found is not None
        same(found, pack(layout, shape, coords, values))


def test_types():
    layout = get("csr")
    coords, values = entries((7, 300), "in no order", 1)
    for kind in ("bool", "int8", "uint16", "float32", "complex64", "complex128"):
        own = values.astype(kind)
        for index in ("int32", "int64", "int16"):
            kinds = {"rowptr": "int32", "colidx": index}
            found = by_table(layout, (7, 300), coords, own, kinds)
            assert found is not None
            same(found, pack(layout, (7, 300), coords, own, kinds))
    assert by_table(layout, (7, 300), coords, values, {"colidx": "int8"}) is None  # numpy says which does not fit


@pytest.mark.parametrize("duplicates", ["sum", "first", "last", np.maximum, lambda a, b: a - b])
def test_duplicates(duplicates):
    for name in ("csr", "coo_unsorted", "dia", "sv_decreasing"):
        layout = get(name, **({"rank": 2} if name == "coo_unsorted" else {}))
        coords, values = entries((5, 5)[: layout.rank], "several times", 2)
        found = by_table(layout, (5, 5)[: layout.rank], coords, values, {}, duplicates)
        assert found is not None
        same(found, pack(layout, (5, 5)[: layout.rank], coords, values, duplicates=duplicates))


def test_what_is_wrong_is_for_others_to_say():
    csr, values = get("csr"), np.ones(2)
    inside, outside, twice = (np.array(p) for p in ([0, 1], [0, 7], [1, 1]))
    assert by_table(csr, (3, 3), [inside, outside], values, {}) is None
    assert by_table(csr, (3, 3), [-inside, inside], values, {}) is None
    assert by_table(csr, (3, 3), [twice, twice], values, {}, "error") is None
    assert by_table(csr, (3, 3), [twice, twice[:1]], values, {}) is None
    assert by_table(csr, (3, 3, 3), [inside, inside], values, {}) is None
    assert by_table(get("diagonal"), (3, 3), [inside, inside + 1], values, {}) is None
    assert by_table(get("hash_pairs"), (2**62, 2**62), [inside, inside], values, {}) is None  # keys beyond 64 bits
    assert by_table(csr, (3, 3), [inside[::-1], inside], values, {}, most_sorted=1) is None
    assert by_table(csr, (3, 3), [inside[::-1], inside], values, {}, most_sorted=2) is not None
    with pytest.raises(DataError, match="fill"):
        by_table(replace(csr, fill=0.5), (3, 3), [inside, inside], values.astype(int), {})


def test_a_table_comes_from_the_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("SPFGEN_CACHE_DIR", str(tmp_path))
    layout = get("bcsr")
    first, again = table_of(layout), table_of(layout)
    assert first is not None
    assert again is not None
    assert again.key.fields == first.key.fields
    assert folder.holds("packing")
    for file in (tmp_path / "packing").iterdir():
        file.write_bytes(file.read_bytes()[:-3])
    assert table_of(layout) is not None
    assert table_of(get("jds")) is None
    assert table_of(get("jds")) is None
