"""Products, norms and traces of the standard's extension `linalg`. What needs factors, as `inv`, is not here: the error
says what is instead."""

from __future__ import annotations

from typing import Any

import numpy as np

from spfgen.array.creation import eye
from spfgen.array.operands import AnyArray, array_operand, as_array, numeric_operand
from spfgen.array.reductions import sum
from spfgen.array.shapes import broadcast_to, moveaxis, stack
from spfgen.array.shapes import matrix_transpose as matrix_transpose
from spfgen.errors import ArgumentError, ConversionError

FACTORS = "cholesky det eigh eigvalsh inv matrix_rank pinv qr slogdet solve svd svdvals".split()
"""What needs factors of a matrix, which are no sparse arrays of the standard."""


def matmul(x1: Any, x2: Any, /) -> AnyArray:
    """The product of matrices, sparse where both are.

    Shapes: `(..., n, k)` and `(..., k, m)`: `(..., n, m)`. Types: numbers, as numpy promotes them. Fill: 0; other
    fills make the result dense. Cost: the products of what is stored.

    >>> xp.matmul(A, A).to_numpy()
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    return as_array(np.matmul(numeric_operand(x1, "iufc", "matmul"), numeric_operand(x2, "iufc", "matmul")))


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> AnyArray:
    """Sums of products over axes of the one and of the other, sparse where both are.

    Shapes: the rest of both. Types: numbers, as numpy promotes them. Fill: 0; other fills make the result dense.
    Cost: the products of what is stored.

    >>> xp.tensordot(A, A, axes=1).shape
    (2, 2)
    """
    return as_array(
        np.tensordot(numeric_operand(x1, "iufc", "tensordot"), numeric_operand(x2, "iufc", "tensordot"), axes)
    )


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> AnyArray:
    """Sums of products along an axis, counted from the end, with the conjugate of the first.

    Shapes: broadcast, without the axis. Types: numbers, as numpy promotes them. Fill: none, the result is dense.
    Cost: the products of what is stored.

    >>> xp.vecdot(A, A).to_numpy()
    array([0.25, 1.  ])
    """
    x1, x2 = numeric_operand(x1, "iufc", "vecdot"), numeric_operand(x2, "iufc", "vecdot")
    least = min(x1.ndim, x2.ndim)
    if not -least <= axis <= -1:
        raise ArgumentError(f"expected an axis from {-least} to -1, but it is {axis}")
    first, second = moveaxis(x1, axis, -1), moveaxis(x2, axis, -1)
    if first.shape[-1] != second.shape[-1]:
        raise ArgumentError(f"expected equal extents, but they are {first.shape[-1]} and {second.shape[-1]}")
    products = as_array(np.vecdot(first, second)) if hasattr(first, "arrays") and hasattr(second, "arrays") else None
    if products is None:
        products = sum(np.conjugate(first) * second, axis=-1)
    kind = np.result_type(x1.dtype, x2.dtype)
    return products if products.dtype == kind else products.astype(kind)


def outer(x1: Any, x2: Any, /) -> AnyArray:
    """The products of each element of a vector with each of another.

    Shapes: two lines; `(n, m)`. Types: numbers, as numpy promotes them. Fill: 0 where both are 0. Cost: an entry
    for each pair of stored ones.

    >>> xp.linalg.outer(xp.asarray([1, 2]), xp.asarray([3, 4])).to_numpy()
    array([[3, 4],
           [6, 8]])
    """
    first, second = numeric_operand(x1, "iufc", "outer"), numeric_operand(x2, "iufc", "outer")
    if first.ndim != 1 or second.ndim != 1:
        raise ArgumentError(f"expected two vectors, but the shapes are {first.shape} and {second.shape}")
    return as_array(first[:, None] * second[None, :])


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> AnyArray:
    """The cross product of vectors with three elements along an axis.

    Shapes: broadcast, 3 along the axis. Types: numbers, as numpy promotes them. Fill: 0 where both are 0. Cost:
    that of six products.

    >>> xp.linalg.cross(xp.asarray([1, 0, 0]), xp.asarray([0, 1, 0])).to_numpy()
    array([0, 0, 1])
    """
    x1, x2 = numeric_operand(x1, "iufc", "cross"), numeric_operand(x2, "iufc", "cross")
    least = min(x1.ndim, x2.ndim)
    if not -least <= axis <= -1 and not (x1.ndim == x2.ndim and 0 <= axis < x1.ndim):
        raise ArgumentError(f"expected an axis from {-least} to -1, but it is {axis}")
    first, second = moveaxis(x1, axis, -1), moveaxis(x2, axis, -1)
    if first.shape[-1] != 3 or second.shape[-1] != 3:
        raise ArgumentError(f"expected three elements along the axis, but the shapes are {x1.shape} and {x2.shape}")
    a, b = ([v[..., k] for k in range(3)] for v in (first, second))
    parts = [a[k - 2] * b[k - 1] - a[k - 1] * b[k - 2] for k in range(3)]
    return moveaxis(stack([as_array(p) for p in parts], axis=-1), -1, axis)


def diagonal(x: Any, /, *, offset: int = 0) -> AnyArray:
    """A diagonal of each matrix in the last two dimensions.

    Shapes: `(..., n, m)`: `(..., length)`. Types: any, which stay. Fill: stays. Cost: that of a subscript.

    >>> xp.linalg.diagonal(A, offset=1).to_numpy()
    array([0.5])
    """
    x = array_operand(x)
    if x.ndim < 2:
        raise ArgumentError(f"expected two dimensions or more, but the shape is {x.shape}")
    rows, columns = x.shape[-2:]
    begin = max(0, -offset)
    at = np.arange(begin, max(begin, min(rows, columns - offset)))
    return as_array(x[..., at, at + offset])


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> AnyArray:
    """The sums of diagonals of the matrices in the last two dimensions.

    Shapes: `(..., n, m)`: the rest. Types: numbers; of small integers 64 bits. Fill: counts where it is on the
    diagonal. Cost: that of a subscript.

    >>> xp.linalg.trace(A).item()
    0.0
    """
    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def matrix_power(x: Any, n: int, /) -> AnyArray:
    """The product of n equal matrices in the last two dimensions. Raises ConversionError for a negative exponent, which
    needs inverses.

    Shapes: `(..., n, n)`, which stay. Types: numbers, which stay. Fill: 0; other fills make the result dense.
    Cost: about log2(n) products.

    >>> xp.linalg.matrix_power(A, 2).to_numpy()
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    x = numeric_operand(x, "iufc", "matrix_power")
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ArgumentError(f"expected square matrices, but the shape is {x.shape}")
    if n < 0:
        hint = "write numpy.linalg.matrix_power(x.to_numpy(), n)"
        raise ConversionError(f"expected an exponent that is not negative, but it is {n}", None, (hint,))
    if n < 2:
        return x if n else broadcast_to(eye(x.shape[-1], dtype=x.dtype), x.shape)
    half = matrix_power(x, n // 2)
    return matmul(matmul(half, half), x) if n % 2 else matmul(half, half)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> AnyArray:
    """Norms of vectors: 0, inf, and sums of powers.

    Shapes: any; the axes are left out, or have extent 1 with `keepdims`. Types: floating-point; real ones. Fill:
    counts wherever nothing is stored; the result is dense. Cost: a pass over what is stored.

    >>> xp.linalg.vector_norm(xp.asarray([3.0, 4.0])).item()
    5.0
    """
    x = numeric_operand(x, "fc", "vector_norm")
    if ord == -np.inf:
        return as_array(np.min(np.absolute(x), axis=axis, keepdims=keepdims))
    if ord != 0 and ord < 0:
        return as_array(sum(np.absolute(x) ** ord, axis=axis, keepdims=keepdims) ** (1 / ord))
    return as_array(np.linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=ord))


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> AnyArray:
    """Norms of the matrices in the last two dimensions that need no factors: "fro", 1, -1, inf, -inf.

    Shapes: `(..., n, m)`: the rest. Types: floating-point; real ones. Fill: counts wherever nothing is stored; the
    result is dense. Cost: a pass over what is stored.

    >>> xp.linalg.matrix_norm(A, ord=1).item()
    1.0
    """
    return as_array(np.linalg.matrix_norm(numeric_operand(x, "fc", "matrix_norm"), keepdims=keepdims, ord=ord))


def __getattr__(name: str) -> Any:
    if name in FACTORS:
        hint = f"write numpy.linalg.{name}(x.to_numpy()), or give spfgen.aslinearoperator(x) to a solver of scipy"
        raise AttributeError(f"spfgen.array.linalg has no {name}, which needs factors of a matrix: {hint}", name=name)
    raise AttributeError(f"module 'spfgen.array.linalg' has no attribute {name!r}", name=name)
