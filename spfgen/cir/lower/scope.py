"""What is in force at a point of a kernel's nest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from spfgen.cir.tree import nodes as c
from spfgen.facts.formula import Call, Expr
from spfgen.lang.types import ElementType
from spfgen.plan.nodes import State, Table
from spfgen.space.nodes import Operand


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

    table: Table
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
class Scope:
    """What is in force at a point of the nest: expressions to put in place of loaded values, running sums, states and
    tables of finds, values that a scatter has copied; `thread` is the number of the thread in a parallel loop,
    `waiting` are states that a parallel loop must start, `when` is the condition of the variant, `known` are tables
    that are known to have the key; `numbers`: all values that are added are taken for numbers; `held` are values that
    were read above the loop; `rows` are places whose values are kept elsewhere: in a tile, or for each of several
    neighbours a sum; `folded` are the variables of sums within a value; `paired` is the
    inspector around; `falling` are sums that hold what is left of a value when they are taken off it, `carried` those
    that a loop around goes on with; `clears` is the result that the next loop on threads clears as it clears copies of
    it; `entries` are the lists to which entries of a tensor go here, `rows_of` the
    workspaces of those that are gathered first, and the coordinate that they do not have in common."""

    inline: Mapping[str, Call] = field(default_factory=dict)
    sums: Mapping[tuple[str, tuple[Expr, ...]], tuple[str, ElementType]] = field(default_factory=dict)
    states: Mapping[str, FindState] = field(default_factory=dict)
    tables: Mapping[str, Built] = field(default_factory=dict)
    copied: Mapping[Operand, c.Expr] = field(default_factory=dict)
    thread: c.Expr | None = None
    looped: bool = False
    waiting: tuple[State, ...] = ()
    when: c.Expr | None = None
    atomic: bool = False
    clears: str = ""
    known: frozenset[str] = frozenset()
    numbers: bool = False
    held: Mapping[Operand, c.Expr] = field(default_factory=dict)
    rows: Mapping[tuple[str, tuple[Expr, ...]], tuple[c.Expr, ElementType]] = field(default_factory=dict)
    folded: Mapping[str, tuple[str, ElementType]] = field(default_factory=dict)
    paired: Paired | None = None
    falling: frozenset[str] = frozenset()
    carried: frozenset[str] = frozenset()
    cleared: tuple[c.Stmt, ...] = ()
    entries: Mapping[str, c.Expr] = field(default_factory=dict)
    rows_of: Mapping[str, tuple[c.Expr, int]] = field(default_factory=dict)

    def inlined(self, dim: str, call: Call) -> Scope:
        return replace(self, inline={**self.inline, dim: call})

    def running(self, target: Operand) -> tuple[str, ElementType] | None:
        """The variable in which a target is summed here, and its type."""
        return self.sums.get((target.tensor, target.place)) or self.folded.get(target.tensor)

    def summed(self, target: Operand, name: str, kind: ElementType) -> Scope:
        return replace(self, sums={**self.sums, (target.tensor, target.place): (name, kind)})
