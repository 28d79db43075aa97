"""Eigen 3, when its headers are there: sparse products and dot products of rows."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.harness.case import Missing, Runner
from experiments.harness.native import bind, load, pointer

Array = np.ndarray[Any, Any]

USUAL_FOLDERS = ("/usr/include/eigen3", "/usr/local/include/eigen3")


@cache
def library() -> ctypes.CDLL:
    """Our small source over Eigen's headers, without Eigen's own checks."""
    code = load(Path(__file__).with_name("eigen.cpp"), (f"-I{headers()}", "-DNDEBUG"))
    code.rows_make.restype = code.columns_make.restype = ctypes.c_void_p
    return code


def headers() -> Path:
    """The folder of the headers: $EIGEN3_INCLUDE_DIR, what pkg-config says, or where they usually are."""
    named = os.environ.get("EIGEN3_INCLUDE_DIR")
    for folder in [*([named] if named else []), *_from_pkg_config(), *USUAL_FOLDERS]:
        if (Path(folder) / "Eigen" / "SparseCore").exists():
            return Path(folder)
    raise Missing("no headers of Eigen 3; apt-get install libeigen3-dev, or set EIGEN3_INCLUDE_DIR")


def prepare_product(matrix: Any, index: Array, value: Array, by_column: bool, result: str) -> Runner:
    """y = A x with A in csr, or `by_column` in csc, on one thread: Eigen has no other.

    `result` "sparse" assigns to a SparseVector, "dense" to a VectorXd.
    """
    handle = _Handle("columns" if by_column else "rows", matrix, index, value)
    call = partial(getattr(handle.code, f"{handle.kind}_{result}"), handle.address)
    return Runner(call, partial(handle.result, result), (handle,))


def prepare_dots(matrix: Any, index: Array, value: Array, threads: int) -> Runner:
    """y[i] = A.row(i).dot(x) for each row of A in csr, the rows shared out to the threads."""
    handle = _Handle("rows", matrix, index, value)
    call = partial(handle.code.rows_dots, handle.address, ctypes.c_int(threads))
    return Runner(call, partial(handle.result, "dense"), (handle,))


def prepare_spmv(matrix: Any, x: Array, threads: int) -> Runner:
    """y = A x with A in csr and x dense; Eigen shares out the rows."""
    code = load(Path(__file__).with_name("eigen_spmv.cpp"), (f"-I{headers()}", "-DNDEBUG"))
    function = getattr(code, f"spmv_{matrix.dtype.name}")
    function.restype = None
    y = np.full(matrix.shape[0], np.nan, matrix.dtype)
    call = bind(function, threads, *matrix.shape, matrix.indptr, matrix.indices, matrix.data, x, y)
    return Runner(call, lambda: y, (matrix, x))


class _Handle:
    """Eigen's copies of the matrix and the vector; freed when the runner goes."""

    def __init__(self, kind: str, matrix: Any, index: Array, value: Array) -> None:
        self.code, self.kind, self.rows = library(), kind, matrix.shape[0]
        arrays = (pointer(matrix.indptr), pointer(matrix.indices), pointer(matrix.data))
        shape = (ctypes.c_int(extent) for extent in matrix.shape)
        vector = (ctypes.c_int(index.size), pointer(index), pointer(value))
        self.address = ctypes.c_void_p(getattr(self.code, f"{kind}_make")(*shape, *arrays, *vector))

    def result(self, form: str) -> Array:
        y = np.full(self.rows, np.nan)
        getattr(self.code, f"{self.kind}_{form}_result")(self.address, pointer(y))
        return y

    def __del__(self) -> None:
        if hasattr(self, "address"):
            getattr(self.code, f"{self.kind}_free")(self.address)


def _from_pkg_config() -> list[str]:
    if shutil.which("pkg-config") is None:
        return []
    line = ["pkg-config", "--cflags-only-I", "eigen3"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    return [word.removeprefix("-I") for word in done.stdout.split()]
