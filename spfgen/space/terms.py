"""Statements as sums of products; what may be a target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from spfgen.errors import Unsupported
from spfgen.lang import nodes as lang
from spfgen.lang.show import show_statement
from spfgen.layout.nodes import Layout
from spfgen.layout.proofs import as_output
from spfgen.space.extents import Extents
from spfgen.space.instances import make_instances
from spfgen.space.names import accesses
from spfgen.space.nodes import (
    Group,
    Tensor,
)


def make_group(statement: lang.Statement, tensors: Mapping[str, Tensor], extents: Extents) -> Group:
    text = show_statement(statement)
    target = statement.target
    op = statement.op
    terms = list(additive_terms(statement.value))
    own = [t for t in terms if t == target]
    if op == "=" and len(own) == 1:
        terms, op = [t for t in terms if t != target], "+="
    again = next((a for t in terms for a in accesses(t) if a.tensor == target.tensor), None)
    if again is not None:
        raise Unsupported(
            f"`{target.tensor}` is read and written by one statement, which would read values already changed",
            again.span or statement.span,
            ("write the result into another tensor",),
        )
    layout = tensors[target.tensor].layout
    check_output(statement, layout)
    found = tuple(i for term in terms for i in make_instances(statement, term, tensors, extents))
    for access in (target, *(a for t in terms for a in accesses(t))):
        filled = tensors[access.tensor].layout
        if filled.fill != 0:
            raise Unsupported(
                f"layouts with a fill value other than 0 are not compiled yet: `{filled.name}` has {filled.fill:g}",
                access.span or statement.span,
                ("leave `fill` out, and add the value to the result",),
            )
    return Group(text, op, target.tensor, found, statement.span)


def check_output(statement: lang.Statement, layout: Layout) -> None:
    """What is added to one coordinate must arrive at one place, and at no other coordinate's."""
    doubt = as_output(layout)
    if doubt is not None:
        what, answer = doubt
        example = ", ".join(f"{n} = {v}" for n, v in answer.model or ())
        raise Unsupported(
            f"`{statement.target.tensor}` cannot be an output in layout `{layout.name}`: it is not proved that {what}",
            statement.target.span,
            (f"a counterexample: {example}" if example else "Z3 found neither a proof nor a counterexample",),
        )


def additive_terms(value: lang.Value) -> Iterator[lang.Value]:
    """The additive terms of a value, products of sums multiplied out: each is a product of accesses and numbers."""
    match value:
        case lang.Binary("+", left, right):
            yield from additive_terms(left)
            yield from additive_terms(right)
        case lang.Binary("-", left, right):
            yield from additive_terms(left)
            for term in additive_terms(right):
                yield lang.Negate(term, term.span)
        case lang.Binary("*", left, right, span):
            for a, b in product(list(additive_terms(left)), list(additive_terms(right))):
                yield lang.Binary("*", a, b, span)
        case lang.Binary("/", left, right, span):
            if any(a.subscripts for a in accesses(right)):
                raise Unsupported(
                    "division by a tensor is not compiled yet: where it stores nothing the quotient has no value",
                    span,
                    ("divide by a number or a scalar, or multiply by a tensor of reciprocals",),
                )
            for a in additive_terms(left):
                yield lang.Binary("/", a, right, span)
        case lang.Negate(inner):
            for term in additive_terms(inner):
                yield lang.Negate(term, term.span)
        case _:
            yield value
