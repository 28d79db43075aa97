"""Stored entries of a tensor, whatever they come from: coordinates and values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spfgen.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# No comparison by ==: what the equality of floating-point entries means is for the caller to say.
@dataclass(frozen=True, eq=False)
class Coordinates:
    """Stored entries of a tensor: entry p is `values[p]` at `(coords[0][p], coords[1][p], ...)`, from 0.

    `coords` has one int64 array of shape (count,) per dimension, `values` is of shape (count,) and of any
    numeric dtype. The order is that of the source. A coordinate may occur several times: its entries are
    summed. `fill` is the value elsewhere. Raises DataError when the parts do not fit each other or a coordinate is
    outside `shape`.
    """

    shape: tuple[int, ...]
    coords: tuple[NDArray[np.int64], ...]
    values: NDArray[Any]
    fill: Any = 0

    def __post_init__(self) -> None:
        if len(self.coords) != len(self.shape):
            raise DataError(f"expected coordinates of {len(self.shape)} dimensions, but there are {len(self.coords)}")
        if self.values.ndim != 1:
            raise DataError(f"expected values in one dimension, but their shape is {self.values.shape}")
        for dimension, (extent, coord) in enumerate(zip(self.shape, self.coords, strict=True)):
            if coord.dtype != "int64" or coord.shape != self.values.shape:
                raise DataError(
                    f"expected int64 coordinates of shape {self.values.shape} for dimension {dimension}, "
                    f"but they are {coord.dtype} of shape {coord.shape}"
                )
            if coord.size and not (coord.min() >= 0 and coord.max() < extent):
                raise DataError(
                    f"expected coordinates from 0 to {extent - 1} in dimension {dimension}, "
                    f"but they go from {coord.min()} to {coord.max()}"
                )

    def __sizeof__(self) -> int:
        return super().__sizeof__() + sum([a.nbytes for a in (*self.coords, self.values)])

    def to_dense(self) -> NDArray[Any]:
        """The array of shape `shape`, dtype of `values`; entries of one place are added (`or` for bool).

        Raises DataError when it does not fit in memory.
        """
        from spfgen.layout.fill import summed

        try:
            return summed(self.shape, self.coords, self.values, self.fill)
        except DataError:
            raise
        except (MemoryError, ValueError) as error:
            raise DataError(f"expected a tensor that fits in memory, but it is {extents_text(self.shape)}") from error


def extents_text(shape: tuple[int | None, ...]) -> str:
    """`3 x 4`, with `?` for what is not known."""
    return " x ".join("?" if extent is None else str(extent) for extent in shape) if shape else "()"
