"""What is more than a sum of products beside one: y[i] = max(j: A[i,j]*x[j]) and others, over the arrays of a product.

Each reads what the product of the same matrix and vector reads, and stores as much: memory bounds all of them alike.
The contestant is our own product, compiled for the same layout. csr on all matrices, other layouts on some of them. A
row of `max` of which not all is stored has a 0 besides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from experiments.data import made, stored
from experiments.harness import targets
from experiments.harness.case import Case, Contestant, Runner
from experiments.harness.check import compare, sum_tolerance
from experiments.harness.race import Outcome
from experiments.harness.targets import Target
from experiments.peers.kernels import bound
from experiments.spmv.data import Make, Product, facts, product

Array = np.ndarray[Any, Any]
LEAST_ENTRIES = 2_000_000
BARE, WITHIN = "product", 1.1
"""The contestant, and of how many times its time a kernel may take."""


@dataclass(frozen=True)
class Value:
    """A kernel, and what it computes, from the matrix, the vector x and the numbers z."""

    text: str
    reference: Callable[[csr_array, Array, Array], Array]


def _greatest(a: csr_array, x: Array, z: Array) -> Array:
    products = csr_array((a.data * x[a.indices], a.indices, a.indptr), shape=a.shape)
    return np.asarray(products.max(axis=1).todense()).reshape(-1)


def _positive(a: csr_array, x: Array, z: Array) -> Array:
    return np.asarray(csr_array((np.where(a.data > 0, a.data, 0), a.indices, a.indptr), shape=a.shape) @ x)


VALUES = {
    "max": Value("y[i] = max(j: A[i,j]*x[j])", _greatest),
    "abs": Value("y[i] = abs(sum(j: A[i,j]*x[j]))", lambda a, x, z: np.asarray(np.abs(a @ x))),
    "quotient": Value("y[i] = sum(j: A[i,j]*x[j])/z[i]", lambda a, x, z: np.asarray(a @ x / z)),
    "where": Value("y[i] = sum(j: where(A[i,j] > 0, A[i,j], 0)*x[j])", _positive),
}
PRODUCT = "y[i] = sum(j: A[i,j]*x[j])"
OTHERS = ("csc", "coo", "dcsr", "ell")
TARGETS = tuple(
    Target(f"product, {name}", (BARE,), 1 / WITHIN, part=f"{name}, csr,") for name in VALUES
) + tuple(Target(f"product, {layout}", (BARE,), part=f", {layout},") for layout in OTHERS)  # fmt: skip


def cases(quick: bool, threads: int) -> list[Case]:
    """Each kernel on each matrix, with one thread and with all."""
    return [
        case(name, layout, label, make, count)
        for label, make, layouts in matrices(quick)
        for layout in layouts
        for count in sorted({1, threads})
        for name in VALUES
    ]


def matrices(quick: bool) -> list[tuple[str, Make, tuple[str, ...]]]:
    """Labels and makers, with the layouts: those of even rows have ell, too."""
    if quick:
        small = partial(made.stencil, 100)
        return [
            ("stencil 100x100", small, ("csr", "csc")),
            ("power law 2^12", partial(made.power_law, 12, 8), ("csr",)),
        ]
    real = stored.shared_matrices(LEAST_ENTRIES)
    every = ("csr", *(n for n in OTHERS if n != "ell"))
    return [
        ("stencil 1000x1000", partial(made.stencil, 1000), ("csr", *OTHERS)),
        *((m.name, m.load, every if k < 2 else ("csr",)) for k, m in enumerate(real)),
    ]


def case(name: str, layout: str, label: str, make: Make, threads: int) -> Case:
    """One kernel on one matrix in one layout."""
    value = VALUES[name]
    return Case(
        label=f"{name}, {layout}, {label}, {threads} thread{'s' if threads > 1 else ''}",
        data=partial(product, make, layout, 1, "float64", "int32"),
        ours=partial(ready, text=value.text, threads=threads),
        peers=(Contestant(BARE, partial(ready, text=PRODUCT, threads=threads)),),
        check=lambda data: partial(_checked, value, data),
        facts=facts,
        threads=threads,
    )


def ready(data: Product, text: str, threads: int) -> Runner:
    """A kernel of ours, its operands bound; its result comes with the text, by which it is checked."""
    layouts = {"A": data.layout, "x": "dense", "y": "dense"} | ({"z": "dense"} if "z[" in text else {})
    operands = {"A": data.stored, "x": data.x} | ({"z": _numbers(data)} if "z[" in text else {})
    made = bound(text, layouts, operands, threads, "y", np.full(data.matrix.shape[0], np.nan))
    result = made.result
    assert result is not None
    return replace(made, result=lambda: (text, result()))


def _numbers(data: Product) -> Array:
    return 1 + np.random.default_rng(3).random(data.matrix.shape[0])


def _checked(value: Value, data: Product, found: tuple[str, Array]) -> str:
    """The kernel's result, or the product's."""
    text, values = found
    a, x, z = data.matrix, data.x, _numbers(data)
    tolerance = sum_tolerance(np.diff(a.indptr), abs(a) @ abs(x))
    return compare(values, a @ x if text == PRODUCT else value.reference(a, x, z), tolerance)


def closing(outcomes: Sequence[Outcome]) -> str:
    return targets.closing(outcomes, TARGETS)
