"""Whether concrete arrays satisfy what a layout declares: sizes, shapes, ranges, properties.

How each fact is checked is found in checks.py; here they run with numpy. `run.validate` runs them in C.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from spfgen.errors import DataError
from spfgen.facts.formula import show, variables
from spfgen.layout import check_numpy
from spfgen.layout.checks import checks_of, opened
from spfgen.layout.instances import Broken, Data, broken_one_by_one, error_of, number_of_instances
from spfgen.layout.nodes import IndexArray, Layout, Property, ValueArray
from spfgen.layout.points import Array, shape_of
from spfgen.layout.width import Interval, fits

LIMIT = 50_000_000
"""At most so many instances of a property are checked when their number is not bounded by the sizes of the arrays."""


def check_arrays(
    layout: Layout, sizes: Mapping[str, int], arrays: Mapping[str, Array], thorough: bool = False
) -> tuple[Property, ...]:
    """Check index arrays (integers) against extents, ranges and properties, and value arrays that are given
    against their extents. `thorough` tries all instances of every property, which can take quadratic time, where there
    are not too many.

    Returns the properties that were not checked, because there are too many instances or they have no bounds.
    Raises DataError with array, places, values and property.
    """
    check_shapes(layout, sizes, arrays)
    indexes = {a.name: np.asarray(arrays[a.name]).astype(np.int64, copy=False) for a in layout.indexes}
    data = Data(layout, sizes, indexes)
    return _thorough(data) if thorough else _run(data, {n: limits(arrays[n]) for n in indexes})


def violation(layout: Layout, sizes: Mapping[str, int], arrays: Mapping[str, Array]) -> str | None:
    """What the arrays break, with every instance tried; None when all is well."""
    try:
        check_arrays(layout, sizes, arrays, thorough=True)
    except DataError as error:
        return error.message
    return None


def limits(array: Array) -> Interval:
    """The least and the greatest value of an array's type."""
    info = np.iinfo(np.asarray(array).dtype)
    return int(info.min), int(info.max)


def allowed_work(arrays: Mapping[str, Array]) -> int:
    """How many instances of a check may be looked at, where the sizes of the arrays do not bound their number."""
    return max(LIMIT, 4 * sum(a.size for a in arrays.values()))


def _run(data: Data, widths: Mapping[str, Interval]) -> tuple[Property, ...]:
    unchecked: list[Property] = []
    checks = checks_of(data.layout)
    extents = {a.name: a.extents for a in data.layout.indexes}
    for check in checks:
        if not fits(check, checks, data.sizes, widths, extents):
            unchecked.append(check.fact)
            continue
        limit = 2**62 if check.is_linear else allowed_work(data.arrays)
        broken = check_numpy.run(data, check, limit)
        if isinstance(broken, Broken):
            raise error_of(data, check.array, check.fact, check.body, broken.values)
        if broken is False:
            unchecked.append(check.fact)
    return tuple(unchecked)


def _thorough(data: Data) -> tuple[Property, ...]:
    unchecked: list[Property] = []
    for kind in ("ranges", "properties"):
        for index in data.layout.indexes:
            for fact in getattr(index, kind):
                names, body = opened(fact.formula)
                if number_of_instances(data, names, body) > LIMIT:
                    unchecked += _run_of(data, fact)
                    continue
                broken = broken_one_by_one(data, names, body)
                if isinstance(broken, Broken):
                    raise error_of(data, index.name, fact, body, broken.values)
                if broken is False:
                    unchecked.append(fact)
    return tuple(unchecked)


def _run_of(data: Data, fact: Property) -> list[Property]:
    """The check of one fact that takes linear time; the fact, if there is none."""
    for check in (c for c in checks_of(data.layout) if c.fact == fact):
        broken = check_numpy.run(data, check, allowed_work(data.arrays))
        if isinstance(broken, Broken):
            raise error_of(data, check.array, check.fact, check.body, broken.values)
        return [fact] if broken is False else []
    return [fact]


# --- sizes and shapes -----------------------------------------------------------------------------------


_SHAPES: dict[tuple[int, ...], tuple[Layout, dict[str, tuple[int, ...]]]] = {}


def check_shapes(layout: Layout, sizes: Mapping[str, int], arrays: Mapping[str, Array]) -> None:
    """Sizes and arrays are there, with the declared extents. Raises DataError."""
    try:
        key = (id(layout), *[sizes[n] for n in (*layout.parameters, *layout.sizes)])
        known = _SHAPES.get(key)
        if known is not None and known[0] is layout and _is_shaped(layout, known[1], arrays):
            return
    except (KeyError, AttributeError):
        pass  # what is missing, or is no array, is told below
    _check_sizes(layout, sizes)
    _check_shapes(layout, sizes, arrays)
    if len(_SHAPES) >= 1024:
        _SHAPES.clear()
    _SHAPES[key] = (layout, {n: shape_of(layout.extents(n), sizes) for n in layout.arrays})


def _is_shaped(layout: Layout, shapes: Mapping[str, tuple[int, ...]], arrays: Mapping[str, Array]) -> bool:
    for index in layout.indexes:
        array = arrays[index.name]
        if array.shape != shapes[index.name] or array.dtype.kind not in "iu":
            return False
    return all(arrays[v.name].shape == shapes[v.name] for v in layout.values if v.name in arrays)


def _check_sizes(layout: Layout, sizes: Mapping[str, int]) -> None:
    for name in (*layout.parameters, *layout.sizes):
        if name not in sizes:
            raise DataError(f"expected the size `{name}` of layout `{layout.name}`, but it is missing")
        if sizes[name] < 0:
            raise DataError(f"expected a size `{name}` of at least 0, but it is {sizes[name]}")


def _check_shapes(layout: Layout, sizes: Mapping[str, int], arrays: Mapping[str, Array]) -> None:
    for index in layout.indexes:
        if index.name not in arrays:
            raise DataError(f"expected the array `{index.name}` of layout `{layout.name}`, but it is missing")
        array = np.asarray(arrays[index.name])
        if array.dtype.kind not in "iu":
            raise DataError(f"expected integers in the array `{index.name}`, but they are {array.dtype}")
        _check_shape(layout, index, array, sizes)
    for value in layout.values:
        if value.name in arrays:
            _check_shape(layout, value, np.asarray(arrays[value.name]), sizes)


def _check_shape(layout: Layout, declared: IndexArray | ValueArray, array: Array, sizes: Mapping[str, int]) -> None:
    wanted = shape_of(declared.extents, sizes)
    if array.shape == wanted:
        return
    text = f"{declared.name}[{', '.join(show(e) for e in declared.extents)}]"
    names = sorted(variables(*declared.extents))
    where = ", ".join(f"{n} = {sizes[n]}" for n in names)
    raise DataError(
        f"expected the array `{declared.name}` of layout `{layout.name}` with shape {wanted}, "
        f"but it has shape {array.shape}",
        None,
        (f"the layout says `{text}`" + (f" with {where}" if where else ""),),
    )
