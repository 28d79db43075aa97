"""Intel MKL: a sparse matrix times a dense one, two sparse ones with a dense or a sparse result, and sums."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from experiments.harness.case import Runner
from experiments.harness.native import pointer
from experiments.peers import mkl

Array = np.ndarray[Any, Any]
BY_ROWS = 101


def prepare_spmm(matrix: csr_array, factor: Array, threads: int, *, inspect: bool, result: Array) -> Runner:
    """result = matrix * factor, both dense ones row by row. With `inspect`, MKL may look at the matrix beforehand."""
    library = mkl.library()
    library.MKL_Set_Num_Threads(ctypes.c_int(threads))
    handle = mkl.handle_of(matrix)
    description = mkl.Description(mkl.GENERAL, 0, 0)
    operation, columns = ctypes.c_int(mkl.NOT_TRANSPOSED), ctypes.c_int(factor.shape[1])
    by_rows = ctypes.c_int(BY_ROWS)
    if inspect:
        often = ctypes.c_int(mkl.EXPECTED_CALLS)
        hint = library.mkl_sparse_set_mm_hint(handle.address, operation, description, by_rows, columns, often)
        mkl.require(hint, "mkl_sparse_set_mm_hint")
        mkl.require(library.mkl_sparse_optimize(handle.address), "mkl_sparse_optimize")
    call = partial(
        library.mkl_sparse_d_mm,
        operation,
        ctypes.c_double(1.0),
        handle.address,
        description,
        by_rows,
        pointer(factor),
        columns,
        columns,
        ctypes.c_double(0.0),
        pointer(result),
        columns,
    )
    mkl.require(call(), "mkl_sparse_d_mm")
    return Runner(call, lambda: result, (matrix, factor, handle))


def prepare_spmmd(left: csr_array, right: csr_array, threads: int) -> Runner:
    """A dense result of two sparse factors, row by row."""
    library = mkl.library()
    library.MKL_Set_Num_Threads(ctypes.c_int(threads))
    handles = mkl.handle_of(left), mkl.handle_of(right)
    result = np.full((left.shape[0], right.shape[1]), np.nan)
    call = partial(
        library.mkl_sparse_d_spmmd,
        ctypes.c_int(mkl.NOT_TRANSPOSED),
        handles[0].address,
        handles[1].address,
        ctypes.c_int(BY_ROWS),
        pointer(result),
        ctypes.c_int(result.shape[1]),
    )
    mkl.require(call(), "mkl_sparse_d_spmmd")
    return Runner(call, lambda: result, (left, right, handles))


def prepare_spgemm(left: csr_array, right: csr_array, threads: int, *, in_order: bool) -> Runner:
    """A sparse result of two sparse factors, a new one in each call; with `in_order` its columns are sorted."""
    operation = ctypes.c_int(mkl.NOT_TRANSPOSED)

    def multiply(library: ctypes.CDLL, one: ctypes.c_void_p, other: ctypes.c_void_p, made: Any) -> None:
        mkl.require(library.mkl_sparse_spmm(operation, one, other, made), "mkl_sparse_spmm")

    return _making(multiply, left, right, threads, in_order)


def prepare_sum(left: csr_array, right: csr_array, threads: int) -> Runner:
    """The sum of two sparse matrices, a new one in each call."""
    operation, once = ctypes.c_int(mkl.NOT_TRANSPOSED), ctypes.c_double(1.0)

    def add(library: ctypes.CDLL, one: ctypes.c_void_p, other: ctypes.c_void_p, made: Any) -> None:
        mkl.require(library.mkl_sparse_d_add(operation, one, once, other, made), "mkl_sparse_d_add")

    return _making(add, left, right, threads, in_order=False)


def _making(operation: Callable[..., None], left: csr_array, right: csr_array, threads: int, in_order: bool) -> Runner:
    """An operation on two sparse matrices that makes a third."""
    library = mkl.library()
    library.MKL_Set_Num_Threads(ctypes.c_int(threads))
    handles = mkl.handle_of(left), mkl.handle_of(right)
    made = ctypes.c_void_p()

    def call() -> None:
        if made:
            mkl.require(library.mkl_sparse_destroy(made), "mkl_sparse_destroy")
        operation(library, handles[0].address, handles[1].address, ctypes.byref(made))
        if in_order:
            mkl.require(library.mkl_sparse_order(made), "mkl_sparse_order")

    return Runner(call, lambda: _exported(library, made), (left, right, handles))


def _exported(library: ctypes.CDLL, made: ctypes.c_void_p) -> csr_array:
    """A copy of MKL's matrix."""
    base, rows, columns = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    whole = ctypes.POINTER(ctypes.c_int)
    start, end, indices, values = whole(), whole(), whole(), ctypes.POINTER(ctypes.c_double)()
    found = [ctypes.byref(p) for p in (base, rows, columns, start, end, indices, values)]
    mkl.require(library.mkl_sparse_d_export_csr(made, *found), "mkl_sparse_d_export_csr")
    pointer_ = np.append(np.ctypeslib.as_array(start, (rows.value,)), end[rows.value - 1] if rows.value else 0)
    count = int(pointer_[-1])
    columns_ = np.ctypeslib.as_array(indices, (count,)).copy()
    return csr_array((np.ctypeslib.as_array(values, (count,)).copy(), columns_, pointer_), (rows.value, columns.value))
