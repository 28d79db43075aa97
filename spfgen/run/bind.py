"""From what the user holds to the tensors of a kernel.

Arrays are used in place where the layout says that they are its own (`binds` in the spec); anything else is read
as coordinates and packed, which copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spfgen.errors import DataError
from spfgen.lang.types import TYPES
from spfgen.layout.nodes import Binding, Layout
from spfgen.layout.pack import pack
from spfgen.run.read import Coordinates
from spfgen.run.tensor import Array, Tensor, as_array, make_tensor


def bind(
    layout: Layout, value: object, name: str, index_types: Mapping[str, str], *, output: bool = False
) -> Tensor:
    """The operand `name` as a tensor of `layout`. Raises DataError when it cannot be one.

    An output is never copied: its arrays must be the layout's own.
    """
    if isinstance(value, Tensor):
        if value.layout == layout:
            return value
        if output:
            raise DataError(
                f"expected `{name}` in layout `{layout.name}`, but it is in layout `{value.layout.name}`"
            )
        return _packed(layout, value.to_coo(), name, index_types)
    if not isinstance(value, Coordinates):
        direct = _in_place(layout, value, name, output)
        if direct is not None:
            return direct
    if output:
        raise DataError(
            f"expected `{name}` to hold the arrays of layout `{layout.name}`, but a {type(value).__name__} does not",
            None,
            ("an output is written in place: make it with spfgen.tensor(layout, ...)",),
        )
    return _packed(layout, coordinates(value, name), name, index_types)


def coordinates(value: object, name: str) -> Coordinates:
    """The entries of a scipy or numpy array; for a numpy array those that are not zero."""
    if isinstance(value, Coordinates):
        return value
    if is_scipy(value):
        from scipy import sparse

        coo = sparse.coo_array(value)
        coords = tuple(np.asarray(c).astype(np.int64) for c in coo.coords)
        return Coordinates(tuple(map(int, coo.shape)), coords, as_array(coo.data, name, False))
    array = as_array(value, name, False)
    found = np.nonzero(array) if array.ndim else ()
    return Coordinates(array.shape, tuple(c.astype(np.int64) for c in found), np.atleast_1d(array[found]))


def is_scipy(value: object) -> bool:
    """Whether it is one of scipy's sparse arrays or matrices (without importing scipy)."""
    return type(value).__module__.startswith("scipy.sparse") and hasattr(value, "format")


def _packed(layout: Layout, entries: Coordinates, name: str, index_types: Mapping[str, str]) -> Tensor:
    if len(entries.shape) != layout.rank:
        raise DataError(f"expected `{name}` with {layout.rank} dimensions, but it has {len(entries.shape)}")
    made = pack(layout, entries.shape, entries.coords, entries.values, dict(index_types))
    return Tensor(layout, made.sizes, made.arrays)


def _in_place(layout: Layout, value: object, name: str, output: bool) -> Tensor | None:
    """The tensor over the arrays of `value`, when a binding of the layout fits them; else None."""
    if layout.rank == 0 and np.ndim(value) == 0 and not is_scipy(value):  # type: ignore[arg-type]
        return make_tensor(layout, {layout.values[0].name: as_array(value, name, False).reshape(())})
    for binding in layout.bindings:
        shape = _fits(binding, layout, value)
        if shape is None:
            continue
        arrays = {own: _attribute(value, attribute, part) for own, attribute, part in binding.arrays}
        if output and not all(_usable(arrays[v.name]) for v in layout.values):
            raise DataError(
                f"expected `{name}` to be contiguous and writeable, because it is written in place",
                None,
                ("make it with numpy.zeros(shape)",),
            )
        if binding.library == "numpy":
            return make_tensor(layout, arrays, shape)
        try:
            return make_tensor(layout, arrays, shape)
        except DataError:
            return None  # its arrays break what the layout promises: unsorted, doubled, or of another block size
    if output and isinstance(value, np.ndarray) and value.ndim != layout.rank:
        raise DataError(f"expected `{name}` with {layout.rank} dimensions, but it has {value.ndim}")
    return None


def _fits(binding: Binding, layout: Layout, value: Any) -> tuple[int, ...] | None:
    """The shape of `value` when the binding speaks of its kind."""
    match binding.library:
        case "numpy":
            if is_scipy(value) or isinstance(value, Tensor):
                return None
            array = np.asarray(value)
            return array.shape if array.ndim == layout.rank and array.dtype.name in TYPES else None
        case "scipy":
            if not is_scipy(value) or value.format != binding.format or len(value.shape) != layout.rank:
                return None
            return tuple(map(int, value.shape))
    return None


def _attribute(value: Any, attribute: str, part: int | None) -> Array:
    if attribute == "self":
        return np.asarray(value)
    if attribute == "T":
        return np.asarray(value).T
    found = getattr(value, attribute)
    return np.asarray(found if part is None else found[part])


def _usable(array: Array) -> bool:
    return bool(array.flags.c_contiguous and array.flags.writeable and array.dtype.isnative)
