"""Random tests that run as long as they are given time: one seed after another, at all levels."""

from __future__ import annotations

import os
import time
from collections.abc import Callable


def reports_of(try_one: Callable[..., str]) -> list[str]:
    """The reports of what was wrong; no more are sought after ten."""
    seconds = float(os.environ.get("SPFGEN_FUZZ_SECONDS", "600"))
    start, seed = time.monotonic(), int(os.environ.get("SPFGEN_FUZZ_SEED", "1000"))
    reports: list[str] = []
    while time.monotonic() - start < seconds and len(reports) < 10:
        report = try_one(seed, level=seed % 3)
        reports += [report] if report else []
        seed += 1
    return reports
