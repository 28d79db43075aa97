"""Sparse tensors of rank three in the one form that all experiments get: compressed fibres, int32 and float64."""

from __future__ import annotations

import csv
import gzip
import lzma
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

Array = np.ndarray[Any, Any]
OPENERS = {".gz": gzip.open, ".xz": lzma.open}
RANK = 3


@dataclass(frozen=True)
class Fibres:
    """A tree: slices `idx_1`, their fibres `idx_2` in [ptr_2(p), ptr_2(p + 1)), the entries of a fibre likewise."""

    shape: tuple[int, int, int]
    idx_1: Array
    ptr_2: Array
    idx_2: Array
    ptr_3: Array
    idx_3: Array
    val: Array

    @property
    def arrays(self) -> dict[str, Array]:
        """The arrays by the names that the layout csf gives them."""
        return {name: getattr(self, name) for name in ("idx_1", "ptr_2", "idx_2", "ptr_3", "idx_3", "val")}

    @property
    def levels(self) -> list[tuple[Array, Array]]:
        """(pos, crd) of each level, the root with its two ends."""
        root = np.array([0, self.idx_1.size], dtype=np.int32)
        return [(root, self.idx_1), (self.ptr_2, self.idx_2), (self.ptr_3, self.idx_3)]

    @property
    def flat(self) -> csr_array:
        """A matrix with a row for each fibre, over the same arrays."""
        return csr_array((self.val, self.idx_3, self.ptr_3), shape=(self.idx_2.size, self.shape[2]))

    @property
    def slice_of_fibre(self) -> Array:
        """Which slice each fibre is of, counted among those that are stored."""
        return np.repeat(np.arange(self.idx_1.size), np.diff(self.ptr_2))


def fibres(shape: tuple[int, int, int], places: Array, values: Array) -> Fibres:
    """From `places[entry, mode]`, in any order; what stands twice adds up."""
    keys, where = np.unique((places[:, 0] * shape[1] + places[:, 1]) * shape[2] + places[:, 2], return_inverse=True)
    value = np.bincount(where, weights=values, minlength=keys.size)
    above = keys // shape[2]
    pairs, ptr_3 = np.unique(above, return_index=True)
    slices, ptr_2 = np.unique(pairs // shape[1], return_index=True)
    parts = (
        slices,
        np.append(ptr_2, pairs.size),
        pairs % shape[1],
        np.append(ptr_3, keys.size),
        keys % shape[2],
    )
    return Fibres(shape, *(part.astype(np.int32) for part in parts), value.astype(np.float64))


def uniform(shape: tuple[int, int, int], count: int, seed: int = 8) -> Fibres:
    """`count` entries anywhere: with large extents nearly every fibre has one."""
    random = np.random.default_rng(seed)
    places = np.stack([random.integers(0, extent, count) for extent in shape], axis=1)
    return fibres(shape, places, random.uniform(0.5, 1.5, count))


def long_fibres(shape: tuple[int, int, int], how_many: int, length: int, seed: int = 9) -> Fibres:
    """Fibres anywhere, each with about `length` entries."""
    random = np.random.default_rng(seed)
    heads = np.stack([random.integers(0, extent, how_many) for extent in shape[:2]], axis=1)
    places = np.concatenate(
        [np.repeat(heads, length, axis=0), random.integers(0, shape[2], (how_many * length, 1))], axis=1
    )
    return fibres(shape, places, random.uniform(0.5, 1.5, places.shape[0]))


def stored_tensors(least_entries: int) -> list[tuple[str, partial[Fibres]]]:
    """Real tensors of rank three of the group "open" in the folder SPFGEN_DATA, with their loaders, largest first."""
    named = os.environ.get("SPFGEN_DATA")
    if not named:
        return []
    folder = Path(named)
    with (folder / "MANIFEST.tsv").open(newline="") as stream:
        rows = [r for r in csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE) if r["group"] == "open"]
    found = []
    for row in rows:
        shape = tuple(int(n) for n in row["dims"].split("x")) if row["kind"] == "tensor" else ()
        if len(shape) == RANK and ".tns" in row["path"] and int(row["nnz"]) >= least_entries:
            found.append((-int(row["nnz"]), row["name"], partial(read, folder / row["path"], shape)))
    return [(name, load) for _, name, load in sorted(found, key=lambda f: f[:2])]


def read(path: Path, shape: tuple[int, int, int]) -> Fibres:
    """A file in FROSTT's text form: coordinates from 1 on, then the value."""
    with OPENERS.get(path.suffix, open)(path, "rt") as stream:
        table = np.loadtxt(stream, ndmin=2)
    return fibres(shape, table[:, :RANK].astype(np.int64) - 1, table[:, RANK])
