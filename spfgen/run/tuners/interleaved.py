"""Two bound kernels timed in calls that alternate: on a machine that others use too, times from different moments say
little."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from spfgen.errors import InternalError
from spfgen.run.calls.call import Bound
from spfgen.run.job import values_of
from spfgen.run.tensor import Array

BETTER = 0.97
"""So much of the best one's time at most, or it is noise."""
HOPELESS = 1.25
"""What takes so much longer in its first calls is measured no further."""
FIRST, MORE = 3, 9
"""Calls for a first impression, and calls of each that alternate."""
TICK = 1e-9
"""Seconds: a clock may be too coarse to see a call."""
SHORTEST = 2e-4
"""Seconds: shorter calls are measured several at a time."""


@dataclass(frozen=True)
class Ready:
    """A compiled kernel with its operands in place, and the values that its outputs have before each call."""

    bound: Bound
    before: Mapping[str, Mapping[str, Array]]

    def call(self) -> float:
        """Seconds of one call, from the same start each time."""
        for name, arrays in self.before.items():
            for array, values in arrays.items():
                self.bound.tensors[name].arrays[array][...] = values
        start = time.perf_counter()
        self.bound()
        return time.perf_counter() - start

    def fastest(self) -> float:
        """Seconds of the fastest of some calls."""
        return max(TICK, min(self.call() for _ in range(FIRST + MORE)))


def ready(bound: Bound) -> Ready:
    """The kernel with the values that its outputs have now."""
    return Ready(bound, {t.name: values_of(bound.tensors[t.name]) for t in bound.program.tensors if t.is_output})


def measured(best: Ready, other: Ready) -> tuple[float, float]:
    """The other's time over the best one's, of calls that alternate, and the other's seconds.

    The ratio is that of the medians or that of the fastest calls, whichever is larger: noise seldom helps both.
    """
    calls = max(1, int(SHORTEST / max(best.call(), SHORTEST / 1000)))
    pairs = []
    for number in range(FIRST + MORE):
        pairs.append(tuple(sum(m.call() for _ in range(calls)) / calls for m in (best, other)))
        if number + 1 == FIRST and min(b for _, b in pairs) > HOPELESS * min(a for a, _ in pairs):
            break
    times = np.maximum(np.asarray(pairs), TICK)
    median, fastest = np.median(times, axis=0), np.min(times, axis=0)
    return max(float(median[1] / median[0]), float(fastest[1] / fastest[0])), float(fastest[1])


def passed_over(candidate: str, error: Exception) -> None:
    """The search goes on without a candidate that is not possible; of a mistake of ours it tells."""
    if isinstance(error, InternalError):
        warnings.warn(f"skipped because of a bug in spfgen: {candidate}: {error}", stacklevel=2)
