"""Values as sums of products: the additive terms, each with the condition of the sum that it stood in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from operator import itemgetter

from spfgen import limits
from spfgen.errors import Span, Unsupported
from spfgen.facts.formula import Formula, conjunction, rename, variables
from spfgen.ir import fresh, walk
from spfgen.lang import nodes as lang
from spfgen.space.extents import Ranges
from spfgen.space.instances import make_instances
from spfgen.space.names import accesses
from spfgen.space.nodes import Instance, Tensor


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
    instances: list[Instance] = []
    for term in terms:
        conditions = [c for c in (statement.where, term.where) if c is not None]
        conditioned = replace(statement, where=conjunction(conditions) if conditions else None)
        instances += make_instances(conditioned, term.value, tensors, ranges, labels, term.over)
    return tuple(instances)


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
                renamed_where = None if where is None else rename(where, names)
                return replace(node, indices=tuple(names.values()), value=inner, where=renamed_where)
            case lang.Apply(arguments=arguments):
                return replace(node, arguments=tuple(map(of, arguments)))
        return node

    return of(value), replace(ranges, limits=limits)


def multiplied_out(value: lang.Value) -> tuple[int, lang.Value]:
    """How many products the largest product of several sums within a value makes, multiplied out, and which it is."""
    most: tuple[int, lang.Value] = (0, value)

    def terms(node: lang.Value) -> int:
        nonlocal most
        match node:
            case lang.Apply("add" | "subtract", (left, right)):
                return terms(left) + terms(right)
            case lang.Apply("multiply", (left, right)):
                first, second = terms(left), terms(right)
                if first > 1 and second > 1:
                    most = max(most, (first * second, node), key=itemgetter(0))
                return first * second
            case lang.Apply("divide", (inner, _)) | lang.Apply("negative", (inner,)) | lang.Reduce("add", _, inner):
                return terms(inner)
        return 1

    terms(value)
    return most


def is_long_by_element(statement: lang.Statement) -> bool:
    """Whether a value has a product of sums that is long when it is multiplied out, and is no sum over products: then
    it is computed point by point."""
    count, node = multiplied_out(statement.value)
    target_indices = variables(*statement.target.subscripts)
    read = {n for a in accesses(node) for s in a.subscripts for n in variables(s)}
    return count > limits.TERMS and read <= target_indices


def too_many(value: lang.Value, span: Span | None) -> Unsupported | None:
    """The refusal of a product of sums that is too long; None where none is."""
    count, node = multiplied_out(value)
    if count <= limits.PRODUCTS:
        return None
    return Unsupported(
        f"a product of sums makes {count} products when it is multiplied out, and no more than {limits.PRODUCTS} are "
        "written out",
        getattr(node, "span", None) or span,
        ("compute the sums first, in a call of their own, and multiply the results",),
    )


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
            if len(first) * len(second) > limits.PRODUCTS:
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
