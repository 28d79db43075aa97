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
    """What is in force at one point of a nest."""

    inline: Mapping[str, Call] = field(default_factory=dict)
    """Loaded values that are not declared: the call is written wherever one is used."""
    accumulators: Mapping[Place, Accumulator] = field(default_factory=dict)
    """By tensor and place; those of temporaries, which have one place, by the tensor alone."""
    states: Mapping[str, FindState] = field(default_factory=dict)
    """States of finds."""
    tables: Mapping[str, Built] = field(default_factory=dict)
    """Tables of finds."""
    copied: Mapping[Operand, c.Expr] = field(default_factory=dict)
    """Values that a scatter has copied."""
    thread: c.Expr | None = None
    """The number of the thread, in a parallel loop."""
    looped: bool = False
    """There is a loop around."""
    waiting: tuple[SearchState, ...] = ()
    """States that a parallel loop must start."""
    when: c.Expr | None = None
    """The condition of the version."""
    atomic: bool = False
    """Additions to memory are atomic."""
    known: frozenset[str] = frozenset()
    """Tables that are known to have the key."""
    numbers: bool = False
    """All values that are added are taken for finite numbers."""
    paired: Paired | None = None
    """The inspector around."""
    entries: Mapping[str, c.Expr] = field(default_factory=dict)
    """The lists to which entries of a tensor are appended."""
    partly: c.Expr | None = None
    """Where this is true, a total is only a part of the sum."""
    rows_of: Mapping[str, tuple[c.Expr, int]] = field(default_factory=dict)
    """The workspace in which entries of a tensor are gathered first, with the axis along which they differ."""
    runs: Mapping[str, Run] = field(default_factory=dict)
    """What counts the entries of a tensor, or puts them in their place."""

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
