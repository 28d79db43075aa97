"""Statements as sums of products; what may be a target.

A value that is more than a sum of products is taken apart (values.py): its sums become sums of products of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spfgen.errors import Span, SpecError, Unsupported
from spfgen.facts.formula import variables
from spfgen.facts.prove import smaller
from spfgen.ir import walk
from spfgen.lang import nodes as lang
from spfgen.lang.show import show_statement
from spfgen.layout.nodes import Layout
from spfgen.layout.proofs import as_output
from spfgen.space.extents import Ranges
from spfgen.space.names import accesses
from spfgen.space.nodes import Asked, Group, Tensor
from spfgen.space.products import Term, apart, instances_of, linear_terms, too_many
from spfgen.space.values import check_divisors, make_expression


def make_group(statement: lang.Statement, tensors: Mapping[str, Tensor], ranges: Ranges) -> Asked:
    """The points of a statement, and the temporaries that it needs. Raises SpecError, Unsupported."""
    target = statement.target
    check_output(target.tensor, tensors[target.tensor].layout, target.span)
    check_fills(statement, tensors)
    op = statement.op
    computed = tensors[target.tensor].assembled is not None
    value = statement.value
    if computed:
        value, ranges = apart(value, _outside(statement, ranges), ranges)
    terms = linear_terms(value, quotients=computed)
    target_terms = [t for t in terms or () if t.value == target]
    if terms is not None and op == "=" and len(target_terms) == 1:
        terms, op = [t for t in terms if t.value != target], "+="
    if computed:
        check_entries(statement, terms, tensors, ranges)
    if terms is None or any(a.tensor == target.tensor for t in terms for a in accesses(t.value)):
        return make_expression(statement, tensors, ranges)
    instances = instances_of(statement, terms, tensors, ranges)
    return Asked(Group(show_statement(statement), op, target.tensor, instances, None, statement.span), ())


def _outside(statement: lang.Statement, ranges: Ranges) -> set[str]:
    """Indices and sizes that are not those of a sum."""
    inside = {i for n in walk(statement.value) if isinstance(n, lang.Reduce) for i in n.indices}
    every = {v for a in (statement.target, *accesses(statement.value)) for s in a.subscripts for v in variables(s)}
    return {*(every - inside), *ranges.sizes}


def check_entries(
    statement: lang.Statement, terms: Sequence[Term] | None, tensors: Mapping[str, Tensor], ranges: Ranges
) -> None:
    """A result whose pattern is computed has the entries of a sum of products, divided by what is stored where they
    are. Raises Unsupported."""
    if terms is not None:
        for term in terms:
            check_divisors(statement, term, tensors, ranges)
        return
    name = statement.target.tensor
    raise too_many(statement.value, statement.span) or Unsupported(
        f"the pattern of `{name}` is computed only for sums of products",
        statement.target.span or statement.span,
        (f"declare `{name}` dense, or assign the sums in the value to tensors of their own first",),
    )


def check_output(name: str, layout: Layout, span: Span | None) -> None:
    """Refuses a target layout that may store a coordinate twice, or two coordinates in one place."""
    doubt = as_output(layout)
    if doubt is not None:
        what, answer = doubt
        example = ", ".join(f"{n} = {v}" for n, v in smaller(answer).model or ())
        raise Unsupported(
            f"`{name}` cannot be an output in layout `{layout.name}`: it is not proved that {what}",
            span,
            (f"a counterexample: {example}" if example else "Z3 found neither a proof nor a counterexample",),
        )


def check_signs(statement: lang.Statement, tensors: Mapping[str, Tensor]) -> None:
    """Booleans have no difference, as in numpy."""
    names = {tensors[a.tensor].value_type for a in (statement.target, *accesses(statement.value))}
    for node in walk(statement.value) if names == {"bool"} else ():
        if isinstance(node, lang.Apply) and not node.operator.c_bool and node.op != "divide":
            raise SpecError(
                "expected a sum or a product of booleans, but this is a difference",
                node.span or statement.span,
                ("booleans have no difference; declare the result with a numeric type, such as `int64`",),
            )


def check_fills(statement: lang.Statement, tensors: Mapping[str, Tensor]) -> None:
    for access in (statement.target, *accesses(statement.value)):
        filled = tensors[access.tensor].layout
        if filled.fill != 0:
            raise Unsupported(
                f"layouts with a fill value other than 0 are not compiled yet: `{filled.name}` has {filled.fill:g}",
                access.span or statement.span,
                ("leave `fill` out, and add the value to the result",),
            )
