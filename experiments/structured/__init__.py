"""Data with structure: y = A x by layout, sums over runs, and blending of images of runs, beside SciPy and numpy.

A band and blocks are stored as csr, and in layouts that say what they are. A vector with runs is added up, and two
images with runs in their rows are blended, by one step for each run; numpy works on dense arrays, with one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from experiments.data import made
from experiments.harness import targets
from experiments.harness.case import Case, Contestant, Runner
from experiments.harness.pace import Pace
from experiments.harness.race import Outcome
from experiments.harness.targets import Target
from experiments.peers.kernels import measured, returning, same

Array = np.ndarray[Any, Any]

CALL_SECONDS, TOTAL_SECONDS = 20.0, 5.0
TARGETS = (
    Target("scipy, SpMV", ("scipy",), part="SpMV"),
    Target("our csr, SpMV", ("ours-csr",), part="SpMV"),
    Target("numpy, runs", ("numpy",), part="runs"),
)


@dataclass(frozen=True)
class Task:
    """A computation on made data: its text, the layouts, what it means."""

    name: str
    text: str
    layouts: Mapping[str, str]
    make: Callable[[bool], dict[str, Any]]
    meaning: Callable[..., Any]
    others: Mapping[str, Mapping[str, str]]
    """Further contestants of ours: the layouts that differ."""
    peer: str = "numpy"


def band(quick: bool) -> dict[str, Any]:
    """A matrix with five diagonals, whole numbers."""
    return with_vector(made.banded(200 if quick else 200_000, 2))


def blocks(quick: bool) -> dict[str, Any]:
    """A stencil of dense blocks of 3x3."""
    return with_vector(made.blocks(made.stencil(6 if quick else 120), 3))


def with_vector(matrix: csr_array) -> dict[str, Any]:
    """The pattern of a matrix with whole numbers, and a vector: all sums are exact."""
    random = np.random.default_rng(60)
    matrix.data = random.integers(1, 9, matrix.nnz).astype(float)
    return {"A": matrix, "x": random.integers(0, 9, matrix.shape[1]).astype(float)}


def long_runs(quick: bool) -> dict[str, Any]:
    """A vector whose values stay the same for about fifty places."""
    random = np.random.default_rng(61)
    count = 40 if quick else 100_000
    return {"a": np.repeat(random.integers(0, 9, count).astype(float), random.integers(1, 100, count))}


def images(quick: bool) -> dict[str, Any]:
    """Two images: in their rows, values stay the same for 8 places and for 12."""
    random = np.random.default_rng(62)
    rows, columns = (12, 48) if quick else (2000, 2400)
    a, b = (
        np.repeat(random.integers(0, 256, (rows, columns // length)), length, axis=1).astype(float)
        for length in (8, 12)
    )
    return {"A": a, "B": b}


SPMV = "y[i] = A[i,j]*x[j]"
TASKS = (
    Task(
        "SpMV of a band",
        SPMV,
        {"A": "band(kl=2, ku=2)", "x": "dense", "y": "dense"},
        band,
        lambda A, x: A @ x,  # noqa: N803
        {"csr": {"A": "csr"}, "dia": {"A": "dia"}, "vbl": {"A": "vbl"}},
        "scipy",
    ),
    Task(
        "SpMV of blocks",
        SPMV,
        {"A": "bcsr(R=3, C=3)", "x": "dense", "y": "dense"},
        blocks,
        lambda A, x: A @ x,  # noqa: N803
        {"csr": {"A": "csr"}, "vbl": {"A": "vbl"}},
        "scipy",
    ),
    Task("sum over runs", "s = sum(i: a[i])", {"a": "rle"}, long_runs, lambda a: a.sum(), {"dense": {"a": "dense"}}),
    Task(
        "blending of runs",
        "C[i,j] = round(0.25*A[i,j] + 0.75*B[i,j])",
        {"A": "csr_rle", "B": "csr_rle", "C": "csr_rle"},
        images,
        lambda A, B: np.round(0.25 * A + 0.75 * B),  # noqa: N803
        {"dense result": {"C": "dense"}},
    ),
)


def cases(quick: bool, threads: int) -> list[Case]:
    """Each task, with one thread and with all."""
    return [case(task, quick, count) for count in sorted({1, threads}) for task in TASKS]


def case(task: Task, quick: bool, threads: int) -> Case:
    """One task."""
    others = tuple(
        Contestant(f"ours-{name.replace(' ', '-')}", partial(prepare_ours, task=task, changes=changes, threads=threads))
        for name, changes in task.others.items()
    )
    return Case(
        label=f"{task.name}, {threads} thread{'s' if threads > 1 else ''}",
        data=partial(task.make, quick),
        ours=partial(prepare_ours, task=task, changes={}, threads=threads),
        peers=(*others, Contestant(task.peer, partial(prepare_peer, task=task), "1 thread")),
        check=lambda data: same(np.asarray(task.meaning(**data))),
        threads=threads,
        pace=Pace(CALL_SECONDS, TOTAL_SECONDS),
    )


def prepare_ours(data: dict[str, Any], task: Task, changes: Mapping[str, str], threads: int) -> Runner:
    """spfgen's kernel."""
    return returning(task.text, {**task.layouts, **changes}, data, threads)


def prepare_peer(data: dict[str, Any], task: Task) -> Runner:
    """SciPy or numpy."""
    return measured(lambda: task.meaning(**data))


def closing(outcomes: Sequence[Outcome]) -> str:
    """The end of the report."""
    return targets.closing(outcomes, TARGETS)
