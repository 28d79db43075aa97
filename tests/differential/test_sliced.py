"""Tensors cut along a coordinate: parts of arrays are tensors of the same layout, in all layouts that allow it."""

from __future__ import annotations

import numpy as np
import pytest

import spfgen
from spfgen.layout.validate import check_arrays
from tests.fuzz import unseen
from tests.papers import support

pytest.importorskip("dask")
from spfgen.cluster.sliced import cut_along, joined_along
from spfgen.cluster.tasks import JoinBlocks, TakeBox

EVERY = [
    (rank, name)
    for rank in (1, 2, 3)
    for name in (*support.LAYOUTS[rank], *(n for n, u in unseen.ALL.items() if u.rank == rank))
]
CUT = {
    (1, "sv"): {0}, (2, "csr"): {0}, (2, "csc"): {1}, (2, "dcsr"): {0}, (2, "coo"): {0}, (3, "csf"): {0},
    (2, "ell"): {0}, (2, "vbl"): {0}, (2, "csr_rle"): {0}, (2, "dense"): {0, 1}, (2, "warp24"): {0},
    (2, "lower"): set(), (2, "skyline"): set(), (2, "dia"): set(), (2, "sym_csr"): set(), (2, "jds"): set(),
}  # fmt: skip


@pytest.mark.sampled(10)
@pytest.mark.parametrize(("rank", "name"), EVERY)
def test_parts_of_arrays_are_parts(rank: int, name: str) -> None:
    rng = np.random.default_rng(rank)
    shape = (7, 6, 3)[:rank]
    data = np.where(rng.random(shape) < 0.5, rng.integers(1, 9, shape), 0).astype(float)
    made = support.packed(data, name, 0, 3)
    if made is None:
        pytest.skip("the layout does not hold such data")
    tensor, dense = made
    found = set()
    for axis in range(rank):
        cut = cut_along(tensor, axis)
        if cut is None:
            continue
        found.add(axis)
        for low, high in ((0, 2), (1, shape[axis] - 1), (2, 2), (shape[axis], shape[axis]), (0, shape[axis])):
            part = cut.part(low, high)
            check_arrays(part.layout, part.sizes, part.arrays, thorough=True)
            wanted = dense[tuple(slice(low, high) if k == axis else slice(None) for k in range(rank))]
            np.testing.assert_array_equal(part.to_numpy(), wanted)
        n = shape[axis]
        whole = joined_along([cut.part(low, high) for low, high in ((0, 2), (2, 2), (2, n - 1), (n - 1, n))], axis)
        assert whole is not None, "what can be cut can be joined"
        for array, own in tensor.arrays.items():
            np.testing.assert_array_equal(whole.arrays[array], own)
        check_arrays(whole.layout, whole.sizes, whole.arrays, thorough=True)
    assert found == CUT.get((rank, name), found)


def test_blocks_by_rows_copy_no_values() -> None:
    tensor = spfgen.pack(np.arange(30.0).reshape(6, 5), "csr")
    found = spfgen.blocks(tensor, {0: 2})
    for block in dict(found.graph).values():
        assert np.shares_memory(block.arrays["val"], tensor.arrays["val"])
    np.testing.assert_array_equal(found.compute().to_numpy(), tensor.to_numpy())
    both = spfgen.blocks(tensor, {0: (0, 4, 2), 1: 2})
    np.testing.assert_array_equal(both.compute().to_numpy(), tensor.to_numpy())


def test_unsorted_coordinates_are_not_cut_so() -> None:
    tensor = spfgen.pack((([3, 0, 2], [1, 1, 0]), [1.0, 2.0, 3.0]), "coo_unsorted", shape=(4, 2))
    arrays = {n: a[::-1].copy() for n, a in tensor.arrays.items()}
    assert cut_along(spfgen.Tensor(tensor.layout, tensor.sizes, arrays), 0) is None


RISING = """layout rising(n, m) {
    size nnz
    relation { [i, p] -> [i, j] : 0 <= i < n and ptr(i) <= p < ptr(i + 1) and j = col(p) }
    index ptr[n + 1] {
        range 0 <= ptr(p) <= nnz
        property increasing
        property ptr(0) = 0
        property ptr(n) = nnz
    }
    index col[nnz] {
        range 0 <= col(p) < m
        property strictly increasing
    }
    value val[nnz] at [p]
}"""


def test_parts_that_are_not_joined_by_their_arrays() -> None:
    """Widths that differ; a property of all rows that each part has, and both together do not; another fill
    value."""
    dense = np.array([[1.0, 0, 0], [2, 3, 0], [0, 0, 4], [5, 6, 7]])
    rising = spfgen.parse(RISING).layouts["rising"]
    whole = joined_along([spfgen.pack(np.eye(3)[:1], rising), spfgen.pack(np.eye(3)[1:], rising)], 0)
    assert whole is not None
    np.testing.assert_array_equal(whole.to_numpy(), np.eye(3))
    for first, second, array, cut in (
        ("ell", "ell", dense, 1),
        (rising, rising, dense[:2], 1),
        ("csr", "csr fill 4", dense, 2),
    ):
        parts = spfgen.pack(array[:cut], first), spfgen.pack(array[cut:], second)
        assert joined_along(parts, 0) is None
        np.testing.assert_array_equal(JoinBlocks(array.shape, ((0, 0), (cut, 0)))(*parts).to_numpy(), array)


def test_a_small_part_does_not_hold_its_block() -> None:
    for block in (spfgen.pack(np.eye(9), "csr"), np.eye(9)):
        halo, most = TakeBox(((8, 9), (0, 9)))(block), TakeBox(((0, 8), (0, 9)))(block)
        whole, small, large = (v if isinstance(v, np.ndarray) else v.arrays["val"] for v in (block, halo, most))
        assert not np.shares_memory(whole, small)
        assert np.shares_memory(whole, large)
