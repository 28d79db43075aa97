"""What is looked for, and what that needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from spfgen.facts.formula import Call, Compare, Expr, Formula, Var, show
from spfgen.facts.reach import RangeStep, compared
from spfgen.plan.nodes.base import Inside, Nested, Plan, product
from spfgen.plan.nodes.loops import Partition, partition_text
from spfgen.plan.text import interval
from spfgen.space.nodes import Operand


@dataclass(frozen=True, slots=True)
class Loaded:
    """A call that a find loads at each position; unpacks to (dimension, call). `in_place` as for a Load."""

    dim: str
    call: Call
    in_place: bool = False

    def __iter__(self) -> Iterator[Any]:
        yield self.dim
        yield self.call


@dataclass(frozen=True, slots=True)
class Key:
    """What a find looks for: the loaded call `dim` equals `value`.

    `descending`: the array falls along the positions (else it rises); `unique`: no two positions hold one value;
    `backward`: a sequential find runs from the end to the start; `inside`: the value is known to be one that a table
    has a place for.
    """

    dim: str
    value: Expr
    descending: bool = False
    unique: bool = False
    backward: bool = False
    inside: bool = True


@dataclass(frozen=True, slots=True)
class Rejected:
    """An algorithm that was not taken, and why."""

    algorithm: str
    why: str


@dataclass(frozen=True, slots=True)
class Find(Plan):
    """The positions `dim` in [low, high) at which the loaded calls satisfy the key and the conditions.

    `hit` runs for each of them; `miss`, if it is given, runs once if there is none.
    """

    dim: str
    low: tuple[Expr, ...]
    high: tuple[Expr, ...]
    loads: tuple[Loaded, ...]
    conditions: tuple[Formula, ...]
    """Without a key (the plain loop) they say everything."""
    algorithm: str
    hit: Plan
    miss: Plan | None = None
    parallel: bool = False
    because: str = ""
    key: Key | None = None
    """The value that is searched for."""
    given: tuple[Formula, ...] = ()
    """What holds of every position in [low, high), because a segment says so."""
    place: str = ""
    """The state or the table that the algorithm uses."""
    at: tuple[Expr, ...] = ()
    """The subscripts of that state here."""
    rejected: tuple[Rejected, ...] = ()
    """Algorithms that were not taken, with the reasons."""
    partition: Partition | None = None
    """How threads share it, if it is `parallel`."""

    def calls(self) -> dict[str, Call]:
        """The loaded calls by their dimensions."""
        return {loaded.dim: loaded.call for loaded in self.loads}

    @property
    def meaning(self) -> Find | None:
        """For a find of a key the one that compares every position with it."""
        if self.key is None:
            return None
        equal = Compare("=", Var(self.key.dim), self.key.value)
        conditions = (equal, *self.conditions)
        return replace(self, algorithm="plain loop", key=None, conditions=conditions, place="", at=())

    @property
    def inner(self) -> Plan:
        return self.hit

    def with_inner(self, inner: Plan) -> Plan:
        return replace(self, hit=inner)

    def computed(self) -> Iterator[RangeStep]:
        yield RangeStep((() if self.key is None else (self.key.value,)) + self.at)
        yield RangeStep((), self.dim, self.low, self.high)
        yield from (RangeStep((loaded.call,), loaded.dim) for loaded in self.loads)
        yield RangeStep(tuple(compared(self.conditions)))

    @property
    def label(self) -> str:
        wanted = [] if self.key is None else [f"{self.key.dim} = {show(self.key.value)}"]
        keys = " and ".join([*wanted, *map(show, self.conditions)])
        text = f"find {self.dim} in {interval(self.low, self.high)} with {keys} by {self.algorithm}"
        return text + (partition_text(self.partition) if self.parallel else "")

    def shown(self) -> Iterator[Inside]:
        if self.miss is None:
            yield Inside(self.hit)
        else:
            yield Inside(self.hit, "hit:")
            yield Inside(self.miss, "miss:")


@dataclass(frozen=True, slots=True)
class Segment(Nested):
    """`start` and `end` bound the positions `dim` of [low, high) at which `call` equals the key's value.

    The call is sorted there. Found by binary search, or from the state `place` on.
    """

    DEEPER = 0

    dim: str
    start: str
    end: str
    low: tuple[Expr, ...]
    high: tuple[Expr, ...]
    call: Call
    key: Key
    algorithm: str
    body: Plan
    because: str = ""
    place: str = ""
    at: tuple[Expr, ...] = ()
    rejected: tuple[Rejected, ...] = ()

    def computed(self) -> Iterator[RangeStep]:
        yield RangeStep((self.key.value, *self.at))
        yield from (RangeStep((), n, self.low, self.high, end=n != self.dim) for n in (self.dim, self.start, self.end))
        yield RangeStep((self.call,))

    @property
    def label(self) -> str:
        which = f"with {show(self.call)} = {show(self.key.value)} by {self.algorithm}"
        return f"segment [{self.start}, {self.end}) of the {self.dim} in {interval(self.low, self.high)} {which}"


@dataclass(frozen=True, slots=True)
class BoundSearch(Nested):
    """`name` is the first position `dim` of [low, high) at which `call`, which rises there (falls: `descending`), is no
    longer before `value`; the end when there is none. `condition` holds of all positions on the side that is taken.

    Found by a search, which begins at the first position where it is `near`, or in the table `place`; `inside`: the
    value is one that the table has a place for.
    """

    DEEPER = 0

    name: str
    dim: str
    low: tuple[Expr, ...]
    high: tuple[Expr, ...]
    call: Call
    value: Expr
    descending: bool
    condition: Formula
    body: Plan
    because: str = ""
    place: str = ""
    inside: bool = False
    near: bool = False

    def computed(self) -> Iterator[RangeStep]:
        yield from (RangeStep((), n, self.low, self.high, end=n != self.dim) for n in (self.dim, self.name))
        yield RangeStep((self.call, self.value))

    @property
    def label(self) -> str:
        past = f"{show(self.call)} {'<=' if self.descending else '>='} {show(self.value)}"
        by = ", by inverse array" if self.place else ", by galloping" if self.near else ""
        return f"let {self.name} be the first {self.dim} in {interval(self.low, self.high)} with {past}{by}"


@dataclass(frozen=True, slots=True)
class Reach(Nested):
    """The body runs if the values that `call` holds at the positions `dim` of [low, high) reach into [first, last): the
    first and the last of them say so, since it rises there (falls: `descending`)."""

    dim: str
    low: tuple[Expr, ...]
    high: tuple[Expr, ...]
    call: Call
    first: Expr
    last: Expr
    descending: bool
    body: Plan
    because: str = ""

    def computed(self) -> Iterator[RangeStep]:
        yield RangeStep((), self.dim, self.low, self.high)
        yield RangeStep((self.call, self.first, self.last))

    @property
    def label(self) -> str:
        where = f"{self.dim} in {interval(self.low, self.high)}"
        return f"if {show(self.call)} for {where} reaches into [{show(self.first)}, {show(self.last)})"

    @property
    def meaning(self) -> Plan | None:
        return self.body


@dataclass(frozen=True, slots=True)
class SearchState(Nested):
    """A position that a sequential find keeps from one iteration of the loops inside to the next.

    One for each value of `over` (none: a scalar). With `extents` it is an array over those values; without, it starts
    anew whenever they change. It starts at `low` (`high` when it runs backwards), or by a search at its first use
    when `low` is empty. It is proved that the keys run one way in so many `loops` inside, not in more.
    """

    DEEPER = 0

    name: str
    low: tuple[Expr, ...]
    high: tuple[Expr, ...]
    backward: bool
    over: tuple[Expr, ...]
    extents: tuple[Expr, ...]
    body: Plan
    because: str = ""
    loops: int = 0

    def computed(self) -> Iterator[RangeStep]:
        yield RangeStep((*self.low, *self.high, *self.over, *self.extents, product(self.extents)))

    @property
    def label(self) -> str:
        kind = f"one for each of {', '.join(map(show, self.over))}" if self.over else "one"
        anew = "started anew when it changes" if self.over else "kept in the loops inside"
        backwards = ", running backwards" if self.backward else ""
        return f"state {self.name}: {kind}, {'in an array' if self.extents else anew}{backwards}"

    @property
    def meaning(self) -> Plan | None:
        return self.body


@dataclass(frozen=True, slots=True)
class FindTable(Nested):
    """An index of the positions `dim` in [low, high) by what `calls` hold there, built here and used inside.

    `extent`: the values of the call lie in [0, extent). `order` says how positions of one key are kept: "unique" (at
    most one), "side by side", or "chained"; an inverse array keeps the "first" whose key is no longer below. `rising`
    says that the keys rise: so it is wherever a find asks the table, not where none ever does. `values` is the operand
    that a scatter copies.
    """

    DEEPER = 0

    name: str
    kind: str
    dim: str
    low: tuple[Expr, ...]
    high: tuple[Expr, ...]
    call: Call
    extent: Expr
    order: str
    body: Plan
    values: Operand | None = None
    rising: bool = False
    because: str = ""

    def computed(self) -> Iterator[RangeStep]:
        yield RangeStep((), self.dim, self.low, self.high)
        yield RangeStep((self.call, self.extent))

    @property
    def label(self) -> str:
        article = "an" if self.kind[0] in "aeiou" else "a"
        return f"build {article} {self.kind} of {self.dim} in {interval(self.low, self.high)} by {show(self.call)}"

    @property
    def meaning(self) -> Plan | None:
        return self.body
