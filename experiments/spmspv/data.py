"""The matrices and vectors of spmspv, what is known of them, and the right result."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csc_array, csr_array

from experiments.data import made
from experiments.harness.check import compare, sum_tolerance
from experiments.harness.native import cache_folder
from experiments.peers.spfgen import module_or_missing

Array = np.ndarray[Any, Any]


class Source(Hashable, Protocol):
    """A matrix that has not been made or read yet."""

    @property
    def name(self) -> str: ...

    def load(self) -> csr_array: ...


@dataclass(frozen=True, slots=True)
class RMat:
    """`made.power_law`, kept in a file once made: a large one takes half a minute."""

    scale: int
    per_row: int

    @property
    def name(self) -> str:
        """The label."""
        return f"R-MAT 2^{self.scale}"

    def load(self) -> csr_array:
        """The matrix, out of the file when there is one."""
        file = self._file()
        if file.exists():
            with np.load(file) as parts:
                return csr_array(tuple(parts[name] for name in PARTS), shape=(1 << self.scale, 1 << self.scale))
        matrix = made.power_law(self.scale, self.per_row)
        fresh = file.with_suffix(f".{os.getpid()}.npz")
        np.savez(fresh, **{name: getattr(matrix, name) for name in PARTS})
        fresh.replace(file)
        return matrix

    def _file(self) -> Path:
        """Another text of the maker or another numpy is another file."""
        key = (Path(made.__file__).read_text(), np.__version__, self.scale, self.per_row)
        return cache_folder() / f"rmat-{hashlib.sha256(repr(key).encode()).hexdigest()[:24]}.npz"


PARTS = ("data", "indices", "indptr")


@dataclass(frozen=True)
class Product:
    """A matrix in csr or csc and a sparse vector (places and values) to be multiplied."""

    matrix: csr_array | csc_array
    index: Array
    value: Array

    @cached_property
    def dense(self) -> Array:
        """The vector with its zeros."""
        x = np.zeros(self.matrix.shape[1])
        x[self.index] = self.value
        return x

    @cached_property
    def tensors(self) -> dict[str, Any]:
        """A and x as spfgen has them, over the same arrays; checked once, for all of its kernels."""
        tensor = module_or_missing("spfgen").tensor
        names = ("colptr", "rowidx") if isinstance(self.matrix, csc_array) else ("rowptr", "colidx")
        index = dict(zip(names, (self.matrix.indptr, self.matrix.indices), strict=True))
        layout = "csc" if isinstance(self.matrix, csc_array) else "csr"
        return {
            "A": tensor(layout, shape=self.matrix.shape, **index, val=self.matrix.data),
            "x": tensor("sv", shape=self.matrix.shape[1], idx=self.index, val=self.value),
        }

    @property
    def products(self) -> int:
        """How many products there are in all."""
        return int(self.hits.sum())

    @cached_property
    def hits(self) -> Array:
        """How many products each element of the result is the sum of."""
        pattern = type(self.matrix)(
            (np.ones(self.matrix.nnz, np.int32), self.matrix.indices, self.matrix.indptr), shape=self.matrix.shape
        )
        there = np.zeros(self.matrix.shape[1], np.int32)
        there[self.index] = 1
        return np.asarray(pattern @ there)


def product(source: Source, density: float, by_column: bool) -> Product:
    """The data of a case."""
    matrix = columns_of(source) if by_column else rows_of(source)
    return Product(matrix, *sparse_vector(matrix.shape[1], density))


@lru_cache(maxsize=1)
def rows_of(source: Source) -> csr_array:
    """The matrix in csr; cases of one matrix come one after the other, so the last one is kept."""
    return source.load()


@lru_cache(maxsize=1)
def columns_of(source: Source) -> csc_array:
    """The matrix in csc, with the same types."""
    matrix = csc_array(rows_of(source))
    parts = (matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32))
    return csc_array(parts, shape=matrix.shape)


def sparse_vector(size: int, density: float, seed: int = 7) -> tuple[Array, Array]:
    """Places anywhere, each once, rising; random values. At least one entry."""
    random = np.random.default_rng(seed)
    count = min(size, max(1, round(density * size)))
    index = np.sort(random.choice(size, count, replace=False, shuffle=False)).astype(np.int32)
    return index, random.uniform(0.5, 1.5, count)


def check(data: Product) -> Callable[[Any], str]:
    """The reference is scipy's product with the dense vector; each element may be off by its error bound."""
    expected = data.matrix @ data.dense
    tolerance = sum_tolerance(data.hits, abs(data.matrix) @ abs(data.dense))
    return lambda result: compare(result, expected, tolerance)


def bytes_of_rows(data: Product) -> int:
    """A in csr: all columns, since any may be in x, but values only where it is; row starts, x, y."""
    rows = int(data.matrix.shape[0])
    return int(data.matrix.nnz) * 4 + data.products * 8 + (rows + 1) * 4 + data.index.size * (4 + 8) + rows * 8


def bytes_of_columns(data: Product) -> int:
    """A in csc: the columns that x names and where they start and end; x, y."""
    return data.products * (4 + 8) + data.index.size * (4 + 4 + 4 + 8) + int(data.matrix.shape[0]) * 8


def facts(data: Product) -> dict[str, int]:
    """What one wants to know when reading the times."""
    return {
        "rows": data.matrix.shape[0],
        "columns": data.matrix.shape[1],
        "entries": data.matrix.nnz,
        "entries of x": data.index.size,
        "products": data.products,
    }
