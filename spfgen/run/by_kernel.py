"""Conversion by the kernel that copies: `B[i, j] = A[i, j]`, whose C counts entries and puts each in its place.

Where coordinates that are given more than once are not added up, it is `B[i, j] = max(n: A[n, i, j])` of entries with
their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spfgen.errors import SpfgenError
from spfgen.lang import nodes as lang
from spfgen.lang.parse import parse_statements
from spfgen.layout.nodes import Layout
from spfgen.layout.pack import Packed
from spfgen.layout.points import Array
from spfgen.run.calls.kernels import MAKER, CompiledKernel
from spfgen.run.tensor import Tensor

Kinds = tuple[tuple[str, str], ...]
"""The types of index arrays."""


class CopyFailed(Exception):
    """The C has no place for an entry, or no number for it, or no memory."""


@dataclass(frozen=True, eq=False)
class CopyKernel:
    """A compiled kernel that copies a layout to another."""

    kernel: CompiledKernel
    source: Layout

    def __call__(self, sizes: Mapping[str, int], arrays: Mapping[str, Array], threads: int) -> Packed:
        """The arrays of the other layout. Raises CopyFailed."""
        given = Tensor(self.source, dict(sizes), dict(arrays))
        try:
            bound = self.kernel.bound({"A": given}, None, threads, "never")
            bound.otherwise = _without_place
            bound()
        except SpfgenError as error:
            raise CopyFailed from error
        packed = bound.tensors["B"]
        return Packed(dict(packed.sizes), dict(packed.arrays))


def _without_place(status: int) -> Any:
    raise CopyFailed(status)


def copy_of(
    source: Layout,
    source_types: Kinds,
    target: Layout,
    kinds: Kinds,
    value: str,
    without_fill: bool,
    combining: str = "",
) -> CopyKernel:
    """Compiled, or from the disk. `combining`: the reduction of the first coordinate of the source, which numbers
    entries. Raises SpfgenError."""
    at = ", ".join(f"i{k}" for k in range(target.rank))
    copied = f"{combining}(n: A[n, {at}])" if combining else f"A[{at}]"
    statements = tuple(parse_statements(f"B[{at}] = {copied}", functions={}))
    tensors = (
        lang.TensorDecl("A", lang.LayoutUse(source.name, value, None, source_types, source.constants)),
        lang.TensorDecl("B", lang.LayoutUse(target.name, value, None, kinds, target.constants), assembled=True),
    )
    text = lang.Kernel("copy", tensors, (), statements, without_fill=without_fill)
    kernel = MAKER().kept_kernel(text, {"A": source, "B": target})
    kernel.build()
    return CopyKernel(kernel, source)
