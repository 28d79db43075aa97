"""finch-tensor-lite, the rewrite of Finch in Python: lazily fused chains, compiled by Numba, one thread.

Of version 0.5 sparse levels cannot be filled from arrays and a reduction to one number gives 0: operands are dense, and
the last sum is numpy's. Every call schedules the chain again; compiled code is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from experiments.harness.case import Missing, Refused, Runner
from experiments.peers.kernels import measured

Array = np.ndarray[Any, Any]

MOST_ELEMENTS = 1_000_000


def module() -> Any:
    """The package."""
    try:
        import finchlite
    except ImportError as error:
        raise Missing(f"{error}; pip install finch-tensor-lite") from error
    return finchlite


def prepare(chain: Callable[..., Any], *operands: Array) -> Runner:
    """The chain of lazy operands, computed; its sum where it is a vector."""
    finch = module()
    if max(a.size for a in operands) > MOST_ELEMENTS:
        raise Refused("dense operands of this size are none of its concern")
    held = [finch.asarray(np.ascontiguousarray(a)) for a in operands]

    def call() -> Any:
        found = finch.compute(chain(finch, *map(finch.lazy, held)), ctx=finch.COMPILE_NUMBA).to_numpy()
        return found.sum() if found.ndim == 1 else found

    return measured(call)
