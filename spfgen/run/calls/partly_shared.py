"""Results that share some index arrays with an operand, or own arrays that other results share, and are not passed:
their patterns are computed first.

The kernel runs once with the result's own pattern computed. Where the owner of the shared arrays stores a coordinate
that the result does not have, the result stores its fill value there, so that both have the same arrays.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from spfgen.facts.formula import Var
from spfgen.lang import nodes as lang
from spfgen.lang.uses import accesses_in
from spfgen.layout.points import row_ranks
from spfgen.run.calls.kernels import CompiledKernel
from spfgen.run.coordinates import Coordinates
from spfgen.run.tensor import Array, Tensor
from spfgen.space.nodes import Tensor as Declared


def with_own_pattern(
    kernel: CompiledKernel, declared: Declared, tensors: Mapping[str, Tensor], sizes: Mapping[str, int], threads: int
) -> Tensor | None:
    """The result with its pattern; its values are overwritten. None where that is no such result."""
    from spfgen.run.calls.bind import packed

    declaration = next((d for d in kernel.parsed.tensors if d.name == declared.name), None)
    if declaration is None:  # a scalar
        return None
    shares, outputs = declaration.shares, {t.name for t in kernel.program.tensors if t.is_output}
    lent = {d.name for d in kernel.parsed.tensors if d.shares is not None and d.shares.tensor == declaration.name}
    if shares is None and lent:
        return _computed(kernel, declaration.name, {declaration.name, *lent}, tensors, sizes, threads)
    if shares is None or not shares.indices or shares.tensor not in tensors or shares.tensor in outputs:
        return None
    axes = _places(kernel.parsed, declaration.name, shares)
    result = None if axes is None else _computed(kernel, declaration.name, {declaration.name}, tensors, sizes, threads)
    if axes is None or result is None:
        return None
    layout = kernel.layouts[declaration.name]
    entries = _with_all(result.to_coo(), tensors[shares.tensor].to_coo().coords, *axes)
    types = {
        a.name: tensors[owner].arrays[shared_array].dtype.name for a, owner, shared_array in _shared(declared, tensors)
    }
    kinds = {**dict(declared.index_types), **types}
    whole = packed(layout, entries, declaration.name, kinds, True, "sum", threads)
    arrays = dict(whole.arrays)
    for index, owner, shared_array in _shared(declared, tensors):
        theirs = tensors[owner].arrays[shared_array]
        if not np.array_equal(arrays[index.name], theirs):
            return None
        arrays[index.name] = theirs
    return Tensor(layout, whole.sizes, arrays)


def _computed(
    kernel: CompiledKernel,
    name: str,
    alone: Collection[str],
    tensors: Mapping[str, Tensor],
    sizes: Mapping[str, int],
    threads: int,
) -> Tensor | None:
    """The result where these have patterns of their own; None where these cannot be computed."""
    from spfgen.space.assembled import may_be_assembled

    declarations = (replace(d, shares=None, assembled=True) if d.name in alone else d for d in kernel.parsed.tensors)
    text = replace(kernel.parsed, tensors=tuple(declarations))
    if not may_be_assembled(text, kernel.layouts).issuperset(alone):
        return None
    outputs = {t.name for t in kernel.program.tensors if t.is_output}
    given: dict[str, Any] = {n: t for n, t in tensors.items() if n not in outputs}
    bound = kernel.with_text(text).bound(given, sizes, threads, "never")
    bound()
    return bound.tensors[name]


def _shared(declared: Declared, tensors: Mapping[str, Tensor]) -> list[tuple[Any, str, str]]:
    """The index arrays that are another tensor's, with the tensor and the array."""
    parts = [(declared.layout.index(array), *function.partition(".")[::2]) for array, function in declared.arrays]
    return [
        (index, owner, shared_array)
        for index, owner, shared_array in parts
        if owner != declared.name and owner in tensors
    ]


def _places(kernel: lang.Kernel, name: str, shares: lang.Shares) -> tuple[list[int], list[int]] | None:
    """Of the shared indices which coordinates they are, of the result and of the owner."""
    used = [*accesses_in(kernel.statements)]
    places: list[list[int]] = []
    for tensor in (name, shares.tensor):
        access = next((a for a in used if a.tensor == tensor and {*map(Var, shares.indices)} <= {*a.subscripts}), None)
        if access is None:
            return None
        places.append([access.subscripts.index(Var(i)) for i in shares.indices])
    return places[0], places[1]


def _with_all(entries: Coordinates, theirs: tuple[Array, ...], axes: list[int], places: list[int]) -> Coordinates:
    """With an entry of nothing for each shared position that has none, at the first coordinate of all others."""
    count = len(entries.values)
    columns = [np.concatenate([entries.coords[k], theirs[p]]) for k, p in zip(axes, places, strict=True)]
    group, first = row_ranks(columns, len(columns[0]))
    missing = np.ones(len(first), bool)
    missing[group[:count]] = False
    rows = first[missing]
    more = [np.zeros(len(rows), np.int64) for _ in entries.coords]
    for k, column in zip(axes, columns, strict=True):
        more[k] = column[rows]
    coords = tuple(np.concatenate([c, m]) for c, m in zip(entries.coords, more, strict=True))
    values = np.concatenate([entries.values, np.zeros(len(rows), entries.values.dtype)])
    return Coordinates(entries.shape, coords, values)
