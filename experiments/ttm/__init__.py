"""C[i,j,r] = A[i,j,k]*B[k,r] with A in compressed fibres: C has the fibres of A, each with a dense row.

Beside taco's loops, which have one thread, and MKL's product of a matrix with a row for each fibre.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from experiments.data.matrices import factor
from experiments.data.tensors import Fibres
from experiments.data.trees import label, trees
from experiments.harness import targets
from experiments.harness.case import Case, Contestant, Runner
from experiments.harness.check import compare, sum_tolerance
from experiments.harness.race import Outcome
from experiments.harness.targets import Target
from experiments.peers import mkl_products, taco_kernel
from experiments.peers.spfgen import module_or_missing

SPEC = """
layout fibre_rows(n_1, n_2, n_3) {
    size nnz_1, nnz_2
    relation { [p_1, p_2, p_3] -> [i, j, r] :
        0 <= p_1 < nnz_1 and ptr_2(p_1) <= p_2 < ptr_2(p_1 + 1) and 0 <= p_3 < n_3
        and i = idx_1(p_1) and j = idx_2(p_2) and r = p_3 }
    index idx_1[nnz_1] {
        range 0 <= idx_1(p) < n_1
        property strictly increasing
    }
    index ptr_2[nnz_1 + 1] {
        range 0 <= ptr_2(p) <= nnz_2
        property increasing
        property ptr_2(0) = 0
        property ptr_2(nnz_1) = nnz_2
    }
    index idx_2[nnz_2] {
        range 0 <= idx_2(p) < n_2
        property strictly increasing within ptr_2
    }
    value val[nnz_2, n_3] at [p_2, p_3]
}
kernel ttm {
    tensor A : csf3
    tensor B : dense
    tensor C : fibre_rows shares A on i, j
    C[i, j, r] = A[i, j, k]*B[k, r]
}
"""
COLUMNS = (16, 64)
TARGETS = (
    Target("taco, 1 thread", ("taco",), 1.0, part=", 1 thread"),
    Target("taco, 1 thread", ("taco",), 3.5, part=" threads"),
    Target("mkl on the flattened fibres", ("mkl",), 1.0),
)

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Product:
    """A tensor and the factor of its last mode."""

    tensor: Fibres
    factor: Array


def cases(quick: bool, threads: int) -> list[Case]:
    """Each tensor with few columns and with many, with one thread and with all."""
    return [
        case(name, make, columns, count)
        for count in sorted({1, threads})
        for name, make in trees(quick)
        for columns in COLUMNS
    ]


def case(name: str, make: Callable[[], Fibres], columns: int, threads: int) -> Case:
    """One tensor, number of columns and thread count."""
    return Case(
        label=label(name, columns, threads),
        data=lambda: product(make, columns),
        ours=partial(prepare_ours, threads=threads),
        peers=(
            Contestant("taco", prepare_taco, "1 thread"),
            Contestant("mkl", partial(prepare_mkl, threads=threads, inspect=False)),
            Contestant("mkl", partial(prepare_mkl, threads=threads, inspect=True), "optimized"),
        ),
        check=check,
        bytes_moved=bytes_moved,
        facts=facts,
        threads=threads,
    )


def product(make: Callable[[], Fibres], columns: int) -> Product:
    """The data of a case."""
    tensor = make()
    return Product(tensor, factor(tensor.shape[2], columns))


def result(data: Product) -> Array:
    """Memory for the rows of the result."""
    return np.full((data.tensor.idx_2.size, data.factor.shape[1]), np.nan)


@cache
def compiled(threads: int) -> Any:
    """The kernel."""
    return module_or_missing("spfgen").parse(SPEC).kernels["ttm"].compile(threads=threads)


def prepare_ours(data: Product, threads: int) -> Runner:
    """spfgen's kernel, its arrays bound once; the result shares the arrays of its fibres with A."""
    spfgen, kernel, values = module_or_missing("spfgen"), compiled(threads), result(data)
    a = spfgen.tensor("csf3", shape=data.tensor.shape, **data.tensor.arrays)
    layout = spfgen.parse(SPEC).layouts["fibre_rows"]
    own = {name: data.tensor.arrays[name] for name in ("idx_1", "ptr_2", "idx_2")}
    shape = (*data.tensor.shape[:2], data.factor.shape[1])
    c = spfgen.tensor(layout, shape=shape, **own, val=values)
    return Runner(kernel.bind(A=a, B=data.factor, C=c), lambda: values, (data, a, c))


def prepare_taco(data: Product) -> Runner:
    """taco's loops: it has no threads for a sparse result."""
    values, tensor = result(data), data.tensor
    shape = (*tensor.shape[:2], data.factor.shape[1])
    tensors = {
        "C": taco_kernel.Stored("ssd", values, shape, [*tensor.levels[:2], ()]),
        "A": taco_kernel.tree(tensor),
        "B": taco_kernel.dense(data.factor),
    }
    return taco_kernel.prepare("C(i,j,r)=A(i,j,k)*B(k,r)", tensors, 1, values)


def prepare_mkl(data: Product, threads: int, inspect: bool) -> Runner:
    """A matrix with a row for each fibre times the factor."""
    flat = data.tensor.flat
    return mkl_products.prepare_spmm(flat, data.factor, threads, inspect=inspect, result=result(data))


def check(data: Product) -> Callable[[Any], str]:
    """The reference is scipy's product of the flattened tensor."""
    flat = data.tensor.flat
    expected = flat @ data.factor
    tolerance = sum_tolerance(np.diff(flat.indptr)[:, None], abs(flat) @ abs(data.factor))
    return lambda found: compare(found, expected, tolerance)


def bytes_moved(data: Product) -> int:
    """Each array that the product needs once: idx_1 and idx_2 are not among them."""
    tensor = data.tensor
    read = tensor.val.nbytes + tensor.idx_3.nbytes + tensor.ptr_3.nbytes + data.factor.nbytes
    return read + tensor.idx_2.size * data.factor.shape[1] * 8


def facts(data: Product) -> Mapping[str, int]:
    """What one wants to know when reading the times."""
    return {"entries": data.tensor.val.size, "fibres": data.tensor.idx_2.size, "columns of B": data.factor.shape[1]}


def closing(outcomes: Sequence[Outcome]) -> str:
    """The end of the report."""
    return targets.closing(outcomes, TARGETS)
