"""Checks of arrays in C, compiled once for each layout and types of index arrays; with numpy where that is enough."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_int
from dataclasses import dataclass, field
from functools import lru_cache
from typing import cast

from spfgen import tuning
from spfgen.cir.checks.names import KNOWN
from spfgen.cir.lower.files import plain_file
from spfgen.cir.lower.from_checks import check_functions, places
from spfgen.cir.tree import check as cir_check
from spfgen.cir.tree.names import identifier
from spfgen.cir.tree.print import print_file
from spfgen.cir.tree.simplify import simplify
from spfgen.errors import DataError, ToolError
from spfgen.lang.types import MARK_TYPES
from spfgen.layout import validate as plain
from spfgen.layout.check_python import Found, lists, python_check
from spfgen.layout.checks import Check, checks_of
from spfgen.layout.instances import Data, error_of
from spfgen.layout.nodes import Layout, Property
from spfgen.layout.points import Array
from spfgen.layout.width import fits
from spfgen.run.threads import threads_allowed
from spfgen.version import __version__

MEMORY = 3


@dataclass(slots=True)
class _Prepared:
    """What is known of a layout with index arrays of certain types; C is compiled when much was checked without."""

    layout: Layout
    checks: tuple[Check, ...]
    kinds: tuple[tuple[str, str], ...]
    is_linear: bool
    width: int
    """The places of a report that hold values of variables."""
    report: type[ctypes.Array[ctypes.c_int64]]
    in_python: Callable[..., Found] | None = None
    function: Callable[..., int] | None = None
    is_tried: bool = False
    looked_at: int = 0
    fitting: dict[tuple[int, ...], bool] = field(default_factory=dict)


def check_arrays(
    layout: Layout, sizes: Mapping[str, int], arrays: Mapping[str, Array], threads: int = 0
) -> tuple[Property, ...]:
    """Check index arrays (int32 or int64, contiguous) against extents, ranges and properties, and value arrays that are
    given against their extents. `threads` of 0 leaves their number to OpenMP.

    Returns the properties that were not checked in full, because there are too many instances or they have no bounds.
    Raises DataError with array, places, values and property.
    """
    plain.check_shapes(layout, sizes, arrays)
    prepared = _prepared(layout, arrays)
    total = sum([arrays[n].size for n, _ in prepared.kinds])
    is_small = total <= tuning.VALIDATE_SMALL and prepared.is_linear
    prepared.looked_at += tuning.VALIDATE_PYTHON * total if is_small else total
    waits = prepared.looked_at < tuning.VALIDATE_COMPILED or prepared.is_tried
    if total <= tuning.VALIDATE_TINY or (is_small and waits and prepared.function is None):
        return _in_python(prepared, sizes, arrays)
    if prepared.function is None and not prepared.is_tried and prepared.looked_at >= tuning.VALIDATE_COMPILED:
        prepared.is_tried = True
        prepared.function = _built(layout, prepared.kinds)
    if not _fits(prepared, sizes, arrays) and prepared.is_linear and total <= tuning.VALIDATE_EXACT:
        return _in_python(prepared, sizes, arrays)
    if prepared.function is None or not _fits(prepared, sizes, arrays) or not _is_usable(prepared, arrays):
        return plain.check_arrays(layout, sizes, arrays)
    return _run(prepared, prepared.function, sizes, arrays, threads)


_KEPT: dict[tuple[object, ...], _Prepared] = {}


def _prepared(layout: Layout, arrays: Mapping[str, Array]) -> _Prepared:
    key = (id(layout), *[arrays[a.name].dtype.char for a in layout.indexes])
    prepared = _KEPT.get(key)
    if prepared is None or prepared.layout is not layout:
        if len(_KEPT) >= 256:
            _KEPT.clear()
        checks = checks_of(layout)
        kinds = tuple((a.name, arrays[a.name].dtype.name) for a in layout.indexes)
        is_linear, width = all(c.is_linear for c in checks), places(checks)
        report = ctypes.c_int64 * (1 + width + len(checks))
        prepared = _KEPT[key] = _Prepared(layout, checks, kinds, is_linear, width, report)
    return prepared


def _in_python(prepared: _Prepared, sizes: Mapping[str, int], arrays: Mapping[str, Array]) -> tuple[Property, ...]:
    if prepared.in_python is None:
        prepared.in_python = python_check(prepared.layout, prepared.checks)
    broken = prepared.in_python(*lists(prepared.layout, sizes, arrays))
    if broken is not None:
        raise _error(prepared, sizes, arrays, *broken)
    return () if prepared.is_linear else tuple(c.fact for c in prepared.checks if not c.parts)


def _error(
    prepared: _Prepared, sizes: Mapping[str, int], arrays: Mapping[str, Array], number: int, values: Sequence[int]
) -> DataError:
    check = prepared.checks[number]
    named = {n: int(v) for n, v in zip(check.names, values, strict=False)}
    return error_of(Data(prepared.layout, sizes, arrays), check.array, check.fact, check.body, named)


def c_source(layout: Layout, kinds: Mapping[str, str]) -> str:
    """C that checks the index arrays of the layout; `kinds` are their types, int32 or int64."""
    checks = checks_of(layout)
    functions = [simplify(f) for f in check_functions(layout, checks, kinds, _name(layout))]
    about = f"{_name(layout)}, made by spfgen {__version__}. Compile with -std=c99 -O3 -fopenmp."
    file = plain_file(functions, about, ("<stdint.h>",))
    cir_check.check(file, KNOWN)
    return print_file(file)


def _name(layout: Layout) -> str:
    return f"{identifier(layout.name)}_check"


def _is_usable(prepared: _Prepared, arrays: Mapping[str, Array]) -> bool:
    """Whether C can read the arrays."""
    return all(arrays[n].flags.c_contiguous and arrays[n].flags.aligned for n, _ in prepared.kinds)


def _fits(prepared: _Prepared, sizes: Mapping[str, int], arrays: Mapping[str, Array]) -> bool:
    """Whether nothing that is computed overflows; remembered for the sizes."""
    layout = prepared.layout
    key = tuple([sizes[n] for n in (*layout.parameters, *layout.sizes)])
    known = prepared.fitting.get(key)
    if known is None:
        extents = {a.name: a.extents for a in layout.indexes}
        limits = {n: plain.limits(arrays[n]) for n, _ in prepared.kinds}
        if len(prepared.fitting) >= 256:
            prepared.fitting.clear()
        known = all(fits(check, prepared.checks, sizes, limits, extents) for check in prepared.checks)
        prepared.fitting[key] = known
    return known


def _run(
    prepared: _Prepared,
    function: Callable[..., int],
    sizes: Mapping[str, int],
    arrays: Mapping[str, Array],
    threads: int,
) -> tuple[Property, ...]:
    return ReadyCheck(sizes, arrays, (), prepared, function, _given(prepared, sizes, arrays))(threads)


def _given(prepared: _Prepared, sizes: Mapping[str, int], arrays: Mapping[str, Array]) -> tuple[object, ...]:
    """What the function is called with, up to the threads. It takes numbers of ctypes as they are: to convert them in
    each call takes as long as to look at some thousands of elements."""
    numbers = [sizes[n] for n in (*prepared.layout.parameters, *prepared.layout.sizes)]
    indexes = {n: arrays[n] for n, _ in prepared.kinds}
    pointers = [ctypes.c_void_p(a.__array_interface__["data"][0]) for a in indexes.values()]
    limit = 0 if prepared.is_linear else plain.allowed_work(indexes)
    return (*map(ctypes.c_int64, numbers), *pointers, ctypes.c_int64(limit))


@dataclass(frozen=True, slots=True)
class ReadyCheck:
    """The compiled check of certain arrays, to be called as long as they are the same: the first call has found out
    all that does not depend on their elements, which takes longer than to look at some thousands of those."""

    sizes: Mapping[str, int]
    arrays: Mapping[str, Array]
    shapes: tuple[tuple[str, Array, tuple[int, ...], tuple[int, ...]], ...]
    """Of each array: its name, itself, its shape and strides."""
    prepared: _Prepared
    function: Callable[..., int]
    given: tuple[object, ...]

    def is_for(self, sizes: Mapping[str, int], arrays: Mapping[str, Array]) -> bool:
        """Whether nothing has changed but the elements."""
        for name, array, shape, strides in self.shapes:
            if arrays.get(name) is not array or array.shape != shape or array.strides != strides:
                return False
        return self.sizes == sizes and len(self.shapes) == len(arrays)

    def __call__(self, threads: int) -> tuple[Property, ...]:
        """As `check_arrays`."""
        prepared = self.prepared
        report = prepared.report()
        status = self.function(*self.given, c_int(threads_allowed(threads)), report)
        return () if status == 0 and prepared.is_linear else self._told(status, report)

    def _told(self, status: int, report: ctypes.Array[ctypes.c_int64]) -> tuple[Property, ...]:
        prepared = self.prepared
        if status == MEMORY:
            check = prepared.checks[report[0]]
            message = f"expected memory for a table to check `{check.fact.text}` of `{check.array}`"
            raise DataError(f"{message}, but there is not enough")
        if status:
            raise _error(prepared, self.sizes, self.arrays, report[0], report[1 : 1 + prepared.width])
        return tuple(c.fact for c, flag in zip(prepared.checks, report[1 + prepared.width :], strict=True) if flag)


def ready_check(layout: Layout, sizes: Mapping[str, int], arrays: Mapping[str, Array]) -> ReadyCheck | None:
    """For arrays that `check_arrays` has found to be right; None where it did not need C."""
    prepared = _prepared(layout, arrays)
    total = sum([arrays[n].size for n, _ in prepared.kinds])
    if (
        prepared.function is None
        or total <= tuning.VALIDATE_TINY
        or not _fits(prepared, sizes, arrays)
        or not _is_usable(prepared, arrays)
    ):
        return None
    shapes = tuple((n, a, a.shape, a.strides) for n, a in arrays.items())
    return ReadyCheck(dict(sizes), dict(arrays), shapes, prepared, prepared.function, _given(prepared, sizes, arrays))


@lru_cache(maxsize=256)
def _built(layout: Layout, kinds: tuple[tuple[str, str], ...]) -> Callable[..., int] | None:
    """The loaded function; None when there is no compiler, or the arrays are none that kernels take."""
    if not {k for _, k in kinds} <= set(MARK_TYPES):
        return None
    from spfgen.run.compile import build, load

    try:
        library = load(build(c_source(layout, dict(kinds))))
    except ToolError:
        return None
    function = getattr(library, _name(layout))
    function.restype = c_int
    return cast("Callable[..., int]", function)
