"""Scanning: each dimension of an instance is computed, loaded, looped over or found, from the outside in.

For each dimension: project the set onto the prefix, drop what is already enforced, and look at what is left on the
newest dimension. A call is loaded; a dimension with one possible value is located; one with bounds is scanned; what
remains is a guard (Ancourt and Irigoin 1991; Zhao et al. 2022, section 6.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from spfgen.facts.formula import Bin, Call, Compare, Expr, Formula, Num, Var, conjuncts, variables
from spfgen.ir import rewrite
from spfgen.plan.nodes import Define, Guard, Load, Plan, Scan
from spfgen.sets.affine import Affine, NotAffine, divided, expression
from spfgen.sets.bounds import bounds, single_value
from spfgen.sets.eliminate import about
from spfgen.sets.named import Constraint, Piece, Space, is_floor
from spfgen.sets.uf import comparisons, linear, with_floors
from spfgen.space.nodes import Instance

Node = TypeVar("Node")


@dataclass(frozen=True)
class Step:
    """How one dimension comes to its value, and the conditions that must hold then.

    `known` is everything that holds after them, `before` what held when the dimension was still open.
    """

    dim: str
    kind: str
    value: Expr | Call | None
    low: tuple[Expr, ...]
    high: tuple[Expr, ...]
    guards: tuple[Formula, ...]
    known: Piece
    because: str = ""
    before: Piece | None = None


def scan_steps(instance: Instance, domain: Piece, dims: tuple[str, ...], outer: Sequence[Step] = ()) -> list[Step]:
    """The steps of all dimensions. Those of the first ones may be given (`outer`): they are kept as they are, and what
    the domain says beyond them becomes a guard after them."""
    space = domain.space
    pending = [(c.value.names(), c) for c in comparisons(instance.facts)]
    known = space.universe()
    steps = [_moved(s, space) for s in outer]
    prefix = [*instance.sizes, *(s.dim for s in outer if s.dim)]
    if steps:
        known = known.intersect(steps[-1].known)
    known, pending = _learn(known, pending, set(prefix))
    first = _asked(domain.restrict(prefix).gist(known).constraints(), known)
    known = known.intersect(domain.restrict(prefix))
    if first or outer:
        steps.append(Step("", "guard", None, (), (), first, known))
    for dim in dims[len(prefix) - len(instance.sizes) :]:
        known = _made_safe(instance, dim, steps, known)
        steps.append(replace(_step(instance, domain, prefix, dim, known), before=known))
        prefix.append(dim)
        known, pending = _learn(steps[-1].known, pending, set(prefix))
        # Arrays have extents that are quotients; that a quotient is one may only follow from what comes later.
        restricted, meaning = domain.restrict(prefix), instance.meaning(dim, prefix)
        needed = restricted.speaking_of(dim).with_constraints(meaning)  # the others were guards before
        guards = _asked(needed.gist(known).constraints(), known)
        known = known.intersect(restricted).with_constraints(meaning)
        steps[-1] = replace(steps[-1], guards=guards, known=known)
    return steps


def _asked(constraints: Iterable[Constraint], known: Piece) -> tuple[Formula, ...]:
    """Constraints as conditions that are asked where this is known, and nothing of what they say."""
    return tuple(with_quotients(condition(c), known) for c in constraints)


def _moved(step: Step, space: Space) -> Step:
    """A step of another instance, with what is known there in this space."""

    def here(known: Piece) -> Piece:
        return known.without({n for n in known.space.names if n not in space.position}).reordered(space)

    return replace(step, known=here(step.known), before=None if step.before is None else here(step.before))


def _made_safe(instance: Instance, dim: str, steps: list[Step], known: Piece) -> Piece:
    """Before an index array is read: what keeps the subscript within it becomes a guard, if it does not follow.

    The domain implies it; but its constraints may only say so together with those on later dimensions.
    """
    wanted = comparisons(part for f in instance.domains.get(dim, ()) for part in conjuncts(f))
    missing = [c for c in wanted if not known.implies(c)]
    if not missing:
        return known
    conditions = _asked(missing, known)
    known = known.with_constraints(missing)
    if steps:
        steps[-1] = replace(steps[-1], guards=(*steps[-1].guards, *conditions), known=known)
    else:
        steps.append(Step("", "guard", None, (), (), conditions, known))
    return known


def _step(instance: Instance, domain: Piece, prefix: list[str], dim: str, known: Piece) -> Step:
    """How `dim` gets its value when `prefix` is known."""
    if dim in instance.calls:
        alias = next(
            (n for n in prefix if n in instance.calls and _original(instance, n) == _original(instance, dim)), None
        )
        if alias is not None:
            same = known.with_constraints([Constraint(True, Affine(((dim, 1), (alias, -1))))])
            return Step(dim, "locate", Var(alias), (), (), (), same, "the same call as before")
        return Step(dim, "load", instance.calls[dim], (), (), (), known)
    reach = [*prefix, dim]
    constraints = about(domain, dim, {*domain.space.names} - {*reach})
    constraints = domain.space.of([*constraints, *domain.restrict(reach).constraints(dim)]).gist(known).constraints(dim)
    single, (lower, upper) = single_value(constraints, dim) or _divided(instance, dim, prefix), bounds(constraints, dim)
    if single is None and not (lower and upper):  # a quotient of it is bounded, from which it follows for the dimension
        whole = domain.project(reach).intersect(domain.restrict(reach)).without_floors()
        constraints = whole.gist(known).constraints(dim)
        single, (lower, upper) = single_value(constraints, dim), bounds(constraints, dim)
        if single is None and not (lower and upper):  # one side follows from what is known and the other
            lower, upper = bounds(whole.constraints(dim), dim)
    if single is not None:
        numerator, divisor = single
        value = with_quotients(expression(divided(numerator, divisor)), known)
        return Step(dim, "locate", value, (), (), (), known.with_constraints(is_floor(dim, numerator, divisor)))
    low = tuple(with_quotients(expression(_rounded_up(e, a)), known) for a, e in lower)
    high = tuple(with_quotients(expression(divided(e, a).plus(1)), known) for a, e in upper)
    enforced = [Constraint(False, Affine(((dim, a),)) + e) for a, e in lower]
    enforced += [Constraint(False, e - Affine(((dim, a),))) for a, e in upper]
    return Step(dim, "scan", None, low, high, (), known.with_constraints(enforced))


def _divided(instance: Instance, dim: str, prefix: Sequence[str]) -> tuple[Affine, int] | None:
    """What a quotient is by its definition, where the numerator is known: constraints of the domain that are tighter on
    one side need not say so."""
    if dim not in instance.quotients:
        return None
    numerator, divisor = instance.quotients[dim]
    return (linear(numerator), divisor) if variables(numerator) <= set(prefix) else None


def _original(instance: Instance, call: str) -> str:
    """The call that this one is an alias of, or itself."""
    return instance.aliases.get(call, call)


def _rounded_up(addend: Affine, scale: int) -> Affine:
    """The least v with scale*v >= -rest."""
    return divided(addend.scaled(-1).plus(scale - 1), scale)


def _learn(
    known: Piece, pending: list[tuple[set[str], Constraint]], prefix: set[str]
) -> tuple[Piece, list[tuple[set[str], Constraint]]]:
    """Take in the facts that speak of known dimensions only."""
    ready = [c for names, c in pending if names <= prefix]
    return known.with_constraints(ready), [p for p in pending if not p[0] <= prefix]


def condition(constraint: Constraint) -> Formula:
    """A constraint as a person writes it: positive terms on each side, `a < b + 2` rather than `a <= b + 1`."""
    left = Affine(tuple((a, c) for a, c in constraint.value.terms if c > 0))
    right = Affine(tuple((a, -c) for a, c in constraint.value.terms if c < 0))
    constant = constraint.value.constant
    if constraint.equality:
        if constant > 0:
            return Compare("=", expression(left.plus(constant)), expression(right))
        return Compare("=", expression(left), expression(right.plus(-constant)))
    if constant < 0:
        return Compare(">", expression(left), expression(right.plus(-constant - 1)))
    if not right.terms:
        return Compare(">=", expression(left), expression(Affine((), -constant)))
    if constant == 0:
        return Compare("<=", expression(right), expression(left))
    return Compare("<", expression(right), expression(left.plus(constant + 1)))


def with_quotients(node: Node, known: Piece) -> Node:
    """Mark the divisions whose operands cannot be negative: C's own division is right for them."""

    def rule(n: object) -> Expr | None:
        match n:
            case Bin("/" | "%" as op, left, right) if _not_negative(left, known):
                return Bin("quot" if op == "/" else "rem", left, right)
        return None

    result: Node = rewrite(rule, node)
    return result


def _not_negative(expr: Expr, known: Piece) -> bool:
    match expr:
        case Num(value):
            return value >= 0
        case Bin("*" | "quot", left, right) if _not_negative(left, known) and _not_negative(right, known):
            return True
    try:
        return known.implies(Constraint(False, linear(with_floors(expr))))
    except NotAffine:
        pass
    match expr:
        case Bin("+", left, right):
            return _not_negative(left, known) and _not_negative(right, known)
    return False


def wrapped(step: Step, body: Plan, parallel: tuple[str, str] | None = None) -> Plan:
    """The node of a step around what comes after it. `parallel` is the loop that is, and why."""
    if step.guards:
        body = Guard(step.guards, body)
    match step.kind:
        case "locate":
            assert isinstance(step.value, Expr)
            return Define(step.dim, step.value, body, step.because)
        case "load":
            assert isinstance(step.value, Call)
            return Load(step.dim, step.value, body)
        case "scan":
            if parallel is not None and parallel[0] == step.dim:
                return Scan(step.dim, step.low, step.high, body, True, parallel[1])
            return Scan(step.dim, step.low, step.high, body)
    return body


def made_of(step: Step) -> set[str]:
    """The dimensions that a step's value or bounds are made of."""
    result: set[str] = set()
    if step.value is not None:
        result |= variables(step.value)
    for expr in (*step.low, *step.high):
        result |= variables(expr)
    return result


def sources(
    steps: Sequence[Step], names: Iterable[str], defined: Mapping[str, Iterable[str]] | None = None
) -> set[str]:
    """These dimensions and all that their values come from; `defined` adds names that are no steps."""
    result: set[str] = set()
    pending = [*names]
    by_name = {s.dim: s for s in steps}
    while pending:
        name = pending.pop()
        if name in result:
            continue
        result.add(name)
        pending += (defined or {}).get(name, ())
        if name in by_name:
            pending += made_of(by_name[name])
    return result
