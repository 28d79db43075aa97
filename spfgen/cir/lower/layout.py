"""The C struct of a tensor's layout: its extents, sizes and arrays under the names of the spec."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from spfgen.cir.tree.names import identifier, parameters
from spfgen.cir.tree.nodes import Param, Struct
from spfgen.facts.formula import show
from spfgen.ir import fresh
from spfgen.lang.types import TYPES, has_meaning_in_c
from spfgen.space.nodes import Program, Tensor

KIND, FIELD = "spfgen_appended", "entries"
"""The type of a list of entries (rt/entries_type.h), and its name in the struct of a tensor."""
MOST_RANK = 32
"""So many coordinates it has room for."""


def structs(program: Program) -> dict[str, Struct]:
    """The struct of each tensor. Two layouts may have one name: then the name of the second's struct gets a number."""
    named = _named(program)
    return {t.name: named[struct(t)] for t in program.tensors}


def final_structs(program: Program) -> dict[str, Struct]:
    """The struct of each tensor as its layout has it, also where the loops of the kernel make entries of it."""
    named = _named(program)
    return {t.name: named[struct(finished(t))] for t in program.tensors}


def finished(tensor: Tensor) -> Tensor:
    """A tensor in its layout."""
    if tensor.assembled is None:
        return tensor
    return replace(tensor, layout=tensor.final_layout, index_types=tensor.final_types, assembled=None)


def _named(program: Program) -> dict[Struct, Struct]:
    taken = {program.name, *parameters(program).values()}
    named: dict[Struct, Struct] = {}
    for tensor in (*program.tensors, *map(finished, program.tensors)):
        wanted = struct(tensor)
        if wanted not in named:
            named[wanted] = replace(wanted, name=fresh(wanted.name, taken))
            taken.add(named[wanted].name)
    return named


def free_name(struct: Struct) -> str:
    """The function that gives back the arrays of a struct."""
    return f"{struct.name.removesuffix('_t')}_free"


def struct_name(tensor: Tensor) -> str:
    """`csr_f64_i32_t`: the layout, its constants, the type of the values and those of the index arrays."""
    parts = [tensor.layout.name, *(f"{name}{value}".replace("-", "m") for name, value in tensor.layout.constants)]
    parts.append(_short(tensor.entry_type))
    kinds = [_short(kind) for _, kind in tensor.index_types]
    parts += kinds[:1] if len(set(kinds)) == 1 else kinds
    return identifier("_".join(parts)) + "_t"


def _short(name: str) -> str:
    kind = TYPES[name]
    return "b8" if kind.kind == "b" else f"{kind.kind}{8 * kind.bytes}"


@lru_cache(maxsize=4096)
def field_name(name: str) -> str:
    """A field's name: the spec's, with underscores where C would not have it.

    A name that ends like a keyword with an underscore gets one more, so that `for` and `for_` stay apart.
    """
    word = name.rstrip("_")
    return f"{name}_" if has_meaning_in_c(word) and word not in ("main", "threads", "memset", "free") else name


def struct(tensor: Tensor) -> Struct:
    """The struct of a tensor, with what each field holds."""
    layout = tensor.layout
    fields = [
        Param("int64_t", field_name(p), f"extent {k + 1} of {layout.rank}") for k, p in enumerate(layout.parameters)
    ]
    fields += [Param("int64_t", field_name(s), "size") for s in layout.sizes]
    if tensor.assembled is not None:
        at = [*layout.coordinates]
        axis = tensor.assembled.axis
        if axis is not None:
            at[axis] += f" from at[{axis}] to at[{layout.rank}]"
        what = f"{TYPES[tensor.entry_type].c} values at ({', '.join(at)}), to be packed"
        doc = f"What a result in layout {tensor.assembled.layout.name} whose pattern is computed is packed from."
        return Struct(struct_name(tensor), (*fields, Param(KIND, FIELD, what)), doc)
    kinds = dict(tensor.index_types)
    for index in layout.indexes:
        shape = "".join(f"[{show(e)}]" for e in index.extents)
        ranges = "; ".join(p.text for p in (*index.ranges, *index.properties))
        fields.append(
            Param(f"const {TYPES[kinds[index.name]].c} *", field_name(index.name), f"{shape} {ranges}".strip())
        )
    for value in layout.values:
        shape = "".join(f"[{show(e)}]" for e in value.extents) or "one value"
        place = ", ".join(show(p) for p in value.position)
        fields.append(Param(f"{TYPES[tensor.value_type].c} *", field_name(value.name), f"{shape} at ({place})"))
    tuples = f"[{', '.join(layout.positions)}] -> [{', '.join(layout.coordinates)}]"
    doc = "\n".join(part for part in (layout.doc, f"{{ {tuples} : {show(layout.relation)} }}") if part)
    return Struct(struct_name(tensor), tuple(fields), doc)
