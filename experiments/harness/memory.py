"""How much memory a call takes at its peak, as the system counts it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

STATUS = Path("/proc/self/status")
FORGET = Path("/proc/self/clear_refs")
FORGET_PEAK = "5"
LEAST_SEEN = 1_000_000


def peak_bytes(call: Callable[[], Any]) -> int | None:
    """What the process holds at the peak of a call above what it held before; None where the system does not say.

    What the call returns counts. Memory that the process has and has not given back is not seen, so a small number may
    be too small: call it after an untimed call, on data that are large.
    """
    try:
        before = _kilobytes("VmRSS")
        FORGET.write_text(FORGET_PEAK)
        kept = call()
        after = _kilobytes("VmHWM")
    except OSError:
        return None
    del kept
    return None if before is None or after is None else max(0, after - before) * 1024


def peak_remark(call: Callable[[], Any]) -> str:
    """The peak in words, for a table; nothing where it is too small to be known."""
    found = peak_bytes(call)
    return "" if found is None or found < LEAST_SEEN else f"peak {found / 1e6:.1f} MB"


def _kilobytes(field: str) -> int | None:
    found = re.search(rf"{field}:\s+(\d+) kB", STATUS.read_text())
    return int(found[1]) if found else None
