"""C[i,k] = A[i,j]*B[j,k] with A and B sparse, in each pair of layouts, and C dense.

Every pair is timed beside ours in csr x csr; that one also beside MKL's mkl_sparse_spmmd. The nine pairs of csr, dcsr
and coo, which taco can express, are timed beside taco's loops, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from experiments.data import made, stored
from experiments.data.matrices import kept
from experiments.harness import targets
from experiments.harness.case import Case, Contestant, Runner
from experiments.harness.check import compare, sum_tolerance
from experiments.harness.pace import Pace
from experiments.harness.race import Outcome
from experiments.harness.targets import Target
from experiments.peers import mkl_products, taco_kernel
from experiments.peers.spfgen import module_or_missing

PROGRAM = "C[i,k] = A[i,j]*B[j,k]"
LAYOUTS = ("csr", "dcsr", "coo", "bcsr")
OF_TACO = {"csr": taco_kernel.rows, "dcsr": taco_kernel.filled_rows, "coo": taco_kernel.coordinates}
PLAIN = "csr x csr"
CALL_SECONDS, TOTAL_SECONDS = 15.0, 1.0
MOST_RESULT_BYTES = 800 << 20
TARGETS = (
    Target("taco, csr x csr", ("taco",), 1.0, part=PLAIN),
    Target("taco, its nine pairs", ("taco",), 1.0),
    Target("mkl, csr x csr", ("mkl",), 0.9, part=PLAIN),
    Target("ours in csr x csr, any pair", ("spfgen-csr",), 1 / 1.5, each=True),
)
NOTE = "bcsr (2x2) stores up to four times the values of csr, most of them zeros here, and computes with them"

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Product:
    """Two sparse matrices to be multiplied, and the right result."""

    left: csr_array
    right: csr_array

    @cached_property
    def packed(self) -> dict[tuple[str, str], Any]:
        """Both as spfgen has them, in each layout."""
        spfgen = module_or_missing("spfgen")
        sides = {"left": self.left, "right": self.right}
        return {(side, n): spfgen.pack(matrix, n) for side, matrix in sides.items() for n in LAYOUTS}

    @cached_property
    def reference(self) -> tuple[Array, Array]:
        """scipy's product, and how far another may be from it."""
        magnitude = (abs(self.left) @ abs(self.right)).toarray()
        longest = int(np.diff(self.left.indptr).max(initial=0))
        return (self.left @ self.right).toarray(), sum_tolerance(longest, magnitude)

    @property
    def products(self) -> int:
        """How many products there are in all."""
        return int(np.diff(self.right.indptr)[self.left.indices].sum())


def cases(quick: bool, threads: int) -> list[Case]:
    """Each pair of matrices in each pair of layouts, with one thread and with all."""
    return [
        case(name, make, left, right, count)
        for count in sorted({1, threads})
        for name, make in matrices(quick)
        for left in LAYOUTS
        for right in LAYOUTS
    ]


def matrices(quick: bool) -> Iterator[tuple[str, Callable[[], csr_array]]]:
    """Labels and makers of square matrices: random ones, then real ones whose dense product fits into memory."""
    if quick:
        yield "random 400, 5 %", partial(random_matrix, 400, 0.05)
        return
    yield "random 5000, 1 %", partial(random_matrix, 5_000, 0.01)
    yield "random 5000, 10 %", partial(random_matrix, 5_000, 0.1)
    for matrix in stored.shared_matrices(50_000):
        read = kept(matrix)
        if read.shape[0] == read.shape[1] and 8 * read.shape[0] ** 2 <= MOST_RESULT_BYTES and read.shape[0] >= 4_000:
            yield matrix.name, partial(kept, matrix)


def random_matrix(size: int, density: float) -> csr_array:
    """About this part of all places, anywhere."""
    return made.uniform(size, size, round(density * size))


def case(name: str, make: Callable[[], csr_array], left: str, right: str, threads: int) -> Case:
    """One matrix multiplied by itself, a pair of layouts, a thread count."""
    pair = f"{left} x {right}"
    if pair == PLAIN:
        peers = [Contestant("mkl", partial(prepare_mkl, threads=threads))]
    else:
        peers = [Contestant("spfgen-csr", partial(prepare_ours, left="csr", right="csr", threads=threads))]
    if {left, right} <= set(OF_TACO):
        shared = threads > 1 and left != "coo"  # taco has no threads for its rows
        for schedule in ("static", "dynamic,32") if shared else ("static",):
            taco = partial(prepare_taco, left=left, right=right, threads=threads, schedule=schedule)
            peers.append(Contestant("taco", taco, schedule if shared else "1 thread"))
    return Case(
        label=f"{name}, {pair}, {threads} thread{'s' if threads > 1 else ''}",
        data=lambda: product(make),
        ours=partial(prepare_ours, left=left, right=right, threads=threads),
        peers=tuple(peers),
        check=check,
        bytes_moved=bytes_moved,
        facts=facts,
        threads=threads,
        pace=Pace(CALL_SECONDS, TOTAL_SECONDS),
    )


@lru_cache(maxsize=1)
def _square(make: Callable[[], csr_array]) -> Product:
    matrix = make()
    return Product(matrix, matrix)


def product(make: Callable[[], csr_array]) -> Product:
    """The data of a case; cases of one matrix come one after the other, so the last one is kept."""
    return _square(make)


def prepare_ours(data: Product, left: str, right: str, threads: int) -> Runner:
    """spfgen's kernel, its arrays bound once."""
    spfgen = module_or_missing("spfgen")
    a, b = data.packed["left", left], data.packed["right", right]
    c = np.full((data.left.shape[0], data.right.shape[1]), np.nan)
    kernel = spfgen.compile(PROGRAM, A=left, B=right, C="dense", threads=threads)
    return Runner(kernel.bind(A=a, B=b, C=c), lambda: c, (data, a, b))


def prepare_mkl(data: Product, threads: int) -> Runner:
    """MKL's product with a dense result."""
    return mkl_products.prepare_spmmd(data.left, data.right, threads)


def prepare_taco(data: Product, left: str, right: str, threads: int, schedule: str) -> Runner:
    """taco's loops in the order i, j, k, the rows in parallel but for coo."""
    c = np.full((data.left.shape[0], data.right.shape[1]), np.nan)
    tensors = {"C": taco_kernel.dense(c), "A": OF_TACO[left](data.left), "B": OF_TACO[right](data.right)}
    return taco_kernel.prepare("C(i,k)=A(i,j)*B(j,k)", tensors, threads, c, schedule)


def check(data: Product) -> Callable[[Any], str]:
    """The reference is scipy's product."""
    return lambda found: compare(found, *data.reference)


def bytes_moved(data: Product) -> int:
    """Both factors in csr and the result, once."""
    factors = sum(m.nnz * 12 + (m.shape[0] + 1) * 4 for m in (data.left, data.right))
    return int(factors) + data.left.shape[0] * data.right.shape[1] * 8


def facts(data: Product) -> Mapping[str, int]:
    """What one wants to know when reading the times."""
    return {"rows": data.left.shape[0], "entries": int(data.left.nnz), "products": data.products}


def closing(outcomes: Sequence[Outcome]) -> str:
    """The end of the report."""
    return targets.closing(outcomes, TARGETS, (NOTE,))
