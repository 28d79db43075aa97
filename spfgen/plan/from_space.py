"""Scans the points of each instance in their order: IR 2 to IR 3.

Outside in, for each dimension: project the set onto the prefix, drop what is already enforced, and look at what is
left on the newest dimension. A call is loaded; a dimension with one possible value is located; one with bounds is
scanned; what remains is a guard (Ancourt and Irigoin 1991; Zhao et al. 2022, section 6.1). A scan followed by loads
whose values are already known is a find (section 6.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spfgen.facts.formula import Bin, Call, Compare, Expr, Formula, Num, Var, variables
from spfgen.ir import rewrite, walk
from spfgen.plan.check import check_nest
from spfgen.plan.depend import covers, distinct_by_facts, distinct_places, place_inside
from spfgen.plan.nodes import Clear, Do, Find, Guard, Load, Locate, Plan, Reduce, Scan, Seq
from spfgen.plan.order import scan_order
from spfgen.plan.simplify import simplify
from spfgen.sets.affine import Affine, NotAffine, divided, expression
from spfgen.sets.bounds import bounds, single_value
from spfgen.sets.named import Constraint, Piece, Space, comparison
from spfgen.sets.uf import linear, with_floors
from spfgen.space.nodes import Group, Instance, Program


def plan_program(program: Program) -> Plan:
    """The plans of all statements, one after another."""
    return Seq(tuple(plan_group(g, program.order) for g in program.groups))


def plan_group(group: Group, order: Sequence[str]) -> Plan:
    """One statement: its output is cleared first, unless the first instance stores every place of it."""
    parts: list[Plan] = []
    clear = group.op == "="
    for instance in group.instances:
        nest, stored = plan_instance(instance, order, store=clear and not parts)
        if clear and not parts and not stored:
            parts.append(Clear(group.target, "not every place is reached exactly once"))
        parts.append(nest)
    if clear and not group.instances:
        parts.append(Clear(group.target, "nothing is added"))
    return parts[0] if len(parts) == 1 else Seq(tuple(parts))


# --- one instance ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Step:
    """How one dimension comes to its value, and the conditions that must hold then.

    `known` is everything that holds after them.
    """

    dim: str
    kind: str
    value: Expr | Call | None
    low: tuple[Expr, ...]
    high: tuple[Expr, ...]
    guards: tuple[Formula, ...]
    known: Piece
    because: str = ""


def plan_instance(instance: Instance, order: Sequence[str], store: bool) -> tuple[Plan, bool]:
    """The loop nest of an instance, and whether it stores (rather than adds to) every place of the target."""
    dims = scan_order(instance, order)
    space = Space((*instance.sizes, *dims))
    domain = instance.domain.reordered(space)
    steps = _steps(instance, domain, dims)
    return _nest(instance, steps, store)


def _steps(instance: Instance, domain: Piece, dims: tuple[str, ...]) -> list[_Step]:
    space = domain.space
    pending = _fact_constraints(instance, space)
    known = space.universe()
    prefix = list(instance.sizes)
    known, pending = _learn(known, pending, set(prefix))
    first = _guards(domain.restrict(prefix).gist(known))
    known = known.intersect(domain.restrict(prefix))
    steps: list[_Step] = []
    if first:
        steps.append(_Step("", "guard", None, (), (), tuple(map(_condition, first)), known))
    for dim in dims:
        steps.append(_step(instance, domain, prefix, dim, known))
        prefix.append(dim)
        known, pending = _learn(steps[-1].known, pending, set(prefix))
        own = domain.restrict(prefix)
        needed = _guards(own.gist(known))
        known = known.intersect(own)
        guards = tuple(_floored(_condition(c), known) for c in needed)
        steps[-1] = replace(steps[-1], guards=guards, known=known)
    return steps


def _step(instance: Instance, domain: Piece, prefix: list[str], dim: str, known: Piece) -> _Step:
    """How `dim` gets its value when `prefix` is known."""
    if dim in instance.calls:
        alias = instance.aliases.get(dim)
        if alias is not None:
            same = known.with_constraints([Constraint(True, Affine(((dim, 1), (alias, -1))))])
            return _Step(dim, "locate", Var(alias), (), (), (), same, "the same call as before")
        return _Step(dim, "load", instance.calls[dim], (), (), (), known)
    reach = [*prefix, dim]
    about = domain.project(reach).intersect(domain.restrict(reach)).gist(known).constraints(dim)
    single = single_value(about, dim)
    if single is not None:
        numerator, divisor = single
        value = _floored(expression(divided(numerator, divisor)), known)
        return _Step(dim, "locate", value, (), (), (), known.with_constraints(_quotient(dim, numerator, divisor)))
    lower, upper = bounds(about, dim)
    low = tuple(_floored(expression(_rounded_up(e, a)), known) for a, e in lower)
    high = tuple(_floored(expression(divided(e, a).plus(1)), known) for a, e in upper)
    enforced = [Constraint(False, Affine(((dim, a),)) + e) for a, e in lower]
    enforced += [Constraint(False, e - Affine(((dim, a),))) for a, e in upper]
    return _Step(dim, "scan", None, low, high, (), known.with_constraints(enforced))


def _quotient(dim: str, numerator: Affine, divisor: int) -> list[Constraint]:
    """dim = floor(numerator / divisor)."""
    rest = numerator - Affine(((dim, divisor),))
    if divisor == 1:
        return [Constraint(True, rest)]
    return [Constraint(False, rest), Constraint(False, rest.scaled(-1).plus(divisor - 1))]


def _rounded_up(rest: Affine, scale: int) -> Affine:
    """The least v with scale*v >= -rest."""
    return divided(rest.scaled(-1).plus(scale - 1), scale)


def _fact_constraints(instance: Instance, space: Space) -> list[tuple[set[str], Constraint]]:
    result = []
    for fact in instance.facts:
        if isinstance(fact, Compare) and fact.op != "!=":
            constraint = comparison(fact.op, linear(fact.left), linear(fact.right))
            result.append((constraint.value.names(), constraint))
    return result


def _learn(
    known: Piece, pending: list[tuple[set[str], Constraint]], prefix: set[str]
) -> tuple[Piece, list[tuple[set[str], Constraint]]]:
    """Take in the facts that speak of known dimensions only."""
    ready = [c for names, c in pending if names <= prefix]
    return known.with_constraints(ready), [p for p in pending if not p[0] <= prefix]


def _guards(needed: Piece) -> list[Constraint]:
    return needed.constraints()


def _condition(constraint: Constraint) -> Formula:
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


def _floored(node, known: Piece):  # type: ignore[no-untyped-def]
    """Mark the divisions whose operands cannot be negative: C's own division is right for them."""
    def rule(n: object) -> Expr | None:
        match n:
            case Bin("/" | "%" as op, left, right) if _not_negative(left, known):
                return Bin("quot" if op == "/" else "rem", left, right)
        return None

    return rewrite(rule, node)


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


# --- from steps to a nest ----------------------------------------------------------------------------


def _nest(instance: Instance, steps: list[_Step], store: bool) -> tuple[Plan, bool]:
    """Fold the steps from the inside out."""
    level = _target_level(instance, steps)
    loops_below = any(s.kind == "scan" for s in steps[level:])
    loops_above = [s.dim for s in steps[:level] if s.kind == "scan"]
    known = steps[-1].known if steps else instance.domain.space.universe()
    at_target = steps[level - 1].known if level else known.space.universe()
    summed = loops_below and not instance.guards and place_inside(instance, at_target)
    # Storing instead of adding: reached whatever the data are, and nothing below may skip it.
    always = summed or not (loops_below or instance.guards or any(s.guards for s in steps[level:]))
    data_free = not any(s.kind == "load" for s in steps[:level])
    stored = store and always and data_free and covers(instance, at_target, loops_above)
    target = replace(instance.target, place=tuple(_floored(p, known) for p in instance.target.place))
    body: Plan = Do(target, "=" if stored and not summed else "+=", _floored_value(instance.value, known))
    if instance.guards:
        conditions = tuple(_floored(g, known) for g in instance.guards)
        body = Guard(conditions, body, "the place in the value array could not be proved to lie within it")
    parallel = _parallel_dim(instance, steps)
    # A stored sum must be stored whatever happens below; one that is added is best kept within the guards.
    first_loop = next((k for k in range(level, len(steps)) if steps[k].kind == "scan"), len(steps))
    reduce_above = level if stored else first_loop
    for k in range(len(steps) - 1, -1, -1):
        body = _wrap(steps[k], body, parallel)
        if summed and k == reduce_above:
            body = _reduced(target, stored, body)
    nest = _finds(body)
    check_nest(instance, nest)
    return simplify(nest, instance.indices), stored


def _reduced(target, stored: bool, body: Plan) -> Plan:  # type: ignore[no-untyped-def]
    why = f"all loops below write one place of {target.tensor}"
    if stored:
        why += ", and every place is reached exactly once"
    return Reduce(target, "=" if stored else "+=", body, why)


def _floored_value(value, known: Piece):  # type: ignore[no-untyped-def]
    return _floored(value, known)


def _target_level(instance: Instance, steps: list[_Step]) -> int:
    """After how many steps the place of the target is fixed."""
    needed = {v for p in instance.target.place for v in variables(p)} - set(instance.sizes)
    if instance.guards:
        needed |= {v for g in instance.guards for v in variables(g)} - set(instance.sizes)
    level = 0
    for k, step in enumerate(steps):
        if step.dim in needed:
            level = k + 1
    return level


def _wrap(step: _Step, body: Plan, parallel: tuple[str, str] | None) -> Plan:
    if step.guards:
        body = Guard(step.guards, body)
    match step.kind:
        case "locate":
            assert isinstance(step.value, Expr)
            return Locate(step.dim, step.value, body, step.because)
        case "load":
            assert isinstance(step.value, Call)
            return Load(step.dim, step.value, body)
        case "scan":
            is_parallel = parallel is not None and parallel[0] == step.dim
            return Scan(step.dim, step.low, step.high, body, is_parallel, parallel[1] if is_parallel and parallel else "")
    return body


def _parallel_dim(instance: Instance, steps: list[_Step]) -> tuple[str, str] | None:
    """The outermost loop when its iterations are proved to write distinct places, and why."""
    scans = [k for k, s in enumerate(steps) if s.kind == "scan"]
    if not scans:
        return None
    dim = steps[scans[0]].dim
    text = f"its iterations write different places of {instance.target.tensor}"
    if distinct_places(instance, dim):
        return dim, text
    last = scans[1] - 1 if len(scans) > 1 else len(steps) - 1
    fixed = {*instance.sizes, *(s.dim for s in steps[: last + 1])}
    if distinct_by_facts(instance, dim, fixed, steps[last].known):
        return dim, f"{text} (by Z3 from the declared properties)"
    return None


def _finds(plan: Plan) -> Plan:
    """A scan whose body only loads by its position and compares with what is known is a find."""
    def rule(node: object) -> Plan | None:
        if not isinstance(node, Scan):
            return None
        loads: list[tuple[str, Call]] = []
        conditions: list[Formula] = []
        body = node.body
        loaded: set[str] = set()
        while True:
            match body:
                case Load(dim, call, inner) if node.dim in variables(call) and not variables(call) & loaded:
                    if not _guarded_next(inner, dim):
                        break
                    loads.append((dim, call))
                    loaded.add(dim)
                    body = inner
                case Guard(found, inner) if all(variables(c) & loaded for c in found):
                    conditions += found
                    body = inner
                case _:
                    break
        if not _pins(conditions, loaded):
            return None
        return Find(
            node.dim,
            node.low,
            node.high,
            tuple(loads),
            tuple(conditions),
            "plain loop",
            body,
            None,
            node.parallel,
            node.because or "every position is compared",
        )

    result = rewrite(rule, plan)
    assert isinstance(result, Plan)
    return result


def _pins(conditions: Sequence[Formula], loaded: set[str]) -> bool:
    """Whether the conditions fix a loaded value: an equality, or bounds on both sides."""
    for dim in loaded:
        about = [c for c in conditions if isinstance(c, Compare) and dim in variables(c)]
        if any(c.op == "=" for c in about):
            return True
        low = any((c.op in ("<", "<=")) == (dim in variables(c.left)) for c in about)
        high = any((c.op in ("<", "<=")) == (dim in variables(c.right)) for c in about)
        if low and high and all(len(variables(c)) > 1 for c in about):
            return True
    return False


def _guarded_next(plan: Plan, dim: str) -> bool:
    """Whether the value just loaded is compared before anything else happens."""
    return isinstance(plan, Guard) and all(dim in variables(c) for c in plan.conditions)


def scanned(plan: Plan) -> list[str]:
    """The dimensions that are loops, outermost first."""
    return [n.dim for n in walk(plan) if isinstance(n, Scan | Find)]
