"""Transformations: relations on iteration spaces. Each adds dimensions to the spaces that have those it speaks of.

A tile of i is a new dimension t with T*t <= i < T*t + T; a skewed loop one with t = i + j. The points stay the same,
only the order in which they run can change: new dimensions are scanned like all others (Zhao et al. 2022, section 5.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from spfgen.errors import SpecError, Unsupported
from spfgen.facts.formula import Expr, Formula, conjunction, show
from spfgen.sets.affine import Affine, NotAffine
from spfgen.sets.named import Constraint, Piece, Space, pieces
from spfgen.sets.uf import Encoder
from spfgen.space.nodes import Change, Group, Instance


def transformed(groups: Sequence[Group], changes: Sequence[Change]) -> tuple[Group, ...]:
    """The groups with the new dimensions. Raises SpecError, Unsupported."""
    for change in changes:
        if not any(_concerns(i, change) for g in groups for i in g.all):
            names = " and ".join(f"`{n}`" for n in change.needs)
            message = f"expected loops of one statement, but none has {names}"
            raise SpecError(message, change.span, ("a loop is over an index or a position of the statement",))
        groups = [
            replace(
                g,
                instances=tuple(changed(i, change) for i in g.instances),
                point=None if g.point is None else changed(g.point, change),
            )
            for g in groups
        ]
    return tuple(groups)


def _concerns(instance: Instance, change: Change) -> bool:
    return set(change.needs) <= set(instance.domain.space.names)


def changed(instance: Instance, change: Change) -> Instance:
    """The instance with the new dimensions, if it has those that they are made of."""
    if not _concerns(instance, change):
        return instance
    encoder = Encoder(quotients=dict(instance.quotients))
    try:
        condition = encoder.formula(change.condition)
    except NotAffine as error:
        raise _not_affine(change, error.expr) from None
    new_sizes = [s for s in change.sizes if s not in instance.sizes]
    quotients = {n: q for n, q in encoder.quotients.items() if n not in instance.quotients}
    new = (*change.makes, *quotients)
    space = Space((*new_sizes, *instance.domain.space.names, *new))
    asked = _one_piece(change, space, conjunction([condition, *Encoder(quotients=quotients).definitions()]))
    domain = instance.domain.reordered(space).intersect(asked)
    _check_one_to_one(instance, change, domain, new)
    return replace(
        instance,
        domain=domain,
        sizes=(*new_sizes, *instance.sizes),
        quotients={**instance.quotients, **quotients},
        made=(*instance.made, *change.makes),
    )


def _one_piece(change: Change, space: Space, condition: Formula) -> Piece:
    disjuncts = pieces(space, condition, _no_call)
    if len(disjuncts) != 1:
        what = "holds nowhere" if not disjuncts else "has alternatives"
        raise SpecError(f"expected one affine relation between loops, but it {what}", change.span)
    return disjuncts[0]


def _check_one_to_one(instance: Instance, change: Change, domain: Piece, new: Sequence[str]) -> None:
    """Each point of the old space is one point of the new one: else it would run twice, or not at all."""
    old = instance.domain.reordered(domain.space)
    if not old.is_within_projection(domain, new):
        point = old.outside_projection(domain, new)
        raise SpecError(
            f"expected a relation that has all iterations, but it leaves out {_shown(point, change)}",
            change.span,
            ("the statement and its `where` determine the iterations; a schedule only orders them",),
        )
    twin = {n: f"{n}'" for n in new}
    space = Space((*domain.space.names, *twin.values()))
    both = domain.reordered(space).with_constraints(
        Constraint(c.equality, c.value.renamed(twin)) for c in domain.constraints()
    )
    for name in change.makes:
        differ = both.with_constraints([Constraint(False, Affine(((twin[name], 1), (name, -1))).plus(-1))])
        if not differ.is_empty():
            point = differ.sample() or {}
            values = " and ".join(f"{name} = {point[n]}" for n in (name, twin[name]))
            raise SpecError(
                f"expected a relation that has each iteration once, but {_shown(point, change)} has {values}",
                change.span,
                (f"say which value `{name}` has: `{name} = ...`, or bounds for a tile of fixed size",),
            )


def _shown(point: Mapping[str, int], change: Change) -> str:
    return ", ".join(f"{n} = {point[n]}" for n in change.needs)


def _not_affine(change: Change, expr: Expr) -> Unsupported:
    return Unsupported(
        f"expected an affine relation between loops, but `{show(expr)}` is not affine",
        change.span,
        ("sums of loops and sizes times numbers, and quotients by numbers, are affine",),
    )


def _no_call(call: object) -> str:
    raise SpecError(f"expected loops and sizes, but {call} is a call")
