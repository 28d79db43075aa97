"""A nest that stores twice: no pass takes the end of a nest for its only store, and none loses the other one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen.ir import rewrite, walk
from spfgen.pipeline import make_plans, print_kernel
from spfgen.plan import from_space
from spfgen.plan.nodes import PLANS, Block, Plan, Store
from spfgen.plan.transform import passes
from spfgen.plan.transform.passes import PASSES, Given, Nests, Pass
from spfgen.run.calls.call import Bound
from spfgen.run.compile import build, load
from spfgen.space.nodes import Program
from tests.plans.interpret import interpret

KERNELS = {
    "sums of rows": ("y[i] = A[i, j]*x[j]", {"A": "csr"}),
    "by columns": ("y[i] = A[i, j]*x[j]", {"A": "csc"}),
    "entries in any order": ("y[i] = A[i, j]*x[j]", {"A": "coo"}),
    "blocks": ("y[i] = A[i, j]*x[j]", {"A": "bcsr"}),
    "rows of a dense result": ("Y[i, k] = A[i, j]*X[j, k]", {"A": "csr"}),
    "found by search": ("Y[i, k] = A[i, j]*B[j, k]", {"A": "csr", "B": "csc"}),
    "in columns": ("Y[i, k] = X[j, i]*Z[j, k]", {}),
    "added": ("Y[i, k] += A[i, j]*X[j, k]", {"A": "dcsr"}),
}
OTHER = "other"


def twice(node: object) -> Plan | None:
    """What is stored is stored in another tensor, too."""
    if not isinstance(node, Store):
        return None
    return Block((node, replace(node, target=replace(node.target, tensor=OTHER, label=OTHER))))


def doubled(_: Given, nests: Nests) -> Nests:
    return nests.with_nests([rewrite(twice, n, PLANS) for n in nests.nests])


def unverified(*_: object) -> Callable[[Nests], None]:
    """The second store is not asked for."""
    return lambda nests: None


def with_other(program: Program) -> Program:
    """The program with another tensor like its result."""
    result = next(t for t in program.tensors if t.is_output)
    arrays = tuple((a, f.replace(f"{result.name}.", f"{OTHER}.")) for a, f in result.arrays)
    return replace(program, tensors=(*program.tensors, replace(result, name=OTHER, arrays=arrays)))


def matrices(size: int, layouts: dict[str, str]) -> dict[str, Any]:
    rng = np.random.default_rng(size)
    dense = {n: rng.integers(1, 5, (size, size) if n.isupper() else size).astype(float) for n in "ABxXZ"}
    return {n: a * (rng.random((size, size)) < 0.3) if n in layouts else a for n, a in dense.items()}


def product_of(text: str, dense: dict[str, Any]) -> Any:
    left, right = text.replace("+=", "=").replace(", ", "").split(" = ")
    factors = [f.rstrip("]").split("[") for f in right.split("*")]
    return np.einsum(f"{','.join(f[1] for f in factors)}->{left[2:-1]}", *(dense[f[0]] for f in factors))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("name", KERNELS)
def test_both_are_stored(name: str, level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the interpreter, and in C: of few values, and of so many that threads share them."""
    text, layouts = KERNELS[name]
    dense = {n: "dense" for n in "yYxXZ" if f"{n}[" in text}
    kernel = spfgen.compile(text, **dense, **layouts, optimize=level)
    monkeypatch.setattr(from_space, "Verified", unverified)
    monkeypatch.setattr(
        passes, "PASSES", (Pass("a second store", "what is stored is stored twice", doubled, 0), *PASSES)
    )
    program = with_other(kernel.generated.program)
    plans = make_plans(program)
    assert any(isinstance(n, Store) and n.target.tensor == OTHER for p in plans for n in walk(p, PLANS))
    library = load(build(print_kernel(program, plans).whole, optimise=False))

    for size in (9, 200):
        given = matrices(size, layouts)
        wanted = product_of(text, given)
        operands = {
            n: spfgen.pack(given[n], layouts[n]) if n in layouts else given[n] for n in given if f"{n}[" in text
        }
        result = next(t.name for t in program.tensors if t.is_output)
        bound = kernel.bind(**operands, **{result: np.zeros_like(wanted)})
        tensors = {**bound.tensors, OTHER: spfgen.pack(np.zeros_like(wanted), "dense")}
        if size < 10:
            found = interpret(program, plans, tensors, bound.sizes)
            for tensor in (result, OTHER):
                np.testing.assert_array_equal(found[tensor]["val"].reshape(wanted.shape), wanted)
        for threads in (1, 2):
            for tensor in (result, OTHER):
                tensors[tensor].arrays["val"][...] = 0
            Bound(program, getattr(library, program.name), tensors, bound.sizes, threads)()
            for tensor in (result, OTHER):
                np.testing.assert_array_equal(tensors[tensor].arrays["val"].reshape(wanted.shape), wanted)
