"""Sums of products of two sparse operands by coordinates, and matrix products in numpy's sense."""

from __future__ import annotations

import string
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from spfgen.errors import DataError
from spfgen.run.arrays.entries import Entries, normal, numbered, pruned, sorting
from spfgen.run.tensor import Array

SHARE = 2**22
"""So many products are held at once."""


def contracted(left: Entries, right: Entries, labels: tuple[str, str, str]) -> Entries:
    """`labels` name the dimensions of both and of the result, a letter each: `("ij", "jk", "ik")`.

    Both have the fill 0; what stands in both and not in the result is summed. An extent of 1 goes with any.
    """
    left_labels, right_labels, result = labels
    extents = _extents(left, right, left_labels, right_labels)
    shape = tuple(extents[x] for x in result)
    kind = np.result_type(left.dtype, right.dtype)
    first, second = _columns(left, left_labels, extents), _columns(right, right_labels, extents)
    both = [x for x in first if x in second]
    (one, two) = numbered(
        tuple(extents[x] for x in both),
        [len(left.values), len(right.values)],
        [tuple(first[x] for x in both), tuple(second[x] for x in both)],
    )
    order, two = sorting(two)
    begin, end = np.searchsorted(two, one, "left"), np.searchsorted(two, one, "right")
    shares = []
    for low, high in pairwise(_shares(end - begin)):
        counts = end[low:high] - begin[low:high]
        at = np.repeat(np.arange(low, high), counts)
        with_ = order[np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts) + begin[at]]
        values = np.multiply(left.values[at], right.values[with_], dtype=kind)
        columns = [first[x][at] if x in first else second[x][with_] for x in result]
        shares.append(normal(shape, columns, values, kind.type(0)))
    if len(shares) == 1:
        return pruned(shares[0])
    columns = [np.concatenate([f.coords[d] for f in shares]) for d in range(len(shape))]
    return pruned(normal(shape, columns, np.concatenate([f.values for f in shares]), kind.type(0)))


def summed(operands: Sequence[tuple[tuple[str, ...], Entries]], result: tuple[str, ...]) -> Entries:
    """The sum of products of operands, which all have the fill 0: (the names of the dimensions, entries) of each. What
    is not among those of the result is summed. An extent of 1 goes with any."""
    names = dict.fromkeys([*result, *(i for labels_of_operand, _ in operands for i in labels_of_operand)])
    letters = dict(zip(names, string.ascii_letters, strict=False))
    operands_left = [
        _diagonal("".join(letters[i] for i in labels_of_operand), entries) for labels_of_operand, entries in operands
    ]
    wanted = "".join(letters[i] for i in result)
    (labels, product), *others = operands_left
    for k, (labels_of_operand, entries) in enumerate(others, start=2):
        needed = {*wanted, *(x for some, _ in operands_left[k:] for x in some)}
        kept = "".join(x for x in dict.fromkeys(labels + labels_of_operand) if x in needed)
        labels, product = kept, contracted(product, entries, (labels, labels_of_operand, kept))
    extents = dict(zip(labels, product.shape, strict=True))
    columns = dict(zip(labels, product.coords, strict=True))
    return normal(tuple(extents[x] for x in wanted), [columns[x] for x in wanted], product.values, product.fill)


def _diagonal(labels: str, entries: Entries) -> tuple[str, Entries]:
    """The entries where dimensions of one label have equal coordinates, once a label."""
    first: dict[str, int] = {}
    kept = np.ones(len(entries.values), bool)
    for d, label in enumerate(labels):
        kept &= entries.coords[first.setdefault(label, d)] == entries.coords[d]
    if len(first) == len(labels):
        return labels, entries
    shape = tuple(entries.shape[d] for d in first.values())
    coords = [entries.coords[d][kept] for d in first.values()]
    return "".join(first), normal(shape, coords, entries.values[kept], entries.fill, once=True)


def against_dense(sparse: Entries, dense: Array, *, left: bool) -> Array:
    """The product of entries, which are first where they are `left`, with a dense array: a dense array.

    Both are matrices or vectors. What is not stored is not computed with.
    """
    if not left:
        columns = sparse.coords[::-1]
        turned = normal(sparse.shape[::-1], columns, sparse.values, sparse.fill, once=True)
        return against_dense(turned, dense.T, left=True).T
    kind = np.result_type(sparse.dtype, dense.dtype)
    rows = sparse.coords[0] if sparse.ndim > 1 else np.zeros(len(sparse.values), np.int64)
    count = sparse.shape[0] if sparse.ndim > 1 else 1
    first = np.flatnonzero(np.append(True, rows[1:] != rows[:-1])) if len(rows) else rows
    wide = dense if dense.ndim > 1 else dense[:, None]
    result = np.zeros((count, wide.shape[1]), kind)
    width = max(1, SHARE // max(1, len(rows)))
    for low in range(0, wide.shape[1] if len(rows) else 0, width):
        part = wide[sparse.coords[-1], low : low + width]
        values = np.multiply(sparse.values[:, None], part, dtype=kind)
        result[rows[first], low : low + width] = np.add.reduceat(values, first, axis=0, dtype=kind)
    result = result if dense.ndim > 1 else result[:, 0]
    return result if sparse.ndim > 1 else result[0]


def with_dense(left: Entries | Array, right: Entries | Array, labels: tuple[str, str, str]) -> Array:
    """numpy.matmul of entries and a dense array, in either order: a dense array. `labels` are as in `contracted`."""
    left_labels, right_labels, _ = labels
    sparse, dense = (left, right) if isinstance(left, Entries) else (right, left)
    assert isinstance(sparse, Entries)
    assert not isinstance(dense, Entries)
    if max(len(left_labels), len(right_labels)) <= 2:
        return against_dense(sparse, dense, left=sparse is left)
    one, two = (o if isinstance(o, Entries) else all_of(o) for o in (left, right))
    return contracted(one, two, labels).to_dense()


def all_of(array: Array) -> Entries:
    """All elements of a dense array, the fill value 0 among them."""
    coords = [c.reshape(-1) for c in np.indices(array.shape)]
    return normal(array.shape, coords, array.reshape(-1), array.dtype.type(0), once=True)


def _extents(left: Entries, right: Entries, left_labels: str, right_labels: str) -> dict[str, int]:
    extents: dict[str, int] = {}
    for label, extent in zip(left_labels + right_labels, (*left.shape, *right.shape), strict=True):
        if extents.setdefault(label, extent) == 1:
            extents[label] = extent
        elif extent not in (1, extents[label]):
            message = f"expected shapes that fit, but they are {left.shape} and {right.shape}"
            raise DataError(f"{message}: {extents[label]} is not {extent}")
    return extents


def _columns(entries: Entries, labels: str, extents: dict[str, int]) -> dict[str, Array]:
    """The coordinates by label; not those of an extent of 1 that goes with another one."""
    columns = zip(labels, entries.shape, entries.coords, strict=True)
    return {x: c for x, n, c in columns if n == extents[x]}


def _shares(counts: Array) -> list[int]:
    """Bounds of shares of the left entries with at most about SHARE products each."""
    total = np.cumsum(counts)
    if not len(total) or total[-1] <= SHARE:
        return [0, len(counts)]
    inner = np.searchsorted(total, np.arange(SHARE, total[-1], SHARE)) + 1
    return sorted({0, *inner.tolist(), len(counts)})


def product_labels(left: Sequence[int], right: Sequence[int]) -> tuple[str, str, str]:
    """The labels of numpy's matmul for these shapes. Raises DataError for numbers and for extents that differ."""
    for shape in (left, right):
        if not shape:
            raise DataError("expected an operand of @ with dimensions, but it is a number", None, ("write * instead",))
    inner = left[-1], right[-2] if len(right) > 1 else right[0]
    if inner[0] != inner[1]:
        message = f"expected operands of @ whose inner extents agree, but they are {inner[0]} and {inner[1]}"
        raise DataError(f"{message} (the shapes are {tuple(left)} and {tuple(right)})")
    batch = "abcdefghABCDEFGH"[: max(len(left), len(right), 2) - 2]
    rows, columns = "i" * (len(left) > 1), "j" * (len(right) > 1)
    first = batch[len(batch) - max(0, len(left) - 2) :] + rows + "k"
    second = batch[len(batch) - max(0, len(right) - 2) :] + "k" + columns
    return first, second, batch + rows + columns
