"""Assemblies step by step (nodes.py), carried out with numpy: the meaning of the steps, for few entries.

Every vector has the length that it was made with, and nothing is read or written outside: what C would not notice is a
Misstep here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from spfgen.errors import DataError, InternalError
from spfgen.facts.formula import And, Bin, Call, Compare, Expr, Formula, Not, Num, Or, Var, apply_operator
from spfgen.layout.fill import differs, differs_as_number, filled
from spfgen.layout.hints import numbered_blocks, patterns, words
from spfgen.layout.pack_entries import movable_rows, unused_keys
from spfgen.layout.points import (
    Array,
    affine_value,
    compare,
    encode,
    enumerate_points,
    flat_place,
    inside,
    lean,
    row_ranks,
    rows_of,
    run_steps,
    scan_of,
    shape_of,
    sorted_order,
)
from spfgen.layout.validate import check_arrays
from spfgen.plan.assemble.nodes import (
    COUNT,
    FIRST,
    LINKED,
    MORE,
    NUMBER,
    PIECE,
    ROW,
    Assembly,
    AssemblyStep,
    CheckFacts,
    CheckShared,
    Choose,
    Differs,
    Fail,
    Filler,
    Fold,
    Insert,
    Into,
    Keep,
    Let,
    MaxOverPoints,
    Movable,
    Move,
    NumberBlocks,
    Offsets,
    Patterns,
    Ranks,
    Repeat,
    Running,
    SameValue,
    SelectRows,
    Sort,
    Store,
    UpperBound,
    ValueWord,
    Vec,
    When,
)

ROUNDS = 100
"""A repetition that drops so often does not end; nor do entries that move on so often."""
LARGEST = 1 << 16
"""No vector of few entries is longer."""


class Misstep(Exception):
    """A step does what it may not: it reads what is not there, or writes outside."""


class Refused(Exception):
    """The layout has no place for the entries; `elsewhere`: some go to another alternative first."""

    def __init__(self, why: str, elsewhere: bool = False) -> None:
        super().__init__(why)
        self.elsewhere = elsewhere


@dataclass(frozen=True)
class Table:
    """Entries in the order of their coordinates, each once."""

    sizes: Mapping[str, int]
    columns: Mapping[str, Array]
    values: Array
    linked: Array | None = None


@dataclass
class AssembledArrays:
    """Sizes, and arrays by name."""

    sizes: dict[str, int]
    arrays: dict[str, Array]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, AssembledArrays)
            and self.sizes == other.sizes
            and all(np.array_equal(a, other.arrays[n]) for n, a in self.arrays.items())
        )


def carried_out(assembly: Assembly, table: Table) -> AssembledArrays:
    """The arrays of these entries. Raises Refused where there is no place for them, Misstep."""
    refused = Refused("")
    for one in (assembly, *assembly.fallbacks):
        first = np.zeros(len(table.values), dtype=np.int64)
        for _ in range(ROUNDS):
            try:
                return _Carried(one, table, first).held()
            except Refused as other:
                refused = other
                if not other.elsewhere:
                    break
        else:
            raise Misstep("entries go from one alternative to the other without end")
    raise refused


class _Carried:
    """One attempt."""

    def __init__(self, assembly: Assembly, table: Table, first: Array) -> None:
        self.assembly, self.layout = assembly, assembly.layout
        self.scalars: dict[str, int] = dict(table.sizes)
        self.vectors: dict[str, Array] = {n: np.array(v) for n, v in table.columns.items()}
        self.vectors[FIRST] = first
        if table.linked is not None:
            self.vectors[LINKED] = table.linked
        self.values = table.values
        self.arrays: dict[str, Array] = {}
        self.dropped = False

    @property
    def count(self) -> int:
        return len(self.values)

    def held(self) -> AssembledArrays:
        try:
            self.all(self.assembly.steps)
            sizes = {n: self.scalars[n] for n in (*self.layout.parameters, *self.layout.sizes)}
            return AssembledArrays(sizes, {n: self.arrays[n] for n in self.layout.arrays})
        except KeyError as missing:
            raise Misstep(f"`{missing.args[0]}` is read before it is made") from None

    def all(self, steps: Sequence[AssemblyStep]) -> None:
        for step in steps:
            own = STEPS.get(type(step))
            if own is None:
                raise InternalError(f"no meaning for {step!r}")
            own(self, step)

    # --- values ---------------------------------------------------------------------------------------------

    def number(self, value: Expr) -> int:
        return int(self.value(value, np.zeros(1, dtype=np.int64))[0])

    def length(self, value: Expr) -> int:
        found = self.number(value)
        if not found <= LARGEST:
            raise Misstep(f"a vector of {found} elements is made of {self.count} entries")
        return max(0, found)

    def each(self, value: Expr | Formula, length: Expr) -> Array:
        """The value at each place below the length."""
        return self.value(value, np.arange(self.length(length)))

    def value(self, e: Any, rows: Array) -> Array:
        """For these numbers of elements; what is not chosen is not computed."""
        match e:
            case Num(value):
                return np.full(len(rows), value, dtype=np.int64)
            case Var() if e == ROW:
                return rows
            case Var() if e == COUNT:
                return np.full(len(rows), self.count, dtype=np.int64)
            case Var(name):
                return np.full(len(rows), self.scalars[name], dtype=np.int64)
            case Call(vector, (index,)):
                return self.read(self.vectors[vector], self.value(index, rows), vector)
            case Bin(op, left, right):
                return np.asarray(apply_operator(op, self.value(left, rows), self.value(right, rows)))
            case Choose(condition, yes, no):
                return self.chosen(self.holds(condition, rows), lambda r: self.value(yes, r),
                                   lambda r: self.value(no, r), rows)  # fmt: skip
            case UpperBound(vector, length, value):
                known = self.vectors[vector][: self.number(length)]
                return np.searchsorted(known, self.value(value, rows), side="right").astype(np.int64)
            case ValueWord(row, word):
                return self.read(self.word(word), self.value(row, rows), "values")
            case Formula():
                return self.holds(e, rows).astype(np.int64)
        raise InternalError(f"no meaning for {e!r}")

    def word(self, number: int) -> Array:
        padded = np.zeros((self.count, 16), dtype=np.uint8)
        own = words(self.values).T
        padded[:, : own.shape[1]] = own
        return np.ascontiguousarray(padded[:, 8 * number : 8 * number + 8]).view(np.int64)[:, 0]

    def holds(self, f: Formula, rows: Array) -> Array:
        match f:
            case Compare(op, left, right):
                return np.asarray(compare(op, self.value(left, rows), self.value(right, rows)))
            case And(parts):
                return self.joined(parts, rows, True)
            case Or(parts):
                return self.joined(parts, rows, False)
            case Not(part):
                return ~self.holds(part, rows)
            case SameValue(one, other):
                own = words(self.values).T
                a, b = (self.read(np.arange(self.count), self.value(e, rows), "values") for e in (one, other))
                return np.asarray((own[a] == own[b]).all(axis=1))
            case Differs(row, as_number):
                found = (differs_as_number if as_number else differs)(self.values, self.layout.fill)
                return self.read(found, self.value(row, rows), "values")
        raise InternalError(f"no meaning for {f!r}")

    def joined(self, parts: Sequence[Formula], rows: Array, every: bool) -> Array:
        """The parts in turn, as long as they do not say it."""
        found = np.full(len(rows), every)
        for part in parts:
            left = np.flatnonzero(found == every)
            found[left] = self.holds(part, rows[left])
        return found

    def chosen(self, holds: Array, yes: Callable[[Array], Array], no: Callable[[Array], Array], rows: Array) -> Array:
        found = np.zeros(len(rows), dtype=np.int64)
        found[holds] = yes(rows[holds])
        found[~holds] = no(rows[~holds])
        return found

    def read(self, vector: Array, at: Array, name: str) -> Array:
        if len(at) and (at.min() < 0 or at.max() >= len(vector)):
            raise Misstep(f"`{name}` is read outside: it has {len(vector)} elements")
        return vector[at]

    def given(self, names: Sequence[str], length: int) -> list[Array]:
        """Columns of so many rows."""
        found = [self.vectors[n] for n in names]
        for name, vector in zip(names, found, strict=True):
            if len(vector) < length:
                raise Misstep(f"`{name}` has {len(vector)} elements, and {length} are read")
        return [v[:length] for v in found]

    # --- vectors --------------------------------------------------------------------------------------------

    def let(self, step: Let) -> None:
        self.scalars[step.name] = self.number(step.value)

    def vec(self, step: Vec) -> None:
        self.vectors[step.name] = self.each(step.value, step.length)

    def into(self, step: Into) -> None:
        rows = np.arange(self.length(step.length))
        rows = rows[::-1] if step.backwards else rows
        if step.when is not None:
            rows = rows[self.holds(step.when, rows)]
        place, value, vector = self.value(step.place, rows), self.value(step.value, rows), self.vectors[step.vector]
        self.read(vector, place, step.vector)
        match step.how:
            case "add":
                np.add.at(vector, place, value)
            case "max":
                np.maximum.at(vector, place, value)
            case "min":
                np.minimum.at(vector, place, value)
            case _:
                vector[place] = value

    def fold(self, step: Fold) -> None:
        values, initial = self.each(step.value, step.length), self.number(step.initial)
        if step.how == "sum":
            self.scalars[step.name] = initial + int(values.sum())
        else:
            end = max if step.how == "max" else min
            self.scalars[step.name] = end([initial, *values.tolist()])

    def ranks(self, step: Ranks) -> None:
        length = self.length(step.length)
        rank, first = row_ranks(self.given(step.columns, length), length)
        self.vectors[step.rank], self.vectors[step.first] = np.asarray(rank), np.asarray(first)
        self.scalars[step.total] = len(first)

    def sort(self, step: Sort) -> None:
        length = self.length(step.length)
        order = sorted_order(self.given(step.columns, length), length)
        self.vectors[step.order] = np.arange(length) if order is None else order

    def offsets(self, step: Offsets) -> None:
        (own,) = self.given([step.vector], self.length(step.length))
        ends = np.cumsum(own)
        if step.total:
            self.scalars[step.total] = int(ends[-1]) if len(ends) else 0
        own[...] = ends - own

    def running(self, step: Running) -> None:
        length, width = self.length(step.length), max(1, self.number(step.width))
        (own,) = self.given([step.vector], length)
        end = np.minimum if step.least else np.maximum
        for begin in range(0, length, width):
            row = own[begin : begin + width]
            row = row[::-1] if step.backwards else row
            row[...] = end.accumulate(row)

    def rows(self, step: SelectRows) -> None:
        self.vectors[step.name] = np.flatnonzero(self.holds(step.when, np.arange(self.length(step.length))))
        self.scalars[step.count] = len(self.vectors[step.name])

    def blocks(self, step: NumberBlocks) -> None:
        group, low, high = self.given([step.group, step.low, step.high], self.length(step.length))
        self.vectors[step.name] = np.asarray(numbered_blocks([group], [low, high]))

    def patterns(self, step: Patterns) -> None:
        group, content = self.given([step.group, step.content], self.length(step.length))
        groups = self.length(step.groups)
        self.inside(group, groups)
        self.vectors[step.name] = patterns(group, [content], groups)

    def filler(self, step: Filler) -> None:
        group, key = self.given([step.groups_of, step.keys_of], self.length(step.length))
        groups, width, low = self.length(step.groups), self.length(step.width), self.number(step.low)
        self.inside(group, groups)
        rows, keys = unused_keys(group, key, groups, width, low)
        self.vectors[step.group], self.vectors[step.key] = rows, keys
        self.scalars[step.total] = len(rows)

    def inside(self, group: Array, groups: int) -> None:
        if len(group) and (group.min() < 0 or group.max() >= groups):
            raise Misstep(f"there are {groups} groups, and a row is of another one")

    # --- alternatives ---------------------------------------------------------------------------------------

    def keep(self, step: Keep) -> None:
        (mask,) = self.given([step.mask], self.count)
        kept = mask != 0
        self.dropped = not bool(kept.all())
        if not self.dropped:
            return
        if self.assembly.axis is not None:
            raise Refused(step.because)
        if self.assembly.alternatives > 1:
            self.elsewhere(~kept)
        if (differs_as_number(self.values, self.layout.fill) & ~kept).any():
            raise Refused(step.because)
        for name in step.columns:
            self.vectors[name] = self.given([name], self.count)[0][kept]
        self.values = self.values[kept]

    def move(self, step: Move) -> None:
        self.elsewhere(self.given([step.mask], self.count)[0] != 0)

    def elsewhere(self, rows: Array) -> None:
        more, number, piece = self.given([MORE, NUMBER, PIECE], self.count)
        moved = rows & (more != 0)
        if moved.any():
            self.vectors[FIRST][number[moved]] = piece[moved] + 1
            raise Refused("entries have another alternative", elsewhere=True)

    def movable(self, step: Movable) -> None:
        length, width = self.length(step.length), self.number(step.width)
        group, slot, more = self.given([step.group, step.slot, step.more], length)
        (sizes,) = self.given([step.sizes], self.length(step.groups))
        self.inside(group, len(sizes))
        found = movable_rows(group, slot, more != 0, sizes - width)
        self.vectors[step.mask] = found.astype(np.int64)

    # --- control --------------------------------------------------------------------------------------------

    def fail(self, step: Fail) -> None:
        if self.holds(step.when, np.zeros(1, dtype=np.int64))[0]:
            raise Refused(step.because)

    def when(self, step: When) -> None:
        holds = self.holds(step.condition, np.zeros(1, dtype=np.int64))[0]
        self.all(step.then if holds else step.otherwise)

    def repeat(self, step: Repeat) -> None:
        for _ in range(ROUNDS):
            self.all(step.body)
            if not self.dropped:
                return
        raise Misstep("a repetition does not end")

    # --- arrays ---------------------------------------------------------------------------------------------

    def sizes(self) -> dict[str, int]:
        return {n: self.scalars[n] for n in (*self.layout.parameters, *self.layout.sizes) if n in self.scalars}

    def room(self, step: MaxOverPoints) -> None:
        encoded, layout, sizes = encode(self.layout), self.layout, self.sizes()
        arrays = {n: self.vectors[v].reshape(shape_of(layout.index(n).extents, sizes)) for n, v in step.arrays.items()}
        if not step.vector:
            self.scalars[step.most] = 0
        for steps in scan_of(layout):
            count, columns = run_steps(tuple(lean(encoded, steps)), sizes, arrays)
            known: dict[str, Any] = {**sizes, **columns}
            places = [np.broadcast_to(np.asarray(affine_value(p, known)), (count,)) for p in step.places]
            if not step.vector:
                most = int(places[0].max()) + 1 if count else 0
                self.scalars[step.most] = max(self.scalars[step.most], most)
                continue
            shape = tuple(self.number(e) for e in step.shape)
            good = inside(shape, places, count)
            flat = flat_place(shape, [p[good] for p in places], int(good.sum()))
            for vector, group in step.groups:
                self.vectors[vector][flat] = np.broadcast_to(np.asarray(affine_value(group, known)), (count,))[good]
            for value in step.values:
                own, valid = rows_of(value, known, arrays, count)
                used = valid[good]
                reached = np.broadcast_to(own, (count,))[good][used] + 1
                np.maximum.at(self.vectors[step.vector], flat[used], reached)

    def insert(self, step: Insert) -> None:
        shape = tuple(self.length(e) for e in step.extents)
        (own,) = self.given([step.vector], prod(shape))
        self.arrays[step.array] = own.reshape(shape)

    def store(self, step: Store) -> None:
        layout, values = self.layout, self.values
        value = next(v for v in layout.values if v.name == step.array)
        shape = shape_of(value.extents, self.sizes())
        own = filled((prod(shape),), 1 if value.implied else layout.fill, values.dtype)
        for mask, operators in step.turned:
            here = (self.given([mask], self.count)[0] != 0) & (values != 0)
            for operator in operators:
                values = np.where(here, getattr(np, operator)(values), values)
        (places,) = self.given([step.places], self.count)
        rows = np.flatnonzero(places >= 0)
        self.read(own, places[rows], step.array)
        own[places[rows]] = values[rows]
        if differ_anywhere(own[places[rows]], values[rows]):
            raise Refused("entries at one place have several values")
        self.arrays[step.array] = own.reshape(shape)

    def made(self) -> AssembledArrays:
        """What the arrays are by now, those that are inserted later as well."""
        sizes = self.sizes()
        later = {s.array: s for s in self.assembly.steps if isinstance(s, Insert)}
        for step in later.values():
            self.insert(step)
        return AssembledArrays(sizes, self.arrays)

    def shared(self, step: CheckShared) -> None:
        layout, held = self.layout, self.made()
        points = enumerate_points(layout, held.sizes, held.arrays)
        full = np.zeros(points.count, dtype=bool)
        for name, place in points.places.items():
            rows = np.flatnonzero(place >= 0)
            full[rows] |= differs_as_number(held.arrays[name].reshape(-1)[place[rows]], layout.fill)
        each = np.ones(self.count, dtype=np.int64)
        if self.assembly.axis is not None:
            along = self.vectors[layout.coordinates[self.assembly.axis]]
            (linked,) = self.given([LINKED], self.count)
            each = np.where(linked != 0, along - np.roll(along, 1), each)
        told = int(each[differs_as_number(self.values, layout.fill)].sum())
        found = int(full.sum())
        if found > told or (self.assembly.axis is not None and found != told):
            raise Refused(step.because)

    def facts(self, step: CheckFacts) -> None:
        held = self.made()
        try:
            check_arrays(self.layout, held.sizes, held.arrays, thorough=True)
        except DataError:
            raise Refused(step.because) from None


def differ_anywhere(one: Array, other: Array) -> bool:
    """Whether two columns of values differ; nan is nan."""
    return bool(((one != other) & ~((one != one) & (other != other))).any())


STEPS: dict[type[AssemblyStep], Callable[[_Carried, Any], None]] = {
    Let: _Carried.let, Vec: _Carried.vec, Into: _Carried.into, Fold: _Carried.fold, Ranks: _Carried.ranks,
    Sort: _Carried.sort, Offsets: _Carried.offsets, Running: _Carried.running, SelectRows: _Carried.rows,
    Keep: _Carried.keep, Move: _Carried.move, Fail: _Carried.fail, When: _Carried.when, Repeat: _Carried.repeat,
    NumberBlocks: _Carried.blocks, Patterns: _Carried.patterns, Filler: _Carried.filler, Movable: _Carried.movable,
    MaxOverPoints: _Carried.room, Insert: _Carried.insert, Store: _Carried.store, CheckShared: _Carried.shared,
    CheckFacts: _Carried.facts,
}  # fmt: skip
