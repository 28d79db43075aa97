"""Interleaved samples of several calls, and their statistics. The clock is a parameter: tests fake it."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from experiments.harness.machine import others_running, waited_for_cores

Call = Callable[[], Any]
Clock = Callable[[], int]
"""Nanoseconds since some fixed moment."""

SAMPLE_NS = 2_000_000
PAUSE_SECONDS = 0.01
MOST_PAUSES = 50
PATIENCE_NS = 10_000_000_000
PATIENCE_OF_RUN = 30.0
"""Seconds that one run waits for other processes, in all."""
_WAITED = [0.0]
QUIET_SHARE = 0.05
WARM = 3
"""Calls before a sample."""
AGAIN, LONG = 4, 50
"""Trials of a sample that may be too short, and times as long as it should be, from which on one is enough."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Nanoseconds per call, one for each round; `disturbed` of them while others had some of the cores."""

    samples: tuple[float, ...]
    calls_per_sample: int
    disturbed: int = 0

    @property
    def median(self) -> float:
        """The middle one."""
        return median(self.samples)


def sample(call: Call, count: int, clock: Clock) -> int:
    """Nanoseconds that `count` calls take together."""
    turns = range(count)
    start = clock()
    for _ in turns:
        call()
    return clock() - start


def calibrate(call: Call, clock: Clock, target: int = SAMPLE_NS) -> int:
    """How many calls make a sample of at least `target` nanoseconds."""
    count = 1
    while True:
        taken = sample(call, count, clock)
        # Again, because hiccups of the system can make a short call look long enough: two in a row were seen.
        for _ in range(AGAIN if taken < LONG * target else 1):
            if taken >= target:
                taken = min(taken, sample(call, count, clock))
        if taken >= target:
            return count
        # The first calls are slow (cold caches, sleeping threads), so approach the target from below.
        wanted = math.ceil(1.1 * count * target / max(taken, 1))
        count = max(count + 1, min(wanted, 10 * count))


def pause(threads: int = 1) -> None:
    """Let the threads of the last contestant go to sleep: a pool that still spins would slow the next one.

    Then wait, but not for ever, until other processes leave as many processors as there are threads. Who has waited
    in vain for long in all does not wait any more: the machine is busy, and the run is to end.
    """
    for _ in range(MOST_PAUSES if _WAITED[0] < PATIENCE_OF_RUN else 1):
        time.sleep(PAUSE_SECONDS)
        if others_running() + threads <= (os.cpu_count() or 1):
            return
        _WAITED[0] += PAUSE_SECONDS


def interleave(
    calls: Mapping[str, Call],
    rounds: int,
    clock: Clock = time.perf_counter_ns,
    between: Call = pause,
    waited: Clock = waited_for_cores,
    fewer: Mapping[str, int] | None = None,
) -> dict[str, Timing]:
    """Times of all calls, in rounds A B C A B C ..., so that a drift of the machine hits all alike.

    Before each sample untimed calls wake the contestant's own threads and bring its data to the caches: on four
    threads the second call after a pause was seen to take half as long again as the later ones.
    A sample during which other processes took cores away is taken again while the patience lasts; what counts
    is the waiting of the threads, never the time of the sample, so nothing is chosen by its result.
    `fewer` names slow calls and how many rounds each takes part in, the first ones; nothing wakes those.
    """
    fewer = fewer or {}
    counts = dict.fromkeys(fewer, 1)
    for name, call in calls.items():
        if name in fewer:
            continue
        between()
        call()
        counts[name] = calibrate(call, clock)
    samples: dict[str, list[float]] = {name: [] for name in calls}
    disturbed = dict.fromkeys(calls, 0)
    patience = PATIENCE_NS if _WAITED[0] < PATIENCE_OF_RUN else 0
    for turn in range(rounds):
        for name, call in calls.items():
            if turn >= fewer.get(name, rounds):
                continue
            while True:
                between()
                if name not in fewer:
                    for _ in range(WARM):
                        call()
                before = waited()
                taken = sample(call, counts[name], clock)
                quiet = waited() - before <= QUIET_SHARE * taken
                if quiet or patience <= 0:
                    break
                patience -= taken + int(1e9 * PAUSE_SECONDS)
            samples[name].append(taken / counts[name])
            disturbed[name] += not quiet
    return {name: Timing(tuple(samples[name]), counts[name], disturbed[name]) for name in calls}


def paired_ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """The median over the rounds of above / below: both of a pair were taken close together in time."""
    return median(a / b for a, b in zip(above, below, strict=True))


def geometric_mean(values: Sequence[float]) -> float:
    """The mean that fits ratios."""
    return math.exp(sum(math.log(v) for v in values) / len(values))
