"""Bounds on what an index array holds become bounds of the loop: where the array is sorted, it starts and ends there.

A convolution asks of each position that i <= idx(p) < i + n; a tile of columns that lo <= colidx(p) < hi; a tile of
positions asks of each row that it has some of them, rowptr(i) < hi and lo < rowptr(i + 1). All are conditions on what
an array holds at the loop's position. Where Z3 proves that the array rises (or falls), they hold from one position to
another, which a search finds: tiles that are empty are skipped (the condition of Zhao et al. 2022, figure 8).

A tile is narrowed from one side, too. Elsewhere one bound leaves half of the positions on average, which is not worth a
search: there have to be two, and a loop around that goes through the same positions again and again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from spfgen.facts.formula import ONE, ZERO, Bin, Call, Compare, Expr, Formula, Var, rename, variables
from spfgen.facts.prove import implied
from spfgen.ir import fresh
from spfgen.plan.context import Context
from spfgen.plan.finds import search
from spfgen.plan.nodes import Bound, Clear, Do, Guard, Load, Locate, Plan, Reach, Reduce, Scan, Seq, chain, with_body
from spfgen.plan.scan import Step, sources, with_quotients
from spfgen.sets.affine import NotAffine, divided, expression
from spfgen.sets.bounds import bounds, single_value
from spfgen.sets.named import Constraint, Piece
from spfgen.sets.uf import comparisons, linear
from spfgen.space.nodes import Instance


def narrowed(
    instance: Instance, nest: Plan, steps: Sequence[Step], context: Context, fixed: Collection[str] = ()
) -> Plan:
    """The nest with such bounds on its loops, but for the `fixed` ones, and for positions that the schedule finds in
    another way."""
    if not context.level:
        return nest
    others = {*fixed, *(dim for dim, forced in context.forced.items() if forced.algorithm != search.NAME)}

    nodes = list(chain(nest))
    result = nodes[-1]
    for node in reversed(nodes[:-1]):
        result = with_body(node, result)
        if isinstance(result, Scan) and result.dim not in others:
            result = _narrowed(instance, result, steps)
    return result


@dataclass(frozen=True)
class _Limit:
    """The positions at which the call is at least (`below`: less than) `value`: `constraint` says so of its
    dimension."""

    dim: str
    value: Expr
    below: bool
    constraint: Constraint


def _narrowed(instance: Instance, scan: Scan, steps: Sequence[Step]) -> Plan:
    inside = list(chain(scan.body))
    if any(isinstance(n, Clear) or (isinstance(n, Reduce | Do) and n.op == "=") for n in inside):
        return scan  # each iteration stores something
    position = [s.dim for s in steps].index(scan.dim)
    outer = {*instance.sizes, *(s.dim for s in steps[:position])}
    known = steps[position].before
    assert known is not None
    again = _again(scan, steps[:position])
    if not again and not outer & set(instance.made):
        return scan
    limits: list[_Limit] = []
    wraps: list[Bound] = []
    reaches: list[Reach] = []
    low, high = scan.low, scan.high
    for node in inside:
        if isinstance(node, Locate):
            continue
        if not isinstance(node, Load):
            break
        if not _steps_along(node.call, scan.dim, outer):
            continue
        about = _limits(instance, node, scan.dim, outer, known)
        if not (again and {limit.below for limit in about} == {False, True}):
            about = [limit for limit in about if limit.constraint.value.names() & set(instance.made)]
        if not about:
            continue
        descending = _direction(instance, scan, node.call, steps, known)
        if descending is None:
            continue
        limits += about
        if {limit.below for limit in about} == {False, True} and outer & set(instance.made):
            reaches.append(_reach(scan, node.call, about, descending))
        for limit in about:
            wraps.append(_bound(scan, node.call, limit, descending, low, high, [w.name for w in wraps]))
            if limit.below != descending:
                high = (Var(wraps[-1].name),)
            else:
                low = (Var(wraps[-1].name),)
    if not wraps:
        return scan
    holds = [limit.constraint for limit in limits]
    result: Plan = replace(scan, low=low, high=high, body=_without_implied(scan.body, known.with_constraints(holds)))
    for wrap in (*reversed(wraps), *reaches):
        result = with_body(wrap, result)
    return result


def _again(scan: Scan, outer: Sequence[Step]) -> bool:
    """Whether a loop around goes through the same positions in each of its iterations."""
    needed = sources(outer, {n for e in (*scan.low, *scan.high) for n in variables(e)})
    return any(s.kind == "scan" and s.dim not in needed for s in outer)


def _steps_along(call: Call, dim: str, outer: set[str]) -> bool:
    """Whether the call is of the loop's position, or one beside it, and else of what is known outside."""
    *rows, last = call.arguments
    try:
        value = linear(last)
    except NotAffine:
        return False
    own = value.coefficient(dim) == 1 and value.names() <= {dim}
    return own and all(variables(e) <= outer for e in rows)


def _limits(instance: Instance, load: Load, dim: str, outer: set[str], known: Piece) -> list[_Limit]:
    """The bounds of the value that is loaded, as far as they are not known anyway."""
    reach = {*outer, load.dim}
    domain = instance.domain.reordered(known.space)
    facts = [c for c in comparisons(instance.facts) if c.value.names() <= {*reach, dim}]
    about = domain.project(reach).gist(known.with_constraints(facts)).constraints(load.dim)
    if single_value(domain.project(reach).constraints(load.dim), load.dim) is not None:
        return []  # it is looked for
    result = []
    for constraint in about:
        names = constraint.value.names()
        if constraint.equality or not names <= reach:
            continue
        lower, upper = bounds([constraint], load.dim)
        for scale, rest in lower:
            value = divided(rest.scaled(-1).plus(scale - 1), scale)
            result.append(_Limit(load.dim, with_quotients(expression(value), known), False, constraint))
        for scale, rest in upper:
            value = divided(rest, scale).plus(1)
            result.append(_Limit(load.dim, with_quotients(expression(value), known), True, constraint))
    return result


def _direction(instance: Instance, scan: Scan, call: Call, steps: Sequence[Step], known: Piece) -> bool | None:
    """Whether the call falls along the loop (else it rises); None when neither is proved."""
    twin = {scan.dim: f"{scan.dim}'"}
    one: list[Formula] = [Compare(">=", Var(scan.dim), e) for e in scan.low]
    one += [Compare("<", Var(scan.dim), e) for e in scan.high]
    named = variables(call).union(*map(variables, one)) - {scan.dim}
    near = sources(steps, named) - set(instance.sizes)
    outside: list[Formula] = [Compare(">=", Var(s), ZERO) for s in instance.natural]
    outside += [
        Compare("=" if c.equality else ">=", expression(c.value), ZERO)
        for c in known.project({*near, *instance.sizes}).constraints()
    ]
    outside += [Compare("=", Var(n), c) for n, c in instance.calls.items() if n in near]
    ordered = Compare("<", Var(scan.dim), Var(twin[scan.dim]))
    assumptions = [*outside, *one, *(rename(f, twin) for f in one), ordered]
    for op, descending in (("<=", False), (">=", True)):
        about = f"{call.function} along {scan.dim}: {'falling' if descending else 'rising'}, for bounds of the loop"
        if implied(assumptions, instance.axioms, Compare(op, call, rename(call, twin)), about=about).proved:
            return descending
    return None


def _bound(
    scan: Scan,
    call: Call,
    limit: _Limit,
    descending: bool,
    low: tuple[Expr, ...],
    high: tuple[Expr, ...],
    names: Sequence[str],
) -> Bound:
    """The first position at which the limit is met, or is no longer."""
    word = "to" if limit.below != descending else "from"
    return Bound(
        fresh(f"{scan.dim} {word}", frozenset(names)),
        scan.dim,
        low,
        high,
        call,
        Bin("-", limit.value, ONE) if descending else limit.value,
        descending,
        Compare(">=", expression(limit.constraint.value), ZERO),
        Seq(()),
        f"{call.function} {'falls' if descending else 'rises'} within these bounds",
    )


def _reach(scan: Scan, call: Call, limits: Sequence[_Limit], descending: bool) -> Reach:
    """That there is such a position at all, which takes no search."""
    first = reduce(lambda a, b: Bin("max", a, b), [limit.value for limit in limits if not limit.below])
    last = reduce(lambda a, b: Bin("min", a, b), [limit.value for limit in limits if limit.below])
    word = "falls" if descending else "rises"
    why = f"what has nothing in the tile is passed over without a search, since {call.function} {word} there"
    return Reach(scan.dim, scan.low, scan.high, call, first, last, descending, Seq(()), why)


def _without_implied(plan: Plan, known: Piece) -> Plan:
    """The nest without the conditions that the new bounds have made sure of, up to the first loop inside."""
    match plan:
        case Guard(conditions, body):
            kept = tuple(f for f in conditions if not (found := comparisons([f])) or not all(map(known.implies, found)))
            body = _without_implied(body, known)
            return replace(plan, conditions=kept, body=body) if kept else body
        case Load() | Locate() | Reduce():
            return with_body(plan, _without_implied(plan.body, known))
    return plan
