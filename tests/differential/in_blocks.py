"""Operands cut at random, for programs that run in blocks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import spfgen


def random_cut(rng: np.random.Generator, extent: int) -> tuple[int, ...]:
    """Extents of blocks: empty ones among them, single places, more blocks than places."""
    inner = np.sort(rng.integers(0, extent + 1, rng.integers(0, 5)))
    return tuple(np.diff([0, *inner.tolist(), extent]).tolist())


def in_blocks(rng: np.random.Generator, value: Any) -> Any:
    """An array or a tensor in random blocks; a number as it is."""
    if np.ndim(value) == 0 and not hasattr(value, "shape"):
        return value
    return spfgen.blocks(value, {k: random_cut(rng, n) for k, n in enumerate(value.shape)})


def operands(rng: np.random.Generator, given: Mapping[str, Any], written: Collection[str] = ()) -> dict[str, Any]:
    """Most operands in blocks, those that are `written` and another one always."""
    names = [n for n, v in given.items() if hasattr(v, "shape") and v.shape]
    found = {n: rng.random() < 0.8 or n == names[0] or n in written for n in names}
    return {n: in_blocks(rng, v) if found.get(n) or n in written else v for n, v in given.items()}


@contextmanager
def any_cuts(rng: np.random.Generator) -> Iterator[None]:
    """The cheapest way to cut what is small is that with the fewest tasks: here it may be that with the most."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spfgen.tuning.CLUSTER_TASK", float(rng.choice([-1.0, 1e-3])))
        yield


def computed(kernel: Callable[..., Any], rng: np.random.Generator) -> Callable[..., Any]:
    """The kernel whose results are computed."""

    def call(**given: Any) -> Any:
        with any_cuts(rng):
            found = kernel(**given)
        several = found if isinstance(found, dict) else {"": found}
        made = {n: v.compute() if hasattr(v, "bounds") else v for n, v in several.items()}
        return made if isinstance(found, dict) else made[""]

    return call
