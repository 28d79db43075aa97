"""y[i] = A[i,j]*x[j] with A in csr: ours beside a loop written by hand, scipy, MKL, GraphBLAS and taco."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from experiments.data import made, stored
from experiments.harness.case import Case, Contestant, Runner
from experiments.harness.check import compare, sum_tolerance
from experiments.harness.native import bind, load
from experiments.peers import graphblas, mkl, taco
from experiments.peers.spfgen import module_or_missing

PROGRAM = "y[i] = A[i,j]*x[j]"
LEAST_ENTRIES = 80_000


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix and a vector to be multiplied."""

    matrix: csr_array
    x: np.ndarray


def cases(quick: bool, threads: int) -> list[Case]:
    """Made matrices that lie in the caches and far outside of them, then real ones."""
    return [case(label, make, threads) for label, make in matrices(quick)]


def matrices(quick: bool) -> Iterator[tuple[str, Callable[[], csr_array]]]:
    """Labels and makers."""
    if quick:
        yield "stencil 100x100", partial(made.stencil, 100)
        yield "power law 2^12", partial(made.power_law, 12, 8)
        yield "empty rows 20000", partial(made.empty_rows, 20_000, 10, 8)
    else:
        for k in (32, 300, 1500):
            yield f"stencil {k}x{k}", partial(made.stencil, k)
        yield "banded 20000, 31 wide", partial(made.banded, 20_000, 15)
        yield "banded 500000, 31 wide", partial(made.banded, 500_000, 15)
        yield "uniform 1000000, 8 a row", partial(made.uniform, 1_000_000, 1_000_000, 8)
        yield "power law 2^14", partial(made.power_law, 14, 16)
        yield "power law 2^19", partial(made.power_law, 19, 16)
        yield "long rows 200000", partial(made.long_rows, 200_000, 4, 8, 150_000)
        yield "empty rows 2000000", partial(made.empty_rows, 2_000_000, 20, 16)
    real = stored.repository_matrices() + stored.shared_matrices(LEAST_ENTRIES)
    for matrix in real[-2:] if quick else real:
        yield matrix.name, matrix.load


def case(label: str, make: Callable[[], csr_array], threads: int) -> Case:
    """One matrix."""
    return Case(
        label=label,
        data=partial(product, make),
        ours=partial(prepare_ours, threads=threads),
        peers=(
            Contestant("hand-c", partial(prepare_hand, threads=threads, name="spmv_static"), "static"),
            Contestant("hand-c", partial(prepare_hand, threads=threads, name="spmv_dynamic"), "dynamic,64"),
            Contestant("scipy", prepare_scipy, "1 thread"),
            Contestant("mkl", partial(prepare_mkl, threads=threads, inspect=False)),
            Contestant("mkl-ie", partial(prepare_mkl, threads=threads, inspect=True)),
            Contestant("graphblas", partial(prepare_graphblas, threads=threads)),
            Contestant("taco", partial(prepare_taco, schedule="static"), "static"),
            Contestant("taco", partial(prepare_taco, schedule="dynamic,64"), "dynamic,64"),
        ),
        check=check,
        bytes_moved=bytes_moved,
        facts=facts,
    )


def product(make: Callable[[], csr_array]) -> Product:
    """The data of a case."""
    matrix = make()
    return Product(matrix, made.vector(matrix.shape[1]))


def prepare_ours(data: Product, threads: int) -> Runner:
    """spfgen's kernel, its arrays bound once."""
    kernel = module_or_missing("spfgen.api").compile(PROGRAM, A="csr", x="dense", y="dense", threads=threads)
    y = np.full(data.matrix.shape[0], np.nan)
    return Runner(kernel.bind(A=data.matrix, x=data.x, y=y), lambda: y, (data,))


def prepare_hand(data: Product, threads: int, name: str) -> Runner:
    """The loop written by hand."""
    function = getattr(load(Path(__file__).with_name("hand.c")), name)
    function.restype = None
    y = np.full(data.matrix.shape[0], np.nan)
    matrix = data.matrix
    call = bind(function, threads, matrix.shape[0], matrix.indptr, matrix.indices, matrix.data, data.x, y)
    return Runner(call, lambda: y, (data,))


def prepare_scipy(data: Product) -> Runner:
    """`A @ x`, which has one thread whatever the thread count and makes a new y each time."""
    matrix, x = data.matrix, data.x
    return Runner(lambda: matrix @ x)


def prepare_mkl(data: Product, threads: int, inspect: bool) -> Runner:
    """MKL as it is, or after its inspector has seen the matrix ("ie": inspector, executor)."""
    return mkl.prepare_spmv(data.matrix, data.x, threads, inspect)


def prepare_graphblas(data: Product, threads: int) -> Runner:
    """SuiteSparse:GraphBLAS."""
    return graphblas.prepare_spmv(data.matrix, data.x, threads)


def prepare_taco(data: Product, schedule: str) -> Runner:
    """taco's kernel with one schedule; its thread count is that of OpenMP in this process."""
    return taco.prepare_spmv(data.matrix, data.x, schedule)


def check(data: Product) -> Callable[[Any], str]:
    """The reference is scipy's product; each element may be off by the error bound of its own row."""
    expected = data.matrix @ data.x
    magnitude = abs(data.matrix) @ abs(data.x)
    tolerance = sum_tolerance(np.diff(data.matrix.indptr), magnitude)
    return lambda result: compare(result, expected, tolerance)


def bytes_moved(data: Product) -> int:
    """Each array once: values and columns, row starts, x, y."""
    rows, columns = data.matrix.shape
    return data.matrix.nnz * (8 + 4) + (rows + 1) * 4 + columns * 8 + rows * 8


def facts(data: Product) -> dict[str, int]:
    """What one wants to know of a matrix when reading its times."""
    lengths = np.diff(data.matrix.indptr)
    return {
        "rows": data.matrix.shape[0],
        "columns": data.matrix.shape[1],
        "entries": data.matrix.nnz,
        "longest row": int(lengths.max(initial=0)),
    }
