"""The tensors that steps read and write, those in loops and subscripts included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from spfgen.ir import children, walk
from spfgen.lang.blocks import blocks, values
from spfgen.lang.nodes import Access, Apply, Constant, For, Range, Reduce, Statement


def accesses_in(steps: Sequence[Any]) -> Iterator[Access]:
    """All accesses, targets among them."""
    return (n for s in steps for n in walk(s) if isinstance(n, Access))


def statements_in(steps: Sequence[Any]) -> Iterator[Statement]:
    """All equations."""
    return (n for s in steps for n in walk(s) if isinstance(n, Statement))


def divides(value: Any) -> bool:
    """Whether numbers are divided outside of reductions, by anything but a number other than 0: where the result is
    dense, that is computed as in numpy, where 0/0 is nan."""
    match value:
        case Reduce() | Access():
            return False
        case Apply(_, (_, divisor)) if value.operator.is_quotient and not (
            isinstance(divisor, Constant) and divisor.value
        ):
            return True
    return any(divides(part) for part in children(value))


def outside_of_reductions(value: Any) -> Iterator[Any]:
    """The nodes of a value that no reduction is around, nor subscripts, nor those of the functions that it calls."""
    yield value
    if not isinstance(value, Reduce | Access):
        for part in value.arguments if isinstance(value, Apply) else children(value):
            yield from outside_of_reductions(part)


def leaves_the_rest(step: Statement) -> bool:
    """Whether the points of the target that an equation does not reach stay as they are: it is about a slice, or its
    value reads the target at the point itself."""
    reads_target = any(n == step.target for n in walk(step.value))
    return reads_target or any(isinstance(s, Range) for s in step.target.subscripts)


def read_first(steps: Sequence[Any], in_loops: bool) -> set[str]:
    """The tensors that are read before an assignment writes them, in the order of the text. One under a condition does
    not count, nor does an update: both leave what was there. Assignments within `for` count if `in_loops`."""
    tensors: set[str] = set()
    written: set[str] = set()

    def visit(steps: Sequence[Any], is_sure: bool) -> None:
        for step in steps:
            match step:
                case Statement(target, op, value, where):
                    read(value, *target.subscripts)
                    if is_sure and op == "=" and where is None:
                        written.add(target.tensor)
                case For(_, body, where):
                    visit(body, is_sure and in_loops and where is None)
                case _:
                    read(*values(step))
                    for block in blocks(step):
                        visit(block, False)

    def read(*values: Any) -> None:
        tensors.update({a.tensor for a in accesses_in(values)} - written)

    visit(steps, True)
    return tensors
