"""Checks of arrays in C, compiled once for each layout and types of index arrays; with numpy where that is enough."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from spfgen.cir import check as cir_check
from spfgen.cir.files import plain_file, runtime
from spfgen.cir.from_checks import KNOWN, check_functions, places
from spfgen.cir.names import identifier
from spfgen.cir.nodes import Text
from spfgen.cir.print import print_file
from spfgen.cir.simplify import simplify
from spfgen.errors import DataError, ToolError
from spfgen.layout import validate as plain
from spfgen.layout.checks import Check, checks_of
from spfgen.layout.instances import Data, error_of
from spfgen.layout.nodes import Layout, Property
from spfgen.layout.points import Array
from spfgen.layout.width import fits

LARGE = 100_000
"""Elements of index arrays from which on it pays to have C compiled."""

MEMORY = 3


@dataclass(frozen=True)
class _Compiled:
    """The C function of a layout, and what its report means."""

    layout: Layout
    checks: tuple[Check, ...]
    function: Callable[..., int]
    places: int


def check_arrays(
    layout: Layout, sizes: Mapping[str, int], arrays: Mapping[str, Array], threads: int = 0
) -> tuple[Property, ...]:
    """Check index arrays (int32 or int64, contiguous) against extents, ranges and properties, and value arrays that are
    given against their extents. `threads` of 0 leaves their number to OpenMP.

    Returns the properties that were not checked in full, because there are too many instances or they have no bounds.
    Raises DataError with array, places, values and property.
    """
    plain.check_shapes(layout, sizes, arrays)
    indexes = {a.name: arrays[a.name] for a in layout.indexes}
    if sum(a.size for a in indexes.values()) < LARGE:
        return plain.check_arrays(layout, sizes, arrays)
    found = _compiled(layout, indexes)
    if found is None or not _all_fit(found.checks, layout, sizes, indexes):
        return plain.check_arrays(layout, sizes, arrays)
    return _run(found, sizes, indexes, threads)


def c_source(layout: Layout, kinds: Mapping[str, str]) -> str:
    """C that checks the index arrays of the layout; `kinds` are their types, int32 or int64."""
    checks = checks_of(layout)
    functions = [simplify(f) for f in check_functions(layout, checks, kinds, _name(layout))]
    file = plain_file(functions, f"Checks of layout {layout.name}, made by spfgen.")
    cir_check.check(file, KNOWN)
    return print_file(type(file)(file.comment, file.includes, (Text(runtime("verdict.h")), *file.items)))


def _name(layout: Layout) -> str:
    return f"{identifier(layout.name)}_check"


def _all_fit(checks: tuple[Check, ...], layout: Layout, sizes: Mapping[str, int], arrays: Mapping[str, Array]) -> bool:
    extents = {a.name: a.extents for a in layout.indexes}
    limits = {n: plain.limits(a) for n, a in arrays.items()}
    return all(fits(check, checks, sizes, limits, extents) for check in checks)


def _run(found: _Compiled, sizes: Mapping[str, int], arrays: Mapping[str, Array], threads: int) -> tuple[Property, ...]:
    layout = found.layout
    report = np.zeros(1 + found.places + len(found.checks), dtype=np.int64)
    limit = plain.allowed_work(arrays)
    given = [sizes[n] for n in (*layout.parameters, *layout.sizes)]
    status = found.function(*given, *(a.ctypes.data for a in arrays.values()), limit, threads, report.ctypes.data)
    if status == MEMORY:
        check = found.checks[report[0]]
        message = f"expected memory for a table to check `{check.fact.text}` of `{check.array}`"
        raise DataError(f"{message}, but there is not enough")
    if status:
        check = found.checks[report[0]]
        values = {n: int(v) for n, v in zip(check.names, report[1:], strict=False)}
        data = Data(layout, sizes, arrays)
        raise error_of(data, check.array, check.fact, check.body, values)
    return tuple(c.fact for c, flag in zip(found.checks, report[1 + found.places :], strict=True) if flag)


_KEPT: dict[tuple[object, ...], tuple[Layout, _Compiled | None]] = {}


def _compiled(layout: Layout, arrays: Mapping[str, Array]) -> _Compiled | None:
    """The loaded function; None when there is no compiler."""
    key = (id(layout), *(a.dtype.char for a in arrays.values()))
    found = _KEPT.get(key)
    if found is None or found[0] is not layout:
        kinds = tuple((n, a.dtype.name) for n, a in arrays.items())
        found = _KEPT[key] = (layout, _built(layout, kinds))
    return found[1]


@lru_cache(maxsize=256)
def _built(layout: Layout, kinds: tuple[tuple[str, str], ...]) -> _Compiled | None:
    from spfgen.run.compile import build, load

    try:
        library = load(build(c_source(layout, dict(kinds))))
    except ToolError:
        return None
    function = getattr(library, _name(layout))
    number, pointer = ctypes.c_int64, ctypes.c_void_p
    sizes = [number] * len((*layout.parameters, *layout.sizes))
    function.argtypes = [*sizes, *([pointer] * len(kinds)), number, ctypes.c_int, pointer]
    function.restype = ctypes.c_int
    checks = checks_of(layout)
    return _Compiled(layout, checks, function, places(checks))
