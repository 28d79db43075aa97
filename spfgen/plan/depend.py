"""Which loops are independent. Two iterations conflict when they write one place.

Only what the sets alone decide: two copies of the instance's domain, the loop's values different, the places equal;
an empty set is a proof. Places that depend on loaded values are not decided here (the answer is then no).
"""

from __future__ import annotations

from collections.abc import Iterable

from spfgen.sets.affine import Affine, Atom, Floor, NotAffine
from spfgen.sets.named import Constraint, Piece, Space
from spfgen.sets.uf import linear
from spfgen.space.nodes import Instance


def distinct_places(instance: Instance, loop: str) -> bool:
    """Whether iterations of `loop` with different values write different places of the target."""
    return _distinct(instance, instance.domain, [loop])


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

