"""Many programs, in processes that may die."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from typing import Any

from tests.replay.corpus import Json, Program
from tests.replay.outcome import as_in_tests, outcome_of

BATCH = 20
"""Programs that a process gets at a time."""


def outcomes(programs: Sequence[Program], processes: int, *, calls: bool = True) -> Iterator[tuple[str, Json]]:
    """What becomes of each. A process that dies takes no other program with it."""
    batches = [programs[k : k + BATCH] for k in range(0, len(programs), BATCH)]
    left: list[Program] = []
    for batch, result in _pooled(batches, processes, calls):
        if result is None:
            left += batch
        else:
            yield from zip((p.key for p in batch), result, strict=True)
    for program in left:
        (((_, result),)) = [*_pooled([[program]], 1, calls)]
        yield program.key, {"refused": {"class": "Died", "message": ""}} if result is None else result[0]


def _pooled(
    batches: Sequence[Sequence[Program]], processes: int, calls: bool
) -> Iterator[tuple[Sequence[Program], list[Json] | None]]:
    with ProcessPoolExecutor(processes, get_context("spawn"), as_in_tests) as pool:
        waiting: dict[Any, Sequence[Program]] = {pool.submit(partial(_all, calls=calls), b): b for b in batches}
        for done in as_completed(waiting):
            try:
                yield waiting[done], done.result()
            except BrokenProcessPool:
                yield waiting[done], None


def _all(programs: Sequence[Program], *, calls: bool) -> list[Json]:
    return [outcome_of(p, calls=calls) for p in programs]
