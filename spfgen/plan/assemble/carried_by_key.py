"""Assemblies by key (by_key.py), carried out with numpy: what the C makes of the digits, ranks and levels."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from spfgen.facts.formula import Expr
from spfgen.layout.fill import differs_as_number, filled
from spfgen.layout.keys import KeyLevel, KeyPlan, solved_sizes
from spfgen.layout.points import Array, affine_value, constraint_holds, flat_place, inside, row_ranks, rows_of, shape_of
from spfgen.plan.assemble.by_key import Tree
from spfgen.plan.assemble.carried import AssembledArrays, Misstep, Refused, Table, differ_anywhere

Places = tuple[tuple[Expr, ...], tuple[Expr, ...]]
"""The number of a group, as a place in an array with these extents (forms.py)."""


def carried_by_key(key: KeyPlan, table: Table) -> AssembledArrays:
    """The arrays of these entries, whose keys are sorted. Raises Refused where there is no place for them, Misstep."""
    try:
        return _ByKey(key, table).held()
    except KeyError as missing:
        raise Misstep(f"`{missing.args[0]}` is read before it is known") from None


class _ByKey:
    def __init__(self, key: KeyPlan, table: Table) -> None:
        self.key, self.layout, self.calls = key, key.plan.encoded.layout, key.plan.encoded.calls
        known: dict[str, Any] = {**table.sizes, **table.columns}
        kept = np.ones(len(table.values), dtype=bool)
        for name, (numerator, divisor) in key.plan.encoded.quotients.items():
            if numerator.names() <= known.keys():
                known[name] = affine_value(numerator, known) // divisor
        for rule in key.computed:
            known[rule.position] = affine_value(rule.numerator, known) // rule.divisor
        for check in key.checks:
            kept &= constraint_holds(check, known)
        if (differs_as_number(table.values, self.layout.fill) & ~kept).any():
            raise Refused("entries that the layout has a place for")
        self.sizes, self.values = dict(table.sizes), table.values[kept]
        self.known = {n: v[kept] if isinstance(v, np.ndarray) else v for n, v in known.items()}
        self.arrays: dict[str, Array] = {}

    @property
    def count(self) -> int:
        return len(self.values)

    def held(self) -> AssembledArrays:
        digits = [self.digit(k) for k in range(len(self.key.fields))]
        along = np.lexsort(digits[::-1]) if digits else np.arange(self.count)
        self.values, digits = self.values[along], [d[along] for d in digits]
        self.known = {n: v[along] if isinstance(v, np.ndarray) else v for n, v in self.known.items()}
        ranks = [self.ranked(level, digits) for level in self.key.levels]
        sizes = solved_sizes(self.key, self.sizes, [t for t, _ in ranks], [w for _, w in ranks])
        if sizes is None:
            raise Refused("there are more positions than there is room for")
        self.sizes, self.known = sizes, {**self.known, **sizes}
        for rule in self.key.after:
            self.known[rule.position] = affine_value(rule.numerator, self.known) // rule.divisor
        for index in self.layout.indexes:
            rest = self.key.rest(index.name, sizes)
            self.arrays[index.name] = np.full(shape_of(index.extents, sizes), rest, dtype=np.int64)
        for level, (total, _) in zip(self.key.levels, ranks, strict=True):
            self.written(level)
            self.begun(level, total)
        (value,) = self.layout.values
        own = filled((prod(shape_of(value.extents, sizes)),), self.layout.fill, self.values.dtype)
        place = self.place(value.name, value.position)
        own[place] = self.values
        if differ_anywhere(own[place], self.values):
            raise Misstep(f"two entries have one place in `{value.name}`")
        self.arrays[value.name] = own.reshape(shape_of(value.extents, sizes))
        return AssembledArrays({n: sizes[n] for n in (*self.layout.parameters, *self.layout.sizes)}, self.arrays)

    def digit(self, number: int) -> Array:
        """A digit of all entries, from 0 on."""
        field = self.key.fields[number]
        low, high = field.limits({n: v for n, v in self.known.items() if not isinstance(v, np.ndarray)})
        own = np.broadcast_to(np.asarray(self.known[field.name], dtype=np.int64), (self.count,))
        if self.count and not (low <= own.min() and own.max() <= high):
            raise Misstep(f"the digit `{field.name}` is not within its bounds, {low} and {high}")
        return high - own if field.down else own - low

    def ranked(self, level: KeyLevel, digits: list[Array]) -> tuple[int, int]:
        """The position of each entry becomes known; how many there are, and at most in a group."""
        rank = level.rank
        ranks, first = row_ranks(digits[: level.end], self.count)
        group, _ = row_ranks(digits[: level.group], self.count)
        own = group[first]
        starts = np.searchsorted(own, np.arange(int(own.max(initial=-1)) + 1))
        in_group = ranks - starts[group] if self.count else ranks
        slots = rank.kind == "slots" and level.group > 0
        self.known[rank.position] = rank.low + (in_group if slots else ranks)
        return len(first), int(in_group.max(initial=-1)) + 1

    def written(self, level: KeyLevel) -> None:
        """The keys at the positions of a level."""
        for name in level.rank.keys:
            call = self.calls[name]
            place = self.place(call.function, call.arguments)
            said = np.broadcast_to(np.asarray(self.known[name], dtype=np.int64), (self.count,))
            array = self.arrays[call.function].reshape(-1)
            array[place] = said
            if (array[place] != said).any():
                raise Misstep(f"two entries say what `{call.function}` holds at one place")

    def begun(self, level: KeyLevel, total: int) -> None:
        """Where the groups of a level begin, and end."""
        rank = level.rank
        if not rank.begin:
            return
        begin = self.calls[rank.begin]
        segment = self.place(begin.function, begin.arguments)
        array = self.arrays[begin.function].reshape(-1)
        if (segment[1:] < segment[:-1]).any():
            raise Misstep(f"positions {rank.position} do not come in the order of `{begin.function}`")
        array[...] = rank.low + total
        np.minimum.at(array, segment, self.known[rank.position])
        array[...] = np.minimum.accumulate(array[::-1])[::-1]
        if rank.other:
            ends = np.append(array[1:], rank.low + total)
            other = self.arrays[self.calls[rank.other].function]
            other[...] = (ends - (array if rank.kind == "counts" else 0)).reshape(other.shape)

    def place(self, array: str, arguments: tuple[Any, ...]) -> Array:
        """Where the elements of all entries are, read row by row."""
        return self.flat(f"`{array}`", shape_of(self.layout.extents(array), self.sizes), arguments)

    def flat(self, what: str, shape: tuple[int, ...], arguments: tuple[Any, ...]) -> Array:
        parts = [np.broadcast_to(rows_of(a, self.known, self.arrays, self.count)[0], (self.count,)) for a in arguments]
        if not inside(shape, parts, self.count).all():
            raise Misstep(f"a place lies outside of {what}")
        return flat_place(shape, parts, self.count)


class _InGroups(_ByKey):
    """Entries that go to their place at once: counted by the number of their group, whose sums are where it begins."""

    def __init__(self, key: KeyPlan, groups: Places, table: Table) -> None:
        super().__init__(key, table)
        self.groups = groups

    def begun(self, level: KeyLevel, total: int) -> None:
        arguments, extents = self.groups
        shape = shape_of(extents, self.sizes)
        group = self.flat("the groups", shape, arguments)
        counts = np.bincount(group, minlength=prod(shape))
        begins = np.cumsum(counts) - counts
        position = self.known[level.rank.position]
        found = np.arange(self.count) if level.rank.begin else position + begins[group]
        if (begins[group] > found).any() or (found >= begins[group] + counts[group]).any():
            raise Misstep("entries of one group do not lie together")
        if level.rank.begin:
            array = self.arrays[self.calls[level.rank.begin].function].reshape(-1)
            if len(array) != len(begins):
                raise Misstep(f"there are {len(begins)} groups and {len(array)} offsets")
            array[...] = begins


def carried_in_groups(key: KeyPlan, groups: Places, table: Table) -> AssembledArrays:
    """The same of entries that go to their place at once."""
    return _InGroups(key, groups, table).held()


def carried_as_tree(tree: Tree, key: KeyPlan, table: Table) -> AssembledArrays:
    """The same of entries that come in the order of a tree, level by level; the last coordinate falls where it may."""
    layout, count = key.plan.encoded.layout, len(table.values)
    columns = [table.columns[layout.coordinates[k]] for k in tree.order]
    along = np.lexsort([*columns[:-1], -columns[-1] if tree.any_order else columns[-1]][::-1])
    columns = [c[along] for c in columns]
    sizes: dict[str, int] = dict(table.sizes)
    arrays: dict[str, Array] = {}
    above, groups, before = np.zeros(count, dtype=np.int64), 1, 0
    if tree.begins[0]:
        above, groups, before = columns[0], table.sizes[layout.parameters[tree.order[0]]], 1
    for end, begin, keys, size in zip(tree.ends, tree.begins, tree.keys, tree.sizes, strict=True):
        new = np.ones(count, dtype=bool)
        new[1:] = np.any([c[1:] != c[:-1] for c in columns[:end]], axis=0)
        first = np.flatnonzero(new)
        sizes[size] = len(first)
        if begin:
            arrays[begin] = np.append(0, np.cumsum(np.bincount(above[first], minlength=groups)))
        if len(keys) != end - before:
            raise Misstep(f"a level has {end - before} coordinates and {len(keys)} arrays")
        arrays |= {name: columns[before + k][first] for k, name in enumerate(keys)}
        above, groups, before = np.cumsum(new) - 1, len(first), end
    if sizes[tree.sizes[-1]] != count:
        raise Misstep("two entries have one position")
    return AssembledArrays(sizes, {**arrays, layout.values[0].name: table.values[along]})
