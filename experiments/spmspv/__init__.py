"""y[i] = A[i,j]*x[j] with x sparse and y dense: A in csr, then in csc; ours beside those who can.

Each library is timed in its natural product: Eigen, scipy and GraphBLAS make a sparse result, ours, taco's and
those written by hand a dense one; `eigen-dense` is Eigen's assignment to a dense vector. What is done once
beforehand, such as the conversion of A and x to a library's own form, is not timed.

Everything is run with one thread, then with the threads of `--threads`; `--cases "1 thread"` takes the first only.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from experiments.data import stored
from experiments.harness.case import Case
from experiments.harness.pace import Pace
from experiments.spmspv.contestants import for_columns, for_rows, prepare_ours
from experiments.spmspv.data import RMat, Source, bytes_of_columns, bytes_of_rows, check, facts, product
from experiments.spmspv.point import Point
from experiments.spmspv.targets import closing

__all__ = ["case", "cases", "closing"]

DENSITIES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 0.5)
QUICK_DENSITIES = DENSITIES[::2]
LEAST_ENTRIES = 600_000
CALL_SECONDS = 5.0
TOTAL_SECONDS = 1.0


def cases(quick: bool, threads: int) -> list[Case]:
    """Each matrix in both layouts, with one thread and with all; then x from nearly empty to half full."""
    found = []
    densities = QUICK_DENSITIES if quick else DENSITIES
    for source in matrices(quick):
        for layout in ("csr", "csc"):
            for count in sorted({1, threads}):
                pace = Pace(CALL_SECONDS, 1.0 if quick else TOTAL_SECONDS)
                found += [case(source, Point(source.name, layout, density, count), pace) for density in densities]
    return found


def matrices(quick: bool) -> Iterator[Source]:
    """A made one, then real ones, of those that are large enough for the thinnest x."""
    yield RMat(16 if quick else 20, 16)
    real = stored.shared_matrices(LEAST_ENTRIES)
    yield from real[-1:] if quick else real


def case(source: Source, point: Point, pace: Pace) -> Case:
    """One matrix, layout, thread count and density."""
    by_column = point.layout == "csc"
    return Case(
        label=point.label,
        data=partial(product, source, point.density, by_column),
        ours=partial(prepare_ours, threads=point.threads, layout=point.layout),
        peers=for_columns(point.threads) if by_column else for_rows(point.threads),
        check=check,
        bytes_moved=bytes_of_columns if by_column else bytes_of_rows,
        facts=facts,
        threads=point.threads,
        pace=pace,
        size=point.density,
    )
