"""Lazy arrays: one kernel of index notation where there is much to compute, step by step where not; the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import spfgen
from spfgen.errors import DataError
from spfgen.run.arrays import lazy
from spfgen.run.arrays.eager import dense_of
from spfgen.run.arrays.graph import Leaf, with_values
from spfgen.run.arrays.pieces import pieces
from spfgen.run.arrays.text import fused
from spfgen.run.tensor import Tensor
from tests.unit.run.test_arrays import agrees

RANDOM = np.random.default_rng(8)
A, B = (np.round(RANDOM.random((5, 5)) * 9) * (RANDOM.random((5, 5)) < 0.4) for _ in range(2))
X, ROW = RANDOM.integers(1, 9, 5).astype(float), RANDOM.integers(1, 9, (1, 5)).astype(float)
WIDE = RANDOM.integers(1, 9, (5, 3)).astype(float)

TREES = {
    "a sum of products": lambda a, b: (a * b).sum(),
    "a product with a sum": lambda a, b: (a + b.T) @ X,
    "a matrix product": lambda a, b: a @ b,
    "three factors": lambda a, b: (a @ b) @ WIDE,
    "a row": lambda a, b: a * ROW + b,
    "a column": lambda a, b: a / X[:, None],
    "functions": lambda a, b: np.sqrt(np.maximum(a, b)) - np.sin(a),
    "comparisons": lambda a, b: (a > b) | (a == 2),
    "a number": lambda a, b: 2 * a - b / 4 + 1,
    "a negative number": lambda a, b: a * -2.5,
    "a sum along columns": lambda a, b: (a * b).sum(axis=0),
    "rows divided by their sums": lambda a, b: a / (a.sum(axis=1, keepdims=True) + 1),
    "the largest": lambda a, b: (a - b).max(axis=1),
    "the smallest of all": lambda a, b: (a - b).min(),
    "any": lambda a, b: (a > b).any(axis=0),
    "a product of a row": lambda a, b: (a + 1).prod(axis=1),
    "one operand twice": lambda a, b: a * a + a.T,
    "a product of truths": lambda a, b: np.sqrt(((a > 0) @ (b > 1)).astype(float)),
    "truths": lambda a, b: (a > 0) @ (b > 1),
    "a norm": lambda a, b: np.sqrt((a**2).sum()),
    "a dense operand": lambda a, b: (X + a) * 2,
    "a mean": lambda a, b: a.mean(axis=0),
    "a place": lambda a, b: (a - b).argmax(axis=1),
    "a subscript": lambda a, b: (a + b)[1:4, ::-1] * 2,
    "another type": lambda a, b: (a + b).astype("int32") + 1,
    "whole numbers": lambda a, b: (a > 3).sum(axis=0),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("enough", [0, 10**9], ids=["a kernel", "steps"])
def test_trees(name, enough, monkeypatch) -> None:
    monkeypatch.setattr("spfgen.run.arrays.tree_kernel.ENOUGH", enough)
    one, two = spfgen.asarray(spfgen.pack(A, "csr")), spfgen.asarray(spfgen.pack(B, "csc"))
    found = TREES[name](one, two)
    with np.errstate(all="ignore"):
        expected = TREES[name](A, B)
    assert found.shape == np.shape(expected)
    assert found.dtype == np.asarray(expected).dtype
    agrees(found.compute(), expected)
    agrees(np.asarray(found), expected)


SAID = {
    "a sum of products": "result = sum(i, j: A[i, j] * B[i, j])",
    "a product with a sum": "result[i] = sum(j: (A[i, j] + B[j, i]) * C[j])",
    "a row": "result[i, j] = (A[i, j] * B[0, j]) + C[i, j]",
    "functions": "result[i, j] = sqrt(maximum(A[i, j], B[i, j])) - sin(A[i, j])",
    "a negative number": "result[i, j] = A[i, j] * B",
    "one operand twice": "result[i, j] = (A[i, j] * A[i, j]) + A[j, i]",
    "the largest": "result[i] = max(j: A[i, j] - B[i, j])",
    "a mean": "result[i] = sum(j: A[j, i]) / B",
    "whole numbers": None,
}


@pytest.mark.parametrize("name", SAID)
def test_the_statement(name) -> None:
    one, two = spfgen.asarray(spfgen.pack(A, "csr")), spfgen.asarray(spfgen.pack(B, "csc"))
    found = TREES[name](one, two)
    assert found.statement == SAID[name]
    assert repr(found).startswith("<spfgen.LazyArray ")
    assert (SAID[name] or "LazyArray") in repr(found)


@pytest.mark.parametrize("enough", [0, 10**9], ids=["a kernel", "steps"])
@pytest.mark.exhaustive
def test_layouts(enough, monkeypatch) -> None:
    monkeypatch.setattr("spfgen.run.arrays.tree_kernel.ENOUGH", enough)
    one, two = spfgen.asarray(spfgen.pack(A, "csr")), spfgen.asarray(spfgen.pack(B, "csc"))
    for tree, name in [(one + two, "csr"), (two * one, "csc"), (one @ two, "csr"), (one * X, "csr"), (2 * two, "csc")]:
        assert tree.compute().layout.name == name
        assert tree.compute(layout="coo").layout.name == "coo"
    for tree in (one + X, one @ X, one.sum(axis=0)):
        assert isinstance(tree.compute(), np.ndarray)
        assert isinstance(tree.compute(layout="coo"), Tensor)
        agrees(tree.compute(layout="coo"), tree.compute())
    assert (one == two).compute().fill_value
    agrees((one == two).compute(), A == B)
    assert spfgen.asarray(A, layout="bcsr(R=2, C=2)").compute().layout.name == "bcsr"


def test_large_arrays_are_computed_by_kernels() -> None:
    rng = np.random.default_rng(5)
    one, two = (sp.random_array((300, 300), density=0.3, format="csr", rng=rng) for _ in range(2))
    a, b = spfgen.asarray(one), spfgen.asarray(spfgen.pack(two, "csr"))
    x = rng.random(300)
    agrees(((a + b.T) @ x).compute(), (one + two.T) @ x)
    product = (a @ b).compute()
    assert product.layout.name == "csr"
    np.testing.assert_allclose(dense_of(product), (one @ two).toarray())
    assert float((a * b).sum()) == pytest.approx(one.multiply(two).sum())


def test_a_sum_that_would_be_too_large() -> None:
    n = 2**40
    tensor = spfgen.pack(([[5, 5], [7, 8]], [1.0, 2.0]), "coo", shape=(n, n))
    found = spfgen.asarray(tensor).sum(axis=1).compute(layout="sv")
    assert (found.layout.name, found.nnz, found[5]) == ("sv", 1, 3)


def test_what_is_wrong() -> None:
    one = spfgen.asarray(spfgen.pack(A, "csr"))
    for wrong in (lambda: one + np.ones(3), lambda: one @ np.ones(3)):
        with pytest.raises(DataError, match="expected"):
            wrong()
    with pytest.raises(AttributeError, match="did you mean `compute`"):
        _ = one.comptue
    with pytest.raises(ValueError, match="several"):
        bool(one)
    with pytest.raises(IndexError):
        one[7]


def test_other_functions_of_numpy_take_what_is_computed() -> None:
    one = spfgen.asarray(X)
    assert np.linalg.norm(one) == pytest.approx(np.linalg.norm(X))
    agrees(np.add.accumulate(one), np.add.accumulate(X))
    agrees(np.sum(one * 2).compute(), np.sum(X * 2))
    agrees(spfgen.reshape(one + 1, (5, 1)), (X + 1)[:, None])


def test_solvers_of_scipy() -> None:
    from scipy.sparse.linalg import cg, svds

    dense = A @ A.T + 10 * np.eye(5)
    operator = spfgen.aslinearoperator(spfgen.pack(dense, "csc"))
    found, status = cg(operator, X, rtol=1e-12)
    assert status == 0
    np.testing.assert_allclose(dense @ found, X)
    complex_ = spfgen.aslinearoperator(spfgen.pack(A + 1j * B, "csr"))
    np.testing.assert_allclose(complex_.H @ X, (A + 1j * B).conj().T @ X)
    np.testing.assert_allclose(complex_ @ WIDE, (A + 1j * B) @ WIDE)
    np.testing.assert_allclose(complex_.H @ WIDE, (A + 1j * B).conj().T @ WIDE)
    assert svds(operator, k=1, return_singular_vectors=False)[0] == pytest.approx(np.linalg.norm(dense, 2))
    with pytest.raises(DataError, match="matrix"):
        spfgen.aslinearoperator(spfgen.pack(X, "sv"))


@pytest.mark.parametrize("enough", [0, 10**9], ids=["a kernel", "steps"])
@pytest.mark.exhaustive
def test_fill_values(enough, monkeypatch) -> None:
    monkeypatch.setattr("spfgen.run.arrays.tree_kernel.ENOUGH", enough)
    first, second = np.where(A == 0, 1, A), np.where(B == 0, np.inf, B)
    one, two = spfgen.pack(first, "csr", fill=1), spfgen.pack(second, "csc", fill=np.inf)
    for tree, expected, fill in [
        (lambda a, b: a + 2, first + 2, 3),
        (lambda a, b: np.minimum(a, b), np.minimum(first, second), 1),
        (lambda a, b: a * 3 + b, first * 3 + second, np.inf),
        (lambda a, b: a < b, first < second, True),
    ]:
        found = tree(spfgen.asarray(one), spfgen.asarray(two))
        for got in (found.compute(), found.compute(layout="dcsr")):
            assert got.fill == fill
            agrees(got, expected)
        if found.dtype != bool:
            assert found.compute(layout="csr fill 7").fill == 7
            agrees(found.compute(layout="csr fill 7"), expected)
    with pytest.raises(DataError, match="fill value that bool has"):
        found.compute(layout="csr fill 7")
    agrees((spfgen.asarray(one) @ X).compute(), first @ X)


@pytest.mark.parametrize("enough", [0, 10**9], ids=["a kernel", "steps"])
def test_what_numpy_refuses(enough, monkeypatch) -> None:
    monkeypatch.setattr("spfgen.run.arrays.tree_kernel.ENOUGH", enough)
    nothing = spfgen.asarray(spfgen.pack(np.zeros((0, 4)), "csr"))
    agrees(nothing.sum(axis=0).compute(), np.zeros(4))
    agrees(nothing.max(axis=1).compute(), np.zeros(0))
    for tree in (nothing.max(), nothing.min(axis=0)):
        with pytest.raises(ValueError, match="zero-size"):
            tree.compute()
    whole = np.array([[-2, 0, 3], [0, 1, 0]])
    tensor = spfgen.asarray(spfgen.pack(whole, "csr"))
    agrees((tensor**3).compute(), whole**3)
    for wrong in (lambda: 2**tensor, lambda: np.power(tensor, tensor)):
        with pytest.raises(ValueError, match="negative integer powers"):
            wrong().compute()


@pytest.mark.parametrize("enough", [0, 10**9], ids=["a kernel", "steps"])
def test_complex_numbers(enough, monkeypatch) -> None:
    monkeypatch.setattr("spfgen.run.arrays.tree_kernel.ENOUGH", enough)
    dense = A + 1j * B
    found = np.conjugate(spfgen.asarray(spfgen.pack(dense, "csc"))).compute()
    assert (found.layout.name, found.dtype) == ("csc", np.complex128)
    agrees(found, dense.conj())


@pytest.mark.parametrize("shape", [(5, 5), (0, 5)])
def test_subscripts_of_what_is_not_computed(shape) -> None:
    dense = A[: shape[0]]
    one = spfgen.asarray(spfgen.pack(dense, "csr"))
    for mask in (one > 3, (one > 3).compute()):
        found = one[mask]
        assert found.shape == dense[dense > 3].shape
        agrees(found.compute(), dense[dense > 3])


def test_lazy_arrays_are_operands() -> None:
    one = spfgen.asarray(spfgen.pack(A, "csr"))
    agrees(spfgen.evaluate("y[i] = A[i, j]*x[j]", A=one + one, x=spfgen.asarray(X)), 2 * A @ X)
    agrees(spfgen.pack(one * 2, "csc"), 2 * A)
    for both in (spfgen.pack(B, "csr") + one, np.add(spfgen.pack(B, "csr"), one), X + one, one + X):
        assert isinstance(both, spfgen.LazyArray)


def doubled(y, times):
    for _ in range(times):
        y = y + y
    return y


def chained(y, times):
    for _ in range(times):
        y = y * 1.001
    return y


def newton(y, times):
    first = y
    for _ in range(times):
        y = (y + 2 / (y + 1)) * 0.5 + first * 0
    return y


def matmuls(y, times):
    x = X
    for _ in range(times):
        x = (y * 0.05) @ x
    return x


LONG = {
    "a sum with itself": (doubled, 5, 30),
    "a sum with itself twice": (lambda y, n: doubled(y, n) * doubled(y + 1, n), 4, 20),
    "a chain": (chained, 30, 2000),
    "steps of Newton": (newton, 4, 25),
    "products with a matrix": (matmuls, 5, 50),
    "sums of a row": (lambda y, n: doubled((y * y).sum(axis=1, keepdims=True), n) * y, 2, 10),
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.sampled(3)
def test_what_stands_in_several_places_is_written_out_once(name, monkeypatch) -> None:
    """A kernel says no more than so many functions, however often they stand in the graph."""
    function, few, many = LONG[name]
    y = spfgen.asarray(spfgen.pack(np.where(A, 1 / (A + 1), 0), "csr"))
    dense = y.compute().to_numpy()
    graph = function(y, many)
    assert graph.statement is None
    written: dict[int, Any] = {}
    for piece in [*pieces(graph.node), graph.node]:
        text = fused(with_values(piece, written))
        assert text is not None
        assert len(text.text) < 400
        written[id(piece)] = Leaf(np.zeros(piece.shape, piece.dtype))
    assert len(written) < 2.5 * many
    agrees(graph.compute(), function(dense, many))
    assert repr(graph) == f"<spfgen.LazyArray {' x '.join(map(str, graph.shape))}, float64>"
    monkeypatch.setattr("spfgen.run.arrays.tree_kernel.ENOUGH", 0)
    agrees(function(y, few).compute(), function(dense, few))


def test_a_value_larger_than_its_operands_is_not_put_into_memory() -> None:
    """Of an outer product that is summed up there is no array, however often it stands."""
    n = 300_000
    column, row = spfgen.asarray(np.ones((n, 1))), spfgen.asarray(np.arange(float(n)))
    outer = column * row
    graph = (outer * outer + outer - outer * 2 + outer * 3 - outer).sum(axis=0) + (outer * outer).sum(axis=0)
    assert all(piece.shape == (n,) for piece in pieces(graph.node))


def test_several_results_share_what_they_have_in_common(monkeypatch) -> None:
    one, two = spfgen.asarray(spfgen.pack(A, "csr")), spfgen.asarray(spfgen.pack(B, "csc"))
    products: list[object] = []
    monkeypatch.setattr(lazy.eager, "product", lambda *o: products.append(o) or np.asarray(o[0]) @ np.asarray(o[1]))
    shared, again = (one + two) @ one.T, (one + two) @ one.T
    total, same, scaled, number = spfgen.compute(shared.sum(), shared, again * 2, 7)
    assert len(products) == 1
    wanted = (A + B) @ A.T
    assert np.isclose(total, wanted.sum())
    assert np.allclose(np.asarray(same), wanted)
    assert np.allclose(np.asarray(scaled), 2 * wanted)
    assert number == 7
    assert spfgen.compute() == ()


def test_explain_says_the_steps_and_why(monkeypatch) -> None:
    one = spfgen.asarray(spfgen.pack(A, "csr"))
    assert "by numpy until a kernel is there, because the operands hold" in (one * one).explain()
    monkeypatch.setattr("spfgen.run.arrays.tree_kernel.ENOUGH", 0)
    assert "by a kernel" in (one * one).explain()
    assert "a scalar determines" in (one + 1.5).explain()
    assert "index notation cannot express it" in one.argmax(axis=0).explain()
    product = one @ one.T
    said = (product + product.T).explain()
    assert "1. " in said
    assert "it is used in 2 places" in said
    assert "A is step 1" in said
    assert "B is 2.5" in (one * 2.5).explain()


CUT = {
    "where": (lambda a: np.where(a > 2, a, 0) * 2, "index notation cannot express all of it"),
    "a concatenation": (lambda a: np.concatenate([a, a * 2], 1).sum(axis=0), "index notation cannot express all of it"),
    "a stack": (lambda a: np.stack([a, a], -1) + 1, "index notation cannot express all of it"),
    "a variance": (lambda a: (a * 2).var(axis=0) - (a * 2).var(axis=0, ddof=1), "it is used in 2 places"),
    "a product of products": (lambda a: a.T @ (a @ WIDE), "each of its values is used more than once"),
}


@pytest.mark.parametrize("name", CUT)
@pytest.mark.parametrize("enough", [0, 10**9])
def test_what_one_kernel_does_not_say_is_computed_first(name, enough, monkeypatch) -> None:
    function, why = CUT[name]
    monkeypatch.setattr("spfgen.run.arrays.tree_kernel.ENOUGH", enough)
    monkeypatch.setenv("SPFGEN_COMPILE", "never")
    found, wanted = function(spfgen.asarray(spfgen.pack(A, "csr"))), function(A)
    assert isinstance(found, spfgen.LazyArray)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    assert why in found.explain()
    agrees(found.compute(), wanted)


def test_products_are_in_the_order_that_takes_the_fewest_multiplications() -> None:
    first, second = (spfgen.asarray(np.ones(shape)) for shape in ((60, 2), (2, 60)))
    column = np.arange(60.0)
    chain = first @ second @ first @ second @ column
    assert np.allclose(
        chain.compute(), np.asarray(first) @ np.ones((2, 60)) @ np.ones((60, 2)) @ np.ones((2, 60)) @ column
    )
    assert "(F1 @ (F2 @ (F3 @ (F4 @ F5))))" in chain.explain()
    small = spfgen.asarray(np.ones((2, 60), np.int8)) @ np.ones((60, 2), np.int8) @ np.ones((2, 60))
    assert "multiplications" not in small.explain()  # another order would round, or wrap around, in another type


def test_products_around_a_vector_stay_in_their_order() -> None:
    """Between matrices it is a column of the first and a row of the second."""
    row = spfgen.asarray(spfgen.pack(np.array([[1.0, 2.0]]), "csr"))
    chain = row @ np.array([3.0, 4.0]) @ row
    assert chain.shape == (2,)
    assert np.array_equal(chain.compute(), [11.0, 22.0])


def test_products_of_sparse_matrices_are_ordered_by_what_they_store() -> None:
    wide = spfgen.pack((np.array([[0, 1], [0, 1]]), np.ones(2)), "csr", shape=(50, 50))
    full = spfgen.pack(np.ones((50, 50)), "csr")
    chain = spfgen.asarray(full) @ full @ wide
    assert "(F1 @ (F2 @ F3))" in chain.explain()
    agrees(chain.compute(), np.ones((50, 50)) @ np.ones((50, 50)) @ wide.to_numpy())
