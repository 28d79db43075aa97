"""Positions that are proved equal: nothing is looked for, and loops over them write different places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen.errors import Unsupported
from spfgen.plan.nodes import Find, Plan, Scan
from spfgen.run.handles import LayoutHandle
from spfgen.run.tensor import Tensor
from tests.unit.plan.asking import allowed, entries, listed, matrix, of_kind, run

SPEC = """
layout rows(nrow, ncol) {
    size nnz, m
    relation { [pi, pj] -> [i, j] :
        0 <= pi < nrow and ptr(pi) <= pj < ptr(pi + 1) and i = pi and j = col(pj) }
    index ptr[nrow + 1] { range 0 <= ptr(p) <= nnz  property increasing }
    index other[m] { range 0 <= other(p) <= nnz  property increasing }
    index col[nnz] { range 0 <= col(p) < ncol  %s }
    value val[nnz] at [pj]
}
kernel sddmm { tensor A : rows tensor B, D : dense tensor C : rows shares A  C[i, j] = A[i, j]*B[i, k]*D[k, j] }
kernel doubled { tensor A : rows tensor C : rows shares A  C[i, j] += 2*A[i, j] }
kernel squares { tensor A : rows tensor E : dense  E[i, j] = A[i, j]*A[i, j] }
kernel hadamard { tensor A, B : rows tensor E : dense  E[i, j] = A[i, j]*B[i, j] }
"""
DISTINCT = {
    "property strictly increasing within ptr": 1,
    "property strictly decreasing within ptr": -1,
    "property injective within ptr": -1,
    "property strictly increasing": 1,
}
EQUAL = {
    "property increasing within ptr": 1,
    "property decreasing within ptr": -1,
    "property strictly increasing within other": -1,
    "property injective within other": -1,
    "": -1,
}
A = np.array([[0, 3, 0, 4, 0, 0], [0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 7.0]])
"""One column after the other even where rows follow one another: sorted as a whole too."""


def as_rows(layout: LayoutHandle, dense: Any, direction: int, twice: bool = False) -> Tensor:
    """The rows from left to right or from right to left; `twice` stores each element in two halves."""
    columns = [np.flatnonzero(r)[::direction].repeat(1 + twice) for r in dense]
    ptr, col = np.cumsum([0, *map(len, columns)]), np.concatenate(columns)
    val = dense[np.repeat(np.arange(len(dense)), np.diff(ptr)), col] / (1 + twice)
    arrays = {"ptr": ptr.astype(np.int32), "other": np.zeros(1, np.int32), "col": col.astype(np.int32), "val": val}
    return spfgen.tensor(layout, shape=dense.shape, **arrays)


def copied(tensor: Tensor) -> Tensor:
    """The same pattern, other values to write to."""
    return replace(tensor, arrays={**tensor.arrays, "val": tensor.arrays["val"].copy()})


def parallel(kernel: spfgen.Kernel) -> bool:
    """Whether the outermost loop is."""
    loops = [n for n in of_kind(kernel, Plan) if isinstance(n, Scan | Find)]
    return loops[0].parallel


@pytest.mark.sampled(1)
@pytest.mark.parametrize("properties", DISTINCT)
def test_what_shares_a_pattern_is_not_looked_for(properties: str) -> None:
    """SDDMM, and an operand that is read twice: one position serves both, and rows can be computed side by side."""
    spec = spfgen.parse(SPEC % properties)
    layout = spec.layouts["rows"]
    a = as_rows(layout, A, DISTINCT[properties])
    b, d = matrix((3, 4), 1, 1), matrix((4, 6), 1, 2)
    found = {
        "sddmm": (run(spec.kernels["sddmm"].compile(), 3, A=a, B=b, D=d, C=copied(a)), A * (b @ d)),
        "doubled": (run(spec.kernels["doubled"].compile(), 3, A=a, C=copied(a)), 3 * A),
        "squares": (run(spec.kernels["squares"].compile(), 3, A=a), A * A),
    }
    for name, (result, wanted) in found.items():
        kernel = spec.kernels[name].compile()
        assert not of_kind(kernel, Find), name
        assert parallel(kernel), name
        assert np.array_equal(result if isinstance(result, np.ndarray) else result.to_numpy(), wanted), name


@pytest.mark.sampled(1)
@pytest.mark.parametrize("properties", EQUAL)
def test_what_may_stand_twice_is_looked_for(properties: str) -> None:
    """The square of an element that is stored in two halves is not the sum of their squares."""
    spec = spfgen.parse(SPEC % properties)
    kernel = spec.kernels["squares"].compile()
    assert {f.dim for f in of_kind(kernel, Find)} == {"A_2.pj"}
    a = as_rows(spec.layouts["rows"], A, EQUAL[properties], twice=True)
    for threads in (1, 3):
        assert np.array_equal(run(kernel, threads, A=a), A * A)
    with pytest.raises(Unsupported, match="stored once"):
        spec.kernels["sddmm"].compile()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("properties", [*DISTINCT, *EQUAL])
def test_another_tensor_is_always_looked_for(properties: str) -> None:
    """Arrays of the same layout that are not shared have nothing to do with each other."""
    spec = spfgen.parse(SPEC % properties)
    kernel = spec.kernels["hadamard"].compile()
    assert of_kind(kernel, Find)
    direction = {**DISTINCT, **EQUAL}[properties]
    other = np.roll(A, 1, axis=0) if "increasing" not in properties or "within" in properties else A.clip(0, 3)
    other[0, 1], other[2, 5] = 2, 0
    a, b = as_rows(spec.layouts["rows"], A, direction), as_rows(spec.layouts["rows"], other, direction)
    assert np.array_equal(run(kernel, 3, A=a, B=b), A * other)


# --- other patterns -----------------------------------------------------------------------------------------

SHARED = ("csr", "csc", "dcsr", "dcsc", "coo", "csf", "bcsr(R=2, C=3)", "dia", "ell")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", SHARED)
def test_sddmm_in_every_layout_that_stores_once(layout: str) -> None:
    text = f"kernel k {{ tensor A : {layout} tensor B, D : dense tensor C : {layout} shares A  C[i, j] = A[i, j]*B[i, k]*D[k, j] }}"  # noqa: E501
    kernel = spfgen.parse(text).kernels["k"].compile()
    if layout != "ell":  # sorted up to the first place that is not used: too much for the prover
        assert not of_kind(kernel, Find)
    assert parallel(kernel)
    a, b, d = matrix((31, 27), 0.3, 1), matrix((31, 4), 1, 2), matrix((4, 27), 1, 3)
    packing = spfgen.compile("C[i, j] += P[i, j]", P="dense", C=layout)
    from spfgen.run.calls.bind import bind

    tensor = bind(packing.generated.program.tensor("C").layout, a, "A", {})
    for threads in (1, 3):
        assert np.array_equal(run(kernel, threads, A=tensor, B=b, D=d).to_numpy(), a * (b @ d))


TTM = "kernel ttm { tensor A : csf3 tensor B : dense tensor C : csf3 %s  C[i, j, l] = A[i, j, k]*B[k, l] }"


def test_ttm_shares_its_fibres() -> None:
    """With the fibres shared no fibre is looked for, only the element in it; without, the fibre is searched as well."""
    shared = spfgen.parse(TTM % "shares A on i, j").kernels["ttm"].compile()
    alone = spfgen.parse(TTM % "").kernels["ttm"].compile().with_given(["C"])
    searched: Callable[[spfgen.Kernel], set[str]] = lambda k: {f.dim for f in of_kind(k, Find)}  # noqa: E731
    assert not searched(shared) & {"C.p_1", "C.p_2"}
    assert {"C.p_1", "C.p_2"} & searched(alone)
    assert parallel(shared)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "col",
    [
        "property forall p < q : row(p) = row(q) => col(p) < col(q)",
        "property forall p, q : p != q and row(p) = row(q) => col(p) != col(q)",
    ],
)
@pytest.mark.parametrize("row", ["property increasing", ""])
def test_pairs_of_coordinates(row: str, col: str) -> None:
    """A list in which no pair stands twice: two keys together say which position it is."""
    layout = listed(row, col)
    kernel = spfgen.compile("E[i, j] = A[i, j]*A[i, j]", A=layout, E="dense")
    assert not of_kind(kernel, Find)
    order = [0, 1, 2, 3] if row else [2, 0, 3, 1]
    tensor, dense = entries(
        layout, (3, 5), np.array([0, 0, 1, 2])[order].tolist(), [1, 4, 0, 3] if row else [0, 1, 3, 4]
    )
    assert np.array_equal(run(kernel, 3, A=tensor), dense * dense)


BLOCKS = """
layout quad(n, m) {
    doc "4 x 4 blocks that hold 2 x 2 blocks: no array says alone which row it is."
    size nbig, nsmall
    relation { [b, s, r, c] -> [i, j] :
        0 <= b < nbig and ptr(b) <= s < ptr(b + 1) and 0 <= r < 2 and 0 <= c < 2
        and i = 4*bi(b) + 2*si(s) + r and j = 4*bj(b) + 2*sj(s) + c }
    index bi[nbig] { range 0 <= 4*bi(b) < n }
    index bj[nbig] { range 0 <= 4*bj(b) < m
        property forall p, q : p < q => bi(p) < bi(q) or bi(p) = bi(q) and bj(p) < bj(q) }
    index ptr[nbig + 1] { range 0 <= ptr(b) <= nsmall
        property increasing  property ptr(0) = 0  property ptr(nbig) = nsmall }
    index si[nsmall] { range 0 <= si(s) < 2 }
    index sj[nsmall] { range 0 <= sj(s) < 2
        property forall b, s, t : ptr(b) <= s < t < ptr(b + 1) => 2*si(s) + sj(s) %s 2*si(t) + sj(t) }
    value val[nsmall, 2, 2] at [s, r, c]
}
kernel squares { tensor A : quad tensor E : dense  E[i, j] = A[i, j]*A[i, j] }
kernel scaled { tensor A : quad tensor C : quad shares A tensor x : dense  C[i, j] = A[i, j]*x[j] }
"""


def test_several_arrays_say_where_an_entry_is() -> None:
    spec = spfgen.parse(BLOCKS % "<")
    a = matrix((9, 11), 0.2, 1)
    packed, x = spfgen.pack(a, spec.layouts["quad"]), np.arange(11.0)
    for name, expected, given in (("squares", a * a, {}), ("scaled", a * x, {"x": x})):
        kernel = spec.kernels[name].compile()
        positions = {d for n in of_kind(kernel, Scan | Find) if "." in (d := n.dim)}
        assert {d.split(".")[0] for d in positions if not d.startswith("E")} == {"A"}, positions
        assert np.array_equal(np.asarray(run(kernel, 3, A=packed, **given)), expected)


def test_several_arrays_that_leave_it_open() -> None:
    """Two small blocks at one place of a large one: each meets each."""
    spec = spfgen.parse(BLOCKS % "<=")
    one = {"bi": [0], "bj": [0], "ptr": [0, 2], "si": [1, 1], "sj": [0, 0]}
    arrays = {n: np.array(v, np.int32) for n, v in one.items()}
    val = np.arange(1.0, 9).reshape(2, 2, 2)
    tensor = spfgen.tensor(spec.layouts["quad"], shape=(4, 4), val=val, **arrays)
    dense = np.zeros((4, 4))
    dense[2:, :2] = val.sum(axis=0)
    kernel = spec.kernels["squares"].compile()
    assert np.array_equal(run(kernel, 3, A=tensor), dense * dense)


def test_pairs_that_may_stand_twice() -> None:
    kernel = spfgen.compile("E[i, j] = A[i, j]*A[i, j]", A="coo_unsorted", E="dense")
    (position,) = {f.dim for f in of_kind(kernel, Find)}
    tensor, dense = entries("coo_unsorted", (3, 5), [2, 0, 2, 0, 2], [3, 1, 3, 4, 3])
    assert np.array_equal(run(kernel, 3, A=tensor), dense * dense)
    assert position == "A_2.p"
    other = allowed("E[i, j] = A[i, j]*B[i, j]", "B.p", ["A.p"], A="coo_unsorted", B="coo", E="dense")
    assert "search" in other


def test_a_shared_vector_that_does_not_drive() -> None:
    text = "kernel k { tensor x : dense tensor y : sv tensor Y : sv shares y  Y[i] = x[i]*y[i] schedule { order i } }"
    kernel = spfgen.parse(text).kernels["k"].compile()
    y = np.array([0.0, 2.0, 0.0, 3.0])
    assert run(kernel, x=np.arange(4.0), y=y).to_numpy().tolist() == [0, 2, 0, 9]
