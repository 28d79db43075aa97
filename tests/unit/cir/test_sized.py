"""Loops over a size that may be small."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

import spfgen
from spfgen.cir import nodes as c
from spfgen.cir.build import loop
from spfgen.cir.sized import sized
from spfgen.cir.workspaces import PARALLEL
from spfgen.ir import walk

ROW, P, WIDTH, N = (c.Name(n) for n in ("i", "p", "width", "n"))
SUM = c.Declare("double", "s", c.Float(0.0))
SUMMED = c.Assign(c.Name("s"), "+=", c.Load(c.Name("a"), c.Bin("+", c.Bin("*", ROW, WIDTH), P)))
INNER = c.For("int64_t", "p", c.Int(0), c.Bin("<", P, WIDTH), 4, c.Block((SUMMED,)))
STORED = c.Assign(c.Load(c.Name("y"), ROW), "=", c.Name("s"))
SIZE = c.Declare("const int64_t", "width", c.Field(c.Name("A"), "width"))
PARAMS = (c.Param("int64_t", "n"), c.Param("const double *", "a"), c.Param("double *", "y"), c.Param("double", "s"))
ROWS = loop("i", c.Int(0), N, (SUM, INNER, STORED))


def function(rows: c.Stmt, size: c.Stmt = SIZE) -> c.Function:
    return c.Function("void", "product", PARAMS, c.Block((size, rows)))


def test_the_loop_gets_a_function_of_the_size() -> None:
    rows, sizes, whole = sized(function(ROWS))
    assert [f.name for f in (rows, sizes, whole)] == ["product_rows", "product_sizes", "product"]
    given = [n.arguments[0] for n in walk(sizes) if isinstance(n, c.Call)]
    assert given == [c.Int(k) for k in range(9)]
    (call,) = (n for n in walk(whole) if isinstance(n, c.Call) and n.function == "product_sizes")
    assert call.arguments == (WIDTH, c.Int(0), N, c.Name("a"), c.Name("y"))
    large = [n for n in walk(whole) if isinstance(n, c.For)]
    assert large == [ROWS, INNER], "the loop as it is, for other sizes"


@pytest.mark.parametrize(
    "made",
    [
        function(replace(ROWS, pragmas=(PARALLEL,))),
        function(loop("i", c.Int(0), N, (INNER, STORED))),  # adds to a variable of others
        function(loop("i", c.Int(0), N, (SUM, replace(INNER, step=1), STORED))),
        function(loop("i", c.Int(0), N, (SUM, replace(INNER, start=ROW), STORED))),
        function(ROWS, replace(SIZE, value=c.Int(3))),  # no size of a tensor
        function(loop("i", c.Int(0), N, (SUM, INNER, c.If(c.Bin("<", N, ROW), c.Block((c.Return(),))), STORED))),
    ],
)
def test_what_is_left_alone(made: c.Function) -> None:
    assert sized(made) == [made]


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_products(kind: type) -> None:
    """What unused slots hold is not read, nor what no slot says."""
    random = np.random.default_rng(5)
    kernel = spfgen.compile("y[i] = A[i,j]*x[j]", A="ell", x="dense", y="dense")
    for width in (0, 1, 2, 3, 5, 8, 9, 20):
        for rows in (0, 1, 2, 70):
            mask = np.argsort(random.random((rows, 25)), axis=1) < random.integers(0, width + 1, (rows, 1))
            dense = mask * random.integers(1, 9, (rows, 25)).astype(kind)
            if rows and width:
                dense[0] = np.arange(25) < width  # a whole row
            x = random.integers(1, 9, 25).astype(kind)
            expected = dense @ x
            x[~dense.any(0)] = np.inf
            packed = spfgen.pack(csr_array(dense), "ell")
            packed.arrays["val"][packed.arrays["colidx"] < 0] = np.nan
            np.testing.assert_array_equal(kernel(A=packed, x=x), expected)
    assert "kernel_sizes(" in kernel.source


def test_what_has_one_answer_is_asked_before_the_rows() -> None:
    """Also where rows have many slots."""
    kernel = spfgen.compile("y[i] = A[i,j]*x[j]", A="ell", x="dense", y="dense")
    rows = kernel.source[kernel.source.index("One part of a loop") :]
    assert rows.index("(streamed)") < rows.index("for (int64_t i = ")
    assert rows.count("(streamed)") == 1
    assert rows.count("omp parallel") == 1


def test_what_is_done_only_for_small_sizes_is_left_out_for_others() -> None:
    few = c.Declare("const bool", "few", c.Bin("&&", c.Bin(">", N, c.Int(99)), c.Bin("<=", WIDTH, c.Int(8))))
    fetching = c.If(c.Name("few"), c.Block((c.Do(c.Call("fetch", (ROW,))),)))
    lines = c.Block((SIZE, few, loop("i", c.Int(0), N, (SUM, fetching, INNER, STORED))))
    fetched = [
        any(isinstance(n, c.Call) and n.function == "fetch" for n in walk(f))
        for f in sized(c.Function("void", "product", PARAMS, lines))
    ]
    assert fetched == [True, False, False]
