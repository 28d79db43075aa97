"""Who takes part, for A in csr and for A in csc, and how each is made ready."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array

from experiments.harness.case import Contestant, Refused, Runner
from experiments.peers import eigen, graphblas, hand, taco
from experiments.peers.spfgen import module_or_missing
from experiments.spmspv.data import Product

KERNEL = """
kernel spmspv {{
    tensor A : {layout}
    tensor x : sv
    tensor y : dense
    y[i] = A[i, j]*x[j]{schedule}
}}
"""
ALGORITHMS = ("sequential", "search", "gallop", "hash", "array", "bitmap", "scatter", "loop")
MOST_PAIRS = 1 << 31


def kernel_text(layout: str, algorithm: str | None = None) -> str:
    """The spec: the same for all but the line that forces how the entry of x is found."""
    schedule = f"\n    schedule {{ find x.p : {algorithm} }}" if algorithm else ""
    return KERNEL.format(layout=layout, schedule=schedule)


def for_rows(threads: int) -> tuple[Contestant, ...]:
    """The peers when A is in csr."""
    schedules = ("static",) if threads == 1 else ("static", "dynamic")
    return (
        *(Contestant(f"spfgen-{a}", partial(prepare_forced, threads=threads, algorithm=a)) for a in ALGORITHMS),
        *(Contestant("merge", partial(prepare_merge, threads=threads, schedule=s), s) for s in schedules),
        *(Contestant("scatter", partial(prepare_scatter, threads=threads, schedule=s), s) for s in schedules),
        *(Contestant("taco", partial(prepare_taco, threads=threads, schedule=s), s) for s in schedules),
        *eigen_products(by_column=False),
        Contestant("eigen-rows", partial(prepare_eigen_rows, threads=threads)),
        Contestant("scipy", prepare_scipy, "1 thread"),
        Contestant("graphblas", partial(prepare_graphblas, threads=threads), "default"),
        Contestant("graphblas", partial(prepare_graphblas, threads=threads, method="dot"), "dot"),
        Contestant("graphblas-bitmap", partial(prepare_graphblas, threads=threads, bitmap=True), "default"),
    )


def for_columns(threads: int) -> tuple[Contestant, ...]:
    """The peers when A is in csc. taco, Eigen and scipy have one thread there: they are left out beside more."""
    by_column = partial(prepare_graphblas, threads=threads, by_column=True)
    everyone = (
        Contestant("columns", partial(prepare_columns, threads=threads)),
        *(Contestant("graphblas", partial(by_column, method=m), m) for m in ("default", "gustavson", "hash")),
    )
    alone = (
        Contestant("taco", partial(prepare_taco, threads=1, schedule="static", by_column=True), "1 thread"),
        *eigen_products(by_column=True),
        Contestant("scipy", prepare_scipy, "1 thread"),
    )
    return everyone + alone if threads == 1 else everyone


def eigen_products(by_column: bool) -> tuple[Contestant, ...]:
    """`A * x` assigned to a sparse and to a dense vector."""
    return tuple(
        Contestant(name, partial(prepare_eigen, by_column=by_column, result=result), "1 thread")
        for name, result in (("eigen", "sparse"), ("eigen-dense", "dense"))
    )


@cache
def compiled(text: str, threads: int) -> Any:
    """The kernel of a spec."""
    return module_or_missing("spfgen").parse(text).kernels["spmspv"].compile(threads=threads)


def prepare_ours(data: Product, threads: int, layout: str, algorithm: str | None = None) -> Runner:
    """spfgen's kernel, its arrays bound once."""
    kernel = compiled(kernel_text(layout, algorithm), threads)
    y = np.full(data.matrix.shape[0], np.nan)
    return Runner(kernel.bind(**data.tensors, y=y), lambda: y, (data,))


def prepare_forced(data: Product, threads: int, algorithm: str) -> Runner:
    """spfgen told how to find the entry of x; it may not know that way, or not think it right here."""
    errors = module_or_missing("spfgen.errors")
    pairs = data.matrix.nnz * data.index.size
    if algorithm == "loop" and pairs > MOST_PAIRS:
        raise Refused(f"not tried: {pairs:.1e} pairs")
    try:
        return prepare_ours(data, threads, "csr", algorithm)
    except (errors.InternalError, errors.DataError):
        raise  # a bug, or a mistake in our data: no refusal
    except errors.SpfgenError as error:
        raise Refused(next(iter(str(error).splitlines()), type(error).__name__)) from error


def prepare_merge(data: Product, threads: int, schedule: str) -> Runner:
    """The loop over both, as one writes it and as taco does."""
    return hand.prepare_merge(data.matrix, data.index, data.value, threads, schedule)


def prepare_scatter(data: Product, threads: int, schedule: str) -> Runner:
    """The dense product after x was made dense."""
    return hand.prepare_scatter(data.matrix, data.index, data.value, threads, schedule)


def prepare_columns(data: Product, threads: int) -> Runner:
    """The columns added up."""
    return hand.prepare_columns(data.matrix, data.index, data.value, threads)


def prepare_taco(data: Product, threads: int, schedule: str, by_column: bool = False) -> Runner:
    """taco's kernel."""
    how = {"static": "static", "dynamic": "dynamic,64"}[schedule]
    return taco.prepare_spmspv(data.matrix, data.index, data.value, threads, how, by_column)


def prepare_eigen(data: Product, by_column: bool, result: str) -> Runner:
    """Eigen's product."""
    return eigen.prepare_product(data.matrix, data.index, data.value, by_column, result)


def prepare_eigen_rows(data: Product, threads: int) -> Runner:
    """Eigen's dot product for each row."""
    return eigen.prepare_dots(data.matrix, data.index, data.value, threads)


def prepare_scipy(data: Product) -> Runner:
    """`A @ x` with x a matrix of one column in the same form as A; a new sparse result each time."""
    columns, size = data.matrix.shape[1], data.index.size
    x: csr_array | csc_array
    if isinstance(data.matrix, csc_array):
        x = csc_array((data.value, data.index, np.array([0, size], np.int32)), shape=(columns, 1))
    else:
        starts = np.searchsorted(data.index, np.arange(columns + 1)).astype(np.int32)
        x = csr_array((data.value, np.zeros(size, np.int32), starts), shape=(columns, 1))
    matrix = data.matrix
    made: list[Any] = []

    def call() -> None:
        made[:] = [matrix @ x]

    return Runner(call, lambda: made[0].toarray()[:, 0])


def prepare_graphblas(
    data: Product, threads: int, by_column: bool = False, bitmap: bool = False, method: str = "default"
) -> Runner:
    """SuiteSparse:GraphBLAS."""
    return graphblas.prepare_spmspv(
        data.matrix, data.index, data.value, threads, by_column=by_column, bitmap=bitmap, method=method
    )
