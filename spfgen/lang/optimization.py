"""Levels of optimisation."""

from __future__ import annotations

import os
from collections.abc import Mapping

from spfgen.errors import UsageError

LEVELS: Mapping[int, str] = {
    0: "Serial loops as derived; every search is linear.",
    1: "Proved search algorithms, the loop order of least work, parallel loops, scalar sums: readable C.",
    2: "Also versions tuned for sizes and processors.",
}
"""A sentence for each level. Each level includes those before it."""


def level_of(asked: int | None) -> int:
    """The level that is asked for, by a call or else by SPFGEN_OPT. Raises UsageError."""
    level: object = os.environ.get("SPFGEN_OPT", "2") if asked is None else asked
    if isinstance(level, bool) or str(level) not in map(str, LEVELS):
        where = "SPFGEN_OPT" if asked is None else "optimize"
        known = tuple(f"{k}: {text}" for k, text in LEVELS.items())
        raise UsageError(f"expected {where} to be 0, 1 or 2, but it is {level!r}", None, known)
    return int(str(level))
