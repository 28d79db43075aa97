"""Small operands like those of a call: what another process needs to compile for it (run/later.py)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from spfgen import folder
from spfgen.layout.nodes import Layout
from spfgen.run.calls.bind import packed
from spfgen.run.calls.evaluate import evaluate
from spfgen.run.calls.layout_signature import canonical
from spfgen.run.coordinates import Coordinates
from spfgen.run.later import Task, is_ready
from spfgen.run.tensor import Tensor

EXTENT = 8
"""Of the dimensions of samples; where it is smaller, it stays."""


@dataclass(frozen=True)
class Sample:
    """What decides the kernel of a call: layouts and types by names of operands. `wanted`: the name of the result, its
    layout and fill value, where it is sparse."""

    text: str
    operands: tuple[tuple[str, Any], ...]
    sizes: tuple[tuple[str, int], ...]
    wanted: tuple[str, Layout, Any] | None


@dataclass(frozen=True)
class _Like:
    """`types` are those of the arrays by name; without a layout it is an array of numpy in that order."""

    layout: Layout | None
    shape: tuple[int, ...]
    types: tuple[tuple[str, str], ...]
    order: str = "C"


def ready(
    text: str,
    operands: Mapping[str, Any],
    sizes: Mapping[str, int],
    wanted: tuple[str, Layout, Any] | None,
    work: int,
    least: int = 0,
) -> bool:
    """Whether the kernel for these operands is to be used; numpy does this much work if not (run/later.py)."""
    name: Hashable = (text, tuple([(n, _known(v)) for n, v in operands.items()]), wanted and _known_result(wanted))

    def sample() -> Sample:
        like = tuple((n, _like(v)) for n, v in operands.items())
        return Sample(text, like, tuple((n, min(e, EXTENT)) for n, e in sizes.items()), wanted)

    def mark() -> str:
        one = sample()
        parts = [f"{n}: {_said(v)}" for n, v in one.operands]
        result = "" if wanted is None else f"{wanted[1].structure} {wanted[2]!r}"
        return folder.hash_of(text, *parts, result, folder.fingerprint())

    def task() -> Task:
        return "statement", sample()

    return is_ready(name, mark, task, work, least)


def _known_result(wanted: tuple[str, Layout, Any]) -> Hashable:
    return id(canonical(wanted[1])), repr(wanted[2])


def _known(value: Any) -> Hashable:
    """What tells kernels apart in this process."""
    if isinstance(value, Tensor):
        return id(canonical(value.layout)), *[a.dtype for a in value.arrays.values()]
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim, value.flags.c_contiguous
    return type(value).__name__


def _like(value: Any) -> Any:
    if isinstance(value, Tensor):
        return _Like(value.layout, value.shape, tuple((n, a.dtype.name) for n, a in value.arrays.items()))
    if isinstance(value, np.ndarray):
        return _Like(None, value.shape, (("", value.dtype.name),), "C" if value.flags.c_contiguous else "F")
    return value


def _said(like: Any) -> str:
    if not isinstance(like, _Like):
        return type(like).__name__
    layout = like.layout.structure if like.layout is not None else f"{len(like.shape)} {like.order}"
    return f"{layout} {like.types}"


def tried(sample: Sample) -> None:
    """Compile what the sample needs: carry it out."""
    from spfgen.run.handles import filled, handle_of

    operands = {n: _made(v) for n, v in sample.operands}
    out = None
    if sample.wanted is not None:
        name, layout, fill = sample.wanted
        out = {name: filled(handle_of(layout), fill)}
    evaluate(sample.text, operands, dict(sample.sizes), out=out, prune=None if out is None else True)


def _made(like: Any) -> Any:
    if not isinstance(like, _Like):
        return like
    shape = tuple(min(n, EXTENT) for n in like.shape)
    types = dict(like.types)
    if like.layout is None:
        return np.ones(shape, types[""], order="C" if like.order == "C" else "F")
    place = [np.arange(min(shape, default=1), dtype=np.int64)] * len(shape)
    values = np.ones(len(place[0]) if place else 1, types[like.layout.values[0].name])
    packed_sample = packed(like.layout, Coordinates(shape, tuple(place), values, like.layout.fill), "sample")
    arrays = {n: a.astype(types[n], copy=False) for n, a in packed_sample.arrays.items()}
    return Tensor(packed_sample.layout, dict(packed_sample.sizes), arrays)
