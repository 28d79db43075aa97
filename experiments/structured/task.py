"""One computation of the experiment, and who takes part in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from experiments.harness.case import Case, Contestant, Runner
from experiments.harness.pace import Pace
from experiments.peers.kernels import dense, measured, returning, same

Data = dict[str, Any]
Peer = Callable[[Data, int], Runner]

CALL_SECONDS, TOTAL_SECONDS = 20.0, 2.0


@dataclass(frozen=True)
class Task:
    """A computation on made data: its text, the layouts, what it means.

    `others` are further contestants of ours by the layouts (or the text) that differ; `plain` is the name of the peer
    that computes the meaning itself, with one thread.
    """

    name: str
    text: str
    layouts: Mapping[str, str]
    make: Callable[[bool], Data]
    meaning: Callable[..., Any]
    others: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    plain: str = "numpy"
    peers: Mapping[str, Peer] = field(default_factory=dict)
    operands: Callable[[Data], Data] = lambda data: data
    """What ours gets, where that is another form of the data."""
    result: Callable[[Any, Data], Any] = lambda found, data: found
    """The form that is compared, of what ours returns."""
    sizes: Callable[[Data], Mapping[str, int]] | None = None
    """Extents of the result that do not follow from the operands."""


TEXT = "text"
"""In `others`, the key of another text."""


def case(task: Task, quick: bool, threads: int) -> Case:
    """One task."""
    others = tuple(
        Contestant(f"ours-{name.replace(' ', '-')}", partial(prepare_ours, task=task, changes=changes, threads=threads))
        for name, changes in task.others.items()
    )
    peers = tuple(Contestant(name, partial(prepare, threads=threads)) for name, prepare in task.peers.items())
    return Case(
        label=f"{task.name}, {threads} thread{'s' if threads > 1 else ''}",
        data=partial(task.make, quick),
        ours=partial(prepare_ours, task=task, changes={}, threads=threads),
        peers=(*others, *peers, Contestant(task.plain, partial(prepare_plain, task=task), "1 thread")),
        check=partial(check, task),
        threads=threads,
        pace=Pace(CALL_SECONDS, TOTAL_SECONDS),
    )


def prepare_ours(data: Data, task: Task, changes: Mapping[str, str], threads: int) -> Runner:
    """spfgen's kernel."""
    layouts = {**task.layouts, **{n: layout for n, layout in changes.items() if n != TEXT}}
    given = task.operands(data) if TEXT not in changes else data
    sizes = task.sizes(data) if task.sizes else None
    ready = returning(changes.get(TEXT, task.text), layouts, given, threads, sizes)
    if TEXT in changes:
        return ready
    return Runner(ready.call, lambda: task.result(ready.call(), data), ready.keep, ready.remark)


def prepare_plain(data: Data, task: Task) -> Runner:
    """The meaning itself, by SciPy or numpy."""
    return measured(lambda: task.meaning(**data))


def check(task: Task, data: Data) -> Callable[[Any], str]:
    """Element by element: whole numbers, so that sums are exact."""
    return same(dense(task.meaning(**data)))
