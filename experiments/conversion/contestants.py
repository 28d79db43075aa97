"""Who takes part in each task, and how each is made ready."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from experiments.conversion.data import BLOCK, Entries
from experiments.harness.case import Contestant, Missing, Runner
from experiments.peers.spfgen import module_or_missing

LAYOUTS: Mapping[str, str] = {
    "coo-csr": "csr",
    "sorted-csr": "csr",
    "csr-csc": "csc",
    "csr-bcsr": f"bcsr(R={BLOCK}, C={BLOCK})",
    "csr-dia": "dia",
    "csr-ell": "ell",
    "coo3-csf": "csf(rank=3)",
}
"""Task: the layout that is made."""


def prepare_ours(entries: Entries, task: str, threads: int) -> Runner:
    """spfgen: the functions are compiled by the first call."""
    pack = module_or_missing("spfgen.run.pack")
    points = module_or_missing("spfgen.layout.points")
    layout = _layout(LAYOUTS[task])
    made: list[Any] = []
    if entries.matrix is not None and task.startswith("csr"):
        matrix = entries.matrix
        source = _layout("csr")
        sizes = {"nrow": matrix.shape[0], "ncol": matrix.shape[1], "nnz": matrix.nnz}
        arrays = {"rowptr": matrix.indptr, "colidx": matrix.indices, "val": matrix.data}

        def call() -> None:
            made.clear()
            made.append(pack.convert_arrays(source, sizes, arrays, layout, threads=threads, small=0))
    else:
        coords, values = entries.sorted if task.startswith("sorted") else (entries.coords, entries.values)

        def call() -> None:
            made.clear()
            made.append(pack.pack_entries(layout, entries.shape, coords, values, threads=threads, small=0))

    def result() -> Any:
        packed = made[0]
        return points.to_coordinates(layout, packed.sizes, packed.arrays, packed.arrays)

    return Runner(call, result, (entries,))


def _layout(text: str) -> Any:
    spfgen = module_or_missing("spfgen")
    return spfgen.parse("").layouts[text].layout()


def prepare_scipy(entries: Entries, make: Callable[[Entries], Any]) -> Runner:
    """scipy: new arrays each time."""
    made: list[Any] = []
    make(entries)

    def call() -> None:
        made[:] = [make(entries)]

    def result() -> Any:
        coo = made[0].tocoo()
        return tuple(np.asarray(c) for c in coo.coords), coo.data

    return Runner(call, result, (entries,))


def prepare_sparse(entries: Entries, make: Callable[[Any, Entries], Any]) -> Runner:
    """PyData/Sparse."""
    try:
        sparse = importlib.import_module("sparse")
    except ImportError as error:
        raise Missing(f"{error}; pip install sparse") from error
    made: list[Any] = []

    def call() -> None:
        made[:] = [make(sparse, entries)]

    def result() -> Any:
        coo = made[0].tocoo() if hasattr(made[0], "tocoo") else made[0]
        return tuple(np.asarray(c) for c in coo.coords), coo.data

    return Runner(call, result, (entries,))


def scipy(make: Callable[[Entries], Any], name: str = "scipy") -> Contestant:
    """scipy has one thread."""
    return Contestant(name, lambda entries: prepare_scipy(entries, make), "1 thread")


def sparse(make: Callable[[Any, Entries], Any]) -> Contestant:
    """PyData/Sparse has one thread."""
    return Contestant("sparse", lambda entries: prepare_sparse(entries, make), "1 thread")


def _coo(entries: Entries) -> Any:
    """A new object, so that nothing that scipy found out the last time is known."""
    return type(entries.coo)((entries.values, entries.coords), shape=entries.shape)


def _sorted_coo(entries: Entries) -> Any:
    coords, values = entries.sorted
    return type(entries.coo)((values, coords), shape=entries.shape)


def _rows(entries: Entries) -> Any:
    assert entries.matrix is not None
    return entries.matrix


def _sorted_blocks(entries: Entries) -> Any:
    made = _rows(entries).tobsr((BLOCK, BLOCK))
    made.sort_indices()
    return made


def _gcxs(sparse: Any, entries: Entries) -> Any:
    coo = sparse.COO(np.stack(entries.coords), entries.values, shape=entries.shape)
    return sparse.GCXS.from_coo(coo, compressed_axes=[0])


TASKS: Mapping[str, tuple[Contestant, ...]] = {
    "coo-csr": (scipy(lambda e: _coo(e).tocsr()), sparse(_gcxs)),
    "sorted-csr": (scipy(lambda e: _sorted_coo(e).tocsr()),),
    "csr-csc": (scipy(lambda e: _rows(e).tocsc()),),
    "csr-bcsr": (scipy(lambda e: _rows(e).tobsr((BLOCK, BLOCK))), scipy(_sorted_blocks, "scipy-sorted")),
    "csr-dia": (scipy(lambda e: _rows(e).todia()),),
    "csr-ell": (),
    "coo3-csf": (sparse(_gcxs),),
}
