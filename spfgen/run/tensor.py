"""A tensor at run time: a layout, its sizes and numpy arrays under the names of the spec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spfgen.errors import DataError
from spfgen.facts.formula import Bin, Expr, evaluate, show, variables
from spfgen.ir import walk
from spfgen.lang.types import INDEX_TYPES, TYPES
from spfgen.layout.nodes import Layout
from spfgen.layout.points import to_coordinates
from spfgen.layout.validate import check_arrays
from spfgen.run.read import Coordinates

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Tensor:
    """`sizes` holds the extents and sizes of the layout, `arrays` its index and value arrays by name.

    The arrays are C-contiguous and have the shapes that the layout declares; the tensor shares them with
    whoever made it.
    """

    layout: Layout
    sizes: Mapping[str, int]
    arrays: Mapping[str, Array]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.sizes[p] for p in self.layout.parameters)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.arrays[self.layout.values[0].name].dtype

    @property
    def nse(self) -> int:
        """The number of stored elements, padding included."""
        return sum(self.arrays[v.name].size for v in self.layout.values)

    def to_coo(self) -> Coordinates:
        """The stored entries; an entry stored twice stands twice."""
        values = {v.name: self.arrays[v.name] for v in self.layout.values}
        coords, found = to_coordinates(self.layout, dict(self.sizes), dict(self.arrays), values)
        return Coordinates(self.shape, tuple(coords), found)

    def to_numpy(self) -> Array:
        """A dense array; entries stored twice are added."""
        return self.to_coo().to_dense()

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.shape)) or "scalar"
        return f"<spfgen.Tensor {self.layout.name} {shape}, {self.nse} stored, {self.dtype}>"


def make_tensor(
    layout: Layout,
    arrays: Mapping[str, object],
    shape: Sequence[int] | None = None,
    sizes: Mapping[str, int] | None = None,
    *,
    check: bool = True,
) -> Tensor:
    """A tensor over the caller's own arrays; sizes that are not given are solved from their lengths.

    Raises DataError when an array is missing, has a wrong type or length, or breaks a declared fact.
    """
    names = layout.arrays
    for name in arrays:
        if name not in names:
            raise DataError(
                f"expected arrays of layout `{layout.name}`, but `{name}` is not one", None, (f"its arrays: {', '.join(names)}",)
            )
    for name in names:
        if name not in arrays:
            raise DataError(
                f"expected array `{name}` of layout `{layout.name}`, but it is missing",
                None,
                (f"its arrays: {', '.join(names)}",),
            )
    ready = {n: as_array(arrays[n], n, n in {a.name for a in layout.indexes}) for n in names}
    known = _given_sizes(layout, shape, sizes)
    known = _solved(layout, ready, known)
    shaped = {n: _shaped(layout, n, ready[n], known) for n in names}
    if check:
        check_arrays(layout, known, shaped, thorough=False)
    return Tensor(layout, known, shaped)


def as_array(value: object, name: str, is_index: bool) -> Array:
    """The array itself where it can be used as it is; contiguous and in the machine's byte order otherwise."""
    array = np.asarray(value)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    allowed = INDEX_TYPES if is_index else tuple(TYPES)
    if is_index and array.size == 0 and array.dtype == np.float64:
        array = array.astype(np.int64)  # what numpy makes of an empty list
    if array.dtype.name not in allowed:
        what = "index array" if is_index else "values"
        raise DataError(
            f"expected {what} `{name}` of type {' or '.join(allowed)}, but they are {array.dtype.name}",
            None,
            (f"convert them: {name}.astype('{'int32' if is_index else 'float64'}')",),
        )
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _given_sizes(
    layout: Layout, shape: Sequence[int] | None, sizes: Mapping[str, int] | None
) -> dict[str, int]:
    known: dict[str, int] = {}
    if shape is not None:
        if len(shape) != layout.rank:
            raise DataError(f"expected a shape of {layout.rank} extents for `{layout.name}`, but there are {len(shape)}")
        known.update(zip(layout.parameters, map(int, shape), strict=True))
    for name, value in (sizes or {}).items():
        if name not in (*layout.parameters, *layout.sizes):
            raise DataError(
                f"expected a size of layout `{layout.name}`, but `{name}` is not one",
                None,
                (f"its sizes: {', '.join((*layout.parameters, *layout.sizes))}",),
            )
        known[name] = int(value)
    for name, value in known.items():
        if value < 0:
            raise DataError(f"expected `{name}` not to be negative, but it is {value}")
    return known


def _solved(layout: Layout, arrays: Mapping[str, Array], known: dict[str, int]) -> dict[str, int]:
    """Sizes from the lengths of arrays: each declared extent with one unknown size is an equation for it."""
    wanted = [*layout.parameters, *layout.sizes]
    declared = [(a.name, a.extents) for a in layout.indexes] + [(v.name, v.extents) for v in layout.values]
    progress = True
    while progress and not all(n in known for n in wanted):
        progress = False
        for name, extents in declared:
            if arrays[name].ndim != len(extents):
                continue
            for extent, length in zip(extents, arrays[name].shape, strict=True):
                unknown = variables(extent) - set(known)
                if len(unknown) == 1:
                    size = unknown.pop()
                    value = _solve(extent, size, known, length)
                    if value is None:
                        if _is_monotone(extent):
                            raise DataError(
                                f"expected an array `{name}` of length {show(extent)}, "
                                f"but no {size} gives its length {length}"
                            )
                        continue
                    known[size] = value
                    progress = True
    missing = [n for n in wanted if n not in known]
    if missing:
        raise DataError(
            f"expected the arrays to give the size `{missing[0]}` of layout `{layout.name}`, but they do not",
            None,
            (f"pass shape=... or sizes={{'{missing[0]}': ...}}",),
        )
    return known


def _is_monotone(extent: Expr) -> bool:
    """Without min, max and remainders the extent grows with its size; then no solution means a wrong length."""
    return not any(isinstance(n, Bin) and n.op in ("min", "max", "%", "/") for n in walk(extent))


def _solve(extent: Expr, size: str, known: Mapping[str, int], length: int) -> int | None:
    """The value of `size` for which the extent is `length`; None when there is none, or more than one."""

    def at(value: int) -> int:
        return int(evaluate(extent, lambda n: value if n == size else known[n], _no_call))

    low, high = 0, 1
    while at(high) < length and high < 2**62:
        high *= 2
    while low < high:
        middle = (low + high) // 2
        if at(middle) < length:
            low = middle + 1
        else:
            high = middle
    return low if at(low) == length and at(low + 1) != length else None


def _no_call(function: str, arguments: tuple[object, ...]) -> int:
    raise DataError(f"expected an extent made of sizes, but it calls `{function}`")


def extents_of(layout: Layout, name: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape that the layout declares for one of its arrays."""
    declared = layout.extents(name)
    return tuple(max(0, int(evaluate(e, lambda n: sizes[n], _no_call))) for e in declared)


def _shaped(layout: Layout, name: str, array: Array, sizes: Mapping[str, int]) -> Array:
    shape = extents_of(layout, name, sizes)
    if array.shape == shape:
        return array
    count = 1
    for extent in shape:
        count *= extent
    if array.ndim == 1 and array.size == count:
        return array.reshape(shape)
    declared = layout.extents(name)
    text = "".join(f"[{show(e)}]" for e in declared)
    raise DataError(
        f"expected array `{name}` of shape {shape}, but its shape is {array.shape}",
        None,
        (f"layout `{layout.name}` declares {name}{text}",),
    )
