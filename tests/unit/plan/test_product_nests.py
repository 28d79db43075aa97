"""Statements that are sums of products, among others: the nests and passes that they have alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import PLANS, LevelLoop, Products, RegisterTile, Scan
from spfgen.plan.verify.claims import POINTS, SUMS
from tests.fuzz.carried import by_the_interpreter

Array = np.ndarray[Any, Any]
LAST = "z[i] = max(j: A[i,j]*x[j])"
RNG = np.random.default_rng(3)
A, B = (np.where(RNG.random((30, 40)) < 0.3, RNG.standard_normal((30, 40)), 0) for _ in range(2))
x, w, X = RNG.standard_normal(40), 1 + RNG.random(30), RNG.standard_normal((40, 7))
CASES: dict[str, tuple[str, Callable[[], Mapping[str, Any]]]] = {
    "vector": ("y[i] = A[i,j]*x[j]", lambda: {"y": A @ x}),
    "matrix": ("y[i,k] = A[i,j]*X[j,k]", lambda: {"y": A @ X}),
    "two terms": ("y[i] = A[i,j]*x[j] + B[i,j]*x[j]", lambda: {"y": (A + B) @ x}),
    "against the order": ("y[j] = A[i,j]*w[i]", lambda: {"y": A.T @ w}),
    "product into csr": ("y[i,k] = A[i,j]*B[k,j]", lambda: {"y": A @ B.T}),
    "update": ("y[i] = w[i]; y[i] += A[i,j]*x[j]", lambda: {"y": w + A @ x}),
    "some": ("y[i] = A[i,j]*x[j] where i > 3", lambda: {"y": np.where(np.arange(30) > 3, A @ x, 0)}),
    "scalar": ("y = A[i,j]*x[j]", lambda: {"y": (A @ x).sum()}),
    "quotient": ("y[i] = sum(j: A[i,j]*x[j])/(1 + sum(j: A[i,j]*A[i,j]))", lambda: {"y": A @ x / (1 + (A * A).sum(1))}),
    "written twice": (
        "y[i] = w[i]/(1 + sum(j: A[i,j]*A[i,j])); y[i] = w[i]/(2 + sum(j: A[i,j]*A[i,j]))",
        lambda: {"y": w / (2 + (A * A).sum(1))},
    ),
    "in a condition": ("if w[0] > 0 { y[i] = A[i,j]*x[j] }", lambda: {"y": A @ x}),
}


def compiled(name: str, layout: str, **how: Any) -> spfgen.Kernel:
    text = f"{CASES[name][0]}; {LAST}"
    result = "csr" if "csr" in name else "dense"
    kinds = {"A": layout, "B": layout, "x": "dense", "w": "dense", "X": "dense", "y": result, "z": "dense"}
    if name == "scalar":
        del kinds["y"]
    return spfgen.compile(text, **{n: k for n, k in kinds.items() if f"{n}[" in text}, **how)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("layout", "level"), [("csr", 1), ("coo", 2), ("bcsr", 2)])
@pytest.mark.sampled(14)
def test_results(name: str, layout: str, level: int) -> None:
    kernel = compiled(name, layout, threads=2, optimize=level)
    operands = {"A": spfgen.pack(A, layout), "B": spfgen.pack(B, layout), "x": x, "w": w, "X": X}
    found = kernel(**{n: v for n, v in operands.items() if n in {t.name for t in kernel.program.tensors}})
    wanted = {**CASES[name][1](), "z": (A * x).max(1)}
    for result, value in wanted.items():
        own = found[result]
        assert np.allclose(np.asarray(own.to_dense() if hasattr(own, "to_dense") else own), value)
    plans = [n for p in kernel.generated.plans for n in walk(p, PLANS)]
    assert any(isinstance(n, Products) for n in plans)


@pytest.mark.parametrize(("text", "layout"), [("y[i,k] = A[i,j]*X[j,k]", "csr"), ("y[i,k] = A[i,j]*X[j,k]", "coo")])
def test_passes(text: str, layout: str) -> None:
    """The plan beside another statement is the one alone."""
    kinds = {"A": layout, "X": "dense", "x": "dense", "y": "dense", "z": "dense"}
    (alone,) = spfgen.compile(text, **{n: kinds[n] for n in "AXy"}).generated.plans
    assert isinstance(alone, Products)
    (both,) = spfgen.compile(f"{text}; {LAST}", **kinds).generated.plans
    (own,) = (n.body for n in walk(both, PLANS) if isinstance(n, Products))
    assert own == alone.body
    assert layout != "csr" or any(isinstance(n, RegisterTile) for n in walk(own))


def test_a_recurrence_runs_by_levels() -> None:
    """A triangular solve knows its order, whatever stands beside it."""
    lower = np.tril(A[:, :30], -1) + np.diag(w)
    text = "v[i] = (w[i] - sum(j < i: L[i,j]*v[j]))/L[i,i]; z[i] = maximum(v[i], 0)"
    kernel = spfgen.compile(text, L="csr", w="dense")
    assert [n.dim for p in kernel.generated.plans for n in walk(p, PLANS) if isinstance(n, LevelLoop)] == ["i"]
    call = kernel.bind(L=spfgen.pack(lower, "csr"), w=w).keep_levels()
    for _ in range(2):
        call()
    solved = np.linalg.solve(lower, w)
    found = kernel(L=spfgen.pack(lower, "csr"), w=w)
    assert np.allclose(found["v"], solved)
    assert np.allclose(found["z"], np.maximum(solved, 0))


@pytest.mark.parametrize("clause", ["tile j by 3", "order j, i", "tile i by 4"])
def test_loops_that_no_other_statement_has_are_scheduled(clause: str) -> None:
    text, kinds = "y[i] = A[i,j]*x[j]; z[k] = max(l: A[k,l]*x[l])", {"A": "csr", "x": "dense"}
    kernel = spfgen.compile(text, **kinds, schedule=clause)
    assert kernel.source != spfgen.compile(text, **kinds).source
    found = kernel(A=spfgen.pack(A, "csr"), x=x)
    assert np.allclose(found["y"], A @ x)
    assert np.allclose(found["z"], (A * x).max(1))
    message = "`tile` is for sums of products alone, and `k` is a loop of what is more: `maximum` is more"
    with pytest.raises(spfgen.SpfgenError, match=message):
        spfgen.compile(text, **kinds, schedule="tile k by 2")


def test_the_type_of_a_result_follows_from_the_value() -> None:
    """Whether it is a sum of products or not."""
    text = "kernel k {{ tensor A : csr<float>  tensor x : dense<float>  tensor y : dense  y[i] = {} }}"
    for value in ("A[i,j]*x[j]", "max(j: A[i,j]*x[j])"):
        program = spfgen.parse(text.format(value)).kernels["k"].compile().program
        assert program.tensor("y").value_type == "float32"
    for value in ("y[i + 2]", "2"):
        program = (
            spfgen.parse(f"kernel k {{ tensor y : dense  y[i] += {value} where i < 3 }}").kernels["k"].compile().program
        )
        assert program.tensor("y").value_type == "float64"


def test_tables_are_for_what_needs_them() -> None:
    """A list in no order is gone through as it is stored by a sum of products."""
    kernel = spfgen.compile("y[i] = A[i,j]*x[j]; z[i] = abs(y[i])", A="coo", x="dense", y="dense", z="dense")
    assert "map" not in kernel.source


def test_schedule() -> None:
    """What a schedule says of loops is said of these, too."""
    kinds = {"A": "csr", "x": "dense", "X": "dense", "y": "dense", "z": "dense"}
    text = f"y[i,k] = A[i,j]*X[j,k]; {LAST}"
    (plan,) = spfgen.compile(text, **kinds, schedule="serial i").generated.plans
    assert not any(n.parallel for n in walk(plan, PLANS) if isinstance(n, Scan))


@pytest.mark.parametrize("name", ["quotient", "written twice", "against the order"])
def test_carried_out(name: str) -> None:
    """The plan does the same as its C."""
    with by_the_interpreter():
        test_results(name, "csr", 1)


@pytest.mark.parametrize(("layout", "level"), [("csr", 0), ("csc", 1), ("coo", 2)])
def test_into_a_workspace(layout: str, level: int) -> None:
    """A tensor of the kernel's own is written by such nests, cleared and added to by threads."""
    body = "t[j] = A[i,j]*A[i,j]  t[j] += x[j]  z[i] = max(j: A[i,j]*t[j])"
    spec = f"kernel k {{ tensor A : {layout}  tensor x, z : dense  local tensor t : dense  {body} }}"
    kernel = spfgen.parse(spec).kernels["k"].compile(optimize=level, threads=2)
    found = kernel(A=spfgen.pack(A, layout), x=x)
    assert np.allclose(found, (A * ((A * A).sum(0) + x)).max(1))
    assert sum(isinstance(n, Products) for p in kernel.generated.plans for n in walk(p, PLANS)) == 2


@pytest.mark.parametrize("layout", ["csr", "csr_rle"])
def test_slices(layout: str) -> None:
    """An extent that the kernel computes is not known before all statements."""
    text = f"y[i] = A[i, j(2:20)]*x[j(2:20)]; {LAST}"
    kernel = spfgen.compile(text, A=layout, x="dense", y="dense", z="dense", threads=3)
    assert np.allclose(kernel(A=spfgen.pack(A, layout), x=x)["y"], A[:, 2:20] @ x[2:20])


def test_what_is_said() -> None:
    """`explain` shows the points of such statements, and claims what was compared."""
    kinds = {"A": "csr", "x": "dense", "w": "dense", "y": "dense", "z": "dense"}
    said = compiled("vector", "csr").explain()
    assert "as sums of products: y[i] = A[i, j]*x[j]\n    iteration space:" in said
    assert SUMS in said
    alone = spfgen.compile("y[i] = sum(j: A[i,j]*x[j])/w[i]", **{n: kinds[n] for n in "Axwy"}).explain()
    assert POINTS in alone
    assert "what is cleared" not in alone
