"""Clearing of results: before the nest, or inside it where that is proved correct.

Each iteration of the outermost loop clears the part that it alone writes, just before it does. The part is then still
in the caches when it is added to, and memory is first touched by the thread that uses it. That is right when the place
written gives the value of the loop, floor(e / a) for an e of the place, and the loop runs over all values that there
are.

It is right too when the place is what an index array holds for the loop's value and that array rises: then each
iteration clears as well what lies between the place before and its own, which no iteration writes. Where several
iterations in turn write one place, the first of them clears it. Where a place is one value, iterations would take
longer to find out what lies between than to clear it: a thread clears what lies between all of a part, then runs it.

Threads that add to copies of the result clear it as they clear these.

Where the result is more than caches hold and few of its lines are added to, nothing is gained by having the part in
the caches: how many additions there are is noted, so that the zeros can go past them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import reduce
from itertools import takewhile

from spfgen.facts.formula import ONE, ZERO, Bin, Call, Compare, Expr, Var, rename, variables, within
from spfgen.facts.prove import implied
from spfgen.lang.nodes import Constant
from spfgen.plan.analyse.cover import proved_equal
from spfgen.plan.analyse.scan import with_quotients
from spfgen.plan.nodes import (
    Block,
    Clear,
    Define,
    Find,
    FindTable,
    Guard,
    Load,
    Partition,
    Plan,
    Prefetch,
    Scan,
    SearchState,
    Store,
    chain,
    is_sum,
    with_body,
)
from spfgen.sets.affine import Affine, NotAffine, expression
from spfgen.sets.bounds import bounds, single_value
from spfgen.sets.named import Constraint, Piece, Space
from spfgen.sets.uf import linear, with_floors
from spfgen.space.nodes import Instance, Operand

WHY = "no other iteration writes this part of it"
GAPS = "no other iteration writes it, and none writes what lies before it"
REST = "rows that the loop does not visit"
SPAN = "no other part writes it, and none writes what lies between"


def initialised(instance: Instance, nest: Plan, with_copies: bool) -> Plan | None:
    """The nest that clears the target itself; None where that is not known to be right. `with_copies`:
    threads may clear it with copies that they have of it."""
    nodes = list(chain(nest))
    place = next((k for k, n in enumerate(nodes) if isinstance(n, Scan | Find)), None)
    if place is None or not all(isinstance(n, Load | Define | SearchState | FindTable) for n in nodes[:place]):
        return None
    loop = nodes[place]
    assert isinstance(loop, Scan | Find)
    before, result = (_cleared_inside(instance, loop) if isinstance(loop, Scan) else None) or ((), None)
    if result is None:
        result = _cleared_with_copies(instance, loop, nodes[-1]) if with_copies else None
    if result is None:
        return None
    for node in reversed(nodes[:place]):
        result = with_body(node, result)
    return Block((*before, result)) if before else result


def _cleared_inside(instance: Instance, scan: Scan) -> tuple[tuple[Plan, ...], Plan] | None:
    """The loop in which each iteration clears its part, and what is cleared before."""
    adds = scan.partition is not None and bool(scan.partition.adds)
    disjoint = scan.parallel and not adds
    if scan.vector or scan.collapse or not (disjoint or _worth(scan)):
        return None
    part_and_rest = _part(instance, scan) if disjoint else None
    if part_and_rest is not None:
        part, before = part_and_rest
        return before, _with_clearing(scan, Clear(instance.target.tensor, WHY, part))
    return None if adds and not _by_rows(scan.partition) else _gaps(instance, scan, disjoint)


def _with_clearing(scan: Scan, clear: Clear) -> Scan:
    """The loop whose iterations clear first; what they fetch for later ones is on its way meanwhile."""
    above = list(takewhile(lambda n: isinstance(n, Prefetch), chain(scan.body)))
    body: Plan = replace(clear, body=above[-1].inner if above else scan.body)
    for node in reversed(above):
        body = with_body(node, body)
    return replace(scan, body=body)


def _cleared_with_copies(instance: Instance, loop: Scan | Find, does: Plan) -> Plan | None:
    """The loop whose threads clear the target as they clear their copies of it; None where they have no copies."""
    if loop.partition is None or loop.partition.adds != "copies" or not loop.parallel or not isinstance(does, Store):
        return None
    return replace(loop, partition=replace(loop.partition, clears=instance.target.tensor))


def _by_rows(partition: Partition | None) -> bool:
    """Whether all that is added to a row, but for what goes on from the part before, is added by one thread."""
    return (
        partition is not None
        and partition.adds == "segments"
        and partition.slice is not None
        and all(b == ZERO for b in partition.slice.base[1:])
    )


def _worth(scan: Scan) -> bool:
    """Whether an iteration has a loop inside, beside which it takes no time to see whether a new row has begun."""
    return any(isinstance(n, Scan | Find) for n in chain(scan.body))


def _stored(scan: Scan) -> Plan | None:
    """What each iteration does when it has one sum and adds it to one place: it may as well store it there."""
    above: list[Plan] = []
    for node in chain(scan.body):
        if is_sum(node):
            result: Plan = replace(node, op="=")
            for outer in reversed(above):
                result = with_body(outer, result)
            return result if node.op == "+=" else None
        if not isinstance(node, Load | Define):
            break
        above.append(node)
    return None


def _gaps(instance: Instance, scan: Scan, disjoint: bool) -> tuple[tuple[Plan, ...], Scan] | None:
    """The loop that clears the places of an iteration and those between them and the ones of its neighbours, where
    iterations write different places or several of them one; and before it what clears places that none clears so.

    A row is all places with one value of the first subscript, which is what a rising index array holds for the loop.
    """
    target = instance.target
    calls = [n for n, c in instance.calls.items() if len(c.arguments) == 1]
    called = next((n for n in calls if proved_equal(instance, target.place[0], Var(n))), None) if target.place else None
    if called is None or scan.low != (ZERO,) or len(scan.high) != 1:
        return None
    call, (end,), now = instance.calls[called], scan.high, Var(scan.dim)
    if instance.axioms.extents[call.function] != (end,) or not proved_equal(instance, call.arguments[0], now):
        return None
    at = Var(f"{scan.dim}'")
    before, this = Call(call.function, (Bin("-", at, ONE),)), Call(call.function, (at,))
    some = [Compare(">=", at, ZERO), Compare("<", at, end), *(Compare(">=", Var(s), ZERO) for s in instance.sizes)]
    about = f"{call.function} names places of {target.tensor}"
    if not implied(some, instance.axioms, within(this, ZERO, target.extents[0]), about=about).proved:
        return None
    later, rises = [*some, Compare(">", at, ZERO)], Compare("<" if disjoint else "<=", before, this)
    if not implied(later, instance.axioms, rises, about=f"{call.function} is increasing").proved:
        return None
    nothing = Guard((Compare("=", end, ZERO),), Clear(target.tensor, "no iteration does it"))
    if disjoint and len(target.place) == 1:
        between = _between(target, scan, call.function)
        return (nothing,), replace(scan, between=between, body=_stored(scan) or scan.body)
    clear, behind = _row_by_row(target, scan, call.function, disjoint)
    return (nothing, *behind), _with_clearing(scan, clear)


def _between(target: Operand, scan: Scan, function: str) -> Clear:
    """All places from the one of the first iteration of a part to the one of the first behind it; the first part begins
    at the first place that there is, and the last one ends at the last."""
    first, past = scan.ends_of_part
    word = f"{target.tensor}.{target.array} 1"
    zero = Store(replace(target, place=(Var(word),)), Constant(0))
    (end,), (extent,) = scan.high, target.extents
    here, there = Call(function, (Var(first),)), Call(function, (Var(past),))
    parts = (
        Guard((Compare("=", Var(first), ZERO),), Scan(word, (ZERO,), (here,), zero)),
        Guard((Compare("<", Var(past), end),), Scan(word, (here,), (there,), zero)),
        Guard((Compare("=", Var(past), end),), Scan(word, (here,), (extent,), zero)),
    )
    part = Guard((Compare("<", Var(first), Var(past)),), Block(parts))
    return Clear(target.tensor, SPAN, part)


def _row_by_row(target: Operand, scan: Scan, function: str, disjoint: bool) -> tuple[Clear, tuple[Plan, ...]]:
    """The rows from the one after that of the iteration before to its own. The rows behind the last one: cleared by the
    last iteration if nobody else writes what that one does, else apart."""
    now, (end,) = Var(scan.dim), scan.high
    words, row = _row(target)

    def rows(when: Compare, low: Expr, high: Expr) -> Plan:
        return Guard((when,), Scan(words[0], (low,), (high,), row))

    def after(position: Expr) -> Expr:
        return Bin("+", Call(function, (position,)), ONE)

    last = Bin("-", end, ONE)
    inside = (
        rows(Compare("=", now, ZERO), ZERO, after(now)),
        rows(Compare(">", now, ZERO), after(Bin("-", now, ONE)), after(now)),
    )
    if disjoint:
        parts = Block((*inside, rows(Compare("=", now, last), after(now), target.extents[0])))
        return Clear(target.tensor, GAPS, parts), ()
    behind = rows(Compare(">", end, ZERO), after(last), target.extents[0])
    return Clear(target.tensor, GAPS, Block(inside)), (behind,)


def _part(instance: Instance, scan: Scan) -> tuple[Plan, tuple[Plan, ...]] | None:
    """Loops over the places that are written for one value of the loop, and nowhere else; then those over the rows that
    the loop does not come to, where its values are rows."""
    places = _places(instance)
    if places is None:
        return None
    words, limits, written = places
    names = list(words)
    about = written.project({*instance.sizes, *names, scan.dim}).constraints(scan.dim)
    value = single_value(about, scan.dim)
    if value is None or not value[0].names() <= {*instance.sizes, *names}:
        return None
    numerator, divisor = value
    space = Space((*instance.sizes, *_quotients(instance), scan.dim, *names))
    remainder = numerator - Affine(((scan.dim, divisor),))
    box = space.of([*_box(names, limits, instance.sizes), *_meanings(instance)])
    part = box.with_constraints(
        [
            Constraint(False, remainder),
            Constraint(False, remainder.scaled(-1).plus(divisor - 1)),
        ]  # scan.dim is the quotient
    )
    try:
        wanted = list(_bounds(scan))
    except NotAffine:
        return None
    beside: tuple[Plan, ...] = ()
    if not all(c.value.names() <= set(space.names) and part.implies(c) for c in wanted):
        of_sizes = variables(*scan.low, *scan.high) <= {*instance.sizes}
        if len(words) == 1 or not of_sizes or not proved_equal(instance, instance.target.place[0], Var(scan.dim)):
            return None  # a row of one place is as well cleared with all others
        beside = _beside(instance.target, scan)
    loops = _loops(instance, part, scan, dict(zip(words.items(), limits, strict=True)))
    return None if loops is None else (loops, beside)


def _beside(target: Operand, scan: Scan) -> tuple[Plan, ...]:
    """Zeros in the rows before those that a loop comes to, and behind them."""
    words, row = _row(target)
    first = reduce(lambda a, b: Bin("max", a, b), scan.low)
    end = reduce(lambda a, b: Bin("min", a, b), scan.high)
    before = Scan(words[0], (ZERO,), (first, target.extents[0]), row)
    behind = Scan(words[0], tuple(dict.fromkeys((ZERO, *scan.low, end))), (target.extents[0],), row)
    rows = behind if scan.low == (ZERO,) else Block((before, behind))
    return (Clear(target.tensor, REST, rows, Block(())),)


def _row(target: Operand) -> tuple[list[str], Plan]:
    """Loops over one row of the target with a zero stored at each place, and the names of all subscripts."""
    words = [f"{target.tensor}.{target.array} {k + 1}" for k in range(len(target.place))]
    row: Plan = Store(replace(target, place=tuple(map(Var, words))), Constant(0))
    for word, extent in reversed(list(zip(words[1:], target.extents[1:], strict=True))):
        row = Scan(word, (ZERO,), (extent,), row)
    return words, row


def _places(instance: Instance) -> tuple[dict[str, str], list[Affine], Piece] | None:
    """Dimensions for the subscripts of the place, each with its name in a loop; their limits; the points of the
    instance with them."""
    try:
        values = [linear(p) for p in instance.target.place]
        limits = [linear(e) for e in instance.target.extents]
    except NotAffine:
        return None
    if not values:
        return None
    words: dict[str, str] = {}
    for k, value in enumerate(values):
        same = [n for n in instance.indices if instance.domain.implies(Constraint(True, value - Affine(((n, 1),))))]
        free = [n for n in same if n not in words.values()]
        words[f"place {k}"] = free[0] if free else f"{instance.target.tensor}.{instance.target.array} {k + 1}"
    space = Space((*instance.domain.space.names, *words))
    equal = [Constraint(True, v - Affine(((n, 1),))) for n, v in zip(words, values, strict=True)]
    return words, limits, instance.domain.reordered(space).with_constraints(equal)


def _box(names: list[str], limits: list[Affine], sizes: tuple[str, ...]) -> Iterator[Constraint]:
    """The places of the array, for sizes that are not negative."""
    for name, limit in zip(names, limits, strict=True):
        yield Constraint(False, Affine(((name, 1),)))
        yield Constraint(False, (limit - Affine(((name, 1),))).plus(-1))
    for size in sizes:
        yield Constraint(False, Affine(((size, 1),)))


def _quotients(instance: Instance) -> list[str]:
    """The dimensions that are quotients of sizes."""
    return [n for n, (numerator, _) in instance.quotients.items() if variables(numerator) <= set(instance.sizes)]


def _meanings(instance: Instance) -> Iterator[Constraint]:
    """What they are."""
    for name in _quotients(instance):
        yield from instance.meaning(name, instance.sizes)


def _bounds(scan: Scan) -> Iterator[Constraint]:
    """That the loop runs over its value."""
    position = Affine(((scan.dim, 1),))
    for e in scan.low:
        yield Constraint(False, position - linear(with_floors(e)))
    for e in scan.high:
        yield Constraint(False, (linear(with_floors(e)) - position).plus(-1))


def _needed(constraints: list[Constraint], known: Piece) -> list[Constraint]:
    """Those that what is known and the others do not say already."""
    kept = list(constraints)
    for constraint in constraints:
        others = [c for c in kept if c != constraint]
        if known.with_constraints(others).implies(constraint):
            kept = others
    return kept


def _loops(instance: Instance, part: Piece, scan: Scan, places: Mapping[tuple[str, str], Affine]) -> Plan | None:
    """Loops over exactly the part, with a zero stored at each place; None if that is not one piece of memory."""
    words = dict(places.keys())

    def named(value: Affine, known: Piece) -> Expr:
        result: Expr = rename(with_quotients(expression(value), known), words)
        return result

    prefix = {*instance.sizes, *_quotients(instance), scan.dim}
    known = part.project(prefix)
    opened: list[Scan] = []
    target: list[Expr] = []
    for (name, word), limit in places.items():
        about = part.project({*prefix, name}).constraints(name)
        single = single_value(about, name)
        if single is not None and single[1] == 1:
            if opened:
                return None
            target.append(named(single[0], known))
            known = known.with_constraints([Constraint(True, single[0] - Affine(((name, 1),)))])
        else:
            lower, upper = bounds(_needed(about, known), name)
            if not lower or not upper or any(a != 1 for a, _ in (*lower, *upper)):
                return None
            whole = lower == [(1, Affine(()))] and upper == [(1, limit.plus(-1))]
            if not whole and opened:
                return None
            low = tuple(named(e.scaled(-1), known) for _, e in lower)
            high = tuple(named(e.plus(1), known) for _, e in upper)
            opened.append(Scan(word, low, high, Clear("")))
            target.append(Var(word))
            known = known.with_constraints(
                [Constraint(False, Affine(((name, 1),)) + e) for _, e in lower]
                + [Constraint(False, e - Affine(((name, 1),))) for _, e in upper]
            )
        prefix.add(name)
    if not known.is_subset(part):
        return None
    body: Plan = Store(replace(instance.target, place=tuple(target)), Constant(0))
    for node in reversed(opened):
        body = with_body(node, body)
    return body
