"""Layers of a network over images with channels: batch, rows, columns, channels (NHWC), 3x3 and the first one, 7x7.

The image of ours has compressed rows, columns and channels (DCCC, as in Liu et al. 2024); in `ours-dddc` only channels
are compressed: the outer loops are dense. hand-c is the dense loop with the flags of the generated kernels; numpy
takes windows and multiplies matrices; mlir is MLIR's sparsifier in the order of loops of Liu et al., which it chooses
itself, and with loops over a filter further out, in `mlir-dddc` over channels compressed alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from experiments.harness.case import Case, Contestant, Runner
from experiments.harness.native import bind, load
from experiments.harness.pace import Pace
from experiments.harness.targets import Target
from experiments.peers import mlir
from experiments.peers.kernels import bound, measured, same

Array = np.ndarray[Any, Any]

LEVELS = "(n, h, w, c) -> (n : dense, h : {0}, w : {0}, c : compressed)"
LAYOUTS = {"dccc": LEVELS.format("compressed"), "dddc": LEVELS.format("dense")}
MLIR_LOOPS = {"nhwrqcf": ("nhwrqcf", False), "nhrwqcf": ("nhwrqcf", True), "nhrqwcf": ("nhrqwcf", True)}
"""By the order of the loops that MLIR makes of it: the loops given to it, and whether as reductions."""
ZEROS = (0.9, 0.99, 0.999)
CALL_SECONDS, TOTAL_SECONDS = 20.0, 5.0
TARGETS = (
    Target("dense loop in C, layers, 99.9 %", ("hand-c",), part="layer with 99.9%"),
    Target("dense outer loops, layers, 99.9 %", ("ours-dddc",), 15.0, part="layer with 99.9%"),
    Target("dense outer loops, layers, 90 %", ("ours-dddc",), part="layer with 90.0%"),
    Target("numpy, layers", ("numpy",), part="layer"),
)


@dataclass(frozen=True)
class Kind:
    """The filters of a layer: rows and columns of one, channels, how many, steps between windows; an image's extent."""

    name: str
    width: int
    channels: int
    filters: int
    step: int
    extent: int

    @property
    def window(self) -> str:
        """The subscripts of an image."""
        row, column = ("h + r", "w + q") if self.step == 1 else (f"{self.step}*h + r", f"{self.step}*w + q")
        return f"n,{row},{column},c"

    @property
    def text(self) -> str:
        """In index notation."""
        return f"O[n,h,w,f] = I[{self.window}]*F[r,q,c,f]"

    @property
    def results(self) -> int:
        """Rows and columns of a result."""
        return (self.extent - self.width) // self.step + 1


@dataclass(frozen=True)
class Layer:
    """Images and filters: whole numbers, so that sums are exact."""

    kind: Kind
    images: Array
    filters: Array

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of the result."""
        return (len(self.images), self.kind.results, self.kind.results, self.kind.filters)


def kinds(quick: bool) -> tuple[Kind, ...]:
    """A layer within a network, and the first one."""
    if quick:
        return Kind("3x3", 3, 8, 8, 1, 34), Kind("7x7", 7, 3, 16, 2, 69)
    return Kind("3x3", 3, 64, 64, 1, 114), Kind("7x7", 7, 3, 64, 2, 229)


def cases(quick: bool, threads: int) -> list[Case]:
    """Each layer with more and more zeros, with one thread and with all."""
    return [case(kind, zeros, n) for n in sorted({1, threads}) for kind in kinds(quick) for zeros in ZEROS]


def case(kind: Kind, zeros: float, threads: int) -> Case:
    """One layer of one image."""
    return Case(
        label=f"{kind.name} layer with {zeros:.1%} of zeros, {threads} thread{'s' if threads > 1 else ''}",
        data=partial(layer, kind, zeros),
        ours=partial(prepare_ours, layout="dccc", threads=threads),
        peers=(
            Contestant("ours-dddc", partial(prepare_ours, layout="dddc", threads=threads)),
            Contestant("hand-c", partial(prepare_hand, threads=threads)),
            Contestant("numpy", lambda data: measured(partial(windows, data)), "1 thread"),
            *(
                Contestant("mlir", partial(prepare_mlir, order=name, layout="dccc"), f"{name}, 1 thread")
                for name in mlir_orders(kind)
            ),
            Contestant("mlir-dddc", partial(prepare_mlir, order="nhrwqcf", layout="dddc"), "1 thread"),
        ),
        check=check,
        facts=facts,
        threads=threads,
        pace=Pace(CALL_SECONDS, TOTAL_SECONDS),
    )


@lru_cache(maxsize=2)
def layer(kind: Kind, zeros: float) -> Layer:
    """Small numbers at random places."""
    random = np.random.default_rng(51)
    shape = (1, kind.extent, kind.extent, kind.channels)
    images = random.integers(1, 100, shape) * (random.random(shape) >= zeros)
    filters = random.integers(1, 9, (kind.width, kind.width, kind.channels, kind.filters))
    return Layer(kind, images.astype(float), filters.astype(float))


def prepare_ours(data: Layer, layout: str, threads: int) -> Runner:
    """spfgen's kernel; its result is allocated once, beforehand, as that of the loop in C."""
    layouts = {"I": LAYOUTS[layout], "F": "dense", "O": "dense"}
    operands = {"I": data.images, "F": data.filters}
    return bound(data.kind.text, layouts, operands, threads, "O", np.full(data.shape, np.nan))


def prepare_hand(data: Layer, threads: int) -> Runner:
    """The dense loop."""
    function = load(Path(__file__).with_name("hand.c")).layer
    function.restype = None
    kind, out = data.kind, np.full(data.shape, np.nan)
    sizes = (kind.extent, kind.channels, kind.width, kind.filters, kind.step, kind.results)
    call = bind(function, threads, len(data.images), *sizes, data.images, data.filters, out)
    return Runner(call, lambda: out, (data,))


def mlir_orders(kind: Kind) -> list[str]:
    """The orders of loops that MLIR can be brought to: not the last one where windows are some steps apart."""
    return list(MLIR_LOOPS)[: 3 if kind.step == 1 else 2]


def mlir_product(kind: Kind, order: str) -> mlir.Product:
    """What MLIR is given so that it comes to an order."""
    loops, reductions = MLIR_LOOPS[order]
    return mlir.Product(tuple(loops), (kind.window, "r, q, c, f", "n, h, w, f"), reductions)


def prepare_mlir(data: Layer, order: str, layout: str) -> Runner:
    """MLIR's kernel; its result is allocated once, beforehand."""
    images = mlir.Stored(data.images, layout.upper())
    return mlir.prepare(mlir_product(data.kind, order), images, data.filters, np.full(data.shape, np.nan))


def windows(data: Layer) -> Array:
    """All windows times all filters."""
    kind = data.kind
    found = sliding_window_view(data.images, (kind.width, kind.width), axis=(1, 2))[:, :: kind.step, :: kind.step]
    return np.tensordot(found, data.filters, axes=((4, 5, 3), (0, 1, 2)))


def check(data: Layer) -> Callable[[Any], str]:
    """A product of matrices for each place in a filter, added up."""
    kind, expected = data.kind, np.zeros(data.shape)
    reach = kind.step * (kind.results - 1) + 1
    for r in range(kind.width):
        for q in range(kind.width):
            expected += data.images[:, r : r + reach : kind.step, q : q + reach : kind.step] @ data.filters[r, q]
    return same(expected)


def facts(data: Layer) -> Mapping[str, int]:
    """What one wants to know when reading the times."""
    return {"elements": data.images.size, "entries": int(np.count_nonzero(data.images))}
