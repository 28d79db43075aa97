"""Matrices in any layout for the solvers of scipy."""

from __future__ import annotations

from typing import Any

import numpy as np

from spfgen.errors import DataError
from spfgen.run.tensor import Tensor


def linear_operator(matrix: Tensor) -> Any:
    """A scipy.sparse.linalg.LinearOperator; products with vectors and blocks of them are kernels."""
    from scipy.sparse.linalg import LinearOperator

    from spfgen.run.calls.evaluate import evaluate

    if matrix.ndim != 2 or matrix.fill_value != 0:
        message = f"expected a matrix with the fill value 0, but it has {matrix.ndim} dimensions"
        raise DataError(f"{message} and the fill value {matrix.fill_value}")

    def matvec(x: Any) -> Any:
        return evaluate("y[i] = A[i, j]*x[j]", {"A": matrix, "x": np.ascontiguousarray(x).reshape(-1)})

    def rmatvec(y: Any) -> Any:
        y = np.ascontiguousarray(y).reshape(-1)
        if matrix.dtype.kind == "c":  # the adjoint: conj(A)' y is conj(A' conj(y))
            return np.conj(evaluate("x[j] = A[i, j]*y[i]", {"A": matrix, "y": np.conj(y)}))
        return evaluate("x[j] = A[i, j]*y[i]", {"A": matrix, "y": y})

    def matmat(x: Any) -> Any:
        return evaluate("Y[i, k] = A[i, j]*X[j, k]", {"A": matrix, "X": np.ascontiguousarray(x)})

    def rmatmat(y: Any) -> Any:
        y = np.ascontiguousarray(y)
        if matrix.dtype.kind == "c":
            return np.conj(evaluate("X[j, k] = A[i, j]*Y[i, k]", {"A": matrix, "Y": np.conj(y)}))
        return evaluate("X[j, k] = A[i, j]*Y[i, k]", {"A": matrix, "Y": y})

    return LinearOperator(
        matrix.shape, matvec=matvec, rmatvec=rmatvec, matmat=matmat, rmatmat=rmatmat, dtype=matrix.dtype
    )
