"""Later calls of the same statements go a short way (run/calls/call_cache.py): with the results and the errors of the
long one. Arrays that nobody can write to are not looked at again."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from scipy import sparse

import spfgen
from spfgen.errors import DataError
from spfgen.run import later
from spfgen.run.calls import evaluate as evaluating
from spfgen.run.calls.validation_cache import owners
from spfgen.run.tensor import check_unchanged

SPMV = "y[i] = A[i,j]*x[j]"


def matrix(rows: int, columns: int, seed: int, dtype: Any = np.float64) -> Any:
    found = sparse.random_array((rows, columns), density=0.3, rng=np.random.default_rng(seed), format="csr")
    return (found * 10).astype(dtype)


def over(given: Any) -> Any:
    """A tensor over the arrays of a matrix."""
    return spfgen.tensor("csr", rowptr=given.indptr, colidx=given.indices, val=given.data, shape=given.shape)


@pytest.mark.parametrize(("layout", "dtype"), [("csr", np.float64), ("coo", np.int64)])
def test_later_calls_have_the_results_of_their_operands(layout: str, dtype: Any) -> None:
    for seed, (rows, columns) in enumerate([(3, 5), (3, 5), (7, 2), (0, 4), (4, 0), (9, 9)]):
        given = matrix(rows, columns, seed, dtype)
        x = np.arange(columns).astype(dtype)
        tensor = spfgen.pack(given, layout)
        found = spfgen.evaluate(SPMV, A=tensor, x=x)
        assert found.dtype == dtype
        assert np.allclose(found, given.toarray() @ x)
        found[...] = 7  # it is nobody else's
        assert np.allclose(spfgen.evaluate(SPMV, A=tensor, x=x), given.toarray() @ x)


def test_numbers_and_several_results() -> None:
    for k in (2, 3, 2**40):
        tensor, given = spfgen.pack(matrix(4, 4, k % 7), "csr"), matrix(4, 4, k % 7).toarray()
        found = spfgen.evaluate("y[i] = t*A[i,j]; z[j] = A[i,j]", A=tensor, t=k)
        assert list(found) == ["y", "z"]
        assert np.allclose(found["y"], k * given.sum(1))
        assert np.allclose(found["z"], given.sum(0))
    small = spfgen.pack(np.ones((2, 2), np.int8), "csr")
    assert spfgen.evaluate("y[i] = t*A[i,j]", A=small, t=3).tolist() == [6, 6]
    with pytest.raises((DataError, OverflowError)):
        spfgen.evaluate("y[i] = t*A[i,j]", A=small, t=-(2**70))


def test_a_later_call_goes_the_short_way() -> None:
    tensor, x = spfgen.pack(matrix(6, 6, 1), "csr"), np.ones(6)
    wanted = spfgen.evaluate(SPMV, A=tensor, x=x)
    with patch.object(evaluating, "prepared", side_effect=AssertionError):
        assert np.array_equal(spfgen.evaluate(SPMV, A=tensor, x=x), wanted)
        other = spfgen.pack(matrix(5, 8, 2), "csr")
        assert np.allclose(spfgen.evaluate(SPMV, A=other, x=np.ones(8)), matrix(5, 8, 2).sum(axis=1))


def test_operators_go_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(later.VARIABLE, later.WARM)
    first, second = matrix(6, 6, 1), matrix(6, 6, 2)
    one, other = spfgen.pack(first, "csr"), spfgen.pack(second, "csr")
    operations: list[Any] = [
        lambda a, b: a @ np.ones(6),
        lambda a, b: a @ b,
        lambda a, b: a @ a,
        lambda a, b: a.sum(axis=0),
        lambda a, b: a.max(axis=1),
        lambda a, b: a + b,
        lambda a, b: a * b,
        lambda a, b: np.maximum(a, -b),
    ]
    for operation in operations:
        wanted = operation(first.toarray(), second.toarray())
        operation(one, other)
        with patch.object(evaluating, "prepared", side_effect=AssertionError):
            assert np.allclose(np.asarray(operation(one, other)), wanted)
            assert np.allclose(np.asarray(operation(other, one)), operation(second.toarray(), first.toarray()))


def test_operands_of_other_extents_are_not_taken_for_those_of_an_earlier_operation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is repeated along a dimension, and what is not, have other kernels."""
    monkeypatch.setenv(later.VARIABLE, later.WARM)
    for shapes in [((1, 4), (1, 4)), ((1, 4), (5, 4)), ((5, 4), (5, 4)), ((5, 4), (1, 4)), ((1, 4), (1, 1))]:
        one, other = (matrix(*shape, seed) for seed, shape in enumerate(shapes))
        for _ in range(2):
            found = spfgen.pack(one, "csr") + spfgen.pack(other, "csr")
            assert np.array_equal(np.asarray(found), one.toarray() + other.toarray())


def test_another_type_in_the_place_of_an_array_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(later.VARIABLE, later.WARM)
    tensor = spfgen.pack(matrix(6, 6, 1), "csr")
    lazy = spfgen.asarray(tensor) @ np.ones(6)
    for _ in range(2):
        wanted = spfgen.evaluate(SPMV, A=tensor, x=np.ones(6))
        assert np.array_equal(lazy.compute(), wanted)
    values = tensor.layout.values[0].name
    tensor.arrays[values] = tensor.arrays[values].astype(np.float32)  # type: ignore[index]
    for _ in range(2):
        assert np.allclose(spfgen.evaluate(SPMV, A=tensor, x=np.ones(6)), wanted, rtol=1e-6)
        assert np.allclose(lazy.compute(), wanted, rtol=1e-6)


def test_later_calls_say_what_is_wrong() -> None:
    tensor, x = spfgen.pack(matrix(6, 6, 1), "csr"), np.ones(6)
    with pytest.raises(DataError) as first:
        spfgen.evaluate(SPMV, A=tensor, x=np.ones(5))
    spfgen.evaluate(SPMV, A=tensor, x=x)
    with pytest.raises(DataError) as later_one:
        spfgen.evaluate(SPMV, A=tensor, x=np.ones(5))
    assert str(later_one.value) == str(first.value)


@pytest.mark.parametrize("own", [True, False], ids=["packed", "of the user"])
def test_indices_that_are_written_to_are_checked_again(own: bool) -> None:
    """A kernel never reads outside of arrays, whatever is written into them."""
    given = matrix(6, 6, 1)
    tensor = spfgen.pack(given, "csr") if own else over(given)
    for _ in range(2):
        assert np.allclose(tensor @ np.ones(6), spfgen.evaluate(SPMV, A=tensor, x=np.ones(6)))
    column = tensor.arrays["colidx"]
    if own:
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 10**8
    base = column if column.base is None else column.base
    try:
        base.flags.writeable = column.flags.writeable = True
    except ValueError:  # memory of a kernel stays as it is
        return
    column[0] = 10**8
    for call in (lambda: spfgen.evaluate(SPMV, A=tensor, x=np.ones(6)), lambda: tensor @ np.ones(6)):
        with pytest.raises(DataError, match="colidx"):
            call()


def test_never_validated_is_not_checked() -> None:
    """A check that was left out is made when it is asked for."""
    arrays = {"rowptr": np.array([0, 1]), "colidx": np.array([99]), "val": np.ones(1)}
    for array in arrays.values():
        array.flags.writeable = False
    wrong = spfgen.Tensor(spfgen.pack(np.ones((1, 1)), "csr").layout, {"nrow": 1, "ncol": 1, "nnz": 1}, arrays)
    check_unchanged(wrong, "never")
    with pytest.raises(DataError):
        check_unchanged(wrong)


def test_who_can_write() -> None:
    given = matrix(50, 50, 1)
    packed = spfgen.pack(given, "csr")
    assert all(owners(packed.arrays[n]) for n in ("rowptr", "colidx"))
    assert owners(packed.T.arrays["colidx" if "colidx" in packed.T.arrays else "rowidx"])
    product = spfgen.evaluate("C[i,j] = A[i,k]*B[k,j]", A=packed, B=packed, out="csr")
    assert all(owners(product.arrays[a.name]) for a in product.layout.indexes)
    in_place = over(given)
    assert owners(in_place.arrays["colidx"]) is None
    assert in_place[2:4].shape == (2, 50)
    assert given.indices.flags.writeable  # what is ours is protected, what is the user's is left alone
    assert product.arrays["val"].flags.writeable


def test_operands_that_are_converted_before_go_the_long_way() -> None:
    """The short way would read arrays that are stored in too many ways for one kernel as another layout's."""
    rng = np.random.default_rng(4)
    given = {n: np.triu(rng.integers(0, 5, (5, 5)).astype(float)) for n in "ABD"}
    given = {n: a + np.triu(a, 1).T for n, a in given.items()}
    tensors = {n: spfgen.pack(a, "sym_csr") for n, a in given.items()}
    for _ in range(2):
        found = spfgen.evaluate("s = A[i, j]*B[j, k]*D[k, i]", **tensors)
        assert found == np.trace(np.linalg.multi_dot([*given.values()]))
