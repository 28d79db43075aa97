"""Whether a nest of loops visits its points in the lexicographic order of their indices."""

from __future__ import annotations

from collections.abc import Sequence

from spfgen.facts.formula import And, Compare, Formula, Or, Var, rename
from spfgen.facts.prove import implied
from spfgen.plan.analyse.depend import known_of_points
from spfgen.plan.analyse.scan import Step, sources
from spfgen.space.nodes import Instance


def is_in_order(instance: Instance, steps: Sequence[Step], indices: Sequence[str]) -> bool:
    """Whether of two points of the scan the later one has the greater indices, compared from the first to the last; so
    that no point comes twice."""
    scans = [s.dim for s in steps if s.kind == "scan"]
    near = {*sources(steps, {*scans, *indices}), *(s.dim for s in steps if s.dim)}
    twin = {n: f"{n}'" for n in near - set(instance.sizes)}
    if not scans or not {*scans, *indices} <= twin.keys():
        return False
    one = known_of_points(instance, steps, near)
    two = [rename(f, twin) for f in one]
    rising = Or(tuple(_first_at(indices, twin, k) for k in range(len(indices))))
    for depth, scan in enumerate(scans):
        later = _first_at(scans, twin, depth)
        about = f"{', '.join(indices)} along {scan}: in the order of the loop"
        if not implied([*one, *two, later], instance.axioms, rising, about=about).proved:
            return False
    return True


def _first_at(names: Sequence[str], twin: dict[str, str], k: int) -> Formula:
    """That two points differ in the k-th of the names first, where the second point has the greater one."""
    equal: list[Formula] = [Compare("=", Var(n), Var(twin[n])) for n in names[:k]]
    less = Compare("<", Var(names[k]), Var(twin[names[k]]))
    return And((*equal, less)) if equal else less
