"""Loads under conditions that stand side by side: compilers that make vectors of them get them right."""

from __future__ import annotations

import os

import numpy as np
import pytest

import spfgen
from spfgen.cir.rewrite.vectorizer_barrier import BRANCH, with_branches
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.build import INT, loop
from spfgen.errors import ToolError
from spfgen.ir import walk
from spfgen.run.compile import find_compiler

COMPILERS = ("", "gcc", "gcc -mno-avx512f", "gcc -mprefer-vector-width=512", "clang")
"""The one that is taken, with all that this machine has; and others where they are there, for other machines."""
RANDOM = np.random.default_rng(5)
SQUARE = np.where(RANDOM.random((23, 23)) < 0.4, RANDOM.integers(1, 9, (23, 23)), 0)
PROGRAMS = (
    ("y[i] = A[i,i]", "sell_sigma<float64>", np.diag(SQUARE)),
    ("y[i] = A[i,i]", "sell_sigma<int64>(C=8)", np.diag(SQUARE)),
    ("y[i] = A[i,i]", "sell<int64>(C=2)", np.diag(SQUARE)),
    ("y[i] = sum(j: A[i,j] where j < i)", "sell_sigma<float64>(C=8)", np.tril(SQUARE, -1).sum(1)),
)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_vectors(compiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What gcc 12 and -O3 make wrong of four such loads, with AVX2 or AVX-512."""
    try:
        with monkeypatch.context() as patch:
            patch.setenv("SPFGEN_CC", compiler)
            find_compiler()
    except ToolError:
        pytest.skip(f"there is no {compiler}")
    monkeypatch.setenv("SPFGEN_CC", compiler or os.environ.get("SPFGEN_CC", ""))
    for text, layout, expected in PROGRAMS:
        kind = "int64" if "int64" in layout else "float64"
        kernel = spfgen.compile(text, A=layout, y=f"dense<{kind}>")
        found = kernel(A=spfgen.pack(SQUARE.astype(kind), layout))
        assert np.array_equal(found, expected), f"{text} of {layout} with {compiler}"


def at(array: str, *index: str | int) -> c.Load:
    """An element, at the sum of these."""
    parts: list[c.Expr] = [c.Int(i) if isinstance(i, int) else c.Name(i) for i in index]
    place = parts[0]
    for part in parts[1:]:
        place = c.Bin("+", place, part)
    return c.Load(c.Name(array), place)


def add(value: c.Expr) -> c.Stmt:
    return c.Assign(c.Name("s"), "+=", value)


def under(condition: c.Expr, *lines: c.Stmt) -> c.Stmt:
    return c.If(condition, c.Block(lines))


def loops(body: list[c.Stmt], kind: str = "const double *restrict") -> list[str]:
    """The variables of the loops that keep their branches, in a loop over p of this body."""
    params = tuple(c.Param(t, n) for t, n in ((INT, "n"), ("const int *", "b"), (kind, "x"), ("double", "s")))
    whole = loop("p", c.Int(0), c.Name("n"), body)
    (made,) = with_branches([c.Function("void", "f", params, c.Block((whole,)))])
    return [f.variable for f in walk(made) if isinstance(f, c.For) and BRANCH in walk(f.body)]


TESTED = c.Bin("<", at("b", "p", "q"), c.Int(0))


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        # a loop over four of them, also where it does not begin at a number
        ([loop("q", c.Int(0), c.Int(4), [under(TESTED, add(at("x", "p", "q")))])], ["p"]),
        ([loop("q", c.Name("n"), c.Bin("+", c.Name("n"), c.Int(4)), [under(TESTED, add(at("x", "q")))])], ["p"]),
        # a value that is chosen
        ([loop("q", c.Int(0), c.Int(4), [add(c.Select(TESTED, at("x", "p", "q"), c.Int(0)))])], ["p"]),
        # under one condition for all
        ([under(at("b", "p"), loop("q", c.Int(0), c.Int(4), [add(at("x", "p", "q"))]))], ["p"]),
        # written out
        ([under(at("b", "p"), add(at("x", "p"))), under(at("b", "p", 1), add(at("x", "p", 1)))], ["p"]),
        # one in each iteration, and one for all
        ([under(at("b", "p"), add(at("x", "p")))], []),
        ([loop("q", c.Int(0), c.Int(4), [under(TESTED, add(at("x", "p")))])], []),
        # of which each is loaded anyway
        ([loop("q", c.Int(0), c.Int(4), [add(at("x", "p", "q"))])], []),
        # the compiler knows the answer where it writes the loop out
        ([loop("q", c.Int(0), c.Int(4), [under(c.Bin("<", c.Name("q"), c.Int(2)), add(at("x", "p", "q")))])], []),
        # nobody knows how many
        ([loop("q", c.Int(0), c.Name("n"), [under(TESTED, add(at("x", "p", "q")))])], []),
    ],
)
def test_loops_that_keep_their_branches(body: list[c.Stmt], kept: list[str]) -> None:
    assert loops(body) == kept


def test_complex_numbers_are_two() -> None:
    assert loops([under(at("b", "p"), add(at("x", "p")))], "const double complex *restrict") == ["p"]


def test_numbers_given_to_functions() -> None:
    """A size that is a number where the function is put into its caller."""
    inner = loop("q", c.Int(0), c.Name("size"), [under(TESTED, add(at("x", "p", "q")))])
    params = tuple(c.Param(INT, n) for n in ("size", "n"))
    one = c.Function("void", "one", params, c.Block((loop("p", c.Int(0), c.Name("n"), [inner]),)), static=True)
    for given, kept in ((c.Int(4), True), (c.Name("m"), False)):
        call = c.Do(c.Call("one", (given, c.Name("m"))))
        made, _ = with_branches([one, c.Function("void", "f", (c.Param(INT, "m"),), c.Block((call,)))])
        assert (BRANCH in walk(made)) == kept
