"""A layout as levels, where its relation is one that levels can say: the way back from lang/levels.py.

Positions are read in their order: one between two neighbours of a pointer array is compressed, one from 0 to an extent
is dense; the equations for the coordinates say which expression each position or key stands for. Whether the keys of a
level are unique and ordered is asked of the prover.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from spfgen.errors import Unsupported
from spfgen.facts.formula import (
    ONE,
    ZERO,
    Bin,
    Call,
    Compare,
    Expr,
    Formula,
    Num,
    Var,
    chain,
    conjuncts,
    show,
    substitute,
)
from spfgen.facts.prove import implied
from spfgen.lang.levels import COMPRESSED, DENSE, RANGE, SINGLETON, STRUCTURED, Level, Levels, LevelTerm
from spfgen.layout.nodes import Layout
from spfgen.layout.proofs import facts_of

Atom = Var | Call


@dataclass(frozen=True)
class _Bounds:
    """`pointers(outer) <= position < pointers(outer + 1)`, or from 0 to `high` by steps of `step`."""

    position: str
    pointers: Call | None
    high: Expr
    step: int = 1


def levels_of(layout: Layout) -> Levels:
    """The levels that mean the same. Raises Unsupported, saying what levels cannot say."""
    if len(layout.values) != 1:
        raise _refusal(layout, "it has several value arrays")
    parts = list(conjuncts(layout.relation))
    equations = dict(_equations(layout, parts))
    bounds = {p: _bounds(layout, parts, p) for p in layout.positions}
    _check_rest(layout, parts, bounds)
    terms = _terms(layout, equations)
    levels: list[tuple[str, Level]] = []
    for position, bound in bounds.items():
        terms_here = [(a, t) for a, t in terms.items() if _position(a) == position]
        levels += [(position, x) for x in _levels_at(layout, bound, terms_here, first=not levels)]
    _check_place(layout, bounds)
    order = [e.name for e in layout.values[0].position if isinstance(e, Var)]
    if all(b.pointers is None and x.kind == DENSE for (_, x), b in zip(levels, bounds.values(), strict=False)):
        levels.sort(key=lambda pair: order.index(pair[0]))
    return Levels(layout.coordinates, tuple(_ranges([x for _, x in levels])))


def _ranges(levels: list[Level]) -> Iterator[Level]:
    """A dense level over a dimension that a difference before it bounds is called a range."""
    bounded: set[str] = set()
    for level in levels:
        single = level.single
        is_range = level.kind == DENSE and single is not None and single.dim in bounded
        yield replace(level, kind=RANGE) if is_range else level
        bounded |= {t.dim for t in level.terms} if single is None else set()


def _refusal(layout: Layout, why: str) -> Unsupported:
    return Unsupported(f"levels cannot express layout `{layout.name}`: {why}")


# --- the parts of the relation -------------------------------------------------------------------------


def _equations(layout: Layout, parts: list[Formula]) -> Iterator[tuple[str, dict[Atom, int]]]:
    """For each coordinate what it is equal to: a sum of positions and keys."""
    for coordinate in layout.coordinates:
        sides = [
            p.right if p.left == Var(coordinate) else p.left
            for p in parts
            if isinstance(p, Compare) and p.op == "=" and Var(coordinate) in (p.left, p.right)
        ]
        if len(sides) != 1:
            raise _refusal(layout, f"there is no one equation for `{coordinate}`")
        yield coordinate, dict(_sum(layout, sides[0], 1))


def _sum(layout: Layout, expr: Expr, factor: int) -> Iterator[tuple[Atom, int]]:
    match expr:
        case Var() | Call():
            yield expr, factor
        case Bin("+" | "-" as op, left, right):
            yield from _sum(layout, left, factor)
            yield from _sum(layout, right, factor if op == "+" else -factor)
        case Bin("*", Num(value), right) | Bin("*", right, Num(value)):
            yield from _sum(layout, right, factor * value)
        case Num(0):
            return
        case _:
            raise _refusal(layout, f"`{show(expr)}` is no sum of positions and keys")


def _bounds(layout: Layout, parts: list[Formula], position: str) -> _Bounds:
    variable = Var(position)
    lower = [p.left for p in parts if isinstance(p, Compare) and p.op == "<=" and _of(p.right)[0] == variable]
    upper = [
        (p.right, _of(p.left)[1])
        for p in parts
        if isinstance(p, Compare) and p.op == "<" and _of(p.left)[0] == variable
    ]
    if len(lower) == 1 and len(upper) == 1:
        (low,), ((high, step),) = lower, upper
        if low == ZERO:
            return _Bounds(position, None, high, step)
        if isinstance(low, Call) and isinstance(high, Call) and low.function == high.function:
            *outer, last = low.arguments
            if high.arguments == (*outer, Bin("+", last, ONE)):
                return _Bounds(position, low, high)
    raise _refusal(layout, f"`{position}` does not run from 0 to an extent or between neighbours of an array")


def _of(expr: Expr) -> tuple[Expr, int]:
    """(p, R) of `R*p`."""
    match expr:
        case Bin("*", Num(value), inner) | Bin("*", inner, Num(value)):
            return inner, value
    return expr, 1


def _check_rest(layout: Layout, parts: list[Formula], bounds: Mapping[str, _Bounds]) -> None:
    """Every condition is an equation of a coordinate, a bound of a position, or holds of all coordinates."""
    coordinates: set[Expr] = {Var(c) for c in layout.coordinates}
    positions: set[Expr] = {Var(p) for p in bounds}
    extents = dict(zip(layout.coordinates, layout.parameters, strict=True))
    anyway = {chain(ZERO, "<=", Var(c)) for c in extents} | {Compare("<", Var(c), Var(n)) for c, n in extents.items()}
    for part in parts:
        known = isinstance(part, Compare) and (
            (part.op == "=" and (part.left in coordinates or part.right in coordinates))
            or (part.op == "<=" and _of(part.right)[0] in positions)
            or (part.op == "<" and _of(part.left)[0] in positions)
            or part in anyway
        )
        if not known:
            raise _refusal(layout, f"it has the condition `{show(part)}`")


# --- levels --------------------------------------------------------------------------------------------


def _terms(layout: Layout, equations: Mapping[str, dict[Atom, int]]) -> dict[Atom, tuple[LevelTerm, ...]]:
    """What each position or key is, by the coordinates."""
    terms: dict[Atom, tuple[LevelTerm, ...]] = {}
    plain: dict[Atom, str] = {}
    for coordinate, parts in equations.items():
        if list(parts.values()) == [1]:
            (atom,) = parts
            terms[atom], plain[atom] = (LevelTerm(coordinate),), coordinate
    for coordinate, parts in equations.items():
        large = [a for a, f in parts.items() if f > 1]
        if len(parts) == 2 and len(large) == 1 and sum(parts.values()) == parts[large[0]] + 1:
            (small,) = (a for a in parts if a != large[0])
            by = parts[large[0]]
            terms[large[0]] = (LevelTerm(coordinate, "floordiv", by),)
            terms[small] = (LevelTerm(coordinate, "mod", by),)
        elif len(parts) == 2 and set(parts) & set(plain):  # i = p - key with j = p: the key is j - i
            (known,) = [a for a in parts if a in plain][:1]
            (key,) = (a for a in parts if a != known)
            if abs(parts[key]) != 1 or parts[known] != 1:
                raise _refusal(layout, f"`{coordinate}` is no quotient, remainder or difference of levels")
            sign = parts[key]
            both = (LevelTerm(coordinate, sign=sign), LevelTerm(plain[known], sign=-sign))
            terms[key] = tuple(sorted(both, key=lambda t: -t.sign))
        elif list(parts.values()) != [1]:
            raise _refusal(layout, f"`{coordinate}` is no quotient, remainder or difference of levels")
    return terms


def _position(atom: Atom) -> str:
    """The position that a key belongs to: its last argument."""
    if isinstance(atom, Var):
        return atom.name
    last = atom.arguments[-1]
    return last.name if isinstance(last, Var) else ""


def _levels_at(
    layout: Layout, bound: _Bounds, terms_here: list[tuple[Atom, tuple[LevelTerm, ...]]], first: bool
) -> Iterator[Level]:
    """The levels of one position: dense, or compressed with singletons."""
    keys = [(a, t) for a, t in terms_here if isinstance(a, Call)]
    if not keys:
        if len(terms_here) != 1 or bound.pointers is not None:
            raise _refusal(layout, f"`{bound.position}` is no coordinate of a level")
        yield Level(terms_here[0][1], DENSE)
        return
    if len(terms_here) != len(keys):
        raise _refusal(layout, f"`{bound.position}` is a coordinate and has keys")
    counted = isinstance(bound.high, Var) and bound.high.name in layout.sizes and bound.step == 1
    if bound.pointers is None and not (first and counted):
        (atom, terms) = keys[0]
        term = terms[0]
        if len(keys) == 1 and isinstance(bound.high, Num) and term.op == "mod":
            unique, ordered = _order(layout, bound, [atom])
            yield Level(terms, STRUCTURED, unique, ordered, (bound.high.value, term.by))
            return
        raise _refusal(layout, f"`{bound.position}` has slots that are not all used")
    for number, (atom, terms) in enumerate(keys):
        if isinstance(atom, Call) and len(atom.arguments) != 1:
            raise _refusal(layout, f"`{show(atom)}` has several arguments")
        unique, ordered = _order(layout, bound, [a for a, _ in keys[: number + 1]])
        yield Level(terms, SINGLETON if number else COMPRESSED, unique, ordered)


def _order(layout: Layout, bound: _Bounds, keys: list[Atom]) -> tuple[bool, bool]:
    """Whether the last of the keys is unique and ordered among positions of one segment that agree in the others."""
    this, other = Var(bound.position), Var(f"{bound.position}'")
    low: Expr = bound.pointers if bound.pointers is not None else ZERO
    within = chain(low, "<=", this, "<", other, "<", bound.high)
    twins = [(k, substitute(k, {bound.position: other})) for k in keys]
    assumed = [within, *(Compare("=", a, b) for a, b in twins[:-1])]
    assumed += [
        chain(ZERO, "<=", a, "<", e)
        for k in keys
        if isinstance(k, Call)
        for a, e in zip(k.arguments[:-1], layout.extents(k.function), strict=False)
    ]
    if bound.pointers is not None:
        extents = layout.extents(bound.pointers.function)
        assumed += [
            chain(ZERO, "<=", a, "<", Bin("-", e, ONE)) for a, e in zip(bound.pointers.arguments, extents, strict=True)
        ]
    key, twin = twins[-1]
    facts = facts_of(layout)

    def holds(op: str) -> bool:
        return implied(assumed, facts, Compare(op, key, twin), thorough=True).proved

    return (True, True) if holds("<") else (False, True) if holds("<=") else (holds("!="), False)


def _check_place(layout: Layout, bounds: Mapping[str, _Bounds]) -> None:
    """A value lies at the last compressed position and the dense ones after it."""
    place = layout.values[0].position
    names = [e.name for e in place if isinstance(e, Var)]
    last = max((k for k, b in enumerate(bounds.values()) if _is_counted(layout, b)), default=0)
    expected = list(bounds)[last:]
    if len(names) != len(place) or sorted(names) != sorted(expected) or (last and names != expected):
        raise _refusal(layout, f"a value lies at [{', '.join(map(show, place))}]")


def _is_counted(layout: Layout, bound: _Bounds) -> bool:
    return bound.pointers is not None or (isinstance(bound.high, Var) and bound.high.name in layout.sizes)
