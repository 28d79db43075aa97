"""What type checkers see of tensors and lazy arrays: mypy reads this file, nobody runs it."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import spfgen
from spfgen import LazyArray, Tensor


def signs(a: Tensor, lazy: LazyArray) -> None:
    assert_type(a + a, Tensor)
    assert_type(2 * a, Tensor)
    assert_type(-a, Tensor)
    assert_type(a.T, Tensor)
    assert_type(a**2, Tensor)
    assert_type(lazy * 2.0, LazyArray)
    assert_type(spfgen.asarray(a), LazyArray)


def reductions(a: Tensor, lazy: LazyArray) -> None:
    assert_type(a.sum(axis=0, keepdims=True), NDArray[Any])
    assert_type(a.mean(axis=0, keepdims=True), NDArray[Any])
    assert_type(a.max(axis=(0, 1), keepdims=True), NDArray[Any])
    assert_type(a.argmax(keepdims=True), NDArray[Any])
    assert_type(a.any(keepdims=True), NDArray[Any])
    assert_type(a.sum(), Any)
    assert_type(lazy.sum(), LazyArray)
    assert_type(lazy.max(axis=0), LazyArray)
    assert_type(lazy.var(keepdims=True), LazyArray)
    total: float = a.sum()
    a.sum(axs=0)  # type: ignore[call-overload]
    a.max(keepdims=True, dims=1)  # type: ignore[call-overload]
    assert total


def subscripts(a: Tensor, lazy: LazyArray, places: NDArray[np.int64]) -> None:
    assert_type(a[1:3], Tensor)
    assert_type(a[1:3, ::2], Tensor)
    assert_type(a[:, 2], Tensor)
    assert_type(a[2, :], Tensor)
    assert_type(a[..., 1:], Tensor)
    assert_type(a[None], Tensor)
    assert_type(a[[3, 1, 2]], Tensor)
    assert_type(a[places], Tensor)
    assert_type(a[a > 0], Tensor)
    assert_type(a[2, 3], Any)
    assert_type(a[2], Any)
    assert_type(lazy[2], LazyArray)
    assert_type(lazy[0].sum() + 1, LazyArray)


def ranks(a: Tensor, matrix: Tensor[tuple[int, int]], dense: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> None:
    """A checker knows the rank of what numpy's types have one for, and of what is made of that."""
    packed = spfgen.pack(dense, "csr")
    assert_type(packed, Tensor[tuple[int, int]])
    assert_type(packed.shape, tuple[int, int])
    assert_type(spfgen.pack(packed, "csc"), Tensor[tuple[int, int]])
    assert_type(packed.convert("coo").astype("f4").T, Tensor[tuple[int, int]])
    assert_type(-packed * 2.0, Tensor[tuple[int, int]])
    assert_type(packed + matrix, Tensor[tuple[int, int]])
    assert_type(packed.ravel(), Tensor[tuple[int]])
    assert_type(packed.ravel() + packed, Any)
    assert_type(packed.to_numpy(), np.ndarray[tuple[int, int], np.dtype[Any]])
    assert_type(packed[1:3], Tensor)
    assert_type(a.shape, tuple[int, ...])
    _, _, _ = packed.shape  # type: ignore[misc]
