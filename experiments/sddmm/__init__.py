"""C[i,j] = A[i,j]*B[i,k]*D[k,j] with A and C in csr over one pattern, B by rows, D by rows or by columns.

taco's loops have one thread: it cannot write a sparse result in parallel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
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
from experiments.peers import taco_kernel
from experiments.peers.spfgen import module_or_missing

SPEC = """
kernel sddmm {{
    tensor A : csr
    tensor B : dense
    tensor D : {second}
    tensor C : csr shares A
    C[i, j] = A[i, j]*B[i, k]*D[k, j]
}}
"""
LAYOUTS = {"by rows": "dense", "by columns": "dense_col"}
COLUMNS = (16, 64)
CALL_SECONDS, TOTAL_SECONDS = 10.0, 3.0
TARGETS = (
    Target("taco, D by rows", ("taco",), 1.0, part="D by rows"),
    Target("taco, D by columns", ("taco",), 1.0, part="D by columns"),
)
CHUNK = 1 << 16

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Product:
    """A matrix and two dense factors; `second` holds D, by columns the memory of its transpose."""

    matrix: csr_array
    first: Array
    second: Array

    @property
    def rows(self) -> Array:
        """The row of each entry."""
        return np.repeat(np.arange(self.matrix.shape[0]), np.diff(self.matrix.indptr))


def cases(quick: bool, threads: int) -> list[Case]:
    """Each matrix with short factors and with long ones, with one thread and with all."""
    return [
        case(name, make, order, columns, count)
        for count in sorted({1, threads})
        for name, make in matrices(quick)
        for order in LAYOUTS
        for columns in COLUMNS
    ]


def case(name: str, make: Callable[[], csr_array], order: str, columns: int, threads: int) -> Case:
    """One matrix, storage of D, length of the sums and thread count."""
    return Case(
        label=label(f"{name}, D {order}", columns, threads),
        data=lambda: product(make, order, columns),
        ours=partial(prepare_ours, order=order, threads=threads),
        peers=(Contestant("taco", partial(prepare_taco, order=order), "1 thread"),),
        check=check,
        bytes_moved=bytes_moved,
        facts=facts,
        threads=threads,
        pace=Pace(CALL_SECONDS, TOTAL_SECONDS),
        size=columns,
    )


def product(make: Callable[[], csr_array], order: str, columns: int) -> Product:
    """The data of a case."""
    matrix = make()
    second = factor(columns, matrix.shape[1], seed=11)
    if order == "by columns":
        second = np.asfortranarray(second)
    return Product(matrix, factor(matrix.shape[0], columns), second)


@cache
def compiled(order: str, threads: int) -> Any:
    """The kernel for D by rows or by columns."""
    text = SPEC.format(second=LAYOUTS[order])
    return module_or_missing("spfgen").parse(text).kernels["sddmm"].compile(threads=threads)


def prepare_ours(data: Product, order: str, threads: int) -> Runner:
    """spfgen's kernel, its arrays bound once; the result shares the pattern of A."""
    spfgen, values, matrix = module_or_missing("spfgen"), np.full(data.matrix.nnz, np.nan), data.matrix
    pattern = {"rowptr": matrix.indptr, "colidx": matrix.indices}
    a = spfgen.tensor("csr", shape=matrix.shape, **pattern, val=matrix.data)
    c = spfgen.tensor("csr", shape=matrix.shape, **pattern, val=values)
    bound = compiled(order, threads).bind(A=a, B=data.first, D=data.second, C=c)
    return Runner(bound, lambda: values, (data, a, c))


def prepare_taco(data: Product, order: str) -> Runner:
    """taco's loops in the order i, j, k."""
    values, matrix = np.full(data.matrix.nnz, np.nan), data.matrix
    second = taco_kernel.dense(data.second)
    if order == "by columns":
        second = taco_kernel.Stored("dd:1,0", data.second, data.second.shape, [(), ()])
    tensors = {
        "C": taco_kernel.Stored("ds", values, matrix.shape, [(), (matrix.indptr, matrix.indices)]),
        "A": taco_kernel.rows(matrix),
        "B": taco_kernel.dense(data.first),
        "D": second,
    }
    commands = ("reorder(i,j,k)",)
    return taco_kernel.prepare("C(i,j)=A(i,j)*B(i,k)*D(k,j)", tensors, 1, values, commands=commands)


def check(data: Product) -> Callable[[Any], str]:
    """The reference multiplies the rows and columns that belong to each entry."""
    rows, columns = data.rows, data.matrix.indices
    expected, magnitude = np.empty(rows.size), np.empty(rows.size)
    turned = np.ascontiguousarray(data.second.T)
    for at in range(0, rows.size, CHUNK):
        part = slice(at, at + CHUNK)
        one, two = data.first[rows[part]], turned[columns[part]]
        expected[part] = data.matrix.data[part] * np.einsum("ek,ek->e", one, two)
        magnitude[part] = abs(data.matrix.data[part]) * np.einsum("ek,ek->e", abs(one), abs(two))
    tolerance = sum_tolerance(data.first.shape[1] + 2, magnitude)
    return lambda found: compare(found, expected, tolerance)


def bytes_moved(data: Product) -> int:
    """Each array once."""
    nnz = int(data.matrix.nnz)
    return nnz * (8 + 4 + 8) + (data.matrix.shape[0] + 1) * 4 + data.first.nbytes + data.second.nbytes


def facts(data: Product) -> Mapping[str, int]:
    """What one wants to know when reading the times."""
    return {"rows": data.matrix.shape[0], "entries": int(data.matrix.nnz), "terms of a sum": data.first.shape[1]}


def closing(outcomes: Sequence[Outcome]) -> str:
    """The end of the report."""
    return targets.closing(outcomes, TARGETS)
