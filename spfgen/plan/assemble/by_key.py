"""Results in their layout: how the arrays of a layout follow from the entries that a kernel makes (layout/keys.py)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from spfgen.errors import Unsupported
from spfgen.facts.formula import ONE, Bin, Var
from spfgen.facts.formula import calls as calls_in
from spfgen.lang.types import INDEX_TYPES
from spfgen.layout.keys import KeyField, KeyLevel, KeyPlan, key_plan
from spfgen.layout.pack import key_orders
from spfgen.layout.points import affine_value
from spfgen.sets.affine import Affine
from spfgen.space.nodes import Tensor

PLACES = 33
"""Bits of a position that arrays are as long as: there is no memory for more."""


@dataclass(frozen=True)
class Tree:
    """A layout whose levels hold the coordinates of their positions as they are, and the last one a value at each: what
    comes in order becomes its arrays column by column. `order`: the number of each coordinate, the first one foremost;
    `ends`: how many of them there are up to each level; `begins`: where the positions of a level begin ("": there is
    one group); `keys`: the coordinates that it holds; `sizes`: how many positions it has. `any_order`: nothing is
    declared of the order of the last coordinates."""

    order: tuple[int, ...]
    ends: tuple[int, ...]
    begins: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    sizes: tuple[str, ...]
    any_order: bool

    @property
    def arrays(self) -> tuple[str, ...]:
        """Begins and keys of each level in turn."""
        return tuple(n for b, keys in zip(self.begins, self.keys, strict=True) for n in ((b, *keys) if b else keys))

    def takes_rows(self, common: int | None) -> bool:
        """Whether entries that have this coordinate in common come as they are stored."""
        return len(self.order) == 2 and common == self.order[0] and (bool(self.begins[0]) or len(self.ends) == 2)


@dataclass(frozen=True)
class KeyAssembly:
    """The arrays of `tensor`, by the key of each of its entries; or without keys, where the layout is a tree."""

    tensor: Tensor
    key: KeyPlan
    tree: Tree | None = None

    @property
    def may_be_wide(self) -> bool:
        """Whether a key of all digits may need more than 64 bits, as far as the types of index arrays say."""
        return self.may_be_wide_with(self.key.fields)

    def may_be_wide_with(self, fields: Iterable[KeyField]) -> bool:
        """The same with these digits."""
        calls, kinds = self.key.plan.encoded.calls, dict(self.tensor.final_types)
        bits = 0
        for field in fields:
            most = [int(affine_value(e, {})) // a for a, e in field.upper if not e.names()]
            index_type = kinds.get(calls[field.name].function) if field.name in calls else None
            widths = [max(0, n).bit_length() or 1 for n in most]
            widths.append(PLACES if index_type is None else min(63, 8 * np.dtype(index_type).itemsize - 1))
            bits += min(widths)
        return bits > 64

    def lines(self) -> Iterator[tuple[str, str]]:
        """What is done, in words, each with the reason."""
        if self.tree is not None:
            for name in self.tree.arrays:
                yield f"append {name}", "if entries come in order, each once: nothing is sorted"
            if self.tree.begins == (self.tree.begins[0],) != ("",) and len(self.tree.order) == 2:
                yield (
                    f"count {self.tree.begins[0]}",
                    "if they do not: each entry goes to its place; where one comes twice:",
                )
        yield from self.sorting()
        yield from self.ranks()
        (value,) = self.key.plan.encoded.layout.values
        yield f"insert {value.name}", "the values"

    def sorting(self) -> Iterator[tuple[str, str]]:
        """The order of entries."""
        fields, calls = self.key.fields, self.key.plan.encoded.calls
        order = ", ".join(f"{f.name} downwards" if f.name in calls and f.down else f.name for f in fields)
        yield f"sort the entries by ({order})", "unless they come in order; those at one place add up"

    def ranks(self) -> Iterator[tuple[str, str]]:
        """The positions of each rank, and what is stored at them."""
        fields, calls = self.key.fields, self.key.plan.encoded.calls
        names = {n: calls[n].function for n in calls}
        for level in self.key.levels:
            rank = level.rank
            names_of_fields = ", ".join(f.name for f in fields[: level.end])
            yield f"number {rank.position}", f"a position for each ({names_of_fields})"
            if rank.begin:
                yield f"offsets {names[rank.begin]}", f"where the positions {rank.position} of a group begin"
            for name in rank.keys:
                yield f"insert {names[name]}", f"what is found at {rank.position}"


def assembly_by_key(tensor: Tensor) -> KeyAssembly | Unsupported | None:
    """How the C assembles a tensor; the reason if it cannot; None for a tensor whose pattern is given."""
    if tensor.assembled is None:
        return None
    layout = tensor.assembled.layout
    if tensor.assembled.axis is not None or layout.value_transforms or layout.is_pattern or not layout.rank:
        return Unsupported(f"layout `{layout.name}` does not store one value for each entry")
    try:
        key = key_plan(layout, key_orders(layout))
    except Unsupported as error:
        return error
    calls, marks = key.plan.encoded.calls, key.plan.sentinels
    for rank in (level.rank for level in key.levels if level.rank.kind == "slots" and level.group):
        for array in (calls[n].function for n in rank.keys):
            if array not in marks:
                return Unsupported(f"layout `{layout.name}` has no mark for places of `{array}` that no entry has")
    return KeyAssembly(tensor, key, tree_of(tensor, key))


def tree_of(tensor: Tensor, key: KeyPlan) -> Tree | None:
    """The layout as a tree of coordinates, if it is one."""
    layout = key.plan.encoded.layout
    if tensor.entry_type != tensor.value_type or key.checks or key.after or key.pads or any(f.down for f in key.fields):
        return None
    order = _coordinates(key)
    if order is None:
        return None
    levels: list[_Level] = []
    for number, level in enumerate(key.levels):
        group = level.group == (key.levels[number - 1].end if number else bool(level.rank.begin))
        place, count = key.fields[0].name, layout.parameters[order[0]]
        if number:
            place, count = key.levels[number - 1].rank.position, levels[-1].size
        tree_level = _level(key, level, place, count)
        if tree_level is None or not group or (number and not tree_level.begin):
            return None
        levels.append(tree_level)
    arrays = [n for level in levels for n in (level.begin, *level.keys) if n]
    sizes, last = tuple(level.size for level in levels), Var(key.levels[-1].rank.position)
    (value,), kinds = layout.values, dict(tensor.final_types)
    if sorted(sizes) != sorted(layout.sizes) or sorted(arrays) != sorted(a.name for a in layout.indexes):
        return None
    if value.position != (last,) or value.extents != (Var(sizes[-1]),) or {kinds[n] for n in arrays} - {*INDEX_TYPES}:
        return None
    constrained = {c.function for a in layout.indexes for p in a.properties for c in calls_in(p.formula)}
    ends, begins = tuple(level.end for level in key.levels), tuple(level.begin for level in levels)
    return Tree(order, ends, begins, tuple(level.keys for level in levels), sizes, arrays[-1] not in constrained)


@dataclass(frozen=True)
class _Level:
    begin: str
    keys: tuple[str, ...]
    size: str


def _level(key: KeyPlan, level: KeyLevel, place: str, count: str) -> _Level | None:
    """A level that has one array for each of its coordinates, each as long as it has positions, and where those of each
    `place` begin, of which there are so many; None where it is more than that."""
    layout, calls, rank = key.plan.encoded.layout, key.plan.encoded.calls, level.rank
    fields = [f.name for f in key.fields[level.group : level.end]]
    if rank.low or rank.base or rank.later or rank.kind != ("pointer" if rank.begin else "slots"):
        return None
    if not fields or sorted(fields) != sorted(rank.keys):
        return None
    key_calls = [calls[name] for name in fields]
    size = layout.index(key_calls[0].function).extents
    if len(size) != 1 or not isinstance(size[0], Var) or size[0].name not in layout.sizes:
        return None
    position, last = (Var(rank.position),), Affine(((size[0].name, 1),), -1)
    if any(k.arguments != position or layout.index(k.function).extents != size for k in key_calls):
        return None
    if any((a, e) != (1, last) for a, e in rank.highs):
        return None  # there is room for no more than something else says
    if rank.begin:
        begin = calls[rank.begin]
        if begin.arguments != (Var(place),) or layout.index(begin.function).extents != (Bin("+", Var(count), ONE),):
            return None
    return _Level(calls[rank.begin].function if rank.begin else "", tuple(k.function for k in key_calls), size[0].name)


def _coordinates(key: KeyPlan) -> tuple[int, ...] | None:
    """The number of the coordinate that each field is; None where they are not all coordinates, each once."""
    layout = key.plan.encoded.layout
    numbers = {c: k for k, c in enumerate(layout.coordinates)}
    for rule in key.computed:
        (atom, factor), *more = rule.numerator.terms or ((None, 0),)
        if rule.divisor == 1 and factor == 1 and not more and not rule.numerator.constant and atom in numbers:
            numbers[rule.position] = numbers[atom]
    order = tuple(numbers.get(f.name, -1) for f in key.fields)
    is_whole = sorted(order) == [*range(layout.rank)] and bool(key.levels) and key.levels[-1].end == len(order)
    return order if is_whole else None
