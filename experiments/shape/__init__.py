"""Shape operators beside SciPy: reshape, vstack, hstack, slice; and operators fused with compute.

reshape, stacks and slices as index notation with a sparse result of computed pattern (ours) and as the function of that
name of spfgen (`ours-function`); csr and coo, in and out. A product of stacked matrices, flatten of an element-wise
product and a slice times a matrix are one kernel each, which SciPy computes step by step. SciPy has one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from experiments.data import made
from experiments.harness import targets
from experiments.harness.case import Case, Contestant, Runner
from experiments.harness.pace import Pace
from experiments.harness.race import Outcome
from experiments.harness.targets import Target
from experiments.peers.kernels import in_csr, measured, packed, returning, same
from experiments.peers.spfgen import module_or_missing

Array = np.ndarray[Any, Any]

CALL_SECONDS, TOTAL_SECONDS = 20.0, 5.0
LAYOUTS = ("csr", "coo")
COLUMNS = 16
TARGETS = (
    Target("scipy, reshape, hstack, slice", ("scipy",), 2.0, part="2x"),
    Target("scipy, vstack", ("scipy",), 1.0, part="vstack"),
    Target("scipy, fused", ("scipy",), 3.5, part="fused"),
)


@dataclass(frozen=True)
class Operands:
    """Two matrices of one shape with whole numbers as values, a vector and a dense matrix of as many rows as they have
    columns."""

    a: sp.csr_array
    b: sp.csr_array
    x: Array
    d: Array

    @property
    def named(self) -> dict[str, Any]:
        """The operands by the names in the texts."""
        return {"A": self.a, "B": self.b, "x": self.x, "D": self.d}


@dataclass(frozen=True)
class Operator:
    """One computation: its text, the sparse operands, the layout of each result (None: that of the case), how SciPy
    computes it, and which function of spfgen is the same."""

    name: str
    text: str
    operands: str
    scipy: Callable[..., Any]
    result: tuple[str, str | None]
    sizes: Callable[[Operands], Mapping[str, int]] | None = None
    function: Callable[..., Any] | None = None


def wide(matrix: Any) -> tuple[int, int]:
    """The shape with half the rows."""
    return matrix.shape[0] // 2, matrix.shape[1] * 2


OPERATORS = (
    Operator(
        "reshape (2x)",
        "C[k,l] = split(collapse(A[i,j], (i, j) -> m), m -> (k, l))",
        "A",
        lambda A: A.reshape(wide(A)),  # noqa: N803
        ("C", None),
        lambda data: {"l": wide(data.a)[1]},
        lambda spfgen, layout, A: spfgen.reshape(A, wide(A), layout=layout),  # noqa: N803
    ),
    Operator(
        "vstack",
        "C[l,j] = concat((A[i,j], B[k,j]), (i, k) -> l)",
        "AB",
        lambda A, B: sp.vstack((A, B), format=A.format),  # noqa: N803
        ("C", None),
        None,
        lambda spfgen, layout, A, B: spfgen.vstack((A, B), layout=layout),  # noqa: N803
    ),
    Operator(
        "hstack (2x)",
        "C[i,l] = concat((A[i,j], B[i,k]), (j, k) -> l)",
        "AB",
        lambda A, B: sp.hstack((A, B), format=A.format),  # noqa: N803
        ("C", None),
        None,
        lambda spfgen, layout, A, B: spfgen.hstack((A, B), layout=layout),  # noqa: N803
    ),
    Operator(
        "slice (2x)",
        "C[i,j] = A[i(3:-5:2), j(7:-9:3)]",
        "A",
        lambda A: A[3:-5:2, 7:-9:3],  # noqa: N803
        ("C", None),
        None,
        lambda spfgen, layout, A: spfgen.slice(A, np.s_[3:-5:2, 7:-9:3], layout=layout),  # noqa: N803
    ),
)
FUSED = (
    Operator(
        "fused, stacked matrices times x",
        "y[l] = sum(j: concat((A[i,j], B[k,j]), (i, k) -> l)*x[j])",
        "ABx",
        lambda A, B, x: sp.vstack((A, B), format="csr") @ x,  # noqa: N803
        ("y", "dense"),
    ),
    Operator(
        "fused, flattened product",
        "c[k] = collapse(A[i,j]*B[i,j], (i, j) -> k)",
        "AB",
        lambda A, B: A.multiply(B).tocoo().reshape((-1,)),  # noqa: N803
        ("c", "sv"),
    ),
    Operator(
        "fused, slice times a matrix",
        "E[i,k] = sum(j: A[i(3:-5:2), j]*D[j,k])",
        "AD",
        lambda A, D: A[3:-5:2] @ D,  # noqa: N803
        ("E", "dense"),
    ),
)


def cases(quick: bool, threads: int) -> list[Case]:
    """Each operator on each matrix in each layout, with one thread and with all."""
    return [
        case(operator, label, make, layout, count)
        for count in sorted({1, threads})
        for label, make in makers(quick)
        for operator, layout in pairs()
    ]


def pairs() -> Iterator[tuple[Operator, str]]:
    """Operators with the layouts that they are run in."""
    for operator in OPERATORS:
        yield from ((operator, layout) for layout in LAYOUTS)
    yield from ((operator, "csr") for operator in FUSED)


def makers(quick: bool) -> list[tuple[str, Callable[[], sp.csr_array]]]:
    """Labels and makers of matrices with an even number of rows."""
    if quick:
        return [("uniform 200", partial(made.uniform, 200, 200, 4))]
    return [
        ("stencil 300x300", partial(made.stencil, 300)),
        ("uniform 100000", partial(made.uniform, 100_000, 100_000, 8)),
    ]


def case(operator: Operator, label: str, make: Callable[[], sp.csr_array], layout: str, threads: int) -> Case:
    """One operator on one matrix."""
    own = (
        () if operator.function is None else (Contestant("ours-function", partial(prepare_function, layout, operator)),)
    )
    return Case(
        label=f"{operator.name}, {layout}, {label}, {threads} thread{'s' if threads > 1 else ''}",
        data=partial(operands, make),
        ours=partial(prepare_ours, operator=operator, layout=layout, threads=threads),
        peers=(*own, Contestant("scipy", partial(prepare_scipy, operator=operator, layout=layout), "1 thread")),
        check=partial(check, operator),
        facts=lambda data: {"rows": data.a.shape[0], "entries": int(data.a.nnz)},
        threads=threads,
        pace=Pace(CALL_SECONDS, TOTAL_SECONDS),
    )


@lru_cache(maxsize=1)
def operands(make: Callable[[], sp.csr_array]) -> Operands:
    """The matrix, another with its entries moved by some columns in every second row, and dense ones."""
    random = np.random.default_rng(40)
    a = sp.csr_array(make())
    a.data = random.integers(1, 9, a.nnz).astype(float)
    coo = a.tocoo()
    moved = (coo.col + 3 * (coo.row % 2)) % a.shape[1]
    b = sp.csr_array((random.integers(1, 9, a.nnz).astype(float), (coo.row, moved)), shape=a.shape)
    for matrix in (a, b):
        matrix.sort_indices()
    return Operands(a, b, random.integers(0, 9, a.shape[1]) * 1.0, random.integers(0, 9, (a.shape[1], COLUMNS)) * 1.0)


def layouts_of(operator: Operator, layout: str) -> dict[str, str]:
    """The layouts of all tensors of the text."""
    name, fixed = operator.result
    return {**{n: layout if n in "AB" else "dense" for n in operator.operands}, name: fixed or layout}


def prepare_ours(data: Operands, operator: Operator, layout: str, threads: int) -> Runner:
    """One kernel."""
    chosen = {name: data.named[name] for name in operator.operands}
    sizes = operator.sizes(data) if operator.sizes else None
    return returning(operator.text, layouts_of(operator, layout), chosen, threads, sizes)


def prepare_function(layout: str, operator: Operator, data: Operands) -> Runner:
    """spfgen's function with numpy's name."""
    spfgen, function = module_or_missing("spfgen"), operator.function
    assert function is not None
    held = packed(layouts_of(operator, layout), {name: data.named[name] for name in operator.operands})
    return measured(lambda: function(spfgen, layout, **held), (held,))


def prepare_scipy(data: Operands, operator: Operator, layout: str) -> Runner:
    """SciPy in the same format; its result is in the format of the case, too, where there is one."""
    own = {n: data.named[n].asformat(layout) if n in "AB" else data.named[n] for n in operator.operands}
    if layout == "coo" and "slice" in operator.name:
        # Slices of scipy's coo_array came late: through csr, as its documentation recommends.
        return measured(lambda: operator.scipy(**{n: m.tocsr() for n, m in own.items()}).tocoo())
    if operator.result[1] is None:
        return measured(lambda: operator.scipy(**own).asformat(layout))
    return measured(lambda: operator.scipy(**own))


def check(operator: Operator, data: Operands) -> Callable[[Any], str]:
    """Entry by entry: whole numbers, so that sums are exact. What is large is compared as csr, never made dense."""
    chosen = {name: data.named[name] for name in operator.operands}
    expected = operator.scipy(**chosen)
    if not sp.issparse(expected):
        return same(np.asarray(expected))
    wanted = in_csr(expected)

    def complain(found: Any) -> str:
        got = in_csr(found)
        if got.shape != wanted.shape:
            return f"shape {got.shape}, expected {wanted.shape}"
        count = int((got != wanted).nnz)
        return "" if not count else f"{count} of {wanted.nnz} elements differ"

    return complain


def closing(outcomes: Sequence[Outcome]) -> str:
    """The end of the report."""
    return targets.closing(outcomes, TARGETS)
