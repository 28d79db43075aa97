"""Values as sums of products: the additive terms, each with the condition of the sum that it stood in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from spfgen.facts.formula import Formula, conjunction, rename, variables
from spfgen.ir import fresh, walk
from spfgen.lang import nodes as lang
from spfgen.space.extents import Ranges
from spfgen.space.instances import make_instances
from spfgen.space.names import accesses
from spfgen.space.nodes import Instance, Tensor

MOST_TERMS = 64
"""A product of sums that makes more products than these is not multiplied out."""


@dataclass(frozen=True)
class Term:
    """A product of accesses and numbers, with the condition and the indices of the sums that it stood in."""

    value: lang.Value
    where: Formula | None = None
    over: tuple[str, ...] = ()


def instances_of(
    statement: lang.Statement,
    terms: Sequence[Term],
    tensors: Mapping[str, Tensor],
    ranges: Ranges,
    labels: set[str] | None = None,
) -> tuple[Instance, ...]:
    """The instances of terms that are added to the statement's target, each under its condition and that of all.

    With `labels` no two accesses of different terms have one label; those given are added to the set.
    """
    found: list[Instance] = []
    for term in terms:
        conditions = [c for c in (statement.where, term.where) if c is not None]
        own = replace(statement, where=conjunction(conditions) if conditions else None)
        found += make_instances(own, term.value, tensors, ranges, labels, term.over)
    return tuple(found)


def linear_terms(value: lang.Value, quotients: bool = False) -> list[Term] | None:
    """The additive terms of a value, products of sums multiplied out: each is a product of accesses and numbers, or of
    one sum and numbers; with `quotients` (inside of a sum), divided by such and times other sums. None where the value
    is more than that, or a product of sums has too many."""
    try:
        return list(_linear(value, quotients))
    except _NotLinearError:
        return None


def apart(value: lang.Value, taken: Iterable[str], ranges: Ranges) -> tuple[lang.Value, Ranges]:
    """The value with an index of its own for each sum, which none of `taken` is: so sums can be multiplied out. The
    ranges with those of the new indices."""
    known = set(taken)
    limits = dict(ranges.limits)

    def of(node: lang.Value) -> lang.Value:
        match node:
            case lang.Reduce(_, indices, inner, where):
                names = {i: fresh(i, known) for i in indices}
                known.update(names.values())
                limits.update({new: limits[old] for old, new in names.items() if old in limits})
                inner = of(rename(inner, names))
                own = None if where is None else rename(where, names)
                return replace(node, indices=tuple(names.values()), value=inner, where=own)
            case lang.Apply(arguments=arguments):
                return replace(node, arguments=tuple(map(of, arguments)))
        return node

    return of(value), replace(ranges, limits=limits)


class _NotLinearError(Exception):
    """A value is no sum of products."""


def _linear(value: lang.Value, quotients: bool) -> Iterator[Term]:
    match value:
        case lang.Apply("add", (left, right)):
            yield from _linear(left, quotients)
            yield from _linear(right, quotients)
        case lang.Apply("subtract", (left, right)):
            yield from _linear(left, quotients)
            for term in _linear(right, quotients):
                yield replace(term, value=lang.Apply("negative", (term.value,), term.value.span))
        case lang.Apply("multiply", (left, right), span):
            several = has_sum(value) and _has_tensor(left) and _has_tensor(right)
            if several and (not quotients or _summed(left) & _indices(right) or _summed(right) & _indices(left)):
                raise _NotLinearError
            first, second = list(_linear(left, quotients)), list(_linear(right, quotients))
            if len(first) * len(second) > MOST_TERMS:
                raise _NotLinearError
            for a, b in product(first, second):
                conditions = [c for c in (a.where, b.where) if c is not None]
                where = conjunction(conditions) if conditions else None
                yield Term(lang.Apply("multiply", (a.value, b.value), span), where, (*a.over, *b.over))
        case lang.Apply("divide", (left, right), span):
            if has_sum(right) or (_has_tensor(right) and not quotients):
                raise _NotLinearError
            for a in _linear(left, quotients):
                yield replace(a, value=lang.Apply("divide", (a.value, right), span))
        case lang.Apply("negative", (inner,)):
            for term in _linear(inner, quotients):
                yield replace(term, value=lang.Apply("negative", (term.value,), term.value.span))
        case lang.Reduce("add", indices, inner, where):
            for term in _linear(inner, quotients):
                conditions = [c for c in (where, term.where) if c is not None]
                over = (*indices, *term.over)
                yield replace(term, where=conjunction(conditions) if conditions else None, over=over)
        case _:
            yield Term(value)


def _summed(value: lang.Value) -> set[str]:
    """The indices of the sums within a value."""
    return {i for n in walk(value) if isinstance(n, lang.Reduce) for i in n.indices}


def _indices(value: lang.Value) -> set[str]:
    """All indices of a value."""
    return {n for a in accesses(value) for s in a.subscripts for n in variables(s)} | _summed(value)


def has_sum(value: lang.Value) -> bool:
    return any(isinstance(n, lang.Reduce) for n in walk(value))


def _has_tensor(value: lang.Value) -> bool:
    """Whether the value differs from point to point, or is a sum."""
    return has_sum(value) or any(a.subscripts for a in accesses(value))
