"""Entries that go to their place at once (plan/assemble/in_place.py): the loops twice, with room made in between.

What each run does with an entry, and how room is made, is for the form of the result to say (placed.py). Parts of a
parallel loop have a lane each: counters, or marks, of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Protocol

from spfgen.cir.lower.scope import Run, Scope
from spfgen.cir.lower.state import Lowering
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.affine import ExprLowering
from spfgen.plan.nodes import Append, InPlace


class PlacingTarget(Protocol):
    """How the entries of a result get to their place."""

    plan: InPlace
    counters: c.Name
    """The first lane."""
    lane: str
    """The type of a pointer to one."""
    stride: c.Expr
    """How many elements a lane has."""
    groups: c.Expr
    """How much there is for each lane to go through."""
    spread: c.Name
    """What is known of how far apart entries go."""

    def names(self, low: Lowering, coordinates: Sequence[c.Expr]) -> tuple[list[c.Stmt], ExprLowering]: ...

    def entry(self, low: Lowering, run: Placing, names: ExprLowering, value: c.Expr) -> list[c.Stmt]: ...

    def both(self, low: Lowering, scope: Scope) -> list[c.Stmt]: ...


@dataclass
class Lanes:
    """How many lanes there are so far."""

    counts: list[c.Expr] = field(default_factory=list)

    def taken(self, count: c.Expr) -> c.Expr:
        """Where so many more begin."""
        first = self.total
        self.counts.append(count)
        return first

    @property
    def total(self) -> c.Expr:
        return reduce(lambda a, b: c.Bin("+", a, b), self.counts) if self.counts else c.Int(0)


@dataclass(frozen=True)
class Placing:
    """One of the runs (`count`, `insert`, or `sample`, which looks how far apart entries go): the tensor's target; the
    lanes that it has met; the lane here."""

    target: PlacingTarget
    kind: str
    lanes: Lanes
    lane: c.Expr | None = None

    @property
    def in_lanes(self) -> bool:
        return not self.target.plan.apart

    @property
    def groups(self) -> c.Expr:
        return self.target.groups

    def divided(self, low: Lowering, count: c.Expr, number: c.Expr) -> tuple[list[c.Stmt], Run]:
        """Within one of so many parts of a loop: a declaration, and the run."""
        if not self.in_lanes or self.kind == "sample":
            return [], self
        first = self.lanes.taken(count)
        number = number if first == c.Int(0) else c.Bin("+", first, number)
        lane = c.Name(low.names.new(f"{self.target.plan.tensor}_own"))
        return [c.Declare(self.target.lane, lane.name, self.lane_at(number))], replace(self, lane=lane)

    def element(self, index: c.Expr) -> c.Expr:
        """An element of the lane of an entry: where no part has one, each nest takes one."""
        if self.lane is not None:
            return c.Load(self.lane, index)
        number = c.Int(0) if self.target.plan.apart else self.lanes.taken(c.Int(1))
        moved = index if number == c.Int(0) else c.Bin("+", c.Bin("*", number, self.target.stride), index)
        return c.Load(self.target.counters, moved)

    def lane_at(self, number: c.Expr) -> c.Expr:
        """The lane of that number."""
        moved = number if self.target.stride == c.Int(1) else c.Bin("*", number, self.target.stride)
        return self.target.counters if number == c.Int(0) else c.Bin("+", self.target.counters, moved)

    def here(self) -> c.Expr:
        """The lane of an entry: where no part has one, each nest takes one."""
        if self.lane is not None:
            return self.lane
        return self.lane_at(c.Int(0) if self.target.plan.apart else self.lanes.taken(c.Int(1)))

    def append(self, low: Lowering, plan: Append, scope: Scope, value: c.Expr) -> list[c.Stmt]:
        """An entry is counted, or goes to its place."""
        from spfgen.cir.nest import pruned  # numpy, which is not needed before

        lines, names = self.target.names(low, [low.expr(e, scope) for e in plan.coordinates])
        return pruned([*lines, *self.target.entry(low, self, names, value)])


def samples(low: Lowering, scope: Scope) -> tuple[c.Expr, c.Expr] | None:
    """Where only windows of a loop are run: how many there are, and what the number of the window is noted in."""
    for run in scope.runs.values():
        if isinstance(run, Placing) and run.kind == "sample":
            why = "some of so many windows of the loop are looked at"
            count = low.chosen(
                "const int", "windows", c.Call("spfgen_windows", (c.Cast("double", low.values_held()),)), why
            )
            return count, c.Field(run.target.spread, "window")
    return None


def counts_in_lanes(scope: Scope) -> bool:
    """Whether parts of a loop count for themselves: which iterations each has must not depend on the run."""
    return any(run.in_lanes for run in scope.runs.values())


def lanes(low: Lowering, scope: Scope) -> c.Expr | None:
    """How many parts a loop has where parts count for themselves: no more counters than four times the entries."""
    count: c.Expr | None = None
    for run in scope.runs.values():
        if run.in_lanes:
            most = c.Call("spfgen_lanes", (c.Name("threads"), c.Cast("double", low.values_held()), run.groups))
            count = low.chosen("const int", "lanes", most, "each part counts for itself")
    return count
