"""Layouts without values: what they store is 1."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import spfgen
from spfgen.errors import DataError, Unsupported

RANDOM = np.random.default_rng(4)
A = np.where(RANDOM.random((8, 9)) < 0.4, RANDOM.integers(-3, 4, (8, 9)), 0).astype(float)
A[3] = 0
A[2, 5] = -0.0
X = np.arange(9.0) + 1
PATTERNS = ["csr_pattern", "coo_pattern", "bit_map_pattern"]


@pytest.mark.parametrize("name", PATTERNS)
def test_what_is_not_zero_is_stored_as_true(name: str, tmp_path) -> None:
    tensor = spfgen.pack(A, name)
    tensor.validate()
    assert (tensor.dtype, tensor.nse) == (np.bool_, np.count_nonzero(A))
    for made in (
        tensor,
        spfgen.pack(sp.csr_array(A), name),
        spfgen.pack(A, "coo_unsorted").convert(name),
        pickle.loads(pickle.dumps(tensor)),
        spfgen.tensor(name, shape=A.shape, **{a.name: tensor.arrays[a.name] for a in tensor.layout.indexes}),
    ):
        np.testing.assert_array_equal(made.to_numpy(), A != 0)
    assert tensor.to_scipy().dtype == bool
    np.testing.assert_array_equal(tensor.to_scipy().toarray(), A != 0)
    tensor.save(tmp_path / "p.npz")
    np.testing.assert_array_equal(spfgen.load_tensor(tmp_path / "p.npz").to_numpy(), A != 0)
    wide = spfgen.pack(A, f"{name}<float>")
    assert wide.dtype == np.float32
    np.testing.assert_array_equal(wide.to_numpy(), (A != 0).astype(np.float32))
    assert tensor.convert("csc").dtype == np.bool_
    np.testing.assert_array_equal(spfgen.pack(tensor, "csr<double>").to_numpy(), (A != 0).astype(float))
    assert spfgen.pack(np.zeros((3, 4)), name).to_numpy().sum() == 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("made", [A, sp.coo_array(A), spfgen.pack(A, "csc")], ids=["numpy", "scipy", "tensor"])
def test_kernels_read_ones(name: str, made) -> None:
    rows = spfgen.compile("y[i] = A[i, j]*x[j]", A=name, x="dense", y="dense")
    columns = spfgen.compile("y[j] += 2*A[i, j]*x[i]", A=name, x="dense", y="dense")
    masked = spfgen.compile("C[i, j] = A[i, j]*B[i, j]", A=name, B="csr", C="dense")
    np.testing.assert_allclose(rows(A=made, x=X), (A != 0) @ X)
    np.testing.assert_allclose(columns(A=made, x=X[:8]), 2 * X[:8] @ (A != 0))
    np.testing.assert_array_equal(masked(A=made, B=A + 1), (A != 0) * (A + 1))


def test_one_interval_of_ones_for_each_row() -> None:
    columns = np.arange(9)
    band = (columns >= np.arange(8)[:, None]) & (columns < np.arange(8)[:, None] + 3)
    band[5] = False
    tensor = spfgen.pack(band, "interval_pattern")
    np.testing.assert_array_equal(tensor.to_numpy(), band)
    y = spfgen.compile("y[i] = M[i, j]*x[j]", M="interval_pattern", x="dense", y="dense")(M=tensor, x=X)
    np.testing.assert_allclose(y, band @ X)
    with pytest.raises(DataError):
        spfgen.pack(A, "interval_pattern")


def test_what_a_pattern_cannot_be() -> None:
    with pytest.raises(DataError, match="another fill value than 1"):
        spfgen.pack(A, "csr_pattern fill True")
    with pytest.raises(DataError, match="expected a 1 in `one`"):
        spfgen.tensor("csr_pattern", shape=(1, 2), rowptr=[0, 1], colidx=[0], one=[2.0])
    text = "kernel k { tensor A : csr_pattern  tensor C : csr_pattern shares A  C[i, j] = 2*A[i, j] }"
    with pytest.raises(Unsupported, match="`C` cannot be an output in layout `csr_pattern`"):
        spfgen.parse(text).kernels["k"].compile()
    far = spfgen.pack(np.where(A == 0, np.inf, 1.0), "csr_pattern", fill=np.inf)
    np.testing.assert_array_equal(far.to_numpy(), np.where(A == 0, np.inf, 1))


def test_a_mark_is_a_byte() -> None:
    """Index arrays that hold 0 and 1 are uint8; arrays of bool are used where they are, and int32 as well."""
    mask = A != 0
    made = spfgen.pack(mask, "bit_map_pattern")
    assert made.arrays["stored"].dtype == np.uint8
    assert spfgen.pack(A, "csr").convert("byte_map").arrays["stored"].dtype == np.uint8
    own = spfgen.tensor("bit_map_pattern", shape=mask.shape, stored=mask)
    assert np.shares_memory(own.arrays["stored"], mask)
    product = spfgen.compile("y[i] = M[i, j]*x[j]", M="bit_map_pattern", x="dense", y="dense")
    assert "uint8_t *restrict M_stored" in product.source
    for stored in (own, spfgen.tensor("bit_map_pattern", shape=mask.shape, stored=mask.astype(np.int32))):
        np.testing.assert_allclose(product(M=stored, x=X), mask @ X)
    with pytest.raises(DataError, match=r"but stored\(0, 0\) = 2"):
        spfgen.tensor("bit_map_pattern", shape=(1, 1), stored=np.array([[2]], np.uint8))
    with pytest.raises(DataError, match="of type int32 or int64, but its type is uint8"):
        spfgen.tensor("csr_pattern", shape=(1, 1), rowptr=np.array([0, 0], np.uint8), colidx=np.zeros(0, np.int32))


@pytest.mark.parametrize("kind", ["uint8", "bool", "int32", "int64"])
def test_marks_of_any_type_are_taken_where_the_text_says_that_of_values_alone(kind: str) -> None:
    kernel = spfgen.compile("y[i] = A[i, j]", A="byte_map<double>", y="dense")
    packed = spfgen.pack(np.array([[1.0, 0], [0, 3]]), "byte_map")
    marks = {"stored": packed.arrays["stored"].astype(kind)}
    given = spfgen.tensor("byte_map", shape=(2, 2), **{**packed.arrays, **marks})
    assert kernel(A=given).tolist() == [1, 3]
