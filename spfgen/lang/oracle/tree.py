"""The parts of programs: all steps, all values in a value, the indices that stand in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from spfgen.facts.formula import Bin, Expr, Formula, Var, variables
from spfgen.lang import nodes as n
from spfgen.lang.blocks import all_steps, values


def index_names(steps: Sequence[Any]) -> set[str]:
    """The names that are indices for sure: those of loops, reductions, shape operators, and alone in subscripts."""
    names: set[str] = set()
    for step in all_steps(steps):
        if isinstance(step, n.For):
            names |= set(step.indices)
        names |= {s.name for a in accesses_of(step) for s in a.subscripts if isinstance(s, Var)}
        for value in values_of(step):
            names |= {i for node in nodes_of(value) if not isinstance(node, n.Index) for i in named_by(node)}
    return names


def used_in(node: Any) -> set[str]:
    """The index names (and sizes) that are free in a value, a subscript or an access."""
    match node:
        case n.Access(_, subscripts):
            return set().union(*map(used_in, subscripts)) if subscripts else set()
        case n.Range(index, start, stop):
            return {index}.union(*(variables(b) for b in (start, stop) if b is not None))
        case Expr():
            return variables(node)
        case n.Index(expr):
            return variables(expr)
        case n.Apply(arguments=parts) | n.Coalesce(parts):
            return set().union(*map(used_in, parts))
        case n.Reduce(_, indices, value):
            return used_in(value) - set(indices)
        case n.Collapse(value, old, new):
            return (used_in(value) - set(old)) | {new}
        case n.Split(value, old, new):
            return (used_in(value) - {old}) | set(new)
        case n.Slice(value, old, new, start, stop):
            return (used_in(value) - {old}) | {new} | variables(start) | variables(stop)
        case n.Concat(values, old, new):
            return set().union(*(used_in(v) - {o} for v, o in zip(values, old, strict=True))) | {new}
    return set()


def reduced_in(value: Any) -> set[str]:
    """The indices of all reductions in a value."""
    return {i for node in nodes_of(value) if isinstance(node, n.Reduce) for i in node.indices}


def nodes_of(value: Any) -> Iterator[Any]:
    """All values within a value, in its subscripts too."""
    yield value
    for part in parts_of(value):
        yield from nodes_of(part)


def parts_of(value: Any) -> Sequence[Any]:
    match value:
        case n.Access(_, subscripts):
            return [s for s in subscripts if not isinstance(s, Expr | n.Range)]
        case n.Apply(arguments=parts) | n.Coalesce(parts) | n.Concat(parts):
            return parts
        case n.Reduce(value=inner) | n.Collapse(inner) | n.Split(inner) | n.Slice(inner):
            return (inner,)
    return ()


def values_of(step: Any) -> list[Any]:
    return [step.target, step.value] if isinstance(step, n.Statement) else values(step)


def accesses_of(step: Any) -> list[n.Access]:
    return [v for value in values_of(step) for v in nodes_of(value) if isinstance(v, n.Access)]


def named_by(value: Any) -> set[str]:
    """The indices that a node itself names."""
    match value:
        case n.Index(expr):
            return variables(expr)
        case n.Reduce(_, indices):
            return set(indices)
        case n.Collapse(_, several, one) | n.Concat(_, several, one):
            return {*several, one}
        case n.Split(_, one, several):
            return {*several, one}
        case n.Slice(_, old, new):
            return {old, new}
    return set()


def conditions_of(step: Any) -> list[Formula]:
    conditions = [step.where] if isinstance(step, n.Statement | n.For) and step.where is not None else []
    nodes = [v for value in values_of(step) for v in nodes_of(value)]
    return conditions + [v.where for v in nodes if isinstance(v, n.Reduce) and v.where is not None]


def indices_in_order(value: Any) -> list[str]:
    """The names of indices in the order of the text."""
    indices: list[str] = []

    def names(expr: Any) -> None:
        match expr:
            case Var(name):
                indices.append(name)
            case Bin(_, left, right):
                names(left)
                names(right)

    for node in nodes_of(value):
        match node:
            case n.Access(_, subscripts):
                for subscript in subscripts:
                    if isinstance(subscript, n.Range):
                        indices.append(subscript.index)
                    else:
                        names(subscript)
            case n.Index(expr):
                names(expr)
            case n.Collapse(_, _, new) | n.Slice(_, _, new) | n.Concat(_, _, new):
                indices.append(new)
            case n.Split(_, _, several):
                indices.extend(several)
    return list(dict.fromkeys(indices))
