"""Packing and converting: coordinates to csr and to a tree of fibers; csr to csc, blocks, diagonals and ELLPACK.

Each contestant makes new arrays out of arrays that are there. scipy takes part where it has the format, PyData/Sparse
(`sparse`) too. Blocks of scipy are not sorted within a row of blocks, ours are: `scipy-sorted` sorts them as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from experiments.conversion.contestants import TASKS, prepare_ours
from experiments.conversion.data import BLOCK, Entries, Source, check, facts, tensors
from experiments.conversion.targets import closing
from experiments.data import made, stored
from experiments.harness.case import Case

__all__ = ["cases", "closing"]

LEAST_ENTRIES = 600_000
MOST_DIAGONALS = 64
MOST_PADDING = 4.0


def cases(quick: bool, threads: int) -> list[Case]:
    """Each task with each matrix that suits it, with one thread and with all."""
    found = []
    for count in sorted({1, threads}):
        for source in sources(quick):
            entries = source.load()
            found += [case(task, source, count) for task in TASKS if suits(task, entries)]
    return found


def sources(quick: bool) -> Iterator[Source]:
    """Made ones, then real ones, then tensors."""
    size = 20 if quick else 200
    yield Source("stencil", partial(made.stencil, size * 5))
    yield Source("banded", partial(made.banded, size * 5000, 4))
    yield Source("uniform", partial(made.uniform, size * 5000, size * 5000, 8))
    real = stored.shared_matrices(LEAST_ENTRIES)
    for matrix in real[-1:] if quick else real[:6]:
        yield Source(matrix.name, matrix.load)
    yield from tensors(quick)


def suits(task: str, entries: Entries) -> bool:
    """Whether the format makes sense for the data, and is not many times as large."""
    if (task == "coo3-csf") != (len(entries.shape) == 3):
        return False
    if task == "csr-dia":
        return entries.diagonals <= MOST_DIAGONALS
    if task == "csr-bcsr":
        return entries.blocks * BLOCK**2 <= 2 * MOST_PADDING * entries.count
    if task == "csr-ell":
        return entries.longest_row * entries.shape[0] <= MOST_PADDING * entries.count
    return True


def case(task: str, source: Source, threads: int) -> Case:
    """One task with one source and thread count."""
    return Case(
        label=f"{task}, {source.name}, {threads} thread{'s' if threads > 1 else ''}",
        data=source.load,
        ours=partial(prepare_ours, task=task, threads=threads),
        peers=TASKS[task],
        check=partial(check, task),
        facts=facts,
        threads=threads,
    )
