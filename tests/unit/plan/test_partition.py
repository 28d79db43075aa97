"""Loops on threads: what each takes, what happens where two write one place, and results that no number changes."""

from __future__ import annotations

import re
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from scipy.sparse import csr_array

import spfgen
from spfgen.facts.formula import ONE, Num, Var
from spfgen.ir import walk
from spfgen.plan.analyse.cost import CountedSize, is_ever_less, times
from spfgen.plan.nodes import Partition, Scan
from spfgen.run import compile as compiling
from tests.differential.support import eager_source

KERNELS = {
    # statement, layouts, how its outermost loop adds
    "rows": ("y[i] = A[i, j]*x[j]", {"A": "csr"}, ""),
    "rows of blocks": ("y[i] = A[i, j]*x[j]", {"A": "bcsr(R=3, C=2)"}, ""),
    "rows with columns": ("C[i, k] = A[i, j]*B[j, k]", {"A": "csr"}, ""),
    "some rows": ("y[i] = A[i, j]*x[j]", {"A": "dcsr"}, ""),
    "trees": ("C[i, l] = T[i, j, k]*B[j, l]*D[k, l]", {"T": "csf"}, ""),
    "rows of products": ("C[i, k] = A[i, j]*B[j, k]", {"A": "csr", "B": "csr"}, ""),
    "rows of slots": ("y[i] = A[i, j]*x[j]", {"A": "ell"}, ""),
    "diagonals": ("y[i] = A[i, j]*x[j]", {"A": "dia"}, ""),
    "sorted list": ("y[i] = A[i, j]*x[j]", {"A": "coo"}, "segments"),
    "sorted list, columns": ("C[i, k] = A[i, j]*B[j, k]", {"A": "coo"}, "segments"),
    "list under a condition": ("y[i] = A[i + 1, j]*x[j] where j <= i", {"A": "coo"}, "segments"),
    "pairs of a list": ("C[i, j] = T[i, j, k]*x[k]", {"T": "coo"}, "segments"),
    "unsorted list": ("y[i] = A[i, j]*x[j]", {"A": "coo_unsorted"}, "copies"),
    "columns": ("y[i] = A[i, j]*x[j]", {"A": "csc"}, "copies"),
    "columns, finds": ("y[j] += A[i, j]*B[i, j]", {"A": "csr", "B": "csr"}, "copies"),
    "dot product": ("s = x[i]*y[i]", {"x": "sv", "y": "sv"}, "sum"),
    "norm": ("s = A[i, j]*A[i, j]", {"A": "csr"}, "sum"),
    "sums of squares": ("s += x[i]*x[i]", {}, "sum"),
}
EXTENTS = ({"i": 40, "j": 30, "k": 5, "l": 3}, {"i": 1, "j": 1, "k": 1, "l": 2}, {"i": 3, "j": 0, "k": 4, "l": 1})
TYPES: tuple[type[Any], ...] = (np.int64, np.complex128, np.int8, np.bool_)


def compiled(name: str, **options: Any) -> spfgen.Kernel:
    statement, layouts, _ = KERNELS[name]
    dense = {t: "dense" for t in re.findall(r"(\w)\[", statement) if t not in layouts}
    return spfgen.compile(statement, **layouts, **dense, **options)


def subscripts(name: str) -> dict[str, str]:
    """The subscripts of each tensor that is read."""
    _, right = re.split(r"\+?=", KERNELS[name][0].split(" where")[0])
    return {t: s.replace(", ", "").replace(" + 1", "") for t, s in re.findall(r"(\w)\[([^]]+)\]", right)}


def operands(name: str, extents: dict[str, int], kind: type[Any], density: float, seed: int) -> dict[str, Any]:
    """Dense arrays with rows that are much longer than the others."""
    random = np.random.default_rng(seed)
    result = {}
    for tensor, text in subscripts(name).items():
        shape = tuple(extents[c] + (c == "i" and "i + 1" in KERNELS[name][0]) for c in text)
        values = np.where(random.random(shape) < density, random.integers(1, 4, shape), 0)
        if 0 not in shape:
            values[shape[0] // 2] = values[-1] = 2
        result[tensor] = values.astype(kind)
    return result


def packed(name: str, dense: dict[str, Any]) -> dict[str, Any]:
    layouts = KERNELS[name][1]
    return {t: spfgen.pack(a, layouts[t]) if t in layouts else a for t, a in dense.items()}


def expected(name: str, dense: dict[str, Any]) -> Any:
    """By dense numpy."""
    statement, wide = KERNELS[name][0], {t: a.astype(np.complex128) for t, a in dense.items()}
    if "where" in statement:
        wide["A"] = np.where(np.tri(*dense["A"].shape, -1), dense["A"], 0)[1:]
    target = re.match(r"\w(?:\[([^]]+)\])?", statement)
    left = (target[1] or "").replace(", ", "") if target else ""
    texts = [s for _, s in re.findall(r"(\w)\[([^]]+)\]", re.split(r"\+?=", statement.split(" where")[0])[1])]
    names = re.findall(r"(\w)\[", re.split(r"\+?=", statement.split(" where")[0])[1])
    wide = {t: a if np.iscomplexobj(dense[t]) else a.real for t, a in wide.items()}
    plain = ",".join(s.replace(", ", "").replace(" + 1", "") for s in texts)
    return np.einsum(f"{plain}->{left}", *(wide[n] for n in names))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", KERNELS)
def test_any_number_of_threads(name) -> None:
    """Threads that start however little there is to do; whole numbers, so that rounding does not matter."""
    quick = compiling.build
    with patch.object(compiling, "build", lambda source: quick(eager_source(source))):
        kernels = [compiled(name, threads=t, validate="never") for t in (1, 2, 4, 7)]
        for number, kind in enumerate(TYPES if name in ("columns", "sorted list", "rows") else TYPES[:1]):
            for extents in EXTENTS:
                dense = operands(name, extents, kind, 0.2, number)
                wanted = expected(name, dense).astype(kind)
                given = packed(name, dense)
                for kernel in kernels:
                    rubbish = np.zeros_like(wanted) if "+=" in KERNELS[name][0] else np.ones_like(wanted)
                    found = kernel(**given, **{KERNELS[name][0][0]: rubbish})
                    assert np.array_equal(np.asarray(found), wanted), (kind, extents, kernel.threads)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["rows", "sorted list, columns", "columns", "dot product"])
@pytest.mark.parametrize("kind", [np.float64, np.complex64])
def test_deterministic(name, kind) -> None:
    """Bit for bit the same, with numbers whose sums are rounded, and a row that threads share."""
    extents = {"i": 20000 if name == "dot product" else 700, "j": 900, "k": 5, "l": 3}
    dense = operands(name, extents, kind, 0.06, 3)
    random = np.random.default_rng(4)
    dense = {t: a * random.standard_normal(a.shape).astype(kind) for t, a in dense.items()}
    given = packed(name, dense)
    results = [np.asarray(compiled(name, threads=t, deterministic=True)(**given)) for t in (1, 2, 4, 7)]
    assert np.allclose(results[0], expected(name, dense), rtol=1e-3, atol=1e-3)
    assert len({r.tobytes() for r in results}) == 1


def test_deterministic_in_a_spec() -> None:
    text = "kernel k { tensor A : csc tensor x, y : dense  y[i] = A[i, j]*x[j]  schedule { deterministic } }"
    spec = spfgen.parse(text).kernels["k"]
    share = shared(spec.compile())
    assert share.fixed
    assert not share.atomic
    assert shared(spec.compile(schedule="")).atomic
    assert shared(compiled("columns", schedule="deterministic")) == shared(compiled("columns", deterministic=True))


def shared(kernel: spfgen.Kernel) -> Partition:
    """How the kernel's parallel loop is shared out."""
    scans = [n for p in kernel.generated.plans for n in walk(p) if isinstance(n, Scan) and n.parallel]
    assert scans[0].partition is not None
    return scans[0].partition


def test_what_lies_side_by_side_takes_less_than_what_is_looked_up() -> None:
    """Threads start, and take turns, where that pays: columns are added by vectors."""
    one, several = (shared(compiled(name)).work for name in ("rows", "rows with columns"))
    assert one is not None
    assert several is not None
    assert not is_ever_less(times(one, Var("B.n_2")), times(Num(2), several), {"A.nrow": CountedSize(("A.nnz",))})


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", KERNELS)
def test_how_loops_add(name) -> None:
    share = shared(compiled(name))
    assert share.adds == KERNELS[name][2]
    assert share.atomic == (share.adds == "copies")
    assert (share.slice is not None) == (bool(share.row) or share.adds == "segments")


def test_long_rows_are_split_where_iterations_have_one() -> None:
    """All of the weight is in a row; what is cleared for each row makes rows alike."""
    for name in ("rows", "rows of blocks", "rows with columns"):
        assert shared(compiled(name)).row
    products = shared(compiled("rows of products"))
    assert not products.row
    assert products.weight is not None
    assert products.weight.each != ONE


SAMPLED = "kernel k {{ tensor A : csr tensor B, D : dense tensor C : {}  C[i, j] = A[i, j]*B[i, l]*D[l, j] }}"
FIBRES = """
layout fibres(n_1, n_2, n_3) {
    size roots, nnz
    relation { [p, q, r] -> [i, j, k] : 0 <= p < roots and ptr(p) <= q < ptr(p + 1) and 0 <= r < n_3
        and i = root(p) and j = fibre(q) and k = r }
    index root[roots] { range 0 <= root(p) < n_1 property strictly increasing }
    index ptr[roots + 1] { range 0 <= ptr(p) <= nnz property increasing property ptr(0) = 0 property ptr(roots) = nnz }
    index fibre[nnz] { range 0 <= fibre(q) < n_2 property strictly increasing within ptr }
    value val[nnz, n_3] at [q, r]
}
kernel k { tensor A : fibres tensor D : dense tensor C : fibres shares A on i, j  C[i, j, l] = A[i, j, k]*D[k, l] }
"""


def test_an_iteration_is_shared_where_the_loop_inside_writes_different_places() -> None:
    """And where it does not, or the places are those of an array that is cleared, it is not, nor a short one."""
    for text, row in (
        (SAMPLED.format("csr shares A"), "A.pj"),
        (FIBRES, "A.q"),
        (SAMPLED.format("dense"), ""),
        ("kernel k { tensor A : csr tensor C : csr shares A  C[i, j] = 2*A[i, j] }", ""),
    ):
        share = shared(spfgen.parse(text).kernels["k"].compile())
        assert (share.row, share.slice) == (row, None)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("threads", [1, 2, 4, 7])
def test_shared_iterations(threads: int) -> None:
    """One row, or root, holds nearly all; others nothing, or a little."""
    quick = compiling.build
    random = np.random.default_rng(6)
    with patch.object(compiling, "build", lambda source: quick(eager_source(source))):
        sampled = spfgen.parse(SAMPLED.format("csr shares A")).kernels["k"].compile(threads=threads)
        fibres = spfgen.parse(FIBRES)
        product = fibres.kernels["k"].compile(threads=threads)
    for lengths in ([200], [0, 0, 190, 3, 0], [2, 150, 1, 120], [], [0]):
        a = np.zeros((len(lengths), 200))
        for row, length in zip(a, lengths, strict=True):
            row[random.permutation(200)[:length]] = random.integers(1, 9, length)
        b, d = random.integers(1, 5, (len(lengths), 5)).astype(float), random.integers(1, 5, (5, 200)).astype(float)
        for _ in range(3):
            found = sampled(A=csr_array(a), B=b, D=d).to_numpy()
            assert np.array_equal(found, a * (b @ d))
        dense = a[:, :, None] * np.array([1.0, 0.0, 3.0])
        right = random.integers(1, 9, (3, 4)).astype(float)
        given = spfgen.pack(dense, fibres.layouts["fibres"])
        arrays = {n: v for n, v in given.arrays.items() if n != "val"}
        val = np.full((given.arrays["fibre"].size, 4), np.nan)
        target = spfgen.tensor(fibres.layouts["fibres"], shape=(*a.shape, 4), **arrays, val=val)
        product.bind(A=given, D=right, C=target)()
        assert np.array_equal(target.to_numpy(), np.einsum("ijk,kl->ijl", dense, right))


def test_a_loop_that_is_empty_whatever_the_sizes_are_typical() -> None:
    """Diagonals below the main one, tiled: there is none on the average that is looked at, and the work is a number."""
    schedule = "tile A.pd by 3 as t; order t, i, j; parallel i"
    kernel = spfgen.compile("s = A[i, j] where j < i", A="dia", schedule=schedule, threads=3)
    a = np.arange(30.0).reshape(5, 6)
    assert kernel(A=spfgen.pack(a, "dia")) == np.tril(a, -1).sum()


def test_weights_of_loops_in_loops() -> None:
    weight = shared(compiled("trees")).weight
    assert weight is not None
    assert (weight.pointer, weight.deeper) == ("T.ptr_2", ("T.ptr_3",))


def test_types_that_cannot_be_added_atomically() -> None:
    kernel = spfgen.compile("y[i] = A[i, j]*x[j]", A="csc<complex128>", x="dense<complex128>", y="dense<complex128>")
    assert (shared(kernel).adds, shared(kernel).atomic) == ("copies", False)


def test_the_schedule_may_forbid() -> None:
    kernel = compiled("columns", schedule="serial j")
    assert not any(n.parallel for p in kernel.generated.plans for n in walk(p) if isinstance(n, Scan))


def test_what_is_fetched_ahead_in_a_loop_within_a_loop() -> None:
    """Whether that pays depends on the loop outside: it cannot be found out above it."""
    dense = np.arange(24.0).reshape(2, 3, 4) % 5
    found = spfgen.compile("C[i, j] = T[i, j, k]*x[k]", T="csf", x="dense", C="dense")(
        T=spfgen.pack(dense, "csf"), x=np.ones(4)
    )
    assert np.array_equal(found, dense.sum(2))


@pytest.mark.parametrize(
    ("target", "adds"),
    [("y[i + j]", "copies"), ("y[j + 2*i]", "copies"), ("y[5*i + j]", "")],
)
def test_parts_meet_only_where_one_ends(target: str, adds: str) -> None:
    """Places of one i must not go on among those of the next one; at 5*i + j with 5 values of j they end there."""
    text = f"tensor A[n, 5] : dense  tensor x[5] : dense  tensor y : dense  size n  {target} = A[i, j]*x[j]"
    kernel = spfgen.parse(f"kernel k {{ {text} }}").kernels["k"].compile()
    loops = [n for p in kernel.generated.plans for n in walk(p) if isinstance(n, Scan) and n.parallel]
    assert {n.partition.adds for n in loops if n.partition} == {adds}


def test_work_is_shared_out_where_segments_count_from_one() -> None:
    """Differences of the pointer array say how much there is; a long row is not split, its positions are others."""
    spec = spfgen.parse("""
    layout based(nrow, ncol) {
        size nnz
        relation { [r, p] -> [i, j] :
            0 <= r < nrow and ptr(r) - 1 <= p < ptr(r + 1) - 1 and i = r and j = idx(p) - 1 }
        index ptr[nrow + 1] { range 1 <= ptr(p) <= nnz + 1  property increasing }
        index idx[nnz] { range 1 <= idx(p) <= ncol }
        value val[nnz] at [p]
    }
    kernel k { tensor A : based tensor x, y : dense y[i] = A[i,j]*x[j] }""")
    kernel = spec.kernels["k"].compile(threads=3)
    (share,) = [n.partition for p in kernel.generated.plans for n in walk(p) if isinstance(n, Scan) and n.partition]
    assert share.weight is not None
    assert share.weight.pointer == "A.ptr"
    assert not share.row
    random = np.random.default_rng(3)
    lengths = np.minimum(random.zipf(1.5, 4000), 3000)
    ptr = 1 + np.concatenate([[0], np.cumsum(lengths)])
    idx = random.integers(1, 101, ptr[-1] - 1)
    values, x = random.integers(1, 9, len(idx)).astype(float), random.integers(0, 5, 100).astype(float)
    given = spfgen.tensor(spec.layouts["based"], shape=(4000, 100), ptr=ptr, idx=idx, val=values)
    expected = np.add.reduceat(values * x[idx - 1], ptr[:-1] - 1)
    assert np.array_equal(np.asarray(kernel(A=given, x=x)), expected)
