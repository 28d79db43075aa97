"""How fast this machine reads as many bytes as a call moves: the speed that a sparse kernel cannot pass.

What fits the caches is read from the caches, so that the comparison holds for small data, too.
"""

from __future__ import annotations

import ctypes
import time
from pathlib import Path

import numpy as np

from spfgen.errors import ToolError

SOURCE = Path(__file__).with_name("bandwidth.c")
LEAST = 1 << 16
"""Bytes below which a call takes longer to begin than to read its data."""
MOST = 1 << 29
"""More bytes are read no faster, and no slower."""
ROUNDS = 5
WORD = 8 * 64  # the bytes of a block of the loop in C


def read_rate(moved: int, threads: int) -> float | None:
    """Bytes per second: the fastest of some rounds on one thread, and on `threads` (0: as many as OpenMP takes).

    None where the data are too few to say, or there is no compiler.
    """
    if moved < LEAST:
        return None
    from spfgen.run.compile import build, load

    try:
        code = load(build(SOURCE.read_text(encoding="utf-8")))
    except ToolError:
        return None
    code.read_sum.restype = ctypes.c_double
    size = min(moved, MOST) // WORD * WORD // 8
    count, teams = ctypes.c_long(size), {1, threads or code.team()}
    array = np.empty(size)
    place = ctypes.c_void_p(array.ctypes.data)
    best = 0.0
    for team in sorted(teams):
        code.fill(team, count, ctypes.c_double(1.0), place)  # pages lie near the thread that reads them
        for _ in range(ROUNDS):
            start = time.perf_counter()
            code.read_sum(team, count, place)
            best = max(best, 8 * size / max(time.perf_counter() - start, 1e-9))
    return best
