"""From the key plan of a layout (layout/pack_plan.py) to the steps of an assembly.

The steps are those that layout/pack_assembly.py carries out with numpy, one for one; which sizes and positions are
known at each of them does not depend on the entries, so that it is found out here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from spfgen.errors import Unsupported
from spfgen.facts.formula import TRUE, ZERO, And, Bin, Compare, Expr, Formula, Not, Num, Or, Var, conjunction, variables
from spfgen.layout.intervals import interval_axis
from spfgen.layout.nodes import Layout
from spfgen.layout.pack import chunked, key_orders
from spfgen.layout.pack_assembly import is_alone
from spfgen.layout.pack_free import rounds_of
from spfgen.layout.pack_plan import pack_plan
from spfgen.layout.pack_rules import Computed, KeyOrder, PackPlan, Ranked, Rules, Solved, Widened
from spfgen.plan.assemble.check import check_steps
from spfgen.plan.assemble.fills import declared_size
from spfgen.plan.assemble.needed import needed
from spfgen.plan.assemble.nodes import (
    COUNT,
    FIRST,
    MORE,
    NUMBER,
    PIECE,
    ROW,
    Assembly,
    CheckFacts,
    CheckShared,
    Choose,
    Insert,
    Store,
    Vec,
    at,
    compare,
)
from spfgen.plan.assemble.ranks import add_rank
from spfgen.plan.assemble.state import AssemblyBuilder, all_hold, divided, flat, largest, least, negated, within_shape
from spfgen.sets.affine import Affine
from spfgen.sets.bounds import bounds


@lru_cache(maxsize=256)
def assembly_of(layout: Layout) -> Assembly:
    """How entries become the arrays of the layout. Raises Unsupported where they cannot, or not by such steps."""
    if layout.is_pattern and layout.fill_text == "1":
        raise Unsupported(f"layout `{layout.name}` stores 1s, which its fill value is", layout.span)
    chunks = chunked(layout)
    other = () if chunks is None else (_assembly(layout, *chunks),)
    return _assembly(layout, pack_plan(layout), key_orders(layout), other)


@lru_cache(maxsize=64)
def assembly_by_ends(layout: Layout) -> Assembly | None:
    """How intervals become the arrays of a layout that stores intervals, by their ends: in time of how many there are.
    None where the layout does not store them."""
    axis = interval_axis(layout)
    return None if axis is None else _assembly(layout, pack_plan(layout), key_orders(layout), axis=axis)


def _assembly(
    layout: Layout,
    plan: PackPlan,
    orders: tuple[KeyOrder, ...],
    fallbacks: tuple[Assembly, ...] = (),
    axis: int | None = None,
) -> Assembly:
    s = AssemblyBuilder(layout, plan, axis is not None)
    s.columns = {c: s.new(c) for c in layout.coordinates}
    _allot(s, plan)
    order_of = dict(zip(plan.ranks, orders, strict=True))
    s.learn()
    for step in plan.steps:
        ranks = dict.fromkeys(r.rank for r in step if isinstance(r, Ranked))
        _compute(s, step)
        for rank in ranks:
            rules = {k: r for k, r in enumerate(step) if isinstance(r, Ranked) and r.rank == rank}
            add_rank(s, rank, rules, order_of[rank])
        s.learn()
    _solve_rest(s)
    s.learn()
    _check_constraints(s)
    _store(s, plan, any(order.is_chosen for order in orders))
    assembly = Assembly(layout, needed(tuple(s.steps)), s.alternatives, fallbacks, axis)
    check_steps(assembly)
    return assembly


def _allot(s: AssemblyBuilder, plan: PackPlan) -> None:
    """Each entry belongs to the first alternative, of those that it may take, whose constraints on coordinates hold."""
    holds = [all_hold(s.open(b), s.value) for b in plan.belongs]
    if s.alternatives == 1:
        if holds[0] != TRUE:
            s.keep(s.vec("kept", COUNT, holds[0]), "entries of the relation")
        return
    fits = [And((compare(at(FIRST), "<=", k), h)) for k, h in enumerate(holds)]
    piece: Expr = Num(-1)
    for k, fit in reversed(list(enumerate(fits))):
        piece = Choose(fit, Num(k), piece)
    more = Or(tuple(And((compare(at(PIECE), "<", k), f)) for k, f in enumerate(fits)))
    has_more = And((compare(at(PIECE), ">=", 0), more))
    s.steps += [Vec(PIECE, COUNT, piece), Vec(MORE, COUNT, has_more), Vec(NUMBER, COUNT, ROW)]
    s.keep(s.vec("kept", COUNT, compare(at(PIECE), ">=", 0)), "entries of the relation")


def _compute(s: AssemblyBuilder, step: Rules) -> None:
    """The columns of positions, and sizes, that a step computes."""
    values: dict[str, dict[int, Expr]] = {}
    good: list[Formula] = []
    for k, rule in enumerate(step):
        match rule:
            case Ranked(rank, _) if rank.position:
                values.setdefault(rank.position, {})
                if rank.kind == "chunk":
                    values.setdefault(rounds_of(rank.position), {})
            case Computed(position, numerator, divisor):
                values.setdefault(position, {})[k] = s.value(numerator, ROW, divisor)
            case Solved(name):
                value, has_value = _solved(s, rule)
                values.setdefault(name, {})[k] = value
                good.append(has_value if s.alternatives == 1 else Or((compare(at(PIECE), "!=", k), has_value)))
    ranked = {r.rank.position for r in step if isinstance(r, Ranked)}
    for name, by_piece in values.items():
        if by_piece:
            value = s.by_piece(by_piece)
            s.columns[name] = s.copy(name, COUNT, value) if name in ranked else s.vec(name, COUNT, value)
        elif name not in s.columns:
            s.columns[name] = s.copy(name, COUNT, ZERO)
    for k, rule in enumerate(step):
        if isinstance(rule, Widened):
            _widen(s, k, rule)
    if good:
        s.keep(s.vec("kept", COUNT, conjunction(good)), "entries for which the relation has a position")


def _widen(s: AssemblyBuilder, piece: int, rule: Widened) -> None:
    """The least size that suffices for the entries of the alternative."""
    mine = s.of_pieces([piece])
    parts = [s.value(n, ROW, d) for n, d in rule.least]
    value = largest(parts, ZERO)
    needed = value if mine is None else Choose(mine, value, ZERO)
    size = s.fold(rule.size, COUNT, needed, "max", Var(rule.size) if rule.size in s.sizes else ZERO)
    s.set_size(rule.size, size)


def _solved(s: AssemblyBuilder, rule: Solved) -> tuple[Expr, Formula]:
    """(the value of an entry, whether it has one): the digits in turn, each by the case that holds."""
    known = dict(s.columns)
    good: list[Formula] = []
    for digit, cases in rule.digits:
        value: Expr = ZERO
        conditions: list[Formula] = []
        for case in reversed(cases):
            holds = all_hold(case.where, s.value)
            value = Choose(holds, s.value(case.numerator, ROW, case.divisor), value)
            conditions.append(holds)
        s.columns[digit] = s.vec(digit, COUNT, value)
        if not any(f == TRUE for f in conditions):
            good.append(Or(tuple(conditions)))
    result = s.value(rule.value)
    s.columns = known
    return result, conjunction(good)


def _solve_rest(s: AssemblyBuilder) -> None:
    """Sizes that only value arrays have, or that the relation compares with positions."""
    for value in s.layout.values:
        for position in value.position:
            for name in sorted(variables(position) & {*s.layout.sizes} - s.sizes):
                _by_relation(s, name)
            if missing := variables(position) & {*s.layout.sizes} - s.sizes:
                raise s.unknown(min(missing))
        needed = [lambda p=p: s.extent_of(s.called(p, _known(s))[0], COUNT) for p in value.position]
        s.extents(value, needed)
    for name in s.layout.sizes:
        _by_relation(s, name)
        declared = None if name in s.sizes else declared_size(s, name)
        if declared is not None:
            s.set_size(name, declared)
        if name not in s.sizes:
            raise s.unknown(name)


def _known(s: AssemblyBuilder) -> Mapping[str, Expr]:
    return {**{n: Var(n) for n in s.sizes}, **s.known_values()}


def _by_relation(s: AssemblyBuilder, size: str) -> None:
    """As small as the entries allow, or as large where they only bound it from above: where an interval begins."""
    if size in s.sizes:
        return
    lows: list[Expr] = []
    highs: list[Expr] = []
    of_entries = {*s.layout.coordinates, *s.layout.positions}
    for k, piece in enumerate(s.encoded.pieces):
        known = {*s.sizes, *s.columns}
        lower, upper = bounds(piece.project({*known, size}).constraints(size), size)
        mine = s.of_pieces([k])
        for limits, sides, is_low in ((lows, lower, True), (highs, upper, False)):
            for a, e in sides:
                if e.names() <= known and e.names() & of_entries:
                    limits.append(_end_of(s, mine, e, a, is_low))
    if lows or highs:
        s.set_size(size, Bin("max", ZERO, largest(lows, ZERO) if lows else least(highs, ZERO)))


def _end_of(s: AssemblyBuilder, mine: Formula | None, value: Affine, factor: int, is_low: bool) -> Expr:
    """The least value of the rows of an alternative, divided, with the other sign for a lower bound; 0 without rows."""
    far = Num(2**62)
    bound = s.value(value)
    low = s.fold("least", COUNT, bound if mine is None else Choose(mine, bound, far), "min", far)
    quotient = divided(low, factor)
    return s.let("bound", Choose(compare(low, "=", far), ZERO, negated(quotient) if is_low else quotient))


def _check_constraints(s: AssemblyBuilder) -> None:
    """Every entry satisfies the relation, with the arrays as they are."""
    good: list[Formula] = []
    for k, piece in enumerate(s.encoded.pieces):
        holds = all_hold(s.open(piece.constraints()), s.value)
        good.append(holds if s.alternatives == 1 else Or((compare(at(PIECE), "!=", k), holds)))
    s.keep(s.vec("kept", COUNT, conjunction(good)), "entries for which the relation holds")


def _store(s: AssemblyBuilder, plan: PackPlan, is_chosen: bool) -> None:
    """Write every value at its place in the first value array that has one for it."""
    layout = s.layout
    shapes = {v.name: s.extents(v, [lambda: ZERO for _ in v.extents]) for v in layout.values}
    places: dict[str, str] = {}
    for value in layout.values:
        conditions = [] if value.when == TRUE else [_condition(s, value.when)]
        parts = [s.called(p, _known(s)) for p in value.position]
        conditions += [c for _, more in parts for c in more]
        shape = shapes[value.name]
        subscripts = [e for e, _ in parts]
        inside = conjunction([*conditions, *within_shape(subscripts, shape)])
        place_in_array = Choose(inside, flat(shape, subscripts), Num(-1))
        places[value.name] = s.copy(f"place in {value.name}", COUNT, place_in_array)
    stored = Or(tuple(compare(at(p), ">=", 0) for p in places.values()))
    s.columns |= {f"place in {n}": p for n, p in places.items()}
    s.keep(s.vec("kept", COUNT, stored), "entries with a place for their value")
    turns = [
        (s.vec("turned", COUNT, _condition(s, a.relation)), a.operators) for a in layout.value_transforms if a.operators
    ]
    before: list[str] = []
    for value in layout.values:
        place = places[value.name]
        if before:
            free = And(tuple(compare(at(p), "<", 0) for p in before))
            place = s.vec("place", COUNT, Choose(free, at(place), Num(-1)))
        before.append(places[value.name])
        s.steps.append(Store(value.name, COUNT, place, tuple(turns)))
    if s.by_ends or not (plan.injective or is_alone(layout)):
        s.steps.append(CheckShared("places that several coordinates share hold the entries, and nothing else"))
    for index in layout.indexes:
        if index.name in s.arrays:
            s.steps.append(Insert(index.name, *s.arrays[index.name]))
    if is_chosen:
        s.steps.append(CheckFacts("what packing has chosen keeps what the layout declares"))


def _condition(s: AssemblyBuilder, formula: Formula) -> Formula:
    """A condition of the layout for an entry; false where one of its calls lies outside of its array."""
    inside: list[Formula] = []

    def part(f: Formula) -> Formula:
        match f:
            case Compare(op, left, right):
                (a, one), (b, two) = s.called(left, _known(s)), s.called(right, _known(s))
                inside.extend([*one, *two])
                return Compare(op, a, b)
            case And(parts):
                return And(tuple(map(part, parts)))
            case Or(parts):
                return Or(tuple(map(part, parts)))
            case Not(inner):
                return Not(part(inner))
        raise Unsupported(f"layout `{s.layout.name}` is not assembled in C: a quantifier in a condition", s.layout.span)

    condition = part(formula)
    return conjunction([*inside, condition])
