"""Sparse tensors of rank three for kernels with dense factors of several columns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from experiments.data import tensors
from experiments.data.tensors import Fibres

LEAST_ENTRIES = 90_000

Maker = tuple[str, Callable[[], Fibres]]


def trees(quick: bool) -> list[Maker]:
    """Labels and makers: fibres with many entries, with some, with one; then real tensors."""
    if quick:
        return [
            ("fibres of 20", partial(tensors.long_fibres, (40, 50, 300), 300, 20)),
            ("uniform 5000", partial(tensors.uniform, (60, 70, 80), 5_000)),
        ]
    return [
        ("fibres of 100", partial(tensors.long_fibres, (300, 400, 20_000), 10_000, 100)),
        ("fibres of 10", partial(tensors.long_fibres, (3_000, 4_000, 20_000), 100_000, 10)),
        ("uniform 1000000", partial(tensors.uniform, (500, 600, 700), 1_000_000)),
        *tensors.stored_tensors(LEAST_ENTRIES)[:4],
    ]


def label(name: str, columns: int, threads: int) -> str:
    """What a case is called."""
    return f"{name}, {columns} columns, {threads} thread{'s' if threads > 1 else ''}"
