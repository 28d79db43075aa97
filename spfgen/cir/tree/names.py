"""C names for dimensions, arrays and sizes: the names of the spec, prefixed by the tensor where they would clash."""

from __future__ import annotations

import re
from collections.abc import Iterable

from spfgen.ir import fresh
from spfgen.lang.types import KEYWORDS, has_meaning_in_c
from spfgen.space.nodes import Program


def identifier(text: str) -> str:
    """Letters, digits and underscores only: `A.rowptr(i + 1)` becomes `A_rowptr_i_1`."""
    plain = re.sub(r"\W+", "_", text).strip("_")
    return f"v_{plain}" if not plain or plain[0].isdigit() or plain.lower().startswith("spfgen_") else plain


def parameters(program: Program) -> dict[str, str]:
    """The parameter of each tensor: its own name, or another where that means something in C already."""
    taken = {*KEYWORDS, program.name, *(t.name for t in program.tensors)}
    names: dict[str, str] = {}
    for tensor in program.tensors:
        name = tensor.name
        if has_meaning_in_c(name) or name == program.name:
            plain = name.strip("_")
            name = fresh(f"t_{plain}" if has_meaning_in_c(f"{plain}_") else f"{plain}_", taken)
            taken.add(name)
        names[tensor.name] = name
    return names


class Names:
    """A table from dimension names to C names, made once per kernel; `tensors` are the names of parameters."""

    def __init__(self, program: Program, dims: Iterable[str]) -> None:
        self.tensors = parameters(program)
        self.taken = {*KEYWORDS, program.name, *(t.name for t in program.tensors), *self.tensors.values()}
        self.table: dict[str, str] = {}
        wanted: dict[str, list[str]] = {}
        for dim in dims:
            wanted.setdefault(self.short(dim), []).append(dim)
        for short, owners in wanted.items():
            for dim in owners:
                name = short if len(owners) == 1 and short not in self.taken else identifier(dim)
                self.table[dim] = fresh(name, self.taken)
                self.taken.add(self.table[dim])

    @staticmethod
    def short(dim: str) -> str:
        """`A.pj` is `pj`, and `A.rowptr(A.pi + 1)` is `rowptr_pi_1`."""
        return identifier(re.sub(r"\b\w+\.(?=\w)", "", dim))

    def new(self, wanted: str) -> str:
        name = fresh(identifier(wanted), self.taken)
        self.taken.add(name)
        return name

    def __getitem__(self, dim: str) -> str:
        return self.table[dim]
