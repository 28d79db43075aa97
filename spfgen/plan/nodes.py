"""IR 3: in what order the points run, and how each dimension is found.

    Plan ::= Seq(parts)            one after another
           | Clear(tensor)         all values of an output become 0
           | Scan(dim, low, high)  dim runs over max(low) <= dim < min(high)
           | Locate(dim, value)    dim has one value, computed
           | Load(dim, call)       dim is read from an index array
           | Guard(conditions)     the body runs where they hold
           | Find(dim, low, high, loads, conditions, algorithm, hit, miss)
           | Reduce(target, body)  values of the body are summed and stored once
           | Do(target, value)     one value is added to (or stored in) the target

Expressions are those of facts/formula.py over dimension names. Every decision says why in `because`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from spfgen.facts.formula import Call, Expr, Formula
from spfgen.space.nodes import Operand, Value


class Plan:
    """What may stand in a plan."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Seq(Plan):
    parts: tuple[Plan, ...]


@dataclass(frozen=True, slots=True)
class Clear(Plan):
    tensor: str
    because: str = ""


@dataclass(frozen=True, slots=True)
class Scan(Plan):
    """A loop. `weight` names the index array f whose differences f(dim + 1) - f(dim) are the lengths of the loops
    inside: the iterations of a parallel loop are shared out by them."""

    dim: str
    low: tuple[Expr, ...]
    high: tuple[Expr, ...]
    body: Plan
    parallel: bool = False
    because: str = ""
    weight: str = ""


@dataclass(frozen=True, slots=True)
class Locate(Plan):
    dim: str
    value: Expr
    body: Plan
    because: str = ""


@dataclass(frozen=True, slots=True)
class Load(Plan):
    dim: str
    call: Call
    body: Plan


@dataclass(frozen=True, slots=True)
class Guard(Plan):
    conditions: tuple[Formula, ...]
    body: Plan
    because: str = ""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A call that a find loads at each position; unpacks to (dimension, call)."""

    dim: str
    call: Call

    def __iter__(self) -> Iterator[Any]:
        yield self.dim
        yield self.call


@dataclass(frozen=True, slots=True)
class Key:
    """What a find looks for: the loaded call `dim` equals `value`.

    `descending`: the array falls along the positions (else it rises); `unique`: no two positions hold one value.
    """

    dim: str
    value: Expr
    descending: bool = False
    unique: bool = False


@dataclass(frozen=True, slots=True)
class Find(Plan):
    """The positions `dim` in [low, high) at which the loaded calls satisfy the key and the conditions.

    `hit` runs for each of them; `miss` (when it is there) runs once if there is none. Without a key (the plain loop)
    the conditions say everything.
    """

    dim: str
    low: tuple[Expr, ...]
    high: tuple[Expr, ...]
    loads: tuple[Loaded, ...]
    conditions: tuple[Formula, ...]
    algorithm: str
    hit: Plan
    miss: Plan | None = None
    parallel: bool = False
    because: str = ""
    key: Key | None = None

    def calls(self) -> dict[str, Call]:
        """The loaded calls by their dimensions."""
        return {loaded.dim: loaded.call for loaded in self.loads}


@dataclass(frozen=True, slots=True)
class Reduce(Plan):
    """Sums what the body adds to `target`, whose place is fixed here, and stores the sum with `op` (= or +=)."""

    target: Operand
    op: str
    body: Plan
    because: str = ""


@dataclass(frozen=True, slots=True)
class Do(Plan):
    target: Operand
    op: str
    value: Value
    because: str = ""
