"""A tensor as boxes and arrows: its arrays, and from each place an arrow to the coordinates that it stands for.

All of it follows from the relation: enumerated, it says which elements of which arrays make an entry. Elements of one
colour belong to one value of the outermost position. A grey line goes from an element that bounds a position, as a row
pointer does, to the place where that position begins in the arrays that it counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from spfgen.facts.formula import Bin, Call, Compare, Expr, Var, calls, show, variables
from spfgen.ir import walk
from spfgen.layout.nodes import Layout
from spfgen.layout.points import Array, Points, enumerate_points, rows_of
from spfgen.run.tensor import Tensor

MOST_CELLS = 600
"""More cells than that nobody follows by eye."""
FEW_CELLS = 150
"""So many are shown unasked, in a notebook."""
WIDTH, HEIGHT = 34, 22
"""Of a cell, in pixels."""
GAP = 16
"""Between the panels of a grid of more than two dimensions."""
INDICES = 13
"""Above a panel, for the indices of its columns."""
BETWEEN = 20
"""Between two arrays."""
ROOM = 76
"""Between the arrays and the tensor, for the arrows."""
MARGIN = 14
LONG_NAME = 20
"""Longer names are shown without positions."""
SMALL = 6
"""The width of a letter of extents."""
LETTER = 8
"""The width of a letter of names."""
LONG_EXTENTS = 16
"""Longer ones are left out: the cells can be counted."""
UNUSED = -1
LANE = 4
"""From the sides of a cell to where arrows pass, beside its number."""
TIP = 6
"""From the top of a cell to where an arrow ends."""
NOTHING = "·"
"""In place of a value that belongs to no coordinate."""


@dataclass(frozen=True)
class Cell:
    """A box at (x, y). `colour` is the number of the outermost position, None where no entry uses the element.

    `stored` is False for what the tensor is where nothing is stored.
    """

    x: float
    y: float
    text: str
    colour: int | None
    stored: bool = True


@dataclass(frozen=True)
class Label:
    x: float
    y: float
    text: str
    kind: str
    """`name`, `extents`, `index` or `axis`."""
    anchor: str = "middle"


@dataclass(frozen=True)
class Arrow:
    """`colour` as that of a cell; None for the grey lines from bounds. Between the heights `leaves` and `arrives` it
    may bend; above and below it is straight, as it passes cells. `source` and `target` are the corners of the cells
    that it joins."""

    start: tuple[float, float]
    end: tuple[float, float]
    colour: int | None
    leaves: float
    arrives: float
    source: tuple[float, float]
    target: tuple[float, float]


@dataclass(frozen=True)
class Diagram:
    width: float
    height: float
    title: str
    cells: tuple[Cell, ...]
    labels: tuple[Label, ...]
    arrows: tuple[Arrow, ...]


@dataclass(frozen=True)
class _Grid:
    """Where the elements of an array are drawn: the last two dimensions as a panel, panels side by side."""

    x: float
    y: float
    shape: tuple[int, ...]

    @property
    def panel(self) -> tuple[int, int]:
        rows, columns = (1, 1, *self.shape)[-2:]
        return rows, columns

    @property
    def _step(self) -> float:
        gutter = INDICES if len(self.shape) > 1 else 0
        return max(1, self.panel[1]) * WIDTH + GAP + gutter

    @property
    def width(self) -> float:
        return max(0.0, prod(self.shape[:-2]) * self._step - GAP)

    @property
    def height(self) -> float:
        return max(1, self.panel[0]) * HEIGHT + INDICES + (INDICES if len(self.shape) > 2 else 0)

    def place(self, flat: int) -> tuple[float, float]:
        """The upper left corner of an element, counted row by row; the one past the end stands behind the last."""
        rows, columns = self.panel
        panel, within = divmod(flat, max(1, rows * columns))
        if flat and flat == prod(self.shape):
            panel, within = panel - 1, within + rows * columns
            x, y = self.place(flat - 1)
            return (x, y + HEIGHT) if len(self.shape) > 1 else (x + WIDTH, y)
        row, column = divmod(within, max(1, columns))
        gutter = INDICES if len(self.shape) > 1 else 0
        top = self.height - max(1, rows) * HEIGHT
        return self.x + panel * self._step + gutter + column * WIDTH, self.y + top + row * HEIGHT

    @property
    def top(self) -> float:
        """Of the cells."""
        return self.y + self.height - max(1, self.panel[0]) * HEIGHT

    @property
    def bottom(self) -> float:
        return self.y + self.height

    def indices(self) -> Iterator[Label]:
        """The numbers of rows, columns and panels."""
        rows, columns = self.panel
        leading = list(product(*(range(n) for n in self.shape[:-2])))
        for panel, outer in enumerate(leading):
            x, y = self.place(panel * rows * columns)
            for column in range(columns if self.shape else 0):
                yield Label(x + (column + 0.5) * WIDTH, y - 3, str(column), "index")
            for row in range(rows if len(self.shape) > 1 else 0):
                yield Label(x - 3, y + (row + 0.5) * HEIGHT + 3, str(row), "index", "end")
            if outer:
                text = f"[{', '.join(map(str, outer))}, :, :]"
                yield Label(x + columns * WIDTH / 2, y - 3 - INDICES, text, "index")


def cells_of(tensor: Tensor) -> int:
    """How many cells a diagram of it has."""
    return sum(a.size for a in tensor.arrays.values()) + prod(tensor.shape)


def diagram(tensor: Tensor, title: str = "") -> Diagram:
    """The picture of a small tensor. Raises DataError when its arrays are not of the declared extents."""
    layout = tensor.layout
    indexes = {a.name: tensor.arrays[a.name] for a in layout.indexes}
    points = enumerate_points(layout, tensor.sizes, indexes)
    colours = _colours(layout, points)
    used = _used(layout, tensor, points, colours)
    names = _with_positions(layout)
    gutter = MARGIN + max(LETTER * len(n) for n in names.values()) + 10
    gutter = max(gutter, MARGIN + 10 + max(SMALL * len(_extents(layout, n)) for n in layout.arrays))
    grids, y = {}, float(MARGIN)
    for name in layout.arrays:
        grids[name] = _Grid(gutter, y, tensor.arrays[name].shape)
        y += grids[name].height + BETWEEN
    widest = max(g.width for g in grids.values())
    target = _Grid(0, y - BETWEEN + ROOM, tensor.shape)
    target = _Grid(gutter + max(0.0, (widest - target.width) / 2), target.y, tensor.shape)
    cells: list[Cell] = []
    labels: list[Label] = []
    for name in layout.arrays:
        is_value = any(v.name == name for v in layout.values)
        cells += _array_cells(grids[name], tensor.arrays[name], used[name], is_value)
        labels += [*grids[name].indices(), *_named(layout, name, names[name], grids[name], gutter)]
    cells += _tensor_cells(tensor, target, points, colours)
    axes = list(_axes(layout, target))
    labels += [*target.indices(), *axes]
    arrows = [*_bounds(layout, tensor, grids), *_entries(layout, tensor, points, colours, grids, target)]
    beside = [label.x + LETTER * len(label.text) for label in axes if label.anchor == "start"]
    right = max(gutter + widest, target.x + target.width, *beside) + MARGIN
    bottom = target.y + target.height + MARGIN + INDICES
    return Diagram(right, bottom, title, tuple(cells), tuple(labels), tuple(arrows))


def _with_positions(layout: Layout) -> dict[str, str]:
    """The names of arrays with the positions at which they are read: `colidx(pj)`, `val[pj]`."""
    texts = {v.name: f"{v.name}[{', '.join(map(show, v.position))}]" for v in layout.values}
    for call in reversed(_calls(layout)):
        texts[call.function] = f"{call.function}({', '.join(map(show, call.arguments))})"
    return {n: text if len(text := texts.get(n, n)) <= LONG_NAME else n for n in layout.arrays}


def _named(layout: Layout, name: str, text: str, grid: _Grid, gutter: float) -> Iterator[Label]:
    """The name of an array beside its first row, and below it its extents."""
    x, y = gutter - 10, grid.place(0)[1] + HEIGHT / 2
    extents = _extents(layout, name)
    yield Label(x, y + (0 if extents else 4), text, "name", "end")
    if extents:
        yield Label(x, y + 12, extents, "extents", "end")


def _extents(layout: Layout, name: str) -> str:
    """The declared extents, where they are short."""
    text = "".join(f"[{show(e)}]" for e in layout.extents(name))
    return text if len(text) <= LONG_EXTENTS else ""


def _axes(layout: Layout, target: _Grid) -> Iterator[Label]:
    """The names of the coordinates beside the tensor."""
    x, y = target.place(0)
    if layout.rank:
        yield Label(target.x + target.width + 6, y - 3, f"{layout.written[layout.coordinates[-1]]} →", "axis", "start")
    if layout.rank > 1:
        rows, _ = target.panel
        yield Label(
            x - INDICES - 8, y + rows * HEIGHT / 2 + 4, f"{layout.written[layout.coordinates[-2]]} ↓", "axis", "end"
        )


def _colours(layout: Layout, points: Points) -> Array:
    """The colour of each point: the rank of its outermost position among those that have entries."""
    if not layout.positions:
        return np.zeros(points.count, np.int64)
    _, ranks = np.unique(points.columns[layout.positions[0]], return_inverse=True)
    return np.asarray(ranks, np.int64)


def _used(layout: Layout, tensor: Tensor, points: Points, colours: Array) -> dict[str, Array]:
    """For each element of each array, read row by row, the colour of the first point that uses it; UNUSED for none."""
    colour_of = {n: np.full(a.size, UNUSED, np.int64) for n, a in tensor.arrays.items()}
    columns: Mapping[str, Any] = {**tensor.sizes, **points.columns}
    for call in _calls(layout):
        if any(variables(a) - set(columns) for a in call.arguments):
            continue
        at, good = [], np.ones(points.count, bool)
        for argument in call.arguments:
            value, valid = rows_of(argument, columns, tensor.arrays, points.count)
            at.append(np.broadcast_to(np.asarray(value), (points.count,)))
            good &= valid
        shape = tensor.arrays[call.function].shape
        for a, n in zip(at, shape, strict=True):
            good &= (a >= 0) & (a < n)
        places = np.ravel_multi_index(tuple(a[good] for a in at), shape) if good.any() else np.zeros(0, np.int64)
        _first(colour_of[call.function], places, colours[good])
    for value_array in layout.values:
        place = points.places[value_array.name]
        _first(colour_of[value_array.name], place[place >= 0], colours[place >= 0])
    return colour_of


def _first(target: Array, places: Array, colours: Array) -> None:
    """Give places that have no colour that of the first point that uses them."""
    for place, colour in zip(places.tolist(), colours.tolist(), strict=True):
        if target[place] == UNUSED:
            target[place] = colour


def _calls(layout: Layout) -> list[Call]:
    """All reads of index arrays that tell where an entry is; those whose own place says less come last."""
    reads = [*calls(layout.relation), *(c for v in layout.values for p in v.position for c in calls(p))]
    # rowptr(pi) tells more of row pi than rowptr(pi + 1) does
    return sorted(dict.fromkeys(reads), key=lambda c: sum(not isinstance(a, Var) for a in c.arguments))


def _array_cells(grid: _Grid, array: Array, used: Array, is_value: bool) -> Iterator[Cell]:
    """A value that stands for nothing is not shown: it is no part of the tensor, and often a zero."""
    for flat, (value, colour) in enumerate(zip(array.reshape(-1).tolist(), used.tolist(), strict=True)):
        seen = colour != UNUSED
        yield Cell(*grid.place(flat), number(value) if seen or not is_value else NOTHING, colour if seen else None)


def _tensor_cells(tensor: Tensor, target: _Grid, points: Points, colours: Array) -> Iterator[Cell]:
    flat = _flat(tensor, points)
    at: dict[int, int] = dict(zip(flat.tolist(), colours.tolist(), strict=True))
    dense = tensor.to_numpy().reshape(-1)
    for place, value in enumerate(dense.tolist()):
        stored = place in at
        yield Cell(*target.place(place), number(value) if stored else "", at.get(place), stored)


def _flat(tensor: Tensor, points: Points) -> Array:
    """The coordinates of each point as one number."""
    if not tensor.shape or not points.count:
        return np.zeros(points.count, np.int64)
    columns = tuple(points.columns[c] for c in tensor.layout.coordinates)
    return np.asarray(np.ravel_multi_index(columns, tensor.shape), np.int64)


def _entries(
    layout: Layout, tensor: Tensor, points: Points, colours: Array, grids: Mapping[str, _Grid], target: _Grid
) -> Iterator[Arrow]:
    """From the place of each value to each of its coordinates."""
    flat = _flat(tensor, points)
    for value in layout.values:
        places = points.places[value.name]
        for place, end, colour in zip(places.tolist(), flat.tolist(), colours.tolist(), strict=True):
            if place >= 0:
                source = grids[value.name]
                (x, y), (u, v) = source.place(place), target.place(end)
                last = y + HEIGHT == source.bottom
                start = (x + (WIDTH / 2 if last else WIDTH - LANE), y + HEIGHT)
                yield Arrow(start, (u + LANE, v + TIP), colour, source.bottom, target.top, (x, y), (u, v))


def _bounds(layout: Layout, tensor: Tensor, grids: Mapping[str, _Grid]) -> Iterator[Arrow]:
    """From each element of an array that bounds a position to the beginning of its part of the next array."""
    nearest: dict[str, str] = {}
    for function, name in _counted(layout):
        if grids[function].y < grids[name].y <= grids[nearest.get(function, name)].y:
            nearest[function] = name
    for function, name in nearest.items():
        source = tensor.arrays[function]
        shape = tensor.arrays[name].shape
        step = prod(shape[1:])
        for flat, value in enumerate(source.reshape(-1).tolist()):
            if 0 <= value <= shape[0]:
                begin, end = grids[function], grids[name]
                (x, y), (u, v) = begin.place(flat), end.place(value * step)
                last = y + HEIGHT == begin.bottom
                start = (x + (WIDTH / 2 if last else WIDTH), y + HEIGHT)
                yield Arrow(start, (u, v), None, begin.bottom, min(v, end.top), (x, y), (u, v))


def _counted(layout: Layout) -> Iterator[tuple[str, str]]:
    """(an array whose elements bound a position or begin a sum, an array that has this as its first subscript)."""
    bounding: dict[str, set[str]] = {}
    for part in walk(layout.relation):
        if isinstance(part, Compare) and isinstance(part.left, Call) and isinstance(part.right, Var):
            bounding.setdefault(part.right.name, set()).add(part.left.function)
    firsts = [(c.function, c.arguments[0]) for c in calls(layout.relation) if c.arguments]
    firsts += [(v.name, v.position[0]) for v in layout.values if v.position]
    for name, first in firsts:
        begins = sorted(bounding.get(first.name, ())) if isinstance(first, Var) else sorted(_added(first))
        yield from ((function, name) for function in begins if function != name)


def _added(expr: Expr) -> set[str]:
    """The arrays whose elements are added in an expression."""
    match expr:
        case Call(function):
            return {function}
        case Bin("+", left, right):
            return _added(left) | _added(right)
        case Bin("-", left, _):
            return _added(left)
    return set()


def number(value: Any) -> str:
    """A short text of an element."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return f"{value:.3g}"
    return f"{value:.2g}" if isinstance(value, complex) else str(value)
