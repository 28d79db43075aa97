"""Results in their layout: how the arrays of a layout follow from the entries that a kernel makes (layout/keys.py)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from spfgen.errors import Unsupported
from spfgen.facts.formula import ONE, Bin, Var
from spfgen.facts.formula import calls as calls_in
from spfgen.layout.keys import KeyPlan, key_plan
from spfgen.layout.pack import key_orders
from spfgen.layout.points import affine_value
from spfgen.sets.affine import Affine
from spfgen.space.nodes import Tensor

PLACES = 33
"""Bits of a position that arrays are as long as: there is no memory for more."""


@dataclass(frozen=True)
class Append:
    """Entries that come row by row are the arrays as they stand: `begin` is where rows begin, `keys` has the coordinate
    that they do not have in common. `any_order`: nothing is declared of the order in a row."""

    begin: str
    keys: str
    any_order: bool


@dataclass(frozen=True)
class KeyAssembly:
    """The arrays of `tensor`, by the key of each of its entries; or without keys, where they are appended."""

    tensor: Tensor
    key: KeyPlan
    append: Append | None = None

    @property
    def may_be_wide(self) -> bool:
        """Whether a key of all digits may need more than 64 bits, as far as the types of index arrays say."""
        calls, kinds = self.key.plan.encoded.calls, dict(self.tensor.assembled_types)
        bits = 0
        for field in self.key.fields:
            most = [int(affine_value(e, {})) // a for a, e in field.upper if not e.names()]
            held = kinds.get(calls[field.name].function) if field.name in calls else None
            widths = [max(0, n).bit_length() or 1 for n in most]
            widths.append(PLACES if held is None else min(63, 8 * np.dtype(held).itemsize - 1))
            bits += min(widths)
        return bits > 64

    def lines(self) -> Iterator[tuple[str, str]]:
        """What is done, in words, each with the reason."""
        fields, calls = self.key.fields, self.key.plan.encoded.calls
        if self.append is not None:
            order = "in any order, none is declared" if self.append.any_order else "in order"
            yield f"append {self.append.keys}", f"entries come row by row, in a row {order}: nothing is sorted"
            yield f"offsets {self.append.begin}", "where rows begin; otherwise, where rows come twice:"
        order = ", ".join(f"{f.name} downwards" if f.name in calls and f.down else f.name for f in fields)
        names = {n: calls[n].function for n in calls}
        yield f"sort the entries by ({order})", "unless they come in order; those at one place add up"
        for level in self.key.levels:
            rank = level.rank
            own = ", ".join(f.name for f in fields[: level.end])
            yield f"number {rank.position}", f"a position for each ({own})"
            if rank.begin:
                yield f"offsets {names[rank.begin]}", f"where the positions {rank.position} of a group begin"
            for name in rank.keys:
                yield f"insert {names[name]}", f"what is found at {rank.position}"
        (value,) = self.key.plan.encoded.layout.values
        yield f"insert {value.name}", "the values"


def assembly_by_key(tensor: Tensor) -> KeyAssembly | Unsupported | None:
    """How the C assembles a tensor; the reason if it cannot; None for a tensor whose pattern is given."""
    layout = tensor.assembled
    if layout is None:
        return None
    if tensor.axis is not None or layout.turned or layout.is_pattern or not layout.rank:
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
    return KeyAssembly(tensor, key, appended(tensor, key))


def appended(tensor: Tensor, key: KeyPlan) -> Append | None:
    """Whether entries that come row by row are the arrays of the layout as they stand."""
    layout, calls = key.plan.encoded.layout, key.plan.encoded.calls
    if tensor.common is None or layout.rank != 2 or tensor.entry_type != tensor.value_type or len(layout.values) != 1:
        return None
    if key.checks or key.after or len(key.levels) != 1 or len(key.fields) != 2 or len(layout.indexes) != 2:
        return None
    (level,), (value,) = key.levels, layout.values
    rank, names = level.rank, {c: c for c in layout.coordinates}
    for rule in key.computed:
        plain = [c for c in layout.coordinates if rule.divisor == 1 and rule.numerator == Affine(((c, 1),))]
        if plain:
            names[rule.position] = plain[0]
    both = layout.coordinates[tensor.common], layout.coordinates[1 - tensor.common]
    if tuple(names.get(f.name) for f in key.fields) != both or any(f.down for f in key.fields):
        return None
    if (rank.kind, level.group, level.end, rank.low, rank.base, len(rank.keys)) != ("pointer", 1, 2, 0, 0, 1):
        return None
    begin, keys = calls[rank.begin], calls[rank.keys[0]]
    place = (Var(rank.position),)
    if begin.arguments != (Var(key.fields[0].name),) or keys.arguments != place or value.position != place:
        return None
    size = layout.index(keys.function).extents
    rows = Bin("+", Var(layout.parameters[tensor.common]), ONE)
    if (
        value.extents != size
        or size != tuple(map(Var, layout.sizes))
        or layout.index(begin.function).extents != (rows,)
    ):
        return None
    if dict(tensor.assembled_types)[keys.function] != "int32":
        return None
    said = {c.function for a in layout.indexes for p in a.properties for c in calls_in(p.formula)}
    return Append(begin.function, keys.function, keys.function not in said)
