"""Structured layouts: packed as their pictures say, with empty rows and repeated ones; products with a vector."""

from __future__ import annotations

import numpy as np
import pytest

import spfgen

PICTURES = [
    ("hash_table(B=3)", [0, 5, 0, 6, 7, 0], {"bucket": [0, 1, 3, 3], "val": [6, 5, 7]}),
    ("hash_pairs(B=3)", [[5, 0, 6], [0, 0, 0], [0, 7, 0]], {"row": [0, 2, 0], "col": [0, 1, 2], "val": [5, 7, 6]}),
    ("sparse_rle", [0, 0, 5, 5, 6, 0, 7], {"start": [2, 4, 6], "stop": [4, 5, 7], "val": [5, 6, 7]}),
    ("blocks_of_runs", [0, 5, 5, 6, 0, 7], {"first": [1, 5], "last": [4, 6], "stop": [3, 4, 6], "val": [5, 6, 7]}),
    ("row_interval", [[0, 5, 5, 0], [0] * 4, [0, 0, 6, 0]], {"start": [1, 4, 2], "stop": [3, 0, 3]}),
    ("single_band", [[0, 5, 6, 0], [0] * 4, [7, 0, 8, 0]], {"start": [1, 4, 0], "val": [5, 6, 7, 0, 8]}),
    ("repeated_rows", [[5, 0, 6], [5, 0, 6], [0, 7, 0]], {"rows": [0, 2, 3], "colidx": [0, 2, 1], "val": [5, 6, 7]}),
    ("upper", [[5, 6, 8], [0, 7, 9], [0, 0, 1]], {"val": [5, 6, 7, 8, 9, 1]}),
    ("pinpoint", [[5, 0, 0], [0, 0, 0], [0, 0, 6]], {"rowidx": [0, -1, 2]}),
    ("bit_map", [[5, 0, 6], [0, 7, 0]], {"stored": [[1, 0, 1], [0, 1, 0]], "val": [[5, 0, 6], [0, 7, 0]]}),
    ("byte_map", [[5, 0, 6], [0, 7, 0]], {"rowptr": [0, 2, 3], "colidx": [0, 2, 1], "val": [[5, 0, 6], [0, 7, 0]]}),
]


@pytest.mark.parametrize(("use", "dense", "arrays"), PICTURES, ids=lambda v: v if isinstance(v, str) else "")
def test_pictures(use: str, dense, arrays) -> None:
    tensor = spfgen.pack(np.array(dense, float), use)
    tensor.validate()
    assert {n: tensor.arrays[n].tolist() for n in arrays} == arrays
    np.testing.assert_array_equal(tensor.to_numpy(), dense)


def test_rows_are_repeated_where_their_values_are_the_same() -> None:
    """Same columns are not enough; rows without entries are a run, too."""
    dense = np.zeros((9, 4))
    dense[1:3] = 5, 0, 6, 0
    dense[3:5] = 5, 0, 7, 0
    dense[7:] = 0, 0, 0, 1
    tensor = spfgen.pack(dense, "repeated_rows")
    assert tensor.arrays["rows"].tolist() == [0, 1, 3, 5, 7, 9]
    np.testing.assert_array_equal(tensor.to_numpy(), dense)
    np.testing.assert_array_equal(tensor.convert("csr").convert("repeated_rows").to_numpy(), dense)


def test_many_coordinates_of_few_values_are_converted() -> None:
    """The room for keys is not that for the places of values."""
    from spfgen.run.pack import convert_arrays

    tensor = spfgen.pack(np.ones((60, 700)), "csr_rle")
    layout = spfgen.api.handle_of("bcsr(R=2, C=2)").layout(2)
    made = convert_arrays(tensor.layout, tensor.sizes, tensor.arrays, layout, small=0)
    assert made.arrays["val"].shape == (10500, 2, 2)
    assert (made.arrays["val"] == 1).all()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("use", [p[0] for p in PICTURES])
def test_products_with_a_vector(use: str) -> None:
    dense = np.array(next(d for u, d, _ in PICTURES if u == use), float)
    x = np.arange(dense.shape[-1]) + 1.0
    text = "y[i] = A[i, j]*x[j]" if dense.ndim == 2 else "y = A[i]*x[i]"
    y = {"y": "dense"} if dense.ndim == 2 else {}
    np.testing.assert_allclose(spfgen.compile(text, A=use, x="dense", **y)(A=dense, x=x), dense @ x)
