"""The loops over the dimensions of small dense blocks."""

from __future__ import annotations

from spfgen import tuning
from spfgen.facts.formula import ZERO, Num
from spfgen.plan.nodes import Scan


def extent_of_block(loop: Scan) -> int | None:
    """How often a loop from 0 runs at most, when that is a small number."""
    numbers = [e.value for e in loop.high if isinstance(e, Num)]
    is_small = loop.low == (ZERO,) and numbers and 1 < min(numbers) <= tuning.BLOCK_SUMS
    return min(numbers) if is_small else None
