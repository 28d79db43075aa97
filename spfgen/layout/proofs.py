"""What is proved of a layout once: that value places lie within their arrays, that it stores each coordinate once.

The sets decide what they can; Z3 the rest. Remembered per layout.
"""

from __future__ import annotations

from itertools import combinations, combinations_with_replacement

from spfgen.facts.formula import (
    ZERO,
    Bin,
    Call,
    Compare,
    Formula,
    Num,
    Or,
    Var,
    calls,
    conjunction,
    conjuncts,
    rename,
    within,
)
from spfgen.facts.prove import Answer, Facts, implied, remembered
from spfgen.layout.nodes import Layout, ValueArray

NEVER = Or(())


def facts_of(layout: Layout) -> Facts:
    return Facts(tuple(p.formula for p in layout.facts), {a.name: a.extents for a in layout.indexes})


def apart(layout: Layout) -> bool:
    """No position has one coordinate by two alternatives that do different things to the value."""
    about = f"{layout.name}: alternatives do not meet"
    return all(
        implied([one.relation, other.relation], facts_of(layout), NEVER, thorough=True, about=about).proved
        for one, other in combinations(layout.value_transforms, 2)
        if one.operators != other.operators
    )


@remembered
def places_inside(layout: Layout, value: ValueArray) -> Answer:
    """Every position that the relation allows has its value within the array."""
    inside = [within(place, ZERO, extent) for place, extent in zip(value.position, value.extents, strict=True)]
    about = f"{layout.name}: the places of `{value.name}` lie within it"
    return implied(stored(layout, value), facts_of(layout), conjunction(inside), thorough=True, about=about)


@remembered
def stored_once(layout: Layout) -> Answer:
    """No coordinate has two positions (two entries that add up), in one value array or in two of them.

    The answer is the first that is no proof, if there is one.
    """
    twin = {p: f"{p}'" for p in layout.positions}
    same = conjunction([Compare("=", Var(p), Var(t)) for p, t in twin.items()])
    about = f"{layout.name}: a coordinate is stored once"
    for first, second in combinations_with_replacement(layout.values, 2):
        assumptions = [*stored(layout, first), *(rename(f, twin) for f in stored(layout, second))]
        answer = implied(assumptions, facts_of(layout), same, thorough=True, about=about)
        if not answer.proved:
            break
    return answer


@remembered
def rises(layout: Layout, array: str) -> Answer:
    """An array of one dimension never falls from one place to the next."""
    (extent,) = layout.index(array).extents
    place, following = Var("p'"), Bin("+", Var("p'"), Num(1))
    assumptions = [within(place, ZERO, extent), within(following, ZERO, extent)]
    goal = Compare("<=", Call(array, (place,)), Call(array, (following,)))
    return implied(assumptions, facts_of(layout), goal, about=f"{layout.name}: `{array}` never falls")


@remembered
def one_coordinate(layout: Layout, value: ValueArray) -> Answer:
    """No place of the value array stands for two coordinates (a run, a symmetric pair)."""
    names = {n: f"{n}'" for n in (*layout.positions, *layout.coordinates)}
    assumptions = stored(layout, value)
    assumptions += [rename(f, names) for f in assumptions]
    assumptions += [Compare("=", p, rename(p, names)) for p in value.position]
    same = conjunction([Compare("=", Var(c), Var(names[c])) for c in layout.coordinates])
    about = f"{layout.name}: a place of `{value.name}` stands for one coordinate"
    return implied(assumptions, facts_of(layout), same, thorough=True, about=about)


def stored(layout: Layout, value: ValueArray) -> list[Formula]:
    """The relation with what every layout implies: coordinates within the extents, calls within their arrays, no size
    below 0."""
    inside = [within(Var(c), ZERO, Var(n)) for c, n in zip(layout.coordinates, layout.parameters, strict=True)]
    extents = {a.name: a.extents for a in layout.indexes}
    domain = [
        within(argument, ZERO, extent)
        for call in (*calls(layout.relation), *(c for p in value.position for c in calls(p)))
        for argument, extent in zip(call.arguments, extents[call.function], strict=True)
    ]
    sizes = [Compare("<=", ZERO, Var(s)) for s in layout.sizes]
    return [conjunction([layout.relation, value.when]), conjunction([*inside, *domain, *sizes])]


def as_output(layout: Layout) -> tuple[str, Answer] | None:
    """Why the layout cannot be written by coordinate, with the answer that lacks; None when it can."""
    if _is_plain(layout):
        return None
    once = stored_once(layout)
    if not once.proved:
        return "a coordinate is stored once", once
    for value in layout.values:
        alone = one_coordinate(layout, value)
        if not alone.proved:
            return f"a place of `{value.name}` stands for one coordinate", alone
    return None


def _is_plain(layout: Layout) -> bool:
    """Every coordinate is a position of its own and every position a subscript of the value array: no question."""
    tied = {
        part.left.name: part.right.name
        for part in conjuncts(layout.relation)
        if isinstance(part, Compare) and part.op == "=" and isinstance(part.left, Var) and isinstance(part.right, Var)
    }
    positions = sorted(tied.get(c, "") for c in layout.coordinates)
    places = sorted(p.name if isinstance(p, Var) else "" for v in layout.values for p in v.position)
    return len(layout.values) == 1 and positions == sorted(layout.positions) == places
