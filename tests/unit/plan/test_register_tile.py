"""Register tiles: where they are put, and that what they compute is right for every number of columns."""

from __future__ import annotations

import numpy as np
import pytest

import spfgen
from spfgen.facts.formula import variables
from spfgen.ir import walk
from spfgen.plan.nodes import Accumulate, Block, Define, Load, RegisterTile, Scan, chain, is_tile

SPMM = "kernel k {{ tensor A : {layout} tensor B, C : dense C[i, c] {op} A[i, j]*B[j, c] {schedule} }}"


def kernel(text: str) -> spfgen.Kernel:
    return spfgen.parse(text).kernels["k"].compile()


def tiles(made: spfgen.Kernel) -> list[Accumulate]:
    return [n for plan in made.generated.plans for n in walk(plan) if is_tile(n)]


def storages(made: spfgen.Kernel) -> list[RegisterTile]:
    return [t.storage for t in tiles(made) if isinstance(t.storage, RegisterTile)]


def spmm(layout: str = "csr", op: str = "=", schedule: str = "") -> spfgen.Kernel:
    return kernel(SPMM.format(layout=layout, op=op, schedule=schedule))


def matrix(shape: tuple[int, int], density: float, dtype: str, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    full = random.integers(1, 9, shape) * (random.random(shape) < density)
    return full.astype(dtype)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("layout", "dtype", "columns"),
    [
        ("csr", "float64", tuple(range(70))),
        ("csr", "float32", (33, 64, 100)),
        ("csr", "complex128", (9, 24)),
        ("csr", "int32", (65,)),
        ("csr", "int8", (300,)),
        ("dcsr", "float64", (5, 40)),
        ("ell", "float64", (37,)),
        ("bcsr(R=2, C=3)", "float64", (37,)),
    ],
)
@pytest.mark.parametrize("op", ["=", "+="])
def test_products_with_a_tile_are_right(layout: str, dtype: str, columns: tuple[int, ...], op: str) -> None:
    made = spmm(layout, op)
    assert tiles(made)
    left = matrix((7, 12), 0.4, dtype, 1)
    left[3] = 0
    a = spfgen.pack(left, layout)
    for count in columns:
        b = matrix((12, count), 1, dtype, 2)
        for threads in (1, 3):
            c = np.full((7, count), 5, dtype)
            made(A=a, B=b, C=c)
            assert np.array_equal(c, left @ b + (5 if op == "+=" else 0)), (count, threads)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("op", "dtype"), [("=", "float64"), ("+=", "float32"), ("=", "int64")])
def test_long_rows_are_cut_into_pieces(op: str, dtype: str) -> None:
    """Rows of 0 to 100 entries, in a matrix of few other rows, and of many; each number of columns with one tile,
    several, and many."""
    declared = spfgen.parse(SPMM.format(layout="csr", op=op, schedule="")).kernels["k"]
    left = np.tril(matrix((101, 100), 1, dtype, 1), -1)
    many = np.concatenate([left, np.zeros((900, 100), dtype)])
    for threads in (1, 3):
        made = declared.compile(threads=threads)
        for count in (32, 33, 130, 257):
            b = matrix((100, count), 1, dtype, 2)
            for rows in (left, many):
                c = np.full((len(rows), count), 5, dtype)
                made(A=spfgen.pack(rows, "csr"), B=b, C=c)
                assert np.array_equal(c, rows @ b + (5 if op == "+=" else 0)), (count, threads)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("tensor A : csr tensor B, C : dense C[i, c] = A[i, j]*B[j, c]", True),
        ("tensor A : ell tensor B, C : dense C[i, c] = A[i, j]*B[j, c]", True),
        ("tensor A : csf3 tensor B, C : dense C[i, j, r] = A[i, j, k]*B[k, r]", False),  # through index arrays
        ("tensor A : csr tensor B, C : dense C[i, c] += A[i, j]*B[j, c]", False),  # read, and so fetched
        ("tensor A : dcsr tensor B, C : dense C[i, c] = A[i, j]*B[j, c]", False),  # just cleared
    ],
)
def test_rows_that_are_stored_are_fetched_ahead(text: str, found: bool) -> None:
    made = kernel(f"kernel k {{ {text} }}")
    assert [t.ahead is not None for t in storages(made)] == [found]
    assert ("spfgen_prefetch_stored" in made.source) == found


def test_empty_matrices() -> None:
    made = spmm()
    for rows, inner in ((0, 3), (3, 0)):
        a = spfgen.pack(np.zeros((rows, inner)), "csr")
        assert np.array_equal(made(A=a, B=np.ones((inner, 20)), C=np.full((rows, 20), 7.0)), np.zeros((rows, 20)))


def test_the_place_is_stored_once_where_every_place_is_reached() -> None:
    assert [t.op for t in tiles(spmm())] == ["="]
    assert [t.op for t in tiles(spmm(op="+="))] == ["+="]
    assert [t.op for t in tiles(spmm("dcsr"))] == ["+="]


def test_loops_of_a_schedule_are_left_as_they_are() -> None:
    assert not tiles(spmm(schedule="schedule { order i, A.pj, c }"))


def test_who_runs_a_loop_leaves_its_tiles() -> None:
    assert spmm(schedule="schedule { parallel i }").source == spmm().source
    alone = spmm(schedule="schedule { serial i }")
    assert tiles(alone)
    assert "omp parallel" not in alone.source


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("schedule", "loops"),
    [
        ("tile i by 3", ["i_tile", "i", "A.pj", "c"]),
        ("split i by 3; parallel i_split", ["i_split", "i", "A.pj", "c"]),
        ("tile c by 40", ["c_tile", "i", "A.pj", "c"]),
        ("tile c by 40; tile i by 3; serial i_tile", ["c_tile", "i_tile", "i", "A.pj", "c"]),
        ("tile A.pj by 5", ["A.pj_tile", "i", "A.pj", "c"]),
    ],
)
def test_tiles_of_a_schedule_have_register_tiles_inside(schedule: str, loops: list[str]) -> None:
    made = spmm(schedule=f"schedule {{ {schedule} }}")
    (tile,) = tiles(made)
    nests = [n for plan in made.generated.plans for n in (plan.parts if isinstance(plan, Block) else [plan])]
    (nest,) = (n for n in nests if any(m is tile for m in walk(n)))
    assert [n.dim for n in chain(nest) if isinstance(n, Scan)] == loops
    left = matrix((7, 12), 0.4, "float64", 1)
    for count in (1, 39, 40, 41, 130):
        b = matrix((12, count), 1, "float64", 2)
        c = np.full((7, count), 5.0)
        made(A=spfgen.pack(left, "csr"), B=b, C=c)
        assert np.array_equal(c, left @ b), count


@pytest.mark.parametrize("loop", ["c", "A.pj"])
def test_a_parallel_loop_is_no_tile(loop: str) -> None:
    """Nor is a tile left around a loop that threads share."""
    made = spmm(schedule=f"schedule {{ parallel {loop} }}")
    assert not tiles(made)
    assert [n.dim for plan in made.generated.plans for n in walk(plan) if isinstance(n, Scan) and n.parallel] == [loop]


@pytest.mark.parametrize(
    "text",
    [
        "kernel k { tensor A : csr tensor B, C : dense C[c, i] = A[i, j]*B[j, c] }",  # not the fastest subscript of C
        "kernel k { tensor A : csr tensor B : dense_col tensor C : dense C[i, c] = A[i, j]*B[j, c] }",  # nor of B
        "kernel k { tensor A, B : csr tensor C : dense C[i, c] = A[i, j]*B[j, c] }",  # reached through an index array
        "kernel k { tensor A : csr tensor B, C : dense C[i, c] = A[i, j]*B[j, 2*c] }",  # two apart
        "kernel k { tensor A : csr tensor x, y : dense y[i] = A[i, j]*x[j] }",  # one column
        "kernel k { tensor A : csc tensor B, C : dense C[i, c] = A[i, j]*B[j, c] }",  # no loop inside
    ],
)
def test_no_tile_where_neighbours_are_not_read_side_by_side(text: str) -> None:
    assert not tiles(kernel(text))


def test_what_reads_the_column_in_a_bound_has_no_tile() -> None:
    made = kernel("kernel k { tensor A : csr tensor B, C : dense C[i, c] = A[i, j]*B[j, c] where j < c }")
    assert not tiles(made)
    left, b = matrix((5, 9), 0.6, "float64", 3), matrix((9, 20), 1, "float64", 4)
    c = made(A=spfgen.pack(left, "csr"), B=b, C=np.empty((5, 20)))
    wanted = sum(np.outer(left[:, j], np.where(np.arange(20) > j, b[j], 0)) for j in range(9))
    assert np.array_equal(c, wanted)


def test_types_that_differ_have_no_tile_and_are_right() -> None:
    made = spmm()
    left, b = matrix((4, 6), 0.6, "float32", 5), matrix((6, 40), 1, "float64", 6)
    assert np.array_equal(made(A=spfgen.pack(left, "csr"), B=b), left.astype(float) @ b)


def test_a_tree_with_two_factors() -> None:
    made = kernel("kernel k { tensor A : csf3 tensor B, C, M : dense M[i, r] = A[i, j, k]*B[j, r]*C[k, r] }")
    assert tiles(made)
    random = np.random.default_rng(7)
    dense = random.integers(1, 5, (4, 5, 6)) * (random.random((4, 5, 6)) < 0.3).astype(float)
    for columns in (3, 16, 50):
        b, c = matrix((5, columns), 1, "float64", 8), matrix((6, columns), 1, "float64", 9)
        found = made(A=spfgen.pack(dense, "csf3"), B=b, C=c)
        assert np.array_equal(found, np.einsum("ijk,jr,kr->ir", dense, b, c))


def test_where_segments_begin_and_end_is_read_above_the_tiles() -> None:
    (found,) = tiles(kernel("kernel k { tensor A : csf3 tensor B, C : dense C[i, j, r] = A[i, j, k]*B[k, r] }"))
    assert not isinstance(found.body, Load | Define)


def test_tiles_have_names_of_their_own() -> None:
    """Where the loop begins is searched for, which has a name, too: the rows of a column of y from w on."""
    made = kernel("""
        layout fibres(n1, n2, n3) {
            size nf
            relation { [f, t] -> [i, j, k] : 0 <= f < nf and 0 <= t < n3 and i = one(f) and j = two(f) and k = t }
            index one[nf] { range 0 <= one(f) < n1 }
            index two[nf] {
                range 0 <= two(f) < n2
                property forall f < g : one(f) = one(g) => two(f) < two(g)
            }
            value val[nf, n3] at [f, t]
        }
        kernel k {
            size w
            tensor C : dcsc  tensor y : csc  tensor D, E : dense  tensor L : lower  tensor F : fibres
            tensor z : csc shares y
            y[k + w, l] = (C[j, j] + D[j, i, j])*(L[j, k] + D[j, i, j])*E[j, 0]/4 + 2*F[k, i, 0]*a*b + b
            z[i, l] = y[i, 1]/a
        }
    """)
    found = storages(made)
    assert any(variables(e) for t in found for e in t.low)
    assert all(t.start not in variables(e) for t in found for e in (*t.low, *t.high))
