"""What is found out once about conversions by generated C: of two layouts with their types, then of their extents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from spfgen import tuning
from spfgen.cir import convert
from spfgen.cir import pack as code
from spfgen.cir.convert import Pair
from spfgen.cir.pack import Made, Types
from spfgen.errors import DataError, SpfgenError, Unsupported
from spfgen.folder import fingerprint, hash_of
from spfgen.lang.fills import fill_text
from spfgen.layout.fill import typed_fill
from spfgen.layout.keys import Field, KeyPlan, key_plan, solved_sizes
from spfgen.layout.nodes import Layout
from spfgen.layout.order import in_order
from spfgen.layout.pack import check_fill, key_orders
from spfgen.layout.points import Array, affine_value, shape_of
from spfgen.layout.proofs import one_coordinate, stored_once
from spfgen.plan.assemble.forms import is_sortable, number_of_group
from spfgen.run.by_kernel import Copy, NoPlace, copy_of
from spfgen.run.calls.functions import Function, empty, loaded, zeros
from spfgen.run.calls.layout_signature import form_of, remember
from spfgen.run.later import is_ready

MOST_KNOWN = 256


class Fall(Exception):
    """The way through C is not for this data, or does not pay yet."""


@dataclass(frozen=True, eq=False)
class Conversion:
    """The `ways` to try in turn, and the compiled functions of each."""

    pair: Pair
    ways: tuple[str, ...]
    functions: dict[str, list[Function] | None] = field(default_factory=dict)
    digits: dict[tuple[int, ...], Digits] = field(default_factory=dict)

    def of(self, way: str) -> list[Function] | None:
        """The compiled functions of a way; None when there are none. Raises ToolError."""
        if way not in self.functions:
            made = functions(self.pair, way)
            about = f"From {self.pair.source.name} to {self.pair.layout.name}"
            self.functions[way] = None if made is None else loaded(made, about)
        return self.functions[way]

    @cached_property
    def copy(self) -> Copy:
        """The kernel that copies. Raises Fall where there is none."""
        pair = self.pair
        own = pair.source, pair.types.indexes, pair.layout, pair.target.indexes, pair.types.value
        try:
            return copy_of(*own, pair.without_fill)
        except (SpfgenError, NoPlace) as error:
            raise Fall from error

    def at(self, shape: tuple[int, ...]) -> Digits:
        """For these extents. Raises Fall."""
        found = self.digits.get(shape)
        if found is None:
            found = Digits.of(self.pair, shape)
            remember(self.digits, shape, found)
        return found


def functions(pair: Pair, way: str) -> list[Made] | None:
    """The functions of a conversion by one of the ways: table, grouped or keys."""
    match way:
        case "table":
            return convert.table_functions(pair)
        case "grouped":
            return convert.grouped_functions(pair)
    counting = code.count_function(pair.source, pair.types, pair.without_fill)
    making = code.keys_of_layout(pair.key, pair.source, pair.types, pair.without_fill)
    return [counting, making, code.fill_function(pair.key, pair.target)]


# --- of two layouts ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Known:
    """The layouts are kept: they are known by identity."""

    source: Layout
    target: Layout
    conversion: Conversion | None = None


_KNOWN: dict[tuple[object, ...], _Known] = {}
"""By the identity of the layouts: to compare layouts takes longer than a small conversion."""


def prepared(
    source: Layout,
    target: Layout,
    types: tuple[np.dtype[Any], ...],
    kinds: tuple[str, ...],
    place: str,
    *,
    packs: bool,
    entries: int = tuning.CONVERT_COMPILED,
) -> Conversion:
    """The conversion of `source` with arrays of these types to `target` with index arrays of these `kinds`, positions
    counted in `place`; `packs`: the source is what a user gave, in no order, with entries at one coordinate.

    Raises Fall as long as it is not compiled (run/later.py says when) and so many `entries` need not wait for it;
    NoKey, Unsupported, ToolError; DataError when the fill value is none of the values' type.
    """
    name = (id(source), id(target), *[t.char for t in types], kinds, place, packs)
    known = _KNOWN.get(name)
    if known is None:
        if len(_KNOWN) >= MOST_KNOWN:
            _KNOWN.clear()
        known = _KNOWN[name] = _Known(source, target)
    if known.conversion is None:
        own = tuple(t.name for t in types)
        said = (source, target, own, kinds, place, packs)

        def mark() -> str:
            return hash_of("conversion", source.structure, target.structure, repr(said[2:]), fingerprint())

        least, at_once = tuning.PACK_BY_NUMPY, tuning.CONVERT_COMPILED
        if not is_ready(name, mark, lambda: ("conversion", said), entries, least, at_once):
            raise Fall
        check_fill(target, types[len(source.indexes)])
        known.conversion = compiled(*said)
    return known.conversion


def compiled(
    source: Layout, target: Layout, own: tuple[str, ...], kinds: tuple[str, ...], place: str, packs: bool
) -> Conversion:
    """With the functions of the first way. Raises NoKey, Unsupported, ToolError."""
    made = _made(source, target, own, kinds, place, packs)
    if made.ways[0] == "kernel":
        _ = made.copy
    else:
        made.of(made.ways[0])
    return made


def _made(
    source: Layout, target: Layout, own: tuple[str, ...], kinds: tuple[str, ...], place: str, packs: bool
) -> Conversion:
    key = key_plan(target, key_orders(target))
    names = [a.name for a in source.indexes]
    types = Types(own[len(names)], tuple(zip(names, own, strict=False)))
    wanted = Types(types.value, tuple(zip((a.name for a in target.indexes), kinds, strict=True)))
    pair = Pair(source, types, key, wanted, place, not packs and pads(source))
    once = not packs and stored_once(source).proved
    ways = ["keys"]
    if fill_text(source.fill) == fill_text(target.fill) and number_of_group(key) is not None:
        ways = ["kernel", "keys"] if is_sortable(key) or in_order(source, key) else ["keys"]
    elif once and convert.is_table(key):
        ways = ["table", "keys"]
    elif once and convert.is_grouped(key) and all(one_coordinate(source, v).proved for v in source.values):
        # the memory for keys is that for as many as there are places of values
        ways = ["grouped", "keys"]
    return Conversion(pair, tuple(ways))


def pads(layout: Layout) -> bool:
    """Whether the layout stores places in groups, of which some hold no entry."""
    form = form_of(layout)
    if form.pads is None:
        try:
            form.pads = key_plan(layout, key_orders(layout)).pads
        except Unsupported:
            form.pads = True
    return form.pads


# --- of extents --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Room:
    """What the target needs for so many entries: all `sizes`, and of each array its name, shape, type and what it holds
    at places that no entry has; None where there are none."""

    sizes: dict[str, int]
    arrays: tuple[tuple[str, tuple[int, ...], np.dtype[Any], Any], ...]

    def made(self, layout: Layout, given: Mapping[str, Array] = MappingProxyType({})) -> dict[str, Array]:
        """New arrays; those that are `given` are used where they are of that type and shape. Raises DataError when they
        do not fit in memory."""
        found: dict[str, Array] = {}
        try:
            for name, shape, kind, rest in self.arrays:
                own = given.get(name)
                if own is not None and (own.dtype, own.shape) == (kind, shape):
                    found[name] = own
                elif rest is None:
                    found[name] = empty(shape, kind)
                elif fill_text(rest) == "0":
                    found[name] = zeros(shape, kind)
                else:
                    found[name] = empty(shape, kind)
                    found[name].fill(rest)
        except (MemoryError, ValueError):
            raise DataError(f"expected arrays of layout `{layout.name}` that fit in memory, but they do not") from None
        return found


@dataclass(frozen=True, eq=False)
class Digits:
    """Where the fields lie in a key of `bits` bits, for these extents; `given` is that for C."""

    pair: Pair
    sizes: dict[str, int]
    shifts: tuple[int, ...]
    bits: int
    limits: tuple[tuple[int, int], ...]
    given: dict[str, int]
    rooms: dict[tuple[int, ...], Room | None] = field(default_factory=dict)

    @staticmethod
    def of(pair: Pair, shape: tuple[int, ...]) -> Digits:
        """Raises Fall when an extent is 0 or an index might not fit its type."""
        key, encoded = pair.key, pair.key.plan.encoded
        sizes = dict(zip(encoded.layout.parameters, shape, strict=True))
        known = dict(sizes)
        for name, (numerator, divisor) in encoded.quotients.items():
            if numerator.names() <= set(known):
                known[name] = int(affine_value(numerator, known)) // divisor
        limits = tuple([f.limits(known) for f in key.fields])
        widths = [max(1, (high - low).bit_length()) for low, high in limits]
        of_array = dict(pair.target.indexes)
        for one, (low, high) in zip(key.fields, limits, strict=True):
            if high < low:
                raise Fall
            if one.name in encoded.calls:
                info = np.iinfo(of_array[encoded.calls[one.name].function])
                if low < info.min or high > info.max:
                    raise Fall
        shifts = tuple(sum(widths[k + 1 :]) for k in range(len(widths)))
        given = {f"size:{n}": v for n, v in sizes.items()}
        for k, (one, (low, high)) in enumerate(zip(key.fields, limits, strict=True)):
            given |= {f"shift:{k}": shifts[k], f"base:{k}": _base(one, low, high)}
        return Digits(pair, sizes, shifts, sum(widths), limits, given)

    @cached_property
    def groups(self) -> int:
        """The number of groups of the only rank."""
        _, extents = convert.group_arguments(self.pair.key)
        return prod(shape_of(extents, self.sizes))

    def room(self, totals: Sequence[int], widths: Sequence[int]) -> Room | None:
        """Where rank k has totals[k] positions, at most widths[k] in a group; None where sizes do not follow from that.

        Raises Fall when a position might not fit its type.
        """
        name = (*totals, *widths)
        if name not in self.rooms:
            sizes = solved_sizes(self.pair.key, self.sizes, totals, widths)
            target = self.pair.target
            found = None if sizes is None else room_of(self.pair.key, target.indexes, target.value, sizes, totals)
            remember(self.rooms, name, found)
        return self.rooms[name]


def _base(one: Field, low: int, high: int) -> int:
    return high if one.down else low


def room_of(
    key: KeyPlan,
    kinds: Sequence[tuple[str, str]],
    value_type: str,
    sizes: dict[str, int],
    totals: Sequence[int],
) -> Room:
    """Raises Fall when a position might not fit its type, of the `kinds` of index arrays."""
    layout = key.plan.encoded.layout
    found = list[tuple[str, tuple[int, ...], np.dtype[Any], Any]]()
    for name, kind in kinds:
        if max(totals, default=0) > np.iinfo(kind).max:
            raise Fall
        shape = shape_of(layout.index(name).extents, sizes)
        found.append((name, shape, np.dtype(kind), None if prod(shape) in totals else key.rest(name, sizes)))
    (value,) = layout.values
    shape, dtype = shape_of(value.extents, sizes), np.dtype(value_type)
    is_full = not key.pads and prod(shape) in totals
    found.append((value.name, shape, dtype, None if is_full else typed_fill(layout.fill, dtype)))
    return Room(sizes, tuple(found))
