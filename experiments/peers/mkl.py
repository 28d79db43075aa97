"""Intel MKL through ctypes: sparse matrix times vector, with and without its inspector."""

from __future__ import annotations

import ctypes
import ctypes.util
import sys
from functools import cache, partial
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from experiments.harness.case import Missing, Runner
from experiments.harness.native import pointer

NOT_TRANSPOSED = 10
GENERAL = 20
ZERO_BASED = 0
GNU_THREADS = 3
EXPECTED_CALLS = 1000


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


def prepare_spmv(matrix: csr_array, x: np.ndarray, threads: int, inspect: bool) -> Runner:
    """y = A x. With `inspect`, MKL may look at the matrix and keep a form of its own beforehand."""
    mkl = library()
    mkl.MKL_Set_Num_Threads(ctypes.c_int(threads))
    y = np.full(matrix.shape[0], np.nan)
    handle = ctypes.c_void_p()
    starts = matrix.indptr.ctypes.data
    _require(
        mkl.mkl_sparse_d_create_csr(
            ctypes.byref(handle),
            ctypes.c_int(ZERO_BASED),
            ctypes.c_int(matrix.shape[0]),
            ctypes.c_int(matrix.shape[1]),
            ctypes.c_void_p(starts),
            ctypes.c_void_p(starts + matrix.indptr.itemsize),
            pointer(matrix.indices),
            pointer(matrix.data),
        ),
        "mkl_sparse_d_create_csr",
    )
    description = Description(GENERAL, 0, 0)
    if inspect:
        operation = ctypes.c_int(NOT_TRANSPOSED)
        hint = mkl.mkl_sparse_set_mv_hint(handle, operation, description, ctypes.c_int(EXPECTED_CALLS))
        _require(hint, "mkl_sparse_set_mv_hint")
        _require(mkl.mkl_sparse_optimize(handle), "mkl_sparse_optimize")
    call = partial(
        mkl.mkl_sparse_d_mv,
        ctypes.c_int(NOT_TRANSPOSED),
        ctypes.c_double(1.0),
        handle,
        description,
        pointer(x),
        ctypes.c_double(0.0),
        pointer(y),
    )
    _require(call(), "mkl_sparse_d_mv")
    return Runner(call, lambda: y, (matrix, x, _Handle(mkl, handle)))


class _Handle:
    """Frees MKL's matrix when the runner goes."""

    def __init__(self, mkl: ctypes.CDLL, handle: ctypes.c_void_p) -> None:
        self.mkl, self.handle = mkl, handle

    def __del__(self) -> None:
        self.mkl.mkl_sparse_destroy(self.handle)


def _require(status: int, what: str) -> None:
    if status != 0:
        raise RuntimeError(f"{what} returned {status}")
