"""Intervals that do not meet: of the positions that begin before a value, only the last can reach up to it.

Runs, blocks of varying size and bands store an interval of coordinates at each position: start(q) <= j < stop(q). Where
Z3 proves that the starts rise and that an interval ends before the next one begins, all positions but the last with
start(q) <= j are over by then. So one search by the start finds the interval of a coordinate, whatever its end is made
of, and two find those that meet another interval.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from spfgen.facts.formula import ONE, TRUE, ZERO, Bin, Call, Compare, Expr, Formula, Var, rename, variables
from spfgen.facts.prove import implied
from spfgen.ir import fresh
from spfgen.plan.analyse.scan import Step, with_quotients
from spfgen.plan.analyse.sorted_bounds import Limit, around, bound, falls, within_loop, without_implied
from spfgen.plan.nodes import BoundSearch, Define, Guard, Load, Plan, Scan, chain, with_body
from spfgen.sets.affine import Affine, NotAffine, expression
from spfgen.sets.named import Constraint, Piece
from spfgen.sets.uf import linear
from spfgen.space.nodes import Instance


def by_start(
    instance: Instance,
    scan: Scan,
    steps: Sequence[Step],
    known: Piece,
    loaded: Sequence[tuple[Call, list[Limit]]],
    moving: Collection[str],
    at_point: bool,
) -> Plan | None:
    """The loop over those positions only whose intervals can reach what is looked for: a point (`at_point`) or an
    interval. `found` are the bounds of what is loaded; `moving` what changes from one visit of the loop to the next."""
    for call, limits in loaded:
        if len(limits) != 1 or not limits[0].below or not limits[0].constraint.value.names() & {*moving}:
            continue
        (limit,) = limits
        ends = _ends(instance, scan, steps, known, limit)
        for first in sorted(ends, key=lambda end: len(end.names() - {*moving})):  # those without sizes say more
            if not first.names() & {*moving} or _is_before(first, limit) != at_point:
                continue
            if falls(instance, scan, call, steps, known, _loads(scan)) is not False:
                break
            if _are_over(instance, scan, call, steps, known, first):
                return _narrowed(scan, call, known, limit, None if at_point else first)
    return None


def _ends(instance: Instance, scan: Scan, steps: Sequence[Step], known: Piece, limit: Limit) -> Iterator[Affine]:
    """Lower bounds of the value loaded at a position, over dimensions outside of the loop only."""
    position = [s.dim for s in steps].index(scan.dim)
    outer = {*instance.sizes, *(s.dim for s in steps[:position])}
    for constraint in _conditions(instance, scan, outer, known):
        if limit.dim in constraint.value.names() and constraint.value.coefficient(limit.dim) < 0:
            continue
        inner = [a for a, _ in constraint.value.terms if not isinstance(a, str) or a not in outer]
        if any(not isinstance(a, str) for a in inner) or not inner:
            continue
        bound = Affine(tuple((a, c) for a, c in constraint.value.terms if a not in inner), constraint.value.constant)
        yield bound.scaled(-1).plus(-1)


def _conditions(instance: Instance, scan: Scan, outer: set[str], known: Piece) -> list[Constraint]:
    """What is asked of a position by what is loaded of it before the next loop."""
    loads = {n.dim for n in _loads(scan)}
    domain = instance.domain.reordered(known.space)
    about = domain.project({*outer, scan.dim, *loads}).gist(known).constraints()
    return [c for c in about if not c.equality and c.value.names() & loads]


def _loads(scan: Scan) -> list[Load]:
    """What is loaded in each iteration before the next loop."""
    loads = []
    for node in chain(scan.body):
        if isinstance(node, Load):
            loads.append(node)
        elif not isinstance(node, Guard | Define):
            break
    return loads


def _is_before(first: Affine, limit: Limit) -> bool:
    """Whether the value is the last before the limit: both speak of one point."""
    try:
        return linear(limit.value).plus(-1) == first
    except NotAffine:
        return False


def _are_over(instance: Instance, scan: Scan, call: Call, steps: Sequence[Step], known: Piece, value: Affine) -> bool:
    """Whether a position is of no use where a later one has `call <= value` already."""
    position = [s.dim for s in steps].index(scan.dim)
    outer = {*instance.sizes, *(s.dim for s in steps[:position])}
    asked = _conditions(instance, scan, outer, known)
    loads = [n for n in _loads(scan) if any(n.dim in c.value.names() for c in asked)]
    here: list[Formula] = [Compare(">=", expression(c.value), ZERO) for c in asked]
    here += [Compare("=", Var(n.dim), n.call) for n in loads]
    twin = {scan.dim: f"{scan.dim}'"}
    one = within_loop(scan)
    named = variables(*one, *here, Compare("=", call, expression(value)))
    own_names = {scan.dim, *(n.dim for n in loads)}
    assumptions = [
        *around(instance, steps, known, named - own_names),
        *one,
        *here,
        *(rename(f, twin) for f in one),
        Compare("<", Var(scan.dim), Var(twin[scan.dim])),
    ]
    goal = Compare(">", rename(call, twin), expression(value))
    about = f"what {scan.dim} stores is over where the next begins: {call.function}"
    return implied(assumptions, instance.axioms, goal, about=about).proved


def _narrowed(scan: Scan, call: Call, known: Piece, limit: Limit, first: Affine | None) -> Plan:
    """From the last position that begins at `first` or before (or before the limit) to the last before the limit."""
    end = bound(scan, call, limit, False, scan.low, scan.high, ())
    wraps: list[BoundSearch] = [end]
    if first is not None:
        value = with_quotients(expression(first.plus(1)), known)
        name = fresh(f"{scan.dim} from", frozenset((end.name,)))
        wraps.append(replace(end, name=name, high=(Var(end.name),), value=value, condition=TRUE))
    low: tuple[Expr, ...] = (*scan.low, Bin("-", Var(wraps[-1].name), ONE))
    body = without_implied(scan.body, known.with_constraints([limit.constraint]))
    result: Plan = replace(scan, low=low, high=(Var(end.name),), body=body)
    for wrap in reversed(wraps):
        result = with_body(wrap, result)
    return result
