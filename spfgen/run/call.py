"""Calls a compiled kernel: structs for its tensors, checks before the call, error codes after it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from spfgen.cir.layout import field_name
from spfgen.errors import DataError, InternalError, UsageError
from spfgen.lang.expressions import did_you_mean
from spfgen.run.tensor import Array, Tensor, extents_of, size_number
from spfgen.space.nodes import Program
from spfgen.space.nodes import Tensor as Declared

MEMORY = 3
STATUS = {1: "a null pointer", 2: "sizes that do not agree", MEMORY: "no memory for a workspace"}


def struct_of(declared: Declared) -> type[ctypes.Structure]:
    """The ctypes structure that mirrors the C struct of a tensor."""
    layout = declared.layout
    return _structure(declared.name, (*layout.parameters, *layout.sizes), layout.arrays)


@lru_cache(maxsize=1024)
def _structure(name: str, sizes: tuple[str, ...], arrays: tuple[str, ...]) -> type[ctypes.Structure]:
    fields: list[tuple[str, Any]] = [(field_name(n), ctypes.c_int64) for n in sizes]
    fields += [(field_name(a), ctypes.c_void_p) for a in arrays]
    return type(f"{name}_struct", (ctypes.Structure,), {"_fields_": fields})


class _Forks:
    """GNU OpenMP does not survive a fork: a child of a process that has used threads would wait for them for ever."""

    parallel = False
    child_of_parallel = False

    @classmethod
    def after_in_child(cls) -> None:
        cls.child_of_parallel = cls.parallel or cls.child_of_parallel


os.register_at_fork(after_in_child=_Forks.after_in_child)


class Bound:
    """A kernel with its operands in place: call it again and again. Holds references to all arrays.

    `threads` of 0 leaves the number of threads to OpenMP (OMP_NUM_THREADS). In a child of a process that has run
    kernels with threads, one thread is used.
    """

    def __init__(
        self,
        program: Program,
        function: Callable[..., int],
        tensors: Mapping[str, Tensor],
        sizes: Mapping[str, int],
        threads: int,
    ) -> None:
        check_shapes(program, tensors, sizes)
        check_aliases(program, tensors)
        self.program = program
        self.tensors = dict(tensors)
        self.sizes = dict(sizes)
        self._function = function
        structs = []
        for declared in program.tensors:
            tensor = tensors[declared.name]
            values = [tensor.sizes[n] for n in (*declared.layout.parameters, *declared.layout.sizes)]
            arrays = [tensor.arrays[a] for a in declared.layout.arrays]
            structs.append(struct_of(declared)(*values, *(a.ctypes.data for a in arrays)))
        self._structs = structs
        self._threads = ctypes.c_int(threads)
        self._arguments = [
            *(ctypes.byref(s) for s in structs),
            *(ctypes.c_int64(sizes[name]) for name in program.parameters),
            self._threads,
        ]

    def __call__(self) -> None:
        """Run once. Raises DataError when there is no memory for a workspace."""
        if _Forks.child_of_parallel:
            self._threads.value = 1
        elif self._threads.value != 1:
            _Forks.parallel = True
        status = self._function(*self._arguments)
        if status:
            self._fail(status)

    def _fail(self, status: int) -> None:
        """The other codes report what was checked before the call."""
        if status == MEMORY:
            raise DataError(f"expected memory for a workspace of `{self.program.name}`, but there is not enough")
        raise InternalError(f"{self.program.name} returned {status}: {STATUS.get(status, 'unknown')}")

    def __repr__(self) -> str:
        return f"<spfgen.Bound {self.program.name}: {', '.join(f'{n} {t!r}' for n, t in self.tensors.items())}>"


def checked_sizes(program: Program, sizes: Mapping[str, object]) -> dict[str, int]:
    """Sizes by the names of sizes and indices. Raises UsageError for an unknown name, DataError for a wrong value."""
    known = {*program.parameters, *program.index_extent, *program.size_of}
    for name in sizes:
        if name not in known:
            plain = sorted(n for n in known if "." not in n)
            raise UsageError(
                f"expected an index or a size of `{program.name}`, but `{name}` is neither",
                None,
                (did_you_mean(name, plain) or f"known: {', '.join(plain)}",),
            )
    return {name: size_number(name, value) for name, value in sizes.items()}


def check_shapes(program: Program, tensors: Mapping[str, Tensor], sizes: Mapping[str, int]) -> None:
    """Extents and sizes that one name stands for must be equal. Raises DataError with both."""
    for size, places in program.size_of.items():
        found = [*_said(program, size, sizes)]
        found += [(f"{t}.{f}", tensors[t].sizes[f]) for t, f in places]
        for other, value in found[1:]:
            if value != found[0][1]:
                raise DataError(
                    f"expected extents that agree, but {found[0][0]} is {found[0][1]} and {other} is {value}",
                    None,
                    (_why(program, size),),
                )


def _said(program: Program, size: str, sizes: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """What the text of the kernel and the caller's sizes say of a size."""
    if size in program.fixed:
        yield "the extent in the kernel's text", program.fixed[size]
    for name in _names(program, size):
        if name in sizes:
            yield f"the size given for `{name}`", sizes[name]


def _names(program: Program, size: str) -> list[str]:
    """The names under which a caller can give a size: its own, and those of the indices that run over it."""
    return list(dict.fromkeys([size, *(i for i, extent in program.index_extent.items() if extent == size)]))


def _why(program: Program, size: str) -> str:
    indices = [i for i, extent in program.index_extent.items() if extent == size]
    return f"index `{indices[0]}` runs over both" if indices else "they are declared to be the same size"


def check_aliases(program: Program, tensors: Mapping[str, Tensor]) -> None:
    """An output's values may not overlap any other array of the call."""
    for declared in program.tensors:
        if not declared.is_output:
            continue
        own = [tensors[declared.name].arrays[v.name] for v in declared.layout.values]
        for other in program.tensors:
            tensor = tensors[other.name]
            names = list(other.layout.arrays)
            if other.name == declared.name:
                names = [a.name for a in other.layout.indexes]
            for name in names:
                if any(np.may_share_memory(a, tensor.arrays[name]) for a in own):
                    raise DataError(
                        f"expected `{declared.name}` in memory of its own, but it overlaps `{name}` of `{other.name}`",
                        None,
                        ("the kernel would read what it has already changed: pass a copy",),
                    )


def made_output(
    program: Program, declared: Declared, tensors: Mapping[str, Tensor], sizes: Mapping[str, int], dtype: str
) -> Tensor | None:
    """A new output of zeros, its extents from the other operands; None when its index arrays are not known."""
    layout = declared.layout
    own_sizes: dict[str, int] = {}
    for name, dim in zip((*layout.parameters, *layout.sizes), (*declared.extents, *declared.sizes), strict=True):
        value = size_value(program, dim, tensors, sizes)
        if value is None:
            return None
        own_sizes[name] = value
    arrays: dict[str, Any] = {}
    for array, function in declared.arrays:
        owner, _, own = function.partition(".")
        if owner == declared.name or owner not in tensors:
            return None
        arrays[array] = tensors[owner].arrays[own]
    for value_array in layout.values:
        arrays[value_array.name] = _zeros(declared.name, extents_of(layout, value_array.name, own_sizes), dtype)
    return Tensor(layout, own_sizes, arrays)


def _zeros(name: str, shape: tuple[int, ...], dtype: str) -> Array:
    try:
        return np.zeros(shape, dtype)
    except (MemoryError, ValueError):  # ValueError: the number of bytes is beyond the address space
        extents = " x ".join(map(str, shape))
        raise DataError(f"expected an output `{name}` that fits in memory, but it is {extents} of {dtype}") from None


def size_value(program: Program, size: str, tensors: Mapping[str, Tensor], sizes: Mapping[str, int]) -> int | None:
    """The value of a size dimension: fixed, given by its name or by an index's, or read from an operand."""
    if size in program.fixed:
        return program.fixed[size]
    for name in _names(program, size):
        if name in sizes:
            return int(sizes[name])
    for tensor, field in program.size_of.get(size, ()):
        if tensor in tensors:
            return tensors[tensor].sizes[field]
    return None
