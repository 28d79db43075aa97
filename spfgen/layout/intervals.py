"""Layouts whose places store intervals of one coordinate each, such as run-length codes; packing them by intervals.

What is stored at one place has all coordinates but one in common, and that one runs from a first value to a last one.
Of entries that are intervals themselves packing needs the two ends: what it takes of the values in between are the
least and the greatest one. So it takes time in the number of intervals, not in that of coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from spfgen.errors import DataError, Unsupported
from spfgen.facts.formula import calls, variables
from spfgen.layout.fill import differs
from spfgen.layout.nodes import Layout
from spfgen.layout.pack import Packed, key_orders, typed_index
from spfgen.layout.pack_assembly import assemble
from spfgen.layout.pack_entries import Elsewhere, Entries, NotWhole
from spfgen.layout.pack_plan import pack_plan
from spfgen.layout.pack_rules import Computed, Ranked
from spfgen.layout.points import (
    Array,
    Assign,
    Expand,
    Filter,
    Gather,
    Step,
    affine_value,
    expanded,
    run_steps,
    scan_of,
    sorted_order,
    value_places,
)
from spfgen.sets.affine import Affine

KINDS = ("pointer", "ends", "counts", "slots", "covered", "most", "least")
"""Ranks that ask no more of an interval than where it begins and ends."""


@dataclass(frozen=True)
class Intervals:
    """After the steps `before` there is a row for each place, which holds the coordinate number `axis` from the
    greatest of `lows` to the least of `highs`."""

    axis: int
    before: tuple[Step, ...]
    lows: tuple[Affine, ...]
    highs: tuple[Affine, ...]


@lru_cache(maxsize=256)
def intervals_of(layout: Layout) -> Intervals | None:
    """None where places store something else, or packing would ask for more than the ends of intervals."""
    if layout.is_pattern or layout.turned:
        return None
    tables = scan_of(layout)
    loops = [k for k, s in enumerate(tables[0]) if isinstance(s, Expand)] if len(tables) == 1 else []
    if not loops:
        return None
    steps, last = tables[0], loops[-1]
    along = steps[last]
    assert isinstance(along, Expand)
    if any(a != 1 for a, _ in (*along.lower, *along.upper)):
        return None
    moving = {along.name: Affine(((along.name, 1),))}
    before = list(steps[:last])
    lows, highs = [e.scaled(-1) for _, e in along.lower], [e for _, e in along.upper]
    for step in steps[last + 1 :]:
        if not _names(step) & set(moving):
            before.append(step)
            continue
        value = _along(step, moving)
        if value is None or value.coefficient(along.name) not in (1, -1):
            return None
        rest = value.without(along.name)
        if isinstance(step, Assign):
            moving[step.name] = value
        elif value.coefficient(along.name) == 1:
            lows.append(rest.scaled(-1))
        else:
            highs.append(rest)
    own = [k for k, c in enumerate(layout.coordinates) if c in moving]
    stored = {n for v in layout.values for n in variables(v.when).union(*map(variables, v.position))}
    if len(own) != 1 or stored & set(moving) or moving[layout.coordinates[own[0]]].coefficient(along.name) != 1:
        return None
    if not _by_ends(layout):
        return None
    offset = moving[layout.coordinates[own[0]]].without(along.name)
    return Intervals(own[0], tuple(before), tuple(e + offset for e in lows), tuple(e + offset for e in highs))


def _names(step: Step) -> set[str]:
    match step:
        case Gather(_, call):
            return {n for a in call.arguments for n in variables(a)}
        case Assign(_, numerator):
            return numerator.names()
        case Filter(constraint):
            return constraint.value.names()
    return set()


def _along(step: Step, moving: Mapping[str, Affine]) -> Affine | None:
    """What a step assigns or asks not to be negative, in terms of the innermost position; None where it does more."""
    match step:
        case Assign(_, value, 1):
            pass
        case Filter(constraint) if not constraint.equality:
            value = constraint.value
        case _:
            return None
    result = Affine((), value.constant)
    for atom, coefficient in value.terms:
        if isinstance(atom, str):
            result += moving.get(atom, Affine(((atom, 1),))).scaled(coefficient)
        elif atom.numerator.names() & set(moving):
            return None
        else:
            result += Affine(((atom, coefficient),))
    return result


def _by_ends(layout: Layout) -> bool:
    """Whether packing asks no more of an interval than its ends, and positions are intervals of equal values."""
    try:
        plan = pack_plan(layout)
    except Unsupported:
        return False
    rules = [r for s in plan.steps for r in s if r is not None]
    runs = [r for r in rules if isinstance(r, Ranked) and r.rank.run]
    return (
        all(isinstance(r, Computed | Ranked) for r in rules)
        and all(r.kind in KINDS and not r.later and not any(True for h in r.hint for _ in calls(h)) for r in plan.ranks)
        and all(r.rank.same and len(r.values) == 1 for r in runs)
        and bool(runs)
    )


def pack_intervals(
    layout: Layout,
    shape: tuple[int, ...],
    coords: tuple[Array, ...],
    last: Array,
    values: Array,
    index_types: Mapping[str, str],
) -> Packed | None:
    """As layout.pack.pack, of entries that are intervals: int64[n] `coords` are where they begin, `last` is the last
    coordinate along the axis of `intervals_of`. No two have a coordinate in common. None where it takes the coordinates
    one by one to tell what is wrong."""  # fmt: skip
    own = intervals_of(layout)
    assert own is not None
    order = sorted_order(list(coords), len(values))
    if order is not None:
        coords, last, values = tuple(c[order] for c in coords), last[order], values[order]
    first = coords[own.axis]
    others = [c for k, c in enumerate(coords) if k != own.axis]
    beside = np.logical_and.reduce([c[1:] == c[:-1] for c in others]) if others else True
    if np.any(beside & (first[1:] <= last[:-1])):
        return None
    longer = last > first
    twice = np.repeat(np.arange(len(values)), 1 + longer)
    begins = np.concatenate([[True], twice[1:] != twice[:-1]]) if len(twice) else np.zeros(0, dtype=bool)
    columns = {c: column[twice] for c, column in zip(layout.coordinates, coords, strict=True)}
    along = layout.coordinates[own.axis]
    columns[along] = np.where(begins, columns[along], last[twice])
    sizes = dict(zip(layout.parameters, map(int, shape), strict=True))
    state = Entries(layout, sizes, columns, values[twice], linked=~begins)
    plan = pack_plan(layout)
    try:
        assemble(state, plan, key_orders(layout))
    except (NotWhole, Elsewhere, DataError, Unsupported):
        return None
    if _stored(layout, own, state) != int((last - first + 1)[differs(values, layout.fill)].sum()):
        return None
    for index in layout.indexes:
        wanted = np.dtype(index_types.get(index.name, index.types[0]))
        state.arrays[index.name] = typed_index(index.name, state.arrays[index.name], wanted)
    return Packed(state.sizes, state.arrays)


def _stored(layout: Layout, own: Intervals, state: Entries) -> int:
    """How many coordinates the arrays hold another value for than the fill value."""
    count, columns = run_steps(own.before, state.sizes, state.arrays)
    known = {**state.sizes, **columns}
    low = np.maximum.reduce([np.broadcast_to(affine_value(e, known), (count,)) for e in own.lows])
    high = np.minimum.reduce([np.broadcast_to(affine_value(e, known), (count,)) for e in own.highs])
    lengths = np.maximum(high - low + 1, 0)
    filled = np.zeros(count, dtype=bool)
    for name, place in value_places(layout, state.sizes, known, state.arrays, count).items():
        rows = np.flatnonzero(place >= 0)
        filled[rows] |= differs(state.arrays[name].reshape(-1)[place[rows]], layout.fill)
    return int(lengths[filled].sum())


def one_by_one(axis: int, coords: tuple[Array, ...], last: Array, values: Array) -> tuple[tuple[Array, ...], Array]:
    """The coordinates of all entries that intervals stand for, and their values."""
    rows, along = expanded(coords[axis].astype(np.int64), last.astype(np.int64) - coords[axis] + 1)
    return tuple(along if k == axis else c[rows] for k, c in enumerate(coords)), values[rows]


__all__ = ["Intervals", "intervals_of", "one_by_one", "pack_intervals"]
