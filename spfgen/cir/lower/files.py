"""The C file and the header of a kernel."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from itertools import product
from math import isfinite
from typing import TYPE_CHECKING

from spfgen import tuning
from spfgen.cir.checks.names import BROKEN, HOLDS, MEMORY, UNCHECKED
from spfgen.cir.lower.layout import free_name, structs
from spfgen.cir.lower.register_tile import REGISTERS
from spfgen.cir.rewrite.outline_parts import NOINLINE
from spfgen.cir.rewrite.vectorizer_barrier import with_branches
from spfgen.cir.tree import openmp
from spfgen.cir.tree.nodes import Call, Cast, Declare, File, Float, For, Function, Name, Struct, Text
from spfgen.cir.tree.outline import AS_IS, INLINE
from spfgen.cir.tree.scalars import headers, scalar_functions
from spfgen.cir.tree.unused import cleaned, without_unused_functions
from spfgen.ir import walk
from spfgen.lang.types import INDEX_TYPES, MARK_TYPES, TYPES
from spfgen.space.nodes import Program

if TYPE_CHECKING:
    from spfgen.cir.lower.interface import Interface

_UNTYPED = ("floor_div", "floor_mod", "min", "max", "threads", "thread", "workspace", "memory", "copies", "atomically",
          "parts", "chunks", "next_part", "log2", "over", "least", "most", "part", "sort_words", "bitmap_words",
          "bitmap_has", "bitmap_position", "compiler_barrier", "prefetch", "prefetch_far", "prefetch_soon",
          "prefetch_stored", "large_memory", "zero", "times", "branch",
          "quotient", "remainder", "map_find", "map_clear")  # fmt: skip
_PLAIN = {
    **dict(zip(_UNTYPED, _UNTYPED, strict=True)),
    **dict.fromkeys(
        ("appended_room", "appended_join", "appended_part", "appended_set", "appended_at", "appended_copy"), "entries"
    ),
    **dict.fromkeys(("keys_widest",), "keys"),
    **{f"assembly_{n}": "by_key" for n in ("open", "order", "rank", "close")},
    **dict.fromkeys(("bits_of", "elements"), "by_key"),
    **dict.fromkeys(("result", "result_zero"), "result"),
    "lanes": "lanes",
    "keyed_room": "keyed",
    **{f"marks_{n}": "marks" for n in ("slots", "open", "free", "gathered")},
    **dict.fromkeys(("mark", "marked"), "marks"),
    **dict.fromkeys(("may_scatter", "spread_note", "is_far", "buckets", "windows"), "scatter"),
    "tree_made": "tree",
    **dict.fromkeys(("row_start", "row_place", "row_end", "rows_free"), "row"),
    **dict.fromkeys(("chain_shift", "chains", "mix"), "chains"),
    **{
        f"levels_{n}": "levels"
        for n in ("kept", "asks", "pair", "order", "clock", "done", "one_thread", "team", "first", "wait", "pass")
    },
    **dict.fromkeys(("hash_shift", "hash_slots", "hash_slot", "hash_find", "hash_clear"), "hash"),
    **dict.fromkeys(
        (
            *("pool_take", "pool_free", "vector", "appended_column", "dropped", "kept", "moved", "moved_away"),
            *("not_above", "value_word", "same_value", "sorted", "ranks", "offsets", "running", "blocks", "patterns"),
            *("filler", "movable", "interval_ends"),
        ),
        "assemble",
    ),
    **dict.fromkeys(("map_new", "map_free", "map_add"), "map"),
    **dict.fromkeys(("hash_filter_words", "hash_find_filtered"), "hash_filter"),
}
_TYPED = ("search", "search_down", "gallop", "gallop_down", "partition", "split", "outer", "outer_split", "hash_build",
          "hash_chain", "hash_filter_build", "bitmap_set", "bitmap_clear", "bitmap_rank", "collect",
          "predictable", "predictable_segments")  # fmt: skip
_SORTED = tuple(product(INDEX_TYPES, INDEX_TYPES))
"""The types of offsets and of keys that are sorted."""
_OF_FLOATS = ("finite", "stored")
_NEEDS = {
    "hash_build": ("hash",),
    "hash_chain": ("hash",),
    "hash_filter": ("hash",),
    "levels": ("max", "min", "least", "most", "noinline", "lists"),
    "hash_filter_build": ("hash", "hash_filter"),
    "split": ("partition",),
    "outer_split": ("outer",),
    "large_memory": ("memory",),
    "row": ("entries",),
    "keyed": ("entries",),
    "marks": ("noinline", "entries", "sort_words"),
    "order_segments": ("sort_words", "thread"),
    "keys": ("sort_words",),
    "by_key": ("sort_words", "keys"),
    "tree": ("result", "entries", "sort_words"),
    "assemble": ("entries", "times", "result"),
    "map_find": ("map",),
    "map_clear": ("map",),
}
"""Pieces that a piece builds upon."""
_RUNTIME = {f"spfgen_{name}": (file, "") for name, file in _PLAIN.items()}
_RUNTIME |= {f"spfgen_{n}_{t}": (n, t) for n in _TYPED for t in MARK_TYPES}
_RUNTIME |= {f"spfgen_totals_{t}": ("totals", t) for t in MARK_TYPES}
_RUNTIME |= {
    f"spfgen_{n}_{p}_{k}_{v}": ("order_segments", f"{p} {k} {v}")
    for n in ("ordered", "bucketed")
    for p, k in _SORTED
    for v in TYPES
}
_RUNTIME |= {f"spfgen_{n}_{t}": (n, t) for n in _OF_FLOATS for t in ("float32", "float64")}
"""Function -> the piece of rt/ that defines it, and the type it is defined for."""
_INCLUDES = {
    "workspace": "<stdlib.h>",
    "entries": "<string.h>",
    "row": "<string.h>",
    "assemble": "<string.h>",
    "tree": "<stdlib.h>",
    "order_segments": "<stdlib.h>",
    "scatter": "<string.h>",
    "keyed": "<stdlib.h>",
    "marks": "<string.h>",
    "result": "<string.h>",
    "levels": "<stdlib.h>",
    "memory": "<stdlib.h>",
    "large_memory": "<stdlib.h>",
    "map": "<stdlib.h>",
    "sort_words": "<string.h>",
    "stored": "<string.h>",
    "by_key": "<stdlib.h>",
}
"""What a piece needs of the C library."""


@cache
def runtime(name: str) -> str:
    """The text of a piece of rt/, with the numbers of tuning.py."""
    text = files("spfgen.rt").joinpath(name).read_text(encoding="utf-8").rstrip()
    return re.sub(r"\bTUNED_(\w+)", lambda match: str(getattr(tuning, match[1])), text)


def source_file(
    program: Program, functions: Sequence[Function], comment: str, types: Sequence[Struct | Text] = ()
) -> File:
    """NAME.c: what of the run-time the functions need, structs that the header does not show, and the functions."""
    functions = with_branches(cleaned(functions))
    pieces, includes = _needed(functions)
    return File(comment, (f'"{program.name}.h"', *includes), (*types, *pieces, *functions))


VERDICTS = (HOLDS, BROKEN, UNCHECKED, MEMORY)
STANDARD = ("<complex.h>", "<math.h>", "<stdbool.h>", "<stdint.h>", "<stdlib.h>")


def plain_file(functions: Sequence[Function], comment: str, headers: Sequence[str] = STANDARD) -> File:
    """Functions that need no structs, with what of the run-time they need."""
    functions = with_branches(cleaned(functions))
    pieces, includes = _needed(functions)
    return File(comment, tuple(dict.fromkeys((*headers, *includes))), (*pieces, *functions))


def _needed(functions: Sequence[Function]) -> tuple[list[Struct | Function | Text], tuple[str, ...]]:
    """The pieces of rt/ that the functions call, and the headers that these need."""
    nodes = [n for f in functions for n in walk(f)]
    called = {n.function for n in nodes if isinstance(n, Call)}
    pieces: list[Struct | Function | Text] = []
    if any(f.result.startswith(NOINLINE) for f in functions):
        pieces.append(Text(runtime("noinline.h")))
    if any(f.result.startswith(AS_IS) for f in functions):
        pieces.append(Text(runtime("as_is.h")))
    if any(isinstance(n, Name) and n.name in VERDICTS for n in nodes):
        pieces.append(Text(runtime("verdict.h")))
    if any(INLINE in f.result for f in functions):
        pieces.append(Text(runtime("inline.h")))
    if REGISTERS in nodes:
        pieces.append(Text(runtime("wide.h")))
    wanted: dict[tuple[str, str], None] = {}
    for name, (file, kind) in _RUNTIME.items():
        if name in called:
            needed = ((n, kind if n in _TYPED else "") for n in _NEEDS.get(file, ()))
            wanted |= dict.fromkeys([*needed, (file, kind)])
    pieces += [Text(_typed(runtime(f"{file}.h"), kind)) for file, kind in wanted]
    texts = without_unused_functions([p.text for p in pieces if isinstance(p, Text)], called)
    shares = any(isinstance(n, For) and n.pragmas for n in nodes) or any(map(openmp.starts_threads, texts))
    pieces = [Text(text) for text in (openmp.HEAD, *texts)[0 if shares else 1 :] if text]
    scalars = scalar_functions(called)
    pieces += map(Text, scalars)
    includes = [*headers(called, scalars), *(_INCLUDES[f] for f, _ in wanted if f in _INCLUDES)]
    if any("complex" in n.type for n in nodes if isinstance(n, Cast | Declare)):
        includes.append("<complex.h>")
    if any(isinstance(n, Float) and not isfinite(n.value) for n in nodes):
        includes.append("<math.h>")
    return pieces, tuple(dict.fromkeys(includes))


def _typed(text: str, kind: str) -> str:
    """The text for an element type, if it is for one of several."""
    if not kind:
        return text
    if " " in kind:
        text = text.replace("PLACE_KEY_VALUE", kind.replace(" ", "_"))
        for word, kind_of_word in zip(("PLACE", "KEY", "VALUE"), kind.split(), strict=True):
            text = re.sub(rf"\b{word}\b", TYPES[kind_of_word].c, text)
        return text
    text = text.replace("TYPE_t", TYPES[kind].c).replace("BITS", str(8 * TYPES[kind].bytes))
    return text.replace("TYPE", kind)


def list_types(results: Interface) -> list[Struct | Text]:
    """What only the file knows: the list of entries, and the structs around it."""
    return [Text(runtime("entries_type.h")), *results.lists]


def header_file(
    program: Program, functions: Sequence[Function], comment: str, results: Interface | None = None
) -> File:
    """NAME.h: the structs of the tensors and the prototypes; functions that give back what is made."""
    shown_structs = dict.fromkeys((structs(program) if results is None else results.structs).values())
    includes = ("<complex.h>",) if any(t.value_type.startswith("complex") for t in program.tensors) else ()
    kept = any(p.type.startswith("spfgen_levels") for f in functions for p in f.params)
    guard = f"SPFGEN_{program.name.upper()}_H"
    types = [Text(runtime("levels_type.h"))] if kept else []
    if results is not None:
        types.append(Text(runtime("allocator_type.h")))
    elif any(t.assembled is not None for t in program.tensors):
        types.append(Text(runtime("entries_type.h")))
    freed = [free_text(s) for s in results.freed] if results is not None else []
    items: tuple[Struct | Function | Text, ...] = (
        Text(runtime("status.h")),
        *types,
        *shown_structs,
        *freed,
        *functions,
    )
    return File(comment, (*includes, "<stdbool.h>", "<stdint.h>", *(["<stdlib.h>"] if kept else [])), items, guard)


def free_text(struct: Struct) -> Text:
    """The functions that give back the arrays of a struct."""
    name, macro = free_name(struct), f"SPFGEN_FREE_{struct.name}"
    arrays = [f.name for f in struct.fields if f.type.endswith("*")]
    release = "    spfgen_allocator_release(memory, (void *)(uintptr_t)tensor->{0});\n    tensor->{0} = NULL;"
    lines = [release.format(a) for a in arrays]
    lines += [f"    tensor->{f.name} = 0;" for f in struct.fields if not f.type.endswith("*")]
    return Text(
        f"#ifndef {macro}\n#define {macro}\n"
        "/* Gives back the arrays of a result, to the allocator that they came from; nothing is left of them then. */\n"
        f"static inline void {name}_in({struct.name} *tensor, const spfgen_allocator *memory) {{\n"
        + "\n".join(lines)
        + "\n}\n#ifdef __GNUC__\n__attribute__((unused)) /* where this is all in one file */\n#endif\n"
        f"static inline void {name}({struct.name} *tensor) {{\n    {name}_in(tensor, NULL);\n}}\n#endif"
    )


def amalgamated(program: Program, source: str, header: str) -> str:
    """One self-contained C text: the header in place of its include."""
    return source.replace(f'#include "{program.name}.h"', header, 1)
