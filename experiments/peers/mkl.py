"""Intel MKL through ctypes: sparse matrix times vector, with and without its inspector, and triangular solve."""

from __future__ import annotations

import ctypes
import ctypes.util
import sys
import time
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.harness.case import Missing, Runner
from experiments.harness.native import pointer

NOT_TRANSPOSED = 10
GENERAL, TRIANGULAR = 20, 23
LOWER, UPPER = 40, 41
FULL_DIAGONAL = 50
ZERO_BASED = 0
BY_ROWS = 101
GNU_THREADS = 3
EXPECTED_CALLS = 1000
LETTERS = {"float32": "s", "float64": "d"}
REALS = {"s": ctypes.c_float, "d": ctypes.c_double}


class Description(ctypes.Structure):
    """`struct matrix_descr`; mode and diagonal matter only to triangular and symmetric matrices."""

    _fields_ = (("type", ctypes.c_int), ("mode", ctypes.c_int), ("diagonal", ctypes.c_int))


@cache
def library() -> ctypes.CDLL:
    """The library, told to use the OpenMP runtime of the C kernels."""
    candidates = [*sorted(Path(sys.prefix, "lib").glob("libmkl_rt.so*")), ctypes.util.find_library("mkl_rt")]
    for candidate in candidates:
        if candidate:
            mkl = ctypes.CDLL(str(candidate))
            mkl.MKL_Set_Threading_Layer(ctypes.c_int(GNU_THREADS))
            return mkl
    raise Missing("no libmkl_rt; pip install mkl")


def prepare_spmv(matrix: Any, x: np.ndarray, threads: int, inspect: bool) -> Runner:
    """y = A x with A of scipy in csr, csc, coo or bsr; float32 or float64, indices int32 or int64.

    With `inspect`, MKL may look at the matrix and keep a form of its own beforehand; the remark says how long it does.
    """
    mkl = library()
    mkl.MKL_Set_Num_Threads(ctypes.c_int(threads))
    letter = LETTERS[matrix.dtype.name]
    number, suffix, _ = _arguments(matrix)
    y = np.full(matrix.shape[0], np.nan, matrix.dtype)
    kept = handle_of(matrix)
    handle = kept.address
    description = Description(GENERAL, 0, 0)
    remark = ""
    if inspect:
        start = time.perf_counter()
        operation = ctypes.c_int(NOT_TRANSPOSED)
        hint = _function(f"mkl_sparse_set_mv_hint{suffix}")(handle, operation, description, number(EXPECTED_CALLS))
        require(hint, "mkl_sparse_set_mv_hint")
        require(_function(f"mkl_sparse_optimize{suffix}")(handle), "mkl_sparse_optimize")
        remark = f"inspected in {(time.perf_counter() - start) * 1e3:.3g} ms"
    real = REALS[letter]
    call = partial(
        _function(f"mkl_sparse_{letter}_mv{suffix}"),
        ctypes.c_int(NOT_TRANSPOSED),
        real(1.0),
        handle,
        description,
        pointer(x),
        real(0.0),
        pointer(y),
    )
    require(call(), "mkl_sparse_mv")
    return Runner(call, lambda: y, (matrix, x, kept), remark)


def prepare_solve(triangle: Any, right: np.ndarray, x: np.ndarray, lower: bool, threads: int) -> Runner:
    """The solution x of triangle*x = right, in csr with float64 and int32, after MKL's inspector has seen it. What it
    finds in x gets into its results if it is no number."""
    mkl = library()
    mkl.MKL_Set_Num_Threads(ctypes.c_int(threads))
    kept = handle_of(triangle)
    handle = kept.address
    description = Description(TRIANGULAR, LOWER if lower else UPPER, FULL_DIAGONAL)
    operation = ctypes.c_int(NOT_TRANSPOSED)
    hint = _function("mkl_sparse_set_sv_hint")(handle, operation, description, ctypes.c_int(EXPECTED_CALLS))
    require(hint, "mkl_sparse_set_sv_hint")
    require(_function("mkl_sparse_optimize")(handle), "mkl_sparse_optimize")
    one = ctypes.c_double(1.0)
    solve = _function("mkl_sparse_d_trsv")
    call = partial(solve, operation, one, handle, description, pointer(right), pointer(x))
    require(call(), "mkl_sparse_d_trsv")
    return Runner(call, lambda: x, (triangle, right, kept))


def _arguments(matrix: Any) -> tuple[Any, str, list[Any]]:
    """The C type of its indices, the end of the names of functions for it, and the arguments of a matrix."""
    index = matrix.coords[0] if matrix.format == "coo" else matrix.indices
    number, suffix = (ctypes.c_int64, "_64") if index.dtype == np.int64 else (ctypes.c_int, "")
    rows, columns = matrix.shape
    if matrix.format == "coo":
        row, column = (pointer(c) for c in matrix.coords)
        return number, suffix, [number(rows), number(columns), number(matrix.nnz), row, column, pointer(matrix.data)]
    starts = matrix.indptr.ctypes.data
    ends = ctypes.c_void_p(starts + matrix.indptr.itemsize)
    sizes = [number(rows), number(columns)]
    if matrix.format == "bsr":
        height, width = matrix.blocksize
        if height != width:
            raise Missing("blocks that are not square")
        sizes = [ctypes.c_int(BY_ROWS), number(rows // height), number(columns // width), number(height)]
    return number, suffix, [*sizes, ctypes.c_void_p(starts), ends, pointer(matrix.indices), pointer(matrix.data)]


def _function(name: str) -> Any:
    """A function of the library."""
    try:
        return getattr(library(), name)
    except AttributeError as error:
        raise Missing(f"no {name} in this MKL") from error


class Handle:
    """MKL's own object for a matrix, freed when this one goes; its arrays are the caller's."""

    def __init__(self, destroy: Any, address: ctypes.c_void_p) -> None:
        self.destroy, self.address = destroy, address

    def __del__(self) -> None:
        self.destroy(self.address)


def handle_of(matrix: Any) -> Handle:
    """MKL's object for a matrix of scipy in csr, csc, coo or bsr, over its arrays."""
    letter = LETTERS[matrix.dtype.name]
    _, suffix, arrays = _arguments(matrix)
    address = ctypes.c_void_p()
    create = f"mkl_sparse_{letter}_create_{matrix.format}{suffix}"
    require(_function(create)(ctypes.byref(address), ctypes.c_int(ZERO_BASED), *arrays), create)
    return Handle(_function(f"mkl_sparse_destroy{suffix}"), address)


def require(status: int, what: str) -> None:
    """Raises RuntimeError unless MKL says that all went well."""
    if status != 0:
        raise RuntimeError(f"{what} returned {status}")
