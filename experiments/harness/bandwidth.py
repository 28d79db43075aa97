"""Bandwidth of the memory with the same threads as the kernels: the roof that sparse kernels cannot pass."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.harness.machine import available_memory, last_level_cache
from experiments.harness.native import load, pointer

TIMES_THE_CACHE = 4
RUNS = 15


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """Bytes per second, the best of several runs. The triad counts two reads and one write, as STREAM."""

    read: float
    triad: float
    array_bytes: int

    @property
    def roof(self) -> float:
        """The better of both: the roof is what the machine can do."""
        return max(self.read, self.triad)


def measure(threads: int) -> Bandwidth:
    """Measure now. Three arrays, each several times as large as the last-level cache."""
    wanted = max(TIMES_THE_CACHE * last_level_cache(), 128 << 20)
    size = int(min(wanted, available_memory() // 6)) // 512 * 64
    code = load(Path(__file__).with_name("bandwidth.c"))
    code.read_sum.restype = ctypes.c_double
    team, count = ctypes.c_int(threads), ctypes.c_long(size)
    arrays = [np.empty(size) for _ in range(3)]
    for value, array in enumerate(arrays):
        # First touch by the thread that will read it, so that pages lie near their core.
        code.fill(team, count, ctypes.c_double(value), pointer(array))
    one, two, three = (pointer(array) for array in arrays)
    read = _best(lambda: code.read_sum(team, count, two))
    triad = _best(lambda: code.triad(team, count, one, two, three))
    if code.read_sum(team, count, two) != size or float(arrays[2][-1]) != 3.0:
        raise RuntimeError("the bandwidth kernels compute nonsense")
    return Bandwidth(8 * size / read, 24 * size / triad, 8 * size)


def better(one: Bandwidth, two: Bandwidth) -> Bandwidth:
    """The best of two measurements, for before and after the cases."""
    return Bandwidth(max(one.read, two.read), max(one.triad, two.triad), one.array_bytes)


def _best(call: Callable[[], object]) -> float:
    """Seconds of the fastest run."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)
