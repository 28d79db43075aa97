"""Who takes part, and how each is made ready."""

from __future__ import annotations

import time
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.harness.busy import least_over_most
from experiments.harness.case import Contestant, Missing, Runner
from experiments.harness.native import bind, load
from experiments.peers import eigen, graphblas, mkl, taco
from experiments.peers.spfgen import module_or_missing
from experiments.spmv.data import FROM_SCIPY, Product

PROGRAM = "y[i] = A[i,j]*x[j]"
CHUNKS = (32, 256, 2048)
CHOICE_SECONDS = 10.0
"""How long to look for a layout."""
BUSY = "threads at work, least over most: "
MKL_FORMATS = ("csr", "csc", "coo", "bsr")


def for_csr(threads: int, value: str, index: str) -> tuple[Contestant, ...]:
    """The peers when A is in csr; for other types than the usual ones those that have them."""
    mkl_both = (
        Contestant("mkl", partial(prepare_mkl, threads=threads, inspect=False)),
        Contestant("mkl-ie", partial(prepare_mkl, threads=threads, inspect=True)),
    )
    chosen = Contestant("ours-chosen", partial(prepare_chosen, threads=threads))
    scipy = Contestant("scipy", prepare_scipy, "1 thread")
    if (value, index) != ("float64", "int32"):
        own = (Contestant("eigen", partial(prepare_eigen, threads=threads)),) if index == "int32" else ()
        return (chosen, scipy, *mkl_both, *own)
    chunks = () if threads == 1 else tuple(f"dynamic,{c}" for c in CHUNKS)
    return (
        chosen,
        *(
            Contestant("hand-c", partial(prepare_hand, threads=threads, name=name), setting)
            for name, setting in (("spmv_static", "static"), ("spmv_dynamic", "dynamic,64"))
        ),
        scipy,
        *mkl_both,
        Contestant("eigen", partial(prepare_eigen, threads=threads)),
        Contestant("graphblas", partial(prepare_graphblas, threads=threads)),
        Contestant("taco", partial(prepare_taco, threads=threads, schedule="dynamic,32"), "dynamic,32"),
        *(
            Contestant("taco-best", partial(prepare_taco, threads=threads, schedule=s), s)
            for s in ("static", *chunks, "guided")
        ),
    )


def for_layout(layout: str, threads: int) -> tuple[Contestant, ...]:
    """The peers of another layout: those who have it, and our own csr and MKL's on the same matrix."""
    name = "bsr" if layout == "bcsr" else layout
    found = [Contestant("ours-csr", partial(prepare_ours, threads=threads, layout="csr"))]
    if name in FROM_SCIPY:
        found.append(Contestant("scipy", prepare_scipy, "1 thread"))
    if name in MKL_FORMATS:
        found += [
            Contestant("mkl", partial(prepare_mkl, threads=threads, inspect=False)),
            Contestant("mkl-ie", partial(prepare_mkl, threads=threads, inspect=True)),
        ]
    else:
        found.append(Contestant("mkl-csr", partial(prepare_mkl_csr, threads=threads)))
    return tuple(found)


@cache
def _compiled(layout: Any, threads: int) -> Any:
    return module_or_missing("spfgen.api").compile(PROGRAM, A=layout, x="dense", y="dense", threads=threads)


def prepare_ours(data: Product, threads: int, layout: str = "") -> Runner:
    """spfgen's kernel, its arrays bound once; in csr when the layout says so."""
    y = np.full(data.matrix.shape[0], np.nan, data.matrix.dtype)
    matrix = data.matrix if layout == "csr" else data.stored
    kernel = _compiled("csr" if layout == "csr" else data.spec, threads)
    bound = kernel.bind(A=matrix, x=data.x, y=y)
    share = least_over_most(bound, threads) if threads > 1 else None
    return Runner(bound, lambda: y, (data,), "" if share is None else f"{BUSY}{share:.3f}")


def prepare_chosen(data: Product, threads: int) -> Runner:
    """Our counterpart of an inspector: the layout in which `spfgen.tune_layouts` finds the kernel to be fastest."""
    spfgen = module_or_missing("spfgen")
    start = time.perf_counter()
    found = spfgen.tune_layouts(PROGRAM, "A", A=data.matrix, x=data.x, threads=threads, seconds=CHOICE_SECONDS)
    spent = time.perf_counter() - start
    y = np.full(data.matrix.shape[0], np.nan, data.matrix.dtype)
    bound = found.kernel.bind(x=data.x, y=y, **found.operands)
    remark = f"{found.layouts['A']}, chosen in {spent:.3g} s, converted in {found.conversion * 1e3:.3g} ms"
    return Runner(bound, lambda: y, (data,), remark)


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
    matrix, x = data.natural, data.x
    return Runner(lambda: matrix @ x)


def prepare_mkl(data: Product, threads: int, inspect: bool) -> Runner:
    """MKL as it is, or after its inspector has seen the matrix ("ie": inspector, executor)."""
    return mkl.prepare_spmv(data.natural, data.x, threads, inspect)


def prepare_mkl_csr(data: Product, threads: int) -> Runner:
    """MKL on the same matrix in csr, where it has not the layout."""
    return mkl.prepare_spmv(data.matrix, data.x, threads, inspect=True)


def prepare_graphblas(data: Product, threads: int) -> Runner:
    """SuiteSparse:GraphBLAS."""
    return graphblas.prepare_spmv(data.matrix, data.x, threads)


def prepare_eigen(data: Product, threads: int) -> Runner:
    """Eigen's product, rows shared out."""
    return eigen.prepare_spmv(data.matrix, data.x, threads)


def prepare_taco(data: Product, threads: int, schedule: str) -> Runner:
    """taco's kernel with one schedule."""
    if data.matrix.nnz == 0:
        raise Missing("no entries")
    return taco.prepare_spmv(data.matrix, data.x, schedule, threads)
