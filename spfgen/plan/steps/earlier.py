"""Which equations may have written the places of another one before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from spfgen.facts.formula import Var
from spfgen.lang import nodes as lang
from spfgen.lang.blocks import blocks
from spfgen.space.steps import Equation

Around = tuple[Any, ...]
"""The loops that a step is in, the outermost one first."""


def earlier_writers(steps: Sequence[Any], equation: Equation) -> list[Equation]:
    """The equations of the steps that may have written a place of this one's target when it writes it: those before it
    in the text, and those that an earlier iteration has run, itself among them. One that stands twice in the text is
    written by what may write before either."""
    writers_of_target = [(e, around) for e, around in equations_in(steps) if e.target == equation.target]
    places = [k for k, (e, _) in enumerate(writers_of_target) if e == equation]
    if not places:  # it was changed on the way here
        return [e for e, _ in writers_of_target]
    writers = []
    for k, (other, around) in enumerate(writers_of_target):
        if any(k < p or _comes_again(equation, writers_of_target[p][1], other, around) for p in places):
            writers.append(other)
    return list(dict.fromkeys(writers))


def equations_in(steps: Sequence[Any], around: Around = ()) -> Iterator[tuple[Equation, Around]]:
    """The equations in the order of the text, each with the loops that it is in."""
    for step in steps:
        match step:
            case Equation():
                yield step, around
            case _:
                loops = around if isinstance(step, lang.If) else (*around, step)
                for block in blocks(step):
                    yield from equations_in(block, loops)


def _comes_again(one: Equation, around: Around, other: Equation, around_other: Around) -> bool:
    """Whether an earlier iteration of a loop around both may have run the other one at a place of this one: not where
    the index of each such loop is the same subscript of both."""
    common = [a for a, b in zip(around, around_other, strict=False) if a is b]
    same = {s for s, t in zip(one.subscripts, other.subscripts, strict=True) if s == t}
    return any(not isinstance(loop, lang.For) or not {Var(i) for i in loop.indices} <= same for loop in common)
