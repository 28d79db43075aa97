"""Tests of scipy.sparse that are not run, one by one, each with the reason."""

from __future__ import annotations

WRITES = "tensors are not written to: there is no A[i, j] = x"
OWN = "it is about attributes and arguments of scipy's classes: A.to_scipy() makes one"
TEXT = "it asks for the words that scipy prints"
NOT_NUMPY = "scipy refuses or defines it otherwise than numpy; tensors do as numpy"
FACTORS = "it needs scipy's class: scipy.sparse.linalg takes A.to_scipy() and spfgen.aslinearoperator(A)"
DENSE = "the result is a numpy array, and scipy's an array of its own"
ZERO = "0 by 0 is 0 where nothing is stored, as docs/arrays.md says"
OTHER = "a class of scipy that tensors do not stand for: lists and dictionaries are no layouts here"
SCIPYS = "random_array of scipy makes arrays of scipy, which are no tensors"
MEMORY = "blocks of 2^31 columns, of which scipy's own conversion to coordinates takes 19 GB"
TWICE = "it counts entries that are stored twice, which are added when they are packed"

SKIPS: dict[str, str] = {
    "test_base::Test*Matrix::*": "the numpy.matrix of scipy, of which * is the product of matrices",
    "test_base::TestDOK::*": OTHER,
    "test_base::TestLIL::*": OTHER,
    "test_base::Test*NonCanonical::*": "entries stored twice are written into scipy's arrays",
    "test_base::test_elementwise_divide": ZERO,
    "test_arithmetic1d::test_elementwise_divide": ZERO,
    "test_array_api::test_sparse_dense_divide": ZERO,
    "test_base::TestBSR::test_scalar_idx_dtype": MEMORY,
    "test_base::test_sum_duplicates": TWICE,
    "test_base::test_tocompressed_duplicates": TWICE,
}
_BY_REASON = {
    WRITES: """test_base: fancy_assign_ndarray fancy_indexing_multidim_set fancy_assign_list fancy_assign_slice
        bad_index_assign fancy_indexing_set fancy_assignment_dtypes sequence_assignment fancy_assign_empty
        fancy_indexing_seq_assign fancy_indexing_2d_assign slice_scalar_assign slice_assign_2 self_self_assignment
        slice_assignment sparsity_modifying_assignment set_slice assign_empty assign_1d_slice setelement
        negative_index_assignment scalar_assign_2 index_scalar_assign setdiag_comprehensive setdiag resize
        setdiag_cooconvert setdiag_noconvert setdiag_dtype inplace_dense
        inplace_success eliminate_zeros eliminate_zeros_all_zero resize_blocked sort_indices astype
        test_coo: 1d_coo_set 1d_resize 1d_row_and_col 1d_to_2d_resize 2d_to_1d_resize 2d_coo_set 3d_coo_set
        3d_coo_singleton 5d_coo_set bool_set newaxis_set eliminate_zeros nd_eliminate_zeros
        test_common1d: resize
        test_indexing1d: assign_empty fancy_assign_empty fancy_indexing_seq_assign fancy_indexing_set
        self_self_assignment sequence_assignment set_array_index set_slice setelement slice_assign_2 slice_assignment
        slice_scalar_assign""",
    OWN: """test_base: copy constructor1_base constructor_smallcol has_canonical_format has_sorted_indices pickle
        reshape reshape_copy sparse_format_conversions elementwise_multiply tocoo_gh10050 getnnz
        sparray_subscriptable matmul_dia
        test_common1d: reshape
        test_coo: broadcast_to 1d_toformats
        test_base: broadcast_to
        test_array_api: format_property getrow_getcol indexing sparse_addition sparse_divide dense_divide
        power_operator""",
    NOT_NUMPY: """test_base: bad_index fancy_indexing fancy_indexing_ndarray eq_ne_different_shapes elementwise_power
        pow neg count_nonzero minmax_invalid_params mean_out size_zero_matrix_arithmetic
        test_common1d: mean_out
        test_arithmetic1d: elementwise_power pow size_zero_matrix_arithmetic""",
    FACTORS: """test_base: expm inv solve
        test_array_api: as_linearoperator eigs eigsh lstsqr norm onenormest solvers svds""",
    DENSE: """test_base: minmax_axis minmax_container_type nanminmax
        test_arithmetic1d: empty_arithmetic matmul
        test_minmax1d: minmax""",
    TWICE: "test_coo: sum_duplicates",
    TEXT: "test_base: repr str str_maxprint test_coo: matmul_dot_not_implemented",
    SCIPYS: "test_coo: tensordot",
}
for _reason, _text in _BY_REASON.items():
    _module = ""
    for _word in _text.split():
        if _word.endswith(":"):
            _module = _word[:-1]
        else:
            SKIPS[f"{_module}::test_{_word}"] = _reason
