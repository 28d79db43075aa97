"""Functions of the namespace say what they take, what becomes of the fill, what they cost; their examples run."""

from __future__ import annotations

import doctest
import inspect
from typing import Any

import pytest

import spfgen.array as xp

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
