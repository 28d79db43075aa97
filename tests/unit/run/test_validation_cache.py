"""Index arrays are checked when they are first seen, and again when they have changed or others took their place."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import scipy.sparse as sp

import spfgen
from spfgen.errors import DataError, UsageError
from spfgen.run.calls import validation_cache

SPMV = "y[i] = A[i, j]*x[j]"
LAYOUTS = {"A": "csr", "x": "dense", "y": "dense"}


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The layouts of all checks that are made."""
    from spfgen.run import validate

    made: list[str] = []
    real = validate.check_arrays

    def counted(layout, *arguments, **options):
        made.append(layout.name)
        return real(layout, *arguments, **options)

    monkeypatch.setattr(validate, "check_arrays", counted)
    return made


def kernel(validate: str = "once") -> spfgen.Kernel:
    return spfgen.compile(SPMV, **LAYOUTS, threads=1, validate=validate)


def tensor(n: int = 5) -> spfgen.Tensor:
    given = sp.eye_array(n, format="csr")
    return spfgen.tensor("csr", shape=given.shape, rowptr=given.indptr, colidx=given.indices, val=given.data)


@pytest.mark.parametrize(("validate", "count"), [("once", 1), ("always", 3), ("never", 0)])
def test_when_a_matrix_is_checked(checks, validate, count) -> None:
    given, run = sp.eye_array(6, format="csr") * 2.0, kernel(validate)
    for k in range(3):
        given.data[:] = k
        assert run(A=given, x=np.ones(6)).tolist() == [k] * 6
    assert checks.count("csr") == count


@pytest.mark.parametrize("size", [4, validation_cache.FINGERPRINT, 40 * validation_cache.FINGERPRINT])
def test_indices_changed_in_place(size) -> None:
    given, run, x = sp.eye_array(size, format="csr"), kernel(), np.arange(float(size))
    assert np.array_equal(run(A=given, x=x), x)
    given.indices[:] = given.indices[::-1].copy()
    assert np.array_equal(run(A=given, x=x), x[::-1])
    given.indices[:] = size
    with pytest.raises(DataError, match="`A`"):
        run(A=given, x=x)


def test_a_tensor_changed_in_place() -> None:
    given, run = tensor(), kernel()
    assert run(A=given, x=np.ones(5)).tolist() == [1] * 5
    given.arrays["colidx"][2] = 7
    for _ in range(2):
        with pytest.raises(DataError, match=r"`A`(.|\n)*colidx\(2\) = 7"):
            run(A=given, x=np.ones(5))
    given.arrays["colidx"][2] = 0
    assert run(A=given, x=np.arange(5.0)).tolist() == [0, 1, 0, 3, 4]


def test_the_same_arrays_with_other_sizes(checks) -> None:
    arrays = {"rowptr": np.array([0, 1]), "colidx": np.array([2]), "val": np.ones(1)}
    spfgen.tensor("csr", shape=(1, 3), **arrays)
    with pytest.raises(DataError, match=r"colidx\(0\) = 2"):
        spfgen.tensor("csr", shape=(1, 2), **arrays)
    spfgen.tensor("csr", shape=(1, 3), **arrays)
    assert checks == ["csr", "csr"]


def test_nothing_is_kept_of_arrays_that_are_gone() -> None:
    gc.collect()
    before = len(validation_cache._RECORDS)
    run = kernel()
    for k in range(50):
        run(A=tensor(k + 1), x=np.ones(k + 1))
    gc.collect()
    assert len(validation_cache._RECORDS) <= before + 1


def test_an_identity_that_is_used_again() -> None:
    """A new array at the place of a dead one is another array."""
    run, x = kernel(), np.ones(3)
    for k in range(200):
        columns = np.array([0, 1, 2 if k % 2 == 0 else 9], np.int32)
        given = sp.csr_array((3, 3))
        given.indptr, given.indices, given.data = np.arange(4, dtype=np.int32), columns, np.ones(3)
        if k % 2 == 0:
            assert run(A=given, x=x).tolist() == [1, 1, 1]
        else:
            with pytest.raises(DataError, match="`A`"):
                run(A=given, x=x)
        del columns, given


def test_modes() -> None:
    with pytest.raises(UsageError, match="'once', 'always', 'never'"):
        kernel("sometimes")


@pytest.mark.parametrize(("validate", "count"), [("once", 1), ("always", 2), ("never", 0)])
def test_evaluate_checks_once_a_call(checks, validate, count) -> None:
    given = sp.eye_array(6, format="csr") * 2.0
    for _ in range(2):
        assert spfgen.evaluate(SPMV, A=given, x=np.ones(6), validate=validate).tolist() == [2.0] * 6
    assert checks.count("csr") == count


def test_evaluate_looks_at_tensors_again_when_they_changed() -> None:
    given = tensor()
    assert spfgen.evaluate(SPMV, A=given, x=np.ones(5)).tolist() == [1] * 5
    given.arrays["colidx"][2] = 7
    with pytest.raises(DataError, match=r"`A`(.|\n)*colidx\(2\) = 7"):
        spfgen.evaluate(SPMV, A=given, x=np.ones(5))
