"""M[i,r] = A[i,j,k]*B[j,r]*C[k,r] with A in compressed fibres, all else dense row by row: ours beside taco."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from experiments.data.matrices import factor
from experiments.data.tensors import Fibres
from experiments.data.trees import label, trees
from experiments.harness import targets
from experiments.harness.case import Case, Contestant, Runner
from experiments.harness.check import compare, sum_tolerance
from experiments.harness.race import Outcome
from experiments.harness.targets import Target
from experiments.peers import taco_kernel
from experiments.peers.spfgen import module_or_missing

PROGRAM = "M[i,r] = A[i,j,k]*B[j,r]*C[k,r]"
COLUMNS = (16, 64)
TARGETS = (Target("taco", ("taco",), 1.0), Target("taco, each", ("taco",), 1.0, each=True))

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Product:
    """A tensor and the factors of its second and third mode."""

    tensor: Fibres
    second: Array
    third: Array


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
    schedules = ("static",) if threads == 1 else ("static", "dynamic,32")
    return Case(
        label=label(name, columns, threads),
        data=lambda: product(make, columns),
        ours=partial(prepare_ours, threads=threads),
        peers=tuple(Contestant("taco", partial(prepare_taco, threads=threads, schedule=s), s) for s in schedules),
        check=check,
        bytes_moved=bytes_moved,
        facts=facts,
        threads=threads,
    )


def product(make: Callable[[], Fibres], columns: int) -> Product:
    """The data of a case."""
    tensor = make()
    return Product(tensor, factor(tensor.shape[1], columns), factor(tensor.shape[2], columns, seed=11))


def result(data: Product) -> Array:
    """Memory for the result."""
    return np.full((data.tensor.shape[0], data.second.shape[1]), np.nan)


def prepare_ours(data: Product, threads: int) -> Runner:
    """spfgen's kernel, its arrays bound once."""
    spfgen, m = module_or_missing("spfgen"), result(data)
    kernel = spfgen.compile(PROGRAM, A="csf3", B="dense", C="dense", M="dense", threads=threads)
    a = spfgen.tensor("csf3", shape=data.tensor.shape, **data.tensor.arrays)
    return Runner(kernel.bind(A=a, B=data.second, C=data.third, M=m), lambda: m, (data, a))


def prepare_taco(data: Product, threads: int, schedule: str) -> Runner:
    """taco's loops in the order i, j, k, r, the slices in parallel."""
    m = result(data)
    tensors = {
        "M": taco_kernel.dense(m),
        "A": taco_kernel.tree(data.tensor),
        "B": taco_kernel.dense(data.second),
        "C": taco_kernel.dense(data.third),
    }
    return taco_kernel.prepare("M(i,r)=A(i,j,k)*B(j,r)*C(k,r)", tensors, threads, m, schedule)


def check(data: Product) -> Callable[[Any], str]:
    """The reference sums each fibre, then the fibres of each slice."""
    tensor = data.tensor
    lengths = np.diff(tensor.ptr_3)
    slices = tensor.idx_1[tensor.slice_of_fibre]
    gather = csr_array((np.ones(slices.size), (slices, np.arange(slices.size))), shape=(tensor.shape[0], slices.size))
    expected = gather @ ((tensor.flat @ data.third) * data.second[tensor.idx_2])
    magnitude = gather @ ((abs(tensor.flat) @ abs(data.third)) * abs(data.second[tensor.idx_2]))
    tolerance = sum_tolerance((gather @ (lengths + 2.0))[:, None], magnitude)
    return lambda found: compare(found, expected, tolerance)


def bytes_moved(data: Product) -> int:
    """Each array once."""
    arrays = (*data.tensor.arrays.values(), data.second, data.third)
    return sum(a.nbytes for a in arrays) + data.tensor.shape[0] * data.second.shape[1] * 8


def facts(data: Product) -> Mapping[str, int]:
    """What one wants to know when reading the times."""
    return {"entries": data.tensor.val.size, "fibres": data.tensor.idx_2.size, "columns": data.second.shape[1]}


def closing(outcomes: Sequence[Outcome]) -> str:
    """The end of the report."""
    return targets.closing(outcomes, TARGETS)
