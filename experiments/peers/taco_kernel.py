"""Any kernel of taco on arrays that exist already: the statement, and each tensor with its format."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from experiments.data.tensors import Fibres
from experiments.harness.case import Runner
from experiments.peers import taco

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Stored:
    """A tensor as taco has it: one letter for each mode, and for each its index arrays."""

    format: str
    values: Array
    dimensions: tuple[int, ...]
    levels: Sequence[Sequence[Array]]


def dense(array: Array) -> Stored:
    """Row by row."""
    return Stored("d" * array.ndim, array, array.shape, [()] * array.ndim)


def by_columns(array: Array) -> Stored:
    """A matrix column by column: `array` holds it transposed, row by row."""
    return Stored("dd:1,0", array, array.shape, [(), ()])


def rows(matrix: csr_array) -> Stored:
    """csr."""
    return Stored("ds", matrix.data, matrix.shape, [(), (matrix.indptr, matrix.indices)])


def filled_rows(matrix: csr_array) -> Stored:
    """dcsr: csr of the rows that are not empty."""
    stored = np.flatnonzero(np.diff(matrix.indptr)).astype(matrix.indptr.dtype)
    ends = np.concatenate([matrix.indptr[stored], matrix.indptr[-1:]])
    root = np.array([0, stored.size], dtype=matrix.indptr.dtype)
    return Stored("ss", matrix.data, matrix.shape, [(root, stored), (ends, matrix.indices)])


def coordinates(matrix: csr_array) -> Stored:
    """coo, by rows: a compressed level that repeats coordinates, and a singleton, which has no bounds."""
    rows_of = np.repeat(np.arange(matrix.shape[0], dtype=matrix.indices.dtype), np.diff(matrix.indptr))
    root = np.array([0, matrix.nnz], dtype=matrix.indptr.dtype)
    return Stored("uq", matrix.data, matrix.shape, [(root, rows_of), (root, matrix.indices)])


def tree(tensor: Fibres) -> Stored:
    """Compressed fibres."""
    return Stored("sss", tensor.val, tensor.shape, tensor.levels)


def prepare(
    statement: str,
    tensors: Mapping[str, Stored],
    threads: int,
    result: Array,
    schedule: str = "static",
    commands: Sequence[str] = (),
) -> Runner:
    """The kernel; the first tensor is the result and its values are `result`, shaped as the caller wants to see them.

    `commands` are those of taco's scheduling language. The rows of the outer loop are shared out by `schedule`.
    """
    formats = [f"-f={name}:{stored.format}" for name, stored in tensors.items()]
    code = taco.kernel(schedule, statement, *formats, *(f"-s={command}" for command in commands))
    # The thread count of this process may be another; the function is that of the OpenMP that the kernel uses.
    made = [taco.tensor(s.values, s.dimensions, s.levels) for s in tensors.values()]
    compute = partial(code.compute, *(ctypes.byref(tensor) for tensor, _ in made))

    def call() -> None:
        code.omp_set_num_threads(ctypes.c_int(threads))
        compute()

    return Runner(call, lambda: result, (made, tensors))
