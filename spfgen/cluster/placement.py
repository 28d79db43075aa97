"""Where blocks lie: those that follow one another on one worker, as many on each, of all operands alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from dask import get_annotations
from dask.highlevelgraph import MaterializedLayer

from spfgen.cluster.workers import addresses


def home(place: Sequence[int], counts: Sequence[int], workers: int) -> int:
    """The number of the worker that has a block; `counts` are the blocks along each axis."""
    flat = 0
    for number, count in zip(place, counts, strict=True):
        flat = flat * count + number
    return flat * workers // max(1, prod(counts))


@dataclass(frozen=True)
class _Home:
    """The worker that a key of dask is meant for; any for those that are not among them."""

    numbers: Mapping[Any, int]
    workers: tuple[str, ...]

    def __call__(self, key: Any) -> list[str]:
        return [self.workers[self.numbers[key]]] if key in self.numbers else []


def placed(layer: Mapping[Any, Any], counts: Sequence[int]) -> tuple[Mapping[Any, Any], bool]:
    """Tasks that make blocks, each meant for one of the workers that are there now, if there are several: then the
    second is true. Every key is a name and the place of the block."""
    there = addresses()
    return meant(layer, {key: home(key[1:], counts, len(there)) for key in layer}, there), len(there) > 1


def meant(layer: Mapping[Any, Any], numbers: Mapping[Any, int], there: tuple[str, ...]) -> Mapping[Any, Any]:
    """Tasks of which some are meant for workers; another one takes them where that has gone, or has more to do."""
    if len(there) < 2:
        return layer
    wanted = {"workers": _Home(numbers, there), "allow_other_workers": True, **get_annotations()}
    annotated: Mapping[Any, Any] = MaterializedLayer(layer, annotations=wanted)
    return annotated


__all__ = ["home", "meant", "placed"]
