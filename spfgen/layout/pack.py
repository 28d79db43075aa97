"""From coordinates and values to the arrays of a layout, derived from its relation.

`_plan` goes through the positions. Given the coordinates and what is known already, a position is

    computed   the relation makes it a floor/mod function of what is known;
    ranked     calls at this position have values that are known (its keys): the positions are the distinct keys in
               order, within [f(e), f(e + 1)) or [b(e), g(e)) counted through (a pointer array is that count),
               within [0, n) counted in each group of the keys' other arguments.

`_orders` chooses the order of the keys by trying: the first one for which the arrays satisfy all declared properties.
`_assemble` runs the plan on columns with one row for each entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import permutations, product
from typing import Any

import numpy as np

from spfgen.errors import DataError, InternalError, Unsupported
from spfgen.facts.formula import Expr, Num, Var, show, variables
from spfgen.ir import walk
from spfgen.layout.nodes import IndexArray, Layout, ValueArray
from spfgen.layout.points import (
    Array,
    Encoded,
    affine_value,
    argument_names,
    constraint_holds,
    encode,
    enumerate_points,
    flat_place,
    gathered,
    inside,
    involved,
    row_ranks,
    rows_of,
    shape_of,
    sorted_order,
    value_places,
)
from spfgen.layout.validate import violation
from spfgen.sets.affine import Affine, NotAffine, affine
from spfgen.sets.bounds import bounds, single_value
from spfgen.sets.named import Constraint, Piece
from spfgen.sets.uf import linear

INDEX_TYPE = "int32"

ATTEMPTS = 4096
"""So many orders of the keys are tried."""


@dataclass(frozen=True)
class Packed:
    """`sizes`: all parameters and sizes; `arrays`: index and value arrays by name, C-contiguous."""

    sizes: dict[str, int]
    arrays: dict[str, Array]


def pack(
    layout: Layout,
    shape: tuple[int, ...],
    coords: tuple[Array, ...],
    values: Array,
    index_types: Mapping[str, str] | None = None,
) -> Packed:
    """The arrays of a tensor: `coords` are int64[n], one for each coordinate, `values` is [n] of any number type.

    Entries with equal coordinates are added first. Index arrays get the dtype that `index_types` says (int32 if
    nothing), value arrays that of `values`. Raises DataError for coordinates outside `shape`, entries that the
    layout cannot store, and indices that do not fit their type; Unsupported when the arrays cannot be derived.
    """
    if len(shape) != layout.rank:
        raise DataError(f"expected {layout.rank} extents for layout `{layout.name}`, but there are {len(shape)}")
    plan = _plan(layout)
    orders = _orders(layout)
    values = np.asarray(values)
    _check_fill(layout, values.dtype)
    columns, summed = _entries(layout, shape, coords, values)
    state = _State(layout, dict(zip(layout.parameters, map(int, shape), strict=True)), columns, summed)
    _assemble(state, plan, orders)
    _check_shared(state, plan)
    for index in layout.indexes:
        wanted = np.dtype((index_types or {}).get(index.name, INDEX_TYPE))
        state.arrays[index.name] = _cast(index.name, state.arrays[index.name], wanted)
    return Packed(state.sizes, state.arrays)


def _check_fill(layout: Layout, dtype: np.dtype[Any]) -> None:
    """Raises DataError when the fill value is not a value of that type."""
    if dtype.kind in "iub" and not (np.isfinite(layout.fill) and layout.fill == int(layout.fill)):
        raise DataError(f"expected values of a type that has the fill value {layout.fill}, but they are {dtype}")


def _cast(name: str, array: Array, dtype: np.dtype[Any]) -> Array:
    """C-contiguous, in that type. Raises DataError when a value does not fit."""
    if array.size:
        low, high = int(array.min()), int(array.max())
        limits = np.iinfo(dtype)
        if low < limits.min or high > limits.max:
            raise DataError(
                f"expected indices of `{name}` that fit {dtype}, but {high if high > limits.max else low} does not",
                None,
                (f"use int64 for `{name}`",),
            )
    return np.ascontiguousarray(array, dtype=dtype)


# --- entries --------------------------------------------------------------------------------------------


def _entries(
    layout: Layout, shape: tuple[int, ...], coords: tuple[Array, ...], values: Array
) -> tuple[dict[str, Array], Array]:
    """(coordinate columns, values) in lexicographic order, each coordinate once, those of one coordinate added."""
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
        columns, values = [c[first] for c in columns], np.add.reduceat(values, first).astype(values.dtype)
    return dict(zip(layout.coordinates, columns, strict=True)), values


# --- the plan: how each position is found -----------------------------------------------------------------


@dataclass(frozen=True)
class _Computed:
    """The position is floor(numerator / divisor)."""

    position: str
    numerator: Affine
    divisor: int


@dataclass(frozen=True)
class _Rank:
    """The position is a rank of its keys (names of calls). Every other field says within what it is counted.

    kind    "pointer": in [f(e), f(e + 1)), `begin` is f(e);  "ends": in [begin, other);
            "counts": in [begin, begin + other);  "slots": from `low` up, counted in each group, a*position <= e for all
            `highs` (a, e);
            "write": there is no position, the array is written at places that are known.
    """

    position: str
    keys: tuple[str, ...]
    kind: str
    begin: str = ""
    other: str = ""
    low: int = 0
    highs: tuple[tuple[int, Affine], ...] = ()


@dataclass(frozen=True)
class _Ranked:
    """A rank and, for one piece of the relation, the values floor(numerator / divisor) of its keys."""

    rank: _Rank
    values: tuple[tuple[Affine, int], ...]


Rule = _Computed | _Ranked


@dataclass(frozen=True)
class _Plan:
    """`steps`: what to do in turn, one rule for each piece. `belongs`: the entries of each piece."""

    encoded: Encoded
    belongs: tuple[tuple[Constraint, ...], ...]
    steps: tuple[tuple[Rule, ...], ...]
    sentinels: Mapping[str, Affine]
    injective: bool

    @property
    def ranks(self) -> list[_Rank]:
        """All different ranks, in the order in which they are made."""
        return list(dict.fromkeys(r.rank for s in self.steps for r in s if isinstance(r, _Ranked)))


@dataclass
class _Progress:
    """While planning: what is known, which arrays are made."""

    encoded: Encoded
    informed: tuple[Piece, ...]
    known: set[str]
    placed: set[str]
    built: set[str] = field(default_factory=set)

    def learn(self) -> None:
        """Calls of finished arrays at known places are known, and quotients of what is known."""
        before = -1
        while before != len(self.known):
            before = len(self.known)
            calls = self.encoded.calls.items()
            self.known |= {n for n, c in calls if c.function in self.built and argument_names(c) <= self.known}
            quotients = self.encoded.quotients.items()
            self.known |= {n for n, (e, _) in quotients if e.names() <= self.known}
            self.placed |= {n for n, (e, _) in quotients if e.names() <= self.placed}

    def value(self, piece: int, name: str) -> tuple[Affine, int] | None:
        """The only value of a dimension, given what is known."""
        about = self.informed[piece].project(self.known | {name}).constraints(name)
        found = single_value(about, name)
        return found if found is not None and found[0].names() <= self.known else None


@lru_cache(maxsize=256)
def _plan(layout: Layout) -> _Plan:
    """Raises Unsupported naming the position or array that cannot be derived."""
    encoded = encode(layout)
    if not encoded.pieces:
        raise Unsupported(f"layout `{layout.name}` stores nothing: its relation has no points", layout.span)
    informed = tuple(p.intersect(encoded.facts) for p in encoded.pieces)
    start = {*layout.parameters, *layout.coordinates}
    progress = _Progress(encoded, informed, set(start), set(encoded.sizes))
    progress.learn()
    steps: list[tuple[Rule, ...]] = []
    waiting = list(layout.positions)
    while True:
        written = _writes(progress)
        steps += written
        if not waiting:
            break
        reason = ""
        for position in waiting:
            found = _step(progress, position)
            if isinstance(found, tuple):
                break
            reason = reason or found
        else:
            raise Unsupported(f"layout `{layout.name}` cannot be packed: {reason}", layout.span)
        waiting.remove(position)
        steps.append(found)
        _after(progress, position, found)
    _check_built(progress)
    belongs = tuple(tuple(p.project(start).constraints()) for p in informed)
    return _Plan(encoded, belongs, tuple(steps), _sentinels(progress), _is_injective(layout, encoded, steps))


def _after(progress: _Progress, position: str, rules: tuple[Rule, ...]) -> None:
    progress.known.add(position)
    progress.placed.add(position)
    layout, calls = progress.encoded.layout, progress.encoded.calls
    for rule in rules:
        if isinstance(rule, _Ranked):
            rank = rule.rank
            functions = [calls[n].function for n in (*rank.keys, rank.begin, rank.other) if n]
            progress.built.update(functions)
            solvable: list[Expr] = [e for f in functions for e in layout.index(f).extents]
            progress.known |= {s for _, h in rank.highs for s in h.names() & set(layout.sizes)}
            progress.known |= {n for e in solvable for n in variables(e) & set(layout.sizes)}
    progress.learn()


def _writes(progress: _Progress) -> list[tuple[Rule, ...]]:
    """Arrays whose places and values are known."""
    encoded = progress.encoded
    steps: list[tuple[Rule, ...]] = []
    for name, call in encoded.calls.items():
        if call.function in progress.built or not argument_names(call) <= progress.known | set(encoded.layout.sizes):
            continue
        values = [progress.value(k, name) for k in range(len(encoded.pieces))]
        if all(v is not None for v in values):
            rank = _Rank("", (name,), "write")
            steps.append(tuple(_Ranked(rank, (v,)) for v in values if v is not None))
            progress.built.add(call.function)
            progress.learn()
    return steps


def _step(progress: _Progress, position: str) -> tuple[Rule, ...] | str:
    """A rule for the position in each piece, or the reason why there is none."""
    rules: list[Rule] = []
    for piece in range(len(progress.encoded.pieces)):
        found = _rule(progress, piece, position)
        if isinstance(found, str):
            return found
        rules.append(found)
    return tuple(rules)


def _rule(progress: _Progress, piece: int, position: str) -> Rule | str:
    single = progress.value(piece, position)
    if single is not None:
        return _Computed(position, *single)
    keys, reason = _keys(progress, piece, position)
    if not keys:
        return reason
    rank = _counted(progress, piece, position, tuple(n for n, _ in keys))
    return rank if isinstance(rank, str) else _Ranked(rank, tuple(v for _, v in keys))


def _keys(progress: _Progress, piece: int, position: str) -> tuple[list[tuple[str, tuple[Affine, int]]], str]:
    """The calls at the position whose value is known, and in words why there is none."""
    encoded = progress.encoded
    matter = set(involved(encoded, encoded.pieces[piece]))
    found = []
    reason = (
        f"the position `{position}` is no function of the coordinates, "
        f"and no index array at `{position}` is tied to them"
    )
    for name, call in encoded.calls.items():
        if name not in matter or call.function in progress.built or position not in argument_names(call):
            continue
        if Affine(((position, 1),)) not in [linear(a) for a in call.arguments]:
            continue
        if not argument_names(call) <= progress.known | progress.placed | {position}:
            continue
        value = progress.value(piece, name)
        if value is None:
            reason = (
                f"the position `{position}` is no function of the coordinates, "
                f"and neither is `{show(call)}`, so that it cannot be counted"
            )
        else:
            found.append((name, value))
    return found, reason


def _counted(progress: _Progress, piece: int, position: str, keys: tuple[str, ...]) -> _Rank | str:
    """Within what bounds the position is counted."""
    encoded = progress.encoded
    ready = [n for n, c in encoded.calls.items() if argument_names(c) <= progress.placed]
    kept = {*encoded.sizes, *progress.placed, *ready, position}
    lower, upper = bounds(encoded.pieces[piece].project(kept).constraints(position), position)
    lows = [e.scaled(-1) for a, e in lower if a == 1]
    highs = [e.plus(1) for a, e in upper if a == 1]
    for low, high in product(lows, highs):
        found = _between_calls(progress, position, keys, low, high)
        if found is not None:
            return found
    first = [-(e.constant // a) for a, e in lower if not e.terms]
    ends = tuple((a, e) for a, e in upper if e.names() <= _size_names(encoded))
    if not first or not ends:
        return f"the position `{position}` has no bounds of the kind [0, n) or [f(e), f(e + 1))"
    others = {tuple(a for a in encoded.calls[k].arguments if a != Var(position)) for k in keys}
    if len(others) > 1:
        texts = " and ".join(f"`{k}`" for k in keys)
        return f"the position `{position}` is tied to keys with different arguments, {texts}"
    return _Rank(position, keys, "slots", low=max(first), highs=ends)


def _size_names(encoded: Encoded) -> set[str]:
    """The sizes, and the quotients of sizes."""
    return encoded.sizes | {n for n, (e, _) in encoded.quotients.items() if e.names() <= encoded.sizes}


def _between_calls(
    progress: _Progress, position: str, keys: tuple[str, ...], low: Affine, high: Affine
) -> _Rank | None:
    """A rank between two calls of arrays that are not made yet."""
    calls = progress.encoded.calls
    begin = _only_call(low, calls)
    rest = _only_call(high - low, calls)
    end = _only_call(high, calls)
    if begin is None or calls[begin].function in progress.built:
        return None
    other, kind = (rest, "counts") if rest is not None else (end, "ends")
    if other is None or calls[other].function in progress.built:
        return None
    first, second = calls[begin], calls[other]
    if first.function == second.function:
        steps = [linear(b) - linear(a) for a, b in zip(first.arguments, second.arguments, strict=True)]
        one = [Affine(())] * (len(steps) - 1) + [Affine((), 1)]
        return _Rank(position, keys, "pointer", begin) if kind == "ends" and steps == one else None
    return _Rank(position, keys, kind, begin, other) if first.arguments == second.arguments else None


def _only_call(value: Affine, calls: Mapping[str, Any]) -> str | None:
    match value:
        case Affine(((str() as name, 1),), 0) if name in calls:
            return name
    return None


def _check_built(progress: _Progress) -> None:
    layout = progress.encoded.layout
    for index in layout.indexes:
        if index.name not in progress.built:
            raise Unsupported(
                f"layout `{layout.name}` cannot be packed: the array `{index.name}` is neither the key nor the "
                "bounds of a position",
                index.span or layout.span,
            )


def _sentinels(progress: _Progress) -> dict[str, Affine]:
    """For arrays that have it, an end of the declared range for which the relation has no points."""
    encoded = progress.encoded
    found: dict[str, Affine] = {}
    for name, call in encoded.calls.items():
        for end in _range_ends(encoded, name):
            value = Constraint(True, Affine(((name, 1),)) - end)
            if call.function not in found and all(p.with_constraints([value]).is_empty() for p in encoded.pieces):
                found[call.function] = end
    return found


def _range_ends(encoded: Encoded, name: str) -> Iterator[Affine]:
    """The declared bounds of a call in terms of sizes, the lower ones first."""
    lower, upper = bounds(encoded.facts.constraints(name), name)
    yield from (e.scaled(-1) for a, e in lower if a == 1 and e.names() <= encoded.sizes)
    yield from (e for a, e in upper if a == 1 and e.names() <= encoded.sizes)


def _is_injective(layout: Layout, encoded: Encoded, steps: list[tuple[Rule, ...]]) -> bool:
    """Whether it is plain that no two points share a value: the place of the value gives all positions."""
    if len(encoded.pieces) > 1 or len(layout.values) > 1:
        return False
    given = {p.name for v in layout.values for p in v.position if isinstance(p, Var)}
    for (rule,) in reversed(steps):
        if isinstance(rule, _Ranked) and rule.rank.position in given and rule.rank.begin:
            arguments = encoded.calls[rule.rank.begin].arguments
            given |= {a.name for a in arguments if isinstance(a, Var)}
    return given >= set(layout.positions) and _coordinates_determined(layout, encoded)


def _coordinates_determined(layout: Layout, encoded: Encoded) -> bool:
    """Whether the positions, with the calls at them, give the coordinates."""
    known = {*encoded.sizes, *layout.positions, *encoded.calls}
    piece = encoded.pieces[0]
    return all(single_value(piece.project(known | {c}).constraints(c), c) is not None for c in layout.coordinates)


# --- the order of keys ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Order:
    """In which order keys count, the foremost first: (number of the key, whether it runs down)."""

    keys: tuple[tuple[int, bool], ...]
    empty_first: bool = False


@lru_cache(maxsize=256)
def _orders(layout: Layout) -> tuple[_Order, ...]:
    """An order for each rank of the plan, such that the arrays satisfy the declared properties.

    Raises Unsupported when no order does.
    """
    plan = _plan(layout)
    options = [list(_options(plan, r)) for r in plan.ranks]
    first: str | None = None
    for number, orders in enumerate(product(*options)):
        if number >= ATTEMPTS:
            break
        reason = _tried(layout, plan, orders)
        if reason is None:
            return orders
        first = first or reason
    raise Unsupported(
        f"layout `{layout.name}` cannot be packed: no order of the entries satisfies its properties",
        layout.span,
        (f"in ascending order: {first}",),
    )


def _options(plan: _Plan, rank: _Rank) -> Iterator[_Order]:
    """All orders of the keys of a rank, the natural one first."""
    if rank.kind == "write":
        yield _Order(((0, False),))
        return
    padded = rank.kind == "slots" and any(plan.encoded.calls[k].function in plan.sentinels for k in rank.keys)
    for empty_first in (False, True) if padded else (False,):
        for order in permutations(range(len(rank.keys))):
            for down in product((False, True), repeat=len(rank.keys)):
                yield _Order(tuple(zip(order, down, strict=True)), empty_first)


def _tried(layout: Layout, plan: _Plan, orders: tuple[_Order, ...]) -> str | None:
    """What the arrays of small samples break with these orders; None when they break nothing."""
    for seed in range(3):
        shape, columns = _sample(layout, seed)
        values = np.ones(len(next(iter(columns.values()), np.ones(1))))
        state = _State(layout, dict(zip(layout.parameters, shape, strict=True)), columns, values, lenient=True)
        try:
            _assemble(state, plan, orders)
        except DataError as error:
            return error.message
        reason = violation(layout, state.sizes, state.arrays)
        if reason is not None:
            return reason
    return None


def _sample(layout: Layout, seed: int) -> tuple[tuple[int, ...], dict[str, Array]]:
    """A small shape and random coordinates in it, enough of them to fill groups and blocks."""
    numbers = [n.value for n in walk(layout.relation) if isinstance(n, Num) and 1 < n.value <= 64]
    scale = max(numbers, default=1)
    random = np.random.default_rng(seed)
    base = scale * {1: 12, 2: 6}.get(layout.rank, 4) + seed
    shape = tuple(min(base - k % 2, 5 if seed == 2 else base) for k in range(layout.rank))
    columns = [random.integers(0, n, 30 if layout.rank < 3 else 60) for n in shape]
    if not columns:
        return (), {}
    found, _ = _entries(layout, shape, tuple(columns), np.ones(len(columns[0])))
    return shape, found


# --- assembly ---------------------------------------------------------------------------------------------


@dataclass
class _State:
    """Rows of entries while positions are added to them. `lenient`: rows that cannot be stored are dropped."""

    layout: Layout
    sizes: dict[str, int]
    columns: dict[str, Array]
    values: Array
    lenient: bool = False
    piece: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    arrays: dict[str, Array] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def known(self) -> dict[str, Any]:
        return {**self.sizes, **self.columns}

    def coordinate(self, row: int) -> tuple[int, ...]:
        return tuple(int(self.columns[c][row]) for c in self.layout.coordinates)

    def keep(self, mask: Array) -> None:
        """Drop the other rows. Raises DataError when one of them has a value."""
        if mask.all():
            return
        lost = np.flatnonzero(~mask & _differs(self.values, self.layout.fill))
        if len(lost) and not self.lenient:
            at = self.coordinate(int(lost[0]))
            raise DataError(
                f"expected entries that layout `{self.layout.name}` can store, "
                f"but it has no place for the value {self.values[lost[0]]} at {at}"
            )
        self.columns = {n: c[mask] for n, c in self.columns.items()}
        self.values, self.piece = self.values[mask], self.piece[mask]


def _differs(values: Array, fill: float) -> Array:
    return np.asarray(values != np.asarray(fill).astype(values.dtype))


def _assemble(state: _State, plan: _Plan, orders: tuple[_Order, ...]) -> None:
    """Fill `state.sizes` and `state.arrays`."""
    _allot(state, plan)
    _learn(state, plan)
    order_of = dict(zip(plan.ranks, orders, strict=True))
    for step in plan.steps:
        ranks = dict.fromkeys(r.rank for r in step if isinstance(r, _Ranked))
        _compute(state, step)
        for rank in ranks:
            rules = {k: r for k, r in enumerate(step) if isinstance(r, _Ranked) and r.rank == rank}
            _rank(state, plan, rank, rules, order_of[rank])
        _learn(state, plan)
    _solve_rest(state)
    _learn(state, plan)
    _check_constraints(state, plan)
    _store_values(state)


def _allot(state: _State, plan: _Plan) -> None:
    """Each entry belongs to the first piece whose constraints on coordinates hold; without one it is dropped."""
    state.piece = np.full(state.count, -1, dtype=np.int64)
    for k, constraints in enumerate(plan.belongs):
        fits = state.piece < 0
        for constraint in constraints:
            fits &= constraint_holds(constraint, state.known)
        state.piece[fits] = k
    state.keep(state.piece >= 0)


def _compute(state: _State, step: tuple[Rule, ...]) -> None:
    names = {r.position if isinstance(r, _Computed) else r.rank.position for r in step} - {""}
    for name in names:
        state.columns[name] = np.zeros(state.count, dtype=np.int64)
    for k, rule in enumerate(step):
        if isinstance(rule, _Computed):
            value = affine_value(rule.numerator, state.known) // rule.divisor
            column = state.columns[rule.position]
            column[...] = np.where(state.piece == k, value, column)


def _learn(state: _State, plan: _Plan) -> None:
    """Read finished arrays at places that are known, and compute quotients, until there is nothing new."""
    before = -1
    while before != len(state.columns):
        before = len(state.columns)
        for name, (numerator, divisor) in plan.encoded.quotients.items():
            if name not in state.columns and numerator.names() <= set(state.known):
                value = affine_value(numerator, state.known) // divisor
                state.columns[name] = np.broadcast_to(np.asarray(value, dtype=np.int64), (state.count,))
        _gather_calls(state, plan)


def _gather_calls(state: _State, plan: _Plan) -> None:
    """Read finished arrays at places that are known; entries that would read outside are dropped."""
    for name, call in plan.encoded.calls.items():
        if name in state.columns or call.function not in state.arrays:
            continue
        if not argument_names(call) <= set(state.known):
            continue
        subscripts = tuple(affine_value(linear(a), state.known) for a in call.arguments)
        values, valid = gathered(state.arrays[call.function], subscripts, state.count)
        needed = np.zeros(state.count, dtype=bool)
        for k, piece in enumerate(plan.encoded.pieces):
            needed |= (state.piece == k) & bool(piece.constraints(name))
        state.columns[name] = values
        state.keep(valid | ~needed)


def _check_constraints(state: _State, plan: _Plan) -> None:
    """Every entry satisfies the relation, with the arrays as they are."""
    good = np.ones(state.count, dtype=bool)
    known = state.known
    for k, piece in enumerate(plan.encoded.pieces):
        own = state.piece == k
        for constraint in piece.constraints():
            missing = constraint.value.names() - set(known)
            if missing:
                raise InternalError(f"packing `{state.layout.name}` left {sorted(missing)} unknown")
            good &= ~own | constraint_holds(constraint, known)
    state.keep(good)


# --- ranks ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Rows:
    """The entries that a rank is about: their row numbers, and for each key of the rank its value."""

    rows: Array
    keys: list[Array]

    @property
    def count(self) -> int:
        return len(self.rows)


def _rank(state: _State, plan: _Plan, rank: _Rank, rules: Mapping[int, _Ranked], order: _Order) -> None:
    for function in _functions(plan, rank):
        if function in state.arrays:
            raise Unsupported(
                f"layout `{state.layout.name}` cannot be packed: the array `{function}` belongs to several positions",
                state.layout.span,
            )
    if rank.kind == "slots":
        _rank_slots(state, plan, rank, rules, order)
    elif rank.kind == "write":
        _write_known(state, plan, rank, rules)
    else:
        _rank_counted(state, plan, rank, rules, order)


def _functions(plan: _Plan, rank: _Rank) -> list[str]:
    return [plan.encoded.calls[n].function for n in (*rank.keys, rank.begin, rank.other) if n]


def _rows(state: _State, rules: Mapping[int, _Ranked]) -> _Rows:
    """The entries of the pieces that have this rank, with their keys."""
    width = len(next(iter(rules.values())).values)
    keys = [np.zeros(state.count, dtype=np.int64) for _ in range(width)]
    mine = np.zeros(state.count, dtype=bool)
    for k, rule in rules.items():
        own = state.piece == k
        mine |= own
        for key, (numerator, divisor) in zip(keys, rule.values, strict=True):
            key[...] = np.where(own, affine_value(numerator, state.known) // divisor, key)
    rows = np.flatnonzero(mine)
    return _Rows(rows, [k[rows] for k in keys])


def _arranged(keys: list[Array], order: _Order) -> list[Array]:
    """The keys in the order of importance, turned round where they run down."""
    return [-keys[k] if down else keys[k] for k, down in order.keys]


def _subscripts(state: _State, plan: _Plan, name: str, rows: Array, without: str = "") -> list[Array]:
    """The arguments of a call for these rows, int64[len(rows)] each, without those that are the given position."""
    result = []
    for argument in plan.encoded.calls[name].arguments:
        if without and argument == Var(without):
            continue
        value = np.broadcast_to(np.asarray(affine_value(linear(argument), state.known), dtype=np.int64), (state.count,))
        result.append(value[rows])
    return result


def _rank_counted(
    state: _State, plan: _Plan, rank: _Rank, rules: Mapping[int, _Ranked], order: _Order
) -> None:
    """Positions counted through all segments; the pointer arrays are the running counts."""
    begin = state.layout.index(plan.encoded.calls[rank.begin].function)
    rows = _rows(state, rules)
    places = _subscripts(state, plan, rank.begin, rows.rows)
    needed = [_most(p) for p in places]
    extents = _solved_extents(state, begin, [*needed[:-1], needed[-1] + (rank.kind == "pointer")])
    room = (*extents[:-1], max(0, extents[-1] - (rank.kind == "pointer")))
    good = inside(room, places, rows.count)
    if not good.all():
        mask = np.ones(state.count, dtype=bool)
        mask[rows.rows[~good]] = False
        state.keep(mask)
        rows = _rows(state, rules)
        places = _subscripts(state, plan, rank.begin, rows.rows)
    segment = flat_place(extents, places, rows.count)
    ranks, first = row_ranks([segment, *_arranged(rows.keys, order)], rows.count)
    state.columns[rank.position][rows.rows] = ranks
    counts = np.bincount(segment[first], minlength=int(np.prod(extents)))
    ends = np.cumsum(counts)
    starts = ends - counts
    state.arrays[begin.name] = starts.reshape(extents).astype(np.int64)
    if rank.other:
        other = state.layout.index(plan.encoded.calls[rank.other].function)
        state.arrays[other.name] = (ends if rank.kind == "ends" else counts).reshape(extents).astype(np.int64)
    for key, values in zip(rank.keys, rows.keys, strict=True):
        _write(state, plan, rank, key, rows.rows, values, len(first))


def _rank_slots(
    state: _State, plan: _Plan, rank: _Rank, rules: Mapping[int, _Ranked], order: _Order
) -> None:
    """Positions counted in each group of the keys' other arguments."""
    rows = _rows(state, rules)
    groups = _subscripts(state, plan, rank.keys[0], rows.rows, rank.position)
    group, slot, sizes = _slots(groups, rows, order)
    width = _capacity(state, plan, rank, int(sizes.max()) if len(sizes) else 0)
    full = (sizes > width)[group] if len(sizes) else np.zeros(0, dtype=bool)
    if full.any():
        _make_room(state, plan, rank, rows, groups, group, slot, full, width)
        return _rank_slots(state, plan, rank, rules, order)
    if len(rank.keys) == 1 and _needs_filler(state, plan, rank, groups, sizes, width):
        return _rank_with_filler(state, plan, rank, rules, order, width)
    if order.empty_first and len(sizes):
        slot = slot + (width - sizes[group])
    state.columns[rank.position][rows.rows] = slot + rank.low
    for key, values in zip(rank.keys, rows.keys, strict=True):
        _write(state, plan, rank, key, rows.rows, values, rank.low + width)
    return None


def _slots(groups: list[Array], rows: _Rows, order: _Order) -> tuple[Array, Array, Array]:
    """(group of each row, its rank among the distinct keys of the group, number of distinct keys of each group)."""
    if groups:
        group, _ = row_ranks(groups, rows.count)
    else:
        group = np.zeros(rows.count, dtype=np.int64)
    ranks, first = row_ranks([group, *_arranged(rows.keys, order)], rows.count)
    sizes = np.bincount(group[first])
    starts = np.cumsum(sizes) - sizes
    return group, ranks - starts[group] if rows.count else ranks, sizes


def _capacity(state: _State, plan: _Plan, rank: _Rank, needed: int) -> int:
    """How many slots there are; solves the sizes in the bounds that are not known yet."""
    sizes = _size_values(state, plan)
    known = [int(affine_value(e, sizes)) // a for a, e in rank.highs if e.names() <= set(sizes)]
    if known:
        return max(0, min(known) + 1 - rank.low)
    for a, high in rank.highs:
        _solve(state, high, a * (rank.low + needed - 1))
    return needed


def _make_room(
    state: _State,
    plan: _Plan,
    rank: _Rank,
    rows: _Rows,
    groups: list[Array],
    group: Array,
    slot: Array,
    full: Array,
    width: int,
) -> None:
    """Drop the entries of over-full groups that have no value. Raises DataError when that is not enough."""
    empty = ~_differs(state.values[rows.rows], state.layout.fill)
    surplus = slot >= width if state.lenient else full & empty
    if not surplus.any():
        row = int(np.flatnonzero(full)[0])
        names = [a for a in plan.encoded.calls[rank.keys[0]].arguments if a != Var(rank.position)]
        where = ", ".join(f"{show(a)} = {int(g[row])}" for a, g in zip(names, groups, strict=True))
        needed = int(slot[group == group[row]].max()) + 1
        at = state.coordinate(int(rows.rows[row]))
        raise DataError(
            f"expected at most {width} entries" + (f" for {where}" if where else "") + f" in layout "
            f"`{state.layout.name}` (`{rank.position}`), but there are {needed}, the first at {at}"
        )
    mask = np.ones(state.count, dtype=bool)
    mask[rows.rows[surplus]] = False
    state.keep(mask)


def _needs_filler(
    state: _State, plan: _Plan, rank: _Rank, groups: list[Array], sizes: Array, width: int
) -> bool:
    """Whether places of the key's array stay empty that have no sentinel."""
    index = state.layout.index(plan.encoded.calls[rank.keys[0]].function)
    if index.name in plan.sentinels:
        return False
    extents = _key_shape(state, plan, rank, index, groups, width)
    return int(sizes.sum()) < int(np.prod(extents, dtype=np.int64))


def _key_shape(
    state: _State, plan: _Plan, rank: _Rank, index: IndexArray, groups: list[Array], width: int
) -> tuple[int, ...]:
    places = iter(groups)
    arguments = plan.encoded.calls[rank.keys[0]].arguments
    needed = [width + rank.low if a == Var(rank.position) else _most(next(places)) for a in arguments]
    return _solved_extents(state, index, needed)


def _rank_with_filler(
    state: _State, plan: _Plan, rank: _Rank, rules: Mapping[int, _Ranked], order: _Order, width: int
) -> None:
    """As `_rank_slots`; every group is filled up with unused keys from the low end of the range."""
    name = rank.keys[0]
    rows = _rows(state, rules)
    groups = _subscripts(state, plan, name, rows.rows, rank.position)
    call = plan.encoded.calls[name]
    index = state.layout.index(call.function)
    extents = _key_shape(state, plan, rank, index, groups, width)
    axis = call.arguments.index(Var(rank.position))
    outer = (*extents[:axis], *extents[axis + 1 :])
    good = inside(outer, groups, rows.count)
    if not good.all():
        mask = np.ones(state.count, dtype=bool)
        mask[rows.rows[~good]] = False
        state.keep(mask)
        return _rank_with_filler(state, plan, rank, rules, order, width)
    slots = extents[axis]
    group = flat_place(outer, groups, rows.count)
    ranks, first = row_ranks([group, rows.keys[0]], rows.count)
    own_group, own_key = group[first], rows.keys[0][first]
    new_group, new_key = _filler(state, plan, name, own_group, own_key, int(np.prod(outer, dtype=np.int64)), slots)
    every_group, every_key = np.concatenate([own_group, new_group]), np.concatenate([own_key, new_key])
    new = np.arange(len(every_key)) >= len(own_key)
    arranged = sorted_order([every_group, *_arranged([every_key], order), new.astype(np.int64)], len(every_key))
    if arranged is None:
        arranged = np.arange(len(every_key))
    place = np.empty(len(every_key), dtype=np.int64)
    place[arranged] = np.arange(len(every_key)) % max(1, slots)
    state.columns[rank.position][rows.rows] = place[ranks]
    table = every_key[arranged].reshape(*outer, slots)
    state.arrays[index.name] = np.ascontiguousarray(np.moveaxis(table, -1, axis))
    return None


def _filler(
    state: _State, plan: _Plan, name: str, group: Array, key: Array, groups: int, width: int
) -> tuple[Array, Array]:
    """(group, key) of unused keys, the lowest ones, such that each group has `width` keys."""
    low, high = _range(state, plan, name)
    free = np.ones((groups, width), dtype=bool)
    near = (key >= low) & (key < low + width)
    free[group[near], key[near] - low] = False
    missing = width - np.bincount(group, minlength=groups)
    chosen = free & (np.cumsum(free, axis=1) <= missing[:, None])
    rows, places = np.nonzero(chosen)
    return rows.astype(np.int64), np.minimum(places + low, max(low, high)).astype(np.int64)


def _range(state: _State, plan: _Plan, name: str) -> tuple[int, int]:
    """The declared range of a call as numbers, both ends included; from 0 on when none is declared."""
    lower, upper = bounds(plan.encoded.facts.constraints(name), name)
    sizes = _size_values(state, plan)
    low = [-(int(affine_value(e, sizes)) // a) for a, e in lower if e.names() <= set(sizes)]
    high = [int(affine_value(e, sizes)) // a for a, e in upper if e.names() <= set(sizes)]
    return max(low, default=0), min(high, default=2**62)


def _write_known(state: _State, plan: _Plan, rank: _Rank, rules: Mapping[int, _Ranked]) -> None:
    """An array whose places are known: entries at one place must agree on the value."""
    rows = _rows(state, rules)
    _write(state, plan, rank, rank.keys[0], rows.rows, rows.keys[0], 0)
    call = plan.encoded.calls[rank.keys[0]]
    places = tuple(_subscripts(state, plan, rank.keys[0], rows.rows))
    found, valid = gathered(state.arrays[call.function], places, rows.count)
    wrong = valid & (found != rows.keys[0])
    if not wrong.any():
        return
    mask = np.ones(state.count, dtype=bool)
    mask[rows.rows[wrong]] = False
    at = state.coordinate(int(rows.rows[np.flatnonzero(wrong)[0]]))
    if not state.lenient and _differs(state.values[~mask], state.layout.fill).any():
        raise DataError(
            f"expected one value of `{show(call)}` for each place, but the entry at {at} needs another one"
        )
    state.keep(mask)


def _write(
    state: _State, plan: _Plan, rank: _Rank, name: str, rows: Array, values: Array, length: int
) -> None:
    """Write the key array at the entries; other places get the sentinel, else the low end of the range."""
    call = plan.encoded.calls[name]
    index = state.layout.index(call.function)
    places = _subscripts(state, plan, name, rows)
    needed = [
        max(length, _most(p)) if a == Var(rank.position) else _most(p)
        for a, p in zip(call.arguments, places, strict=True)
    ]
    shape = _solved_extents(state, index, needed)
    for argument, extent in zip(call.arguments, shape, strict=True):
        if argument == Var(rank.position) and length > extent:
            raise DataError(
                f"expected at most {extent} positions `{rank.position}` in layout `{state.layout.name}`, "
                f"but the entries need {length}"
            )
    low, _ = _range(state, plan, name)
    sentinel = plan.sentinels.get(index.name)
    rest = low if sentinel is None else int(affine_value(sentinel, state.sizes))
    array = np.full(shape, rest, dtype=np.int64)
    good = inside(shape, places, len(rows))
    array.reshape(-1)[flat_place(shape, places, len(rows))[good]] = values[good]
    state.arrays[index.name] = array


# --- sizes ------------------------------------------------------------------------------------------------


def _size_values(state: _State, plan: _Plan) -> dict[str, int]:
    """The sizes that are known, and the quotients of sizes."""
    values = dict(state.sizes)
    for name, (numerator, divisor) in plan.encoded.quotients.items():
        if numerator.names() <= set(values):
            values[name] = int(affine_value(numerator, values)) // divisor
    return values


def _most(places: Array) -> int:
    """The extent that an array needs to have these places."""
    return int(places.max()) + 1 if len(places) else 0


def _solve(state: _State, extent: Affine, value: int) -> None:
    """Set the only unknown size of the extent such that the extent is at least `value`."""
    unknown = extent.names() - set(state.sizes)
    if len(unknown) != 1:
        return
    name = unknown.pop()
    factor, rest = extent.coefficient(name), extent.without(name)
    if factor > 0 and name not in rest.names():
        missing = value - int(affine_value(rest, state.sizes))
        state.sizes[name] = max(0, -(-missing // factor))


def _solved_extents(state: _State, declared: IndexArray | ValueArray, needed: list[int]) -> tuple[int, ...]:
    """The shape of an array; sizes in its extents that are not known yet become as large as needed."""
    for extent, value in zip(declared.extents, needed, strict=True):
        if not variables(extent) <= set(state.sizes):
            with suppress(NotAffine):
                _solve(state, affine(extent, _no_name), value)
        missing = variables(extent) - set(state.sizes)
        if missing:
            raise Unsupported(
                f"layout `{state.layout.name}` cannot be packed: its size `{sorted(missing)[0]}` cannot be derived",
                state.layout.span,
            )
    return shape_of(declared.extents, state.sizes)


def _no_name(call: Any) -> str:
    raise NotAffine(call)


def _solve_rest(state: _State) -> None:
    """Sizes that only value arrays have."""
    for value in state.layout.values:
        needed = []
        for position in value.position:
            place, _ = rows_of(position, state.known, state.arrays, state.count)
            needed.append(_most(np.broadcast_to(np.asarray(place), (state.count,))))
        _solved_extents(state, value, needed)
    for name in state.layout.sizes:
        if name not in state.sizes:
            raise Unsupported(
                f"layout `{state.layout.name}` cannot be packed: its size `{name}` cannot be derived",
                state.layout.span,
            )


# --- values -----------------------------------------------------------------------------------------------


def _store_values(state: _State) -> None:
    """Write every value at its place in the first value array that has one for it."""
    layout, dtype = state.layout, state.values.dtype
    places = value_places(layout, state.sizes, state.known, state.arrays, state.count)
    stored = np.zeros(state.count, dtype=bool)
    for place in places.values():
        stored |= place >= 0
    if not stored.all():
        state.keep(stored)
        places = {n: p[stored] for n, p in places.items()}
    done = np.zeros(state.count, dtype=bool)
    for value in layout.values:
        rows = np.flatnonzero((places[value.name] >= 0) & ~done)
        done[rows] = True
        shape = shape_of(value.extents, state.sizes)
        array = np.full(int(np.prod(shape, dtype=np.int64)), np.asarray(layout.fill).astype(dtype), dtype=dtype)
        array[places[value.name][rows]] = state.values[rows]
        _check_equal(state, rows, array[places[value.name][rows]], places[value.name][rows])
        state.arrays[value.name] = array.reshape(shape)


def _check_equal(state: _State, rows: Array, stored: Array, places: Array) -> None:
    """Entries that share a place have equal values. Raises DataError."""
    if state.lenient:
        return
    own = state.values[rows]
    wrong = np.flatnonzero((stored != own) & ~((stored != stored) & (own != own)))
    if len(wrong):
        row = int(wrong[0])
        other = int(np.flatnonzero(places == places[row])[-1])
        raise DataError(
            f"expected equal values at {state.coordinate(int(rows[row]))} and {state.coordinate(int(rows[other]))}, "
            f"which layout `{state.layout.name}` stores at one place, but they are {own[row]} and {stored[row]}"
        )


def _check_shared(state: _State, plan: _Plan) -> None:
    """Where several points share a value, the arrays hold the entries and nothing else. Raises DataError."""
    if plan.injective:
        return
    layout = state.layout
    points = enumerate_points(layout, state.sizes, state.arrays)
    columns = [points.columns[c] for c in layout.coordinates]
    filled = np.zeros(points.count, dtype=bool)
    for name, place in points.places.items():
        rows = np.flatnonzero(place >= 0)
        filled[rows] |= _differs(state.arrays[name].reshape(-1)[place[rows]], layout.fill)
    own = [state.columns[c][_differs(state.values, layout.fill)] for c in layout.coordinates]
    if int(np.count_nonzero(filled)) == (len(own[0]) if own else int(_differs(state.values, layout.fill).sum())):
        return
    _report_shared(layout, [c[filled] for c in columns], own)


def _report_shared(layout: Layout, points: list[Array], entries: list[Array]) -> None:
    """Raises DataError for the first coordinate that the arrays hold a value for but not the entries, or twice."""
    count = len(points[0])
    both = [np.concatenate([e, p]) for e, p in zip(entries, points, strict=True)]
    ranks, first = row_ranks(both, len(both[0]))
    known = np.zeros(len(first), dtype=bool)
    known[ranks[: len(both[0]) - count]] = True
    times = np.bincount(ranks[len(both[0]) - count :], minlength=len(first))
    wrong = np.flatnonzero((times > 0) & ~known)
    if len(wrong):
        at = tuple(int(c[first[wrong[0]]]) for c in both)
        raise DataError(
            f"expected a value at {at}, which layout `{layout.name}` stores together with others, but there is none"
        )
    twice = np.flatnonzero(times > 1)
    if len(twice):
        at = tuple(int(c[first[twice[0]]]) for c in both)
        raise Unsupported(f"layout `{layout.name}` cannot be packed: it stores the coordinate {at} twice", layout.span)
