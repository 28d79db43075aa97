"""Totals of any monoid that are kept in memory: for all places of a result, or for a row of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import PLANS, Accumulate, Row, Workspace
from spfgen.plan.verify.meaning import Fault, paths
from tests.fuzz.carried import by_the_interpreter

A = np.array([[0, 3, 0, -1, 0], [-2, 0, 0, 0, 5], [0, 0, 0, 0, 0], [1, -2, 3, 4, -5]], np.int64)
B = np.array([[2, -3], [1, 4], [-1, 0], [5, -2], [3, 1]], np.int64)
Z = np.array([3, 1, 2, -1], np.int64)
OWN = "function larger(x, y) { return where(x > y, x, y)"
PROPERTIES = "property commutative", "property associative", f"property identity {-(2**63)}", "property idempotent"


def larger(*properties: str) -> str:
    return f"{OWN} {' '.join(properties)} }}"


CASES = {
    "y[j] = max(i: A[i, j]*z[i]) > 2": ("bool", Workspace, (A * Z[:, None]).max(0) > 2),
    "y[j] = larger(i: A[i, j]*z[i])": ("float64", Workspace, (A * Z[:, None]).max(0)),
    "y[i, k] = min(j: A[i, j]*B[j, k])/z[i]": ("float32", Row, (A[:, :, None] * B).min(1) / Z[:, None]),
    "y[i, k] = larger(j: A[i, j]*B[j, k])*z[i]": ("float32", Row, (A[:, :, None] * B).max(1) * Z[:, None]),
}
GIVEN = {"A": A, "B": B, "z": Z}


def found(text: str, *properties: str) -> Any:
    given: dict[str, Any] = {n: v for n, v in GIVEN.items() if f"{n}[" in text}
    dense = " ".join(f"tensor {n} : dense<int64>" for n in given if n != "A")
    kernel = f"kernel k {{ tensor A : csr<int64> {dense} tensor y : dense<{CASES[text][0]}> {text} }}"
    compiled = spfgen.parse(f"{larger(*properties)} {kernel}").kernels["k"].compile()
    return compiled(**{**given, "A": spfgen.pack(A, "csr")})


def carried_out(text: str, *properties: str) -> set[type]:
    """Where the plan keeps totals, once the interpreter has had the right result."""
    with by_the_interpreter() as ran:
        np.testing.assert_allclose(found(text, *properties), CASES[text][2].astype(CASES[text][0]), rtol=1e-6)
    nodes = (n for made in ran for p in made.plans for n in walk(p, PLANS))
    return {type(n.storage) for n in nodes if isinstance(n, Accumulate) and n.monoid is not None}


@pytest.mark.parametrize("text", CASES)
def test_totals_in_memory_are_those_of_numpy(text: str) -> None:
    kind, storage, wanted = CASES[text]
    assert storage in carried_out(text, *PROPERTIES)
    np.testing.assert_allclose(found(text, *PROPERTIES), wanted.astype(kind), rtol=1e-6)


@pytest.mark.parametrize("text", [t for t in CASES if "larger" in t])
@pytest.mark.parametrize("without", PROPERTIES)
def test_without_its_properties_a_function_combines_no_totals(text: str, without: str) -> None:
    assert not carried_out(text, *(p for p in PROPERTIES if p != without))


def test_totals_that_begin_otherwise_are_refused() -> None:
    """What a place begins as is what the operator of the values that come to it leaves alone."""
    with by_the_interpreter() as ran:
        found("y[j] = max(i: A[i, j]*z[i]) > 2")
    nodes = [n for made in ran for p in made.plans for n in walk(p, PLANS)]
    kept = [n for n in nodes if isinstance(n, Accumulate) and isinstance(n.storage, Workspace)]
    assert kept
    for node in kept:
        with pytest.raises(Fault, match="combined in another way"):
            list(paths(replace(node, monoid=None)))
