"""Which loops are independent. Two iterations conflict when they write one place.

Two copies of the instance's domain, the loop's values different, the places equal: if the sets show that there is no
such point, the loop is independent. Where places depend on loaded values, Z3 is asked with the declared facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spfgen.facts.formula import ZERO, Compare, Formula, Or, Var, conjunction, rename, variables, within
from spfgen.facts.prove import implied
from spfgen.plan.scan import Step, sources
from spfgen.sets.affine import Affine, Atom, Floor, NotAffine, expression
from spfgen.sets.named import Constraint, Piece, Space
from spfgen.sets.uf import linear
from spfgen.space.nodes import Instance, Operand


def distinct_places(instance: Instance, loop: str) -> bool:
    """Whether iterations of `loop` with different values write different places of the target."""
    return _distinct(instance, instance.domain, [loop])


def distinct_by_facts(instance: Instance, loop: str, steps: Sequence[Step]) -> bool:
    """The same question of Z3, for two points of the scan with their loads: segments of one array do not meet, say."""
    near = sources(steps, {loop, *(n for p in instance.target.place for n in variables(p))})
    everything = {*(s.dim for s in steps if s.dim), *near}
    return any(
        _distinct_by(instance, loop, steps, fixed) for fixed in ([near, everything] if near < everything else [near])
    )


def _distinct_by(instance: Instance, loop: str, steps: Sequence[Step], fixed: set[str]) -> bool:
    """The same, with what is known of these dimensions."""
    places = instance.target.place
    names = {n: f"{n}'" for n in fixed - set(instance.sizes)}
    called = [n for n in instance.calls if n in fixed]
    if not any(names.keys() & variables(p) for p in places) or not called:
        return False
    one: list[Formula] = [Compare(">=", Var(s), ZERO) for s in instance.sizes]
    for constraint in steps[-1].known.project({*fixed, *instance.sizes}).constraints():
        one.append(Compare("=" if constraint.equality else ">=", expression(constraint.value), ZERO))
    one += [Compare("=", Var(n), instance.calls[n]) for n in called]
    two = [rename(f, names) for f in one]
    same = [Compare("=", p, rename(p, names)) for p in places]
    ordered = Compare("<", Var(loop), Var(names[loop]))
    return implied([*one, *two, *same, ordered], instance.axioms, Or(())).proved


def covers(instance: Instance, visited: Piece, loops: Iterable[str]) -> bool:
    """Whether the points in `visited` reach every place of the target's array, each exactly once.

    `visited` is what holds at the point where the place is known; `loops` are the loops around it.
    """
    try:
        places = [linear(p) for p in instance.target.place]
        limits = [linear(e) for e in instance.target.extents]
    except NotAffine:
        return False
    if any(name in instance.calls for p in places for name in p.names()):
        return False
    loops = list(loops)
    if loops and not _distinct(instance, visited, loops):
        return False
    return _reaches_all(instance, visited, places, limits)


def place_inside(instance: Instance, operand: Operand, known: Piece) -> bool:
    """Whether what is known keeps the place of a value within its array: by sets if it is affine, else by Z3."""
    places = list(zip(operand.place, operand.extents, strict=True))
    try:
        values = [(linear(place), linear(extent)) for place, extent in places]
    except NotAffine:
        inside = conjunction([within(place, ZERO, extent) for place, extent in places])
        holds = known.constraints()
        spoken = {n for c in holds for n in c.value.names()} | variables(inside)
        assumptions: list[Formula] = [Compare(">=", Var(s), ZERO) for s in instance.sizes]
        assumptions += [Compare("=" if c.equality else ">=", expression(c.value), ZERO) for c in holds]
        assumptions += [Compare("=", Var(n), call) for n, call in instance.calls.items() if n in spoken]
        about = f"the place in {operand.tensor}.{operand.array} lies within it, whatever the loops inside do"
        return implied(assumptions, instance.axioms, inside, thorough=True, about=about).proved
    return all(
        known.implies(Constraint(False, place)) and known.implies(Constraint(False, (extent - place).plus(-1)))
        for place, extent in values
    )


def _reaches_all(instance: Instance, visited: Piece, places: list[Affine], limits: list[Affine]) -> bool:
    names = [f"place {k}" for k in range(len(places))]
    sizes = sorted({n for e in limits for n in e.names()} | set(instance.sizes))
    others = [n for n in visited.space.names if n not in sizes]
    space = Space((*sizes, *names, *others))
    reached = visited.reordered(space).with_constraints(
        [Constraint(True, p - Affine(((n, 1),))) for n, p in zip(names, places, strict=True)]
    )
    known = [Constraint(False, Affine(((s, 1),))) for s in sizes]
    box = space.of(
        [Constraint(False, Affine(((n, 1),))) for n in names]
        + [Constraint(False, (e - Affine(((n, 1),))).plus(-1)) for n, e in zip(names, limits, strict=True)]
        + known
    )
    return box.is_within_projection(reached, others)


def _distinct(instance: Instance, domain: Piece, loops: list[str]) -> bool:
    """No two points of the domain differ in a loop and write the same place."""
    try:
        places = [linear(p) for p in instance.target.place]
    except NotAffine:
        return False
    if not places:
        return False
    needed = {n for p in places for n in p.names()} | set(loops)
    if needed & set(instance.calls):
        return False
    kept = [n for n in domain.space.names if n in needed or n in instance.sizes]
    small = domain.project(kept)
    twin = {n: n if n in instance.sizes else f"{n}'" for n in kept}
    space = Space((*kept, *(t for n, t in twin.items() if t != n)))
    constraints = small.constraints()
    both = constraints + [Constraint(c.equality, _renamed(c.value, twin)) for c in constraints]
    both += [Constraint(True, p - _renamed(p, twin)) for p in places]
    for loop in loops:
        less = Constraint(False, Affine(((twin[loop], 1), (loop, -1))).plus(-1))
        if not space.of([*both, less]).is_empty():
            return False
    return True


def _renamed(value: Affine, names: dict[str, str]) -> Affine:
    terms: list[tuple[Atom, int]] = []
    for atom, coefficient in value.terms:
        if isinstance(atom, Floor):
            terms.append((Floor(_renamed(atom.numerator, names), atom.divisor), coefficient))
        else:
            terms.append((names.get(atom, atom), coefficient))
    return Affine(tuple(terms), value.constant)
