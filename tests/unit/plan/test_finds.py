"""Which algorithm finds: chosen by proof, gone when the property that it needs is gone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import Find

VECTOR = """
layout vector(n) {{
    size nnz
    relation {{ [p] -> [i] : 0 <= p < nnz and i = idx(p) }}
    index idx[nnz] {{
        range 0 <= idx(p) < n
        {properties}
    }}
    value val[nnz] at [p]
}}
"""


def finds(kernel: spfgen.Kernel) -> list[Find]:
    return [n for plan in kernel.generated.plans for n in walk(plan) if isinstance(n, Find)]


def product(properties: str) -> tuple[spfgen.Kernel, Any]:
    """The dot product of a dense and a sparse vector that is looked up."""
    layout = spfgen.parse(VECTOR.format(properties=properties)).layouts["vector"]
    return spfgen.compile("s = x[i]*y[i]", x="dense", y=layout, order=["i"]), layout


CASES = {
    # declared properties -> (algorithm, descending, unique), positions that satisfy them
    "property strictly increasing": (("binary search", False, True), [1, 2, 5]),
    "property increasing": (("binary search", False, False), [1, 1, 2, 5, 5, 5]),
    "property strictly decreasing": (("binary search", True, True), [5, 2, 1]),
    "property decreasing": (("binary search", True, False), [5, 5, 2, 1, 1]),
    "property increasing property injective": (("binary search", False, True), [0, 3, 4]),
    "property injective": (("plain loop", False, False), [5, 1, 2]),
    "": (("plain loop", False, False), [5, 1, 5, 2]),
    "property forall p : idx(p) <= idx(p + 1)": (("plain loop", False, False), [1, 2, 5]),
    "property forall p, q : p < q => idx(q) - idx(p) >= 2*(q - p)": (("binary search", False, True), [0, 2, 5]),
}


@pytest.mark.parametrize("properties", CASES)
def test_the_choice_follows_the_properties(properties: str) -> None:
    (algorithm, descending, unique), stored = CASES[properties]
    kernel, layout = product(properties)
    (found,) = finds(kernel)
    assert found.algorithm == algorithm
    if found.key is not None:
        assert (found.key.descending, found.key.unique) == (descending, unique)
    x = np.arange(1.0, 7.0)
    val = np.arange(10.0, 10.0 + len(stored))
    y = spfgen.tensor(layout, shape=(6,), idx=np.array(stored, np.int32), val=val)
    assert kernel(x=x, y=y) == sum(x[i] * v for i, v in zip(stored, val, strict=True))
    empty = spfgen.tensor(layout, shape=(6,), idx=np.zeros(0, np.int32), val=np.zeros(0))
    assert kernel(x=x, y=empty) == 0


@pytest.mark.parametrize(
    ("within", "algorithm"),
    [
        ("property strictly increasing within ptr", "binary search"),
        ("property strictly increasing within other", "plain loop"),
    ],
)
def test_segments_must_be_those_that_are_searched(within: str, algorithm: str) -> None:
    """Sorted within the segments of another array says nothing of these."""
    spec = spfgen.parse(
        f"""
        layout rows(nrow, ncol) {{
            size nnz, m
            relation {{ [pi, pj] -> [i, j] :
                0 <= pi < nrow and ptr(pi) <= pj < ptr(pi + 1) and i = pi and j = col(pj) }}
            index ptr[nrow + 1] {{ range 0 <= ptr(p) <= nnz }}
            index other[m] {{ range 0 <= other(p) <= nnz }}
            index col[nnz] {{ range 0 <= col(p) < ncol  {within} }}
            value val[nnz] at [pj]
        }}
        """
    )
    kernel = spfgen.compile("s = A[i, j]*B[i, j]", A="csr", B=spec.layouts["rows"])
    (found,) = finds(kernel)
    assert found.algorithm == algorithm


def test_blocks_are_found_by_the_quotient() -> None:
    kernel = spfgen.compile("s = A[i, j]*B[i, j]", A="csr", B="bcsr(R=2, C=3)")
    (found,) = finds(kernel)
    assert found.algorithm == "binary search"
    assert found.conditions == ()
    assert "j / 3" in kernel.source


def test_the_second_coordinate_is_compared_where_the_first_is_found() -> None:
    """In a sorted coordinate list the first coordinate is searched; the second decides among its positions."""
    kernel = spfgen.compile("s = A[i, j]*B[i, j]", A="dense", B="coo", order=["i", "j"])
    (found,) = finds(kernel)
    assert found.algorithm == "binary search"
    assert len(found.conditions) == 1
    rng = np.random.default_rng(0)
    a, b = (np.where(rng.random((6, 7)) < 0.5, rng.integers(1, 9, (6, 7)), 0.0) for _ in range(2))
    assert kernel(A=a, B=b) == (a * b).sum()
