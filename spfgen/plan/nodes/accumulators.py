"""Where sums are kept until they come to their places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeGuard

from spfgen.facts.formula import ZERO, Expr, Formula, Num, Var
from spfgen.facts.reach import RangeStep
from spfgen.ir import children, rewrite
from spfgen.plan.nodes.base import Block, Inside, Nested, Plan, product
from spfgen.plan.nodes.loops import Scan
from spfgen.plan.nodes.statements import Store
from spfgen.plan.nodes.versions import Version
from spfgen.plan.text import interval, show_operand, show_value
from spfgen.space.nodes import Monoid, Operand, Value


@dataclass(frozen=True, slots=True)
class Variable:
    """The accumulator is a scalar variable."""


@dataclass(frozen=True, slots=True)
class Registers:
    """It has a place for each 0 <= dim < `count`, a number, so that compilers keep it in registers: the body adds to
    (dim) of `added`. Those for dim < min(high) are stored; the target is in terms of `dim` and of the dimensions
    outside. With a `lane` it has so many `lanes` for each dim, a vector: the body adds to (dim, lane), and what is
    stored is the sum of the lanes."""

    dim: str
    count: int
    high: tuple[Expr, ...]
    added: Operand
    lane: str = ""
    lanes: int = 1


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """It has the places of a tile of max(low) <= dim < min(high), the fastest-running subscript of the target, and the
    body runs once for each tile, from `start` to before `end`, names that the loop over `dim` in it speaks of. A tile
    is `width` wide, a power of two, or half, a quarter, ... of it where no more is left. What lies `ahead` places
    further is fetched, to be stored soon, if `when` holds. `in_pieces`: all tiles take a few iterations of the loop
    inside, then the next few; between two pieces the sums are where they are stored in the end."""

    dim: str
    start: str
    end: str
    low: tuple[Expr, ...]
    high: tuple[Expr, ...]
    width: int
    ahead: Expr | None = None
    when: Formula | None = None
    in_pieces: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """It has the places of the target's extents, an array for each thread."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """It has all places of the target, an array for all threads."""


Storage = Variable | Registers | RegisterTile | Row | Workspace


VARIABLE = Variable()


@dataclass(frozen=True, slots=True)
class Finish(Nested):
    """What is made of a total, a scalar of this name and type, and stored in its place."""

    name: str
    type: str
    body: Plan

    @property
    def label(self) -> str:
        return f"of {self.name}, when it is whole"


@dataclass(frozen=True, slots=True)
class Accumulate(Nested):
    """What the body adds to `target` goes to an accumulator that starts at 0, and comes to its place with `op` (= or
    +=) when the body is through. A temporary has no place besides (no `op`): later parts of the body read it. With
    `start` it starts at this value, and what is added is taken off it. A `monoid` combines in place of addition. With a
    `finish`, that stores what it makes of each total."""

    target: Operand
    op: str
    body: Plan
    storage: Storage = VARIABLE
    because: str = ""
    start: Value | None = None
    monoid: Monoid | None = None
    finish: Finish | None = None

    def computed(self) -> Iterator[RangeStep]:
        match self.storage:
            case Workspace():
                yield RangeStep((product(self.target.extents),))
            case Registers(dim, count, high, _, lane, lanes):
                yield RangeStep(high)
                yield RangeStep((), dim, (ZERO,), (Num(count),))
                if lane:
                    yield RangeStep((), lane, (ZERO,), (Num(lanes),))
            case RegisterTile(dim, start, end, low, high):
                yield from (RangeStep((), n, low, high, end=n != dim) for n in (dim, start, end))

    @property
    def label(self) -> str:
        target = show_operand(self.target)
        match self.storage:
            case Workspace():
                return f"keep {', '.join(map(show_operand, self._alike()[1]))} for all places"
            case Registers(dim, count, lane=lane, lanes=lanes):
                each = (
                    f", each of {lanes} {'sums' if self.monoid is None else 'totals'}, a vector over {lane}"
                    if lane
                    else ""
                )
                does = self._combines("sum", "combine")
                return f"{does} into {count} neighbours {target} with {self.op}, {dim} < {count}{each}"
            case RegisterTile(dim, _, _, low, high, width) as tiles:
                pieces = ", a piece of the loop inside at a time" if tiles.in_pieces else ""
                text = f"tiles of {width}, {width // 2}, ... {dim} in {interval(low, high)}{pieces}"
                return f"{text}, {self._combines('sums', 'totals')} {self._where}"
        if self.op and isinstance(self.storage, Variable):
            return f"{self._combines('sum', 'combine')} {self._where}"
        if self.start is not None:
            return f"subtract from {self.target.tensor}, initially {show_value(self.start)}"
        return f"{self._combines('sum', 'combine')} into {', '.join(map(show_operand, self._alike()[1]))}"

    def _combines(self, adds: str, others: str) -> str:
        return adds if self.monoid is None else f"{others} by {self.monoid.operator.op}"

    @property
    def _where(self) -> str:
        target = show_operand(self.target)
        return f"into {target} with {self.op}" if self.finish is None else f"for {target}"

    @property
    def reason(self) -> str:
        return self.because if self.op else ""

    def shown(self) -> Iterator[Inside]:
        if self.op:
            yield Inside(self.body)
            if self.finish is not None:
                yield Inside(self.finish)
            return
        inside, targets = self._alike()
        if isinstance(self.storage, Workspace):
            yield Inside(inside, depth=0)
            return
        if self.start is not None:
            yield Inside(heading=f"sum into {', '.join(map(show_operand, targets))}")
        tensors = {o.tensor for o in targets}
        for part in inside.parts if isinstance(inside, Block) else (inside,):
            does = (n for n in stores_in(part) if n.op == "+=")
            yield Inside(part, depth=any(n.target.tensor in tensors for n in does))

    def _alike(self) -> tuple[Plan, list[Operand]]:
        """What is inside of the temporaries of one kind that begin here, and these."""
        kinds = Workspace if isinstance(self.storage, Workspace) else Variable | Row
        plan: Plan = self
        targets: list[Operand] = []
        while isinstance(plan, Accumulate) and not plan.op and isinstance(plan.storage, kinds):
            targets.append(plan.target)
            plan = plan.body
        return plan, targets

    @property
    def meaning(self) -> Plan | None:
        match self.storage:
            case Registers():
                return None
            case RegisterTile(dim, start, end, low, high):
                body = rewrite(partial(_one_place, dim, start, end), self.body)
                return Scan(dim, low, high, replace(self, body=body, storage=VARIABLE))
        return self.body


def _one_place(dim: str, start: str, end: str, node: object) -> Plan | None:
    """What a loop along a tile does for one of its places."""
    if isinstance(node, Scan) and (node.dim, node.low, node.high) == (dim, (Var(start),), (Var(end),)):
        return node.body
    return None


def is_sum(node: object) -> TypeGuard[Accumulate]:
    """Whether it is the sum of one place, in a variable."""
    return isinstance(node, Accumulate) and bool(node.op) and isinstance(node.storage, Variable)


def is_tile(node: object) -> TypeGuard[Accumulate]:
    """Whether it is sums in register tiles."""
    return isinstance(node, Accumulate) and isinstance(node.storage, RegisterTile)


def is_temporary(node: object) -> TypeGuard[Accumulate]:
    """Whether it is an accumulator that the body itself reads."""
    return isinstance(node, Accumulate) and not node.op


def stores_in(plan: Plan) -> Iterator[Store]:
    """What a nest does at its points; not what it makes of totals (Finish)."""
    stack: list[object] = [plan]
    while stack:
        node = stack.pop()
        if isinstance(node, Store):
            yield node
        stack += [n for n in reversed(children(node)) if isinstance(n, Plan | Version) and not isinstance(n, Finish)]
