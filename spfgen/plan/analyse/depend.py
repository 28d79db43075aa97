"""Which loops are independent. Two iterations conflict when one writes a place that the other writes or reads.

Two copies of the instance's domain, the loop's values different, the places equal: if the sets show that there is no
such point, the loop is independent. Where places depend on loaded values, Z3 is asked with the declared facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from spfgen.facts.formula import (
    ZERO,
    Compare,
    Expr,
    Formula,
    Or,
    Var,
    conjunction,
    evaluate,
    rename,
    show,
    substitute,
    variables,
    within,
)
from spfgen.facts.prove import Answer, implied, smaller
from spfgen.plan.analyse.scan import Step, sources
from spfgen.sets.affine import Affine, NotAffine
from spfgen.sets.named import Constraint, Piece, Space
from spfgen.sets.uf import as_formulas, linear, with_floors
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


def is_apart(instance: Instance, steps: Sequence[Step], loop: str) -> bool:
    """The same, however it is proved: of all iterations, or of those within one iteration of the loops around."""
    if loop not in instance.domain.space.position:
        return False
    if distinct_places(instance, loop):
        return True
    if not any(s.dim == loop for s in steps):
        return False
    return distinct_by_facts(instance, loop, steps) or meetings(instance, steps, loop).kind == INDEPENDENT


def _distinct_by(instance: Instance, loop: str, steps: Sequence[Step], fixed: set[str]) -> bool:
    """The same, with what is known of these dimensions."""
    places = instance.target.place
    names = {n: f"{n}'" for n in fixed - set(instance.sizes)}
    if not any(names.keys() & variables(p) for p in places) or not any(n in fixed for n in instance.calls):
        return False
    one = known_of_points(instance, steps, fixed)
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
        about = f"the place in {operand.tensor}.{operand.array} lies within it, whatever the loops inside do"
        spoken = {*instance.sizes, *variables(inside)} & {*known.space.names}
        # First without what the place does not speak of: beside products Z3 may not come to an end with that.
        return any(
            implied(
                _said(instance, piece, spoken), instance.axioms, inside, thorough=piece is known, about=about
            ).proved
            for piece in (known.project(spoken), known)
        )
    return all(
        known.implies(Constraint(False, place)) and known.implies(Constraint(False, (extent - place).plus(-1)))
        for place, extent in values
    )


def _said(instance: Instance, known: Piece, names: set[str]) -> list[Formula]:
    """What is known as formulas, with the calls that it speaks of and those among the names."""
    holds = known.constraints()
    spoken = {n for c in holds for n in c.value.names()} | names
    assumptions = [*instance.sizes_known, *as_formulas(holds)]
    return assumptions + [Compare("=", Var(n), call) for n, call in instance.calls.items() if n in spoken]


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
    both = constraints + [Constraint(c.equality, c.value.renamed(twin)) for c in constraints]
    both += [Constraint(True, p - p.renamed(twin)) for p in places]
    for loop in loops:
        less = Constraint(False, Affine(((twin[loop], 1), (loop, -1))).plus(-1))
        if not space.of([*both, less]).is_empty():
            return False
    return True


# --- what iterations of a loop share --------------------------------------------------------------------

KINDS = INDEPENDENT, REDUCTION, DEPENDENCE = "independent", "reduction", "dependence"
"""What iterations of a loop may share, the stricter the later."""


@dataclass(frozen=True)
class Meeting:
    """That iterations of a loop meet at a place: `kind` says what that means. INDEPENDENT: no two do (`how` it is
    known). REDUCTION: both add to it. DEPENDENCE: one writes what another reads.

    `write` and `other` are the accesses, `example` two iterations that meet (the names of the second end in '); it is
    empty where nothing is proved either way. `outer` are the loops around; `apart` says how the first iteration
    compares with the second: "<", ">", or "!=" where both occur.
    """

    loop: str
    kind: str
    outer: tuple[str, ...]
    write: Operand
    other: Operand
    how: str = ""
    example: tuple[tuple[str, int], ...] = ()
    apart: str = "<"

    def renamed(self, names: Mapping[str, str]) -> Meeting:
        """The same with other names for loops."""
        example = tuple((names.get(n.rstrip("'"), n.rstrip("'")) + n[len(n.rstrip("'")) :], v) for n, v in self.example)
        outer = tuple(names.get(n, n) for n in self.outer)
        return replace(self, loop=names.get(self.loop, self.loop), outer=outer, example=example)


def meetings(instance: Instance, steps: Sequence[Step], loop: str, written: Operand | None = None) -> Meeting:
    """What different iterations of a loop, within one iteration of the loops around it, have to do with each other.
    `written` is what the statement writes, where the instance is a sum within its value.

    Two copies of the iteration space: the loops around are equal, `loop` differs, and one access writes the coordinate
    that the other writes or reads. isl is asked with index arrays as unknowns, then Z3 with their declared properties.
    """
    target = written or instance.target
    for read in (r for r in instance.reads if r.tensor == target.tensor):
        last = _met(instance, steps, loop, target, read, DEPENDENCE, ("<", ">"))
        if last.kind != INDEPENDENT:
            return last
    return _met(instance, steps, loop, instance.target, instance.target, REDUCTION, ("<",))


def read_too_early(instance: Instance, steps: Sequence[Step]) -> Meeting | None:
    """Two iterations of which the earlier one reads what the later one writes, if the order of the loops allows that.

    What a statement reads of its own target is the result: it must have been written before.
    """
    for read in (r for r in instance.reads if r.tensor == instance.target.tensor):
        for loop in (s.dim for s in steps if s.kind == "scan"):
            meeting = _met(instance, steps, loop, instance.target, read, DEPENDENCE, (">",))
            if meeting.kind != INDEPENDENT:
                return meeting
    return None


def sums_disjoint(instance: Instance, steps: Sequence[Step], loop: str) -> bool:
    """Whether sums that are added to the target after these steps go to different places in different iterations of
    `loop`, within one iteration of the loops around it.

    A sum is added wherever the steps come to, also where nothing was summed: these are more points than the instance
    has, and what is proved of those does not hold for them.
    """
    visited = replace(instance, domain=steps[-1].known)
    place = replace(instance.target, subscripts=instance.target.place)
    about = f"sums of different iterations of {loop} that are added at one place of {place.tensor}"
    return _met(visited, steps, loop, place, place, REDUCTION, ("<",), about).kind == INDEPENDENT


def outside(steps: Sequence[Step], loop: str) -> tuple[str, ...]:
    """The loops around a loop, outermost first."""
    names = [s.dim for s in steps]
    return tuple(s.dim for s in steps[: names.index(loop)] if s.kind == "scan")


def _met(
    instance: Instance,
    steps: Sequence[Step],
    loop: str,
    write: Operand,
    other: Operand,
    kind: str,
    apart: Sequence[str],
    about: str = "",
) -> Meeting:
    """Whether an iteration that writes and one that reads (or writes) meet, the first before or after the second."""
    outer = outside(steps, loop)
    nothing = Meeting(loop, INDEPENDENT, outer, write, other, "by isl")
    sets = {op: _meeting_points(instance, loop, outer, (write, other), op) for op in apart}
    left = [op for op, points in sets.items() if points is None or not points.is_empty()]
    if not left:
        return nothing
    if not instance.calls:
        points = next((p for op in left if (p := sets[op]) is not None), None)
        example = (points.sample() if points is not None else None) or {}
        return replace(nothing, kind=kind, apart=_either(left), example=tuple(sorted(example.items())))
    about = about or f"iterations of {loop} that meet at one place of {other.tensor}"
    answers = {op: _asked(instance, steps, loop, outer, (write, other), op, about) for op in left}
    left = [op for op in left if not any(a.proved for a in answers[op])]
    if not left:
        return replace(nothing, how="by Z3 from the declared properties")
    answer = smaller(answers[left[0]][-1])
    values = {**dict(answer.model or ()), **dict(answer.values)}
    how = "by Z3" if values else "not proved"
    return replace(nothing, kind=kind, how=how, apart=_either(left), example=tuple(sorted(values.items())))


def _either(ops: Sequence[str]) -> str:
    return ops[0] if len(ops) == 1 else "!="


def _meeting_points(
    instance: Instance, loop: str, outer: Sequence[str], pair: tuple[Operand, Operand], op: str
) -> Piece | None:
    """Two points of the iteration space that meet, as far as sets can say; None when the coordinates are not affine."""
    try:
        one, two = ([linear(with_floors(s)) for s in operand.subscripts] for operand in pair)
    except NotAffine:
        return None
    needed = {n for e in (*one, *two) for n in e.names()} | {loop, *outer}
    domain = instance.domain
    kept = [n for n in domain.space.names if n in needed or n in instance.sizes]
    small = domain.project(kept)
    twin = {n: f"{n}'" for n in kept if n not in instance.sizes}
    space = Space((*kept, *twin.values()))
    both = small.constraints()
    both += [Constraint(c.equality, c.value.renamed(twin)) for c in both]
    both += [Constraint(True, a - b.renamed(twin)) for a, b in zip(one, two, strict=True)]
    both += [Constraint(True, Affine(((n, 1), (twin[n], -1)))) for n in outer]
    first, second = (loop, twin[loop]) if op == "<" else (twin[loop], loop)
    return space.of([*both, Constraint(False, Affine(((second, 1), (first, -1))).plus(-1))])


def _asked(
    instance: Instance,
    steps: Sequence[Step],
    loop: str,
    outer: Sequence[str],
    pair: tuple[Operand, Operand],
    op: str,
    about: str,
) -> list[Answer]:
    """The same question of Z3: with what the coordinates come from, then with all that is known."""
    named = {n for o in pair for s in o.subscripts for n in variables(s)}
    near = sources(steps, {loop, *outer, *named})
    everything = {*(s.dim for s in steps if s.dim), *near}
    answers = []
    for fixed in [near, everything] if near < everything else [near]:
        names = {n: f"{n}'" for n in fixed - set(instance.sizes)}
        one = known_of_points(instance, steps, fixed)
        two = [rename(f, names) for f in one]
        places = zip(pair[0].subscripts, pair[1].subscripts, strict=True)
        same = [Compare("=", a, rename(b, names)) for a, b in places]
        same += [Compare("=", Var(n), Var(names[n])) for n in outer]
        apart = Compare(op, Var(loop), Var(names[loop]))
        answers.append(implied([*one, *two, *same, apart], instance.axioms, Or(()), about=about))
        if answers[-1].proved:
            break
    return answers


def known_of_points(instance: Instance, steps: Sequence[Step], fixed: set[str]) -> list[Formula]:
    """What is known of a point of the scan, in these dimensions."""
    result = [*instance.sizes_known, *as_formulas(steps[-1].known.project({*fixed, *instance.sizes}).constraints())]
    return [*result, *(Compare("=", Var(n), instance.calls[n]) for n in instance.calls if n in fixed)]


def in_words(meeting: Meeting) -> str:
    """Two iterations and where they meet, with numbers: `iterations i = 0 and i = 1 both add to y[0]`."""
    values = dict(meeting.example)
    loop, other = meeting.loop, meeting.other
    if loop not in values or f"{loop}'" not in values:
        return f"it is not proved that iterations of {loop} reach different places of {other.tensor}"
    place = coordinate(meeting.write, values)
    same = [f"{n} = {values[n]}" for n in meeting.outer if n in values]
    within = f" (within {', '.join(same)})" if same else ""
    first, second = f"{loop} = {values[loop]}", f"{loop} = {values[loop + chr(39)]}"
    if meeting.kind == DEPENDENCE:
        return f"iteration {first} writes {place}, which iteration {second} reads{within}"
    return f"iterations {first} and {second} both add to {place}{within}"


def coordinate(operand: Operand, values: Mapping[str, int]) -> str:
    """An access with numbers for its subscripts, where they are known."""
    shown = []
    for subscript in operand.subscripts:
        known = variables(subscript) <= set(values)
        shown.append(str(evaluate(subscript, values.__getitem__, lambda f, a: 0)) if known else show(subscript))
    return f"{operand.tensor}[{', '.join(shown)}]" if shown else operand.tensor


def relation(steps: Sequence[Step], meeting: Meeting, names: Mapping[str, str] | None = None) -> str:
    """The pairs of iterations that meet, in isl's notation with calls; both are points of the iteration space. `names`
    are those that loops are shown under."""
    loops = [*meeting.outer, meeting.loop]
    by_name = {s.dim: s for s in steps}

    def written_out(name: str) -> Expr:
        """What a dimension is made of: loops and calls."""
        step = by_name.get(name)
        if name in loops or step is None or step.value is None:
            return Var(name)
        value: Expr = substitute(step.value, {n: written_out(n) for n in variables(step.value)})
        return with_floors(value)

    shown = {n: (names or {}).get(n, n) for n in by_name}
    twin = {n: f"{shown[n]}'" for n in by_name}
    conditions = [f"{twin[n]} = {shown[n]}" for n in meeting.outer]
    conditions.append(f"{shown[meeting.loop]} {meeting.apart} {twin[meeting.loop]}")
    for a, b in zip(meeting.write.subscripts, meeting.other.subscripts, strict=True):
        one = substitute(a, {n: written_out(n) for n in variables(a)})
        two = substitute(b, {n: written_out(n) for n in variables(b)})
        if one != two or not variables(one) <= set(meeting.outer):  # else that is said already
            conditions.append(f"{show(rename(one, shown))} = {show(rename(two, twin))}")
    sides = [f"[{', '.join(side[n] for n in loops)}]" for side in (shown, twin)]
    return f"{{ {sides[0]} -> {sides[1]} : {' and '.join(conditions)} }}"
