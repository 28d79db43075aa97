"""SuiteSparse:GraphBLAS through python-graphblas."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from experiments.harness.case import Missing, Runner


@cache
def module() -> Any:
    """The package, started in the mode that finishes every operation at once."""
    try:
        import graphblas
    except ImportError as error:
        raise Missing(f"{error}; pip install python-graphblas") from error
    graphblas.init("suitesparse", blocking=True)
    return graphblas


def prepare_spmv(matrix: csr_array, x: np.ndarray, threads: int) -> Runner:
    """y = A x over (+, *)."""
    graphblas = module()
    graphblas.ss.config["nthreads"] = threads
    a = graphblas.io.from_scipy_sparse(matrix)
    vector = graphblas.Vector.from_dense(x)
    y = graphblas.Vector(float, size=matrix.shape[0])
    product = graphblas.semiring.plus_times

    def call() -> None:
        y << a.mxv(vector, product)

    return Runner(call, lambda: y.to_dense(fill_value=0.0))


def prepare_spmspv(
    matrix: csr_array,
    index: np.ndarray,
    value: np.ndarray,
    threads: int,
    *,
    by_column: bool = False,
    bitmap: bool = False,
    method: str = "default",
) -> Runner:
    """y = A x with x sparse; y comes out in the form that the library likes.

    A is kept by row, or `by_column`. With `bitmap` x is kept as the library's bitmap, made beforehand: no longer a
    list of its entries but an array of the full length. `method` is a hint how to multiply.
    """
    graphblas = module()
    graphblas.ss.config["nthreads"] = threads
    a = graphblas.io.from_scipy_sparse(matrix)
    a.ss.config["format"] = "by_col" if by_column else "by_row"
    vector = graphblas.Vector.from_coo(index, value, size=matrix.shape[1])
    vector.ss.config["sparsity_control"] = "bitmap" if bitmap else "sparse"
    a.wait()
    vector.wait()
    y = graphblas.Vector(float, size=matrix.shape[0])
    product = graphblas.semiring.plus_times

    def call() -> None:
        y(axb_method=method) << a.mxv(vector, product)

    return Runner(call, lambda: y.to_dense(fill_value=0.0))


def prepare_spgemm(left: csr_array, right: csr_array, threads: int, *, in_order: bool) -> Runner:
    """A B over (+, *), a new result in each call; with `in_order` its columns are sorted at once, not when needed."""
    product = module().semiring.plus_times
    return _making(lambda a, b: a.mxm(b, product).new(), left, right, threads, in_order)


def prepare_sum(left: csr_array, right: csr_array, threads: int) -> Runner:
    """A + B, a new result in each call."""
    plus = module().monoid.plus
    return _making(lambda a, b: a.ewise_add(b, plus).new(), left, right, threads, in_order=True)


def _making(
    operation: Callable[[Any, Any], Any], left: csr_array, right: csr_array, threads: int, in_order: bool
) -> Runner:
    """An operation on two sparse matrices that makes a third."""
    graphblas = module()
    graphblas.ss.config["nthreads"] = threads
    a, b = (graphblas.io.from_scipy_sparse(m) for m in (left, right))
    for matrix in (a, b):
        matrix.ss.config["format"] = "by_row"
        matrix.wait()
    held: list[Any] = []

    def call() -> None:
        made = operation(a, b)
        if in_order:
            made.wait("materialize")
        held[:] = [made]

    return Runner(call, lambda: csr_array(graphblas.io.to_scipy_sparse(held[0], "csr")), (left, right))
