"""The packing of a layout with one key as a table of numbers, which C carries out (rt/table.h): no code is made for it.

Generated C is faster where there are many entries, but takes a compiler to begin with. All that depends on the layout
alone is found out once and remembered on the disk; the numbers follow from the extents.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from spfgen import folder
from spfgen.errors import Unsupported
from spfgen.facts.formula import Expr, Var, show
from spfgen.layout.keys import KeyLevel, KeyPlan, key_plan
from spfgen.layout.nodes import Layout
from spfgen.layout.pack import key_orders
from spfgen.layout.points import Array, affine_value
from spfgen.sets.affine import Affine, NotAffine, affine

FOLDER = "packing"
MOST = 2**62
"""What is computed of coordinates stays below."""
FIELDS = 200


class NoTable(Exception):
    """The packing of the layout, for these extents, is no table."""


@dataclass(frozen=True, eq=False)
class PackingTable:
    """The packing of a layout: `key` without the sets that it was derived from."""

    key: KeyPlan
    known: dict[tuple[int, ...], Shaped | None] = field(default_factory=dict)
    fills: set[str] = field(default_factory=set)
    """Types of values, for the caller, which the fill value is known to be a value of."""

    @property
    def layout(self) -> Layout:
        return self.key.plan.encoded.layout

    def at(self, shape: tuple[int, ...]) -> Shaped | None:
        """For these extents; None where there is no table."""
        if shape not in self.known:
            if len(self.known) >= 256:
                self.known.clear()
            shaped = None
            with suppress(NoTable, NotAffine, KeyError):
                shaped = Shaped(self, shape, _Numbers(self.key, shape))
            self.known[shape] = shaped
        return self.known[shape]


def table_of(layout: Layout) -> PackingTable | None:
    """None where the layout has no key; remembered on the disk."""
    if layout.value_transforms or layout.is_pattern or not layout.rank:
        return None
    plain = layout.unfilled  # the fill is nothing to its key
    name = folder.hash_of(plain.structure, folder.fingerprint())
    data = folder.load(FOLDER, name)
    key: KeyPlan | None = None
    if data is not None:
        with suppress(Exception):  # what cannot be read was written by another Python: it is made anew
            key = pickle.loads(data)
            return None if key is None else PackingTable(_of_layout(key, layout))
    with suppress(Unsupported):
        key = key_plan(plain, key_orders(plain)).plain()
    folder.save(FOLDER, name, pickle.dumps(key))
    return None if key is None else PackingTable(_of_layout(key, layout))


def _of_layout(key: KeyPlan, layout: Layout) -> KeyPlan:
    return replace(key, plan=replace(key.plan, encoded=replace(key.plan.encoded, layout=layout)))


@dataclass(frozen=True, eq=False)
class Shaped:
    """The table for some extents."""

    table: PackingTable
    shape: tuple[int, ...]
    numbers: _Numbers
    fits: dict[tuple[tuple[str, str], ...], bool] = field(default_factory=dict)
    """For the caller: whether all digits fit these types of the index arrays."""
    rooms: dict[Any, Any] = field(default_factory=dict)
    """For the caller: what so many positions need."""

    @property
    def words(self) -> Array:
        return self.numbers.words

    @property
    def arrays(self) -> tuple[str, ...]:
        return self.numbers.arrays


class _Numbers:
    """The words of the table, one after another."""

    def __init__(self, key: KeyPlan, shape: tuple[int, ...]) -> None:
        encoded = key.plan.encoded
        layout = encoded.layout
        self.key, self.layout = key, layout
        self.arrays = layout.arrays
        self.sizes = dict(zip(layout.parameters, shape, strict=True))
        self.slots = {c: k for k, c in enumerate(layout.coordinates)}
        self.ranges = [(0, max(0, n - 1)) for n in shape]
        self.constants: dict[str, int] = dict(self.sizes)
        self.made: list[tuple[int, list[int]]] = []
        self.limits: dict[str, tuple[int, int]] = {}
        if len(key.fields) > FIELDS or len(layout.values) != 1:
            raise NoTable
        self._make()
        self.positions = {level.rank.position: len(self.ranges) + k for k, level in enumerate(key.levels)}
        checks = [[int(c.equality), *self._affine(c.value)] for c in key.checks]
        fields = [[self.slots[f.name], int(f.down)] for f in key.fields]
        self._limit()
        levels = [w for k in range(len(key.levels)) for w in self._level(k)]
        (value,) = layout.values
        stored = [self.arrays.index(value.name), *self._place(value.position)]
        computed = [w for divisor, words in self.made for w in (divisor, *words)]
        counts = [layout.rank, len(self.made), len(checks), len(fields), len(key.levels)]
        flat = [*counts, *shape, *computed, *(w for c in checks for w in c), *(w for f in fields for w in f)]
        self.words: Array = np.array([*flat, *levels, *stored], np.int64)
        self.columns = self._columns()
        """Index arrays that are a column of coordinates, by its number, and whether the values are stored as they come,
        where entries come in order and each once."""
        self.is_column = bool(key.levels) and self._is_each(len(key.levels) - 1, value.position)
        self.lead = self._lead()

    def _make(self) -> None:
        """A slot for all that follows from coordinates, in turn."""
        encoded = self.key.plan.encoded
        rules = [(r.position, r.numerator, r.divisor) for r in self.key.computed]
        waiting = [*((n, value, d) for n, (value, d) in encoded.quotients.items()), *rules]
        while waiting:
            ready = [r for r in waiting if r[1].names() <= {*self.slots, *self.constants}]
            if not ready:
                break  # what is left speaks of arrays
            for name, numerator, divisor in ready:
                if numerator.names() <= set(self.constants):
                    self.constants[name] = int(affine_value(numerator, self.constants)) // divisor
                else:
                    self.slots[name] = self._slot(numerator, divisor)
            waiting = [r for r in waiting if r not in ready]

    def _slot(self, numerator: Affine, divisor: int) -> int:
        """The slot of floor(numerator / divisor)."""
        words = self._affine(numerator)
        if divisor == 1 and words[:2] == [0, 1] and words[3] == 1:
            return words[2]
        low, high = self._range(words)
        self.made.append((divisor, words))
        self.ranges.append((low // divisor, high // divisor))
        return len(self.ranges) - 1

    def _range(self, words: Sequence[int]) -> tuple[int, int]:
        low = high = words[0]
        for slot, factor in zip(words[2::2], words[3::2], strict=True):
            ends = sorted(factor * end for end in self.ranges[slot])
            low, high = low + ends[0], high + ends[1]
            if max(-low, high, -ends[0], ends[1]) > MOST:
                raise NoTable
        return low, high

    def _affine(self, value: Affine, positions: Mapping[str, int] | None = None) -> list[int]:
        """An affine: what is known is its constant."""
        constant, terms = value.constant, dict[int, int]()
        for atom, factor in value.terms:
            if not isinstance(atom, str):
                raise NoTable
            if atom in self.constants:
                constant += factor * self.constants[atom]
                continue
            slot = self.slots.get(atom, -1) if positions is None or atom not in positions else positions[atom]
            if slot < 0:
                raise NoTable
            terms[slot] = terms.get(slot, 0) + factor
        return [constant, len(terms), *(w for term in terms.items() for w in term)]

    def _place(self, position: Sequence[Expr]) -> list[int]:
        """A place in an array, of coordinates, digits and positions."""
        if not position:
            raise NoTable
        subscripts = [self._affine(affine(e, show), self.positions) for e in position]
        return [len(subscripts), *(w for words in subscripts for w in words)]

    def _limit(self) -> None:
        """Digits that index arrays hold."""
        calls = self.key.plan.encoded.calls
        for one in self.key.fields:
            if one.name in calls:
                array, (low, high) = calls[one.name].function, self.ranges[self.slots[one.name]]
                known = self.limits.get(array, (low, high))
                self.limits[array] = (min(low, known[0]), max(high, known[1]))

    def _is_each(self, number: int, place: Sequence[Expr]) -> bool:
        """Whether a place is the number of the entry, which is the position of the level."""
        level = self.key.levels[number]
        counted = level.rank.low == 0 and level.end == len(self.key.fields)
        return counted and not self._resets(level) and tuple(place) == (Var(level.rank.position),)

    def _columns(self) -> dict[str, int]:
        columns = {}
        for number, level in enumerate(self.key.levels):
            for name in level.rank.keys:
                call, slot = self.key.plan.encoded.calls[name], self.slots[name]
                if self._is_each(number, call.arguments) and slot < self.layout.rank:
                    columns[call.function] = slot
        return columns

    def _lead(self) -> str | None:
        """The array in which the only level says where its segments begin, which are the first digit; "" where there is
        no such array to be written; None where there is more to do."""
        key, rank = self.key, self.layout.rank
        plain = [self.slots[f.name] for f in key.fields if not f.down and self.slots[f.name] < rank]
        if key.checks or len(plain) < len(key.fields) or len(key.levels) != 1 or not self.is_column:
            return None
        (level,) = key.levels
        calls = key.plan.encoded.calls
        if len(self.columns) < len(level.rank.keys) or not set(range(rank)) <= {*plain}:
            return None
        if not level.rank.begin:
            return "" if level.group == 0 else None
        call = calls[level.rank.begin]
        return call.function if call.arguments == (Var(key.fields[0].name),) and level.group == 1 else None

    @staticmethod
    def _resets(level: KeyLevel) -> bool:
        return level.rank.kind == "slots" and level.group > 0

    def _level(self, number: int) -> Iterator[int]:
        level, calls = self.key.levels[number], self.key.plan.encoded.calls
        rank = level.rank
        if rank.low < 0:
            raise NoTable
        yield from (level.group, level.end, rank.low, int(self._resets(level)))
        if rank.begin:
            yield self.arrays.index(calls[rank.begin].function)
            yield from self._place(calls[rank.begin].arguments)
        else:
            yield from (-1, 0)
        yield len(rank.keys)
        for name in rank.keys:
            yield self.arrays.index(calls[name].function)
            yield self.slots[name]
            yield from self._place(calls[name].arguments)
