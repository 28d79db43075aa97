"""C[i,j] = A[i,k]*B[k,j] with all three in csr, the pattern of C computed: A A of several kinds, and A'A.

The others leave the columns of a row in no order; with `sorted` they sort them, as ours are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from experiments.data import made
from experiments.harness import targets
from experiments.harness.case import Case, Contestant, Runner
from experiments.harness.check import compare, sum_tolerance
from experiments.harness.pace import Pace
from experiments.harness.race import Outcome
from experiments.harness.targets import Target
from experiments.peers import graphblas, mkl_products, taco
from experiments.peers.spfgen import module_or_missing

CALL_SECONDS, TOTAL_SECONDS = 20.0, 3.0
SORTED = ("scipy-sorted", "mkl-sorted", "graphblas-sorted", "taco-sorted")
TARGETS = (
    Target("the best, sorted", SORTED, 1.0),
    *(Target(name.replace("-", ", "), (name,), 1.0) for name in SORTED),
    *(Target(name, (name,), 1.0) for name in ("scipy", "mkl", "graphblas")),
)


@dataclass(frozen=True)
class Pair:
    """Two matrices, and an operation of scipy on them."""

    left: csr_array
    right: csr_array
    apply: Callable[[Any, Any], Any]

    @cached_property
    def reference(self) -> tuple[csr_array, Any]:
        """scipy's result, its columns sorted, and how far another may be from it."""
        found = csr_array(self.apply(self.left, self.right))
        found.sort_indices()
        magnitude = csr_array(self.apply(abs(self.left), abs(self.right)))
        magnitude.sort_indices()
        longest = int(np.diff(self.left.indptr).max(initial=0))
        return found, sum_tolerance(longest, magnitude.data)


def cases(quick: bool, threads: int) -> list[Case]:
    """Each matrix with one thread and with all."""
    return [case(name, make, count) for count in sorted({1, threads}) for name, make in matrices(quick)]


def matrices(quick: bool) -> Iterator[tuple[str, Callable[[], tuple[csr_array, csr_array]]]]:
    """Labels and makers of pairs."""
    scale = 8 if quick else 13
    size = 400 if quick else 50_000
    for name, make in (
        ("power law", partial(made.power_law, scale, 8)),
        ("uniform", partial(made.uniform, size, size, 8)),
        ("stencil", partial(made.stencil, 20 if quick else 300)),
    ):
        yield f"{name}, AA", partial(squared, make)
    yield "uniform, A'A", partial(gram, partial(made.uniform, size, size // 4, 4))


def squared(make: Callable[[], csr_array]) -> tuple[csr_array, csr_array]:
    matrix = make()
    return matrix, matrix


def gram(make: Callable[[], csr_array]) -> tuple[csr_array, csr_array]:
    """The transposed matrix, and the matrix."""
    matrix = make()
    turned = csr_array(matrix.T)
    turned.sort_indices()
    return turned, matrix


def case(name: str, make: Callable[[], tuple[csr_array, csr_array]], threads: int) -> Case:
    """One pair of matrices and a thread count."""
    peers = [
        Contestant("scipy", prepare_scipy, "1 thread"),
        Contestant("scipy-sorted", partial(prepare_scipy, in_order=True), "1 thread"),
        Contestant("taco-sorted", _prepared_taco, "1 thread"),
    ]
    for library, prepare in (("mkl", mkl_products.prepare_spgemm), ("graphblas", graphblas.prepare_spgemm)):
        for in_order in (False, True):
            named = f"{library}-sorted" if in_order else library
            own = partial(prepare, threads=threads, in_order=in_order)
            peers.append(Contestant(named, partial(prepare_library, prepare=own)))
    return pair_case(name, make, threads, "C[i,j] = A[i,k]*B[k,j]", product, peers)


def product(left: csr_array, right: csr_array) -> Any:
    return left @ right


def pair_case(
    name: str,
    make: Callable[[], tuple[csr_array, csr_array]],
    threads: int,
    text: str,
    apply: Callable[[Any, Any], Any],
    peers: Sequence[Contestant],
) -> Case:
    """An operation on two matrices."""
    return Case(
        label=f"{name}, {threads} thread{'s' if threads > 1 else ''}",
        data=lambda: Pair(*make(), apply),
        ours=partial(prepare_ours, text=text, threads=threads),
        peers=tuple(peers),
        check=check,
        bytes_moved=bytes_moved,
        facts=facts,
        threads=threads,
        pace=Pace(CALL_SECONDS, TOTAL_SECONDS),
    )


def prepare_ours(data: Pair, text: str, threads: int) -> Runner:
    """spfgen's kernel, its operands bound once; the result is a new one in each call."""
    spfgen = module_or_missing("spfgen")
    bound = spfgen.compile(text, A="csr", B="csr", C="csr", threads=threads).bind(A=data.left, B=data.right)

    def result() -> csr_array:
        return csr_array(bound.tensors["C"].to_scipy())

    return Runner(bound, result, (data,))


def prepare_library(data: Pair, prepare: Callable[..., Runner]) -> Runner:
    """The operation of a library that has one for two matrices in csr."""
    return prepare(data.left, data.right)


def _prepared_taco(data: Pair) -> Runner:
    return taco.prepare_spgemm(data.left, data.right)


def prepare_scipy(data: Pair, in_order: bool = False) -> Runner:
    """scipy's operator; with `in_order`, its result is sorted."""

    def call() -> csr_array:
        found = csr_array(data.apply(data.left, data.right))
        if in_order:
            found.sort_indices()
        return found

    return Runner(call, None, (data,))


def check(data: Pair) -> Callable[[Any], str]:
    """The reference is scipy's result: values, and what is stored."""

    def complaint(found: csr_array) -> str:
        expected, tolerance = data.reference
        own = found.copy()
        own.sort_indices()
        if not (np.array_equal(own.indptr, expected.indptr) and np.array_equal(own.indices, expected.indices)):
            return "another pattern"
        return compare(own.data, expected.data, tolerance)

    return complaint


def bytes_moved(data: Pair) -> int:
    """Both operands and the result, once."""
    every = (data.left, data.right, data.reference[0])
    return int(sum(m.nnz * 12 + (m.shape[0] + 1) * 4 for m in every))


def facts(data: Pair) -> Mapping[str, int]:
    """What one wants to know when reading the times."""
    return {"rows": data.left.shape[0], "entries": int(data.left.nnz), "results": int(data.reference[0].nnz)}


def closing(outcomes: Sequence[Outcome]) -> str:
    """The end of the report."""
    return targets.closing(outcomes, TARGETS)
