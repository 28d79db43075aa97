"""Assembling in C alone: entries of a list go in, the arrays of a layout come out."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from spfgen.cir.lower.assemble import AssemblyTarget, assemble_functions
from spfgen.cir.lower.files import plain_file, runtime
from spfgen.cir.lower.layout import MOST_RANK, field_name
from spfgen.cir.tree.nodes import File, Function, Text
from spfgen.cir.tree.print import print_file
from spfgen.lang.types import TYPES
from spfgen.layout.fill import differs
from spfgen.layout.nodes import Layout
from spfgen.layout.pack import pack
from spfgen.plan.assemble.from_pack_plan import assembly_of
from spfgen.run.compile import build, load

Array = np.ndarray[Any, Any]


class EntriesStruct(ctypes.Structure):
    """rt/entries_type.h"""

    _fields_ = (
        ("count", ctypes.c_int64),
        ("capacity", ctypes.c_int64),
        ("failed", ctypes.c_int64),
        ("most", ctypes.c_int64),
        ("taken", ctypes.c_int64),
        ("narrow", ctypes.c_int64),
        ("may_group", ctypes.c_int64),
        ("grouped", ctypes.c_int64),
        ("groups", ctypes.c_int64),
        ("group_capacity", ctypes.c_int64),
        ("ends", ctypes.c_void_p),
        ("expected", ctypes.c_double),
        ("whole", ctypes.c_void_p),
        ("at", ctypes.c_void_p * MOST_RANK),
        ("values", ctypes.c_void_p),
    )


def text(layout: Layout, kind: str = "float64", types: dict[str, str] | None = None, axis: int | None = None) -> str:
    """One file: the struct of the layout and `assemble`; of intervals along an axis."""
    kinds = {a.name: (types or {}).get(a.name, a.types[0]) for a in layout.indexes}
    value = TYPES[kind]
    target = AssemblyTarget("made_t", value, value, kinds, axis)
    functions = assemble_functions(assembly_of(layout), target, "assemble", {"assemble"})
    last = functions[-1]
    functions[-1] = Function(last.result, last.name, last.params, last.body, last.doc)
    fields = [f"int64_t {field_name(n)};" for n in (*layout.parameters, *layout.sizes)]
    fields += [f"const {TYPES[kinds[a.name]].c} *{field_name(a.name)};" for a in layout.indexes]
    fields += [f"{value.c} *{field_name(v.name)};" for v in layout.values]
    struct = "typedef struct made_t {\n" + "\n".join(fields) + "\n} made_t;"
    found = plain_file(functions, "entries")
    own = (Text(runtime("status.h")), Text(runtime("allocator_type.h")), Text(runtime("entries_type.h")), Text(struct))
    return print_file(File(found.comment, (*found.includes, "<string.h>"), (*own, *found.items)))


@dataclass(frozen=True)
class Made:
    status: int
    sizes: dict[str, int]
    arrays: dict[str, Array]


@cache
def library(layout: Layout, kind: str, types: tuple[tuple[str, str], ...] = (), axis: int | None = None) -> Any:
    found = load(build(text(layout, kind, dict(types), axis), optimise=False))
    found.assemble.restype = ctypes.c_int
    return found


@cache
def struct_of(layout: Layout) -> Any:
    fields = [(field_name(n), ctypes.c_int64) for n in (*layout.parameters, *layout.sizes)]
    fields += [(field_name(n), ctypes.c_void_p) for n in layout.arrays]
    return type("made", (ctypes.Structure,), {"_fields_": fields})


class Memory(ctypes.Structure):
    _fields_ = (
        ("allocate", ctypes.c_void_p),
        ("resize", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("max_workspace", ctypes.c_int64),
    )


def assembled(
    layout: Layout,
    shape: tuple[int, ...],
    coords: tuple[Array, ...],
    values: Array,
    narrow: bool = False,
    types: tuple[tuple[str, str], ...] = (),
    memory: Memory | None = None,
    axis: int | None = None,
) -> Made:
    """What C makes of entries in any order; of intervals along an axis, with their last coordinates."""
    kept = [np.ascontiguousarray(c, np.int32 if narrow else np.int64) for c in coords]
    held = np.ascontiguousarray(values)
    entries = EntriesStruct()
    entries.count = entries.capacity = len(held)
    entries.narrow = int(narrow)
    entries.values = held.ctypes.data
    for k, column in enumerate(kept):
        entries.at[k] = column.ctypes.data
    made = struct_of(layout)()
    for n, extent in zip(layout.parameters, shape, strict=True):
        setattr(made, field_name(n), extent)
    own = library(layout, held.dtype.name, types, axis)
    given = None if memory is None else ctypes.byref(memory)
    status = own.assemble(ctypes.byref(entries), ctypes.byref(made), 1, given)
    sizes = {n: int(getattr(made, field_name(n))) for n in (*layout.parameters, *layout.sizes)}
    arrays: dict[str, Array] = {}
    if status == 0:
        from spfgen.run.tensor import extents_of

        for index in layout.indexes:
            kind = np.dtype(dict(types).get(index.name, index.types[0]))
            arrays[index.name] = _array(
                getattr(made, field_name(index.name)), extents_of(layout, index.name, sizes), kind
            )
        for value in layout.values:
            pointer = getattr(made, field_name(value.name))
            arrays[value.name] = _array(pointer, extents_of(layout, value.name, sizes), held.dtype)
    free = ctypes.CDLL(None).free
    free.argtypes = (ctypes.c_void_p,)
    for name in layout.arrays:
        if memory is None:
            free(getattr(made, field_name(name)))
        elif status:
            assert getattr(made, field_name(name)) is None
    return Made(status, sizes, arrays)


def _array(pointer: int, shape: tuple[int, ...], kind: np.dtype[Any]) -> Array:
    count = int(np.prod(shape, dtype=np.int64))
    data = ctypes.string_at(pointer, count * kind.itemsize)
    return np.frombuffer(data, kind).reshape(shape).copy()


def packed(layout: Layout, shape: tuple[int, ...], coords: tuple[Array, ...], values: Array) -> Any:
    """What numpy makes of them: fill values are left out where there is no place for them. None where it cannot."""
    from spfgen.errors import DataError
    from spfgen.layout.pack_entries import sorted_entries

    columns, summed = sorted_entries(layout, shape, coords, values)
    own = tuple(columns[c] for c in layout.coordinates)
    if layout.is_pattern:
        kept = summed.astype(bool) if layout.fill_text == "0" else differs(summed, layout.fill)
        own, summed = tuple(c[kept] for c in own), np.ones(int(kept.sum()), summed.dtype)
    made = None
    for kept in (np.ones(len(summed), bool), differs(summed, layout.fill)):
        try:
            made = pack(layout, shape, tuple(c[kept] for c in own), summed[kept])
            break
        except DataError:
            continue
    if made is not None:
        made.arrays.update({v.name: np.ones(1, summed.dtype) for v in layout.values if v.implied})
    return made
