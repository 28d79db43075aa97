"""SuiteSparse:GraphBLAS through python-graphblas."""

from __future__ import annotations

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
