"""Conversion by the kernel that copies: `B[i, j] = A[i, j]`, whose C counts entries and puts each in its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spfgen.disk_cache import compiled
from spfgen.errors import SpfgenError
from spfgen.lang import nodes as lang
from spfgen.lang.parse import parse_statements
from spfgen.layout.nodes import Layout
from spfgen.layout.pack import Packed
from spfgen.layout.points import Array
from spfgen.run.assembly import Assembly, pending
from spfgen.run.calls.call import Entry, function_name
from spfgen.run.compile import build, load
from spfgen.run.tensor import Tensor

Kinds = tuple[tuple[str, str], ...]
"""The types of index arrays."""


class NoPlace(Exception):
    """The C has no place for an entry, or no number for it, or no memory."""


@dataclass(frozen=True, eq=False)
class Copy:
    """A compiled kernel that copies a layout to another."""

    entry: Entry
    source: Layout
    assembly: Assembly
    value: str

    def __call__(self, sizes: Mapping[str, int], arrays: Mapping[str, Array], threads: int) -> Packed:
        """The arrays of the other layout. Raises NoPlace."""
        shape = [sizes[p] for p in self.source.parameters]
        target = next(t for t in self.entry.program.tensors if t.name == "B")
        extents = dict(zip(target.layout.parameters, shape, strict=True))
        given = {"A": Tensor(self.source, dict(sizes), dict(arrays)), "B": pending(target, extents, self.value)}
        bound = self.entry.bind(given, {}, threads, ("B",), "never", {"B": self.assembly})
        bound.otherwise = _without_place
        try:
            bound()
        except SpfgenError as error:
            raise NoPlace from error
        made = bound.tensors["B"]
        return Packed(dict(made.sizes), dict(made.arrays))


def _without_place(status: int) -> Any:
    raise NoPlace(status)


def copy_of(source: Layout, own: Kinds, target: Layout, kinds: Kinds, value: str, without_fill: bool) -> Copy:
    """Compiled, or from the disk. Raises SpfgenError."""
    at = ", ".join(f"i{k}" for k in range(source.rank))
    statements = tuple(parse_statements(f"B[{at}] = A[{at}]", functions={}))
    tensors = (
        lang.TensorDecl("A", lang.LayoutUse(source.name, value, None, own, source.constants)),
        lang.TensorDecl("B", lang.LayoutUse(target.name, value, None, kinds, target.constants), assembled=True),
    )
    kernel = lang.Kernel("copy", tensors, (), statements, without_fill=without_fill)
    made = compiled(kernel, {"A": source, "B": target})
    function = None if made.refused else getattr(load(build(made.whole)), function_name(made.program))
    if function is None:
        raise NoPlace
    return Copy(Entry(made.program, function), source, Assembly(target, dict(kinds), True), value)
