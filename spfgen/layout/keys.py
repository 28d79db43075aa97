"""One number for each entry, by which all ranks of a layout follow from one another.

The plan of packing (pack_plan.py) counts distinct keys within groups. Where each rank counts inside the one before, all
groups and keys, written side by side as the digits of one number, are a key of the entry: entries sorted by it come
in the order of all ranks at once, and a rank is the number of different leading digits so far.

    csr    pi | colidx              bcsr   bi | bcolidx | r | c          csf    idx_1 | idx_2 | idx_3

The last digits say where in a block the entry lies; entries with equal keys have equal coordinates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod
from typing import Any

import numpy as np

from spfgen.errors import Unsupported
from spfgen.facts.formula import Call, Expr, Var, variables
from spfgen.layout.nodes import Layout
from spfgen.layout.pack_entries import PackingState, capacity, solved_extents
from spfgen.layout.pack_plan import pack_plan
from spfgen.layout.pack_rules import Computed, KeyOrder, PackPlan, Rank, Ranked
from spfgen.layout.points import Encoded, affine_value, argument_names, shape_of
from spfgen.sets.affine import Affine
from spfgen.sets.bounds import bounds, single_value
from spfgen.sets.named import Constraint, Piece, is_floor
from spfgen.sets.uf import linear

Bounds = tuple[tuple[int, Affine], ...]


@dataclass(frozen=True)
class KeyField:
    """A digit: floor(numerator / divisor) of coordinates and sizes; `name` is the position or call that it is.

    For all `lower` (a, e) a*value >= -e, for all `upper` a*value <= e; e is made of sizes. `down`: the digit counts
    from the upper bound downwards.
    """

    name: str
    numerator: Affine
    divisor: int
    lower: Bounds
    upper: Bounds
    down: bool = False

    def limits(self, sizes: Mapping[str, int]) -> tuple[int, int]:
        """The least and the largest value."""
        low = max(-(int(affine_value(e, sizes)) // a) for a, e in self.lower)
        high = min(int(affine_value(e, sizes)) // a for a, e in self.upper)
        return low, high


@dataclass(frozen=True)
class KeyLevel:
    """A rank: the first `group` fields say the group, the first `end` fields group and keys."""

    rank: Rank
    group: int
    end: int


@dataclass(frozen=True, eq=False)
class KeyPlan:
    """`computed`: positions and calls that follow from coordinates, in turn. `checks`: what coordinates must meet.
    `after`: positions that follow from ranks. `lows`: what `rest` goes by, where it is found out already."""

    plan: PackPlan
    fields: tuple[KeyField, ...]
    levels: tuple[KeyLevel, ...]
    computed: tuple[Computed, ...]
    checks: tuple[Constraint, ...]
    after: tuple[Computed, ...] = ()
    lows: Mapping[str, Bounds] | None = None

    def plain(self) -> KeyPlan:
        """The same without the sets that it was derived from: it can be kept on the disk."""
        gone: Any = None
        encoded = replace(self.plan.encoded, space=gone, pieces=(), facts=gone)
        return replace(
            self, plan=replace(self.plan, encoded=encoded, belongs=(), steps=(), otherwise=None), lows=self._lows
        )

    @property
    def pads(self) -> bool:
        """Whether places come in groups that are stored whole: some hold no entry."""
        return len(self.fields) > (self.levels[-1].end if self.levels else 0)

    def rest(self, array: str, sizes: Mapping[str, int]) -> int:
        """What an index array holds where no entry is: the mark of unused places, else the low end of its range."""
        lows = self.lows_of(array)
        return max((-(int(affine_value(e, sizes)) // a) for a, e in lows if e.names() <= set(sizes)), default=0)

    def lows_of(self, array: str) -> Bounds:
        """Lower bounds of that."""
        return self._lows[array]

    @cached_property
    def _lows(self) -> dict[str, Bounds]:
        """Lower bounds of what each index array holds where no entry is."""
        if self.lows is not None:
            return dict(self.lows)
        plan, lows = self.plan, dict[str, Bounds]()
        for name, call in plan.encoded.calls.items():
            lower, _ = bounds(plan.encoded.facts.constraints(name), name)
            lows.setdefault(call.function, tuple(lower))
        return lows | {n: ((1, e.scaled(-1)),) for n, e in plan.sentinels.items()}


class NoKey(Unsupported):
    """The ranks of the layout are not those of one key."""


def key_plan(layout: Layout, orders: tuple[KeyOrder, ...]) -> KeyPlan:
    """Raises NoKey with a reason."""
    plan = _key_plan(layout, orders)
    if isinstance(plan, str):
        raise NoKey(f"layout `{layout.name}` is packed without a key: {plan}")
    return plan


@lru_cache(maxsize=256)
def _key_plan(layout: Layout, orders: tuple[KeyOrder, ...]) -> KeyPlan | str:
    plan = pack_plan(layout)
    encoded = plan.encoded
    if len(encoded.pieces) != 1 or len(layout.values) != 1:
        return "it has several pieces or value arrays"
    if not plan.is_plain:
        return "positions are not numbered by keys alone"
    if any(order.is_chosen for order in orders):
        return "its order was found by trying, and the arrays are checked"
    if not plan.injective:
        return "places may have several coordinates"
    steps = [s for (s,) in plan.steps if isinstance(s, Computed | Ranked)]
    if len(plan.ranks) != sum(isinstance(s, Ranked) for s in steps):
        return "a rank is made twice"
    field_lists = _fields(encoded, steps, dict(zip(plan.ranks, orders, strict=True)))
    if isinstance(field_lists, str):
        return field_lists
    fields, levels, computed = field_lists
    if not _is_enforced(plan, steps):
        return "entries must be compared with arrays"
    coordinates = {*layout.parameters, *layout.coordinates}
    inside = encoded.space.of(_inside(layout))
    checks = tuple(c for c in plan.belongs[0] if c.value.names() & {*layout.coordinates} and not inside.implies(c))
    if any(not c.value.names() <= coordinates for c in checks):
        return "entries must be compared with sizes"
    before = {rule.position for rule in computed}
    after = tuple(s for s in steps if isinstance(s, Computed) and s.position not in before)
    return KeyPlan(plan, fields, levels, computed, checks, after)


def _inside(layout: Layout) -> list[Constraint]:
    constraints = []
    for c, n in zip(layout.coordinates, layout.parameters, strict=True):
        constraints += [Constraint(False, Affine(((c, 1),))), Constraint(False, Affine(((n, 1), (c, -1)), -1))]
    return constraints


def _fields(
    encoded: Encoded, steps: list[Computed | Ranked], orders: Mapping[Rank, KeyOrder]
) -> tuple[tuple[KeyField, ...], tuple[KeyLevel, ...], tuple[Computed, ...]] | str:
    """The digits in the order of importance."""
    computed = {s.position: s for s in steps if isinstance(s, Computed)}
    fields: list[KeyField] = []
    levels: list[KeyLevel] = []
    for step in steps:
        if not isinstance(step, Ranked):
            continue
        rank, order = step.rank, orders[step.rank]
        if rank.kind == "write" or order.empty_first:
            return "an array is written at places that are known, or filled from its end"
        arguments = _group(encoded, rank)
        if levels and arguments[:1] != [Affine(((levels[-1].rank.position, 1),))]:
            return f"`{rank.position}` does not count inside the position before"
        for argument in arguments[1 if levels else 0 :]:
            if not argument.names() - encoded.sizes:
                continue
            name = _only_name(argument)
            if name not in computed:
                return f"a group of `{rank.position}` is no single position"
            if all(f.name != name for f in fields):
                field = _field(encoded, name, computed[name].numerator, computed[name].divisor)
                if field is None:
                    return f"`{name}` has no bounds"
                fields.append(field)
        group = len(fields)
        for number, down in ((k, down) for k, down in order.keys if isinstance(k, int)):
            numerator, divisor = step.values[number]
            field = _field(encoded, rank.keys[number], numerator, divisor, down)
            if field is None:
                return f"`{rank.keys[number]}` has no bounds"
            fields.append(field)
        levels.append(KeyLevel(rank, group, len(fields)))
    for position, rule in computed.items():
        if any(f.name == position for f in fields) or not rule.numerator.names() & {*encoded.layout.coordinates}:
            continue
        if _follows(encoded, position, {f.name for f in fields}):
            continue
        field = _field(encoded, position, rule.numerator, rule.divisor)
        if field is None:
            return f"`{position}` has no bounds"
        fields.append(field)
    known = {*encoded.layout.coordinates, *encoded.layout.parameters, *encoded.quotients}
    keys = [Computed(f.name, f.numerator, f.divisor) for f in fields if f.name not in computed]
    in_turn = _in_turn([*computed.values(), *keys], known)
    for field in fields:
        if field.name not in {rule.position for rule in in_turn}:
            return f"`{field.name}` is no function of the coordinates"
    return tuple(fields), tuple(levels), tuple(in_turn)


def _in_turn(rules: Iterable[Computed], known: set[str]) -> list[Computed]:
    """The rules that follow from what is known, each after those that it needs."""
    waiting, order = list(rules), list[Computed]()
    while ready := [r for r in waiting if r.numerator.names() <= known]:
        order += ready
        known = known | {r.position for r in ready}
        waiting = [r for r in waiting if r not in ready]
    return order


def _group(encoded: Encoded, rank: Rank) -> list[Affine]:
    """What the group of a rank is made of."""
    if rank.kind == "slots":
        return [linear(a) for a in encoded.calls[rank.keys[0]].arguments if a != Var(rank.position)]
    return [linear(a) for a in encoded.calls[rank.begin].arguments]


def _only_name(value: Affine) -> str:
    match value:
        case Affine(((str() as name, 1),), 0):
            return name
    return ""


def _field(encoded: Encoded, name: str, numerator: Affine, divisor: int, down: bool = False) -> KeyField | None:
    """The digit with its bounds; None when there are none."""
    if len(numerator.floors()):
        return None
    about = encoded.pieces[0].intersect(encoded.facts)
    lower, upper = bounds(about.project({*encoded.sizes, name}).constraints(name), name)
    low = tuple((a, e) for a, e in lower if e.names() <= encoded.sizes)
    high = tuple((a, e) for a, e in upper if e.names() <= {*encoded.layout.parameters})
    return KeyField(name, numerator, divisor, low, high, down) if low and high else None


def _follows(encoded: Encoded, position: str, known: Iterable[str]) -> bool:
    """Whether the position is a function of the digits before."""
    about = encoded.pieces[0].project({*known, *encoded.sizes, position}).constraints(position)
    return single_value(about, position) is not None


def _is_enforced(plan: PackPlan, steps: list[Computed | Ranked]) -> bool:
    """Whether entries that belong to the piece satisfy all of the relation by how their positions are made."""
    encoded = plan.encoded
    piece = encoded.pieces[0]
    known: Piece = encoded.space.of([*plan.belongs[0], *_inside(encoded.layout)]).intersect(encoded.facts)
    constraints: list[Constraint] = []
    for name, (numerator, divisor) in encoded.quotients.items():
        constraints += is_floor(name, numerator, divisor)
    for step in steps:
        if isinstance(step, Computed):
            constraints += is_floor(step.position, step.numerator, step.divisor)
            continue
        for key, (numerator, divisor) in zip(step.rank.keys, step.values, strict=True):
            constraints += is_floor(key, numerator, divisor)
        position = step.rank.position
        ready = {n for n, c in encoded.calls.items() if position not in argument_names(c)}
        kept = {*encoded.sizes, *ready, position}
        constraints += [c for c in piece.project(kept).constraints(position) if not c.value.floors()]
    return known.with_constraints(constraints).is_subset(piece)


def solved_sizes(
    key: KeyPlan, given: Mapping[str, int], totals: Sequence[int], widths: Sequence[int]
) -> dict[str, int] | None:
    """All sizes, when level k has totals[k] positions in all and at most widths[k] in a group.

    None when a size does not follow from that, when positions are more than there is room for, or when places of a key
    would stay empty that have nothing to mark them.
    """
    plan = key.plan
    layout = plan.encoded.layout
    state = PackingState(layout, dict(given), {}, np.zeros(0))
    counts: dict[str, int] = {}
    try:
        for level, total, width in zip(key.levels, totals, widths, strict=True):
            rank = level.rank
            length = rank.low + (width if rank.kind == "slots" else total)
            if rank.kind == "slots":
                if capacity(state, plan, rank, width) < width:
                    return None
            elif not _grown(state, plan.encoded.calls[rank.begin], counts, rank.kind == "pointer"):
                return None
            counts[rank.position] = length
            for name in rank.keys:
                call = plan.encoded.calls[name]
                if not _grown(state, call, counts):
                    return None
                shape = shape_of(layout.index(call.function).extents, state.sizes)
                full = call.function in plan.sentinels or rank.kind != "slots" or prod(shape) == total
                if not full or any(
                    a == Var(rank.position) and n < length for a, n in zip(call.arguments, shape, strict=True)
                ):
                    return None
        for value in layout.values:
            needed = [counts.get(p.name) if isinstance(p, Var) else None for p in value.position]
            if not _solvable(value.extents, needed, state.sizes):
                return None
            solved_extents(state, value, [n or 0 for n in needed])
    except Unsupported:
        return None
    return state.sizes if set(layout.sizes) <= set(state.sizes) else None


def _grown(state: PackingState, call: Call, counts: Mapping[str, int], pointer: bool = False) -> bool:
    """Solve the extents of the array of a call; false where a size depends on what is not counted."""
    index = state.layout.index(call.function)
    needed = [counts.get(_only_name(linear(a))) for a in call.arguments]
    if not _solvable(index.extents, needed, state.sizes):
        return False
    known = [n or 0 for n in needed]
    solved_extents(state, index, [*known[:-1], known[-1] + pointer])
    return True


def _solvable(extents: Iterable[Expr], needed: Iterable[int | None], sizes: Mapping[str, int]) -> bool:
    return all(n is not None or variables(e) <= set(sizes) for e, n in zip(extents, needed, strict=True))
