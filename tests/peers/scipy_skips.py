"""Tests of scipy.sparse that are not run, one by one, each with the reason."""

from __future__ import annotations

WRITES = "tensors are not written to: there is no A[i, j] = x"
PARTS = "it asks for the arrays of scipy's class by name (data, indices, indptr, coords), which A.arrays has in ours"
TEXT = "it asks for the words that scipy prints"
NOT_NUMPY = "scipy does otherwise than numpy, as tensors do"
FACTORS = "it needs factors, which scipy.sparse.linalg makes of A.to_scipy()"
LONG = "a class of scipy that tests another one's methods: lists and dictionaries are no layouts here"

SKIPS: dict[str, str] = {
    "test_base::Test*Matrix::*": "the numpy.matrix of scipy, of which * is the product of matrices",
    "test_base::TestDOK::*": LONG,
    "test_base::TestLIL::*": LONG,
    "test_base::Test*NonCanonical::*": "entries stored twice are written into scipy's arrays",
}
for _name in """fancy_assign_ndarray fancy_indexing_multidim_set fancy_assign_list fancy_assign_slice bad_index_assign
    fancy_indexing_set fancy_assignment_dtypes sequence_assignment fancy_assign_empty fancy_indexing_seq_assign
    fancy_indexing_2d_assign slice_scalar_assign slice_assign_2 self_self_assignment slice_assignment
    sparsity_modifying_assignment set_slice assign_empty assign_1d_slice setelement negative_index_assignment
    scalar_assign_2 index_scalar_assign setdiag_comprehensive setdiag resize""".split():
    SKIPS[f"test_base::test_{_name}"] = WRITES
