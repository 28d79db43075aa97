"""Operations on arrays, one at a time, as `A + B` and `A @ B` of tensors: eager, beside SciPy and PyData/Sparse. Chains
of three of lazy arrays, beside these and beside eager ones.

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
WARM = 120
"""Calls before time is taken, of large operands a tenth: more work than is done before a kernel is compiled."""
TARGETS = (
    Target("scipy, large", ("scipy",), 1.0, part="200000"),
    Target("scipy, small", ("scipy",), 0.5, part="1000 "),
    Target("PyData/Sparse", ("sparse",), 1.0),
    Target("scipy, lazy chains", ("scipy",), 3.0, part="lazy"),
    Target("eager, lazy chains", ("eager",), 1.0, each=True, part="lazy"),
)
Chain = Callable[[Any, Any, Any, Any], Any]
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
CHAINS: dict[str, tuple[Chain, Chain]] = {
    "(A*B).sum(1)*v": (
        lambda a, b, m, v: (a * b).sum(axis=1) * v,
        lambda a, b, m, v: a.multiply(b).sum(axis=1) * v,
    ),
    "sin(A)*B+A": (lambda a, b, m, v: np.sin(a) * b + a, lambda a, b, m, v: np.sin(a).multiply(b) + a),
    "A.T@(A@v)": (lambda a, b, m, v: a.T @ (a @ v), lambda a, b, m, v: a.T @ (a @ v)),
    "(A@B)*M": (lambda a, b, m, v: (a @ b) * m, lambda a, b, m, v: (a @ b).multiply(m)),
    "2*A-B": (lambda a, b, m, v: 2 * a - b, lambda a, b, m, v: 2 * a - b),
    "(A+B)@v": (lambda a, b, m, v: (a + b) @ v, lambda a, b, m, v: (a + b) @ v),
    "(A*A).sum()": (lambda a, b, m, v: (a * a).sum(), lambda a, b, m, v: a.multiply(a).sum()),
    "((A-B)*M).sum(0)": (
        lambda a, b, m, v: ((a - b) * m).sum(axis=0),
        lambda a, b, m, v: (a - b).multiply(m).sum(axis=0),
    ),
}
"""Of arrays, and as scipy writes them."""


@dataclass(frozen=True)
class Pair:
    """Two matrices of scipy in one format, and a third one with a quarter of the entries."""

    first: Any
    second: Any
    form: str
    third: Any = None


def cases(quick: bool, threads: int) -> list[Case]:
    """Each operation in both layouts and sizes."""
    return [
        case(name, form, size)
        for size in ((SMALL,) if quick else (LARGE, SMALL))
        for form in ("csr", "coo")
        for name in OPERATIONS
    ] + [chain(name, size) for size in ((SMALL,) if quick else (LARGE, SMALL)) for name in CHAINS]


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


def chain(name: str, size: tuple[int, int]) -> Case:
    """A chain of operations on compressed rows: lazy, beside the same node by node."""
    arrays, scipy = CHAINS[name]
    return Case(
        label=f"lazy {name}, csr, {'large' if size == LARGE else 'small'}",
        data=partial(pair, "csr", *size),
        ours=partial(prepare_lazy, chain=arrays),
        peers=(
            Contestant("eager", partial(prepare_eager, chain=arrays), "1 thread"),
            Contestant("scipy", partial(prepare_scipy_chain, chain=scipy), "1 thread"),
            Contestant("sparse", partial(prepare_sparse_chain, chain=arrays), "1 thread"),
        ),
        check=partial(check_chain, scipy),
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
    third = sparse.random_array((rows, rows), density=entries / rows**2 / 4, rng=np.random.default_rng(73))
    return Pair(made[0].asformat(form), made[1].asformat(form), form, third.asformat(form))


@lru_cache(maxsize=4)
def vector(size: int) -> Any:
    """A dense vector."""
    return np.random.default_rng(72).random(size)


def prepare_ours(data: Pair, operation: Callable[[Any, Any], Any]) -> Runner:
    """spfgen's tensors."""
    spfgen = module_or_missing("spfgen")
    first, second = (spfgen.pack(m, data.form) for m in (data.first, data.second))
    return warm(data, lambda: operation(first, second))


def warm(data: Pair, call: Callable[[], Any]) -> Runner:
    """The call, when its kernels are there."""
    later = module_or_missing("spfgen.run.later")
    for _ in range(WARM if data.first.nnz <= SMALL[1] else WARM // 10):
        call()
    later.wait()
    call()
    return Runner(call)


def prepare_lazy(data: Pair, chain: Chain) -> Runner:
    """Lazy arrays, computed at the end."""
    spfgen = module_or_missing("spfgen")
    a, b, m = (spfgen.asarray(spfgen.pack(x, data.form)) for x in (data.first, data.second, data.third))
    v = vector(a.shape[1])
    return warm(data, lambda: chain(a, b, m, v).compute())


def prepare_eager(data: Pair, chain: Chain) -> Runner:
    """The same node by node."""
    spfgen = module_or_missing("spfgen")
    a, b, m = (spfgen.pack(x, data.form) for x in (data.first, data.second, data.third))
    v = vector(a.shape[1])
    return warm(data, lambda: chain(a, b, m, v))


def prepare_scipy_chain(data: Pair, chain: Chain) -> Runner:
    """SciPy, one operation after the other."""
    return Runner(lambda: chain(data.first, data.second, data.third, vector(data.first.shape[1])))


def prepare_sparse_chain(data: Pair, chain: Chain) -> Runner:
    """PyData/Sparse in coordinates."""
    a, b, m = (pydata.module().COO.from_scipy_sparse(x) for x in (data.first, data.second, data.third))
    v = vector(a.shape[1])
    chain(a, b, m, v)
    return Runner(lambda: chain(a, b, m, v), keep=(a, b, m))


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
    return complaint(dense(operation(data.first, data.second)))


def check_chain(chain: Chain, data: Pair) -> Callable[[Any], str]:
    """The same of a chain."""
    return complaint(dense(chain(data.first, data.second, data.third, vector(data.first.shape[1]))))


def complaint(wanted: Any) -> Callable[[Any], str]:
    """What is wrong with a result."""

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
