"""The operands of a job: read from files, or drawn at random."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spfgen.errors import DataError, UsageError
from spfgen.lang.expressions import counted, did_you_mean
from spfgen.lang.types import TYPES
from spfgen.layout import pack as packing
from spfgen.layout.nodes import Layout
from spfgen.layout.pack import pack
from spfgen.run.calls.bind import typed
from spfgen.run.calls.call import size_value
from spfgen.run.coordinates import Coordinates
from spfgen.run.files.read import random_data, read
from spfgen.run.pack import pack_entries
from spfgen.run.store import read_tensor
from spfgen.run.tensor import Array, Tensor, about, make_tensor
from spfgen.space.nodes import Program
from spfgen.space.nodes import Tensor as Declared

if TYPE_CHECKING:
    from spfgen.run.calls.requests import Job

DEFAULT_DENSITY = 0.1
RANDOM = "random"


def operands(program: Program, job: Job) -> dict[str, object]:
    """Files first: their shapes say how large random operands are."""
    given: dict[str, object] = {}
    extents = _said_extents(program, job)
    for name, source in job.data.items():
        declared = program.tensor(name)
        if not _is_random(source):
            value = _given(program, declared, source, job)
            extents = {**dict(zip(declared.extents, map(int, value.shape), strict=True)), **extents}
            given[name] = _cast(value, declared)
    for number, (name, source) in enumerate(job.data.items()):
        declared = program.tensor(name)
        if _is_random(source):
            shape = tuple(_extent(program, dim, extents, job.sizes, name) for dim in declared.extents)
            given[name] = random_operand(declared, shape, source, job.seed + number)
    return {name: _with_fill(value, program.tensor(name)) for name, value in given.items()}


def _with_fill(value: object, declared: Declared) -> object:
    """What a file does not list is the fill value of the tensor: a graph without an edge."""
    if not isinstance(value, Coordinates) or declared.layout.fill_text == "0":
        return value
    with about(declared.name):
        packed = pack_entries(declared.layout, value.shape, value.coords, value.values, dict(declared.index_types))
    return make_tensor(declared.layout, packed.arrays, value.shape, packed.sizes)


def _said_extents(program: Program, job: Job) -> dict[str, int]:
    """What the text of the kernel and --shape say. Raises UsageError when --shape contradicts either, or --size."""
    extents = dict(program.sizes.fixed)
    for name, shape in job.shapes.items():
        for place, (dim, extent) in enumerate(zip(program.tensor(name).extents, shape, strict=True), start=1):
            size = size_value(program, dim, {}, job.sizes)
            other = extents.setdefault(dim, extent if size is None else size)
            if other != extent:
                raise UsageError(
                    f"expected extents that agree, but --shape says that dimension {place} of `{name}` is {extent}, "
                    f"and it is {other} elsewhere"
                )
    return extents


def _is_random(source: str) -> bool:
    return source.partition(":")[0] == RANDOM


def _given(program: Program, declared: Declared, source: str, job: Job) -> Coordinates | Array | Tensor:
    """What the file holds, or the number that a scalar is given as."""
    if declared.layout.rank == 0:
        number = _number(source)
        if number is not None:
            return typed(number, declared.name, declared.value_type)
    near = did_you_mean(source.partition(":")[0], [RANDOM])
    if near and not Path(source).exists():
        message = f"expected a file or `{RANDOM}` for `{declared.name}`, but it is `{source}`"
        raise UsageError(message, None, (near,))
    stated_shape = job.shapes.get(declared.name)
    tensor = read_tensor(source, declared.layout, stated_shape)
    if tensor is not None:
        return tensor
    known: tuple[int | None, ...] | None = None
    if ".tns" in Path(source).name.lower():  # such files need not say their shape
        known = stated_shape or tuple(size_value(program, dim, {}, job.sizes) for dim in declared.extents)
    value = read(source, shape=known)
    if ".mtx" in Path(source).name.lower() and declared.layout.rank == 1 and 1 in value.shape:
        value = _column(value)
    if len(value.shape) != declared.layout.rank:
        wanted = counted(declared.layout.rank, "dimension")
        raise DataError(f"expected `{declared.name}` with {wanted}, but {source} has {len(value.shape)}")
    if stated_shape is not None and tuple(value.shape) != stated_shape:
        stored_shape = " x ".join(map(str, value.shape))
        raise DataError(f"expected `{declared.name}` of the extents of its --shape, but {source} has {stored_shape}")
    return value


def _number(source: str) -> int | float | complex | None:
    for kind in (int, float, complex):
        try:
            return kind(source)
        except ValueError:
            continue
    return None


def _column(value: Coordinates | Array) -> Coordinates | Array:
    """A matrix of one row or column as a vector."""
    if not isinstance(value, Coordinates):
        return value.reshape(-1)
    along = 0 if value.shape[1] == 1 else 1
    return Coordinates((value.shape[along],), (value.coords[along],), value.values)


def _extent(program: Program, dim: str, extents: Mapping[str, int], sizes: Mapping[str, int], name: str) -> int:
    """Of a random operand; what the caller says comes before what a file says, so that a contradiction shows."""
    value = size_value(program, dim, {}, sizes)
    if value is None:
        value = extents.get(dim)
    if value is None:
        index = next((i for i, extents in program.sizes.of_index.items() if dim in extents), dim)
        raise UsageError(
            f"expected the extent of `{index}` for `{name}`, but no file gives it",
            None,
            (f"pass --size {index}=N",),
        )
    return value


def _cast(value: Coordinates | Array | Tensor, declared: Declared) -> Coordinates | Array | Tensor:
    """The declared element type, for a file: text files say little about types."""
    kind = declared.value_type
    if isinstance(value, Tensor):
        values_by_name: dict[str, Any] = {v.name: _cast(value.arrays[v.name], declared) for v in value.layout.values}
        return replace(value, arrays={**value.arrays, **values_by_name})
    values = value.values if isinstance(value, Coordinates) else value
    if values.dtype.name == kind:
        return value
    if values.dtype.kind == "c" and TYPES[kind].kind != "c":
        raise DataError(
            f"expected `{declared.name}` to hold {kind}, but the file holds complex numbers",
            None,
            (f"declare `tensor {declared.name} : {declared.layout.name}<complex128>`",),
        )
    with np.errstate(invalid="ignore"):  # a nan that becomes an integer is told below
        cast = values.astype(kind)
    lossy = TYPES[kind].kind in "biu" and not np.array_equal(cast, values)
    if lossy:
        raise DataError(f"expected `{declared.name}` to hold {kind}, but the file holds other numbers")
    return Coordinates(value.shape, value.coords, cast) if isinstance(value, Coordinates) else cast


def random_operand(declared: Declared, shape: tuple[int, ...], source: str, seed: int) -> Coordinates | Array:
    """Random data of which the layout can store every entry."""
    density = _density(source)
    if density is None and declared.layout.indexes:
        density = DEFAULT_DENSITY
    data = random_data(shape, density, seed, TYPES[declared.value_type].name)
    if not isinstance(data, Coordinates):
        if prod(shape) == 0 or any(b.library == "numpy" for b in declared.layout.bindings) or not shape:
            return data
        data = Coordinates(shape, tuple(c.reshape(-1).astype(np.int64) for c in np.indices(shape)), data.reshape(-1))
    with about(declared.name):
        return storable(declared.layout, data)


def _density(source: str) -> float | None:
    _, colon, text = source.partition(":")
    if not colon:
        return None
    try:
        density = float(text)
    except ValueError:
        density = -1.0
    if not 0 <= density <= 1:
        raise UsageError(f"expected a density from 0 to 1, but it is `{text}`")
    return density


def storable(layout: Layout, data: Coordinates) -> Coordinates:
    """The entries that the layout has places for; with what it stores together with them."""
    try:
        pack(layout, data.shape, data.coords, data.values, {a.name: "int64" for a in layout.indexes})
        return data
    except DataError:
        coords, values = packing.storable(layout, data.shape, data.coords, data.values)
        return Coordinates(data.shape, tuple(coords), values)
