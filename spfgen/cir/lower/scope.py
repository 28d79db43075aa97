"""What is in force at a point of a kernel's nest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from spfgen.cir.tree import nodes as c
from spfgen.facts.formula import Call, Expr
from spfgen.lang.types import ElementType
from spfgen.plan.nodes import Append, FindTable, SearchState
from spfgen.space.nodes import Monoid, Operand

Place = tuple[str, tuple[Expr, ...] | None]
"""A tensor, and where in its array."""


@dataclass(frozen=True)
class FindState:
    """The C of a state: the position (`at`), what tells its index apart (`tag`), whether it may not be seated yet.

    An array holds positions plus one, so that zero means «not seated».
    """

    at: str
    tag: str
    array: bool
    seated: bool


@dataclass(frozen=True)
class Built:
    """The C of a table: its arrays by role, the bounds of its range, and the number of keys it has room for."""

    table: FindTable
    arrays: Mapping[str, c.Expr]
    low: c.Expr
    high: c.Expr
    extent: c.Expr


@dataclass(frozen=True)
class Paired:
    """An inspector of levels: where its order is `kept`, its own iteration, and the first one that runs."""

    kept: c.Expr
    own: c.Expr
    origin: c.Expr
    down: bool


@dataclass(frozen=True)
class Accumulator:
    """The C of an accumulator: the variable or the element, and its type. It `falls` when what is added is taken off
    it. `written_out`: it is one of a few neighbours, and the loops that add to them are written out. Values are
    combined by the `monoid`, added without one; it `begins` where it holds nothing yet."""

    place: c.Expr
    type: ElementType
    falls: bool = False
    written_out: bool = False
    monoid: Monoid | None = None
    begins: bool = False

    @property
    def variable(self) -> str:
        """The name of its variable; "" where it is an element of an array."""
        return self.place.name if isinstance(self.place, c.Name) else ""


class Run(Protocol):
    """One of the runs of a loop that count entries of a tensor, or bring them to their place (placing.py)."""

    @property
    def in_lanes(self) -> bool:
        """Whether the parts of a loop count for themselves."""

    @property
    def groups(self) -> c.Expr:
        """How many counters each has."""

    def append(self, low: Any, plan: Append, scope: Scope, value: c.Expr) -> list[c.Stmt]:
        """An entry."""

    def divided(self, low: Any, count: c.Expr, number: c.Expr) -> tuple[list[c.Stmt], Run]:
        """Within one of so many parts of a loop: a declaration, and the run."""


@dataclass(frozen=True)
class Scope:
    """What is in force at a point of the nest: expressions to put in place of loaded values, accumulators, states and
    tables of finds, values that a scatter has copied; `thread` is the number of the thread in a parallel loop,
    `waiting` are states that a parallel loop must start, `when` is the condition of the variant, `known` are tables
    that are known to have the key; `numbers`: all values that are added are taken for numbers; `paired` is the
    inspector around; `entries` are the lists to which entries of a tensor go here, `rows_of` the workspaces of those
    that are gathered first, and the coordinate that they do not have in common, `runs` those that count entries of a
    tensor or bring them to their place; where `partly` is true a total is only
    a part of it.

    Accumulators are known by their tensor and place; those of temporaries, which have one place, by the tensor."""

    inline: Mapping[str, Call] = field(default_factory=dict)
    accumulators: Mapping[Place, Accumulator] = field(default_factory=dict)
    states: Mapping[str, FindState] = field(default_factory=dict)
    tables: Mapping[str, Built] = field(default_factory=dict)
    copied: Mapping[Operand, c.Expr] = field(default_factory=dict)
    thread: c.Expr | None = None
    looped: bool = False
    waiting: tuple[SearchState, ...] = ()
    when: c.Expr | None = None
    atomic: bool = False
    known: frozenset[str] = frozenset()
    numbers: bool = False
    paired: Paired | None = None
    entries: Mapping[str, c.Expr] = field(default_factory=dict)
    partly: c.Expr | None = None
    rows_of: Mapping[str, tuple[c.Expr, int]] = field(default_factory=dict)
    runs: Mapping[str, Run] = field(default_factory=dict)

    def inlined(self, dim: str, call: Call) -> Scope:
        return replace(self, inline={**self.inline, dim: call})

    def accumulator(self, target: Operand) -> Accumulator | None:
        """What a target is added to here, if that is not the memory of its array."""
        return self.accumulators.get((target.tensor, target.place)) or self.temporary(target.tensor)

    def temporary(self, tensor: str) -> Accumulator | None:
        """The accumulator of a temporary that has one place."""
        return self.accumulators.get((tensor, None))

    def running(self, target: Operand) -> Accumulator | None:
        """The accumulator of a target here, if it is a variable."""
        accumulator = self.accumulator(target)
        return accumulator if accumulator is not None and accumulator.variable else None

    def accumulating(self, target: Operand, at: Accumulator) -> Scope:
        """Within an accumulator of this target."""
        return replace(self, accumulators={**self.accumulators, (target.tensor, target.place): at})

    def renamed(self, old: str, new: str, begins: bool = False) -> Scope:
        """With another variable for an accumulator, which may hold nothing yet."""
        pairs = self.accumulators.items()
        accumulators = {k: replace(a, place=c.Name(new), begins=begins) if a.variable == old else a for k, a in pairs}
        return replace(self, accumulators=accumulators)
