"""What is known at a point, and helpers for all modules that plan steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from spfgen.facts.formula import Expr, Formula, conjuncts
from spfgen.ir import walk
from spfgen.lang import nodes as lang
from spfgen.plan.nodes import Plan
from spfgen.space.conditions import negated
from spfgen.space.steps import Equation

POINT = "point"
"""The name of a tensor that is nowhere: it stands for what is done at a point."""

OUTSIDE = "outside"
"""The variable that says whether a place that is a value lay outside of its tensor."""

LOST = "lost"
"""The variable that says whether something was computed that has no place in its target."""

FLAGS = (OUTSIDE, LOST)
"""Variables that say at last that the call fails."""

Key = tuple[str, tuple[Expr, ...]]


class OutOfOrder(Exception):
    """A nest is not proved to come by its points in the order that is asked for."""


@dataclass(frozen=True)
class Reads(lang.Apply):
    """What a nest reads at its points, until it is known what is done there."""


@dataclass(frozen=True)
class Env:
    """What is known at a point of a plan of steps."""

    known: frozenset[str] = frozenset()
    """The indices that have a value."""
    values: Mapping[Key, Any] = field(default_factory=dict)
    """Accesses whose value is at hand."""
    absent: frozenset[Key] = frozenset()
    """Accesses that are known to store nothing."""
    takes_absent: Mapping[Any, Any] = field(default_factory=dict)
    """Choices: where what they take is made of nothing that is stored."""
    tracks_choices: bool = False
    """Whether that is asked for: the choice is a factor."""
    parallel: bool = True
    """Loops may run on several threads."""
    own: bool = False
    """Statements at the points change scalars only, of which each thread may have its own."""
    inside: bool = False
    """There is a loop on one thread around: inner loops are parallel only if the schedule says so."""
    loaded: frozenset[str] = frozenset()
    """What was loaded from index arrays, or computed, further out."""
    again: bool = False
    """Steps run repeatedly, as those of `while` do."""
    point_by_point: bool = False
    """Reductions are not moved out of loops."""
    plain: bool = False
    """Values are those of numpy: elements that are not stored absorb nothing."""
    hold: frozenset[Formula] = frozenset()
    """Conditions that are known to hold."""
    order: tuple[str, ...] = ()
    """The next nest must visit its points in the order of these indices."""
    earlier: tuple[Equation, ...] = ()
    """Equations that may have written the target of this one before."""

    def knowing(self, names: Sequence[str] | set[str]) -> Env:
        return replace(self, known=self.known | set(names))

    def where(self, conditions: Sequence[Formula]) -> Env:
        return replace(self, hold=self.hold.union(*(conjuncts(c) for c in conditions))) if conditions else self

    def decided(self, condition: Formula, otherwise: Any) -> Any:
        """Whether a condition holds, as a number, where that is known."""
        if self.hold.issuperset(conjuncts(condition)):
            return lang.Constant(True)
        if any(self.hold.issuperset(conjuncts(negated(c))) for c in conjuncts(condition)):
            return lang.Constant(False)
        return otherwise

    def having(self, values: Mapping[Key, Any]) -> Env:
        return replace(self, values={**self.values, **values})

    def taking(self, choice: Any, absent: Any) -> Env:
        """With the condition that what the choice takes is made of nothing that is stored; None: it never is."""
        return self if absent is None else replace(self, takes_absent={**self.takes_absent, choice: absent})


Leaf = Callable[[Env], Plan]


def joined(op: str, parts: Sequence[Any]) -> Any:
    result = parts[0]
    for part in parts[1:]:
        result = lang.Apply(op, (result, part))
    return result


def where_taken(condition: Any, first: Any, second: Any) -> Any:
    """What holds of the one of two that is taken; None where it holds of neither."""
    if first is None and second is None:
        return None
    one, other = (lang.Constant(False) if part is None else part for part in (first, second))
    return one if one == other else lang.Apply("where", (condition, one, other))


def operator_name(op: str) -> str:
    return {"+=": "add"}.get(op, op)


def key_of(access: lang.Access) -> Key:
    return access.tensor, access.subscripts


def accesses_of(value: Any) -> Iterator[lang.Access]:
    return (n for n in walk(value) if isinstance(n, lang.Access))


def number_of(number: Any, kind: str) -> Any:
    """A number of an element type."""
    import numpy as np

    return lang.Constant(np.dtype(kind).type(number))


def cast(value: Any, kind: str) -> Any:
    return lang.Apply(kind, (value,))


def accumulator(op: str) -> str:
    return {"add": "sum", "multiply": "product", "maximum": "most", "minimum": "least"}.get(op, "result")
