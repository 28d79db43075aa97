"""What an assembly knows on the way: which columns, sizes and arrays there are, and the steps that make them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from spfgen.errors import InternalError, Unsupported
from spfgen.facts.formula import (
    ONE,
    ZERO,
    Bin,
    Call,
    Expr,
    Formula,
    Not,
    Num,
    Or,
    Var,
    conjunction,
    substitute,
    variables,
)
from spfgen.ir import fresh
from spfgen.layout.nodes import IndexArray, Layout, ValueArray
from spfgen.layout.pack_rules import PackPlan, Rank, Ranked, shift
from spfgen.layout.points import argument_names
from spfgen.plan.assemble.nodes import (
    COUNT,
    MORE,
    NUMBER,
    PIECE,
    ROW,
    AssemblyStep,
    Choose,
    Fail,
    Fold,
    Into,
    Keep,
    Let,
    MaxOverPoints,
    SelectRows,
    Vec,
    When,
    at,
    compare,
    minus,
    plus,
    product,
    times,
)
from spfgen.sets.affine import Affine, NotAffine, affine, expression
from spfgen.sets.bounds import bounds
from spfgen.sets.named import Constraint
from spfgen.sets.uf import linear


@dataclass(frozen=True)
class ChosenRows:
    """Rows of the table: so many, the number of each; the keys of a rank for them, vectors."""

    count: Expr
    row: Expr
    keys: tuple[str, ...] = ()

    @property
    def is_all(self) -> bool:
        return self.row == ROW


class AssemblyBuilder:
    """The steps so far. A column has one element for each entry that is left."""

    def __init__(self, layout: Layout, plan: PackPlan, by_ends: bool = False) -> None:
        self.by_ends = by_ends
        """Whether entries are the two ends of intervals."""
        self.layout, self.plan, self.encoded = layout, plan, plan.encoded
        self.steps: list[AssemblyStep] = []
        self.taken: set[str] = {*layout.parameters, *layout.sizes, ROW.name, COUNT.name}
        self.columns: dict[str, str] = {}
        self.sizes: set[str] = {*layout.parameters}
        self.arrays: dict[str, tuple[str, tuple[Expr, ...]]] = {}
        self.starts: dict[str, Expr] = {}
        self.floors: dict[str, Expr] = {}
        self.alternatives = len(plan.encoded.pieces)

    def new(self, wanted: str) -> str:
        name = fresh(wanted, self.taken)
        self.taken.add(name)
        return name

    @contextmanager
    def inside(self) -> Iterator[list[AssemblyStep]]:
        """Steps that are made within are collected, not added."""
        collected: list[AssemblyStep] = []
        before, self.steps = self.steps, collected
        try:
            yield collected
        finally:
            self.steps = before

    # --- values -------------------------------------------------------------------------------------------

    def knows(self, names: set[str]) -> bool:
        """Whether all these have values for each entry."""
        return names <= {*self.columns, *self.sizes}

    def size(self, value: Affine) -> Expr | None:
        """A value made of sizes that are known, and of quotients of such; None where it is not."""
        quotients: dict[str, Expr] = {}
        for name in value.names():
            if name in self.sizes:
                continue
            quotient = self.encoded.quotients.get(name)
            inner = None if quotient is None else self.size(quotient[0])
            if quotient is None or inner is None:
                return None
            quotients[name] = divided(inner, quotient[1])
        written: Expr = substitute(expression(value), quotients)
        return written

    def value(self, value: Affine, row: Expr = ROW, divisor: int = 1) -> Expr:
        """The value for an entry."""
        return divided(self.text(expression(value), row), divisor)

    def text(self, expr: Expr, row: Expr = ROW) -> Expr:
        """An expression without calls for an entry."""
        missing = variables(expr) - {*self.columns, *self.sizes}
        if missing:
            raise InternalError(f"assembling `{self.layout.name}` does not know {sorted(missing)}")
        text: Expr = substitute(expr, {n: at(v, row) for n, v in self.columns.items() if n in variables(expr)})
        return text

    def called(self, expr: Expr, values: Mapping[str, Expr]) -> tuple[Expr, list[Formula]]:
        """An expression whose calls are elements of arrays that are made; the conditions that they lie inside."""
        match expr:
            case Call(function, arguments):
                vector, shape = self.arrays[function]
                parts = [self.called(a, values) for a in arguments]
                conditions = [c for _, more in parts for c in more]
                inside = within_shape([e for e, _ in parts], shape)
                place = flat(shape, [e for e, _ in parts])
                return Choose(conjunction([*conditions, *inside]), at(vector, place), ZERO), [*conditions, *inside]
            case Bin(op, left, right):
                (a, one), (b, two) = self.called(left, values), self.called(right, values)
                return Bin(op, a, b), [*one, *two]
            case Var(name) if name in values:
                return values[name], []
        return expr, []

    def known_values(self, row: Expr = ROW) -> dict[str, Expr]:
        return {n: at(v, row) for n, v in self.columns.items()}

    def let(self, wanted: str, value: Expr) -> Expr:
        if isinstance(value, Num | Var):
            return value
        name = self.new(wanted)
        self.steps.append(Let(name, value))
        return Var(name)

    def vec(self, wanted: str, length: Expr, value: Expr | Formula) -> str:
        match value:
            case Call(vector, (index,)) if index == ROW:
                return vector
        name = self.new(wanted)
        self.steps.append(Vec(name, length, value))
        return name

    def copy(self, wanted: str, length: Expr, value: Expr | Formula) -> str:
        """A vector of its own, which others may change."""
        name = self.new(wanted)
        self.steps.append(Vec(name, length, value))
        return name

    def fold(self, wanted: str, length: Expr, value: Expr | Formula, how: str, initial: Expr = ZERO) -> Expr:
        name = self.new(wanted)
        self.steps.append(Fold(name, length, value, how, initial))
        return Var(name)

    def fail(self, when: Formula, because: str, together: bool = False) -> None:
        self.steps.append(Fail(when, because, together))

    # --- rows ---------------------------------------------------------------------------------------------

    def of_pieces(self, pieces: Sequence[int]) -> Formula | None:
        """That an entry belongs to one of these alternatives; None where all do."""
        if len({*pieces}) == self.alternatives:
            return None
        return Or(tuple(compare(at(PIECE), "=", k) for k in pieces))

    def rows(self, rules: Mapping[int, Ranked]) -> ChosenRows:
        """The entries of the alternatives that have this rank, with their keys."""
        mine = self.of_pieces([*rules])
        count: Expr = COUNT
        row: Expr = ROW
        if mine is not None:
            name, number = self.new("rows"), self.new("rows count")
            self.steps.append(SelectRows(name, number, COUNT, mine))
            count, row = Var(number), at(name)
        width = max(len(r.values) for r in rules.values())
        keys = []
        for k in range(width):
            values = {p: r.values[min(k, len(r.values) - 1)] for p, r in rules.items()}
            keys.append(
                self.vec("key", count, self.by_piece({p: self.value(n, row, d) for p, (n, d) in values.items()}, row))
            )
        return ChosenRows(count, row, tuple(keys))

    def by_piece(self, values: Mapping[int, Expr], row: Expr = ROW, otherwise: Expr = ZERO) -> Expr:
        """The value that the alternative of an entry gives."""
        if len(values) == self.alternatives and len({*values.values()}) == 1:
            return next(iter(values.values()))
        cases = list(values.items())
        result = otherwise
        if len(values) == self.alternatives:
            result = cases.pop()[1]
        for k, value in reversed(cases):
            result = Choose(compare(at(PIECE, row), "=", k), value, result)
        return result

    def keep(self, mask: str, because: str = "") -> None:
        columns = [*dict.fromkeys(self.columns.values()), *([PIECE, MORE, NUMBER] if self.alternatives > 1 else [])]
        self.steps.append(Keep(mask, tuple(columns), because))

    def mask_of(self, rows: ChosenRows, good: Formula) -> str:
        """A mask of the table from a condition on chosen rows; the others stay."""
        if rows.is_all:
            return self.vec("kept", COUNT, good)
        name = self.vec("kept", COUNT, ONE)
        self.steps.append(Into(name, rows.count, rows.row, Choose(good, ONE, ZERO)))
        return name

    def place_rows(self, position: str, rows: ChosenRows, value: Expr) -> None:
        """The column of a position, for these rows."""
        if rows.is_all:
            self.columns[position] = self.vec(position, COUNT, value)
            return
        self.steps.append(Into(self.columns[position], rows.count, rows.row, value))

    # --- what a rank speaks of ----------------------------------------------------------------------------

    def subscripts(self, name: str, row: Expr, without: str = "") -> list[Expr]:
        """The arguments of a call for a row, without those that are the given position."""
        arguments = self.encoded.calls[name].arguments
        return [self.value(linear(a), row) for a in arguments if not without or shift(a, without) is None]

    def groups(self, rank: Rank, row: Expr) -> list[Expr]:
        """What says the group in which a rank counts."""
        if rank.begin:
            return self.subscripts(rank.begin, row)
        if rank.groups is None:
            return self.subscripts(rank.keys[0], row, rank.position)
        return [self.value(v, row) for v in rank.groups]

    def vectors(self, values: Sequence[Expr], count: Expr) -> list[str]:
        return [self.vec("group", count, v) for v in values]

    def quotients(self) -> None:
        """Columns of quotients of what is known."""
        for name, (numerator, divisor) in self.encoded.quotients.items():
            if name not in self.columns and self.knows(numerator.names()):
                self.columns[name] = self.vec(name, COUNT, self.value(numerator, ROW, divisor))

    def learn(self) -> None:
        """Quotients, and elements of arrays at places that are known."""
        before = -1
        while before != len(self.columns):
            before = len(self.columns)
            self.quotients()
            for name, call in self.encoded.calls.items():
                if name not in self.columns and call.function in self.arrays and self.knows(argument_names(call)):
                    self._gather(name, call)

    def open(self, constraints: Sequence[Constraint]) -> list[Constraint]:
        """Those that do not follow from coordinates within their extents."""
        layout, inside = self.layout, list[Constraint]()
        for x, n in zip(layout.coordinates, layout.parameters, strict=True):
            inside += [Constraint(False, Affine(((x, 1),))), Constraint(False, Affine(((n, 1), (x, -1)), -1))]
        about = self.encoded.space.of(inside)
        return [c for c in constraints if not about.implies(c)]

    def _gather(self, name: str, call: Call) -> None:
        vector, shape = self.arrays[call.function]
        places = [self.value(linear(a)) for a in call.arguments]
        inside = conjunction(within_shape(places, shape))
        self.columns[name] = self.vec(name, COUNT, Choose(inside, at(vector, flat(shape, places)), ZERO))
        needed = [k for k, p in enumerate(self.encoded.pieces) if p.constraints(name)]
        if needed:
            mine = self.of_pieces(needed)
            good = inside if mine is None else Or((inside, Not(mine)))
            self.keep(self.vec("kept", COUNT, good), f"entries for which `{call.function}` has an element")

    # --- sizes --------------------------------------------------------------------------------------------

    def solve(self, extent: Affine, value: Expr) -> None:
        """Set the only size of the extent that is not known such that it is at least `value`."""
        unknown = extent.names() - self.sizes
        if len(unknown) != 1:
            return
        name = unknown.pop()
        factor, others = extent.coefficient(name), extent.without(name)
        if factor > 0 and name not in others.names():
            missing = Bin("-", value, expression(others)) if others != Affine(()) else value
            self.set_size(name, Bin("max", ZERO, rounded_up(missing, factor)))

    def set_size(self, name: str, value: Expr) -> None:
        floor = self.floors.get(name)
        self.steps.append(Let(name, value if floor is None else Bin("max", value, floor)))
        self.sizes.add(name)

    def extents(self, declared: IndexArray | ValueArray, needed: Sequence[Callable[[], Expr]]) -> tuple[Expr, ...]:
        """The shape of an array; sizes in its extents that are not known become as large as needed."""
        shape: list[Expr] = []
        for extent, value in zip(declared.extents, needed, strict=True):
            if not variables(extent) <= self.sizes:
                with suppress(NotAffine):
                    self.solve(affine(extent, no_name), value())
            if missing := variables(extent) - self.sizes:
                raise self.unknown(min(missing))
            plain = isinstance(extent, Var) or (isinstance(extent, Num) and extent.value >= 0)
            shape.append(extent if plain else self.let(f"extent of {declared.name}", Bin("max", ZERO, extent)))
        return tuple(shape)

    def unknown(self, size: str) -> Unsupported:
        message = f"layout `{self.layout.name}` cannot be packed: its size `{size}` cannot be derived"
        return Unsupported(message, self.layout.span)

    def extent_of(self, place: Expr, count: Expr, more: int = 0) -> Expr:
        """The extent that an array needs to have these places, and so many more."""
        return plus(self.fold("needed", count, plus(place, 1), "max"), more)

    def key_range(self, name: str) -> tuple[Expr, Expr]:
        """The declared range of a call, both ends included; from 0 on when none is declared."""
        lower, upper = bounds(self.encoded.facts.constraints(name), name)
        lows = [negated(divided(e, a)) for a, e in self.sized(lower)]
        highs = [divided(e, a) for a, e in self.sized(upper)]
        return largest(lows, ZERO), least(highs, Num(2**62))

    def sized(self, bounds: Sequence[tuple[int, Affine]]) -> list[tuple[int, Expr]]:
        """Those that are made of sizes that are known."""
        known = [(a, self.size(e)) for a, e in bounds]
        return [(a, e) for a, e in known if e is not None]

    def mark(self, array: str) -> Expr | None:
        """What marks unused places of an array, where that is known."""
        value = self.plan.sentinels.get(array)
        return expression(value) if value is not None and value.names() <= self.sizes else None

    def at_least(self, rank: Rank, condition: Formula) -> None:
        """Where the condition holds, there is room for one position at least: sizes in its bounds are so large."""
        for a, high in rank.highs:
            unknown = high.names() - self.sizes
            name = min(unknown, default="")
            factor, others = high.coefficient(name), high.without(name)
            if len(unknown) == 1 and factor > 0 and name not in others.names():
                value = minus(Num(a * rank.low), expression(others))
                self.floors[name] = Choose(condition, Bin("max", ZERO, rounded_up(value, factor)), ZERO)

    def scan_most(self, name: str, value: Affine) -> None:
        """One more than the most that a value reaches over all points of the relation, with the arrays so far."""
        arrays = {n: v for n, (v, _) in self.arrays.items()}
        self.steps.append(MaxOverPoints("", (), (value,), (), arrays, name))

    def has_capacity(self, rank: Rank) -> bool:
        """Whether sizes that are known say how many slots there are."""
        return bool(self._ends(rank))

    def capacity(self, rank: Rank, needed: Callable[[], Expr]) -> Expr:
        """How many slots there are; solves the sizes in the bounds that are not known yet."""
        known = self._ends(rank)
        if known:
            return self.let("width", Bin("max", ZERO, plus(least(known, ZERO), 1 - rank.low)))
        width = self.let("width", needed())
        for a, high in rank.highs:
            self.solve(high, times(Num(a), plus(width, rank.low - 1)))
        return width

    def _ends(self, rank: Rank) -> list[Expr]:
        """What the last slot is not above."""
        known = [divided(e, a) for a, e in self.sized(rank.highs)]
        for key in rank.keys:
            call = self.encoded.calls[key]
            for argument, extent in zip(call.arguments, self.layout.index(call.function).extents, strict=True):
                further = shift(argument, rank.position)
                whole = None if further is None else self._sized_extent(extent)
                if further is not None and whole is not None:
                    known.append(plus(Bin("max", ZERO, whole), -1 - further))
        return known

    def _sized_extent(self, extent: Expr) -> Expr | None:
        return extent if variables(extent) <= self.sizes else None

    # --- arrays -------------------------------------------------------------------------------------------

    def made(self, array: str, vector: str, shape: tuple[Expr, ...]) -> None:
        self.arrays[array] = (vector, shape)

    def write(self, rank: Rank, name: str, rows: ChosenRows, value: Expr, length: Expr, backwards: bool = False) -> str:
        """Write the key array at the entries; other places get the mark, else the low end of the range. Returns a
        vector that says which places the entries have."""
        self.quotients()
        call = self.encoded.calls[name]
        index = self.layout.index(call.function)
        places = self.subscripts(name, rows.row)
        shifts = [shift(a, rank.position) if rank.position else None for a in call.arguments]

        def needs(place: Expr, further: int | None) -> Callable[[], Expr]:
            if further is None:
                return lambda: self.extent_of(place, rows.count)
            return lambda: Bin("max", plus(length, further), self.extent_of(place, rows.count))

        shape = self.extents(index, [needs(p, s) for p, s in zip(places, shifts, strict=True)])
        for further, extent in zip(shifts, shape, strict=True):
            if further is not None:
                self.fail(
                    compare(plus(length, further), ">", extent), f"there are too many positions `{rank.position}`"
                )
        low, _ = self.key_range(name)
        mark = self.mark(index.name)
        vector = self.new(index.name)
        self.steps.append(Vec(vector, product(shape), low if mark is None else mark))
        inside = conjunction(within_shape(places, shape))
        place = flat(shape, places)
        self.steps.append(Into(vector, rows.count, place, value, "set", inside, backwards))
        written = self.new("said")
        self.steps.append(Vec(written, product(shape), ZERO))
        self.steps.append(Into(written, rows.count, place, ONE, "set", inside))
        self.made(index.name, vector, shape)
        return written

    def when(self, condition: Formula, then: Sequence[AssemblyStep], otherwise: Sequence[AssemblyStep] = ()) -> None:
        self.steps.append(When(condition, tuple(then), tuple(otherwise)))


# --- expressions ----------------------------------------------------------------------------------------------


def divided(value: Expr, divisor: int) -> Expr:
    if divisor == 1:
        return value
    return Num(value.value // divisor) if isinstance(value, Num) else Bin("/", value, Num(divisor))


def rounded_up(value: Expr, divisor: int) -> Expr:
    return value if divisor == 1 else divided(plus(value, divisor - 1), divisor)


def negated(value: Expr) -> Expr:
    return Num(-value.value) if isinstance(value, Num) else Bin("-", ZERO, value)


def largest(values: Sequence[Expr], default: Expr) -> Expr:
    return _folded("max", values, default)


def least(values: Sequence[Expr], default: Expr) -> Expr:
    return _folded("min", values, default)


def _folded(op: str, values: Sequence[Expr], default: Expr) -> Expr:
    distinct = list(dict.fromkeys(values))
    if not distinct:
        return default
    result = distinct[0]
    for value in distinct[1:]:
        result = Bin(op, result, value)
    return result


def within_shape(places: Sequence[Expr], shape: Sequence[Expr]) -> list[Formula]:
    """That the places lie within an array."""
    result: list[Formula] = []
    for place, extent in zip(places, shape, strict=True):
        result += [compare(ZERO, "<=", place), compare(place, "<", extent)]
    return result


def flat(shape: Sequence[Expr], places: Sequence[Expr]) -> Expr:
    """Where an element lies when an array is read row by row."""
    result: Expr = ZERO
    for place, extent in zip(places, shape, strict=True):
        result = place if result == ZERO else plus(times(result, extent), place)
    return result


def all_hold(constraints: Sequence[Constraint], value: Callable[[Affine], Expr]) -> Formula:
    return conjunction([compare(value(c.value), "=" if c.equality else ">=", 0) for c in constraints])


def no_name(call: object) -> str:
    raise NotAffine(call)  # type: ignore[arg-type]
