"""From whatever holds entries to a tensor in a layout: scipy, numpy, PyData/Sparse, coordinates and values, tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from spfgen.errors import DataError, SpecError, said
from spfgen.lang.expressions import counted
from spfgen.layout.duplicates import Duplicates, checked_duplicates
from spfgen.layout.fill import differs, fits, other_zeros, same_fill, typed_fill
from spfgen.layout.nodes import Layout
from spfgen.run.calls.bind import converted, coordinates, is_pydata, is_scipy, packed
from spfgen.run.calls.detect_layout import candidates
from spfgen.run.calls.layout_signature import refilled
from spfgen.run.calls.validation_cache import broken
from spfgen.run.conversion import pads
from spfgen.run.coordinates import Coordinates
from spfgen.run.dlpack import settled
from spfgen.run.handles import LayoutHandle, filled, handle_of
from spfgen.run.tensor import Array, Tensor, as_array, check_unchanged, plain_array, size_number
from spfgen.space.tensors import types_of

NAME = "tensor"
"""What messages call the object that is packed."""


def pack(
    obj: object,
    layout: LayoutHandle | Layout | str,
    shape: Sequence[int] | int | None = None,
    *,
    constants: Mapping[str, int] | None = None,
    duplicates: Duplicates = "sum",
    fill: object = None,
    signed_zeros: bool = True,
) -> Tensor:
    """See spfgen.pack."""
    handle = handle_of(layout, constants)
    return pack_object(handle if fill is None else filled(handle, fill), obj, shape, duplicates, signed_zeros)


def pack_object(
    handle: LayoutHandle,
    obj: object,
    shape: Sequence[int] | int | None,
    duplicates: Duplicates,
    signed_zeros: bool = True,
) -> Tensor:
    """See spfgen.pack."""
    checked_duplicates(duplicates)
    wanted = None if shape is None else _shape(shape)
    source: Coordinates | Tensor
    layout: Layout | None = None
    obj = settled(obj)
    if isinstance(obj, tuple):
        source = _pair(obj, wanted)
    elif isinstance(obj, Tensor):
        check_unchanged(obj)
        source = obj
    elif is_scipy(obj):
        in_place = _in_place(obj) if duplicates == "sum" else None
        source = coordinates(obj, NAME) if in_place is None else in_place
    elif isinstance(obj, Coordinates) or is_pydata(obj):
        source = coordinates(obj, NAME)
    else:
        array = as_array(obj, NAME)
        layout = _of_array(handle, array)
        source = coordinates(array, NAME, layout.fill)
    if wanted is not None and source.shape != wanted:
        raise DataError(f"expected the shape {wanted}, but it is {source.shape}")
    use = handle.use
    if layout is None:
        layout = handle.layout(len(source.shape))
        if isinstance(obj, Tensor | Coordinates) or is_pydata(obj):
            layout, source = _with_fill(handle, layout, source)
    value_type, index_types = types_of(use, layout)
    has_types = use.index_type is not None or bool(use.array_types)
    kinds = dict(index_types) if has_types else None
    if not signed_zeros:
        source = _without_other_zeros(own_entries(source) if isinstance(source, Tensor) else source, layout.fill)
    if isinstance(source, Tensor):
        if duplicates == "sum" and use.value_type in (None, source.dtype.name):
            return converted(layout, source, NAME, kinds, has_types)
        source = own_entries(source)
    if use.value_type is not None:
        source = _typed(source, value_type)
    wanted_type = None if use.value_type is None else value_type
    return packed(layout, source, NAME, kinds, has_types, duplicates, value_type=wanted_type)


def _of_array(handle: LayoutHandle, array: Array) -> Layout:
    """The layout with its rank. Raises DataError for a number where it has none for numbers."""
    try:
        return handle.layout(array.ndim)
    except SpecError:
        if array.ndim:
            raise
    raise DataError(f"expected an array with dimensions for layout `{handle.name}`, but this is a number")


def _with_fill(
    handle: LayoutHandle, layout: Layout, source: Coordinates | Tensor
) -> tuple[Layout, Coordinates | Tensor]:
    """The layout with the fill value of what is packed, if it says no other one; else what is packed with that."""
    if isinstance(source, Tensor):
        fill, dtype = source.layout.fill, source.dtype
    else:
        fill, dtype = source.fill, source.values.dtype
    typed = typed_fill(fill, dtype)
    if handle.tree.fill_of(handle.use) is None and layout.fill_text == "0":
        is_kept = handle.use.value_type in (None, dtype.name)
        return refilled(layout, fill if is_kept else typed), source
    if fits(layout.fill, dtype) and same_fill(layout.fill, fill, dtype):
        return layout, source
    dense = source.to_numpy() if isinstance(source, Tensor) else source.to_dense()
    return layout, coordinates(dense, NAME, layout.fill)


def _in_place(value: Any) -> Tensor | None:
    """scipy's arrays in a layout that they satisfy, as it is now, if it stores nothing but entries."""
    if not is_scipy(value):
        return None
    for candidate in candidates(f"scipy.{value.format}", len(value.shape)):
        if candidate.solved or pads(candidate.layout()):
            continue
        with suppress(DataError):
            tensor = candidate.tensor(value, tuple(map(int, value.shape)))
            if broken(tensor.layout, tensor.sizes, tensor.arrays, "always") is None:
                return tensor
    return None


def _without_other_zeros(entries: Coordinates, fill: Any) -> Coordinates:
    """Without zeros that differ from the fill value in their sign alone."""
    if not fits(fill, entries.values.dtype):
        return entries
    kept = ~other_zeros(entries.values, fill)
    return replace(entries, coords=tuple(c[kept] for c in entries.coords), values=entries.values[kept])


def own_entries(tensor: Tensor) -> Coordinates:
    """The entries; without those that are only there because the layout stores whole blocks or diagonals."""
    entries = tensor.to_coo()
    if not pads(tensor.layout):
        return entries
    kept = differs(entries.values, tensor.layout.fill)
    return Coordinates(entries.shape, tuple(c[kept] for c in entries.coords), entries.values[kept], entries.fill)


def summed(entries: Coordinates) -> Coordinates:
    """The entries with those at one coordinate added up."""
    if not entries.coords or not entries.values.size:
        return entries
    order = np.lexsort(entries.coords[::-1])
    columns = [c[order] for c in entries.coords]
    new = np.ones(order.size, bool)
    new[1:] = np.logical_or.reduce([c[1:] != c[:-1] for c in columns])
    first = np.flatnonzero(new)
    values = np.add.reduceat(entries.values[order], first)
    return replace(entries, coords=tuple(c[first] for c in columns), values=values)


def _shape(shape: Sequence[int] | int) -> tuple[int, ...]:
    extents = tuple(shape) if np.iterable(shape) else (shape,)
    return tuple(size_number(f"shape[{k}]", n) for k, n in enumerate(extents))


def _pair(value: tuple[Any, ...], shape: tuple[int, ...] | None) -> Coordinates:
    """(coordinates, values): the coordinates are one array for each dimension, or an integer array [rank, n]."""
    if len(value) != 2:
        message = f"expected a pair (coordinates, values), but there are {len(value)} parts"
        raise DataError(message, None, ("for a dense tensor pass an array or a list",))
    coords, values = value
    if not np.iterable(coords):
        raise DataError(f"expected coordinates, but this is {said(coords)}")
    columns = [coords] if isinstance(coords, np.ndarray) and coords.ndim == 1 else list(coords)
    if columns and all(np.ndim(c) == 0 for c in columns):
        columns = [columns]  # one dimension, its coordinates in a list
    checked_columns = tuple(_column(c, k) for k, c in enumerate(columns))
    numbers = as_array(np.atleast_1d(plain_array(values, "values")), "values")
    if any(c.shape != numbers.shape for c in checked_columns):
        lengths = ", ".join(str(c.shape) for c in checked_columns)
        raise DataError(
            f"expected a coordinate in each dimension for each value, but they are {lengths} for {numbers.shape}"
        )
    if shape is None:
        shape = tuple(int(c.max(initial=-1)) + 1 for c in checked_columns)
    if len(shape) != len(checked_columns):
        raise DataError(
            f"expected coordinates of {counted(len(shape), 'dimension')}, but there are {len(checked_columns)}"
        )
    return Coordinates(shape, checked_columns, numbers)


def _column(value: object, dimension: int) -> Array:
    name = f"coordinates[{dimension}]"
    array = plain_array(value, name)
    if array.size == 0 and array.dtype == np.float64:
        array = array.astype(np.int64)  # what numpy makes of an empty list
    if array.dtype.kind not in "iu":
        raise DataError(f"expected integers in {name}, but they are {array.dtype}")
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise DataError(f"expected {name} below 2^63, but there is {array.max()}")
    return array.astype(np.int64)


def _typed(entries: Coordinates, wanted: str) -> Coordinates:
    """The values in the type that a use such as `csr<float>` asks for."""
    values = entries.values
    if not np.can_cast(values.dtype, wanted, "same_kind"):
        raise DataError(f"expected values of {wanted}, but they are {values.dtype}")
    with np.errstate(over="ignore"):  # too large for a narrow float: infinity, as everywhere
        cast = values.astype(wanted)
    if cast.dtype.kind in "iu" and not np.array_equal(cast, values):
        at = int(np.argmax(cast != values))
        raise DataError(f"expected values that fit {wanted}, but there is {values[at]}")
    return Coordinates(entries.shape, entries.coords, cast, entries.fill)
