"""Bounds on what an index array holds become bounds of the loop: where the array is sorted, it starts and ends there.

A convolution asks of each position that i <= idx(p) < i + n; a tile of columns that lo <= colidx(p) < hi; a tile of
positions asks of each row that it has some of them, rowptr(i) < hi and lo < rowptr(i + 1). All are conditions on what
an array holds at the loop's position. Where Z3 proves that the array rises (or falls), they hold from one position to
another, which a search finds: tiles that are empty are skipped (the condition of Zhao et al. 2022, figure 8).

A tile is narrowed from one side, too. Elsewhere one bound leaves half of the positions on average, which is not worth a
binary search: there have to be two, and a loop around that goes through the same positions again and again. Of
intervals that do not meet one bound is enough (intervals.py).

Where each position is met once, as those of a row under a mask `i <= j`, the loop begins at the first position that
counts, which is looked for in growing steps from where the row begins: in short rows that costs what the questions did
(in C by hand: 8, 32, 200 entries in a row, 1.1, 3.4, 4.0 ms for 1.1, 4.1, 5.2). It ends by an early
exit (early_exit.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial, reduce

from spfgen.facts.formula import Bin, Call, Var, variables
from spfgen.plan.analyse.intervals import by_start
from spfgen.plan.analyse.scan import Step, made_of
from spfgen.plan.analyse.sorted_bounds import Limit, bound, bounded, falls, without_implied
from spfgen.plan.choices import NARROWED
from spfgen.plan.context import Context
from spfgen.plan.finds import search
from spfgen.plan.nodes import Block, BoundSearch, Clear, Plan, Reach, Scan, Store, chain, is_sum, with_body
from spfgen.sets.named import Piece
from spfgen.space.nodes import Instance


def narrowed(
    instance: Instance,
    nest: Plan,
    steps: Sequence[Step],
    context: Context,
    fixed: Collection[str] = (),
    around: Collection[str] = (),
) -> Plan:
    """The nest with such bounds on its loops, but for the `fixed` ones, and for positions that the schedule finds in
    another way. `around` are indices of loops around the nest."""
    if not context.makes(NARROWED):
        return nest
    others = {*fixed, *(dim for dim, forced in context.forced.items() if forced.algorithm != search.NAME)}

    nodes = list(chain(nest))
    result = nodes[-1]
    for node in reversed(nodes[:-1]):
        result = with_body(node, result)
        if isinstance(result, Scan) and result.dim not in others:
            result = _narrowed(instance, result, steps, around)
    return result


def _narrowed(instance: Instance, scan: Scan, steps: Sequence[Step], around: Collection[str]) -> Plan:
    inside = list(chain(scan.body))
    if any(isinstance(n, Clear) or (is_sum(n) and n.op == "=") for n in inside):
        return scan  # each iteration stores something
    position = [s.dim for s in steps].index(scan.dim)
    outer = {*instance.sizes, *(s.dim for s in steps[:position])}
    known = steps[position].before
    assert known is not None
    again = _again(scan, steps[:position], around)
    outer_tiles = outer & set(instance.made)
    moving = {*around, *(s.dim for s in steps[:position])}
    if not again and not outer_tiles:
        return _begun(instance, scan, steps, outer, known, moving)
    if any(isinstance(n, Store) and n.op == "=" for n in inside):
        return scan
    limits_of_calls = bounded(instance, scan, inside, outer, known)
    limits_of_calls = [(call, told) for call, about in limits_of_calls if (told := _telling(about, moving))]
    by_starts = (
        partial(by_start, instance, scan, steps, known, limits_of_calls, moving) if again and not outer_tiles else None
    )
    if by_starts is not None and (one := by_starts(at_point=True)) is not None:
        return one
    if not (again and _both_sides(about for _, about in limits_of_calls)):
        limits_of_calls = _of_tiles(instance, limits_of_calls)
    asked = [(call, about, falls(instance, scan, call, steps, known)) for call, about in limits_of_calls]
    rising = [(call, about, descending) for call, about, descending in asked if descending is not None]
    if not _both_sides(about for _, about, _ in rising):
        kept = dict(_of_tiles(instance, [(call, about) for call, about, _ in rising]))
        rising = [(call, kept[call], descending) for call, _, descending in rising if call in kept]
    if rising:
        return _with_bounds(scan, rising, known, bool(outer_tiles))
    return scan if by_starts is None else by_starts(at_point=False) or scan


def _begun(
    instance: Instance, scan: Scan, steps: Sequence[Step], outer: set[str], known: Piece, moving: set[str]
) -> Plan:
    """The loop from the first position on that its conditions leave, where they speak of loops around."""
    for call, about in bounded(instance, scan, list(chain(scan.body)), outer, known):
        about = [limit for limit in about if limit.constraint.value.names() & moving]
        descending = falls(instance, scan, call, steps, known) if about else None
        starts = [limit for limit in about if limit.below == descending]
        if starts:
            return _with_bounds(scan, [(call, starts, bool(descending))], known, False, near=True)
    return scan


def _with_bounds(
    scan: Scan, rising: Sequence[tuple[Call, list[Limit], bool]], known: Piece, in_tiles: bool, near: bool = False
) -> Plan:
    """The loop between positions that are searched for, in what is sorted. In tiles it is first asked whether there are
    any."""
    limits = [limit for _, about, _ in rising for limit in about]
    wraps: list[BoundSearch] = []
    reaches: list[Reach] = []
    low, high = scan.low, scan.high
    for call, about, descending in rising:
        if in_tiles and _both_sides([about]):
            reaches.append(_reach(scan, call, about, descending))
        for limit in about:
            narrowed = bound(scan, call, limit, descending, low, high, [w.name for w in wraps])
            wraps.append(replace(narrowed, near=near))
            if limit.below != descending:
                high = (Var(wraps[-1].name),)
            else:
                low = (Var(wraps[-1].name),)
    holds = known.with_constraints([limit.constraint for limit in limits])
    result: Plan = replace(scan, low=low, high=high, body=without_implied(scan.body, holds))
    for wrap in (*reversed(wraps), *reaches):
        result = with_body(wrap, result)
    return result


def _telling(about: list[Limit], moving: set[str]) -> list[Limit]:
    """The bounds of a value that speak of loops around; a window of fixed size has both its sides."""
    if _both_sides([about]):
        return about
    return [limit for limit in about if limit.constraint.value.names() & moving]


def _both_sides(limits: Iterable[list[Limit]]) -> bool:
    return {limit.below for about in limits for limit in about} == {False, True}


def _of_tiles(
    instance: Instance, limits_of_calls: Sequence[tuple[Call, list[Limit]]]
) -> list[tuple[Call, list[Limit]]]:
    """Those bounds that speak of tiles."""
    tiles = set(instance.made)
    kept = [
        (call, [limit for limit in about if limit.constraint.value.names() & tiles]) for call, about in limits_of_calls
    ]
    return [(call, about) for call, about in kept if about]


def _again(scan: Scan, outer: Sequence[Step], around: Collection[str]) -> bool:
    """Whether a loop around goes through the same positions in several of its iterations. What an array says may be
    the same again."""
    by_name = {s.dim: s for s in outer}
    needed: set[str] = set()
    pending = [(name, False) for e in (*scan.low, *scan.high) for name in variables(e)]
    while pending:
        name, loaded = pending.pop()
        step = by_name.get(name)
        if step is None or step.kind == "scan":
            needed.add(name)
        elif step.kind == "load" and not loaded:
            pending += [(n, True) for n in made_of(step)]
        elif step.kind == "locate":
            pending += [(n, loaded) for n in made_of(step)]
    loops = [*around, *(s.dim for s in outer if s.kind == "scan")]
    return any(dim not in needed for dim in loops)


def _reach(scan: Scan, call: Call, limits: Sequence[Limit], descending: bool) -> Reach:
    """That there is such a position at all, which takes no search."""
    first = reduce(lambda a, b: Bin("max", a, b), [limit.value for limit in limits if not limit.below])
    last = reduce(lambda a, b: Bin("min", a, b), [limit.value for limit in limits if limit.below])
    word = "decreasing" if descending else "increasing"
    why = f"what has nothing in the tile is passed over without a search, since {call.function} is {word} there"
    return Reach(scan.dim, scan.low, scan.high, call, first, last, descending, Block(()), why)
