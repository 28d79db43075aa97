"""Operations on arrays, one at a time, as `A + B` and `A @ B` of tensors: eager, beside SciPy and PyData/Sparse.

Two matrices with 200,000 entries, and two with 1,000, where the call counts more than the work; in compressed rows and
in coordinates. One thread. Kernels that another process compiles in the background are there before time is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from scipy import sparse

from experiments.harness import targets
from experiments.harness.case import Case, Contestant, Runner
from experiments.harness.pace import Pace
from experiments.harness.race import Outcome
from experiments.harness.targets import Target
from experiments.peers import pydata
from experiments.peers.spfgen import module_or_missing

CALL_SECONDS, TOTAL_SECONDS = 5.0, 2.0
LARGE, SMALL = (10_000, 200_000), (200, 1_000)
"""Rows, entries."""
WARM = 40
"""Calls before time is taken: more work than is done before a kernel is compiled."""
TARGETS = (
    Target("scipy, large", ("scipy",), 1.0, part="200000"),
    Target("scipy, small", ("scipy",), 0.5, part="1000 "),
    Target("PyData/Sparse", ("sparse",), 1.0),
)
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "A*B": lambda a, b: a.multiply(b) if sparse.issparse(a) else a * b,
    "A+B": lambda a, b: a + b,
    "2*A": lambda a, _: 2 * a,
    "sin(A)": lambda a, _: np.sin(a),
    "A>0.5": lambda a, _: a > 0.5,
    "A.T": lambda a, _: a.T,
    "sum": lambda a, _: a.sum(),
    "sum of rows": lambda a, _: a.sum(axis=1),
    "sum of columns": lambda a, _: a.sum(axis=0),
    "max": lambda a, _: a.max(),
    "A@B": lambda a, b: a @ b,
    "A@v": lambda a, _: a @ vector(a.shape[1]),
}


@dataclass(frozen=True)
class Pair:
    """Two matrices of scipy in one format."""

    first: Any
    second: Any
    form: str


def cases(quick: bool, threads: int) -> list[Case]:
    """Each operation in both layouts and sizes."""
    return [
        case(name, form, size)
        for size in ((SMALL,) if quick else (LARGE, SMALL))
        for form in ("csr", "coo")
        for name in OPERATIONS
    ]


def case(name: str, form: str, size: tuple[int, int]) -> Case:
    """One operation on matrices with so many rows and entries."""
    operation = OPERATIONS[name]
    return Case(
        label=f"{name}, {form}, {size[1]} entries",
        data=partial(pair, form, *size),
        ours=partial(prepare_ours, operation=operation),
        peers=(
            Contestant("scipy", partial(prepare_scipy, operation=operation), "1 thread"),
            Contestant("sparse", partial(prepare_sparse, operation=operation), "1 thread"),
        ),
        check=partial(check, operation),
        facts=lambda data: {"entries": int(data.first.nnz)},
        threads=1,
        pace=Pace(CALL_SECONDS, TOTAL_SECONDS),
    )


@lru_cache(maxsize=4)
def pair(form: str, rows: int, entries: int) -> Pair:
    """Entries at random places."""
    made = [
        sparse.random_array((rows, rows), density=entries / rows**2, rng=np.random.default_rng(seed), format="csr")
        for seed in (70, 71)
    ]
    return Pair(made[0].asformat(form), made[1].asformat(form), form)


@lru_cache(maxsize=4)
def vector(size: int) -> Any:
    """A dense vector."""
    return np.random.default_rng(72).random(size)


def prepare_ours(data: Pair, operation: Callable[[Any, Any], Any]) -> Runner:
    """spfgen's tensors."""
    spfgen, later = module_or_missing("spfgen"), module_or_missing("spfgen.run.later")
    first, second = (spfgen.pack(m, data.form) for m in (data.first, data.second))
    for _ in range(WARM):
        operation(first, second)
    later.wait()
    return Runner(lambda: operation(first, second), keep=(first, second))


def prepare_scipy(data: Pair, operation: Callable[[Any, Any], Any]) -> Runner:
    """SciPy in the same format."""
    return Runner(lambda: operation(data.first, data.second))


def prepare_sparse(data: Pair, operation: Callable[[Any, Any], Any]) -> Runner:
    """PyData/Sparse in coordinates."""
    first, second = (pydata.module().COO.from_scipy_sparse(m) for m in (data.first, data.second))
    operation(first, second)
    return Runner(lambda: operation(first, second), keep=(first, second))


def check(operation: Callable[[Any, Any], Any], data: Pair) -> Callable[[Any], str]:
    """What scipy computes, to the last digits but of sums."""
    wanted = dense(operation(data.first, data.second))

    def complain(found: Any) -> str:
        got = dense(found)
        if got.shape != wanted.shape or got.dtype != wanted.dtype:
            return f"{got.dtype}{got.shape}, expected {wanted.dtype}{wanted.shape}"
        wrong = ~np.isclose(got, wanted, rtol=1e-12, atol=1e-12)
        return f"{int(wrong.sum())} elements differ" if wrong.any() else ""

    return complain


def dense(value: Any) -> Any:
    """As numpy's array."""
    return np.asarray(value.todense() if hasattr(value, "todense") else value)


def closing(outcomes: Sequence[Outcome]) -> str:
    """The end of the report."""
    return targets.closing(outcomes, TARGETS)
