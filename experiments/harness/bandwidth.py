"""Bandwidth of the memory with the same threads as the kernels: the roof that sparse kernels cannot pass."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from experiments.harness.case import Missing
from experiments.harness.log import say
from experiments.harness.machine import available_memory, last_level_cache
from experiments.harness.native import load, pointer
from spfgen.run.bandwidth import SOURCE

TIMES_THE_CACHE = 4
READ, TRIAD = "bandwidth, read", "bandwidth, triad"


@dataclass(frozen=True, slots=True)
class Memory:
    """Calls that only read memory, or copy with arithmetic as STREAM's triad, and the bytes that each moves: for the
    triad two reads and one write. `beyond`: what is larger than that many bytes does not fit the caches."""

    calls: Mapping[str, Callable[[], object]]
    moved: Mapping[str, int]
    beyond: int

    def roofs(self, samples: Mapping[str, Sequence[float]]) -> tuple[float, ...]:
        """Bytes per second in each round, the better of both, from the nanoseconds that the calls took in it."""
        rates = [[1e9 * self.moved[name] / taken for taken in samples[name]] for name in self.calls]
        return tuple(map(max, zip(*rates, strict=True)))


@cache
def memory_of(threads: int) -> Memory | None:
    """What to race the kernels of that many threads against; nothing, and a word about it, without a C compiler."""
    try:
        code = load(SOURCE)
    except Missing as reason:
        say(f"no bandwidth: {reason}")
        return None
    code.read_sum.restype = ctypes.c_double
    wanted = max(TIMES_THE_CACHE * last_level_cache(), 128 << 20)
    size = int(min(wanted, available_memory() // 6)) // 512 * 64
    team, count = ctypes.c_int(threads), ctypes.c_long(size)
    arrays = [np.empty(size) for _ in range(3)]
    for value, array in enumerate(arrays):
        # First touch by the thread that will read it, so that pages lie near their core.
        code.fill(team, count, ctypes.c_double(value), pointer(array))
    one, two, three = (pointer(array) for array in arrays)

    def read() -> float:
        return float(code.read_sum(team, count, two))

    def triad() -> float:
        code.triad(team, count, one, two, three)
        return float(arrays[2][-1])

    if read() != size or triad() != 3.0:
        raise RuntimeError("the bandwidth kernels compute nonsense")
    return Memory({READ: read, TRIAD: triad}, {READ: 8 * size, TRIAD: 24 * size}, last_level_cache())
