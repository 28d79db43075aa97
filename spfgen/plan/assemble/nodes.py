"""The nodes of an assembly: steps over columns with one row for each entry, and over the arrays that are made.

    Assembly ::= layout, Step*, fallback
    Step     ::= Let | Vec | Into | Fold | Ranks | Sort | Offsets | Running | Rows | Keep | Move | Fail
               | When(condition, Step*, Step*) | Repeat(Step*) | Blocks | Patterns | Filler | Movable
               | Insert (an index array is done) | Store (values to their places) | Shared | Facts

A vector holds 64-bit integers; a scalar is one. Expressions are those of facts/formula.py: a name is a scalar, a call
is an element of a vector, `ROW` is the number of the element that a step is at. What a step makes has a name of its
own; the names of the layout's sizes are scalars.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from spfgen.facts.formula import Bin, Call, Compare, Expr, Formula, Num, Var, show
from spfgen.layout.nodes import Layout
from spfgen.sets.affine import Affine

ROW = Var("#")
COUNT = Var("# entries")
PIECE, MORE, NUMBER = "# alternative", "# has more", "# number"
"""Columns: which alternative of the relation an entry belongs to, whether there are further ones for it, and which
entry it was at the beginning."""
LINKED = "# linked"
"""A column of entries that are the ends of intervals: whether one is the end of that which the one before begins."""
FIRST = "# from"
"""From which alternative on each entry may take one."""


@dataclass(frozen=True, slots=True)
class Choose(Expr):
    """`yes` where the condition holds, else `no`, which alone is computed then."""

    condition: Formula
    yes: Any
    no: Any


@dataclass(frozen=True, slots=True)
class UpperBound(Expr):
    """How many of the first `length` elements of a sorted vector are not above the value."""

    vector: str
    length: Any
    value: Any


@dataclass(frozen=True, slots=True)
class SameValue(Formula):
    """Whether the values of two entries are the same, bit by bit."""

    one: Any
    other: Any


@dataclass(frozen=True, slots=True)
class Differs(Formula):
    """Whether the value of an entry is not the fill value: bit by bit, or as a number."""

    row: Any
    as_number: bool = False


@dataclass(frozen=True, slots=True)
class ValueWord(Expr):
    """The bytes of the value of an entry as integers: the first eight of them, or the others."""

    row: Any
    word: int


class AssemblyStep:
    """What may stand in an assembly."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Let(AssemblyStep):
    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Vec(AssemblyStep):
    """A new vector: `value` at each place `ROW` below `length` (a formula is 0 or 1)."""

    name: str
    length: Expr
    value: Expr | Formula


@dataclass(frozen=True, slots=True)
class Into(AssemblyStep):
    """For each row below `length`, where the condition holds, in turn: the element at `place` becomes the value, or the
    most of both, the least, or the sum. `backwards`: the last row comes first."""

    vector: str
    length: Expr
    place: Expr
    value: Expr
    how: str = "set"
    when: Formula | None = None
    backwards: bool = False


@dataclass(frozen=True, slots=True)
class Fold(AssemblyStep):
    """The most, the least or the sum of the value over all rows."""

    name: str
    length: Expr
    value: Expr | Formula
    how: str
    initial: Expr


@dataclass(frozen=True, slots=True)
class Ranks(AssemblyStep):
    """Number rows by columns: `rank` of each row among the distinct ones in order, one row `first` of each of them,
    `total` of them."""

    rank: str
    first: str
    total: str
    length: Expr
    columns: tuple[str, ...]
    because: str = ""


@dataclass(frozen=True, slots=True)
class Sort(AssemblyStep):
    """The rows in the order of the columns, the first one foremost; equal ones as they come."""

    order: str
    length: Expr
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Offsets(AssemblyStep):
    """A vector of lengths becomes one of begins, each the sum of the lengths before it; `total` is the sum of all."""

    vector: str
    length: Expr
    total: str
    because: str = ""


@dataclass(frozen=True, slots=True)
class Running(AssemblyStep):
    """Along each row of `width` elements each becomes the most (the least) of all up to it, or `backwards` from it."""

    vector: str
    length: Expr
    width: Expr
    least: bool = False
    backwards: bool = False


@dataclass(frozen=True, slots=True)
class SelectRows(AssemblyStep):
    """The numbers of the rows for which the condition holds."""

    name: str
    count: str
    length: Expr
    when: Formula


@dataclass(frozen=True, slots=True)
class Keep(AssemblyStep):
    """Other rows go to another alternative, if they have one; if not, they must be fill values, and are dropped.
    `columns` are those of the table."""

    mask: str
    columns: tuple[str, ...]
    because: str = ""


@dataclass(frozen=True, slots=True)
class Move(AssemblyStep):
    """These rows go to another alternative: all begins anew."""

    mask: str


@dataclass(frozen=True, slots=True)
class Fail(AssemblyStep):
    """The layout has no place for the entries; `together`: it might have for fewer of them."""

    when: Formula
    because: str
    together: bool = False


@dataclass(frozen=True, slots=True)
class When(AssemblyStep):
    condition: Formula
    then: tuple[AssemblyStep, ...]
    otherwise: tuple[AssemblyStep, ...] = ()


@dataclass(frozen=True, slots=True)
class Repeat(AssemblyStep):
    """Again, until its last step, a Keep, drops nothing."""

    body: tuple[AssemblyStep, ...]


@dataclass(frozen=True, slots=True)
class NumberBlocks(AssemblyStep):
    """The number of the block of each row, in the order of groups: the smallest ranges such that [low, high] of each
    row lies in one."""

    name: str
    length: Expr
    group: str
    low: str
    high: str


@dataclass(frozen=True, slots=True)
class Patterns(AssemblyStep):
    """A number for each of `groups` groups of rows that two share when their rows have the same `content`."""

    name: str
    length: Expr
    group: str
    content: str
    groups: Expr


@dataclass(frozen=True, slots=True)
class Filler(AssemblyStep):
    """For each group the least keys from `low` on that it does not have, so that it has `width` in all: `total` new
    pairs of a group and a key."""

    group: str
    key: str
    total: str
    length: Expr
    groups_of: str
    keys_of: str
    groups: Expr
    width: Expr
    low: Expr


@dataclass(frozen=True, slots=True)
class Movable(AssemblyStep):
    """A mask of `rows`: those in the last slots of groups with more than `width` that have another alternative."""

    mask: str
    length: Expr
    group: str
    slot: str
    more: str
    sizes: str
    groups: Expr
    width: Expr


@dataclass(frozen=True, slots=True)
class MaxOverPoints(AssemblyStep):
    """Over all points of the relation, as far as `arrays` (their vectors) say it: the element of `vector` at the
    `places` becomes one more than the most of `values`; without a vector, `most` is one more than the place reaches.
    `groups`: vectors whose element there becomes a value."""

    vector: str
    shape: tuple[Expr, ...]
    places: tuple[Affine, ...]
    values: tuple[Expr, ...]
    arrays: Mapping[str, str]
    most: str = ""
    groups: tuple[tuple[str, Affine], ...] = ()


@dataclass(frozen=True, slots=True)
class Insert(AssemblyStep):
    """The index array is done: it goes to the result in its type."""

    array: str
    vector: str
    extents: tuple[Expr, ...]
    because: str = ""


@dataclass(frozen=True, slots=True)
class Store(AssemblyStep):
    """The values of the rows with a place (not below 0) to a value array. `operators`: (a column, operators) for values
    that are turned first."""

    array: str
    length: Expr
    places: str
    turned: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class CheckShared(AssemblyStep):
    """The arrays hold no entries but those that were given, each once."""

    because: str = ""


@dataclass(frozen=True, slots=True)
class CheckFacts(AssemblyStep):
    """The arrays satisfy what the layout declares."""

    because: str = ""


@dataclass(frozen=True)
class Assembly:
    """How a layout's arrays are made of entries: coordinates that are vectors, sorted, each once. `fallbacks` are tried
    where this finds no place. `axis`: the entries are the two ends of intervals along that coordinate, none of which
    may be dropped."""

    layout: Layout
    steps: tuple[AssemblyStep, ...]
    alternatives: int
    fallbacks: tuple[Assembly, ...] = ()
    axis: int | None = None

    def lines(self) -> Iterator[tuple[str, str]]:
        """What is done, in words, each with the reason."""
        for step in steps_in(self.steps):
            match step:
                case Ranks(because=why) if why:
                    yield "number entries", why
                case Offsets(because=why) if why:
                    yield "offsets", why
                case Keep(because=why) if why:
                    yield "keep", why
                case Insert(array, _, extents, why):
                    shape = "".join(f"[{show(e)}]" for e in extents)
                    yield f"insert {array}", why or f"its elements are {shape or 'one'}"
                case Store(array):
                    yield f"insert {array}", "the values"
                case CheckShared(because=why) | CheckFacts(because=why):
                    yield "check", why


def at(vector: str, index: Expr = ROW) -> Expr:
    """An element of a vector."""
    return Call(vector, (index,))


def plus(a: Expr, b: Expr | int) -> Expr:
    b = Num(b) if isinstance(b, int) else b
    if isinstance(a, Num) and isinstance(b, Num):
        return Num(a.value + b.value)
    if b == Num(0):
        return a
    return b if a == Num(0) else Bin("+", a, b)


def minus(a: Expr, b: Expr | int) -> Expr:
    b = Num(b) if isinstance(b, int) else b
    return a if b == Num(0) else Bin("-", a, b)


def times(a: Expr, b: Expr) -> Expr:
    if Num(1) in (a, b):
        return b if a == Num(1) else a
    return Num(0) if Num(0) in (a, b) else Bin("*", a, b)


def product(parts: tuple[Expr, ...]) -> Expr:
    result: Expr = Num(1)
    for part in parts:
        result = times(result, part)
    return result


def compare(a: Expr, op: str, b: Expr | int) -> Compare:
    return Compare(op, a, Num(b) if isinstance(b, int) else b)


def steps_in(steps: tuple[AssemblyStep, ...]) -> Iterator[AssemblyStep]:
    """All steps, those within others behind them."""
    for step in steps:
        yield step
        match step:
            case When(_, then, otherwise):
                yield from steps_in(then)
                yield from steps_in(otherwise)
            case Repeat(body):
                yield from steps_in(body)
