"""Layouts that are not in the repository work from their spec file alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import spfgen

Array = np.ndarray[Any, Any]

SPEC = """
layout blocks_anywhere(nrow, ncol; R = 2, C = 3) {
    doc "Dense R x C blocks that start at any row and column."
    size nb
    relation { [b, r, c] -> [i, j] :
        0 <= b < nb and 0 <= r < R and 0 <= c < C and i = top(b) + r and j = left(b) + c }
    index top[nb]  { range 0 <= top(b) and top(b) + R <= nrow }
    index left[nb] { range 0 <= left(b) and left(b) + C <= ncol }
    value val[nb, R, C] at [b, r, c]
}

layout skyline(nrow, ncol) {
    doc "Each row from its first non-zero up to the diagonal, one after another."
    size nnz
    relation { [pi, p] -> [i, j] :
        0 <= pi < nrow and rowptr(pi) <= p < rowptr(pi + 1) and i = pi and j = pi + 1 + p - rowptr(pi + 1) }
    index rowptr[nrow + 1] {
        range 0 <= rowptr(p) <= nnz
        property increasing
        property rowptr(0) = 0
        property rowptr(nrow) = nnz
        property forall p : rowptr(p + 1) - rowptr(p) <= p + 1
    }
    value val[nnz] at [p]
}

layout reversed(nrow, ncol) {
    doc "csr from the last row to the first, columns counted from the right."
    size nnz
    relation { [q, p] -> [i, j] :
        0 <= q < nrow and rbeg(q) <= p < rend(q) and i = nrow - 1 - q and j = ncol - 1 - rcol(p) }
    index rbeg[nrow] { range 0 <= rbeg(q) <= nnz }
    index rend[nrow] { range 0 <= rend(q) <= nnz }
    index rcol[nnz]  { range 0 <= rcol(p) < ncol }
    value val[nnz] at [p]
}

layout bits(n) {
    doc "Four places for each word, whose bits say which of them are used."
    relation { [w, b] -> [i] : 0 <= 4*w < n and 0 <= b < 4 and i = 4*w + b
        and (b = 0 and word(w) mod 2 = 1 or b = 1 and floor(word(w)/2) mod 2 = 1
             or b = 2 and floor(word(w)/4) mod 2 = 1 or b = 3 and floor(word(w)/8) mod 2 = 1) }
    index word[ceil(n/4)] { range 0 <= word(w) < 16 }
    value val[ceil(n/4), 4] at [w, b]
}

layout bit_blocks(nrow, ncol) {
    doc "Rows of 2 x 2 blocks; the bits of a mask say which places of a block are used."
    size nb
    relation { [a, p, r, c] -> [i, j] : 0 <= 2*a < nrow and ptr(a) <= p < ptr(a + 1) and 0 <= r < 2 and 0 <= c < 2
        and i = 2*a + r and j = 2*col(p) + c
        and (r = 0 and c = 0 and mask(p) mod 2 = 1 or r = 0 and c = 1 and floor(mask(p)/2) mod 2 = 1
             or r = 1 and c = 0 and floor(mask(p)/4) mod 2 = 1 or r = 1 and c = 1 and floor(mask(p)/8) mod 2 = 1) }
    index ptr[ceil(nrow/2) + 1] { range 0 <= ptr(a) <= nb  property increasing }
    index col[nb] { range 0 <= col(p) < ceil(ncol/2)  property strictly increasing within ptr }
    index mask[nb] { range 0 <= mask(p) < 16 }
    value val[nb, 2, 2] at [p, r, c]
}

layout pitched(nrow, ncol) {
    doc "Dense rows with room between them; nothing but the place of a value speaks of it."
    size pitch
    relation { [a, b] -> [i, j] : 0 <= a < nrow and 0 <= b < ncol and i = a and j = b }
    value val[nrow*pitch] at [a*pitch + b]
}

layout keyed_and_listed(nrow, ncol; N = 8) {
    doc "Some entries by a key of both coordinates, the others as a list: each part has arrays of its own length."
    size nk, nl
    relation {
        [w, p] -> [i, j] : w = 0 and 0 <= p < nk and i = floor(key(p)/N) and j = key(p) mod N ;
        [w, p] -> [i, j] : w = 1 and 0 <= p < nl and i = row(p) and j = col(p) }
    index key[nk] { range 0 <= key(p) < N*nrow }
    index row[nl] { range 0 <= row(p) < nrow }
    index col[nl] { range 0 <= col(p) < ncol }
    value first[nk] at [p] when w = 0
    value second[nl] at [p] when w = 1
}

layout two_of_each(n) {
    doc "A position stands for what either array has there, of which one is longer."
    size na, nb
    relation { [p] -> [i] : 0 <= p < na and i = a(p) or 0 <= p < nb and i = b(p) }
    index a[na] { range 0 <= a(p) < n }
    index b[nb] { range 0 <= b(p) < n }
    value val[max(na, nb)] at [p]
}

layout coded(n) {
    doc "Values of a table, by codes of two digits."
    size nnz, k
    relation { [p] -> [i] : 0 <= p < nnz and i = idx(p) }
    index idx[nnz] { range 0 <= idx(p) < n  property strictly increasing }
    index high[nnz] { range 0 <= high(p) < k }
    index low[nnz] { range 0 <= low(p) < k }
    value table[k*k] at [k*high(p) + low(p)]
}
"""
LAYOUTS = spfgen.parse(SPEC).layouts
SHAPE = (6, 7)


def blocks_anywhere(rng: np.random.Generator) -> tuple[Array, dict[str, Array]]:
    """Blocks may overlap: values at one coordinate add up."""
    top, left = rng.integers(0, 5, 4), rng.integers(0, 5, 4)
    val = rng.integers(1, 9, (4, 2, 3)).astype(float)
    dense = np.zeros(SHAPE)
    for b in range(4):
        dense[top[b] : top[b] + 2, left[b] : left[b] + 3] += val[b]
    return dense, {"top": top.astype(np.int32), "left": left.astype(np.int32), "val": val}


def skyline(rng: np.random.Generator) -> tuple[Array, dict[str, Array]]:
    first = [int(rng.integers(0, i + 2)) for i in range(SHAPE[0])]
    dense = np.zeros(SHAPE)
    rowptr, val = [0], []
    for i, start in enumerate(first):
        for j in range(start, i + 1):
            dense[i, j] = rng.integers(1, 9)
            val.append(dense[i, j])
        rowptr.append(len(val))
    return dense, {"rowptr": np.array(rowptr, np.int32), "val": np.array(val, float)}


def reversed_rows(rng: np.random.Generator) -> tuple[Array, dict[str, Array]]:
    dense = np.where(rng.random(SHAPE) < 0.4, rng.integers(1, 9, SHAPE), 0).astype(float)
    begin, end, columns, val = [], [], [], []
    for i in reversed(range(SHAPE[0])):
        begin.append(len(val))
        for j in np.nonzero(dense[i])[0]:
            columns.append(SHAPE[1] - 1 - j)
            val.append(dense[i, j])
        end.append(len(val))
    arrays = {"rbeg": begin, "rend": end, "rcol": columns}
    return dense, {**{n: np.array(a, np.int64) for n, a in arrays.items()}, "val": np.array(val, float)}


MAKERS: dict[str, Callable[[np.random.Generator], tuple[Array, dict[str, Array]]]] = {
    "blocks_anywhere": blocks_anywhere,
    "skyline": skyline,
    "reversed": reversed_rows,
}
OTHERS = ["dense", "csr", "bcsr(R=3, C=2)", "coo", "dia", "ell", *MAKERS]


def made(name: str, seed: int) -> tuple[Any, Array]:
    dense, arrays = MAKERS[name](np.random.default_rng(seed))
    return spfgen.tensor(LAYOUTS[name], shape=SHAPE, **arrays), dense


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", MAKERS)
def test_matrix_times_vector(name: str) -> None:
    kernel = spfgen.compile("y[i] = A[i, j]*x[j]", A=LAYOUTS[name], x="dense", y="dense")
    for seed in range(3):
        tensor, dense = made(name, seed)
        x = np.arange(1.0, 8.0)
        np.testing.assert_array_equal(kernel(A=tensor, x=x), dense @ x)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("name", MAKERS)
def test_element_wise_product(name: str, other: str) -> None:
    layout = LAYOUTS[other] if other in MAKERS else other
    kernel = spfgen.compile("C[i, j] = A[i, j]*B[i, j]", A=LAYOUTS[name], B=layout, C="dense")
    tensor, dense = made(name, 1)
    if other in MAKERS:
        second, expected = made(other, 2)
    else:
        expected = np.where(np.random.default_rng(3).random(SHAPE) < 0.5, 2.0, 0.0)
        second = expected
    np.testing.assert_array_equal(kernel(A=tensor, B=second), dense * expected)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", MAKERS)
def test_sum_of_the_strict_lower_triangle(name: str) -> None:
    kernel = spfgen.compile("s = A[i, j] where j < i", A=LAYOUTS[name])
    tensor, dense = made(name, 4)
    assert kernel(A=tensor) == np.tril(dense, -1).sum()


def test_a_wrong_index_is_refused() -> None:
    dense, arrays = skyline(np.random.default_rng(0))
    arrays["rowptr"] = arrays["rowptr"][::-1].copy()
    with pytest.raises(spfgen.SpfgenError, match="rowptr"):
        spfgen.tensor(LAYOUTS["skyline"], shape=dense.shape, **arrays)


@pytest.mark.exhaustive
def test_bits_that_say_what_is_stored() -> None:
    """Quotients of words are computed where these are read, whatever conditions say of them."""
    kernel = spfgen.compile("C[i, j] = A[i]*B[j]", A=LAYOUTS["bits"], B=LAYOUTS["bits"], C="dense")
    rng = np.random.default_rng(5)
    vectors, tensors = [], []
    for n in (13, 6):
        word, val = rng.integers(0, 16, -(-n // 4)), rng.integers(1, 9, (-(-n // 4), 4)).astype(float)
        used = word[:, None] >> np.arange(4) & 1
        vectors.append(np.where(used, val, 0).ravel()[:n])
        tensors.append(spfgen.tensor(LAYOUTS["bits"], shape=n, word=word, val=val))
    np.testing.assert_array_equal(kernel(A=tensors[0], B=tensors[1]), np.outer(*vectors))


@pytest.mark.exhaustive
@pytest.mark.parametrize("text", ["y[i] = A[i, j]*A[j, k]*x[k]", "C[j, k] = A[i, j]*A[i, k]"])
def test_products_of_blocks_with_bits(text: str) -> None:
    """Points of some forty dimensions, most of them quotients that the plan need not compute."""
    n, rng = 7, np.random.default_rng(6)
    used = rng.random((4, 4)) < 0.6
    ptr, col = np.append(0, used.sum(axis=1).cumsum()), np.nonzero(used)[1]
    mask, val = rng.integers(0, 16, len(col)), rng.integers(1, 9, (len(col), 2, 2)).astype(float)
    full = np.zeros((8, 8))
    for p, (a, b) in enumerate(np.argwhere(used)):
        bits = (mask[p] >> np.arange(4) & 1).reshape(2, 2)
        full[2 * a : 2 * a + 2, 2 * b : 2 * b + 2] = bits * val[p]
    dense, x = full[:n, :n], rng.random(n)
    layout = LAYOUTS["bit_blocks"]
    tensor = spfgen.tensor(layout, shape=(n, n), ptr=ptr, col=col, mask=mask, val=val)
    np.testing.assert_array_equal(tensor.to_numpy(), dense)
    if "x" in text:
        found = spfgen.compile(text, A=layout, x="dense", y="dense")(A=tensor, x=x)
        np.testing.assert_allclose(found, dense @ dense @ x)
    else:
        found = spfgen.compile(text, A=layout, C="dense")(A=tensor)
        np.testing.assert_allclose(found, dense.T @ dense)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("pitch", [9, 7, 5])
def test_a_size_that_only_the_place_of_a_value_has(pitch: int) -> None:
    """Places behind the end of the array stand for nothing, as everywhere."""
    val = np.arange(1.0, 6 * pitch + 1)
    dense = np.zeros(SHAPE)
    for i, j in np.ndindex(SHAPE):
        if i * pitch + j < len(val):
            dense[i, j] = val[i * pitch + j]
    tensor = spfgen.tensor(LAYOUTS["pitched"], shape=SHAPE, sizes={"pitch": pitch}, val=val)
    for text, expected in [("y[i] = A[i, j]", dense.sum(axis=1)), ("y[j] = A[2, j]", dense[2])]:
        kernel = spfgen.compile(text, A=LAYOUTS["pitched"], y="dense")
        np.testing.assert_array_equal(kernel(A=tensor), expected)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("nk", "nl"), [(2, 6), (6, 2), (0, 3), (3, 0)])
def test_alternatives_read_their_own_arrays(nk: int, nl: int) -> None:
    """A quotient of one part is not asked for in the other, whose positions go further."""
    rng = np.random.default_rng(nk)
    row, col, values = (
        rng.integers(0, 6, nk + nl),
        rng.integers(0, 7, nk + nl),
        rng.integers(1, 9, nk + nl).astype(float),
    )
    dense = np.zeros(SHAPE)
    np.add.at(dense, (row, col), values)
    arrays = {
        "key": 8 * row[:nk] + col[:nk],
        "row": row[nk:],
        "col": col[nk:],
        "first": values[:nk],
        "second": values[nk:],
    }
    tensor = spfgen.tensor(LAYOUTS["keyed_and_listed"], shape=SHAPE, **arrays)
    kernel = spfgen.compile("y[i] = A[i, j]*x[j]", A=LAYOUTS["keyed_and_listed"], x="dense", y="dense")
    x = np.arange(1.0, 8.0)
    np.testing.assert_array_equal(kernel(A=tensor, x=x), dense @ x)
    np.testing.assert_array_equal(tensor.to_numpy(), dense)


@pytest.mark.parametrize(("na", "nb"), [(4, 1), (1, 4), (0, 3), (3, 3)])
@pytest.mark.exhaustive
def test_an_alternative_holds_where_the_array_of_the_other_ends(na: int, nb: int) -> None:
    rng = np.random.default_rng(na)
    a, b, val = rng.integers(0, 5, na), rng.integers(0, 5, nb), rng.integers(1, 9, max(na, nb)).astype(float)
    pairs = {*enumerate(a.tolist()), *enumerate(b.tolist())}
    dense = np.zeros(5)
    for p, i in pairs:
        dense[i] += val[p]
    tensor = spfgen.tensor(LAYOUTS["two_of_each"], shape=5, a=a, b=b, val=val)
    np.testing.assert_array_equal(tensor.to_numpy(), dense)
    product = spfgen.compile("s = A[i]*x[i]", A=LAYOUTS["two_of_each"], x="dense")
    assert product(A=tensor, x=np.arange(5.0)) == dense @ np.arange(5.0)
    square = spfgen.compile("s = A[i]*A[i]", A=LAYOUTS["two_of_each"])
    assert square(A=tensor) == dense @ dense


def test_index_arrays_that_only_the_place_of_a_value_has() -> None:
    """The place is no sum of indices times numbers, and is proved to lie within the table."""
    kernel = spfgen.compile("s = A[i]*x[i]", A=LAYOUTS["coded"], x="dense")
    idx, high, low = np.array([1, 3, 4]), np.array([2, 0, 2]), np.array([1, 0, 1])
    table = np.arange(1.0, 10.0)
    tensor = spfgen.tensor(LAYOUTS["coded"], shape=6, sizes={"k": 3}, idx=idx, high=high, low=low, table=table)
    assert kernel(A=tensor, x=np.arange(6.0)) == 1 * 8 + 3 * 1 + 4 * 8


@pytest.mark.parametrize("bound", ["min(n, m)", "max(n, m)"])
def test_a_range_whose_bound_is_one_of_two(bound: str) -> None:
    """A finite element matrix: the degrees of freedom of an element are rows and columns alike."""
    file = spfgen.parse(
        "layout elements(n, m; K = 2) { size nel\n"
        "relation { [e, a, b] -> [i, j] :\n"
        "  0 <= e < nel and 0 <= a < K and 0 <= b < K and i = dof(e, a) and j = dof(e, b) }\n"
        f"index dof[nel, K] {{ range 0 <= dof(e, a) < {bound} }}\n"
        "value ke[nel, K, K] at [e, a, b] }\n"
        "kernel product { tensor A : elements  tensor x, y : dense  y[i] = A[i, j]*x[j] }"
    )
    dof, ke = np.array([[0, 2], [2, 1], [1, 1]]), np.arange(1.0, 13).reshape(3, 2, 2)
    elements = spfgen.tensor(file.layouts["elements"], shape=(3, 4), dof=dof, ke=ke)
    x = np.array([1.0, 10, 100, 1000])
    expected = np.zeros(3)
    for element, matrix in zip(dof, ke, strict=True):
        np.add.at(expected, element, matrix @ x[element])
    assert np.array_equal(file.kernels["product"].compile()(A=elements, x=x), expected)
