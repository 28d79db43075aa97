"""The memory of a plan that is interpreted: every access is checked, and noted for the loops that claim something.

A place of the statement's target is untouched, cleared, stored or added to; a store over a value, a clearing after an
addition, and an addition to what nobody cleared are faults. A loop that is said to be parallel is watched: which
iteration reads, stores or adds where.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from spfgen.plan.nodes import Plan
from spfgen.plan.verify.check_steps import WrongPlan

Array = npt.NDArray[Any]
Number = Any
Key = tuple[int, tuple[int, ...]]
"""A place: which memory, and where in it."""

UNTOUCHED, CLEARED, STORED, ADDED = range(4)


@dataclass(eq=False)
class Memory:
    """The places of an array, and what each of them has seen of the statement. `born` is how many loops were watched
    when it was made: those further in share it among their iterations. Of what is not `tracked`, stores are free."""

    name: str
    values: Array
    born: int = 0
    tracked: bool = False
    needs_clearing: bool = False
    seen: Array = field(init=False)

    def __post_init__(self) -> None:
        self.seen = np.zeros(self.values.shape, np.uint8)

    def begin(self, needs_clearing: bool) -> None:
        """A statement that writes this array begins."""
        self.tracked, self.needs_clearing = True, needs_clearing
        self.seen[...] = UNTOUCHED

    def end(self) -> tuple[int, ...] | None:
        """The statement ends: a place that it should have cleared, if there is one."""
        missed = np.argwhere((self.seen == UNTOUCHED) & self.needs_clearing)
        self.tracked = False
        return tuple(int(n) for n in missed[0]) if len(missed) else None

    def at(self, node: Plan, place: tuple[int, ...]) -> tuple[int, ...]:
        """The place, which lies within the array."""
        inside = len(place) == self.values.ndim
        if not inside or not all(0 <= p < n for p, n in zip(place, self.values.shape, strict=True)):
            raise WrongPlan(node, f"{self.name}{[*place]} lies outside of its array of {[*self.values.shape]}")
        return place

    def note(self, node: Plan, place: tuple[int, ...], what: int) -> None:
        """The place is cleared, stored or added to; a fault where that loses or keeps what it must not."""
        if not self.tracked:
            return
        before = int(self.seen[place])
        where = f"{self.name}{[*place]}"
        if what == CLEARED and before > CLEARED:
            raise WrongPlan(node, f"{where} is cleared after something was stored there")
        if what == STORED and before > CLEARED:
            raise WrongPlan(node, f"{where} is stored twice" if before == STORED else f"{where} is stored over a sum")
        if what == ADDED and before == UNTOUCHED and self.needs_clearing:
            raise WrongPlan(node, f"{where} is added to, but never cleared")
        self.seen[place] = what


class Shared(Protocol):
    """What iterations of a loop may have in common: an array, sums, a scalar, a table."""

    @property
    def name(self) -> str: ...

    @property
    def born(self) -> int: ...


@dataclass(eq=False)
class Sums:
    """Sums of an array `of` a tensor that are kept apart from memory, by their places."""

    of: tuple[str, str]
    places: dict[tuple[int, ...], Number]
    born: int

    @property
    def name(self) -> str:
        return f"the sum of {self.of[0]}"


@dataclass(eq=False)
class Watch:
    """What the iterations of a loop do. `disjoint`: no two write one place. `in_order`: those that add to one row
    follow one another; `rows` are the subscripts of a place that say which row it lies in, if not all do."""

    node: Plan
    what: str
    disjoint: bool
    in_order: bool = False
    rows: tuple[int, ...] | None = None
    races: bool = True
    now: int = 0
    number: int = 0
    stored: dict[Key, int] = field(default_factory=dict)
    added: dict[Key, int] = field(default_factory=dict)
    read: dict[Key, set[int]] = field(default_factory=dict)
    row: Key | None = None
    left: set[Key] = field(default_factory=set)

    def starts(self, iteration: int) -> None:
        self.now = iteration
        self.number += 1

    def reads(self, key: Key, name: str) -> None:
        if not self.races:
            return
        self.read.setdefault(key, set()).add(self.number)
        for written in (self.stored, self.added):
            if written.get(key, self.number) != self.number:
                raise WrongPlan(self.node, f"iteration {self.now} reads {name}, which another one writes ({self.what})")

    def writes(self, key: Key, name: str, adds: bool) -> None:
        if self.in_order:
            if adds:
                self._follows(key if self.rows is None else (key[0], tuple(key[1][k] for k in self.rows)), name)
            return
        own = self.added if adds else self.stored
        for other in [self.stored] if adds and not self.disjoint else [self.stored, self.added]:
            if other.get(key, self.number) != self.number:
                raise WrongPlan(self.node, f"two iterations, {self.now} the later one, write {name} ({self.what})")
        if self.races and self.read.get(key, {self.number}) != {self.number}:
            raise WrongPlan(self.node, f"iteration {self.now} writes {name}, which another one reads ({self.what})")
        own[key] = self.number

    def _follows(self, row: Key, name: str) -> None:
        if row in self.left:
            raise WrongPlan(self.node, f"{name} is added to again after another place was ({self.what})")
        if self.row is not None and row != self.row:
            self.left.add(self.row)
        self.row = row


@dataclass(eq=False)
class Watches:
    """All loops that are watched now, the outermost first."""

    loops: list[Watch] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.loops)

    def reads(self, memory: Shared, place: tuple[int, ...]) -> None:
        for watch in self._sharing(memory.born):
            watch.reads((id(memory), place), f"{memory.name}{[*place]}")

    def writes(self, memory: Shared, place: tuple[int, ...], adds: bool) -> None:
        for watch in self._sharing(memory.born):
            watch.writes((id(memory), place), f"{memory.name}{[*place]}", adds)

    def _sharing(self, born: int) -> Iterator[Watch]:
        return iter(self.loops[born:])
