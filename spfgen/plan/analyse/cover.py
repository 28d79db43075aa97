"""Nests that reach every place of their target exactly once through a pointer array.

    for i in [0, n) { for p in [f(i), f(i + 1)) { C[p] = ... } }

Segments that begin where the one before ended lie side by side: with f(0) = 0, f(n) = m and f that never falls, all
proved from the declared properties, p takes each value in [0, m) once. What is stored so need not be cleared before.
"""

from __future__ import annotations

from collections.abc import Sequence

from spfgen.facts.formula import ONE, ZERO, And, Bin, Call, Compare, Expr, Formula, Var, variables
from spfgen.facts.prove import implied
from spfgen.plan.analyse.scan import Step
from spfgen.sets.affine import NotAffine, expression
from spfgen.sets.named import Constraint
from spfgen.sets.uf import linear
from spfgen.space.nodes import Instance


def covers_by_segments(instance: Instance, steps: Sequence[Step]) -> bool:
    """Whether the loops of these steps, after which the place of the target is known, reach each place of the array
    exactly once: each subscript is a loop over all of its extent, or over the segments of another such loop."""
    if any(s.guards for s in steps):
        return False
    waiting = {s.dim: s for s in steps if s.kind == "scan"}
    for place, extent in zip(instance.target.place, instance.target.extents, strict=True):
        loop = next((d for d in waiting if proved_equal(instance, place, Var(d))), None)
        while loop is not None:
            step = waiting.pop(loop)
            if step.low == (ZERO,) and step.high == (extent,):
                break
            parent = _parent(instance, step, waiting, extent)
            if parent is None:
                return False
            loop, extent = parent
        else:
            return False
    return not waiting


def _parent(instance: Instance, step: Step, loops: dict[str, Step], extent: Expr) -> tuple[str, Expr] | None:
    """The loop whose segments this one goes through, and what it must run over for them to be all of [0, extent)."""
    if len(step.low) != 1 or len(step.high) != 1:
        return None
    low, high = _call(instance, step.low[0]), _call(instance, step.high[0])
    if low is None or high is None or low.function != high.function or len(low.arguments) != 1:
        return None
    at = low.arguments[0]
    if not proved_equal(instance, high.arguments[0], Bin("+", at, ONE)):
        return None
    loop = next((d for d in loops if proved_equal(instance, at, Var(d))), None)
    (length,) = instance.axioms.extents[low.function]
    try:
        last = linear(length).plus(-1)
    except NotAffine:
        return None
    end = expression(last)
    if loop is None or not variables(end) <= set(instance.sizes):
        return None
    return (loop, end) if _side_by_side(instance, low.function, end, extent) else None


def _side_by_side(instance: Instance, function: str, end: Expr, extent: Expr) -> bool:
    """f(0) = 0, f(end) = extent, f(p) <= f(p + 1)."""
    at = Var("p'")
    sizes: list[Formula] = [Compare(">=", Var(s), ZERO) for s in instance.sizes]
    within: list[Formula] = [*sizes, Compare(">=", at, ZERO), Compare("<", at, end)]
    borders = And((Compare("=", Call(function, (ZERO,)), ZERO), Compare("=", Call(function, (end,)), extent)))
    rises = Compare("<=", Call(function, (at,)), Call(function, (Bin("+", at, ONE),)))
    return (
        implied(sizes, instance.axioms, borders, about=f"the segments of {function} cover [0, extent)").proved
        and implied(within, instance.axioms, rises, about=f"the segments of {function} do not meet").proved
    )


def _call(instance: Instance, bound: Expr) -> Call | None:
    return instance.calls.get(bound.name) if isinstance(bound, Var) else None


def proved_equal(instance: Instance, one: Expr, two: Expr) -> bool:
    try:
        return instance.domain.implies(Constraint(True, linear(one) - linear(two)))
    except NotAffine:
        return False
