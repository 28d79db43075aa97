"""Entries while they are packed: their positions so far, and the arrays and sizes that these make."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from spfgen.errors import DataError, Unsupported
from spfgen.facts.formula import Expr, variables
from spfgen.layout.duplicates import Duplicates, combined_values
from spfgen.layout.fill import differs_as_number
from spfgen.layout.hints import HintInputs, hint_columns
from spfgen.layout.nodes import IndexArray, Layout, ValueArray
from spfgen.layout.pack_rules import KeyOrder, PackPlan, Rank, Ranked, shift
from spfgen.layout.points import (
    Array,
    affine_value,
    claim,
    flat_place,
    inside,
    row_ranks,
    shape_of,
    sorted_order,
)
from spfgen.layout.refusals import NoPlace
from spfgen.sets.affine import Affine, NotAffine, affine
from spfgen.sets.bounds import bounds
from spfgen.sets.uf import linear


class WrongBranch(Exception):
    """Entries have no place in the alternative of the relation that they were given; there is another one for them.

    `entries` are their numbers, `pieces` what they were given.
    """

    def __init__(self, entries: Array, pieces: Array) -> None:
        super().__init__("entries go to another alternative")
        self.entries = entries
        self.pieces = pieces


class DuplicateCoordinate(DataError):
    """Coordinates that the layout would store twice, or only together with absent ones."""


class Unfit(DuplicateCoordinate):
    """Entries whose arrays break a property, in the order and with the fillings that packing has chosen."""


@dataclass
class PackingState:
    """Rows of entries while positions are added to them. `lenient`: rows that cannot be stored are dropped.

    `piece` is the alternative that holds an entry, `number` which entry it was at the beginning, `more` whether there
    are further alternatives for it. `starts`: up to where a position has been given away.
    """

    layout: Layout
    sizes: dict[str, int]
    columns: dict[str, Array]
    values: Array
    lenient: bool = False
    piece: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    number: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    more: Array = field(default_factory=lambda: np.zeros(0, dtype=bool))
    arrays: dict[str, Array] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def known(self) -> dict[str, Any]:
        return {**self.sizes, **self.columns}

    @property
    def seen(self) -> HintInputs:
        """What hints speak of."""
        return HintInputs(self.count, self.known, tuple(self.layout.coordinates), self.values)

    def coordinate(self, row: int) -> tuple[int, ...]:
        return tuple(int(self.columns[c][row]) for c in self.layout.coordinates)

    def claim(self, array: str, shape: tuple[int, ...]) -> None:
        """Ask for the elements of an array before it is made. Raises TooLarge."""
        extents = " x ".join(map(str, shape))
        claim(prod(shape), f"`{array}` of layout `{self.layout.name}` is {extents}")

    def keep(self, mask: Array) -> None:
        """Drop the other rows. Raises WrongBranch when there is an alternative for them, else DataError when one
        of them has a value; a zero of the other sign is none here."""
        if mask.all():
            return
        self.elsewhere(~mask & self.more)
        lost = np.flatnonzero(~mask & differs_as_number(self.values, self.layout.fill))
        if len(lost) and not self.lenient:
            at = self.coordinate(int(lost[0]))
            raise NoPlace(
                f"expected entries that layout `{self.layout.name}` can store, "
                f"but it has no place for the value {self.values[lost[0]]} at {at}",
                self.layout,
                self.sizes,
                at,
            )
        self.columns = {n: c[mask] for n, c in self.columns.items()}
        self.values, self.piece = self.values[mask], self.piece[mask]
        self.number, self.more = self.number[mask], self.more[mask]

    def drop(self, rows: Array) -> None:
        """Drop these rows, as `keep` does it."""
        mask = np.ones(self.count, dtype=bool)
        mask[rows] = False
        self.keep(mask)

    def elsewhere(self, mask: Array) -> None:
        """Raises WrongBranch when there are such rows."""
        if mask.any():
            raise WrongBranch(self.number[mask], self.piece[mask])


@dataclass(frozen=True)
class Rows:
    """The entries that a rank is about: their row numbers, and for each key of the rank its value."""

    rows: Array
    keys: list[Array]

    @property
    def count(self) -> int:
        return len(self.rows)


def entry_rows(state: PackingState, rules: Mapping[int, Ranked]) -> Rows:
    """The entries of the pieces that have this rank, with their keys."""
    width = max(len(r.values) for r in rules.values())
    keys = [np.zeros(state.count, dtype=np.int64) for _ in range(width)]
    mine = np.zeros(state.count, dtype=bool)
    for k, rule in rules.items():
        of_piece = state.piece == k
        mine |= of_piece
        again = rule.values[-1:] * (width - len(rule.values))
        for key, (numerator, divisor) in zip(keys, rule.values + again, strict=True):
            key[...] = np.where(of_piece, affine_value(numerator, state.known) // divisor, key)
    rows = np.flatnonzero(mine)
    return Rows(rows, [k[rows] for k in keys])


def in_order(plan: PackPlan, rank: Rank, keys: list[Array], order: KeyOrder) -> list[Array]:
    """The keys in the order of importance, turned round where they run down."""
    named = {plan.encoded.calls[n].function: k for n, k in zip(rank.keys, keys, strict=True) if n in plan.encoded.calls}
    columns = [keys[k] if isinstance(k, int) else np.asarray(affine_value(k, named)) for k, _ in order.keys]
    return [-column if down else column for column, (_, down) in zip(columns, order.keys, strict=True)]


def sorted_by(state: PackingState, plan: PackPlan, rank: Rank, rows: Rows, order: KeyOrder) -> list[Array]:
    """What the positions of a rank are in the order of: the layout's hint, then the keys."""
    if rank.run:
        return rows.keys
    hinted = [] if not rank.hint else hint_columns(state.seen, plan, rank)
    extra = [state.columns[n][rows.rows] for n in rank.extra]
    return [*(h[rows.rows] for h in hinted), *in_order(plan, rank, rows.keys, order), *extra]


def groups_of(state: PackingState, plan: PackPlan, rank: Rank, rows: Array) -> list[Array]:
    """What says the group in which a rank counts."""
    if rank.begin:
        return subscripts_of(state, plan, rank.begin, rows)
    if rank.groups is None:
        return subscripts_of(state, plan, rank.keys[0], rows, rank.position)
    return values_of(state, rank.groups, rows)


def values_of(state: PackingState, values: tuple[Affine, ...], rows: Array) -> list[Array]:
    """The values of these rows."""
    return [
        np.broadcast_to(np.asarray(affine_value(v, state.known), dtype=np.int64), (state.count,))[rows] for v in values
    ]


def subscripts_of(state: PackingState, plan: PackPlan, name: str, rows: Array, without: str = "") -> list[Array]:
    """The arguments of a call for these rows, int64[len(rows)] each, without those that are the given position."""
    result = []
    for argument in plan.encoded.calls[name].arguments:
        if without and shift(argument, without) is not None:
            continue
        value = np.broadcast_to(np.asarray(affine_value(linear(argument), state.known), dtype=np.int64), (state.count,))
        result.append(value[rows])
    return result


def slots_of(groups: list[Array], rows: Rows, arranged: list[Array]) -> tuple[Array, Array, Array]:
    """(group of each row, its rank among the distinct keys of the group, number of distinct keys of each group)."""
    if groups:
        group, _ = row_ranks(groups, rows.count)
    else:
        group = np.zeros(rows.count, dtype=np.int64)
    ranks, first = row_ranks([group, *arranged], rows.count)
    sizes = np.bincount(group[first])
    starts = np.cumsum(sizes) - sizes
    return group, ranks - starts[group] if rows.count else ranks, sizes


def movable_rows(group: Array, slot: Array, more: Array, surplus: Array) -> Array:
    """Whether a row is in one of the last slots of its group, as many as its `surplus`, of which all rows have `more`
    alternatives; bool for each row."""
    place, first = row_ranks([group, slot], len(group))
    free = np.ones(len(first), dtype=bool)
    np.logical_and.at(free, place, more)
    own = group[first]
    count = np.cumsum(free)
    last = np.searchsorted(own, own, side="right") - 1
    found: Array = free & (count[last] - count < surplus[own])  # fewer free slots of the group lie behind it
    return found[place]


def unused_keys(group: Array, key: Array, groups: int, width: int, low: int) -> tuple[Array, Array]:
    """(group, key) of the least keys from `low` on that groups do not have, such that each has `width` keys."""
    free = np.ones((groups, width), dtype=bool)
    near = (key >= low) & (key < low + width)
    free[group[near], key[near] - low] = False
    missing = width - np.bincount(group, minlength=groups)
    rows, places = np.nonzero(free & (np.cumsum(free, axis=1) <= missing[:, None]))
    return rows.astype(np.int64), (places + low).astype(np.int64)


def capacity(state: PackingState, plan: PackPlan, rank: Rank, needed: int) -> int:
    """How many slots there are; solves the sizes in the bounds that are not known yet."""
    sizes = size_values(state, plan)
    known = [int(affine_value(e, sizes)) // a for a, e in rank.highs if e.names() <= set(sizes)]
    for key in rank.keys:
        call = plan.encoded.calls[key]
        for argument, extent in zip(call.arguments, state.layout.index(call.function).extents, strict=True):
            further = shift(argument, rank.position)
            if further is not None and variables(extent) <= set(sizes):
                known.append(shape_of((extent,), sizes)[0] - 1 - further)
    if known:
        return max(0, min(known) + 1 - rank.low)
    for a, high in rank.highs:
        solve_extent(state, high, a * (rank.low + needed - 1))
    return needed


def key_range(state: PackingState, plan: PackPlan, name: str) -> tuple[int, int]:
    """The declared range of a call as numbers, both ends included; from 0 on when none is declared."""
    lower, upper = bounds(plan.encoded.facts.constraints(name), name)
    sizes = size_values(state, plan)
    low = [-(int(affine_value(e, sizes)) // a) for a, e in lower if e.names() <= set(sizes)]
    high = [int(affine_value(e, sizes)) // a for a, e in upper if e.names() <= set(sizes)]
    return max(low, default=0), min(high, default=2**62)


def mark_of(state: PackingState, plan: PackPlan, array: str) -> int | None:
    """What marks unused places of an array, where that is known."""
    value = plan.sentinels.get(array)
    return int(affine_value(value, state.sizes)) if value is not None and value.names() <= set(state.sizes) else None


def learn_quotients(state: PackingState, plan: PackPlan) -> None:
    """Compute quotients of what is known."""
    for name, (numerator, divisor) in plan.encoded.quotients.items():
        if name not in state.columns and numerator.names() <= set(state.known):
            value = affine_value(numerator, state.known) // divisor
            state.columns[name] = np.broadcast_to(np.asarray(value, dtype=np.int64), (state.count,))


def write_array(
    state: PackingState, plan: PackPlan, rank: Rank, name: str, rows: Array, values: Array, length: int
) -> Array:
    """Write the key array at the entries; other places get the sentinel, else the low end of the range. Returns which
    places the entries have."""
    learn_quotients(state, plan)
    call = plan.encoded.calls[name]
    index = state.layout.index(call.function)
    places = subscripts_of(state, plan, name, rows)
    shifts = [shift(a, rank.position) for a in call.arguments]
    needed = [extent_of(p) if s is None else max(length + s, extent_of(p)) for s, p in zip(shifts, places, strict=True)]
    shape = solved_extents(state, index, needed)
    for further, extent in zip(shifts, shape, strict=True):
        if further is not None and length + further > extent:
            raise DataError(
                f"expected at most {extent} positions `{rank.position}` in layout `{state.layout.name}`, "
                f"but the entries need {length + further}"
            )
    low, _ = key_range(state, plan, name)
    sentinel = mark_of(state, plan, index.name)
    filler = low if sentinel is None else sentinel
    state.claim(index.name, shape)
    array = np.full(shape, filler, dtype=np.int64)
    good = inside(shape, places, len(rows))
    written = np.zeros(shape, dtype=bool)
    flat = flat_place(shape, places, len(rows))[good]
    array.reshape(-1)[flat] = values[good]
    written.reshape(-1)[flat] = True
    state.arrays[index.name] = array
    return written


def size_values(state: PackingState, plan: PackPlan) -> dict[str, int]:
    """The sizes that are known, and the quotients of sizes."""
    values = dict(state.sizes)
    for name, (numerator, divisor) in plan.encoded.quotients.items():
        if numerator.names() <= set(values):
            values[name] = int(affine_value(numerator, values)) // divisor
    return values


def extent_of(places: Array) -> int:
    """The extent that an array needs to have these places."""
    return int(places.max()) + 1 if len(places) else 0


def solve_extent(state: PackingState, extent: Affine, value: int) -> None:
    """Set the only unknown size of the extent such that the extent is at least `value`."""
    unknown = extent.names() - set(state.sizes)
    if len(unknown) != 1:
        return
    name = unknown.pop()
    factor, others = extent.coefficient(name), extent.without(name)
    if factor > 0 and name not in others.names():
        missing = value - int(affine_value(others, state.sizes))
        state.sizes[name] = max(0, -(-missing // factor))


def solved_extents(state: PackingState, declared: IndexArray | ValueArray, needed: list[int]) -> tuple[int, ...]:
    """The shape of an array; sizes in its extents that are not known yet become as large as needed."""
    for extent, value in zip(declared.extents, needed, strict=True):
        if not variables(extent) <= set(state.sizes):
            with suppress(NotAffine):
                solve_extent(state, affine(extent, no_name), value)
        missing = variables(extent) - set(state.sizes)
        if missing:
            raise unknown_size(state, min(missing))
    return shape_of(declared.extents, state.sizes)


def no_name(call: Any) -> str:
    raise NotAffine(call)


def check_known(state: PackingState, place: Expr) -> None:
    """The sizes in a place are known. Raises Unsupported."""
    missing = variables(place) & set(state.layout.sizes) - set(state.sizes)
    if missing:
        raise unknown_size(state, min(missing))


def unknown_size(state: PackingState, size: str) -> Unsupported:
    message = f"layout `{state.layout.name}` cannot be packed: its size `{size}` cannot be derived"
    return Unsupported(message, state.layout.span)


def sorted_entries(
    layout: Layout,
    shape: tuple[int, ...],
    coords: tuple[Array, ...],
    values: Array,
    duplicates: Duplicates = "sum",
) -> tuple[dict[str, Array], Array]:
    """(coordinate columns, values) in lexicographic order, each coordinate once."""
    if len(coords) != layout.rank:
        raise DataError(f"expected {layout.rank} coordinate arrays, but there are {len(coords)}")
    if values.ndim != 1 or any(np.shape(c) != values.shape for c in coords):
        shapes = ", ".join(str(np.shape(c)) for c in coords)
        raise DataError(f"expected coordinates and values of one length, but they are {shapes} and {values.shape}")
    columns = [np.asarray(c).astype(np.int64) for c in coords]
    valid = inside(shape, columns, len(values))
    if not valid.all():
        row = int(np.argmin(valid))
        at = tuple(int(c[row]) for c in columns)
        raise DataError(f"expected coordinates within the shape {tuple(shape)}, but there is {at}")
    order = sorted_order(columns, len(values))
    if order is not None:
        columns, values = [c[order] for c in columns], values[order]
    new = np.zeros(len(values), dtype=bool)
    new[:1] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    if not new.all():
        first = np.flatnonzero(new)
        columns, values = [c[first] for c in columns], combined_values(columns, values, first, duplicates)
    return dict(zip(layout.coordinates, columns, strict=True)), values
