"""Where axes are cut. The bounds of an axis rise from 0 to its extent; block k holds [bounds[k], bounds[k + 1])."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
import numpy.typing as npt

from spfgen.errors import UsageError

Bounds = tuple[int, ...]
Box = tuple[tuple[int, int], ...]
LETTERS = tuple("ijklmn")


def by_extent(extent: int, size: int) -> Bounds:
    """Blocks of `size`, the last one shorter."""
    return (*range(0, extent, size), extent) if extent else (0, 0)


def by_count(extent: int, count: int) -> Bounds:
    """So many blocks, whose extents differ by one at most; empty ones where there are more blocks than places."""
    return tuple(extent * k // count for k in range(count + 1))


def by_entries(coordinates: npt.NDArray[np.int64], extent: int, count: int) -> Bounds:
    """So many blocks that hold about as many of these coordinates each."""
    before = np.concatenate([[0], np.cumsum(np.bincount(coordinates, minlength=extent))])
    wanted = [before[-1] * k / count for k in range(1, count)]
    inner = np.searchsorted(before, wanted, "left").tolist() if extent else [0] * (count - 1)
    return (0, *inner, extent)


def by_extents(extent: int, extents: Sequence[int], axis: str) -> Bounds:
    """Blocks of these extents. Raises UsageError where they do not add up."""
    bounds = (0, *np.cumsum(extents, dtype=np.int64).tolist())
    if min(extents, default=0) < 0 or bounds[-1] != extent:
        raise UsageError(f"expected extents of blocks that add up to {extent} along `{axis}`, but they are {extents!r}")
    return bounds


def axis_of(key: object, names: Sequence[str]) -> int:
    """The axis that is meant by a number or by the name that the layout gives it, or by i, j, k, ... where the layout
    has none of these. Raises UsageError."""
    for known in (names, LETTERS[: len(names)] if not {*names} & {*LETTERS} else ()):
        if isinstance(key, str) and key in known:
            return known.index(key)
    if isinstance(key, int) and not isinstance(key, bool) and -len(names) <= key < len(names):
        return key % len(names)
    axes = ", ".join(f"`{n}` ({k})" for k, n in enumerate(names))
    raise UsageError(f"expected an axis to cut, but it is {key!r}", None, (f"axes of this tensor: {axes}",))


def cut(extent: int, how: object, axis: str) -> Bounds:
    """The bounds that a person asks for: the extent of a block, or the extents of all. Raises UsageError."""
    if isinstance(how, int | np.integer) and not isinstance(how, bool) and how > 0:
        return by_extent(extent, int(how))
    if isinstance(how, tuple | list | np.ndarray) and all(isinstance(n, int | np.integer) for n in how) and len(how):
        return by_extents(extent, [int(n) for n in how], axis)
    hint = "write {'i': 1000} for blocks of that extent, {'i': (3, 4, 5)} for extents, count={'i': 8} for a number"
    raise UsageError(f"expected the extent of a block along `{axis}`, but it is {how!r}", None, (hint,))


def checked_count(how: object, axis: str) -> int:
    """Raises UsageError where it is no number of blocks."""
    if not isinstance(how, int | np.integer) or isinstance(how, bool) or how < 1:
        raise UsageError(f"expected a number of blocks along `{axis}`, but it is {how!r}")
    return int(how)


def boxes(bounds: Sequence[Bounds]) -> dict[tuple[int, ...], Box]:
    """The box of each block, by its place among the blocks."""
    numbers = product(*[range(len(b) - 1) for b in bounds])
    return {k: tuple((b[n], b[n + 1]) for b, n in zip(bounds, k, strict=True)) for k in numbers}


def shown(box: Box) -> str:
    """A box as it is written in messages, as a subscript."""
    return "[" + ", ".join(f"{low}:{high}" for low, high in box) + "]"


def meeting(bounds: Bounds, low: int, high: int) -> list[int]:
    """The blocks that have places of [low, high); none for an empty range."""
    return [k for k, (a, b) in enumerate(pairwise(bounds)) if max(a, low) < min(b, high)]


def by_name(asked: Mapping[Any, Any] | None, names: Sequence[str]) -> dict[int, Any]:
    """What is asked for each axis."""
    return {axis_of(key, names): how for key, how in (asked or {}).items()}
