"""Slow contestants in a series of growing cases: how often each is called, and when it is left out."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

CALIBRATION_CALLS = 3


@dataclass(slots=True)
class Pace:
    """What the series has seen of each contestant.

    One whose call takes longer than `call_seconds` is not timed. All calls of one may take about `total_seconds`
    together: a slow one is not woken before each sample, and when that does not help, has fewer of them.
    """

    call_seconds: float
    total_seconds: float
    seen: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def note(self, title: str, size: float, seconds: float) -> None:
        """The first call of a contestant in the case of this size took so long."""
        self.seen.setdefault(title, []).append((size, seconds))

    def expected(self, title: str, size: float) -> float:
        """Seconds of a call at this size, when it goes on growing as it did last; 0 when nothing is known."""
        points = self.seen.get(title, [])
        if not points:
            return 0.0
        last_size, last = points[-1]
        size_before, before = points[-2] if len(points) > 1 else points[-1]
        if not size > last_size > size_before:
            return last
        grown = math.log(max(last / max(before, 1e-9), 1.0)) / math.log(last_size / size_before)
        return last * math.pow(size / last_size, grown)

    def rounds(self, seconds: float, most: int) -> int | None:
        """How many samples a slow contestant has, whose call takes so long; None for one that is not slow.

        0 when the first call has used up its time: then that call is its only sample.
        """
        if (2 * most + CALIBRATION_CALLS) * seconds <= self.total_seconds:
            return None
        return min(most, int(self.total_seconds / seconds))
