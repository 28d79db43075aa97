"""Functions of the namespace and methods of tensors and of lazy arrays say what they take, what becomes of the fill,
what they cost; their examples run."""

from __future__ import annotations

import doctest
import inspect
from typing import Any

import pytest

import spfgen
import spfgen.array as xp
from spfgen.run.arrays.lazy import LazyArray
from spfgen.run.operators import Operators

PARTS = ("Shapes:", "Types:", "Fill:", "Cost:")
FUNCTIONS = {n: f for n in xp.__all__ if inspect.isfunction(f := getattr(xp, n))}
FUNCTIONS |= {
    f"linalg.{n}": f for n, f in vars(xp.linalg).items() if inspect.isfunction(f) and f.__module__ == xp.linalg.__name__
}
FUNCTIONS = {n: f for n, f in FUNCTIONS.items() if not n.rpartition(".")[2].startswith("__get") and n != "__dir__"}


def ran(doc: str, names: dict[str, Any]) -> doctest.DocTest:
    """The examples of a docstring, which have run."""
    found = doctest.DocTestParser().get_doctest(doc, names, "example", None, None)
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    said: list[str] = []
    runner.run(found, out=said.append, clear_globs=False)
    assert not runner.failures, "".join(said)
    return found


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """The arrays that all examples are about."""
    assert xp.__doc__ is not None
    return ran(xp.__doc__, {}).globs


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_a_function_says_of_itself(name: str, names: dict[str, Any]) -> None:
    doc = inspect.getdoc(FUNCTIONS[name]) or ""
    assert [p for p in PARTS if p not in doc] == []
    assert ran(doc, dict(names)).examples


KINDS = {c.__name__: c for c in (spfgen.Tensor, LazyArray)}
METHODS = [f"{k}.{n}" for k, c in KINDS.items() for n in dir(c) if not n.startswith("_") and n not in c._inner]
OTHERS = {"Tensor.to_jax": "jax", "Tensor.to_torch": "torch"}
"""Methods with examples that need another library, which takes long to import."""


@pytest.fixture(scope="module")
def tensors() -> dict[str, Any]:
    """The tensors that all examples of methods are about."""
    assert spfgen.Tensor.__doc__ is not None
    return ran(spfgen.Tensor.__doc__, {}).globs


@pytest.mark.parametrize(
    "name", [pytest.param(m, marks=[pytest.mark.exhaustive] if m in OTHERS else []) for m in METHODS]
)
def test_what_a_method_says_of_itself(name: str, tensors: dict[str, Any]) -> None:
    kind, _, own = name.partition(".")
    method = getattr(KINDS[kind], own)
    doc = inspect.getdoc(method) or ""
    assert [p for p in PARTS if p not in doc and inspect.isfunction(method)] == []
    if name in OTHERS:
        pytest.importorskip(OTHERS[name])
    is_lazy = own in vars(LazyArray) and kind == "LazyArray"
    assert ran(doc, ran(LazyArray.__doc__ or "", {}).globs if is_lazy else dict(tensors)).examples


def test_signs_say_which_function_they_are() -> None:
    signs = [n for n in vars(Operators) if n.startswith("__") and n[2:-2] in ("add", "radd", "matmul", "neg", "eq")]
    assert all((inspect.getdoc(getattr(Operators, n)) or "").startswith("numpy.") for n in signs)
