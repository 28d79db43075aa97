"""What an experiment declares: cases, each with its data, contestants and check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from experiments.harness.pace import Pace

OURS = "ours"


class Missing(Exception):
    """A contestant cannot take part here; the text says why."""


class Refused(Missing):
    """A contestant is there but declines this task; the text says why."""


@dataclass(frozen=True, slots=True)
class Runner:
    """A contestant that is ready: `call` is what is timed.

    `result` finds the outcome when `call` writes into an array instead of returning it. `keep` holds what
    foreign code points at. `remark` is what was found out, and how long it took, while it was made ready.
    """

    call: Callable[[], Any]
    result: Callable[[], Any] | None = None
    keep: tuple[Any, ...] = ()
    remark: str = ""


Prepare = Callable[[Any], Runner]
"""From the data of a case to a runner: conversions, compilation and allocation happen here, untimed."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """One setting of one peer. Of the settings of a peer only the fastest counts in the table."""

    name: str
    prepare: Prepare
    setting: str = ""

    @property
    def title(self) -> str:
        """The name with the setting."""
        return f"{self.name} [{self.setting}]" if self.setting else self.name


@dataclass(frozen=True, slots=True)
class Case:
    """One line of comparison.

    `check(data)` computes the reference once and gives a function from a result to a complaint ("" when the
    result is right). `bytes_moved` is the least traffic with memory that the kernel can do with. `threads` is
    for a case that does not use the threads of the run. Cases of one series share a `pace`; `size` grows in it.
    """

    label: str
    data: Callable[[], Any]
    ours: Prepare
    peers: tuple[Contestant, ...]
    check: Callable[[Any], Callable[[Any], str]]
    bytes_moved: Callable[[Any], int] | None = None
    facts: Callable[[Any], Mapping[str, int]] | None = None
    limit_seconds: float | None = None
    notes: tuple[str, ...] = field(default=())
    threads: int | None = None
    pace: Pace | None = None
    size: float = 0.0

    @property
    def contestants(self) -> tuple[Contestant, ...]:
        """Ours first, then the peers."""
        return (Contestant(OURS, self.ours), *self.peers)
