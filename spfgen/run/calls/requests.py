"""What `spfgen run` is asked for: where operands come from, and where results go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Job:
    """`data` names a source for each operand: a file, a number for a scalar, `random` or `random:DENSITY`; `outputs`
    a file for results; `shapes` the extents of operands."""

    data: Mapping[str, str]
    sizes: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    seed: int = 0
    outputs: Mapping[str, str] = field(default_factory=dict)
    repeat: int = 5
    check: bool = False
    force: bool = False
