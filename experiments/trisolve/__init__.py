"""x = L \\ b with L in csr, lower and upper triangles: ours by levels or lists beside ours serial, MKL and SciPy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array, eye_array, tril, triu
from scipy.sparse.linalg import spsolve_triangular

from experiments.data import made, stored
from experiments.data.shape import as_csr
from experiments.harness.case import Case, Contestant, Runner
from experiments.harness.check import compare
from experiments.peers import mkl
from experiments.peers.spfgen import module_or_missing

LEAST_ENTRIES = 60_000
SETTLED = 0.1
"""Seconds of calls in which the ways to run are tried."""
PAGE, APART = 4096, 256
"""Bytes: of a page of memory, and between where b and x begin in it."""
LOWER = "x[i] = (b[i] - sum(j < i: L[i,j]*x[j]))/L[i,i]"
UPPER = "x[i] = (b[i] - sum(j > i: L[i,j]*x[j]))/L[i,i]"


@dataclass(frozen=True, slots=True)
class System:
    """A triangle with a full diagonal, and the right-hand side."""

    triangle: csr_array
    right: np.ndarray
    lower: bool


def cases(quick: bool, threads: int) -> list[Case]:
    """Grids, as they come and with their points renumbered, random triangles, then real matrices."""
    found = []
    for label, make in matrices(quick):
        found.append(case(f"{label}, lower", partial(system, make, lower=True), threads))
        found.append(case(f"{label}, upper", partial(system, make, lower=False), threads))
    return found


def matrices(quick: bool) -> Iterator[tuple[str, Callable[[], csr_array]]]:
    """Labels and makers."""
    if quick:
        yield "stencil 100x100", partial(made.stencil, 100)
        yield "grid 30x30x30, 27 points", partial(made.grid, 30, 27)
        yield "uniform 20000, 4 a row", partial(made.uniform, 20_000, 20_000, 4)
        yield "banded 20000, 31 wide", partial(made.banded, 20_000, 15)
        return
    yield "stencil 300x300", partial(made.stencil, 300)
    yield "stencil 1000x1000", partial(made.stencil, 1000)
    yield "stencil 1000x1000, four colours", lambda: coloured(made.stencil(1000), 4)
    yield "grid 80x80x80, 7 points", partial(made.grid, 80, 7)
    yield "grid 60x60x60, 27 points", partial(made.grid, 60, 27)
    yield "uniform 500000, 8 a row", partial(made.uniform, 500_000, 500_000, 8)
    yield "banded 200000, 31 wide", partial(made.banded, 200_000, 15)
    yield "power law 2^17", partial(made.power_law, 17, 8)
    for matrix in stored.shared_matrices(LEAST_ENTRIES):
        yield matrix.name, matrix.load


def coloured(matrix: csr_array, colours: int) -> csr_array:
    """The matrix with its points in `colours` groups, one after another: how many solvers make parts independent."""
    order = np.argsort(np.arange(matrix.shape[0]) % colours, kind="stable")
    return as_csr(matrix[order][:, order])


def system(make: Callable[[], csr_array], lower: bool) -> System:
    """The triangle of the matrix's square part, with a diagonal that keeps values small."""
    matrix = make()
    size = min(matrix.shape)
    square = matrix[:size, :size]
    strict = csr_array(tril(square, -1) if lower else triu(square, 1))
    strict.data = np.ones_like(strict.data, dtype=np.float64)
    weight = np.maximum(np.diff(strict.indptr), 1)
    strict.data /= np.repeat(2.0 * weight, np.diff(strict.indptr))
    triangle = as_csr(strict + eye_array(size, format="csr"))
    return System(triangle, made.vector(size), lower)


def case(label: str, make: Callable[[], System], threads: int) -> Case:
    """One triangle."""
    return Case(
        label=label,
        data=make,
        ours=partial(prepare_ours, threads=threads),
        peers=(
            Contestant("serial", partial(prepare_ours, threads=1, schedule="serial i"), "ours on one thread"),
            Contestant("mkl", partial(prepare_mkl, threads=threads)),
            Contestant("scipy", prepare_scipy, "1 thread"),
        ),
        check=check,
        bytes_moved=bytes_moved,
        facts=facts,
    )


def prepare_ours(data: System, threads: int, schedule: str = "") -> Runner:
    """Our kernel, bound; its levels are found in a first call, and which way is fastest in those of a tenth of a second
    more, as a peer's inspector is told that there will be many calls."""
    spfgen = module_or_missing("spfgen.api")
    text = LOWER if data.lower else UPPER
    kernel = spfgen.compile(text, L="csr", b="dense", x="dense", threads=threads, schedule=schedule)
    x = unknowns(data.right)
    bound = kernel.bind(L=data.triangle, b=data.right, x=x)
    end = time.perf_counter() + SETTLED
    while time.perf_counter() < end:
        bound()
    return Runner(bound, lambda: x, (data,))


def unknowns(right: np.ndarray) -> np.ndarray:
    """The x of a contestant, zeros: as far behind b in a page of memory for each of them. Where stores to x fall on the
    places in a page that b is soon read from, processors wait, and the same code takes a third longer."""
    room = np.zeros(right.size + PAGE // right.itemsize)
    begin = (right.ctypes.data + APART - room.ctypes.data) % PAGE // right.itemsize
    return room[begin : begin + right.size]


def prepare_mkl(data: System, threads: int) -> Runner:
    """mkl_sparse_d_trsv after its inspector."""
    return mkl.prepare_solve(data.triangle, data.right, unknowns(data.right), data.lower, threads)


def prepare_scipy(data: System) -> Runner:
    """`spsolve_triangular`, which has one thread and makes a new x each time."""
    return Runner(lambda: spsolve_triangular(data.triangle, data.right, lower=data.lower))


def check(data: System) -> Callable[[Any], str]:
    """The reference is scipy's; the diagonal dominates, so that errors do not grow."""
    expected = spsolve_triangular(data.triangle, data.right, lower=data.lower)
    tolerance = np.full(expected.size, 1e-12 * np.abs(expected).max(initial=1.0))
    return lambda result: compare(result, expected, tolerance)


def bytes_moved(data: System) -> int:
    """Each array once: values and columns, row starts, b, x."""
    rows = data.right.size
    return data.triangle.nnz * (8 + 4) + (rows + 1) * 4 + 2 * rows * 8


def facts(data: System) -> dict[str, int]:
    """How much there is, and how many rows must wait for one another at least."""
    return {"rows": data.right.size, "entries": data.triangle.nnz, "levels": levels(data)}


def levels(data: System) -> int:
    """The longest chain of rows that need one another."""
    starts, columns = data.triangle.indptr.tolist(), data.triangle.indices.tolist()
    rows = range(data.right.size)
    depth = [0] * data.right.size
    for row in rows if data.lower else reversed(rows):
        own = columns[starts[row] : starts[row + 1]]
        depth[row] = 1 + max((depth[c] for c in own if c != row), default=0)
    return max(depth, default=0)
