"""Bounds on what an index array holds at the positions of a loop, and whether it is sorted along them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from spfgen.facts.formula import ONE, ZERO, Bin, Call, Compare, Expr, Formula, Var, conjuncts, rename, variables
from spfgen.facts.prove import implied
from spfgen.ir import fresh
from spfgen.plan.analyse.scan import Step, sources, with_quotients
from spfgen.plan.nodes import Accumulate, Block, BoundSearch, Define, Guard, Load, Plan, Scan, with_body
from spfgen.sets.affine import NotAffine, divided, expression
from spfgen.sets.bounds import bounds, single_value
from spfgen.sets.named import Constraint, Piece
from spfgen.sets.uf import as_formulas, comparisons, linear
from spfgen.space.nodes import Instance


@dataclass(frozen=True)
class Limit:
    """The positions at which the call is at least (`below`: less than) `value`: `constraint` says so of its
    dimension."""

    dim: str
    value: Expr
    below: bool
    constraint: Constraint


def bounded(
    instance: Instance, scan: Scan, inside: Sequence[Plan], outer: set[str], known: Piece
) -> list[tuple[Call, list[Limit]]]:
    """What is loaded in each iteration, with its bounds: it is read at any position of the loop, whatever conditions
    come before."""
    loaded = []
    asked = False
    for node in inside:
        if isinstance(node, Define):
            continue
        if isinstance(node, Guard):
            asked = True
            continue
        if not isinstance(node, Load) or (asked and not is_safe(instance, scan, node.dim, known)):
            break
        if _steps_along(node.call, scan.dim, outer):
            about = _limits(instance, node, scan.dim, outer, known)
            loaded += [(node.call, about)] if about else []
    return loaded


def is_safe(instance: Instance, scan: Scan | BoundSearch, load: str, known: Piece) -> bool:
    """Whether a call lies within its array at all positions of a loop."""
    here = known.with_constraints(comparisons(within_loop(scan)))
    wanted = comparisons(part for f in instance.domains.get(load, ()) for part in conjuncts(f))
    return all(map(here.implies, wanted))


def _steps_along(call: Call, dim: str, outer: set[str]) -> bool:
    """Whether the call is of the loop's position, or one beside it, and else of what is known outside."""
    *rows, last = call.arguments
    try:
        value = linear(last)
    except NotAffine:
        return False
    is_shifted = value.coefficient(dim) == 1 and value.names() <= {dim}
    return is_shifted and all(variables(e) <= outer for e in rows)


def _limits(instance: Instance, load: Load, dim: str, outer: set[str], known: Piece) -> list[Limit]:
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
        for scale, bound in lower:
            value = divided(bound.scaled(-1).plus(scale - 1), scale)
            result.append(Limit(load.dim, with_quotients(expression(value), known), False, constraint))
        for scale, bound in upper:
            value = divided(bound, scale).plus(1)
            result.append(Limit(load.dim, with_quotients(expression(value), known), True, constraint))
    return result


def falls(
    instance: Instance, scan: Scan, call: Call, steps: Sequence[Step], known: Piece, beside: Sequence[Load] = ()
) -> bool | None:
    """Whether the call falls along the loop (else it rises); None when neither is proved. What is loaded `beside` it
    may be what the order follows from."""
    twin = {n: f"{n}'" for n in (scan.dim, *(load.dim for load in beside))}
    one = [*within_loop(scan), *(Compare("=", Var(load.dim), load.call) for load in beside)]
    named = variables(call).union(*map(variables, one)) - twin.keys()
    ordered = Compare("<", Var(scan.dim), Var(twin[scan.dim]))
    assumptions = [*around(instance, steps, known, named), *one, *(rename(f, twin) for f in one), ordered]
    for op, descending in (("<=", False), (">=", True)):
        about = f"{call.function} along {scan.dim}: {'falling' if descending else 'rising'}, for bounds of the loop"
        if implied(assumptions, instance.axioms, Compare(op, call, rename(call, twin)), about=about).proved:
            return descending
    return None


def within_loop(scan: Scan | BoundSearch) -> list[Formula]:
    """That the loop's position lies within its bounds."""
    result: list[Formula] = [Compare(">=", Var(scan.dim), e) for e in scan.low]
    return result + [Compare("<", Var(scan.dim), e) for e in scan.high]


def around(instance: Instance, steps: Sequence[Step], known: Piece, named: Iterable[str]) -> list[Formula]:
    """What holds outside of a loop of these dimensions and all that they come from."""
    near = sources(steps, named) - set(instance.sizes)
    outside = [*instance.sizes_known, *as_formulas(known.project({*near, *instance.sizes}).constraints())]
    return outside + [Compare("=", Var(n), c) for n, c in instance.calls.items() if n in near]


def bound(
    scan: Scan,
    call: Call,
    limit: Limit,
    descending: bool,
    low: tuple[Expr, ...],
    high: tuple[Expr, ...],
    names: Sequence[str],
) -> BoundSearch:
    """The first position at which the limit is met, or is no longer."""
    word = "to" if limit.below != descending else "from"
    return BoundSearch(
        fresh(f"{scan.dim} {word}", frozenset(names)),
        scan.dim,
        low,
        high,
        call,
        Bin("-", limit.value, ONE) if descending else limit.value,
        descending,
        Compare(">=", expression(limit.constraint.value), ZERO),
        Block(()),
        f"{call.function} is {'decreasing' if descending else 'increasing'} within these bounds",
    )


def without_implied(plan: Plan, known: Piece) -> Plan:
    """The nest without the conditions that the new bounds have made sure of, up to the first loop inside."""
    match plan:
        case Guard(conditions, body):
            kept = tuple(
                f
                for f in conditions
                if not (constraints := comparisons([f])) or not all(map(known.implies, constraints))
            )
            body = without_implied(body, known)
            return replace(plan, conditions=kept, body=body) if kept else body
        case Load() | Define() | Accumulate():
            return with_body(plan, without_implied(plan.body, known))
    return plan
