"""C[i,j] = A[i,j] + B[i,j] with all three in csr, the pattern of C computed; and sums of eight vectors or matrices.

A sum of eight is one kernel (ours), seven sums of two in turn (`ours-pairs`), and the same of scipy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from scipy.sparse import csr_array

from experiments.add import eight
from experiments.data import made
from experiments.harness import targets
from experiments.harness.case import Case, Contestant
from experiments.harness.race import Outcome
from experiments.harness.targets import Target
from experiments.peers import graphblas, mkl_products
from experiments.spgemm import pair_case, prepare_library, prepare_scipy

TARGETS = (
    Target("scipy, of two", ("scipy",), 1 / 1.5, part="two"),
    Target("MKL, of two", ("mkl",), 1 / 1.5, part="two"),
    Target("GraphBLAS, of two", ("graphblas",), part="two"),
    Target("scipy, of eight", ("scipy",), 1 / 1.5, part="eight"),
    Target("our seven sums of two, of eight", ("ours-pairs",), 1.0, part="eight", each=True),
)


def cases(quick: bool, threads: int) -> list[Case]:
    """Each pair with one thread and with all; then the sums of eight."""
    pairs = [case(name, make, count) for count in sorted({1, threads}) for name, make in matrices(quick)]
    return [*pairs, *eight.cases(quick, threads)]


def matrices(quick: bool) -> Iterator[tuple[str, Callable[[], tuple[csr_array, csr_array]]]]:
    """Labels and makers of pairs of matrices with patterns of their own."""
    size, scale = (400, 8) if quick else (100_000, 15)
    yield "two, uniform", partial(pair, made.uniform, size, size, 16)
    yield "two, power law", partial(pair, made.power_law, scale, 8)


def pair(make: Callable[..., csr_array], *arguments: int) -> tuple[csr_array, csr_array]:
    """Two matrices of one kind."""
    return make(*arguments, seed=1), make(*arguments, seed=2)


def case(name: str, make: Callable[[], tuple[csr_array, csr_array]], threads: int) -> Case:
    """One pair of matrices and a thread count."""
    peers = [Contestant("scipy", prepare_scipy, "1 thread")]
    for library, prepare in (("mkl", mkl_products.prepare_sum), ("graphblas", graphblas.prepare_sum)):
        peers.append(Contestant(library, partial(prepare_library, prepare=partial(prepare, threads=threads))))
    return pair_case(name, make, threads, "C[i,j] = A[i,j] + B[i,j]", total, peers)


def total(left: csr_array, right: csr_array) -> Any:
    return left + right


def closing(outcomes: Sequence[Outcome]) -> str:
    """The end of the report."""
    return targets.closing(outcomes, TARGETS)
