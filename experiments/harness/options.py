"""The options of one run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says. `peers` None means all of them; `resume`: cases in `json` are not run again."""

    name: str
    quick: bool
    peers: tuple[str, ...] | None
    threads: int
    rounds: int
    json: Path
    label_part: str = ""
    resume: bool = False
