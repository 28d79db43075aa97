"""Edges in images of the head: what lies between two thresholds, in a region of interest, as in Henry et al. 2021.

`(P and R) xor (Q and R)`: P and Q are the pixels above 80 % and 75 % of the brightest one, R is the region. ours has
all three in compressed rows (a volume in fibres), `ours-region` has R dense; the result is dense or sparse.
PyData/Sparse and numpy have one thread and compute one function after the other. Slices are so small that operands are
bound beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from experiments.data import images
from experiments.harness import targets
from experiments.harness.case import Case, Contestant, Runner
from experiments.harness.pace import Pace
from experiments.harness.race import Outcome
from experiments.harness.targets import Target
from experiments.peers import pydata
from experiments.peers.kernels import bound, measured, same

Array = np.ndarray[Any, Any]

CALL_SECONDS, TOTAL_SECONDS = 20.0, 5.0
LOW, HIGH = 0.75, 0.8
PROGRAMS = {
    2: "E[i,j] = logical_xor(P[i,j] and R[i,j], Q[i,j] and R[i,j])",
    3: "E[k,i,j] = logical_xor(P[k,i,j] and R[k,i,j], Q[k,i,j] and R[k,i,j])",
}
SPARSE = {2: "csr", 3: "csf"}
TARGETS = (
    Target("PyData/Sparse", ("sparse",), 10.0),
    Target("numpy, dense arrays", ("numpy",)),
)


@dataclass(frozen=True)
class Masks:
    """The pixels above each threshold and the region, all dense."""

    high: Array
    low: Array
    region: Array

    @property
    def named(self) -> dict[str, Array]:
        """By the names in the text."""
        return {"P": self.high, "Q": self.low, "R": self.region}


def cases(quick: bool, threads: int) -> list[Case]:
    """Each image with a dense result and a sparse one, with one thread and with all."""
    return [
        case(label, make, out, count)
        for count in sorted({1, threads})
        for label, make in makers(quick)
        for out in ("dense", "sparse")
    ]


def makers(quick: bool) -> Iterator[tuple[str, Callable[[], Array]]]:
    """Labels and makers of images: slices, one magnified, and a volume; real ones where there are any."""
    stored = images.shared_images("mri_")
    found = lru_cache(maxsize=1)(stored[0].load if stored else partial(images.head, 48, 200, 230))
    kind = "" if stored else "made "
    yield f"{kind}slice", lambda: found()[20]
    if quick:
        yield f"{kind}volume of 6", lambda: found()[18:24]
        return
    yield f"{kind}slice near the top", lambda: found()[40]
    yield f"{kind}slice, magnified 5x", lambda: images.magnified(found()[20], 5)
    yield f"{kind}volume", found


def masks(make: Callable[[], Array]) -> Masks:
    """Thresholds as shares of the brightest pixel; the region is an ellipse in the middle of each slice."""
    image = make()
    rows, columns = image.shape[-2:]
    y, x = np.linspace(-1, 1, rows)[:, None], np.linspace(-1, 1, columns)
    region = np.broadcast_to((y / 0.6) ** 2 + (x / 0.6) ** 2 < 1, image.shape)
    most = float(image.max())
    return Masks(image > HIGH * most, image > LOW * most, np.ascontiguousarray(region))


def case(label: str, make: Callable[[], Array], out: str, threads: int) -> Case:
    """One image."""
    return Case(
        label=f"{label}, {out} result, {threads} thread{'s' if threads > 1 else ''}",
        data=partial(masks, make),
        ours=partial(prepare_ours, out=out, threads=threads),
        peers=(
            Contestant("ours-region", partial(prepare_ours, out=out, threads=threads, region="dense")),
            Contestant("sparse", partial(prepare_sparse, out=out), "1 thread"),
            Contestant("numpy", prepare_numpy, "1 thread"),
        ),
        check=check,
        facts=lambda data: {"pixels": data.high.size, **{n: int(np.count_nonzero(a)) for n, a in data.named.items()}},
        threads=threads,
        pace=Pace(CALL_SECONDS, TOTAL_SECONDS),
    )


def prepare_ours(data: Masks, out: str, threads: int, region: str = "") -> Runner:
    """spfgen's kernel."""
    rank = data.high.ndim
    sparse = SPARSE[rank]
    layouts = {"P": sparse, "Q": sparse, "R": region or sparse, "E": "dense" if out == "dense" else sparse}
    into = np.zeros(data.high.shape, bool) if out == "dense" else None
    return bound(PROGRAMS[rank], layouts, data.named, threads, "E", into)


def prepare_sparse(data: Masks, out: str) -> Runner:
    """PyData/Sparse in coordinates."""
    coo = pydata.module().COO.from_numpy
    p, q, r = coo(data.high), coo(data.low), coo(data.region)
    if out == "dense":
        return measured(lambda: ((p & r) ^ (q & r)).todense())
    return measured(lambda: (p & r) ^ (q & r))


def prepare_numpy(data: Masks) -> Runner:
    """numpy on dense arrays of bytes."""
    p, q, r = data.high, data.low, data.region
    return measured(lambda: (p & r) ^ (q & r))


def check(data: Masks) -> Callable[[Any], str]:
    """Pixel by pixel: above one threshold, not above the other, and in the region."""
    return same(np.where(data.region, data.high != data.low, False))


def closing(outcomes: Sequence[Outcome]) -> str:
    """The end of the report."""
    return targets.closing(outcomes, TARGETS)
