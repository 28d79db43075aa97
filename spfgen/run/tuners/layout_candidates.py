"""Layouts in which an operand could be stored: all that are known, of its rank, with constants that suit its entries.

No layout is known by name here. A part of the entries is measured in each (layout/measure.py): that says what cannot
hold them, and what takes too much memory.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, prod

import numpy as np

from spfgen.errors import SpfgenError, our_bugs
from spfgen.lang.nodes import LayoutAlias
from spfgen.lang.parse import parse_layout_use
from spfgen.lang.spec import SOLVED, SpecTree, builtin_names
from spfgen.layout.measure import NARROW, measure
from spfgen.layout.nodes import Layout
from spfgen.run.coordinates import Coordinates
from spfgen.run.handles import LayoutHandle
from spfgen.run.tuners.interleaved import passed_over

VALUES = (1, 2, 3, 4, 6, 8, 16, 32)
"""Of constants: sizes of blocks and of slices. Several constants begin with the same one."""
STEPS = (*VALUES, 64, 256, 1024)
"""Where one constant goes a step further."""
SIDE = 8
"""Of one constant while the others are 1: blocks that are a row or a column as long as a vector."""
MOST_CONSTANTS = 2
"""A layout with more constants is tried with its own values only."""
FEW, PART = 4_000, 50_000
"""So many entries are measured with all constants, and with those that are best there."""
ABOUT = 1.1
"""Memory that is about the same."""

Setting = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Family:
    """A layout by name; `names` are the constants that are tried with several values, `usual` are their own ones.
    `bands` are the bandwidths of the data, which may be values too."""

    handle: LayoutHandle
    names: tuple[str, ...] = ()
    usual: Setting | None = ()
    bands: Setting = ()

    def at(self, setting: Setting) -> LayoutHandle:
        """The layout with these constants. Raises SpecError for values that they cannot have."""
        return self.handle(**dict(zip(self.names, setting, strict=True))) if self.names else self.handle

    def text(self, setting: Setting) -> str:
        """`name(R=2, C=2)`"""
        constants = ", ".join(f"{n}={v}" for n, v in zip(self.names, setting, strict=True))
        return f"{self.handle.name}({constants})" if constants else self.handle.name

    @property
    def settings(self) -> list[Setting]:
        """The constants to begin with."""
        known = [self.usual] if self.usual is not None else []
        known += [(value,) * len(self.names) for value in VALUES]
        return list(dict.fromkeys([*known, *self.sides, *product(self.bands, repeat=len(self.names))]))

    @property
    def sides(self) -> list[Setting]:
        """One constant as long as a vector, the others 1."""
        return [s for s in product((1, SIDE), repeat=len(self.names)) if len(s) > 1 and s.count(SIDE) == 1]

    def near(self, setting: Setting) -> Iterator[Setting]:
        """One constant a step larger or smaller, then all of them."""
        for step in (1, -1):
            moved = [self._moved(value, step) for value in setting]
            for place, value in enumerate(moved):
                yield (*setting[:place], value, *setting[place + 1 :])
            yield tuple(moved)

    def _moved(self, value: int, step: int) -> int:
        values = sorted({*STEPS, value})
        return values[min(max(values.index(value) + step, 0), len(values) - 1)]


@dataclass(frozen=True)
class LayoutCandidate:
    """A layout to try. `share` is its memory on a part of the entries, over that of coordinates and values; `seconds`
    what it took to find that out, for all entries."""

    family: Family
    setting: Setting
    share: float
    seconds: float

    @property
    def handle(self) -> LayoutHandle:
        return self.family.at(self.setting)

    @property
    def text(self) -> str:
        return self.family.text(self.setting)


def families(tree: SpecTree, entries: Coordinates) -> list[Family]:
    """The layouts of the spec and those that come with spfgen, of tensors like this; those that promise most of their
    arrays first."""
    bands = _bandwidths(entries)
    families_by_layout: dict[Layout, Family] = {}
    for name in dict.fromkeys((*tree.layouts, *builtin_names())):
        family = _family(LayoutHandle(tree, parse_layout_use(name)), bands)
        if family is None:
            continue
        with suppress(SpfgenError):
            layout = family.at(family.settings[0]).layout(len(entries.shape))
            if layout.rank == len(entries.shape):
                families_by_layout.setdefault(layout, family)
    return [families_by_layout[layout] for layout in sorted(families_by_layout, key=lambda one: -len(one.facts))]


def _family(handle: LayoutHandle, bands: Setting) -> Family | None:
    declaration = handle.tree.find(handle.name)
    if isinstance(declaration, LayoutAlias):
        return Family(handle)
    constants = {name: value for name, value in declaration.constants if name != SOLVED}
    unset = None in constants.values()
    if len(constants) > MOST_CONSTANTS:
        return None if unset else Family(handle)
    return Family(
        handle, tuple(constants), None if unset else tuple(v for v in constants.values() if v is not None), bands
    )


def _bandwidths(entries: Coordinates) -> Setting:
    """Of a matrix, below and above the main diagonal."""
    if len(entries.shape) != 2 or not len(entries.values):
        return ()
    above = entries.coords[1] - entries.coords[0]
    return max(0, int(-above.min())), max(0, int(above.max()))


def candidates(
    known: Iterable[Family], entries: Coordinates, most: float
) -> tuple[list[LayoutCandidate], dict[str, str]]:
    """What to try, by memory, and why others were refused. `entries` are sorted, none twice; `most` is the share of
    memory that a layout may take at most, on a part of the entries.

    Of layouts with the same arrays, the one that promises most of them is enough.
    """
    few, part = beginning(entries, FEW), beginning(entries, PART)
    accepted_ones: list[LayoutCandidate] = []
    refused: dict[str, str] = {}
    accepted: set[Layout] = set()
    for family in known:
        if _form(family.at(family.settings[0]).layout(len(entries.shape))) in accepted:
            continue
        for setting in _best(family, few):
            layout = family.at(setting).layout(len(entries.shape))
            start = time.perf_counter()
            try:
                with our_bugs(f"measuring `{family.text(setting)}`", tuple):
                    share = share_of(layout, part)
            except SpfgenError as error:
                passed_over(family.text(setting), error)
                refused[family.text(setting)] = error.message
                continue
            spent = (time.perf_counter() - start) * len(entries.values) / max(1, len(part.values))
            accepted.add(_form(layout))
            if share > most:
                refused[family.text(setting)] = f"it takes {share / most:.3g} times the memory that is allowed"
            else:
                accepted_ones.append(LayoutCandidate(family, setting, share, spent))
    return sorted(accepted_ones, key=lambda c: c.share), refused


def _best(family: Family, few: Coordinates) -> list[Setting]:
    """The layout's own constants, those that take the least memory, the largest that take about as little, and blocks
    with one long side."""
    if len(family.settings) == 1:
        return family.settings
    shares: dict[Setting, float] = {}
    for setting in family.settings:
        with suppress(SpfgenError):
            shares[setting] = share_of(family.at(setting).layout(len(few.shape)), few)
    if not shares:
        return family.settings[:1]
    least = min(shares, key=lambda s: (shares[s], sum(s)))
    small = [s for s in shares if shares[s] <= ABOUT * shares[least] and set(s) <= {*VALUES, *least}]
    sides = [s for s in family.sides if s in shares]
    return list(dict.fromkeys([*family.settings[:1], least, max(small, key=lambda s: (prod(s), s)), *sides]))


def share_of(layout: Layout, entries: Coordinates) -> float:
    """The memory that the entries take in the layout, over that of coordinates and values. Raises DataError,
    Unsupported."""
    return measure(layout, entries.shape, entries.coords, entries.values).bytes / plain_bytes(entries)


def plain_bytes(entries: Coordinates) -> int:
    """The memory of coordinates and values side by side."""
    return max(1, len(entries.values)) * (entries.values.itemsize + NARROW * len(entries.shape))


def beginning(entries: Coordinates, count: int) -> Coordinates:
    """About so many of the entries: those of the corner with the smallest coordinates, as wide in each dimension as the
    whole is, so that blocks, runs and diagonals are what they are there."""
    if len(entries.values) <= count:
        return entries
    away = np.zeros(len(entries.values))
    for column, extent in zip(entries.coords, entries.shape, strict=True):
        np.maximum(away, (column + 1) / extent, out=away)
    reach = float(np.partition(away, count - 1)[count - 1])
    inside = away <= reach
    shape = tuple(min(n, max(1, ceil(reach * n))) for n in entries.shape)
    return Coordinates(shape, tuple(c[inside] for c in entries.coords), entries.values[inside])


def _form(layout: Layout) -> Layout:
    """The layout without what is promised of its arrays, and without its name."""
    bare = tuple(replace(a, ranges=(), properties=()) for a in layout.indexes)
    return replace(layout, name="", doc="", bindings=(), constants=(), indexes=bare)
