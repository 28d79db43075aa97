"""What constraints say of one dimension: its only value, or its bounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from spfgen.sets.affine import Affine
from spfgen.sets.named import Constraint


def single_value(constraints: Iterable[Constraint], name: str) -> tuple[Affine, int] | None:
    """(numerator, divisor) when floor(numerator / divisor) is the only value that `name` can have, else None."""
    best: tuple[Affine, int] | None = None
    lower: list[tuple[int, Affine]] = []
    upper: list[tuple[int, Affine]] = []
    for constraint, coefficient, others in _about(constraints, name):
        if constraint.equality:
            solution = (others.scaled(-1 if coefficient > 0 else 1), abs(coefficient))
            if best is None or solution[1] < best[1]:
                best = solution
        elif coefficient > 0:
            lower.append((coefficient, others))
        else:
            upper.append((-coefficient, others))
    if best is not None:
        return best
    for scale, high in upper:
        for other, low in lower:
            width = high + low
            if scale == other and not width.terms and width.constant < scale:
                return high, scale
    return None


def bounds(constraints: Iterable[Constraint], name: str) -> tuple[list[tuple[int, Affine]], list[tuple[int, Affine]]]:
    """Lower and upper bounds as (a, e): a*name >= -e, and a*name <= e.

    Constraints with `name` in a floor are left out.
    """
    lower: list[tuple[int, Affine]] = []
    upper: list[tuple[int, Affine]] = []
    for _, coefficient, others in _about(constraints, name):
        if coefficient > 0:
            lower.append((coefficient, others))
        else:
            upper.append((-coefficient, others))
    return lower, upper


def _about(constraints: Iterable[Constraint], name: str) -> Iterator[tuple[Constraint, int, Affine]]:
    """Those that say something of `name` outside of floors, with its coefficient and the rest."""
    for constraint in constraints:
        coefficient = constraint.value.coefficient(name)
        others = constraint.value.without(name)
        if coefficient and not any(name in f.numerator.names() for f in others.floors()):
            yield constraint, coefficient, others
