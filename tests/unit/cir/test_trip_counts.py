"""Parts are written out for as many places as one tile has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import spfgen
from spfgen.cir.rewrite.trip_counts import specialized
from spfgen.cir.tree import nodes as c
from spfgen.ir import walk

N, AT = c.Name("n"), c.Name("from")
WHOLE = c.Function(
    "int",
    "k",
    (),
    c.Block(
        (
            c.Declare("const bool", "several", c.Bin(">", N, c.Int(32))),
            c.Declare("const bool", "soon", c.Bin("<", N, c.Name("m"))),
        )
    ),
)


def tiles(*widths: int, end: c.Expr = N) -> c.Function:
    lines = [c.While(c.Bin("<=", c.Bin("+", AT, c.Int(w)), end), c.Block(())) for w in widths]
    return c.Function("inline SPFGEN_INLINE void", "k_tiles", (c.Param("int64_t", "n"),), c.Block(tuple(lines)))


def part(*sizes: str) -> c.Function:
    params = [c.Param("int64_t", n) for n in sizes] + [c.Param("bool", n) for n in ("several", "soon")]
    body = c.Block((c.Do(c.Call("k_tiles", (N,))),))
    return c.Function("SPFGEN_NOINLINE void", "k_part", tuple(params), body, static=True)


def test_a_part_is_called_with_the_width_of_each_tile() -> None:
    one, chosen = specialized([tiles(32, 16, 8, 4), part("n")], WHOLE)[1:]
    assert (one.name, chosen.name) == ("k_part_for", "k_part")
    given = [n.arguments for n in walk(chosen) if isinstance(n, c.Call)]
    several, soon, no = c.Name("several"), c.Name("soon"), c.Name("false")
    assert given == [(c.Int(32), no, soon), (c.Int(16), no, soon), (N, several, soon)]


def test_only_answers_that_are_known_are_given() -> None:
    """More than eight is true of a tile's width; more than so many where registers are wide, only of those there."""
    wide = c.Select(c.Name("SPFGEN_WIDE"), c.Int(64), c.Int(16))
    also = c.Bin("<", N, c.Name("m"))
    for limit, wanted in ((c.Int(8), []), (c.Int(16), [16]), (wide, [16])):
        asked = c.Bin(">", N, limit)
        for condition in (asked, c.Bin("&&", c.Bin("&&", asked, also), also)):
            assert given_no(condition) == wanted
        assert given_no(c.Bin("||", asked, also)) == []


def given_no(condition: c.Expr) -> list[int]:
    """The widths for which the answer is known to be no."""
    whole = replace(WHOLE, body=c.Block((c.Declare("const bool", "several", condition),)))
    chosen = specialized([tiles(32, 16), part("n")], whole)[-1]
    given = [n.arguments for n in walk(chosen) if isinstance(n, c.Call)]
    return [a[0].value for a in given if a[1] == c.Name("false") and isinstance(a[0], c.Int)]


@pytest.mark.parametrize(
    "made",
    [
        [tiles(8, 4), part("n")],  # small ones only
        [tiles(32), part("m")],  # the size is not given to the part: it is not one number
        [tiles(32, end=c.Bin("-", N, c.Int(1))), part("n")],
        [part("n")],
    ],
)
def test_what_is_left_alone(made: list[c.Function]) -> None:
    assert [f for f in specialized(made, WHOLE) if f.name.endswith("part_for")] == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("columns", [1, 15, 16, 17, 32, 33, 48, 63, 64, 65, 100, 128, 129])
@pytest.mark.parametrize("kind", ["float64", "float32", "int64"])
def test_any_number_of_columns(columns: int, kind: str) -> None:
    """Rows that are empty, short, and longer than what all tiles take at a time."""
    random = np.random.default_rng(columns)
    dense = random.integers(-3, 4, (30, 200)).astype(kind) * (random.random((30, 200)) < 0.02)
    dense[7] = 0
    dense[11] = random.integers(1, 4, 200)
    factor = random.integers(-3, 4, (200, columns)).astype(kind)
    result = spfgen.evaluate("C[i,j] = A[i,k]*B[k,j]", A=spfgen.pack(dense, "csr"), B=factor)
    np.testing.assert_array_equal(result, dense @ factor)
