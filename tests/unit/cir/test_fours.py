"""Long segments, four products in each round; and loops that stand there once for each answer to a question."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import spfgen
from spfgen.cir import nodes as c
from spfgen.cir.unswitch import unswitched


def rows(lengths: list[int], kind: type, index: type) -> csr_array:
    """Rows of these lengths, their entries anywhere."""
    random, columns = np.random.default_rng(1), max(lengths) + 5
    indices = np.concatenate([np.sort(random.permutation(columns)[:n]) for n in lengths]).astype(index)
    values = random.integers(1, 5, len(indices)).astype(kind)
    return csr_array((values, indices, np.cumsum([0, *lengths]).astype(index)), shape=(len(lengths), columns))


@pytest.mark.parametrize(("kind", "index"), [(np.float64, np.int32), (np.float32, np.int64)])
def test_rows_on_both_sides_of_long(kind: type, index: type) -> None:
    for threads in (1, 4):
        kernel = spfgen.compile("y[i] = A[i,j]*x[j]", A="csr", x="dense", y="dense", threads=threads)
        assert "if (steady)" in kernel.source
        for lengths in ([*range(12), *range(30, 41), 400, 0], [3, 0, 16, 1, 2], [24], [23]):
            a = rows(lengths * 40, kind, index)
            x = (np.arange(a.shape[1]) % 5 - 1).astype(kind)
            assert np.array_equal(kernel(A=a, x=x), a.toarray() @ x)


@pytest.mark.parametrize(
    ("value", "longer"),
    [
        ("3*A[i,j]*w[i]*x[j]", True),
        ("A[i,j]*x[j]*v[j]", True),
        ("A[i,j]*x[j]*x[j]", True),
        ("A[i,j]*w[i]", False),  # none does
    ],
)
def test_values(value: str, longer: bool) -> None:
    """Also where values lie scattered beside others, or none does."""
    a = rows([30, 27, 31, 26], float, np.int32)
    given = {"A": a, "x": np.arange(36.0) % 5, "v": np.arange(36.0) % 3, "w": np.arange(4.0) + 1}
    used = {n: given[n] for n in given if n + "[" in value}
    kernel = spfgen.compile(f"y[i] = {value}", y="dense", **{n: "csr" if n == "A" else "dense" for n in used})
    assert ("if (steady)" in kernel.source) == longer
    names = {"A": a.toarray(), "x": given["x"][None, :], "v": given["v"][None, :], "w": given["w"][:, None]}
    plain = value.replace("[i,j]", "").replace("[i]", "").replace("[j]", "")
    assert np.array_equal(kernel(**used), np.asarray(eval(plain, {}, names)).sum(1))


def test_a_value_that_is_no_number_is_added_where_it_is_stored() -> None:
    a = rows([30, 28, 26], float, np.int32)
    x = np.ones(a.shape[1])
    x[a.indices[0]] = np.inf
    with np.errstate(invalid="ignore"):
        expected = a @ x
    assert np.array_equal(spfgen.compile("y[i] = A[i,j]*x[j]", A="csr", x="dense", y="dense")(A=a, x=x), expected)


SLOTS = """
layout slots(nrow, ncol) {{
    size width
    relation {{ [r, s] -> [i, j] : 0 <= r < nrow and 0 <= s < width and i = r and j = column(r, s) and 0 <= j }}
    index column[nrow, width] {{
        range -1 <= column(r, s) < ncol
        property forall r, s, t : {}
    }}
    value val[nrow, width] at [r, s]
}}
kernel k {{ tensor A : slots tensor x, y : dense  y[i] = A[i, j]*x[j] }}
"""
LAST = "s < t and column(r, t) >= 0 => 0 <= column(r, s) < column(r, t)"
ANYWHERE = "s < t and column(r, s) >= 0 and column(r, t) >= 0 => column(r, s) < column(r, t)"


@pytest.mark.parametrize("unused", [LAST, ANYWHERE])
def test_the_last_slot_says_that_a_row_is_full_only_where_unused_ones_come_last(unused: str) -> None:
    random = np.random.default_rng(3)
    spec = spfgen.parse(SLOTS.format(unused))
    kernel = spec.kernels["k"].compile()
    assert ("const bool gathered" in kernel.source) == (unused == LAST)
    for width in (8, 9, 17):
        column = np.tile(np.arange(width), (60, 1)).astype(np.int32)
        for row in column[::2]:
            row[random.integers(0, width) :] = -1
        if unused == ANYWHERE:
            column[1::2, 0] = column[::2, 0] = -1
        val = np.where(column < 0, np.nan, random.integers(1, 5, column.shape))
        a = spfgen.tensor(spec.layouts["slots"], shape=(60, width), column=column, val=val)
        x = random.integers(1, 5, width).astype(float)
        expected = np.where(column < 0, 0, np.nan_to_num(val) * x[column]).sum(1)
        assert np.array_equal(kernel(A=a, x=x), expected)


def made(pragmas: tuple[str, ...]) -> c.Function:
    flag, n = c.Name("flag"), c.Name("n")

    def stores(value: int) -> c.For:
        body = c.Assign(c.Load(c.Name("a"), c.Name("k")), "=", c.Int(value))
        return c.For("int64_t", "k", c.Int(0), c.Bin("<", c.Name("k"), n), 1, c.Block((body,)))

    asked = c.If(flag, c.Block((stores(1),)), c.Block((stores(2),)))
    outer = c.For("int64_t", "i", c.Int(0), c.Bin("<", c.Name("i"), n), 1, c.Block((asked,)), pragmas)
    around = c.For("int64_t", "p", c.Int(0), c.Bin("<", c.Name("p"), n), 1, c.Block((outer,)))
    lines = (c.Declare("const bool", "flag", c.Bin(">", n, c.Int(3))), around)
    return c.Function("void", "f", (c.Param("int64_t", "n"), c.Param("double *", "a")), c.Block(lines))


def test_the_question_is_asked_before_the_innermost_loop_around_it() -> None:
    _, around = unswitched(made(())).body.statements
    assert isinstance(around, c.For)
    assert isinstance(around.body, c.Block)
    (asked,) = around.body.statements
    assert isinstance(asked, c.If)
    assert asked.condition == c.Name("flag")
    assert [[s.variable for s in b.statements] for b in (asked.then, asked.orelse)] == [["i"], ["i"]]  # type: ignore[union-attr]


def test_loops_with_pragmas_ask_inside() -> None:
    assert unswitched(made(("omp parallel for",))) == made(("omp parallel for",))
