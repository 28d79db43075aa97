"""The memory that is foretold is the memory that packing takes."""

from __future__ import annotations

import numpy as np
import pytest

from spfgen.catalogue import layouts_of_rank
from spfgen.errors import DataError
from spfgen.lang.spec import parse_tree
from spfgen.layout import measure as measuring
from spfgen.layout.measure import measure
from spfgen.layout.pack import pack
from spfgen.layout.pack_entries import sorted_entries
from spfgen.pipeline import layout_of

SHAPES = {1: [(0,), (1,), (37,)], 2: [(0, 0), (0, 5), (5, 0), (1, 1), (9, 8), (12, 17)], 3: [(0, 2, 3), (4, 5, 6)]}


def entries(shape, density, seed=0):
    """(columns, values), sorted, each place once."""
    random = np.random.default_rng(seed)
    dense = np.where(random.random(shape) < density, random.integers(1, 9, shape), 0).astype(float)
    return tuple(c.astype(np.int64) for c in np.nonzero(dense)), dense[np.nonzero(dense)]


def outcome(function, *arguments):
    """(result, None) or (None, the text of the DataError)."""
    try:
        return function(*arguments), None
    except DataError as error:
        return None, error.message


def cases():
    for rank, shapes in SHAPES.items():
        for text in layouts_of_rank(rank):
            for shape in shapes:
                yield pytest.param(text, shape, id=f"{text}-{'x'.join(map(str, shape))}")


@pytest.mark.sampled(32)
@pytest.mark.parametrize(("text", "shape"), list(cases()))
def test_as_packed(text, shape) -> None:
    layout = layouts_of_rank(len(shape))[text]
    for density in (0, 0.2, 1):
        columns, values = entries(shape, density)
        for few in (len(values), 1):
            own, some = tuple(c[:few] for c in columns), values[:few]
            packed, refusal = outcome(pack, layout, shape, own, some)
            found, refused = outcome(measure, layout, shape, own, some)
            assert refused == refusal
            if found is not None:
                assert found.bytes == sum(a.nbytes for a in packed.arrays.values())
                assert (found.exact, found.verified, found.index_bytes) == (True, True, 4)
                assert found.sizes == packed.sizes


@pytest.mark.parametrize("text", layouts_of_rank(2))
def test_without_room_for_large_arrays(text, monkeypatch) -> None:
    """With little room the sizes are the same as long as they are known, and too small otherwise, never wrong."""
    layout, shape = layouts_of_rank(2)[text], (30, 40)
    columns, values = entries(shape, 0.2)
    columns, values = tuple(c[::5] for c in columns), values[::5]
    try:
        full = measure(layout, shape, columns, values)
    except DataError:
        return
    monkeypatch.setattr(measuring, "LEAST_ROOM", 1)
    for room in (1, 20, 35, 100, 1000):
        monkeypatch.setattr(measuring, "MOST_ROOM", room)
        found = measure(layout, shape, columns, values)
        assert found.bytes == full.bytes if found.exact else found.bytes <= full.bytes
        assert all(full.sizes[n] == v for n, v in found.sizes.items())
        # Layouts without index arrays have nothing that is too large but values; they were seen to have a place.
        assert found.verified or layout.indexes or room < 1000


def test_extents_beyond_memory() -> None:
    columns = (np.array([3, 2**40 - 1]), np.array([0, 2**41 - 1]))
    for text, layout in layouts_of_rank(2).items():
        try:
            found = measure(layout, (2**40, 2**41), columns, np.ones(2))
        except DataError:
            continue
        assert found.index_bytes == 8
        if layout.name in ("coo", "coo_unsorted"):
            assert (found.bytes, found.exact, found.verified) == (2 * 24, True, True)
        if text == "dense":
            assert (found.bytes, found.exact, found.verified) == (8 * 2**81, True, True)
        if text == "csr":
            assert (found.exact, found.verified) == (False, False)
            assert found.bytes == 8 * (2**40 + 1)


MIRRORED = """
layout mirrored(n, m) {
    relation { [p, q] -> [i, j] : 0 <= q <= p < n and m = n and
        ((i = p and j = q) or (i = q and j = p and q < p)) }
    value val[n*(n + 1)/2] at [p*(p + 1)/2 + q]
}
"""


def test_values_that_places_share() -> None:
    """A layout that stores the lower half holds symmetric matrices only."""
    tree = parse_tree(MIRRORED, "test.spf")
    layout = layout_of(tree.layouts["mirrored"], {})
    one = np.array([0, 1, 1]), np.array([1, 0, 1])
    found = measure(layout, (3, 3), one, np.array([4.0, 4.0, 5.0]))
    assert (found.bytes, found.verified) == (48, True)
    with pytest.raises(DataError, match=r"\(0, 1\)"):
        measure(layout, (3, 3), one, np.array([4.0, 3.0, 5.0]))
    with pytest.raises(DataError, match="there is none"):
        measure(layout, (3, 3), tuple(c[1:] for c in one), np.array([4.0, 5.0]))
    large = measure(layout, (100_000, 100_000), one, np.array([4.0, 3.0, 5.0]))
    assert (large.bytes, large.verified) == (8 * 100_000 * 100_001 // 2, False)


def test_packing_into_more_than_there_is() -> None:
    layout = layouts_of_rank(2)["dense"]
    columns, values = sorted_entries(layout, (2**40, 2**41), (np.array([3]), np.array([4])), np.ones(1))
    with pytest.raises(DataError, match="`val` of layout `dense` is 1099511627776 x 2199023255552"):
        pack(layout, (2**40, 2**41), tuple(columns.values()), values)
