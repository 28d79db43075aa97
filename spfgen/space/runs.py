"""Runs: where no operand's value moves with an index, it is computed once, and a sum is one product with the length.

A layout is constant along a coordinate where the coordinate is its last position and the place of the value does not
speak of it: `val[q]` for all p of start(q) <= p < start(q + 1) and i = p.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from spfgen.facts.formula import And, Compare, Formula, Var, conjuncts, variables
from spfgen.ir import walk
from spfgen.lang import nodes as lang
from spfgen.layout.nodes import Layout


def is_about_runs(statement: lang.Statement, layouts: Mapping[str, Layout], computed: Set[str]) -> bool:
    """Whether all that a statement reads is constant along an index over which it sums, or along which its target
    stores runs, one of the `computed` ones whose pattern follows; or two of its operands are: their runs are merged."""
    accesses = [n for n in walk(statement.value) if isinstance(n, lang.Access)]
    beside = {v for n in walk(statement.value) if isinstance(n, lang.Index) for v in variables(n.expr)}
    kept = variables(*statement.target.subscripts)
    for index in {v for a in accesses for s in a.subscripts for v in variables(s)} - beside:
        reads = [a for a in accesses if any(index in variables(s) for s in a.subscripts)]
        constant = [a for a in reads if _is_constant(a, index, layouts)]
        runs = statement.target.tensor in computed and _is_constant(statement.target, index, layouts)
        if len(constant) > 1 or (len(constant) == len(reads) and (runs or index not in kept)):
            return True
    return False


def _is_constant(access: lang.Access, index: str, layouts: Mapping[str, Layout]) -> bool:
    layout = layouts.get(access.tensor)
    moving = [k for k, s in enumerate(access.subscripts) if index in variables(s)]
    if layout is None or len(access.subscripts) != layout.rank:  # which is refused later
        return False
    if len(moving) != 1 or access.subscripts[moving[0]] != Var(index):
        return False
    return is_constant_along(layout, layout.coordinates[moving[0]])


def is_constant_along(layout: Layout, coordinate: str) -> bool:
    """Whether all that is stored at one place has neighbouring values of this coordinate."""
    if not layout.positions or layout.value_transforms:
        return False
    *_, last = layout.positions
    places = [p for v in layout.values for p in v.position]
    return not any(last in variables(p) for p in places) and any(
        _is_equal(part, coordinate, last) for part in conjuncts(layout.relation)
    )


def _is_equal(part: Formula, coordinate: str, position: str) -> bool:
    match part:
        case Compare("=", Var(left), Var(right)):
            return {left, right} == {coordinate, position}
        case And(parts):
            return any(_is_equal(p, coordinate, position) for p in parts)
    return False
