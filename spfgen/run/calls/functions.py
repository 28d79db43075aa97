"""The C functions that pack and convert: generated ones, called by the names of their arguments, and those of rt/."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from spfgen import tuning
from spfgen.cir.lower.files import plain_file, runtime
from spfgen.cir.pack import GeneratedFunction
from spfgen.cir.rewrite.outline_parts import with_outlined_part
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.check import check as check_c
from spfgen.cir.tree.print import print_file
from spfgen.cir.tree.simplify import simplify
from spfgen.folder import hash_of
from spfgen.lang.types import INDEX_TYPES
from spfgen.layout.points import Array
from spfgen.run.compile import build, load
from spfgen.run.later import is_ready
from spfgen.version import __version__

KNOWN = frozenset({"NULL", "INT64_MAX", "INT64_MIN", "UINT64_MAX", "true", "false"})
NOTHING = ctypes.c_char * 0
INT, LONG, WORD, POINTER = ctypes.c_int, ctypes.c_int64, ctypes.c_uint64, ctypes.c_void_p

KEYS: Mapping[str, tuple[Any, tuple[Any, ...]]] = {
    "keys_sort": (None, (LONG, INT, INT, POINTER, POINTER, POINTER, POINTER, INT)),
    "in_large_pages": (None, (POINTER, LONG)),
    "table_look": (INT, (POINTER, LONG, POINTER, INT, POINTER)),
    "table_digits": (INT, (POINTER, LONG, POINTER, INT, POINTER)),
    "table_fill": (INT, (POINTER, LONG, POINTER, INT, POINTER, POINTER, POINTER)),
    **{f"segments_taken_{k}": (None, (LONG, *[POINTER] * 5, LONG, *[POINTER] * 2)) for k in INDEX_TYPES},
    **{f"counted_{k}": (None, (LONG, LONG, *[POINTER] * 4)) for k in INDEX_TYPES},
    **{f"merged_{k}": (LONG, (POINTER,)) for k in INDEX_TYPES},
}
"""What the functions of rt/keys.h, rt/table.h, rt/segments.h and rt/merged.h return and take."""


SHARED_HEADERS = """#define _DEFAULT_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif
#ifndef _OPENMP
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#endif"""


def address(array: Array) -> int:
    """Where an array is, which the caller must keep: a number keeps nothing alive."""
    if array.flags.writeable:  # then a look at its buffer has it four times as fast
        return ctypes.addressof(NOTHING.from_buffer(array.data))
    pointer: int = array.__array_interface__["data"][0]
    return pointer


@dataclass(frozen=True, slots=True)
class Function:
    """A compiled function that takes numbers and addresses by name."""

    call: Any
    arguments: tuple[str, ...]

    def __call__(self, given: Mapping[str, Any]) -> int:
        return self.call(*[given[n] for n in self.arguments]) or 0


def source_text(compiled: Sequence[GeneratedFunction], about: str) -> str:
    """The C text of some functions."""
    functions = [f for m in compiled for f in with_outlined_part(simplify(m.function))]
    file = plain_file(functions, f"{about}, made by spfgen {__version__}. Compile with -std=c99 -O3 -fopenmp.")
    check_c(file, KNOWN)
    return print_file(file)


def loaded(compiled: Sequence[GeneratedFunction], about: str) -> list[Function]:
    """The functions, compiled. Raises ToolError."""
    library = load(build(source_text(compiled, about)))
    return [Function(_typed(library, m.function), m.arguments) for m in compiled]


def _typed(library: ctypes.CDLL, function: c.Function) -> Any:
    call = getattr(library, function.name)
    call.restype = INT if function.result == "int" else None
    call.argtypes = [_ctype(p.type) for p in function.params]
    return call


def _ctype(kind: str) -> Any:
    return POINTER if "*" in kind else {"int": INT, "uint64_t": WORD}.get(kind, LONG)


@lru_cache(maxsize=32)
def shared(name: str) -> Any:
    """A function that is the same for all layouts: `KEYS` has their names."""
    function = getattr(_library(), f"spfgen_{name}")
    function.restype, function.argtypes = KEYS[name]
    return function


def has_shared(work: int) -> bool:
    """Whether these functions are to be used; numpy goes through this much work if not."""
    return is_ready("shared functions", lambda: hash_of(shared_text()), lambda: ("shared functions", None), work)


def shared_text() -> str:
    """The C text of these functions."""
    keys = re.sub(r"^static (?=\w+ spfgen_keys_)", "", runtime("keys.h"), flags=re.MULTILINE)
    texts = [SHARED_HEADERS, runtime("sort_words.h"), keys, runtime("pages.h"), runtime("table.h")]
    texts += [runtime("segments.h").replace("TYPE", kind) for kind in INDEX_TYPES]
    texts += [runtime("inline.h"), *(runtime("merged.h").replace("TYPE", kind) for kind in INDEX_TYPES)]
    return "\n\n".join(texts) + "\n"


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    return load(build(shared_text()))


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array that holds anything and begins where a line of memory does: vectors that reach over the end of one take
    longer to read. Raises MemoryError, ValueError."""
    return _in_lines(np.empty, shape, dtype)


def _in_lines(make: Callable[..., Array], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    size, more = prod(shape), tuning.CACHE_LINE // dtype.itemsize
    if size < tuning.ALIGNED_ELEMENTS:
        return make(shape, dtype)
    memory = make(size + more, dtype)  # of this type: scipy copies what is a small part of the array it looks into
    begin = -address(memory) % tuning.CACHE_LINE // dtype.itemsize
    aligned = memory[begin : begin + size].reshape(shape)
    memory.flags.writeable = False  # only what is returned can be written to, until its own flag says otherwise
    return aligned


def zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """The same with zeros; where they are new memory, in large pages: numpy asks for these only where it does not
    clear."""
    array = _in_lines(np.zeros, shape, dtype)
    if array.nbytes >= tuning.LARGE_ARRAY_BYTES:
        shared("in_large_pages")(address(array), array.nbytes)
    return array
