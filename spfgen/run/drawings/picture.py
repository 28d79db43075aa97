"""What a notebook shows of a tensor: a sentence, a picture, and how the layout stores a small example.

A small tensor is shown with its arrays and arrows (diagram.py); of larger vectors and matrices, where entries lie.
"""

from __future__ import annotations

from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from spfgen.errors import SpfgenError
from spfgen.folder import human_bytes
from spfgen.layout.nodes import Layout
from spfgen.run.calls.layout_signature import canonical
from spfgen.run.coordinates import Coordinates

if TYPE_CHECKING:
    from spfgen.run.tensor import Tensor

CELLS = 48
"""At most so many cells along a side."""
PIXELS = 144
FEW = 3
"""So many entries from the beginning and from the end are written out."""
SHOWN = 1_000_000
"""Tensors of more stored elements are not enumerated for that."""
DRAWN = 5_000_000
"""Tensors of more stored elements are not enumerated for a picture."""


def html(tensor: Tensor) -> str:
    """One element of HTML, without scripts or references: layout, shape, entries, type, memory; a picture; and, where
    that does not show the arrays, how the layout stores a small example."""
    from spfgen.run.drawings import diagram
    from spfgen.run.tensor import described

    text = f"<code>{escape(described(tensor))}, {human_bytes(tensor.nbytes)}</code>"
    picture = svg(tensor)
    example = "" if diagram.cells_of(tensor) <= diagram.FEW_CELLS else _folded(tensor.layout)
    return f"<div>{text}{'<br/>' + picture if picture else ''}{example}</div>"


def _folded(layout: Layout) -> str:
    picture = example_of(canonical(layout))
    name = escape(layout.name)
    return picture and f"<details><summary>how {name} stores a small example</summary>{picture}</details>"


@lru_cache(maxsize=64)
def example_of(layout: Layout) -> str:
    """An <svg> element with a small example of the layout; "" where none is found."""
    from spfgen.run.drawings import diagram, svg
    from spfgen.run.drawings.example import example

    try:
        return svg.svg(diagram.diagram(example(layout)))
    except SpfgenError:
        return ""


def glimpse(tensor: Tensor) -> str:
    """Lines with the first and the last entries, where these are quickly found."""
    if not tensor.nse or not tensor.shape or tensor.nse > SHOWN:
        return ""
    try:
        entries = tensor.to_coo()
    except SpfgenError:  # the arrays are not what the layout says: whoever uses them is told
        return ""
    count = len(entries.values)
    shown: list[int | None] = [*range(count)]
    if count > 2 * FEW:
        shown[FEW:-FEW] = [None]
    lines = []
    for k in shown:
        at = "..." if k is None else f"({', '.join(str(c[k]) for c in entries.coords)})"
        lines.append(at if k is None else f"{at}  {entries.values[k]}")
    return "".join(f"\n  {line}" for line in lines)


def svg(tensor: Tensor) -> str | None:
    """An <svg> element; None for tensors that are neither small nor of one or two dimensions."""
    from spfgen.run.drawings import diagram, svg

    if diagram.cells_of(tensor) <= diagram.FEW_CELLS:
        return svg.svg(diagram.diagram(tensor))
    return spy(tensor.to_coo()) if len(tensor.shape) in (1, 2) and tensor.nse <= DRAWN else None


def spy(entries: Coordinates) -> str:
    """A spy plot of a vector (as a row) or a matrix, first row on top; the darker a cell, the more entries in it."""
    shape = entries.shape if len(entries.shape) == 2 else (1, *entries.shape)
    coords = entries.coords if len(entries.coords) == 2 else (np.zeros_like(entries.coords[0]), *entries.coords)
    cell = -(-max(*shape, 1) // CELLS)
    rows, columns = (max(1, -(-n // cell)) for n in shape)
    places, counts = np.unique((coords[0] // cell) * columns + coords[1] // cell, return_counts=True)
    most = counts.max(initial=1)
    scale = PIXELS // max(rows, columns)
    cells = "".join(
        f'<rect x="{p % columns}" y="{p // columns}" width="1" height="1" fill-opacity="{0.3 + 0.7 * n / most:.2f}"/>'
        for p, n in zip(places.tolist(), counts.tolist(), strict=True)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{columns * scale}" height="{rows * scale}" '
        f'viewBox="0 0 {columns} {rows}" style="border: 1px solid gray; background: white">{cells}</svg>'
    )
