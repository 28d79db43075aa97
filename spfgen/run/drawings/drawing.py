"""`spfgen draw`: a layout with data of the user, or with an example."""

from __future__ import annotations

from collections.abc import Callable

from spfgen.errors import UsageError
from spfgen.lang.expressions import counted
from spfgen.layout.nodes import Layout
from spfgen.run.coordinates import Coordinates
from spfgen.run.drawings.diagram import MOST_CELLS, cells_of, diagram
from spfgen.run.drawings.example import example
from spfgen.run.drawings.inspect import entries_of
from spfgen.run.drawings.svg import svg
from spfgen.run.files.read import read
from spfgen.run.pack import pack_entries
from spfgen.run.store import read_tensor
from spfgen.run.tensor import Tensor, described, make_tensor

EXAMPLE_RANK = 2
"""Families are drawn as matrices when there are no data."""


def drawn(of_rank: Callable[[int, bool], Layout], data: str | None, shape: tuple[int, ...] | None) -> str:
    """The SVG of a layout, which `of_rank` gives when it is a family, with
    small constants where it is to; `data` is a file, or NAME=FILE.

    Raises UsageError when there are too many elements to see, DataError for data that the layout cannot hold,
    Unsupported when the layout cannot be packed.
    """
    if data is None:
        if shape is not None:
            raise UsageError("expected --shape with --data, but there are no data")
        tensor = example(of_rank(EXAMPLE_RANK, True))
    else:
        tensor = _given(of_rank, data.rpartition("=")[2], shape)
    if cells_of(tensor) > MOST_CELLS:
        raise UsageError(
            f"expected at most {MOST_CELLS} elements in all, which one can follow, but there are {cells_of(tensor)}",
            None,
            ("spfgen inspect FILE --draw x.png draws where the entries of a large matrix are",),
        )
    return svg(diagram(tensor, described(tensor)))


def of_example(of_rank: Callable[[int], Layout]) -> str:
    """The SVG of a layout with an example; of a family as a matrix. Raises as `drawn`."""
    return drawn(lambda *_: of_rank(EXAMPLE_RANK), None, None)


def _given(of_rank: Callable[[int, bool], Layout], path: str, shape: tuple[int, ...] | None) -> Tensor:
    """What the file holds: a tensor in this layout as it is, anything else packed into it."""
    tensor = read_tensor(path, of_rank(EXAMPLE_RANK, False), shape)
    if tensor is not None:
        return tensor
    entries = entries_of(read(path, shape=shape))
    layout = of_rank(max(1, len(entries.shape)), False)
    tensor = read_tensor(path, layout, shape)
    return packed(layout, entries) if tensor is None else tensor


def packed(layout: Layout, entries: Coordinates) -> Tensor:
    """The entries in the layout. Raises UsageError when the dimensions differ."""
    if layout.rank != len(entries.shape):
        message = f"expected data of {counted(layout.rank, 'dimension')} for layout `{layout.name}`"
        raise UsageError(f"{message}, but they have {len(entries.shape)}")
    arrays = pack_entries(layout, entries.shape, entries.coords, entries.values)
    return make_tensor(layout, arrays.arrays, entries.shape, arrays.sizes)
