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
