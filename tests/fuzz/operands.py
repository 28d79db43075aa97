"""Random operands in any layout: index arrays, values at every place, and what they mean."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from spfgen.layout.nodes import Layout
from spfgen.run.tensor import Tensor, extents_of
from tests.differential.support import packed, storable_pattern
from tests.fuzz import meaning, unseen
from tests.oracle import Stored

Array = np.ndarray[Any, Any]
MAKERS = {**{n: u.make for n, u in unseen.ALL.items()}, **unseen.MAKERS}
"""What makes random arrays of layouts that nothing packs."""


@dataclass(frozen=True)
class Operand:
    """`entries` are the stored values; a place that no entry has holds rubbish."""

    tensor: Tensor
    entries: list[meaning.Entry]

    @property
    def layout(self) -> Layout:
        return self.tensor.layout

    def plain(self) -> bool:
        """Dense as numpy knows it."""
        return self.layout.rank == 0 or any(b.library == "numpy" for b in self.layout.bindings)

    @property
    def is_full(self) -> bool:
        """Whether each coordinate is stored."""
        return len({entry.coordinate for entry in self.entries}) == math.prod(self.tensor.shape)

    def meaning(self) -> Stored | Array:
        """What the reference is given."""
        if self.layout.rank == 0:
            return self.tensor.arrays[self.layout.values[0].name]
        if self.plain():
            dense = np.zeros(self.tensor.shape, self.tensor.dtype)
            for entry in self.entries:
                dense[entry.coordinate] = entry.value(self.tensor.arrays)
            return dense
        return meaning.stored(self.layout, self.tensor.shape, self.entries, self.tensor.arrays)

    def copy(self) -> Operand:
        return replace(self, tensor=replace(self.tensor, arrays={n: a.copy() for n, a in self.tensor.arrays.items()}))


def random_values(rng: np.random.Generator, shape: tuple[int, ...], kind: str, positive: bool = False) -> Array:
    """Small numbers, exact in every sum; for scalars powers of two, so that quotients are exact too."""
    dtype = np.dtype(kind)
    positive = positive or dtype.kind in "ub"
    if not shape:
        return np.asarray(rng.choice([1, 2, 4] if positive else [-2, 1, 2, 4])).astype(dtype)
    values = rng.integers(0 if positive else -4, 2 if dtype.kind == "b" else 5, shape).astype(dtype)
    if dtype.kind == "c":
        values += (1j * rng.integers(-3, 4, shape)).astype(dtype)
    return values


def rubbish(array: Array) -> None:
    """What must never be used: nan, or large numbers."""
    if array.dtype.kind in "fc":
        array[...] = np.nan
    elif array.dtype.kind != "b":
        array[...] = 77


def make(
    layout: Layout,
    shape: tuple[int, ...],
    density: float,
    seed: int,
    kind: str = "float64",
    kinds: Mapping[str, str] | None = None,
    fill: str = "values",
    shared: Tensor | None = None,
) -> Operand:
    """A random tensor. `fill` is `values`, `positive` (no value below zero), or `rubbish` for an output; `shared`
    lends its sizes and index arrays."""
    rng = np.random.default_rng([seed, 11, *shape])
    known = layout.name in MAKERS
    if shared is not None:
        sizes = dict(shared.sizes)
        arrays = {a.name: shared.arrays[a.name] for a in layout.indexes}
        found = meaning.entries(layout, sizes, arrays)
    else:
        own = tuple((a.name, (kinds or {}).get(a.name, "int32")) for a in layout.indexes)
        given, indexes, found = _stored(layout, shape, density, seed if known else seed % 3, own)
        sizes = dict(given)
        arrays = {name: array.copy() for name, array in indexes.items()}
    for value in layout.values:
        array = arrays[value.name] = np.zeros(extents_of(layout, value.name, sizes), kind)
        rubbish(array)
    if fill != "rubbish":
        for value in layout.values:
            values = random_values(rng, arrays[value.name].shape, kind, fill == "positive")
            for entry in found:
                if entry.array == value.name:
                    arrays[value.name][entry.place] = values[entry.place]
    return Operand(Tensor(layout, sizes, arrays), found)


@lru_cache(maxsize=2048)
def _stored(
    layout: Layout, shape: tuple[int, ...], density: float, seed: int, kinds: tuple[tuple[str, str], ...]
) -> tuple[Mapping[str, int], Mapping[str, Array], list[meaning.Entry]]:
    """Sizes, index arrays and what they mean: many kernels have the same operands."""
    if layout.name in MAKERS:
        sizes, arrays = unseen.index_arrays(layout, MAKERS[layout.name], seed, shape, density, dict(kinds))
        return sizes, arrays, meaning.entries(layout, sizes, arrays)
    pattern = storable_pattern(layout, shape, density, seed) if layout.indexes else np.zeros(shape)
    tensor = packed(layout, pattern.astype(np.float64)) if layout.rank else None
    sizes = dict(tensor.sizes) if tensor is not None else {}
    arrays = {name: tensor.arrays[name].astype(kind) for name, kind in kinds if tensor is not None}
    return sizes, arrays, meaning.entries(layout, sizes, arrays)
