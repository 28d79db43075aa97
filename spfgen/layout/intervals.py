"""Layouts whose places store intervals of one coordinate each, such as run-length codes.

What is stored at one place has all coordinates but one in common, and that one runs from a first value to a last one.
Where entries are given as intervals, packing needs their two ends alone: its time grows with the number of intervals,
not with their lengths.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from spfgen.errors import Unsupported
from spfgen.facts.formula import calls, variables
from spfgen.layout.nodes import Layout
from spfgen.layout.pack_plan import pack_plan
from spfgen.layout.pack_rules import Computed, Ranked
from spfgen.layout.points import Assign, Expand, Filter, Gather, Step, scan_of
from spfgen.sets.affine import Affine

KINDS = ("pointer", "ends", "counts", "slots", "covered", "most", "least")
"""Ranks that ask no more of an interval than where it begins and ends."""


@lru_cache(maxsize=256)
def interval_axis(layout: Layout) -> int | None:
    """Which coordinate it is that places hold an interval of; None where they store something else, or packing would
    ask for more than the ends of intervals."""
    if layout.is_pattern or layout.value_transforms:
        return None
    tables = scan_of(layout)
    loops = [k for k, s in enumerate(tables[0]) if isinstance(s, Expand)] if len(tables) == 1 else []
    if not loops:
        return None
    steps, last = tables[0], loops[-1]
    along = steps[last]
    assert isinstance(along, Expand)
    if any(a != 1 for a, _ in (*along.lower, *along.upper)):
        return None
    moving = {along.name: Affine(((along.name, 1),))}
    for step in steps[last + 1 :]:
        if not _names(step) & set(moving):
            continue
        value = _along(step, moving)
        if value is None or value.coefficient(along.name) not in (1, -1):
            return None
        if isinstance(step, Assign):
            moving[step.name] = value
    axes = [k for k, c in enumerate(layout.coordinates) if c in moving]
    stored = {n for v in layout.values for n in variables(v.when).union(*map(variables, v.position))}
    if len(axes) != 1 or stored & set(moving) or moving[layout.coordinates[axes[0]]].coefficient(along.name) != 1:
        return None
    return axes[0] if _by_ends(layout) else None


def _names(step: Step) -> set[str]:
    match step:
        case Gather(_, call):
            return variables(*call.arguments)
        case Assign(_, numerator):
            return numerator.names()
        case Filter(constraint):
            return constraint.value.names()
    return set()


def _along(step: Step, moving: Mapping[str, Affine]) -> Affine | None:
    """What a step assigns or asks not to be negative, in terms of the innermost position; None where it does more."""
    match step:
        case Assign(_, value, 1):
            pass
        case Filter(constraint) if not constraint.equality:
            value = constraint.value
        case _:
            return None
    result = Affine((), value.constant)
    for atom, coefficient in value.terms:
        if isinstance(atom, str):
            result += moving.get(atom, Affine(((atom, 1),))).scaled(coefficient)
        elif atom.numerator.names() & set(moving):
            return None
        else:
            result += Affine(((atom, coefficient),))
    return result


def _by_ends(layout: Layout) -> bool:
    """Whether packing asks no more of an interval than its ends, and positions are intervals of equal values."""
    try:
        plan = pack_plan(layout)
    except Unsupported:
        return False
    rules = [r for s in plan.steps for r in s if r is not None]
    runs = [r for r in rules if isinstance(r, Ranked) and r.rank.run]
    return (
        all(isinstance(r, Computed | Ranked) for r in rules)
        and all(r.kind in KINDS and not r.later and not any(True for h in r.hint for _ in calls(h)) for r in plan.ranks)
        and all(r.rank.same and len(r.values) == 1 for r in runs)
        and bool(runs)
    )
