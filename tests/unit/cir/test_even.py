"""Loops over segments of equal length."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

import spfgen
from spfgen.cir import nodes as c
from spfgen.cir.build import loop
from spfgen.cir.even import evened
from spfgen.ir import walk

ROW, BEGIN, END, P, N = (c.Name(n) for n in ("i", "begin", "end", "p", "n"))
VALUE = c.Load(c.Name("a"), P)
SUMMED = c.Assign(c.Name("s"), "+=", VALUE)
NEXT = c.Declare("int64_t", "p", BEGIN)
MORE = c.Bin("<=", c.Bin("+", P, c.Int(4)), END)
INNER = c.While(MORE, c.Block((SUMMED, c.Assign(P, "+=", c.Int(4)))))
STORED = c.Assign(c.Load(c.Name("y"), ROW), "=", c.Name("s"))
READ = c.Declare("const int64_t", "end", c.Load(c.Name("ends"), c.Bin("+", ROW, c.Int(1))))
SUM = c.Declare("double", "s", c.Float(0.0))
MOVED = c.Assign(BEGIN, "=", END)
PARAMS = (
    c.Param("int64_t", "n"),
    c.Param("const int32_t *", "ends"),
    c.Param("const double *", "a"),
    c.Param("double *", "y"),
    c.Param("double", "all"),
)


def function(*lines: c.Stmt, params: tuple[c.Param, ...] = PARAMS) -> c.Function:
    body = (c.Declare("int64_t", "begin", c.Int(0)), loop("i", c.Int(0), N, lines))
    return c.Function("void", "rows", params, c.Block(body))


def test_the_loop_gets_a_function_for_segments_of_equal_length() -> None:
    run, runs, whole = evened(function(READ, SUM, NEXT, INNER, STORED, MOVED))
    assert [f.name for f in (run, runs, whole)] == ["rows_run", "rows_runs", "rows"]
    lengths = [n.arguments[0] for n in walk(runs) if isinstance(n, c.Call) and n.function == "rows_run"]
    assert lengths[:-1] == [c.Int(k) for k in range(1, 9)]
    (chosen,) = (n for n in walk(whole) if isinstance(n, c.If))
    ends = c.Bin("+", c.Name("ends"), c.Int(1))
    assert chosen.condition == c.Call("spfgen_even_int32", (ends, N))
    assert END not in list(walk(run)), "positions are counted from the begin"
    assert {p.name for p in run.params} == {"count", "i", "last", "begin", "ends", "a", "y"}


OUTSIDE = c.Assign(c.Name("all"), "+=", c.Name("s"))


@pytest.mark.parametrize(
    "made",
    [
        function(READ, SUM, NEXT, INNER, STORED),  # the next segment may begin elsewhere
        function(READ, SUM, NEXT, replace(INNER, condition=c.Bin("<", P, END)), STORED, MOVED),
        function(READ, SUM, replace(NEXT, value=c.Int(0)), INNER, STORED, MOVED),
        function(READ, SUM, NEXT, INNER, OUTSIDE, MOVED),  # a variable of others
        function(READ, SUM, NEXT, INNER, STORED, c.If(c.Bin("<", N, ROW), c.Block((c.Break(),))), MOVED),
        function(READ, SUM, loop("k", c.Int(0), N, (NEXT, INNER)), STORED, MOVED),
        function(replace(READ, value=c.Load(c.Name("ends"), c.Bin("*", ROW, N))), SUM, NEXT, INNER, STORED, MOVED),
        function(
            replace(READ, value=c.Load(c.Name("ends"), c.Load(c.Name("ends"), ROW))), SUM, NEXT, INNER, STORED, MOVED
        ),
        function(READ, SUM, NEXT, INNER, STORED, MOVED, params=(*PARAMS[:1], c.Param("double *", "ends"), *PARAMS[2:])),
        function(READ, SUM, NEXT, INNER, c.Pragma("omp atomic"), STORED, MOVED),
        function(READ, SUM, NEXT, INNER, c.Assign(P, "=", c.Int(3)), STORED, MOVED),  # no position any more
    ],
)
def test_what_is_left_alone(made: c.Function) -> None:
    assert evened(made) == [made]


def test_loops_over_too_few_segments_for_samples_are_left_alone() -> None:
    for count, known in ((128, True), (300, False)):
        end = c.Declare("const int64_t", "last", c.Call("spfgen_min", (c.Bin("+", c.Int(0), c.Int(count)), N)))
        rows = loop("i", c.Int(0), c.Name("last"), (READ, SUM, NEXT, INNER, STORED, MOVED))
        made = c.Function("void", "rows", PARAMS, c.Block((c.Declare("int64_t", "begin", c.Int(0)), end, rows)))
        assert (evened(made) == [made]) == known


def test_all_loops_through_a_segment_count_from_its_begin() -> None:
    """Where one loop goes on where another has stopped."""
    rest, further, place = c.Name("rest"), c.Name("further"), c.Name("place")
    other = c.Declare("const int64_t", "place", c.Bin("+", rest, c.Int(1)))
    using = c.Assign(c.Name("s"), "+=", c.Load(c.Name("a"), place))
    more = (
        c.Declare("int64_t", "rest", P),
        c.While(c.Bin("<=", c.Bin("+", rest, c.Int(2)), END), c.Block((other, using, c.Assign(rest, "+=", c.Int(2))))),
        c.For("int64_t", "further", rest, c.Bin("<", further, END), 1, c.Block((SUMMED,))),
    )
    run, *_ = evened(function(READ, SUM, NEXT, INNER, *more, STORED, MOVED))
    limits = [n.condition.right for n in walk(run) if isinstance(n, c.For | c.While) and isinstance(n.condition, c.Bin)]
    assert limits == [c.Name("count")] * 3
    assert not {P, rest, further, place} & set(walk(run)), "all of them are counted from the begin"


LENGTHS = {
    "one length": lambda random: np.full(700, 5),
    "all lengths": lambda random: np.repeat(np.arange(11), 40),
    "runs": lambda random: np.repeat(random.integers(0, 11, 60), random.integers(1, 30, 60)),
    "mostly": lambda random: np.where(random.random(900) < 0.05, random.integers(0, 40, 900), 3),
    "a long one": lambda random: np.where(np.arange(400) == 200, 300, 8),
    "the last ones": lambda random: np.append(np.full(263, 2), [1, 2, 3]),
}


@pytest.mark.parametrize(("layout", "down"), [("csr", False), ("dcsr", False), ("csr", True), ("csr_unsorted", True)])
@pytest.mark.parametrize("types", [("float64", "int32"), ("float32", "int64")])
def test_products(layout: str, down: bool, types: tuple[str, str]) -> None:
    """Also of those that add to a place for each entry of a row, in several loops one after the other."""
    random = np.random.default_rng(3)
    value, index = types
    kernel = spfgen.compile(f"y[i] = {'A[j,i]' if down else 'A[i,j]'}*x[j]", A=layout, x="dense", y="dense")
    for lengths in (make(random) for make in LENGTHS.values()):
        columns = [np.sort(random.choice(310, n, replace=False)) for n in lengths]
        pointer = np.append(0, np.cumsum(lengths)).astype(index)
        values = random.integers(1, 9, pointer[-1]).astype(value)
        a = csr_array((values, np.concatenate(columns).astype(index), pointer), shape=(len(lengths), 310))
        x = random.integers(-9, 9, a.shape[not down]).astype(value)
        x[7] = np.inf  # what is not stored is not multiplied
        np.testing.assert_array_equal(kernel(A=spfgen.pack(a, layout), x=x), (a.T if down else a) @ x)
    assert "kernel_runs(" in kernel.source


def test_the_order_of_additions_is_the_same() -> None:
    """Rows get the sums that they have on other numbers of threads, whose parts have other samples; in a matrix of few
    rows, whose loops are not written out, about the same: rows of that length may be gathered (cir/gathers.py)."""
    random = np.random.default_rng(4)
    kernels = [spfgen.compile("y[i] = A[i,j]*x[j]", A="csr", x="dense", y="dense", threads=t) for t in (1, 2, 3, 7)]
    x = random.normal(size=20)
    equal, varied = np.repeat([8, 5, 3, 7], 100), random.integers(0, 16, 2000)
    for lengths in (equal, np.append(np.repeat(5, 2000), varied), np.append(varied, np.repeat(5, 9000))):
        columns = np.concatenate([np.sort(random.permutation(20)[:n]) for n in lengths])
        pointer = np.append(0, np.cumsum(lengths))
        a = csr_array((random.normal(size=pointer[-1]), columns, pointer), shape=(len(lengths), 20))
        results = [kernel(A=a, x=x) for kernel in kernels]
        if lengths is equal:
            parts = [kernels[0](A=csr_array(a[k : k + 50]), x=x) for k in range(0, 400, 50)]
            np.testing.assert_allclose(np.concatenate(parts), results[0], rtol=1e-12, atol=1e-12)
        for result in results[1:]:
            np.testing.assert_array_equal(results[0], result)
