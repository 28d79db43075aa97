"""Convolutions of images with zeros, beside dense loops: 3x3 of an image in csr, and layers of a network.

ours has a dense result, `ours-sparse` one in csr whose pattern is computed. hand-c is the loop over the dense image,
compiled with the flags of the generated kernels; scipy is `signal.correlate2d`. What is outside of the image is 0.
mlir is MLIR's sparsifier, in the order of loops that it chooses and in the best one of Liu et al. 2024; its image has
the zeros around it as rows and columns, because it takes no subscript below 0. Layers are in `layers.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from experiments.conv import layers
from experiments.harness import targets
from experiments.harness.case import Case, Contestant, Runner
from experiments.harness.native import bind, load
from experiments.harness.pace import Pace
from experiments.harness.race import Outcome
from experiments.harness.targets import Target
from experiments.peers import mlir
from experiments.peers.kernels import compiled, measured, packed, returning, same

Array = np.ndarray[Any, Any]

PROGRAMS = {
    "dense": "Y[i,j] = X[i + p - 1, j + q - 1]*W[p,q]",
    "csr": "Y[i,j] = sum(p, q: coalesce(X[i + p - 1, j + q - 1], 0)*W[p,q])",
}
"""By the layout of the result: products are added where they belong, or collected in a workspace and packed."""
MLIR_SUBSCRIPTS = ("i + p, j + q", "p, q", "i, j")
MLIR_PRODUCTS = {
    "ijpq": mlir.Product(("i", "j", "p", "q"), MLIR_SUBSCRIPTS, reductions=False),
    "ipqj": mlir.Product(("i", "p", "q", "j"), MLIR_SUBSCRIPTS, reductions=True),
}
"""By the order of the loops that MLIR makes of it."""
ZEROS = (0.0, 0.5, 0.9, 0.99, 0.999)
CALL_SECONDS, TOTAL_SECONDS = 20.0, 5.0
TARGETS = (
    Target("dense loop in C, 90 % zeros", ("hand-c",), 1.0, part=", 90.0%"),
    Target("dense loop in C, 99 % zeros", ("hand-c",), 4.0, part=", 99.0%"),
    Target("dense loop in C, 99.9 % zeros", ("hand-c",), part=", 99.9%"),
    Target("scipy.signal", ("scipy",)),
    *layers.TARGETS,
)


@dataclass(frozen=True)
class Image:
    """A dense image and the weights: whole numbers, so that sums are exact."""

    pixels: Array
    weights: Array

    @cached_property
    def sparse(self) -> csr_array:
        """The image in csr."""
        return csr_array(self.pixels)


def cases(quick: bool, threads: int) -> list[Case]:
    """Images with more and more zeros, with one thread and with all; then layers."""
    shape = (60, 70) if quick else (2000, 3000)
    images = [case(shape, zeros, count) for count in sorted({1, threads}) for zeros in ZEROS]
    return [*images, *layers.cases(quick, threads)]


def case(shape: tuple[int, int], zeros: float, threads: int) -> Case:
    """One image."""
    return Case(
        label=f"{shape[0]}x{shape[1]}, {zeros:.1%} zeros, {threads} thread{'s' if threads > 1 else ''}",
        data=partial(image, shape, zeros),
        ours=partial(prepare_ours, out="dense", threads=threads),
        peers=(
            Contestant("ours-sparse", partial(prepare_ours, out="csr", threads=threads)),
            Contestant("hand-c", partial(prepare_hand, threads=threads)),
            Contestant("scipy", prepare_scipy, "1 thread"),
            *(Contestant("mlir", partial(prepare_mlir, order=order), f"{order}, 1 thread") for order in MLIR_PRODUCTS),
        ),
        check=check,
        facts=lambda data: {"entries": int(data.sparse.nnz)},
        threads=threads,
        pace=Pace(CALL_SECONDS, TOTAL_SECONDS),
    )


@lru_cache(maxsize=2)
def image(shape: tuple[int, int], zeros: float) -> Image:
    """Small numbers at random places."""
    random = np.random.default_rng(50)
    pixels = random.integers(1, 100, shape) * (random.random(shape) >= zeros)
    return Image(pixels.astype(float), random.integers(1, 9, (3, 3)).astype(float))


def prepare_ours(data: Image, out: str, threads: int) -> Runner:
    """spfgen's kernel; a dense result is allocated once, beforehand, as that of the loop in C."""
    rows, columns = data.pixels.shape
    layouts = {"X": "csr", "W": "dense", "Y": out}
    if out == "dense":
        y = np.full(data.pixels.shape, np.nan)
        kernel = compiled(PROGRAMS[out], tuple(layouts.items()), threads)
        bound = kernel.bind(**packed(layouts, {"X": data.sparse, "W": data.weights}), Y=y)
        return Runner(bound, lambda: y, (data,))
    return returning(PROGRAMS[out], layouts, {"X": data.sparse, "W": data.weights}, threads, {"i": rows, "j": columns})


def prepare_hand(data: Image, threads: int) -> Runner:
    """The dense loop; its result is allocated once, beforehand."""
    function = load(Path(__file__).with_name("hand.c")).correlate
    function.restype = None
    out = np.full(data.pixels.shape, np.nan)
    call = bind(function, threads, *data.pixels.shape, data.pixels, data.weights, out)
    return Runner(call, lambda: out, (data,))


def prepare_scipy(data: Image) -> Runner:
    """scipy's direct correlation."""
    from scipy import signal

    return measured(lambda: signal.correlate2d(data.pixels, data.weights, "same"))


def prepare_mlir(data: Image, order: str) -> Runner:
    """MLIR's kernel over the image in csr; its result is allocated once, beforehand."""
    around = mlir.Stored(np.pad(data.pixels, 1), "DC")
    return mlir.prepare(MLIR_PRODUCTS[order], around, data.weights, np.full(data.pixels.shape, np.nan))


def check(data: Image) -> Callable[[Any], str]:
    """Nine moved copies of the image, added up."""
    rows, columns = data.pixels.shape
    around = np.pad(data.pixels, 1)
    steps = [(p, q) for p in range(3) for q in range(3)]
    return same(sum((around[p : p + rows, q : q + columns] * data.weights[p, q] for p, q in steps), np.zeros(1)))


def closing(outcomes: Sequence[Outcome]) -> str:
    """The end of the report."""
    return targets.closing(outcomes, TARGETS)
