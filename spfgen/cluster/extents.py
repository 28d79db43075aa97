"""The extents of indices and results of a program over blocks: the rules of the language, asked of shapes alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from types import SimpleNamespace
from typing import Any

from spfgen.errors import DataError
from spfgen.lang import nodes as lang
from spfgen.lang.oracle.names import IndexRenamer
from spfgen.lang.oracle.ranges import IndexRanges
from spfgen.lang.uses import accesses_in

Shape = tuple[int, ...]


@dataclass(frozen=True)
class KnownExtents:
    """`indices` are those that run from 0; `shapes` those of all tensors whose extents are known."""

    indices: Mapping[str, int]
    shapes: Mapping[str, Shape]


def extents_of(
    steps: Sequence[Any], shapes: Mapping[str, Shape], sizes: Mapping[str, int], given: Mapping[str, int]
) -> KnownExtents:
    """`shapes` are those of the operands, `sizes` the numbers that are named, `said` extents of indices, and those of
    results as `y.n_1`. Raises DataError where they do not agree."""
    _check_agree(steps, shapes, sizes, given)
    arrays: dict[str, Any] = {n: SimpleNamespace(shape=s) for n, s in shapes.items()}  # larger than an array may be
    ranges = IndexRanges(arrays, {}, dict(sizes), {n: e for n, e in given.items() if "." not in n}, {})
    unique = IndexRenamer(frozenset(sizes)).steps(steps, {})
    try:
        ranges.find(unique)
    except ValueError as error:
        raise DataError(str(error)) from None
    return KnownExtents(_by_name(ranges), _known(steps, ranges, given))


def _by_name(ranges: IndexRanges) -> dict[str, int]:
    """The extents of indices as they are written; one of which several have the name has none."""
    extents: dict[str, set[float]] = {}
    for name, (low, high) in ranges.limits.items():
        extents.setdefault(name.partition(".")[0], set()).add(max(high + 1, 0) if low == 0 else inf)
    for name, extent in ranges.extents.items():
        extents[name.partition(".")[0]] = extents.get(name.partition(".")[0], set()) | {extent}
    return {n: int(min(e)) for n, e in extents.items() if len(e) == 1 and inf not in e}


def _known(steps: Sequence[Any], ranges: IndexRanges, given: Mapping[str, int]) -> dict[str, Shape]:
    from spfgen.run.calls.detect_layout import dense_layout

    shapes: dict[str, Shape] = {}
    for access in accesses_in(steps):
        shape: list[int | None] = list(ranges.shapes[access.tensor])
        names = dense_layout(len(shape)).parameters if shape else ()
        shape = [given.get(f"{access.tensor}.{n}", e) for n, e in zip(names, shape, strict=True)]
        if None not in shape:
            shapes[access.tensor] = tuple(int(e) for e in shape if e is not None)
    return shapes


def _check_agree(
    steps: Sequence[Any], shapes: Mapping[str, Shape], sizes: Mapping[str, int], given: Mapping[str, int]
) -> None:
    """Indices that stand alone have one extent in an equation. Raises DataError."""
    from spfgen.cluster.separability import plain

    for step in steps:
        extents: dict[str, int] = {}
        for access in accesses_in([step] if isinstance(step, lang.Statement) else []):
            alone = [plain(s) for s in access.subscripts]
            for axis, (index, extent) in enumerate(zip(alone, shapes.get(access.tensor, ()), strict=False)):
                if index is None or index in sizes or alone.count(index) > 1:
                    continue
                if extents.setdefault(index, extent) != extent:
                    message = f"expected extents that agree, but `{index}` runs over {extents[index]} places and"
                    raise DataError(f"{message} {access.tensor} has {extent} along axis {axis}", access.span)
        for index, extent in given.items():
            if index in extents and extents[index] != extent:
                message = f"expected extents that agree, but the size given for `{index}` is {extent}, not"
                raise DataError(f"{message} {extents[index]}")
