"""What is known at a point, and pieces that all who plan steps need."""

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
    """What is known at a point: the indices that have a value, accesses whose value is at hand, and those that are
    known to store nothing; whether loops may run on several threads; whether what is done at the points changes no
    more than scalars, of which each thread may have its `own`; whether they are `inside` of a loop on one thread,
    so that threads share them only where the schedule says so; what was `loaded` from index arrays, or computed,
    further out; whether steps run `again`, as those of `while` do; whether reductions stay where they are,
    `point_by_point`; whether values are `plain`, what numpy computes: what is not stored decides nothing; the
    conditions of which it is known that they `hold`; the indices in whose `order` the next nest has to come by its
    points; the equations that, `earlier`, may have written the places of the one at hand."""

    known: frozenset[str] = frozenset()
    values: Mapping[Key, Any] = field(default_factory=dict)
    absent: frozenset[Key] = frozenset()
    parallel: bool = True
    own: bool = False
    inside: bool = False
    loaded: frozenset[str] = frozenset()
    again: bool = False
    point_by_point: bool = False
    plain: bool = False
    hold: frozenset[Formula] = frozenset()
    order: tuple[str, ...] = ()
    earlier: tuple[Equation, ...] = ()

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


Leaf = Callable[[Env], Plan]


def joined(op: str, parts: Sequence[Any]) -> Any:
    result = parts[0]
    for part in parts[1:]:
        result = lang.Apply(op, (result, part))
    return result


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
