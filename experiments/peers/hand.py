"""Loops written by hand for a sparse matrix times a sparse vector, result dense."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array

from experiments.harness.case import Runner
from experiments.harness.native import bind, load

Array = np.ndarray[Any, Any]

SOURCE = Path(__file__).with_name("spmspv.c")


def prepare_merge(matrix: csr_array, index: Array, value: Array, threads: int, schedule: str) -> Runner:
    """Each row merged with x; `schedule` is "static" or "dynamic"."""
    y = np.full(matrix.shape[0], np.nan)
    call = bind(_function(f"merge_{schedule}"), threads, *_parts(matrix, index, value), y)
    return Runner(call, lambda: y, (matrix, index, value))


def prepare_scatter(matrix: csr_array, index: Array, value: Array, threads: int, schedule: str) -> Runner:
    """x scattered into a dense vector, which is there and zero before each call, then a dense product."""
    y = np.full(matrix.shape[0], np.nan)
    dense = np.zeros(matrix.shape[1])
    call = bind(_function(f"scatter_{schedule}"), threads, *_parts(matrix, index, value), dense, y)
    return Runner(call, lambda: y, (matrix, index, value, dense))


def prepare_columns(matrix: csc_array, index: Array, value: Array, threads: int) -> Runner:
    """The columns that x names added up; with several threads by atomic additions."""
    y = np.full(matrix.shape[0], np.nan)
    parts = (*_parts(matrix, index, value), y)
    if threads == 1:
        return Runner(bind(_function("columns_serial"), *parts), lambda: y, (matrix, index, value))
    return Runner(bind(_function("columns_atomic"), threads, *parts), lambda: y, (matrix, index, value))


def _parts(matrix: Any, index: Array, value: Array) -> tuple[Any, ...]:
    """The arguments that all of them have."""
    return (matrix.shape[0], matrix.indptr, matrix.indices, matrix.data, index.size, index, value)


def _function(name: str) -> Any:
    function = getattr(load(SOURCE), name)
    function.restype = None
    return function
