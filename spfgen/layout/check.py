"""What a layout must satisfy beyond its syntax: affine relations, positions that are bounded."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product

from spfgen import limits
from spfgen.errors import Span, SpecError, Unsupported
from spfgen.facts.formula import (
    ZERO,
    Call,
    Formula,
    Or,
    Var,
    conjunction,
    conjuncts,
    show,
    variables,
    within,
)
from spfgen.ir import walk
from spfgen.layout.nodes import Layout
from spfgen.layout.proofs import apart
from spfgen.sets.affine import NotAffine
from spfgen.sets.bounds import bounds, single_value
from spfgen.sets.named import Piece, Space, TooManyPieces, pieces
from spfgen.sets.uf import Encoder, QuantifiedCall

ALTERNATIVES = 64
"""More alternatives of a relation than this are looked at together, and an error then names no place."""


def check_layout(layout: Layout) -> None:
    """Raises SpecError when the relation or a condition is not affine, or a position runs for ever.

    That calls have arguments within their arrays does not count as a bound: the bounds must be written.
    """
    for value in layout.values:
        _affine(layout, Encoder(), value.when)
    if layout.value_transforms and not apart(layout):
        raise SpecError(
            f"expected alternatives of layout `{layout.name}` that are disjoint, because they use the stored value "
            "differently",
            layout.span,
            ("exclude the others in each: `j < i` in one, `i < j` in the other",),
        )
    relations = list(islice(_alternatives(layout.relation), ALTERNATIVES + 1))
    try:
        for relation in relations if len(relations) <= ALTERNATIVES else [layout.relation]:
            _check_alternative(layout, relation)
    except TooManyPieces:
        raise Unsupported(
            f"the alternatives of layout `{layout.name}` make more than {limits.PIECES} pieces when they are expanded",
            layout.span,
            ("write the relation with fewer `or`, `!=`, `min` and `max`, joined by `and`: k of them make 2^k pieces",),
        ) from None


def _alternatives(relation: Formula) -> Iterator[Formula]:
    """The formulas that the relation is the disjunction of."""
    parts = [p.parts if isinstance(p, Or) else (p,) for p in conjuncts(relation)]
    for chosen in product(*parts):
        choices = [p for p, among in zip(chosen, parts, strict=True) if len(among) > 1]
        yield conjunction([*choices, *(p for p, among in zip(chosen, parts, strict=True) if len(among) == 1)])


def _check_alternative(layout: Layout, relation: Formula) -> None:
    encoder = Encoder()
    inside = [within(Var(c), ZERO, Var(n)) for c, n in zip(layout.coordinates, layout.parameters, strict=True)]
    formula = _affine(layout, encoder, conjunction([relation, *inside]))
    sizes = (*layout.parameters, *layout.sizes)
    names = (*sizes, *layout.coordinates, *layout.positions, *encoder.quotients, *encoder.calls)
    everything = conjunction([formula, *encoder.definitions()])
    for piece in pieces(Space(names), everything, _no_calls):
        _check_bounded(layout, piece, encoder, relation)


def _affine(layout: Layout, encoder: Encoder, formula: Formula) -> Formula:
    """The formula with dimensions in place of calls. Raises SpecError when it is not affine."""
    try:
        return encoder.formula(formula)
    except NotAffine as error:
        raise SpecError(
            f"expected an affine expression, but `{show(error.expr)}` is not affine",
            error.span or layout.span,
            ("make one factor a constant (after `;` in the header)",),
        ) from None
    except QuantifiedCall as error:
        raise SpecError(
            f"expected arguments that are positions, but `{error.variable}` in `{show(error.call)}` is quantified",
            error.call.span or layout.span,
            (f"make `{error.variable}` a position of the relation",),
        ) from None


def _no_calls(call: Call) -> str:
    raise NotAffine(call)


def _check_bounded(layout: Layout, piece: Piece, encoder: Encoder, relation: Formula) -> None:
    """Every position and coordinate gets bounds from those known before it, in some order."""
    known = {*layout.parameters, *layout.sizes}
    unknown = [n for n in piece.space.names if n not in known]
    while unknown:
        for name in unknown:
            if name in encoder.calls:
                ready = variables(*encoder.calls[name].arguments) <= known
            else:
                about = piece.project(known | {name}).constraints(name)
                ready = all(bounds(about, name)) or single_value(about, name) is not None
            if ready:
                known.add(name)
                unknown.remove(name)
                break
        else:
            position = next((p for p in layout.positions if p in unknown), unknown[0])
            raise SpecError(
                f"expected bounds for the position `{position}`, but nothing bounds it on both sides",
                _place(layout, relation, position),
                (f"add for instance `0 <= {position} < n` to the relation",),
            )


def _place(layout: Layout, relation: Formula, name: str) -> Span | None:
    """Where the name first occurs in the relation."""
    spans = (n.span for n in walk(relation) if isinstance(n, Var) and n.name == name)
    return next((s for s in spans if s is not None), layout.span)
