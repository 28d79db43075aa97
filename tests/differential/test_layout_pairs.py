"""Every layout that packs, copied to every other one by the C of the kernel alone: the arrays satisfy their layout and
have the entries that dense numpy has."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import spfgen
from spfgen.errors import DataError, SpfgenError
from spfgen.layout.validate import violation
from tests.differential.kernels import layouts_of_rank
from tests.unit.layout.test_pack import storable

PAIRS = [(rank, a, b) for rank in (1, 2, 3) for a in layouts_of_rank(rank) for b in layouts_of_rank(rank)]
SHAPES = {1: [(7,), (0,)], 2: [(6, 7), (0, 3), (1, 1)], 3: [(3, 4, 2), (2, 0, 3)]}


def used(name: str, rank: int) -> str:
    open_ = name in ("coo", "coo_unsorted", "csf", "dense", "dense_col", "bit_map", "coo_pattern", "bit_map_pattern")
    return f"{name}(rank={rank})" if open_ else name


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("rank", "source", "target"), PAIRS)
def test_copies(rank: int, source: str, target: str) -> None:
    """No entries, a few, and many, as far as both layouts have a place for them."""
    at = ", ".join("ijk"[:rank])
    one, other = used(source, rank), used(target, rank)
    random = np.random.default_rng(len(PAIRS))
    try:
        kernel = spfgen.compile(f"B[{at}] = A[{at}]", A=one, B=other)
    except SpfgenError as error:
        pytest.skip(f"refused: {error}")
    given, result = (spfgen.parse("").layouts[n].layout(rank) for n in (source, target))
    for shape, density in product(SHAPES[rank], (0.0, 0.3, 1.0)):
        dense = np.where(random.random(shape) < density, random.integers(1, 9, shape), 0).astype(float)
        if given.is_pattern or result.is_pattern:
            dense = 1.0 * (dense != 0)
        for layout in (given, result, given):
            dense = storable(layout, shape, dense)
        operand = spfgen.pack(dense, one)
        try:
            made = kernel(A=operand)
        except DataError as error:
            if "stores nothing at" not in str(error):  # a zero of a block is an entry, too
                with pytest.raises(DataError):  # nor has numpy a place for all
                    spfgen.pack(dense, other)
            continue
        if isinstance(made, spfgen.Tensor):
            assert violation(made.layout, made.sizes, made.arrays) is None
            made = made.to_numpy()
        np.testing.assert_array_equal(made, dense)
