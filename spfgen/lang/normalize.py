"""Implicit sums made explicit.

In each additive term of a value the indices that stand only on the right are summed over the whole term: `y[i] =
A[i, j]*x[j] + b[i]` is `y[i] = sum(j: A[i, j]*x[j]) + b[i]`. Terms are those of sums, differences and negations, and
of products and dividends that hold them, multiplied out where their terms have different indices of this kind. Parts of
the condition that are about an index of the sum become the sum's, and those about indices of other reductions become
theirs. Where another function updates the target, it reduces the whole value: `d[i] min= A[i, j]` is `d[i] min= min(j:
A[i, j])`. One that does not associate updates it once for each value, in their order: `y[i] **= A[i, j]` is `for i, j {
y[i] **= A[i, j] }`. Indices of loops around are none of these, nor are those in the subscripts of the target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from spfgen.errors import SpecError
from spfgen.facts.formula import TRUE, Formula, conjunction, conjuncts, variables
from spfgen.ir import rewrite, walk
from spfgen.lang.blocks import with_blocks
from spfgen.lang.nodes import Access, Apply, For, Function, Index, Let, Reduce, Set, Statement, Step, Value
from spfgen.lang.values import indices_of

REPEATED: Mapping[str, str] = {"=": "add", "+=": "add", "subtract": "add"}
"""What combines the values by which a target is updated, where it is not the operator of the update itself."""


def normalized(steps: Sequence[Step], sizes: Sequence[str] = (), indices: Sequence[str] = ()) -> tuple[Step, ...]:
    """The steps with all reductions written out; `indices` are those of loops around."""
    around = frozenset((*sizes, *indices))
    return tuple(_step(step, around) for step in steps)


def _step(step: Step, around: frozenset[str]) -> Step:
    match step:
        case Statement(target, op, value, function=function):
            inner = _free(value, around | indices_of(target))
            if inner and not _associates(op, function):
                target_indices = [i for i in dict.fromkeys(_in_order(target)) if i in indices_of(target) - around]
                return _one_by_one(step, (*target_indices, *(i for i in dict.fromkeys(_in_order(value)) if i in inner)))
            return _statement(step, around)
        case Set(_, op, value, _, function) if _free(value, around) and not _associates(op, function):
            return _one_by_one(step, tuple(i for i in dict.fromkeys(_in_order(value)) if i in _free(value, around)))
        case Let(_, value):
            return replace(step, value=_summed(value, around, "add", None, TRUE))
        case Set(_, op, value, _, function):
            return replace(step, value=_summed(value, around, REPEATED.get(op, op), function, TRUE))
    indices = step.indices if isinstance(step, For) else ()
    inside: Step = with_blocks(step, lambda block: normalized(block, tuple(around), indices))
    return inside


def _associates(op: str, function: Function | None) -> bool:
    """Whether the values by which a target is updated may be combined before."""
    return op in REPEATED or bool(Apply(op, (), None, function).operator.associative)


def _one_by_one(step: Statement | Set, indices: tuple[str, ...]) -> For:
    """The update in a loop over its indices: once for each value, in the order of these."""
    return For(indices, (step,), None, step.span)


def as_update(statement: Statement) -> Statement:
    """`y = y + v` as `y += v`, where v does not read y: the term y is no sum, whatever the condition says."""
    terms = list(_added(statement.value))
    other_terms = [t for t in terms if t != (statement.target, True)]
    name = statement.target.tensor
    others = (n for t, _ in other_terms for n in walk(t) if isinstance(n, Access) and n.tensor == name)
    if statement.op != "=" or len(other_terms) != len(terms) - 1 or not other_terms or any(others):
        return statement
    added, subtracted = (
        [t for t, positive in other_terms if positive],
        [t for t, positive in other_terms if not positive],
    )
    if not added:
        return replace(statement, op="subtract", value=reduce(_sum, subtracted))
    return replace(
        statement, op="+=", value=reduce(lambda a, b: Apply("subtract", (a, b)), subtracted, reduce(_sum, added))
    )


def _sum(one: Value, other: Value) -> Value:
    return Apply("add", (one, other))


def _added(value: Value, positive: bool = True) -> Iterator[tuple[Value, bool]]:
    """The terms of a sum, and whether they are added: else they are subtracted."""
    match value:
        case Apply("add" | "subtract" as op, (left, right), function=None):
            yield from _added(left, positive)
            yield from _added(right, positive == (op == "add"))
        case _:
            yield value, positive


def _statement(statement: Statement, around: frozenset[str]) -> Statement:
    statement = as_update(statement)
    known = around | indices_of(statement.target)
    inner = _free(statement.value, known)
    parts = list(conjuncts(statement.where)) if statement.where is not None else []
    of_sums = [p for p in parts if variables(p) & inner]
    op = REPEATED.get(statement.op, statement.op)
    value = _summed(statement.value, known, op, statement.function, conjunction(of_sums))
    of_reductions = {p: names for p in parts if p not in of_sums and (names := variables(p) & _bound(value) - known)}
    for part, names in of_reductions.items():
        value = _conditioned(value, part, names)
    if not (of_sums or of_reductions):
        return replace(statement, value=value)
    outer_parts = [p for p in parts if p not in of_sums and p not in of_reductions]
    return replace(statement, value=value, where=conjunction(outer_parts) if outer_parts else None)


def _bound(value: Value) -> set[str]:
    """The indices of the reductions of a value."""
    return {i for n in walk(value) if isinstance(n, Reduce) for i in n.indices}


def _conditioned(value: Value, part: Formula, names: set[str]) -> Value:
    """The value whose reductions over indices of these names have the condition, too. Raises SpecError when no
    reduction is over all of them."""

    def rule(node: object) -> Value | None:
        if not isinstance(node, Reduce) or not names <= {*node.indices}:
            return None
        inner = node.value if _bound(node.value).isdisjoint(names) else rewrite(rule, node.value)
        where = part if node.where is None else conjunction([node.where, part])
        return replace(node, value=inner, where=where)

    result: Value = rewrite(rule, value)
    if result == value:
        listed = " and ".join(f"`{n}`" for n in sorted(names))
        raise SpecError(
            f"expected one reduction over {listed}, of which the condition speaks",
            value.span,
            ("write the condition within a reduction: `max(j: ... where ...)`",),
        )
    return result


def _free(value: Value, known: frozenset[str] | set[str]) -> set[str]:
    return indices_of(value) - known


def _summed(
    value: Value, known: frozenset[str] | set[str], op: str, function: Function | None, where: Formula
) -> Value:
    """The value with its free indices reduced over."""
    if not _free(value, known) and where == TRUE:
        return value

    conditioned = variables(where) & _free(value, known)

    def reduced(term: Value) -> Value:
        """One term, with those of the conditions that are about its indices."""
        free = _free(term, known)
        for name in sorted(conditioned - free):
            raise SpecError(
                f"expected every term to have the index `{name}` of the condition, but one does not",
                term.span,
                ("write that term as a statement of its own: `+= ...` without the condition",),
            )
        if not free:
            return term
        parts = [p for p in conjuncts(where) if variables(p) & free]
        indices = tuple(n for n in dict.fromkeys(_in_order(term)) if n in free)
        return Reduce(op, indices, term, conjunction(parts) if parts else None, term.span, function)

    if op != "add" or function is not None:
        return reduced(value)
    return _terms_mapped(value, reduced, lambda v: _free(v, known))


def _terms_mapped(value: Value, change: Callable[[Value], Value], free: Callable[[Value], set[str]]) -> Value:
    """The value with each additive term changed."""
    match value:
        case Apply("add" | "subtract" | "negative", arguments, function=None):
            return replace(value, arguments=tuple(_terms_mapped(a, change, free) for a in arguments))
        case Apply("multiply" | "divide", function=None):
            groups = _multiplied(value, free)
            if len(groups) == 1:
                return change(value)
            first, *others = groups.values()
            result = change(first)
            for term in others:
                result = Apply("add", (result, change(term)), value.span)
            return result
    return change(value)


Groups = dict[frozenset[str], Value]


def _multiplied(value: Value, free: Callable[[Value], set[str]]) -> Groups:
    """The terms of a value, products of sums multiplied out; those that have the same free indices as one."""
    match value:
        case Apply("add" | "subtract" as op, (left, right), span, None):
            result = _multiplied(left, free)
            for names, term in _multiplied(right, free).items():
                signed = term if op == "add" else Apply("negative", (term,), span)
                result[names] = Apply(op, (result[names], term), span) if names in result else signed
            return result
        case Apply("negative", (inner,), span, None):
            return {n: Apply("negative", (t,), span) for n, t in _multiplied(inner, free).items()}
        case Apply("multiply", (left, right), span, None):
            result = {}
            others = _multiplied(right, free)
            for names, a in _multiplied(left, free).items():
                for more, b in others.items():
                    term = Apply("multiply", (a, b), span)
                    both = names | more
                    result[both] = Apply("add", (result[both], term), span) if both in result else term
            return result
        case Apply("divide", (left, right), span, None):
            below = free(right)
            result = {}
            for names, term in _multiplied(left, free).items():
                quotient, both = Apply("divide", (term, right), span), names | below
                result[both] = Apply("add", (result[both], quotient), span) if both in result else quotient
            return result
    return {frozenset(free(value)): value}


def _in_order(value: Value) -> Iterator[str]:
    """The names of indices as they stand in the text."""
    for node in walk(value):
        name = getattr(node, "name", None) if not isinstance(node, Index) else None
        if isinstance(name, str):
            yield name
        index = getattr(node, "index", None)
        if isinstance(index, str):
            yield index
        new = getattr(node, "new", ())
        yield from (new,) if isinstance(new, str) else new
