"""A picture of where the entries of a matrix or tensor are. Needs matplotlib, which spfgen does not install."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from spfgen.errors import UsageError
from spfgen.layout.points import Array
from spfgen.run.coordinates import Coordinates
from spfgen.run.files.write import replace_file

PICTURES = (".png", ".pdf", ".svg")
PIXELS = 800
"""A dimension is drawn in at most so many cells; a cell is the darker the more entries it holds."""
INCHES = 6.0


def check_picture(path: str, force: bool) -> None:
    """Raises UsageError when the picture cannot be drawn or would overwrite a file."""
    target = Path(path)
    if target.suffix.lower() not in PICTURES:
        raise UsageError(f"expected a picture ending in {', '.join(PICTURES)}, but it is {path}")
    if target.exists() and not target.is_file():
        raise UsageError(f"expected a file to write, but {path} is something else")
    if target.exists() and not force:
        raise UsageError(f"expected a new file, but {path} exists", None, ("overwrite it with --force",))
    if not target.absolute().parent.is_dir():
        raise UsageError(f"expected a folder to write {path} to, but {target.absolute().parent} is not one")
    _matplotlib()


def draw_entries(path: str, single: Coordinates, title: str, force: bool) -> None:
    """Write the picture: one panel for a vector or matrix, one for each two neighbouring dimensions of a tensor.

    Raises UsageError as `check_picture`.
    """
    check_picture(path, force)
    figure_class, norm = _matplotlib()
    panels = _panels(single)
    figure = figure_class(figsize=(INCHES * len(panels), INCHES), layout="constrained")
    figure.suptitle(title.replace("$", r"\$"))
    for axes, (cells, extents, names) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        most = max(2, int(cells.max(initial=0)))
        high, wide = (size * _step(extent) - 0.5 for size, extent in zip(cells.shape, extents, strict=True))
        box = (-0.5, wide, high, -0.5)
        masked: Any = np.ma
        seen = masked.masked_equal(cells, 0)
        # The lightest cell that holds an entry must still be seen on white.
        axes.imshow(seen, cmap="Blues", norm=norm(0.1, most), extent=box, interpolation="none", aspect=_aspect(extents))
        axes.set_xlim(-0.5, max(1, extents[1]) - 0.5)  # the last cells may reach beyond
        axes.set_ylim(max(1, extents[0]) - 0.5, -0.5)
        axes.set_ylabel(f"{names[0]} ({extents[0]})")
        axes.set_xlabel(f"{names[1]} ({extents[1]})")
    content = io.BytesIO()
    figure.savefig(content, format=Path(path).suffix[1:].lower(), dpi=150)
    replace_file(Path(path).resolve(), content.getvalue())


def _aspect(extents: tuple[int, int]) -> str | float:
    """Squares for entries, unless the picture would be too thin to see."""
    high, wide = max(1, extents[0]), max(1, extents[1])
    return "equal" if max(high, wide) <= 8 * min(high, wide) else "auto"


def _panels(single: Coordinates) -> list[tuple[Array, tuple[int, int], tuple[str, str]]]:
    """(cells, extents, names of the dimensions) of each panel."""
    shape, coords = list(single.shape), list(single.coords)
    names = ["rows", "columns"] if len(shape) == 2 else [f"dimension {k + 1}" for k in range(len(shape))]
    while len(shape) < 2:
        shape, names = [1, *shape], ["", *names]
        coords = [np.zeros(len(single.values), np.int64), *coords]
    panels = []
    for a, b in pairwise(range(len(shape))):
        extents = (shape[a], shape[b])
        panels.append((_cells((coords[a], coords[b]), extents), extents, (names[a], names[b])))
    return panels


def _cells(coords: tuple[Array, Array], shape: tuple[int, int]) -> Array:
    """How many entries fall into each cell; float64[at most PIXELS, at most PIXELS]."""
    steps = [_step(n) for n in shape]
    size = [max(1, -(-n // step)) for n, step in zip(shape, steps, strict=True)]
    cells = [c // step for c, step in zip(coords, steps, strict=True)]
    counts = np.bincount(cells[0] * size[1] + cells[1], minlength=size[0] * size[1])
    return counts.reshape(size).astype(float)


def _step(extent: int) -> int:
    """How many indices are drawn in one cell."""
    return max(1, -(-extent // PIXELS))


def _matplotlib() -> tuple[Any, Any]:
    """(a figure, a logarithmic scale). Raises UsageError when matplotlib is missing."""
    try:
        from matplotlib.colors import LogNorm
        from matplotlib.figure import Figure
    except ImportError as error:
        hint = "install it: pip install 'spfgen[draw]', or pip install matplotlib"
        raise UsageError(f"expected matplotlib to draw with, but {error}", None, (hint,)) from None
    return Figure, LogNorm
