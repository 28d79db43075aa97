"""From what the user holds to the tensors of a kernel.

Arrays are used in place where the layout says that they are its own (`binds` in the spec); anything else is read
as coordinates and packed, which copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np

from spfgen.errors import DataError, warn_of_copy
from spfgen.lang.expressions import counted
from spfgen.lang.fills import fill_text
from spfgen.lang.types import INDEX_TYPES, TYPES
from spfgen.layout.duplicates import Duplicates
from spfgen.layout.fill import differs, fits, same_fill
from spfgen.layout.nodes import Binding, Layout
from spfgen.layout.pack_entries import sorted_entries
from spfgen.run.calls.layout_signature import refilled
from spfgen.run.calls.validation_cache import broken, trust
from spfgen.run.coordinates import Coordinates
from spfgen.run.dlpack import settled
from spfgen.run.tensor import (
    DTYPES,
    Array,
    Tensor,
    as_array,
    check_unchanged,
    make_tensor,
    named,
    plain_array,
)

NARROW = 2**31 - 1
"""The largest index that the default type of index arrays holds."""


def bind(
    layout: Layout,
    value: object,
    name: str,
    index_types: Mapping[str, str],
    *,
    output: bool = False,
    value_type: str | None = None,
    validate: str = "once",
) -> Tensor:
    """The operand `name` as a tensor of `layout`. Raises DataError when it cannot be one.

    `value_type` is what the kernel declares: numbers and lists of Python become that, and index arrays get the
    `index_types` by a copy where they are not the user's own by name. Without it types are taken as they come.
    An output is never copied: its arrays must be the layout's own. `validate` says when index arrays are checked.
    """
    try:
        value = settled(value)
        if isinstance(value, Tensor):
            return _tensor(layout, value, name, index_types, output, value_type is not None, validate)
        if value_type is not None and _is_plain(value) and not (output and layout.rank):
            value = typed(value, name, value_type)
        direct = None
        if not isinstance(value, Coordinates):
            wanted = index_types if value_type is not None else {}
            direct = _in_place(layout, value, name, wanted, output, validate)
            if isinstance(direct, Tensor):
                return direct
        if output:
            raise _no_output(layout, value, name)
        entries = coordinates(value, name, layout.fill)
        check_same_fill(layout, entries.fill, entries.values.dtype, name)
        copy = packed(layout, entries, name, index_types, value_type is not None, value_type=value_type)
        if isinstance(direct, DataError):
            warn_copied(value, name, direct)
        return copy
    except DataError as error:
        raise named(error, name) from error


def _tensor(
    layout: Layout,
    value: Tensor,
    name: str,
    index_types: Mapping[str, str],
    output: bool,
    is_typed: bool,
    validate: str,
) -> Tensor:
    """A tensor as it is, or packed anew when it is in another layout."""
    if value.layout.fill_text != layout.fill_text:
        check_same_fill(layout, value.layout.fill, value.dtype, name)
        value = Tensor(refilled(value.layout, layout.fill), value.sizes, value.arrays)
    if value.layout is layout or value.layout == layout:
        check_unchanged(value, validate)
        if output:
            _check_usable({v.name: value.arrays[v.name] for v in layout.values}, name)
        return value
    if output:
        raise DataError(
            f"expected `{name}` in layout `{layout.title}`, but it is in layout `{value.layout.title}`",
            None,
            ("an output is written in place: it is not converted",),
        )
    return converted(layout, value, name, index_types, is_typed)


def check_same_fill(layout: Layout, fill: Any, dtype: Any, name: str) -> None:
    """A tensor of that type, with that fill value, has the layout's. Raises DataError."""
    if layout.fill_text != fill_text(fill) and not same_fill(layout.fill, fill, dtype):
        raise DataError(
            f"expected `{name}` with the fill value {layout.fill_text}, but it is {fill_text(fill)}",
            None,
            (
                f"declare it: `tensor {name} : {layout.name} fill {fill_text(fill)}`",
                f"or `{name}.convert(..., fill={layout.fill_text})` stores what holds {fill_text(fill)}",
            ),
        )


def _no_output(layout: Layout, value: object, name: str) -> DataError:
    dtype = getattr(value, "dtype", None)
    kind = type(value).__name__ if dtype is None else f"{type(value).__name__} of {dtype}"
    return DataError(
        f"expected `{name}` to hold the arrays of layout `{layout.title}`, but this {kind} does not",
        None,
        ("an output is written in place: make it with spfgen.tensor(layout, ...)",),
    )


def is_number(value: object) -> bool:
    """Whether it is a number of Python, which takes the type of the arrays beside it."""
    return type(value) in (bool, int, float, complex)


def _is_plain(value: object) -> bool:
    """A number or list of Python, which has no element type of its own."""
    return isinstance(value, bool | int | float | complex | list | tuple) and not isinstance(value, np.generic)


def typed(value: object, name: str, kind: str) -> Array:
    """Python's numbers in an element type. Raises DataError when they do not fit it."""
    array = plain_array(value, name)
    if array.size and not np.can_cast(array.dtype, kind, "same_kind"):
        raise DataError(f"expected `{name}` to hold {kind}, but this is {array.dtype.name}")
    try:
        return np.array(value, dtype=kind)
    except OverflowError:
        raise DataError(f"expected `{name}` to hold {kind}, but {value!r} does not fit") from None


def coordinates(value: object, name: str, fill: Any = 0) -> Coordinates:
    """The entries of a scipy, PyData/Sparse or numpy array; for a numpy array those that are not `fill`.

    What scipy does not store is nothing at all: it becomes `fill`. PyData/Sparse has a fill value of its own.
    """
    value = settled(value)
    if isinstance(value, Coordinates):
        return value
    if is_scipy(value):
        coo = _coo(value, name)
        return _entries(coo.shape, coo.coords, coo.data, name, fill)
    if is_pydata(value):
        return _of_pydata(value, name)
    array = as_array(value, name)
    seen = np.asarray(differs(array, fill) if fits(fill, array.dtype) else np.ones_like(array, bool))
    places = seen.nonzero() if array.ndim else ()
    return _entries(array.shape, places, np.atleast_1d(array[places]), name, fill)


def _entries(shape: Sequence[int], coords: Iterable[Any], values: object, name: str, fill: Any) -> Coordinates:
    columns = tuple(np.asarray(c).astype(np.int64) for c in coords)
    return Coordinates(tuple(map(int, shape)), columns, as_array(values, name), fill)


def _of_pydata(value: Any, name: str) -> Coordinates:
    """Of a COO array, or of one that can be turned into one (GCXS: tocoo, DOK: to_coo)."""
    turned = [getattr(value, n)() for n in ("tocoo", "to_coo") if hasattr(value, n) and not hasattr(value, "coords")]
    coo = turned[0] if turned else value
    if not hasattr(coo, "coords"):
        raise DataError(f"expected `{name}` with coordinates, but this {type(value).__name__} does not give them")
    return _entries(coo.shape, coo.coords, coo.data, name, value.fill_value)


def _coo(value: Any, name: str) -> Any:
    """A copy in scipy's coordinate format. Its own checks come first: scipy reads outside of wrong arrays."""
    from scipy import sparse

    try:
        if hasattr(value, "check_format"):
            value = copy(value)  # the check exchanges arrays of the object that it looks at
            value.check_format(full_check=True)
        return sparse.coo_array(value)
    except (ValueError, IndexError, TypeError) as error:
        kind = f"{type(value).__module__.partition('.')[0]} {value.format}"
        raise DataError(f"expected `{name}` to be a valid {kind} matrix, but {error}") from None


def is_pydata(value: object) -> bool:
    """Whether it is an array of PyData/Sparse (without importing it)."""
    return type(value).__module__.partition(".")[0] == "sparse" and hasattr(value, "fill_value")


def is_scipy(value: object) -> bool:
    """Whether it is one of scipy's sparse arrays or matrices, or of a class made of these (without importing
    scipy)."""
    return hasattr(value, "format") and any(c.__module__.startswith("scipy.sparse") for c in type(value).__mro__)


def packed(
    layout: Layout,
    entries: Coordinates,
    name: str = "tensor",
    index_types: Mapping[str, str] | None = None,
    is_typed: bool = False,
    duplicates: Duplicates = "sum",
    threads: int = 0,
    value_type: str | None = None,
) -> Tensor:
    """A copy in the layout; index arrays are wide where that is left open and the extents need it. Values are as they
    are, or 1s of `value_type` (bool) in a layout that has none."""
    from spfgen.run.pack import pack_entries

    if len(entries.shape) != layout.rank:
        raise _wrong_rank(layout, name, len(entries.shape))
    if layout.is_pattern:
        entries, duplicates = pattern_of(layout, entries, duplicates, value_type), "error"
    kinds = _wide_enough(layout, entries.shape, entries.values.size, index_types or {}, is_typed)
    arrays = pack_entries(layout, entries.shape, entries.coords, entries.values, kinds, duplicates, threads=threads)
    ones = {v.name: np.ones(1, entries.values.dtype) for v in layout.values if v.implied}
    return trusted(layout, arrays.sizes, {**arrays.arrays, **ones})


def pattern_of(layout: Layout, entries: Coordinates, duplicates: Duplicates, value_type: str | None) -> Coordinates:
    """What is not the fill value, each coordinate once, as 1s. Raises DataError when 1 is the fill value."""
    if layout.fill_text == "1":
        message = f"expected another fill value than 1, which is what layout `{layout.name}` stores without values"
        raise DataError(message, None, ("use a layout that has values",))
    columns, values = sorted_entries(layout, entries.shape, entries.coords, entries.values, duplicates)
    kept = values.astype(bool) if layout.fill_text == "0" else differs(values, layout.fill)
    kind = value_type or ("bool" if layout.fill_text == "0" else values.dtype.name)
    coords = tuple(c[kept] for c in columns.values())
    return Coordinates(entries.shape, coords, np.ones(int(kept.sum()), kind), entries.fill)


def trusted(layout: Layout, sizes: Mapping[str, int], arrays: Mapping[str, Array]) -> Tensor:
    """A tensor over new arrays that satisfy the layout; index arrays are read-only, so that they go on to."""
    for index in layout.indexes:
        arrays[index.name].flags.writeable = False
    trust(layout, sizes, arrays)
    return Tensor(layout, sizes, arrays)


def converted(
    layout: Layout,
    value: Tensor,
    name: str = "tensor",
    index_types: Mapping[str, str] | None = None,
    is_typed: bool = False,
) -> Tensor:
    """The entries of a tensor in another layout."""
    if layout.is_pattern or value.layout.is_pattern:
        return packed(layout, value.to_coo(), name, index_types, is_typed)
    from spfgen.run.pack import convert_arrays

    if value.layout.rank != layout.rank:
        raise _wrong_rank(layout, name, value.layout.rank)
    kinds = _wide_enough(layout, value.shape, value.nse, index_types or {}, is_typed)
    arrays = convert_arrays(value.layout, value.sizes, value.arrays, layout, kinds)
    return trusted(layout, arrays.sizes, arrays.arrays)


def _wide_enough(
    layout: Layout, shape: tuple[int, ...], count: int, index_types: Mapping[str, str], is_typed: bool
) -> dict[str, str]:
    """The types of the index arrays: wide ones where the kernel leaves that open and the extents need it."""
    if not is_typed and max((count, *shape)) > NARROW:
        return {a.name: "int64" for a in layout.indexes if a.types == INDEX_TYPES}
    return dict(index_types)


def warn_copied(value: Any, name: str, problem: DataError) -> None:
    """Tell that arrays which look like the layout's own were copied, and why."""
    warn_of_copy(f"`{name}` is copied, because its {value.format} arrays are not used as they are: {problem.message}")


def _wrong_rank(layout: Layout, name: str, rank: int) -> DataError:
    return DataError(f"expected `{name}` with {counted(layout.rank, 'dimension')}, but it has {rank}")


def _in_place(
    layout: Layout, value: object, name: str, index_types: Mapping[str, str], output: bool, validate: str
) -> Tensor | DataError | None:
    """The tensor over the arrays of `value`, when a binding of the layout fits them; what they break of the layout; or
    None when they are of another kind, type or block size."""
    if layout.rank == 0 and not is_scipy(value) and not is_pydata(value):
        return _scalar(layout, value, name, output)
    for binding in layout.bindings:
        shape = _fits(binding, layout, value, name, output)
        if shape is None:
            continue
        arrays = {array: attribute(value, name_there, part) for array, name_there, part in binding.arrays}
        if output:
            _check_usable({v.name: arrays[v.name] for v in layout.values}, name)
        elif any(arrays[array].dtype.name != kind for array, kind in index_types.items()):
            return None  # a copy has the declared types
        problem = None
        try:
            tensor = make_tensor(layout, arrays, shape, check=False)
            problem = broken(layout, tensor.sizes, tensor.arrays, validate)
            if problem is None:
                return tensor
        except DataError as error:
            if not output:
                return None
            problem = error
        if output:
            hint = "it is written in place, so it must be in the form that the layout declares"
            raise DataError(problem.message, None, (*problem.notes, hint))
        return problem
    if output and isinstance(value, np.ndarray) and value.ndim != layout.rank:
        raise _wrong_rank(layout, name, value.ndim)
    return None


def _scalar(layout: Layout, value: object, name: str, output: bool) -> Tensor | None:
    """A number, or an array of no dimensions; the latter is written in place when it is an output."""
    array = as_array(value, name)
    if array.ndim:
        return None
    if output and isinstance(value, np.ndarray):
        _check_usable({layout.values[0].name: value}, name)
    elif output:
        array = array.copy()
    return make_tensor(layout, {layout.values[0].name: array})


def _fits(binding: Binding, layout: Layout, value: Any, name: str, output: bool) -> tuple[int, ...] | None:
    """The shape of `value` when the binding speaks of its kind."""
    match binding.library:
        case "numpy":
            if is_scipy(value) or is_pydata(value) or (output and not isinstance(value, np.ndarray)):
                return None
            array = plain_array(value, name)
            known = array.dtype in DTYPES or array.dtype.name in TYPES  # the latter in another byte order
            return array.shape if array.ndim == layout.rank and known else None
        case "scipy":
            if not is_scipy(value) or value.format != binding.format or len(value.shape) != layout.rank:
                return None
            return tuple(map(int, value.shape))
    return None


def attribute(value: Any, name: str, part: int | None) -> Array:
    """The array that a binding means: `self`, `T`, or an attribute, of which it may be one part."""
    if name == "self":
        return np.asarray(value)
    if name == "T":
        return np.asarray(value).T
    part_of_object = getattr(value, name)
    return np.asarray(part_of_object if part is None else part_of_object[part])


def _check_usable(arrays: Mapping[str, Array], name: str) -> None:
    """The values of an output can be written where they are. Raises DataError."""
    for array in arrays.values():
        flags = array.flags
        if not flags.writeable:
            problem = "writeable, but it is read-only"
        elif not flags.c_contiguous:
            problem = "contiguous in the order of its layout, but it is not"
        elif not flags.aligned:
            problem = "aligned, but it is not"
        elif not array.dtype.isnative:
            problem = f"in the byte order of this machine, but it is {array.dtype}"
        else:
            continue
        hint = "an output is written in place: make it with numpy.zeros(shape)"
        raise DataError(f"expected `{name}` to be {problem}", None, (hint,))
