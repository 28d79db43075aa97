"""Ends of segments that are kept from one iteration to the next."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

import spfgen
from spfgen.cir.rewrite.scalar_replacement import with_scalar_replacement
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.build import loop
from spfgen.cir.tree.names import Names
from spfgen.ir import walk
from spfgen.lang.spec import parse_tree
from spfgen.pipeline import resolve
from spfgen.space.from_lang import join

ROW, A, B = c.Name("i"), c.Name("a"), c.Name("b")
HERE, NEXT = c.Load(A, ROW), c.Load(A, c.Bin("+", ROW, c.Int(1)))


def names() -> Names:
    tree = parse_tree("kernel copy { tensor x, y : dense  y[i] = x[i] }")
    return Names(join(tree.kernels["copy"], resolve(tree.kernels["copy"], tree)), ())


def segments(*inside: c.Stmt) -> c.For:
    return loop("i", c.Int(0), c.Name("n"), inside)


def inner(*inside: c.Stmt) -> c.For:
    return loop("p", HERE, NEXT, inside or (c.Assign(c.Load(B, c.Name("p")), "=", c.Int(1)),))


def test_each_end_is_read_once() -> None:
    (made,) = with_scalar_replacement([segments(inner())], {"a"}, names())
    reads = [n for n in walk(made) if isinstance(n, c.Load) and n.array == A]
    assert reads == [c.Load(A, c.Int(0)), NEXT]
    first = next(n for n in walk(made) if isinstance(n, c.Select))
    assert first.condition == c.Bin("<", c.Int(0), c.Name("n")), "nothing is read where there is no iteration"


def test_a_loop_that_ends_where_a_value_differs() -> None:
    """Whether there is an iteration is its whole condition, at the beginning."""
    same = c.Bin("==", c.Load(B, ROW), c.Name("key"))
    segment = replace(
        segments(inner()), start=c.Name("begin"), condition=c.Bin("&&", c.Bin("<", ROW, c.Name("n")), same)
    )
    (made,) = with_scalar_replacement([segment], {"a"}, names())
    first = next(n for n in walk(made) if isinstance(n, c.Select))
    begin = c.Name("begin")
    same_first = c.Bin("==", c.Load(B, begin), c.Name("key"))
    assert first.condition == c.Bin("&&", c.Bin("<", begin, c.Name("n")), same_first)


def test_ends_read_beside_an_inner_loop_are_found() -> None:
    """What stands before a loop whose own ends are carried is a block with it."""
    deeper = loop("k", c.Load(B, c.Name("p")), c.Load(B, c.Bin("+", c.Name("p"), c.Int(1))), (c.Break(),))
    (made,) = with_scalar_replacement([segments(inner(deeper))], {"a", "b"}, names())
    arrays = [n.array.name for n in walk(made) if isinstance(n, c.Load)]
    assert sorted(arrays) == ["a", "a", "b", "b"]


def test_other_names_for_ends_go() -> None:
    """Those that stay what they are: what runs on from the begin of a segment is a variable of its own."""
    here, end, at = (c.Name(n) for n in ("here", "end", "at"))
    step = c.While(c.Bin("<", at, end), c.Block((c.Assign(at, "+=", c.Int(1)),)))
    nest = c.Braces(c.Block((c.Declare("const int64_t", "here", HERE), c.Declare("int64_t", "at", here), step)))
    (made,) = with_scalar_replacement([segments(c.Declare("const int64_t", "end", NEXT), nest)], {"a"}, names())
    declared = {n.name: n.value for n in walk(made) if isinstance(n, c.Declare)}
    assert "here" not in declared
    assert declared["at"] == c.Name(next(n for n in declared if n.startswith("a_i")))
    (made,) = with_scalar_replacement(
        [segments(c.Declare("const int64_t", "end", NEXT), c.Declare("int64_t", "at", HERE), step)], {"a"}, names()
    )
    assert "at" in {n.name for n in walk(made) if isinstance(n, c.Declare)}


@pytest.mark.parametrize(
    "statement",
    [
        replace(segments(inner()), pragmas=("omp parallel for",)),  # the iterations come in any order
        replace(segments(inner()), step=2),
        segments(c.If(c.Bin("<", ROW, c.Int(3)), inner())),  # not read in each iteration
        segments(loop("p", c.Int(0), NEXT, (c.Assign(c.Load(B, c.Name("p")), "=", c.Int(1)),))),
        segments(c.Assign(c.Load(B, ROW), "=", HERE)),
        segments(c.If(c.Bin("&&", c.Name("n"), c.Bin("<", HERE, NEXT)), c.Break())),  # read only where n is not 0
        # nothing may stand between loops that run as one
        replace(loop("j", c.Int(0), c.Name("n"), (segments(inner()),)), pragmas=("omp parallel for collapse(2)",)),
    ],
)
def test_what_is_left_alone(statement: c.Stmt) -> None:
    assert with_scalar_replacement([statement], {"a"}, names()) == [statement]
    assert with_scalar_replacement([segments(inner())], {"b"}, names()) == [segments(inner())]


def test_an_end_that_has_a_name_keeps_it() -> None:
    end = c.Declare("const int64_t", "end", NEXT)
    body = loop("p", HERE, c.Name("end"), (c.Assign(c.Load(B, c.Name("p")), "=", c.Int(1)),))
    (made,) = with_scalar_replacement([segments(end, body)], {"a"}, names())
    assert [n for n in walk(made) if n == end] == [end]
    (made,) = with_scalar_replacement([segments(c.Assign(c.Load(B, ROW), "=", NEXT), end, body)], {"a"}, names())
    assert [n.name for n in walk(made) if isinstance(n, c.Declare) and n.value == NEXT] == ["a_i_1"]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("rows", [0, 1, 2, 2000])
def test_parts_of_rows(rows: int, threads: int) -> None:
    """Each thread begins somewhere else; some have no row."""
    rng = np.random.default_rng(rows)
    dense = np.where(rng.random((rows, 30)) < 0.3, rng.integers(1, 9, (rows, 30)), 0).astype(float)
    dense[rows // 3 : rows // 2] = 0
    kernel = spfgen.compile("y[i] = A[i,j]*x[j]", A="csr", x="dense", y="dense", threads=threads)
    x = rng.integers(1, 9, 30).astype(float)
    assert np.array_equal(kernel(A=csr_array(dense), x=x), dense @ x)
