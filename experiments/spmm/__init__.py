"""C[i,c] = A[i,j]*B[j,c] with A in csr, B and C dense row by row: ours beside MKL, scipy and taco."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from experiments.data.matrices import factor, matrices
from experiments.data.trees import label
from experiments.harness import targets
from experiments.harness.case import Case, Contestant, Runner
from experiments.harness.check import compare, sum_tolerance
from experiments.harness.pace import Pace
from experiments.harness.race import Outcome
from experiments.harness.targets import Target
from experiments.peers import mkl_products, taco_kernel
from experiments.peers.spfgen import module_or_missing

PROGRAM = "C[i,c] = A[i,j]*B[j,c]"
COLUMNS = (16, 64, 256)
CALL_SECONDS, TOTAL_SECONDS = 10.0, 3.0
TARGETS = (
    *(Target(f"mkl, {n} columns", ("mkl",), 1.0, part=f"{n} columns") for n in COLUMNS),
    Target("mkl", ("mkl",), 1.0),
    Target("taco", ("taco",), 1.0),
    Target("scipy", ("scipy",)),
)

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Product:
    """A sparse matrix and a dense one to be multiplied."""

    matrix: csr_array
    factor: Array


def cases(quick: bool, threads: int) -> list[Case]:
    """Each matrix with few columns and with many, with one thread and with all."""
    return [
        case(name, make, columns, count)
        for count in sorted({1, threads})
        for name, make in matrices(quick)
        for columns in COLUMNS
    ]


def case(name: str, make: Callable[[], csr_array], columns: int, threads: int) -> Case:
    """One matrix, number of columns and thread count."""
    schedules = ("static",) if threads == 1 else ("static", "dynamic,32")
    return Case(
        label=label(name, columns, threads),
        data=lambda: product(make, columns),
        ours=partial(prepare_ours, threads=threads),
        peers=(
            Contestant("mkl", partial(prepare_mkl, threads=threads, inspect=False)),
            Contestant("mkl", partial(prepare_mkl, threads=threads, inspect=True), "optimized"),
            Contestant("scipy", prepare_scipy, "1 thread"),
            *(Contestant("taco", partial(prepare_taco, threads=threads, schedule=s), s) for s in schedules),
        ),
        check=check,
        bytes_moved=bytes_moved,
        facts=facts,
        threads=threads,
        pace=Pace(CALL_SECONDS, TOTAL_SECONDS),
        size=columns,
    )


def product(make: Callable[[], csr_array], columns: int) -> Product:
    """The data of a case."""
    matrix = make()
    return Product(matrix, factor(matrix.shape[1], columns))


def result(data: Product) -> Array:
    """Memory for a result, with nothing right in it."""
    return np.full((data.matrix.shape[0], data.factor.shape[1]), np.nan)


def prepare_ours(data: Product, threads: int) -> Runner:
    """spfgen's kernel, its arrays bound once."""
    kernel = module_or_missing("spfgen.api").compile(PROGRAM, A="csr", B="dense", C="dense", threads=threads)
    c = result(data)
    return Runner(kernel.bind(A=data.matrix, B=data.factor, C=c), lambda: c, (data,))


def prepare_mkl(data: Product, threads: int, inspect: bool) -> Runner:
    """MKL's product, as it is or after it has seen the matrix."""
    return mkl_products.prepare_spmm(data.matrix, data.factor, threads, inspect=inspect, result=result(data))


def prepare_scipy(data: Product) -> Runner:
    """`A @ B`, a new result each time."""
    return Runner(lambda: data.matrix @ data.factor)


def prepare_taco(data: Product, threads: int, schedule: str) -> Runner:
    """taco's loops in the order i, j, c, the rows in parallel."""
    c = result(data)
    tensors = {"C": taco_kernel.dense(c), "A": taco_kernel.rows(data.matrix), "B": taco_kernel.dense(data.factor)}
    commands = ("reorder(i,j,c)", "parallelize(i,CPUThread,NoRaces)")
    return taco_kernel.prepare("C(i,c)=A(i,j)*B(j,c)", tensors, threads, c, schedule, commands)


def check(data: Product) -> Callable[[Any], str]:
    """The reference is scipy's product; each row has its own bound."""
    expected = data.matrix @ data.factor
    lengths = np.diff(data.matrix.indptr)[:, None]
    tolerance = sum_tolerance(lengths, abs(data.matrix) @ abs(data.factor))
    return lambda found: compare(found, expected, tolerance)


def bytes_moved(data: Product) -> int:
    """Each array once."""
    rows, columns = data.matrix.shape[0], data.factor.shape[1]
    return int(data.matrix.nnz) * (8 + 4) + (rows + 1) * 4 + data.factor.nbytes + rows * columns * 8


def facts(data: Product) -> Mapping[str, int]:
    """What one wants to know when reading the times."""
    return {"rows": data.matrix.shape[0], "entries": int(data.matrix.nnz), "columns of B": data.factor.shape[1]}


def closing(outcomes: Sequence[Outcome]) -> str:
    """The end of the report."""
    return targets.closing(outcomes, TARGETS)
