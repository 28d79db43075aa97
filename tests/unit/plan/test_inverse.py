"""Inverse arrays: where a rising array first reaches each value, in place of a search for each position."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csc_array, csr_array

import spfgen
from spfgen.facts.formula import Num
from spfgen.ir import rewrite, walk
from spfgen.layout.nodes import Layout
from spfgen.plan.nodes import PLANS, BoundSearch, FindTable, Plan
from spfgen.run.tensor import Tensor
from tests.plans.interpret import Choices, interpret
from tests.plans.memory import WrongPlan

ROWS = """
layout rows(n, m) {
    size nnz
    relation { [pi, pj] -> [i, j] : 0 <= pi < n and ptr(pi) <= pj < ptr(pi + 1) and i = pi and j = idx(pj) }
    index ptr[n + 1] { %s  property increasing }
    index idx[nnz] { range 0 <= idx(p) < m }
    value val[nnz] at [pj]
}
"""


def rows(ranges: str = "range 0 <= ptr(p) <= nnz") -> Layout:
    return spfgen.parse(ROWS % ranges).layouts["rows"]


def of(matrix: np.ndarray[Any, Any]) -> Tensor:
    stored = csr_array(matrix)
    return spfgen.tensor(rows(), shape=matrix.shape, ptr=stored.indptr, idx=stored.indices, val=stored.data)


def product(layout: Layout) -> spfgen.Kernel:
    statement = "C[i,j] = sum(k: A[i,k]*B[k,j])"
    return spfgen.compile(statement, A=layout, B="csc", C="csc", optimize=1, order=("j", "B.pi", "A.pj"))


def looked_up(kernel: spfgen.Kernel) -> list[bool]:
    """Of each bound that is looked for, whether it is in a table that stands around it."""
    return [
        bool(n.place) and any(isinstance(t, FindTable) and t.name == n.place for t in walk(plan))
        for plan in kernel.generated.plans
        for n in walk(plan)
        if isinstance(n, BoundSearch)
    ]


def test_it_goes_with_the_range() -> None:
    """The values need a place each: without a range that sizes give, there is a search."""
    assert any(looked_up(product(rows())))
    found = looked_up(product(rows("range 0 <= ptr(p)")))
    assert not any(found)


def test_a_range_that_begins_below() -> None:
    assert not any(looked_up(product(rows("range -1 <= ptr(p) <= nnz"))))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shape", [(40, 60, 50), (1, 300, 2), (30, 1, 30), (20, 30, 0)])
@pytest.mark.parametrize("density", [0.0, 0.1, 1.0])
def test_products(shape: tuple[int, int, int], density: float) -> None:
    """With rows that are empty at the beginning, at the end and between."""
    rng = np.random.default_rng(7)
    n, m, k = shape
    a = np.where(rng.random((n, m)) < density, 1.0 + rng.integers(0, 5, (n, m)), 0.0)
    b = np.where(rng.random((m, k)) < 0.2, 1.0 + rng.integers(0, 5, (m, k)), 0.0)
    a[::3] = 0
    assert np.array_equal(product(rows())(A=of(a), B=csc_array(b)).to_numpy(), a @ b)


def test_the_interpreter_asks_what_the_table_holds() -> None:
    kernel = product(rows())
    given = {
        "A": of(np.array([[0.0, 2.0], [3.0, 0.0]])),
        "B": spfgen.pack(np.eye(2), "csc"),
        "C": spfgen.pack(np.zeros((2, 2)), "csc"),
    }
    program, plans = kernel.generated.program, kernel.generated.plans

    def wrong(node: object) -> Plan | None:
        return replace(node, extent=Num(1)) if isinstance(node, FindTable) and node.kind == "inverse array" else None

    assert interpret(program, plans, given, {}, Choices(0))["C"]
    with pytest.raises(WrongPlan, match="does not lie below 1"):
        interpret(program, [rewrite(wrong, plan, PLANS) for plan in plans], given, {}, Choices(0))
