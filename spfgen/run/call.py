"""Calls a compiled kernel: structs for its tensors, checks before the call, error codes after it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from spfgen.cir.layout import field_name
from spfgen.errors import DataError, InternalError
from spfgen.run.tensor import Tensor
from spfgen.space.nodes import Program
from spfgen.space.nodes import Tensor as Declared

STATUS = {1: "a null pointer", 2: "sizes that do not agree", 3: "no memory for a workspace"}


def struct_of(declared: Declared) -> type[ctypes.Structure]:
    """The ctypes structure that mirrors the C struct of a tensor."""
    layout = declared.layout
    fields: list[tuple[str, Any]] = [(field_name(n), ctypes.c_int64) for n in (*layout.parameters, *layout.sizes)]
    fields += [(field_name(a), ctypes.c_void_p) for a in layout.arrays]
    return type(f"{declared.name}_struct", (ctypes.Structure,), {"_fields_": fields})


class Bound:
    """A kernel with its operands in place: call it again and again. Holds references to all arrays.

    `threads` of 0 leaves the number of threads to OpenMP (OMP_NUM_THREADS).
    """

    def __init__(
        self,
        program: Program,
        function: Callable[..., int],
        tensors: Mapping[str, Tensor],
        sizes: Mapping[str, int],
        threads: int,
    ) -> None:
        check_shapes(program, tensors)
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
        self._arguments = [
            *(ctypes.byref(s) for s in structs),
            *(ctypes.c_int64(sizes[name]) for name in program.parameters),
            ctypes.c_int(threads),
        ]

    def __call__(self) -> None:
        """Run once. Raises InternalError on an error code: what the codes report was checked before."""
        status = self._function(*self._arguments)
        if status:
            raise InternalError(f"{self.program.name} returned {status}: {STATUS.get(status, 'unknown')}")


def check_shapes(program: Program, tensors: Mapping[str, Tensor]) -> None:
    """Extents and sizes that one name stands for must be equal. Raises DataError with both."""
    for size, places in program.size_of.items():
        found = [(f"{t}.{f}", tensors[t].sizes[f]) for t, f in places]
        if size in program.fixed:
            found.insert(0, ("the kernel's text", program.fixed[size]))
        for (first, a), (other, b) in pairwise(found):
            if a != b:
                raise DataError(
                    f"expected extents that agree, but {first} is {a} and {other} is {b}",
                    None,
                    (_why(program, size),),
                )


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
    from spfgen.run.tensor import extents_of

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
        arrays[value_array.name] = np.zeros(extents_of(layout, value_array.name, own_sizes), dtype)
    return Tensor(layout, own_sizes, arrays)


def size_value(
    program: Program, size: str, tensors: Mapping[str, Tensor], sizes: Mapping[str, int]
) -> int | None:
    """The value of a size dimension: fixed, given by its name or by an index's, or read from an operand."""
    if size in program.fixed:
        return program.fixed[size]
    names: Sequence[str] = [size, *(i for i, extent in program.index_extent.items() if extent == size)]
    for name in names:
        if name in sizes:
            return int(sizes[name])
    for tensor, field in program.size_of.get(size, ()):
        if tensor in tensors:
            return tensors[tensor].sizes[field]
    return None
