"""The C file and the header of a kernel."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from spfgen.cir.layout import struct, struct_name
from spfgen.cir.nodes import Call, File, For, Function, Struct, Text
from spfgen.ir import walk
from spfgen.lang.types import INDEX_TYPES
from spfgen.space.nodes import Program

_RUNTIME = {f"spfgen_{name}": (f"{name}.h", "") for name in ("floor_div", "floor_mod", "min", "max", "threads")}
_RUNTIME |= {f"spfgen_{n}_{t}": (f"{n}.h", t) for n in ("search", "search_down", "share") for t in INDEX_TYPES}
"""Function -> the piece of rt/ that defines it, and the type it is defined for."""
_SERIAL = """#ifdef _OPENMP
#include <omp.h>
#else
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#endif"""


@cache
def runtime(name: str) -> str:
    """The text of a piece of rt/."""
    return files("spfgen.rt").joinpath(name).read_text(encoding="utf-8").rstrip()


def source_file(program: Program, function: Function, comment: str) -> File:
    """NAME.c: what of the run-time the function needs, and the function."""
    called = {n.function for n in walk(function) if isinstance(n, Call)}
    pieces: list[Struct | Function | Text] = []
    if any(isinstance(n, For) and n.pragmas for n in walk(function)):
        pieces.append(Text(_SERIAL))
    pieces += [Text(runtime(file).replace("TYPE", kind)) for name, (file, kind) in _RUNTIME.items() if name in called]
    return File(comment, (f'"{program.name}.h"',), (*pieces, function))


def header_file(program: Program, function: Function, comment: str) -> File:
    """NAME.h: the structs of the tensors and the prototype."""
    structs: dict[str, Struct] = {}
    complex_values = False
    for tensor in program.tensors:
        structs.setdefault(struct_name(tensor), struct(tensor))
        complex_values |= tensor.value_type.startswith("complex")
    includes = ("<complex.h>",) if complex_values else ()
    guard = f"SPFGEN_{program.name.upper()}_H"
    items: tuple[Struct | Function | Text, ...] = (Text(runtime("status.h")), *structs.values(), function)
    return File(comment, (*includes, "<stdbool.h>", "<stdint.h>"), items, guard)


def amalgamated(program: Program, source: str, header: str) -> str:
    """One self-contained C text: the header in place of its include."""
    return source.replace(f'#include "{program.name}.h"', header, 1)
