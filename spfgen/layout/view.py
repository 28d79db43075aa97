"""A subscripted tensor as a layout: the arrays of the tensor, and its relation with the subscripts in place of the
coordinates. So whatever scans a layout can scan a part of a tensor, and begins at its first position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from spfgen.facts.formula import (
    ZERO,
    Bin,
    Call,
    Compare,
    Expr,
    Formula,
    Num,
    Var,
    conjunction,
    conjuncts,
    substitute,
    within,
)
from spfgen.ir import fresh
from spfgen.layout.nodes import IndexArray, Layout
from spfgen.layout.proofs import rises


@dataclass(frozen=True)
class Fixed:
    """One place of a dimension, which the view does not have."""


@dataclass(frozen=True)
class Along:
    """Places `start + step*k`."""

    step: int


@dataclass(frozen=True)
class Listed:
    """Places from an array, which has one for each point of a group; the dimensions of a group share a coordinate."""

    group: int


Part = Fixed | Along | Listed


@dataclass(frozen=True)
class View:
    """`layout` has the groups first, then the dimensions along which there is more than a place. For the dimensions of
    the tensor: `starts` are sizes, `places` index arrays; its extents have the names that they had, and are sizes."""

    layout: Layout
    starts: tuple[str | None, ...]
    places: tuple[str | None, ...]
    limits: tuple[str, str] | None = None
    """The sizes between which a position lies, where that is asked for."""


@lru_cache(maxsize=1024)
def view_of(layout: Layout, parts: tuple[Part, ...], limited: str | None = None) -> View:
    """With a part for each dimension; `limited`: a position of which no more than a range is looked at."""
    names = (*layout.parameters, *layout.sizes, *layout.positions, *layout.coordinates)
    taken = {*names, *layout.arrays, *(n for n, _ in layout.constants)}

    def new(wanted: str) -> str:
        name = fresh(wanted, taken)
        taken.add(name)
        return name

    groups = sorted({p.group for p in parts if isinstance(p, Listed)})
    point = {g: (new(f"point_{g}"), new(f"place_{g}"), new(f"points_{g}")) for g in groups}
    coordinates = [(p, n) for p, _, n in point.values()]
    known: list[Formula] = [within(Var(at), ZERO, Var(n)) for _, at, n in point.values()]
    known += [Compare("=", Var(p), Var(at)) for p, at, _ in point.values()]
    indexes: list[IndexArray] = []
    starts: list[str | None] = []
    places: list[str | None] = []
    values: dict[str, Expr] = {}
    for d, (part, old, extent) in enumerate(zip(parts, layout.coordinates, layout.parameters, strict=True)):
        start = None if isinstance(part, Listed) else new(f"start_{d}")
        place = new(f"places_{d}") if isinstance(part, Listed) else None
        match part:
            case Listed(group):
                assert place is not None
                indexes.append(IndexArray(place, (Var(point[group][2]),)))
                values[old] = Call(place, (Var(point[group][1]),))
            case Along(step):
                assert start is not None
                coordinate = new(f"{old}_of_view")
                coordinates.append((coordinate, new(f"{extent}_of_view")))
                moved = Var(coordinate) if step == 1 else Bin("*", Num(step), Var(coordinate))
                values[old] = Bin("+", Var(start), moved)
            case Fixed():
                assert start is not None
                values[old] = Var(start)
        known.append(within(values[old], ZERO, Var(extent)))
        starts.append(start)
        places.append(place)
    limits = None if limited is None else (new("from_position"), new("to_position"))
    if limited is not None and limits is not None:
        known.append(within(Var(limited), *map(Var, limits)))
    sizes = (*layout.parameters, *layout.sizes, *(s for s in starts if s is not None), *(limits or ()))
    viewed = Layout(
        f"{layout.name}_view",
        tuple(n for _, n in coordinates),
        layout.constants,
        tuple(n for n in sizes if n not in {n for _, n in coordinates}),
        (*(at for _, at, _ in point.values()), *layout.positions),
        tuple(c for c, _ in coordinates),
        conjunction([*known, substitute(layout.relation, values)]),
        (*layout.indexes, *indexes),
        tuple(
            replace(v, position=tuple(substitute(p, values) for p in v.position), when=substitute(v.when, values))
            for v in layout.values
        ),
        layout.fill,
        value_transforms=tuple(replace(t, relation=substitute(t.relation, values)) for t in layout.value_transforms),
    )
    return View(viewed, tuple(starts), tuple(places), limits)


@dataclass(frozen=True)
class Rising:
    """A position, and the array that says which coordinate, of this dimension, it is at: it never falls."""

    position: str
    array: str
    dimension: int


@lru_cache(maxsize=256)
def rising(layout: Layout) -> tuple[Rising, ...]:
    """The positions that a search finds."""
    positions = []
    for part in conjuncts(layout.relation):
        match part:
            case Compare("=", Var(name), Call(array, (Var(position),))) if name in layout.coordinates:
                if (
                    position in layout.positions
                    and len(layout.index(array).extents) == 1
                    and rises(layout, array).proved
                ):
                    positions.append(Rising(position, array, layout.coordinates.index(name)))
    return tuple(positions)


def sizes_of(view: View, sizes: Mapping[str, int], starts: Sequence[int], extents: Sequence[int]) -> dict[str, int]:
    """The sizes of a view: where each dimension begins, and the extents of the view."""
    starts_of_view = {name: at for name, at in zip(view.starts, starts, strict=True) if name is not None}
    return {**sizes, **starts_of_view, **dict(zip(view.layout.parameters, extents, strict=True))}
