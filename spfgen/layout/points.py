"""The points of a layout over concrete arrays, enumerated with numpy: what the arrays store, and where.

The relation is encoded as a set in which every call is a dimension (sets/uf.py); each of its pieces is scanned once,
all rows of a growing table at a time. A step gathers a call, computes a dimension, expands one, or filters rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spfgen.errors import DataError, InternalError, Unsupported
from spfgen.facts.domains import Limits, inside_arrays
from spfgen.facts.formula import (
    NEGATED,
    ZERO,
    And,
    Call,
    Compare,
    Expr,
    Formula,
    Not,
    Or,
    Var,
    conjunction,
    evaluate,
    show,
    variables,
    within,
)
from spfgen.facts.instances import instances
from spfgen.facts.reach import LEAST, MOST
from spfgen.layout.nodes import Layout, ValueArray
from spfgen.sets.affine import Affine, NotAffine, expression
from spfgen.sets.bounds import bounds, single_value
from spfgen.sets.named import Constraint, Piece, Space, is_floor, pieces
from spfgen.sets.uf import Encoder, defined_pieces, in_domain, linear, without_unused

Array = NDArray[Any]
Columns = Mapping[str, Any]
"""Names to int64 columns of one length, or to single numbers that hold for all rows."""


SMALL = 2**31
"""Beyond such sizes it is asked whether what is computed of them fits in 64 bits."""


class TooLarge(DataError):
    """An array, or a list of points, has more elements than there is room for."""


def _installed() -> int:
    """So many int64 fill the memory of the machine: beyond that the system may end the process without a word."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 8
    except (AttributeError, ValueError, OSError):  # a system that does not tell
        return 2**48


INSTALLED = _installed()
_ROOM = ContextVar("elements that an array may have", default=INSTALLED)


@contextmanager
def room_for(elements: int) -> Iterator[None]:
    """Within, nothing larger is made: whoever asks for a layout's size does not want its arrays."""
    token = _ROOM.set(min(elements, _ROOM.get()))
    try:
        yield
    finally:
        _ROOM.reset(token)


def claim(elements: float, what: str, arrays: int = 1) -> None:
    """Ask for room before it is used, for so many arrays at a time. Raises TooLarge."""
    if elements > _ROOM.get() or elements * arrays > INSTALLED:
        raise TooLarge(f"expected arrays that fit in memory, but {what}")


@dataclass(frozen=True)
class Points:
    """`columns`: an int64 column for each position and coordinate, of length `count`.

    `places`: for each value array the place of the value in the array read row by row, -1 where it has none.
    """

    count: int
    columns: Mapping[str, Array]
    places: Mapping[str, Array]


# --- the relation as sets -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Encoded:
    """The relation with 0 <= coordinate < extent, as disjoint pieces; `facts` are the ranges of its calls."""

    layout: Layout
    space: Space
    calls: Mapping[str, Call]
    quotients: Mapping[str, tuple[Affine, int]]
    pieces: tuple[Piece, ...]
    facts: Piece

    @property
    def sizes(self) -> set[str]:
        return {*self.layout.parameters, *self.layout.sizes}


@lru_cache(maxsize=256)
def encode(layout: Layout) -> Encoded:
    """The relation of a checked layout as sets, with every call a dimension."""
    inside = [within(Var(c), ZERO, Var(n)) for c, n in zip(layout.coordinates, layout.parameters, strict=True)]
    plain, _ = _encoded(layout, conjunction([layout.relation, *inside]), {})
    if len(plain.pieces) > 1:
        limits = {a.name: a.extents for a in layout.indexes}
        with suppress(NotAffine):  # an extent is no sum of sizes
            defined, taken = _encoded(layout, conjunction([inside_arrays(layout.relation, limits), *inside]), limits)
            return defined if taken else plain
    return plain


def _encoded(layout: Layout, relation: Formula, limits: Limits) -> tuple[Encoded, bool]:
    """With this relation. With `limits` of the index arrays, a piece speaks of calls only where they are defined; also
    says whether that took more pieces."""
    encoder = Encoder()
    formula = encoder.formula(relation)
    domains = in_domain(encoder, limits) if limits else {}
    ranges = [r.formula for a in layout.indexes for r in a.ranges]
    known = [f for f in (_encoded_fact(encoder, f) for f in instances(ranges, encoder.calls)) if f is not None]
    names = (
        *layout.parameters,
        *layout.sizes,
        *layout.coordinates,
        *layout.positions,
        *encoder.quotients,
        *encoder.calls,
    )
    space = Space(names)
    whole = conjunction([formula, *encoder.definitions()])
    if limits:
        encoded_pieces, taken = defined_pieces(space, whole, encoder, domains, _no_calls)
    else:
        plain, taken = pieces(space, whole, _no_calls), False
        encoded_pieces = [(p, frozenset()) if len(plain) == 1 else without_unused(p, encoder) for p in plain]
    facts = pieces(space, conjunction(known), _no_calls)
    quotients = {n: (linear(e), d) for n, (e, d) in encoder.quotients.items()}
    known_facts = facts[0] if len(facts) == 1 else space.universe()
    return Encoded(layout, space, encoder.calls, quotients, tuple(p for p, _ in encoded_pieces), known_facts), taken


def _encoded_fact(encoder: Encoder, fact: Formula) -> Formula | None:
    try:
        return encoder.formula(fact) if isinstance(fact, Compare) and fact.op != "!=" else None
    except NotAffine:
        return None


def _no_calls(call: Call) -> str:
    raise NotAffine(call)


def argument_names(call: Call) -> set[str]:
    """The dimensions that the arguments of an encoded call need."""
    return variables(*call.arguments)


def involved(encoded: Encoded, piece: Piece) -> list[str]:
    """The dimensions that are not sizes and matter in this piece, in the order of the space."""
    must = {*encoded.layout.positions, *encoded.layout.coordinates}
    wanted = {n for n in encoded.space.names if n in must or piece.constraints(n)}
    while True:
        more = {v for n in wanted if n in encoded.calls for v in argument_names(encoded.calls[n])} - wanted
        if not more:
            return [n for n in encoded.space.names if n in wanted and n not in encoded.sizes]
        wanted |= more


# --- steps ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gather:
    name: str
    call: Call


@dataclass(frozen=True)
class Assign:
    """`name` is floor(numerator / divisor)."""

    name: str
    numerator: Affine
    divisor: int


@dataclass(frozen=True)
class Expand:
    """a*name >= -e for the `lower` (a, e), and a*name <= e for the `upper` ones."""

    name: str
    lower: tuple[tuple[int, Affine], ...]
    upper: tuple[tuple[int, Affine], ...]


@dataclass(frozen=True)
class Filter:
    constraint: Constraint


Step = Gather | Assign | Expand | Filter


@lru_cache(maxsize=256)
def scan_of(layout: Layout) -> tuple[tuple[Step, ...], ...]:
    """How to scan each piece of the relation."""
    encoded = encode(layout)
    return tuple(tuple(_scan(encoded, piece)) for piece in encoded.pieces)


def lean(encoded: Encoded, steps: Sequence[Step]) -> list[Step]:
    """The steps without the filters that hold anyway, given the declared ranges of the arrays."""
    needed: list[Step] = []
    known = set(encoded.sizes)
    implied = encoded.facts.restrict(known)
    for step in steps:
        if isinstance(step, Filter):
            if implied.implies(step.constraint):
                continue
            implied = implied.with_constraints([step.constraint])
        else:
            known.add(step.name)
            implied = implied.with_constraints(made_by(step)).intersect(encoded.facts.restrict(known))
        needed.append(step)
    return needed


def made_by(step: Gather | Assign | Expand) -> list[Constraint]:
    """What holds of the column of a step."""
    match step:
        case Assign(name, numerator, divisor):
            return is_floor(name, numerator, divisor)
        case Expand(name, lower, upper):
            low = [Constraint(False, Affine(((name, a),)) + e) for a, e in lower]
            return [*low, *(Constraint(False, e - Affine(((name, a),))) for a, e in upper)]
    return []


def _scan(encoded: Encoded, piece: Piece) -> list[Step]:
    """Greedy: gather what can be gathered, compute what is determined, else expand the first bounded position that does
    not follow from another one: of a key and its position in a segment, the position."""
    layout = encoded.layout
    known = set(encoded.sizes)
    unknown = [*layout.positions, *(n for n in involved(encoded, piece) if n not in layout.positions)]
    waiting = piece.constraints()
    steps: list[Step] = []
    while True:
        ready = [c for c in waiting if c.value.names() <= known]
        waiting = [c for c in waiting if c not in ready]
        steps += [Filter(c) for c in ready]
        if not unknown:
            return steps
        step = _next(encoded, piece, known, unknown)
        steps.append(step)
        waiting = [c for c in waiting if not _enforced(step, c)]
        known.add(step.name)
        unknown.remove(step.name)


def _enforced(step: Gather | Assign | Expand, constraint: Constraint) -> bool:
    """Whether all rows satisfy the constraint because of how the step made its column."""
    coefficient = constraint.value.coefficient(step.name)
    others = constraint.value.without(step.name)
    if not coefficient or any(step.name in f.numerator.names() for f in others.floors()):
        return False
    match step:
        case Assign(_, numerator, 1) if constraint.equality and abs(coefficient) == 1:
            return numerator == others.scaled(-coefficient)
        case Expand(_, lower, upper) if not constraint.equality:
            return (abs(coefficient), others) in (lower if coefficient > 0 else upper)
    return False


def _next(encoded: Encoded, piece: Piece, known: set[str], unknown: list[str]) -> Gather | Assign | Expand:
    bounded: list[Expand] = []
    for name in unknown:
        if name in encoded.calls and argument_names(encoded.calls[name]) <= known:
            return Gather(name, encoded.calls[name])
    for name in (n for n in unknown if n not in encoded.calls):
        about = piece.project(known | {name}).constraints(name)
        single = single_value(about, name)
        if single is not None:
            return Assign(name, *single)
        lower, upper = bounds(about, name)
        if lower and upper:
            bounded.append(Expand(name, tuple(lower), tuple(upper)))
    if not bounded:
        raise InternalError(f"layout `{encoded.layout.name}` gives no bounds for {', '.join(unknown)}")
    first, *others = bounded
    names = {o.name for o in others}
    for call in encoded.calls.values():
        needed = argument_names(call) - known
        if needed and needed <= names and _follows(encoded, piece, known, needed, first.name):
            return next(o for o in others if o.name in needed)
    return first


def _follows(encoded: Encoded, piece: Piece, known: set[str], others: set[str], name: str) -> bool:
    """Whether a call at the others, once these are known, says what the name is."""
    ready = {n for n, c in encoded.calls.items() if argument_names(c) <= known | others} - known
    value = single_value(piece.project(known | ready | {name}).constraints(name), name)
    return value is not None and bool(value[0].names() & ready)


# --- values ---------------------------------------------------------------------------------------------


def affine_value(value: Affine, columns: Columns) -> Any:
    """The value of an affine expression for every row (a number when it is the same for all). Raises DataError where a
    column would have to hold more than 64 bits."""
    if any(type(known) is int and known > SMALL for known in columns.values()):
        _reach(value, columns)
    return _affine_value(value, columns)


def _affine_value(value: Affine, columns: Columns) -> Any:
    total: Any = value.constant
    for atom, coefficient in value.terms:
        if isinstance(atom, str):
            term = columns[atom]
        else:
            term = _affine_value(atom.numerator, columns) // atom.divisor
        total = total + (term if coefficient == 1 else coefficient * term)
    return total


def _reach(value: Affine, columns: Columns) -> tuple[int, int]:
    """The least and the largest value, or what lies beyond. Raises DataError when what is computed on the way does not
    fit: numbers of Python are exact, but columns wrap around."""
    low = high = value.constant
    wraps = False
    for atom, coefficient in value.terms:
        names = {atom} if isinstance(atom, str) else atom.numerator.names()
        wraps = wraps or any(isinstance(columns[n], np.ndarray) for n in names)
        if isinstance(atom, str):
            column = np.asarray(columns[atom])
            least, most = int(column.min(initial=0)), int(column.max(initial=0))
        else:
            least, most = (end // atom.divisor for end in _reach(atom.numerator, columns))
        ends = sorted((coefficient * least, coefficient * most))
        low, high = low + ends[0], high + ends[1]
        far = next((end for end in (*ends, low, high) if not LEAST <= end <= MOST), None)
        if wraps and far is not None:
            raise DataError(
                f"expected sizes with which `{show(expression(value))}` fits in 64 bits, but it may reach {far}",
                None,
                ("make the extents smaller: positions and coordinates are 64-bit integers",),
            )
    return low, high


def constraint_holds(constraint: Constraint, columns: Columns) -> Any:
    """Whether a constraint holds, for every row (or a single truth)."""
    value = affine_value(constraint.value, columns)
    return value == 0 if constraint.equality else value >= 0


def inside(shape: tuple[int, ...], subscripts: Iterable[Any], count: int) -> Array:
    """Whether the subscripts are within an array of that shape; bool[count]."""
    result = np.ones(count, dtype=bool)
    for subscript, extent in zip(subscripts, shape, strict=True):
        result &= (subscript >= 0) & (subscript < extent)
    return result


def flat_place(shape: tuple[int, ...], subscripts: Iterable[Any], count: int) -> Array:
    """Where the elements lie when the array is read row by row; int64[count]. The subscripts are within the shape."""
    result = np.zeros(count, dtype=np.int64)
    for subscript, extent in zip(subscripts, shape, strict=True):
        result *= extent
        result += subscript
    return result


def gathered(array: Array, subscripts: tuple[Any, ...], count: int) -> tuple[Array, Array]:
    """(values int64[count], whether they are inside bool[count]); the value outside is 0."""
    valid = inside(array.shape, subscripts, count)
    if array.size == 0:
        return np.zeros(count, dtype=np.int64), valid
    if not valid.all():
        subscripts = tuple(np.where(valid, s, 0) for s in subscripts)
    place = flat_place(array.shape, subscripts, count)
    return array.reshape(-1)[place].astype(np.int64), valid


def rows_of(expr: Expr, columns: Columns, arrays: Mapping[str, Array], count: int) -> tuple[Any, Array]:
    """(the value of any expression for every row, bool[count]: all its calls are inside their arrays)."""
    valid = np.ones(count, dtype=bool)

    def call(function: str, arguments: tuple[Any, ...]) -> Array:
        values, good = gathered(arrays[function], arguments, count)
        valid[...] &= good
        return values

    return evaluate(expr, columns.__getitem__, call), valid


def compare(op: str, left: Any, right: Any) -> Any:
    """One comparison, on numbers or on columns."""
    match op:
        case "=":
            return left == right
        case "!=":
            return left != right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case ">=":
            return left >= right
    raise InternalError(f"unknown comparison {op!r}")


def truth(formula: Formula, value: Callable[[Expr], Any], quantified: Callable[[Formula], Any]) -> Any:
    """A formula for every row: `value` evaluates expressions, `quantified` answers for `forall` and `exists`."""
    match formula:
        case Compare(op, left, right):
            return compare(op, value(left), value(right))
        case And(parts):
            result: Any = True
            for part in parts:
                result = result & truth(part, value, quantified)
            return result
        case Or(parts):
            result = False
            for part in parts:
                result = result | truth(part, value, quantified)
            return result
        case Not(Compare(op, left, right)):
            return compare(NEGATED[op], value(left), value(right))
        case Not(part):
            return np.logical_not(truth(part, value, quantified))
    return quantified(formula)


def holds(formula: Formula, columns: Columns, arrays: Mapping[str, Array], count: int) -> Array:
    """Whether a formula without quantifiers holds in each row, all its calls inside their arrays; bool[count]."""
    valid = np.ones(count, dtype=bool)

    def value(expr: Expr) -> Any:
        result, good = rows_of(expr, columns, arrays, count)
        valid[...] &= good
        return result

    def refuse(part: Formula) -> Any:
        raise Unsupported(f"a quantifier in a `when` is not supported: {show(part)}", getattr(part, "span", None))

    return np.asarray(truth(formula, value, refuse) & valid)


def shape_of(extents: tuple[Expr, ...], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The extents as numbers, none below zero."""

    def no_call(function: str, arguments: tuple[Any, ...]) -> Any:
        raise InternalError(f"an extent calls {function}")

    return tuple(max(0, int(evaluate(e, sizes.__getitem__, no_call))) for e in extents)


def value_places(
    layout: Layout, sizes: Mapping[str, int], columns: Columns, arrays: Mapping[str, Array], count: int
) -> dict[str, Array]:
    """For each value array the place of each row's value, -1 where it has none there; int64[count] each."""
    return {v.name: _places(v, sizes, columns, arrays, count) for v in layout.values}


def turned(layout: Layout, values: Array, columns: Columns, arrays: Mapping[str, Array]) -> Array:
    """Stored values to those at their coordinates, or back: what the alternatives of the relation do undoes itself.

    A 0 keeps its sign. Raises DataError where the type of the values has no such operator.
    """
    for alternative in layout.value_transforms:
        if not alternative.operators:
            continue
        rows = holds(alternative.relation, columns, arrays, len(values)) & (values != 0)
        for operator in alternative.operators:
            if operator == "negative" and values.dtype.kind == "b":
                raise DataError(f"expected numbers in layout `{layout.name}`, which stores -val, but they are bool")
            values = np.where(rows, getattr(np, operator)(values), values)
    return values


def _places(
    value: ValueArray, sizes: Mapping[str, int], columns: Columns, arrays: Mapping[str, Array], count: int
) -> Array:
    valid = holds(value.when, columns, arrays, count)
    subscripts = []
    for position in value.position:
        subscript, good = rows_of(position, columns, arrays, count)
        subscripts.append(subscript)
        valid &= good
    shape = shape_of(value.extents, sizes)
    valid &= inside(shape, subscripts, count)
    return np.where(valid, flat_place(shape, subscripts, count), -1)


# --- enumeration ----------------------------------------------------------------------------------------


def enumerate_points(layout: Layout, sizes: Mapping[str, int], arrays: Mapping[str, Array]) -> Points:
    """All points of the relation over index arrays of the declared extents (each of an integer dtype).

    A point is left out when one of its calls lies outside its array, or when it has a place in no value array.
    `sizes` has all parameters and sizes. Raises DataError when a size or an index array is missing.
    """
    for name in (*layout.parameters, *layout.sizes):
        if name not in sizes:
            raise DataError(f"expected the size `{name}` of layout `{layout.name}`, but it is missing")
    for index in layout.indexes:
        if index.name not in arrays:
            raise DataError(f"expected the array `{index.name}` of layout `{layout.name}`, but it is missing")
    count, columns = relation_rows(layout, sizes, arrays)
    places = value_places(layout, sizes, {**sizes, **columns}, arrays, count)
    kept = np.zeros(count, dtype=bool)
    for place in places.values():
        kept |= place >= 0
    if not kept.all():
        columns = {n: c[kept] for n, c in columns.items()}
        places = {n: p[kept] for n, p in places.items()}
        count = int(np.count_nonzero(kept))
    return Points(count, columns, places)


def relation_rows(
    layout: Layout, sizes: Mapping[str, int], arrays: Mapping[str, Array]
) -> tuple[int, dict[str, Array]]:
    """(number of points of the relation, a column for each position and coordinate), wherever their values lie."""
    names = (*layout.positions, *layout.coordinates)
    tables = [run_steps(steps, sizes, arrays) for steps in scan_of(layout)]
    columns = {n: np.concatenate([t[n] for _, t in tables]) if tables else np.zeros(0, dtype=np.int64) for n in names}
    return sum(c for c, _ in tables), columns


def to_coordinates(
    layout: Layout,
    sizes: Mapping[str, int],
    arrays: Mapping[str, Array],
    values_by_name: Mapping[str, Array],
) -> tuple[tuple[Array, ...], Array]:
    """(one int64[n] for each coordinate, values[n]) of all stored entries; what is stored twice comes twice.

    `arrays` are the index arrays, `values_by_name` the value arrays, all of one dtype and of the declared extents.
    """
    points = enumerate_points(layout, sizes, arrays)
    rows = [np.flatnonzero(points.places[v.name] >= 0) for v in layout.values]
    values = [
        np.asarray(values_by_name[v.name]).reshape(-1)[points.places[v.name][r]]
        for v, r in zip(layout.values, rows, strict=True)
    ]
    everything = np.concatenate(rows)
    if layout.value_transforms:
        columns: dict[str, Any] = {**sizes, **{n: c[everything] for n, c in points.columns.items()}}
        return (
            tuple(points.columns[c][everything] for c in layout.coordinates),
            turned(layout, np.concatenate(values), columns, arrays),
        )
    return tuple(points.columns[c][everything] for c in layout.coordinates), np.concatenate(values)


def run_steps(
    steps: tuple[Step, ...], sizes: Mapping[str, int], arrays: Mapping[str, Array]
) -> tuple[int, dict[str, Array]]:
    """(number of rows, a column for each name) after all steps, from one row without columns."""
    count = 1
    columns: dict[str, Array] = {}
    for step in steps:
        everything: Columns = {**sizes, **columns}
        kept: Any = True
        match step:
            case Gather(name, call):
                subscripts = tuple(affine_value(linear(a), everything) for a in call.arguments)
                columns[name], kept = gathered(arrays[call.function], subscripts, count)
            case Assign(name, numerator, divisor):
                columns[name] = _column(affine_value(numerator, everything) // divisor, count)
            case Expand(name, lower, upper):
                count = _expand(columns, name, lower, upper, everything, count)
            case Filter(constraint):
                kept = constraint_holds(constraint, everything)
        if not np.all(kept):
            mask = np.broadcast_to(np.asarray(kept), (count,))
            columns = {n: c[mask] for n, c in columns.items()}
            count = int(np.count_nonzero(mask))
    return count, columns


def _column(value: Any, count: int) -> Array:
    return np.ascontiguousarray(np.broadcast_to(np.asarray(value, dtype=np.int64), (count,)))


def _expand(
    columns: dict[str, Array],
    name: str,
    lower: tuple[tuple[int, Affine], ...],
    upper: tuple[tuple[int, Affine], ...],
    known: Columns,
    count: int,
) -> int:
    """Every row once for each value of `name` between its bounds; changes `columns`, returns the new count."""
    low: Any = None
    high: Any = None
    for a, e in lower:
        bound = -(affine_value(e, known) // a)
        low = bound if low is None else np.maximum(low, bound)
    for a, e in upper:
        bound = affine_value(e, known) // a
        high = bound if high is None else np.minimum(high, bound)
    first = _column(low, count)
    lengths = np.maximum(_column(high, count) - first + 1, 0)
    total = lengths.sum(dtype=float)  # int64 may not hold it
    # What is done with the points has about three arrays for each of theirs.
    claim(total, f"there are {total:.3g} values of `{name}` in all", arrays=3 * (len(columns) + 3))
    rows, values = expanded(first, lengths)
    for other in columns:
        columns[other] = columns[other][rows]
    columns[name] = values
    return len(rows)


def expanded(first: Array, lengths: Array) -> tuple[Array, Array]:
    """(the row of each, its value): row r has the values first[r], first[r] + 1, ... `lengths[r]` of them."""
    rows = np.repeat(np.arange(len(first), dtype=np.int64), lengths)
    starts = np.cumsum(lengths) - lengths
    return rows, np.arange(len(rows), dtype=np.int64) + (first - starts)[rows]


def combined(columns: list[Array]) -> Array | None:
    """One int64 column that orders rows as the columns do, the first one foremost; None when it does not fit."""
    result: Array | None = None
    room = 1
    for column in columns:
        low, high = (int(column.min()), int(column.max())) if len(column) else (0, 0)
        room *= high - low + 1
        if room >= 2**62:
            return None
        shifted = column - low
        result = shifted if result is None else result * (high - low + 1) + shifted
    return result


def sorted_order(columns: list[Array], count: int) -> Array | None:
    """The stable order that sorts rows by the columns, the first one foremost; None when they are sorted already."""
    if not columns or count < 2:
        return None
    one = combined(columns)
    if one is None:
        order: Array = np.lexsort(columns[::-1])
        return order
    if np.all(one[1:] >= one[:-1]):
        return None
    return np.argsort(one, kind="stable")


def row_ranks(columns: list[Array], count: int) -> tuple[Array, Array]:
    """(int64[count]: the rank of each row among the distinct ones in sorted order, one row for each rank)."""
    order = sorted_order(columns, count)
    new = np.zeros(count, dtype=bool)
    new[:1] = True
    for column in columns:
        arranged = column if order is None else column[order]
        new[1:] |= arranged[1:] != arranged[:-1]
    ranks = np.cumsum(new) - 1
    first = np.flatnonzero(new)
    if order is None:
        return ranks.astype(np.int64), first
    result = np.empty(count, dtype=np.int64)
    result[order] = ranks
    return result, order[first]
