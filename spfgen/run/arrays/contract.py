"""Sums of products of two sparse operands by coordinates, and matrix products in numpy's sense."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from spfgen.errors import DataError
from spfgen.run.arrays.entries import Entries, normal, numbered, pruned
from spfgen.run.tensor import Array

SHARE = 2**22
"""So many products are held at once."""


def contracted(left: Entries, right: Entries, labels: tuple[str, str, str]) -> Entries:
    """`labels` name the dimensions of both and of the result, a letter each: `("ij", "jk", "ik")`.

    Both have the fill 0; what stands in both and not in the result is summed. An extent of 1 goes with any.
    """
    own, other, result = labels
    extents = _extents(left, right, own, other)
    shape = tuple(extents[x] for x in result)
    kind = np.result_type(left.dtype, right.dtype)
    first, second = _columns(left, own, extents), _columns(right, other, extents)
    both = [x for x in first if x in second]
    (one, two) = numbered(
        tuple(extents[x] for x in both),
        [len(left.values), len(right.values)],
        [tuple(first[x] for x in both), tuple(second[x] for x in both)],
    )
    order = np.argsort(two, kind="stable")
    begin, end = np.searchsorted(two[order], one, "left"), np.searchsorted(two[order], one, "right")
    found = []
    for low, high in pairwise(_shares(end - begin)):
        counts = end[low:high] - begin[low:high]
        at = np.repeat(np.arange(low, high), counts)
        with_ = order[np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts) + begin[at]]
        values = np.multiply(left.values[at], right.values[with_], dtype=kind)
        columns = [first[x][at] if x in first else second[x][with_] for x in result]
        found.append(normal(shape, columns, values, kind.type(0)))
    if len(found) == 1:
        return pruned(found[0])
    columns = [np.concatenate([f.coords[d] for f in found]) for d in range(len(shape))]
    return pruned(normal(shape, columns, np.concatenate([f.values for f in found]), kind.type(0)))


def _extents(left: Entries, right: Entries, own: str, other: str) -> dict[str, int]:
    extents: dict[str, int] = {}
    for label, extent in zip(own + other, (*left.shape, *right.shape), strict=True):
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
