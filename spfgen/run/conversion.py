"""Conversions by the kernel that copies (by_kernel.py), each found out once for two layouts with their types; and the
room that arrays need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from spfgen import tuning
from spfgen.errors import DataError, SpfgenError, Unsupported
from spfgen.folder import fingerprint, hash_of
from spfgen.lang.fills import fill_text
from spfgen.layout.fill import typed_fill
from spfgen.layout.keys import KeyPlan, key_plan
from spfgen.layout.nodes import Layout
from spfgen.layout.pack import check_fill, key_orders
from spfgen.layout.points import Array, shape_of
from spfgen.run.by_kernel import CopyFailed, CopyKernel, copy_of
from spfgen.run.calls.functions import empty, zeros
from spfgen.run.calls.layout_signature import form_of
from spfgen.run.later import is_ready

MOST_KNOWN = 256


class NotApplicable(Exception):
    """The way through C is not for this data, or does not pay yet."""


# --- of two layouts ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Known:
    """The layouts are kept: they are known by identity."""

    source: Layout
    target: Layout
    copy: CopyKernel | None = None


_KNOWN: dict[tuple[object, ...], _Known] = {}
"""By the identity of the layouts: to compare layouts takes longer than a small conversion."""


def prepared(
    source: Layout,
    target: Layout,
    types: tuple[np.dtype[Any], ...],
    kinds: tuple[str, ...],
    *,
    packs: bool,
    combining: str = "",
    entries: int = tuning.CONVERT_COMPILED,
) -> CopyKernel:
    """The conversion of `source` with arrays of these types to `target` with index arrays of these `kinds`; `packs`:
    the source is what a user gave, all of which is an entry; `combining`: see `copy_of`.

    Raises NotApplicable as long as it is not compiled (run/later.py says when) and so many `entries` need not wait for
    it, and where there is none; NoKey; DataError when the fill value is none of the values' type.
    """
    name = (id(source), id(target), *[t.char for t in types], kinds, packs, combining)
    known = _KNOWN.get(name)
    if known is None:
        if len(_KNOWN) >= MOST_KNOWN:
            _KNOWN.clear()
        known = _KNOWN[name] = _Known(source, target)
    if known.copy is None:
        task = (source, target, tuple(t.name for t in types), kinds, packs, combining)

        def mark() -> str:
            return hash_of("conversion", source.structure, target.structure, repr(task[2:]), fingerprint())

        least, at_once = tuning.PACK_BY_NUMPY, tuning.CONVERT_COMPILED
        if not is_ready(name, mark, lambda: ("conversion", task), entries, least, at_once):
            raise NotApplicable
        check_fill(target, types[len(source.indexes)])
        known.copy = compiled(*task)
    return known.copy


def compiled(
    source: Layout,
    target: Layout,
    source_types: tuple[str, ...],
    kinds: tuple[str, ...],
    packs: bool,
    combining: str = "",
) -> CopyKernel:
    """Raises NotApplicable where places are known without a kernel, or what is stored nowhere differs; NoKey."""
    if not key_plan(target, key_orders(target)).levels or fill_text(source.fill) != fill_text(target.fill):
        raise NotApplicable
    names, wanted = [a.name for a in source.indexes], [a.name for a in target.indexes]
    types, others = tuple(zip(names, source_types, strict=False)), tuple(zip(wanted, kinds, strict=True))
    try:
        return copy_of(source, types, target, others, source_types[len(names)], not packs and pads(source), combining)
    except (SpfgenError, CopyFailed) as error:
        raise NotApplicable from error


def pads(layout: Layout) -> bool:
    """Whether the layout stores places in groups, of which some hold no entry."""
    form = form_of(layout)
    if form.pads is None:
        try:
            form.pads = key_plan(layout.unfilled, key_orders(layout)).pads
        except Unsupported:
            form.pads = True
    return form.pads


# --- room -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TargetArrays:
    """What the target needs for so many entries: all `sizes`, and of each array its name, shape, type and what it holds
    at places that no entry has; None where there are none."""

    sizes: dict[str, int]
    arrays: tuple[tuple[str, tuple[int, ...], np.dtype[Any], Any], ...]

    def made(self, layout: Layout, given: Mapping[str, Array] = MappingProxyType({})) -> dict[str, Array]:
        """New arrays; those that are `given` are used where they are of that type and shape. Raises DataError when they
        do not fit in memory."""
        arrays: dict[str, Array] = {}
        try:
            for name, shape, kind, filler in self.arrays:
                array = given.get(name)
                if array is not None and (array.dtype, array.shape) == (kind, shape):
                    arrays[name] = array
                elif filler is None:
                    arrays[name] = empty(shape, kind)
                elif fill_text(filler) == "0":
                    arrays[name] = zeros(shape, kind)
                else:
                    arrays[name] = empty(shape, kind)
                    arrays[name].fill(filler)
        except (MemoryError, ValueError):
            raise DataError(f"expected arrays of layout `{layout.name}` that fit in memory, but they do not") from None
        return arrays


def room_of(
    key: KeyPlan,
    kinds: Sequence[tuple[str, str]],
    value_type: str,
    sizes: dict[str, int],
    totals: Sequence[int],
) -> TargetArrays:
    """Raises NotApplicable when a position might not fit its type, of the `kinds` of index arrays."""
    layout = key.plan.encoded.layout
    arrays = list[tuple[str, tuple[int, ...], np.dtype[Any], Any]]()
    for name, kind in kinds:
        if max(totals, default=0) > np.iinfo(kind).max:
            raise NotApplicable
        shape = shape_of(layout.index(name).extents, sizes)
        arrays.append((name, shape, np.dtype(kind), None if prod(shape) in totals else key.rest(name, sizes)))
    (value,) = layout.values
    shape, dtype = shape_of(value.extents, sizes), np.dtype(value_type)
    is_full = not key.pads and prod(shape) in totals
    arrays.append((value.name, shape, dtype, None if is_full else typed_fill(layout.fill, dtype)))
    return TargetArrays(sizes, tuple(arrays))
