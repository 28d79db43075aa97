"""C = A[slice] + B[slice] of two matrices in csr with patterns of their own, as in Henry et al. 2021.

A window of 500 x 500, a quarter of the rows, all but the first and the last row, and every second, fourth and eighth
row and column. The result is in csr, its pattern computed (ours), or dense where that is not too large (`ours-dense`).
scipy and PyData/Sparse copy the slices first, with one thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from experiments.data import made
from experiments.harness import targets
from experiments.harness.case import Case, Contestant, Runner
from experiments.harness.pace import Pace
from experiments.harness.race import Outcome
from experiments.harness.targets import Target
from experiments.peers import pydata
from experiments.peers.kernels import in_csr, measured, returning

CALL_SECONDS, TOTAL_SECONDS = 20.0, 5.0
WINDOW = 500
MOST_DENSE = 10_000_000
"""Elements of a dense result; more of them are only memory."""
TARGETS = (
    Target("scipy, windows", ("scipy",), 2.25, part="window"),
    Target("scipy, strides", ("scipy",), 1.47, part="stride"),
    Target("PyData/Sparse", ("sparse",), 10.0),
)

Pair = tuple[csr_array, csr_array]
Slices = tuple[slice, slice]


def slices(size: int) -> dict[str, tuple[Slices, Slices]]:
    """The parts of both matrices, which differ where they can."""
    window, quarter, every = min(WINDOW, size // 2), size // 4, slice(None)
    found = {
        f"window {window}x{window}": (
            (slice(3, 3 + window), slice(5, 5 + window)),
            (slice(size - window, size), slice(7, 7 + window)),
        ),
        "window of a quarter": ((slice(quarter, 2 * quarter), every), (slice(2 * quarter, 3 * quarter), every)),
        "window without the ends": ((slice(1, size - 1), every),) * 2,
    }
    strides = {f"stride {step}": ((slice(0, size, step),) * 2,) * 2 for step in (2, 4, 8)}
    return {**found, **strides}


def text(parts: tuple[Slices, Slices]) -> str:
    """The sum in index notation."""
    operands = []
    for name, part in zip("AB", parts, strict=True):
        places = [subscript(index, one) for index, one in zip("ij", part, strict=True)]
        operands.append(f"{name}[{','.join(places)}]")
    return f"C[i,j] = {' + '.join(operands)}"


def subscript(index: str, part: slice) -> str:
    """One subscript."""
    if part == slice(None):
        return index
    return f"{index}({part.start}:{part.stop}{'' if part.step is None else f':{part.step}'})"


def cases(quick: bool, threads: int) -> list[Case]:
    """Each kind of slice with one thread and with all, of matrices with few entries and with more."""
    sizes = ((400, 8),) if quick else ((20_000, 8), (20_000, 200))
    return [
        case(name, size, per_row, count)
        for count in sorted({1, threads})
        for size, per_row in sizes
        for name in slices(size)
    ]


@lru_cache(maxsize=1)
def pair(size: int, per_row: int) -> Pair:
    """Two matrices with whole numbers, so that sums are exact."""
    random = np.random.default_rng(90)
    found = tuple(made.uniform(size, size, per_row, seed=seed) for seed in (91, 92))
    for matrix in found:
        matrix.data = random.integers(1, 9, matrix.nnz).astype(float)
    return found[0], found[1]


def case(name: str, size: int, per_row: int, threads: int) -> Case:
    """One kind of slice."""
    parts = slices(size)[name]
    elements = math.prod(len(range(*part.indices(size))) for part in parts[0])
    dense = [Contestant("ours-dense", partial(prepare_ours, parts=parts, out="dense", threads=threads))]
    if elements > MOST_DENSE:
        dense = []
    return Case(
        label=f"{name}, {size} rows, {per_row} a row, {threads} thread{'s' if threads > 1 else ''}",
        data=partial(pair, size, per_row),
        ours=partial(prepare_ours, parts=parts, out="csr", threads=threads),
        peers=(
            *dense,
            Contestant("scipy", partial(prepare_scipy, parts=parts), "1 thread"),
            Contestant("sparse", partial(prepare_sparse, parts=parts), "1 thread"),
        ),
        check=partial(check, parts),
        facts=lambda data: {"entries": int(data[0].nnz)},
        threads=threads,
        pace=Pace(CALL_SECONDS, TOTAL_SECONDS),
    )


def prepare_ours(data: Pair, parts: tuple[Slices, Slices], out: str, threads: int) -> Runner:
    """spfgen's kernel."""
    layouts = {"A": "csr", "B": "csr", "C": out}
    return returning(text(parts), layouts, dict(zip("AB", data, strict=True)), threads)


def prepare_scipy(data: Pair, parts: tuple[Slices, Slices]) -> Runner:
    """SciPy, in csr."""
    (a, b), (first, second) = data, parts
    return measured(lambda: a[first] + b[second])


def prepare_sparse(data: Pair, parts: tuple[Slices, Slices]) -> Runner:
    """PyData/Sparse in coordinates."""
    coo = pydata.module().COO.from_scipy_sparse
    (a, b), (first, second) = map(coo, data), parts
    return measured(lambda: a[first] + b[second])


def check(parts: tuple[Slices, Slices], data: Pair) -> Callable[[Any], str]:
    """Entry by entry, as csr; parts are taken by comparing coordinates."""
    first, second = (part_of(matrix, part) for matrix, part in zip(data, parts, strict=True))
    wanted = first + second

    def complain(found: Any) -> str:
        got = in_csr(found)
        if got.shape != wanted.shape:
            return f"shape {got.shape}, expected {wanted.shape}"
        count = int((got != wanted).nnz)
        return "" if not count else f"{count} of {wanted.nnz} elements differ"

    return complain


def part_of(matrix: csr_array, part: Slices) -> csr_array:
    """The entries whose row and column are in the ranges."""
    coo = matrix.tocoo()
    ranges = [range(*one.indices(extent)) for one, extent in zip(part, matrix.shape, strict=True)]
    places, keep = [], np.ones(coo.nnz, bool)
    for at, chosen in zip((coo.row, coo.col), ranges, strict=True):
        place, rest = np.divmod(at - chosen.start, chosen.step)
        keep &= (rest == 0) & (place >= 0) & (place < len(chosen))
        places.append(place)
    shape = (len(ranges[0]), len(ranges[1]))
    return csr_array((coo.data[keep], (places[0][keep], places[1][keep])), shape=shape)


def closing(outcomes: Sequence[Outcome]) -> str:
    """The end of the report."""
    return targets.closing(outcomes, TARGETS)
