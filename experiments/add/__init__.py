"""C[i,j] = A[i,j] + B[i,j] with all three in csr, the pattern of C computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from scipy.sparse import csr_array

from experiments.data import made
from experiments.harness import targets
from experiments.harness.case import Case
from experiments.harness.race import Outcome
from experiments.harness.targets import Target
from experiments.spgemm import pair_case

TARGETS = (Target("scipy", ("scipy",), 1 / 1.5),)


def cases(quick: bool, threads: int) -> list[Case]:
    """Each pair with one thread and with all."""
    return [case(name, make, count) for count in sorted({1, threads}) for name, make in matrices(quick)]


def matrices(quick: bool) -> Iterator[tuple[str, Callable[[], tuple[csr_array, csr_array]]]]:
    """Labels and makers of pairs of matrices with patterns of their own."""
    size, scale = (400, 8) if quick else (100_000, 15)
    yield "uniform", partial(pair, made.uniform, size, size, 16)
    yield "power law", partial(pair, made.power_law, scale, 8)


def pair(make: Callable[..., csr_array], *arguments: int) -> tuple[csr_array, csr_array]:
    """Two matrices of one kind."""
    return make(*arguments, seed=1), make(*arguments, seed=2)


def case(name: str, make: Callable[[], tuple[csr_array, csr_array]], threads: int) -> Case:
    """One pair of matrices and a thread count."""
    return pair_case(name, make, threads, "C[i,j] = A[i,j] + B[i,j]", total, in_order=True)


def total(left: csr_array, right: csr_array) -> Any:
    return left + right


def closing(outcomes: Sequence[Outcome]) -> str:
    """The end of the report."""
    return targets.closing(outcomes, TARGETS)
