"""Results whose pattern is computed, in steps: entries at one place are combined when all of them are there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from spfgen.errors import Unsupported
from spfgen.facts.formula import Var
from spfgen.ir import children
from spfgen.lang import nodes as lang
from spfgen.lang.types import TYPES
from spfgen.space.nodes import Tensor
from spfgen.space.steps import Equation


def check_entries(tensors: Sequence[Tensor], body: Sequence[Any]) -> None:
    """Each entry is one assignment, or what is added to a place by one operator that leaves the fill as it is. Raises
    Unsupported."""
    for tensor in tensors:
        found = [(e, around) for e, around in _equations(body, ()) if e.target == tensor.name]
        for equation, around in found:
            _check_update(tensor, equation, [e for e, _ in found])
            _check_once(equation, around)
        inside = [e for e, around in found if around and e.updates is None]
        if inside and _most(tensor.name, body) > 1:
            raise _unsupported(inside[0], "it is assigned several times")


def _check_update(tensor: Tensor, equation: Equation, others: Sequence[Equation]) -> None:
    update = equation.updates
    if update is None:
        return
    if update.function is not None or len({o.updates.op for o in others if o.updates is not None}) > 1:
        raise _unsupported(equation, "entries at one place are combined by one operator of numpy")
    if update.operator.identity_of(TYPES[tensor.value_type]) != tensor.layout.fill:
        raise _unsupported(equation, f"`{update.op}` does not leave the fill value as it is")


def _check_once(equation: Equation, around: Sequence[lang.For | lang.While]) -> None:
    """No place is assigned in two iterations."""
    if equation.updates is not None:
        return
    own = {s.name for s in equation.subscripts if isinstance(s, Var)}
    loops = {i for loop in around if isinstance(loop, lang.For) for i in loop.indices}
    if equation.at or not loops <= own or any(isinstance(loop, lang.While) for loop in around):
        raise _unsupported(equation, "a place may be assigned several times")


def _unsupported(equation: Equation, why: str) -> Unsupported:
    return Unsupported(
        f"the pattern of `{equation.target}` is not computed here: {why}",
        equation.span,
        (f"declare `{equation.target}` dense, or write it from a dense tensor afterwards",),
    )


def _equations(
    steps: Sequence[Any], around: tuple[lang.For | lang.While, ...]
) -> Iterator[tuple[Equation, tuple[lang.For | lang.While, ...]]]:
    """All equations with the loops around them."""
    for step in steps:
        match step:
            case Equation():
                yield step, around
            case lang.For() | lang.While():
                yield from _equations(step.body, (*around, step))
            case _:
                yield from _equations([n for n in children(step) if not isinstance(n, lang.Access)], around)


def _most(name: str, steps: Sequence[Any]) -> int:
    """How often the steps assign the tensor on one way through them, each loop once."""
    total = 0
    for step in steps:
        match step:
            case Equation(target=target, updates=None):
                total += target == name
            case lang.For() | lang.While():
                total += _most(name, step.body)
            case lang.If(_, then, otherwise):
                total += max(_most(name, then), _most(name, otherwise))
    return total
