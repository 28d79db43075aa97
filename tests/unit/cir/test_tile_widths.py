"""Tiles of several widths become functions."""

from __future__ import annotations

from dataclasses import replace

import pytest

import spfgen
from spfgen.cir.rewrite.tile_widths import with_tile_functions
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.build import loop
from spfgen.ir import walk

AT, WIDTH, N, SUM = (c.Name(n) for n in ("c_from", "width", "n", "s"))
ADDED = c.Assign(c.Load(c.Name("y"), c.Bin("+", AT, c.Name("c"))), "+=", c.Float(1.0))
INNER = loop("c", c.Int(0), WIDTH, [ADDED], "omp simd")
PARAMS = (c.Param("int64_t", "n"), c.Param("double *", "y"), c.Param("double", "s"))


def tiles(*lines: c.Stmt) -> c.Stmt:
    body = c.While(c.Bin("<=", c.Bin("+", AT, WIDTH), N), c.Block((*lines, c.Assign(AT, "+=", WIDTH))))
    some, half = c.Bin(">", WIDTH, c.Int(0)), c.Bin("/", WIDTH, c.Int(2))
    widths = c.For("int64_t", "width", c.Int(8), some, half, c.Block((body,)))
    return c.Braces(c.Block((c.Declare("int64_t", "c_from", c.Int(0)), widths)))


def function(*lines: c.Stmt) -> c.Function:
    return c.Function("void", "product", PARAMS, c.Block(lines))


def calls(made: c.Function, name: str) -> list[c.Call]:
    return [n for n in walk(made) if isinstance(n, c.Call) and n.function == name]


def test_one_tile_and_those_of_all_widths() -> None:
    tile, all_widths, whole = with_tile_functions(function(tiles(INNER)))
    assert [f.name for f in (tile, all_widths, whole)] == ["product_tile", "product_tiles", "product"]
    assert [n.arguments[0] for n in calls(all_widths, "product_tile")] == [c.Int(k) for k in (8, 4, 2, 1)]
    assert len(calls(whole, "product_tiles")) == 1
    assert not any(isinstance(n, c.For) for n in walk(whole))


def test_what_is_there_twice_is_written_once() -> None:
    assert len(with_tile_functions(function(tiles(INNER), c.If(N, c.Block((tiles(INNER),)))))) == 3
    assert len(with_tile_functions(function(tiles(INNER), tiles(INNER, INNER)))) == 5


@pytest.mark.parametrize(
    "made",
    [
        function(tiles(INNER, c.Assign(SUM, "+=", c.Float(1.0)))),  # adds to a variable of others
        function(tiles(c.Pragma("omp atomic"), ADDED)),
        function(c.Declare("double", "y", length=8), tiles(INNER)),  # an array of its own
        replace(function(tiles(INNER)), params=(c.Param("int64_t", "n"), c.Param("", "y"))),
    ],
)
def test_what_is_left_alone(made: c.Function) -> None:
    assert with_tile_functions(made) == [made]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "text",
    [
        "tensor A : csr tensor B, C : dense C[i, c] = A[i, j]*B[j, c]",
        "tensor A : bcsr(R=2, C=2) tensor B, C : dense C[i, c] = A[i, j]*B[j, c]",
        "tensor A : csr tensor B, C, D : dense C[i, c] = A[i, j]*B[j, c] D[j, c] = A[i, j]*B[j, c] C[i, c] += D[i, c]",
        "tensor A : csf3 tensor B, C, M : dense M[i, r] = A[i, j, k]*B[j, r]*C[k, r]",
    ],
)
def test_no_kernel_decides_its_widths_when_it_runs(text: str) -> None:
    made = spfgen.parse(f"kernel k {{ {text} }}").kernels["k"].compile()
    assert "k_tiles(" in made.source
    assert "width / 2" not in made.source
