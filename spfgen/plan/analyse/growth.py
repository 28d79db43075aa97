"""Loops whose work grows faster than what is stored: most of their iterations find nothing.

A loop over a row is as long as the row; all rows together are as long as what the tensor stores. A loop over a whole
extent, or over all that a tensor stores, multiplies the work of the loops around it. That is right where each of its
iterations does something, or where an array has as many places anyway, as a dense result does. Elsewhere the plan is
above linear in what is stored, which is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from spfgen.facts.formula import Call, Expr, Num, variables
from spfgen.ir import children, walk
from spfgen.plan.context import context_of
from spfgen.plan.nodes import (
    Append,
    Array,
    Assign,
    Block,
    Collect,
    Find,
    Guard,
    If,
    LevelLoop,
    Plan,
    Probe,
    Scan,
    Segment,
    Store,
    UpdateEntry,
    Versions,
    goes_on,
)
from spfgen.space.local_tensors import COUNT
from spfgen.space.nodes import Program


@dataclass(frozen=True)
class Excess:
    """A loop, what it goes through, the loops around it that multiply its work, and what is looked for in it."""

    loop: str
    extent: str
    around: tuple[str, ...]
    sought: tuple[str, ...]

    def __str__(self) -> str:
        each = f" for each {', '.join(self.around)}" if self.around else ""
        sought = " and ".join(f"`{t}`" for t in self.sought)
        looks = f"to look for what {sought} {'stores' if len(self.sought) == 1 else 'store'} there" if sought else ""
        others = f"another layout of {sought}, or " if sought else ""
        return (
            f"the loop over {self.loop} goes through all of {self.extent}{each}"
            f"{', ' + looks if looks else ', and does something in few of its iterations'}: its work grows faster than "
            f"what is stored; {others}a statement before that makes what the loop needs, in the order in which it is "
            "stored, avoids that"
        )


@dataclass(frozen=True)
class _Sizes:
    """The names of sizes; those that count what is stored, in all or in each row; the extents of each array; the
    tensors of the program."""

    names: frozenset[str]
    stored: frozenset[str]
    widths: frozenset[str]
    arrays: tuple[tuple[str, ...], ...]
    tensors: frozenset[str]


def excesses(plans: Iterable[Plan], program: Program) -> list[Excess]:
    """The loops of which the work grows faster than what is stored, each once."""
    context, names = context_of(program), {*program.size_names}
    distinct: dict[Excess, None] = {}
    for plan in plans:
        nodes = list(walk(plan))
        counts = {f"{n.name}.{COUNT}" for n in nodes if isinstance(n, Collect)}
        sizes_of_loops = {n.dim for n in nodes if goes_on(n) and variables(n.value) <= names}
        arrays = [*context.arrays, *(_names(n.extents) for n in nodes if isinstance(n, Array))]
        tensors = frozenset(t.name for t in program.every_tensor)
        stored = frozenset({*context.stored, *counts})
        widths = frozenset(size for size, counted in context.stored.items() if counted.each)
        sizes = _Sizes(frozenset(names | counts | sizes_of_loops), stored, widths, tuple(arrays), tensors)
        for one in _of(plan, (), sizes):
            distinct[one] = None
    return list(distinct)


def _names(extents: Sequence[Expr]) -> tuple[str, ...]:
    return tuple(v for e in extents for v in sorted(variables(e)))


def _of(node: Plan, around: tuple[Scan | Find, ...], sizes: _Sizes) -> Iterator[Excess]:
    if isinstance(node, Versions):
        node = node.versions[0].body
    if isinstance(node, Scan | Find) and _is_loop(node):
        if _is_free(node, sizes) and not _is_held([*around, node], sizes):
            idle = isinstance(node, Find) or not _does(node.body) or _sought(node)
            if idle and (around or not _counts(node, sizes) & {*sizes.stored}):
                extent = ", ".join(sorted(_counts(node, sizes)))
                yield Excess(
                    node.dim,
                    extent,
                    tuple(n.dim for n in around),
                    tuple(t for t in _sought(node) if t in sizes.tensors),
                )
        around = (*around, node)
    for child in children(node):
        if isinstance(child, Plan):
            yield from _of(child, around, sizes)


def _is_loop(node: Scan | Find) -> bool:
    """Whether it runs more often than a number says; a find with a key is over at once."""
    if isinstance(node, Find) and node.key is not None:
        return False
    return not any(isinstance(e, Num) and e.value > 0 for e in node.high)


def _is_free(node: Scan | Find, sizes: _Sizes) -> bool:
    """Whether it goes through an extent, or all that a tensor stores: not a part that an array says, nor a width."""
    ends = [variables(*side) for side in (node.low, node.high)]
    return all(end <= sizes.names for end in ends) and bool(ends[1] - sizes.widths)


def _counts(node: Scan | Find, sizes: _Sizes) -> set[str]:
    return {v for e in node.high for v in variables(e) if v in sizes.names}


def _is_held(loops: Sequence[Scan | Find], sizes: _Sizes) -> bool:
    """Whether some array has a place for each iteration of those of the loops that go through extents: what a tensor
    stores counts as any of its extents."""
    wanted = [_counts(n, sizes) for n in loops if _is_free(n, sizes)]
    return any(_fits(wanted, [*array], sizes) for array in sizes.arrays)


def _fits(wanted: Sequence[set[str]], extents: list[str], sizes: _Sizes) -> bool:
    if len(wanted) > len(extents):
        return False
    for names in wanted:
        place = next((e for e in extents if e in names), None)
        if place is None and not names & sizes.stored:
            return False
        if place is not None:
            extents.remove(place)
    return True


def _does(node: Plan) -> bool:
    """Whether something is done whenever the node is reached, not only where something is found or holds."""
    match node:
        case Append() | Store() | UpdateEntry() | Assign():
            return True
        case Guard() | Segment():
            return False
        case Find(miss=miss):
            return miss is not None and _does(miss)
        case If(then=then, otherwise=otherwise):
            return otherwise is not None and _does(then) and _does(otherwise)
        case Block(parts):
            return any(_does(p) for p in parts)
        case Versions(versions):
            return _does(versions[0].body)
        case LevelLoop():
            return True
    inside = node.inner
    return inside is not None and _does(inside)


def _sought(node: Scan | Find) -> list[str]:
    """The tensors of which something is looked for in a loop."""
    tensors: dict[str, None] = {}
    for inner in walk(node, Plan):
        match inner:
            case Find(loads=loads) if loads:
                tensors[loads[0].call.function.partition(".")[0]] = None
            case Segment(call=Call(function)):
                tensors[function.partition(".")[0]] = None
            case Probe(_, name):
                tensors[name] = None
    return list(tensors)
