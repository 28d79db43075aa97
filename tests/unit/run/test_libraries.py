"""Libraries that take arrays of the array API standard, with tensors inside; each where it is installed."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import spfgen
import spfgen.array as xp
from spfgen.errors import DataError
from spfgen.run import store
from spfgen.run import tensor as tensors

DENSE = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 5.0], [0.0, 4.0, 0.0]])


def tensor() -> spfgen.Tensor:
    return spfgen.pack(DENSE, "csr")


def test_array_api_compat() -> None:
    compat = pytest.importorskip("array_api_compat")
    own = tensor()
    namespace = compat.array_namespace(own)
    assert namespace is xp
    assert compat.is_array_api_obj(own)
    assert compat.size(own) == own.size
    assert compat.device(own) == "cpu"
    assert np.array_equal(np.asarray(namespace.sum(own, axis=0)), DENSE.sum(axis=0))


def test_array_api_extra() -> None:
    extra = pytest.importorskip("array_api_extra")
    assert np.array_equal(np.asarray(extra.atleast_nd(tensor(), ndim=3)), DENSE[None])


@pytest.mark.filterwarnings("ignore")
def test_xarray() -> None:
    xarray = pytest.importorskip("xarray")
    array = xarray.DataArray(tensor(), dims=("row", "column"), coords={"row": list("abcd")})
    assert isinstance(array.data, spfgen.Tensor)
    assert np.array_equal(np.asarray((array * 2).data), DENSE * 2)
    assert np.array_equal(np.asarray(array.sum("row").data), DENSE.sum(axis=0))
    assert np.array_equal(np.asarray(array.sel(row="c").data), DENSE[2])
    assert np.array_equal(np.asarray(array.T.data), DENSE.T)


def test_scipy_with_the_array_api() -> None:
    """In a process of its own, because scipy reads the setting when it is imported."""
    script = """
import numpy as np, scipy.special, scipy.stats, spfgen
D = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 5.0], [0.0, 4.0, 0.0]])
T = spfgen.pack(D, "csr")
for f in (scipy.stats.skew, scipy.stats.kurtosis, scipy.stats.entropy, scipy.special.expit):
    assert np.allclose(np.asarray(f(T)), f(D), equal_nan=True), f
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr


def test_sklearn() -> None:
    """Its array API dispatch asks for SCIPY_ARRAY_API."""
    pytest.importorskip("sklearn")
    script = """
import numpy as np, spfgen.array as xp
from sklearn import config_context, metrics
one, two = np.array([0.0, 1, 1, 0]), np.array([0.0, 1, 0, 0])
with config_context(array_api_dispatch=True):
    for f in (metrics.accuracy_score, metrics.zero_one_loss, metrics.mean_squared_error, metrics.mean_absolute_error):
        assert f(xp.asarray(one), xp.asarray(two)) == f(one, two), f
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr


def test_a_tensor_is_not_written_to() -> None:
    """The error says what to do, whatever the subscript is."""
    for key in (0, (0, 1), tensor() > 1):
        with pytest.raises(TypeError, match=r"numpy\.where"):
            tensor()[key] = 1


def test_anndata(tmp_path) -> None:
    anndata = pytest.importorskip("anndata")
    data = anndata.AnnData(tensor().to_scipy())
    assert np.array_equal(np.asarray(spfgen.pack(data.X, "csr")), DENSE)
    part = data[1:3, :2].X  # of a class of its own, made of scipy's
    assert np.array_equal(np.asarray(spfgen.pack(part, "csc")), DENSE[1:3, :2])
    assert np.array_equal(spfgen.evaluate("y[i] = A[i, j]*x[j]", A=part, x=np.ones(2)), DENSE[1:3, :2].sum(axis=1))
    data.write_h5ad(tmp_path / "data.h5ad")
    stored = anndata.read_h5ad(tmp_path / "data.h5ad", backed="r")
    with pytest.raises(DataError, match=r"read it first: tensor\.to_memory\(\)"):
        spfgen.pack(stored.X, "csr")
    assert np.array_equal(np.asarray(spfgen.pack(stored.X.to_memory(), "csr")), DENSE)


def test_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame.sparse.from_spmatrix(sp.csr_matrix(tensor().to_scipy()))
    for value in (frame, frame.sparse.to_coo(), sp.coo_array(frame.to_numpy()), frame.to_numpy()):
        assert np.array_equal(np.asarray(spfgen.pack(value, "csr")), DENSE)
    assert np.array_equal(np.asarray(tensor() * frame), DENSE * DENSE)
    assert np.array_equal(np.asarray(xp.asarray(frame)), DENSE)
    assert np.array_equal(spfgen.evaluate("y[i] = A[i, j]*x[j]", A=frame, x=np.ones(3)), DENSE.sum(axis=1))
    assert np.array_equal(pandas.DataFrame(tensor().to_numpy()).to_numpy(), DENSE)


@pytest.mark.parametrize("kind", ["integer", "block"])
def test_sparse_columns_of_pandas_keep_their_fill(kind: str) -> None:
    pandas = pytest.importorskip("pandas")
    for values, fill in (([7, 7, 2, 7], 7), ([np.nan, 1.5, np.nan, 0.0], np.nan), ([True, False, False, False], False)):
        array = pandas.arrays.SparseArray(values, fill_value=fill, kind=kind)
        frame = pandas.DataFrame({"a": array, "b": array})
        for value, layout in ((array, "sv"), (pandas.Series(array), "sv"), (frame, "csr")):
            made = spfgen.pack(value, layout)
            assert np.array_equal(np.asarray(made), np.asarray(value), equal_nan=made.dtype.kind == "f")
            assert made.dtype == np.asarray(values).dtype
            assert made.fill == fill or made.fill != made.fill
            assert made.nse == (array != fill if fill == fill else ~np.isnan(array)).sum() * made.size / 4
    several = {"a": array, "b": pandas.arrays.SparseArray([1, 1, 2, 1], fill_value=1)}
    assert np.array_equal(
        np.asarray(spfgen.pack(pandas.DataFrame(several), "csr")),
        np.stack([*map(np.asarray, several.values())], axis=1),
    )


def test_a_long_column_does_not_become_dense() -> None:
    pandas = pytest.importorskip("pandas")
    place = pandas._libs.sparse.IntIndex(2**30, np.array([2**29], np.int32))
    column = pandas.arrays.SparseArray(np.ones(1), sparse_index=place, fill_value=0.0)
    made = spfgen.pack(pandas.Series(column), "sv")
    assert (made.shape, made.nse, made[2**29]) == ((2**30,), 1, 1.0)


def test_numpy_testing() -> None:
    own, testing = tensor(), np.testing
    checks = testing.assert_array_equal, testing.assert_allclose, testing.assert_array_almost_equal
    for one, two in ((own, DENSE), (DENSE, own), (own, tensor()), (spfgen.asarray(own), DENSE)):
        for check in checks:
            check(one, two)
            with pytest.raises(AssertionError, match="Mismatched elements: 12 / 12"):
                check(one, two + 1)
    testing.assert_allclose(own, own * (1 + 1e-9))
    testing.assert_equal(own, DENSE)
    testing.assert_array_less(own, own + 1)
    testing.assert_array_max_ulp(own, tensor())


def test_assert_equal_of_numpy_compares_tensors_as_arrays() -> None:
    own, check = tensor(), np.testing.assert_equal
    nan = np.where(DENSE.flat[0] == DENSE, np.nan, DENSE)
    for one, two in ((own, tensor()), (spfgen.pack(nan, "csr"), spfgen.pack(nan, "coo")), (own > 0, own > 0)):
        check(one, two)
        check(spfgen.asarray(one), two)
        check({"a": [one]}, {"a": [spfgen.asarray(two)]})
    check(spfgen.pack(np.zeros((0, 3)), "csr"), spfgen.pack(np.zeros((0, 3)), "csr"))
    check(1j * own, 1j * own)
    check(own.sum(axis=0), spfgen.asarray(own).sum(axis=0))
    for other in (own + 1, own[:2], own * (1 + 1e-9), spfgen.pack(nan, "csr"), own > 0, 1j * own):
        for one, two in ((own, other), (other, own), (spfgen.asarray(own), other)):
            with pytest.raises(AssertionError):
                check(one, two)
    with pytest.raises(AssertionError, match="Mismatched elements: 12 / 12"):
        check(own, own + 1)
    with pytest.raises(ValueError, match="the truth value of several"):
        bool(own == own)


def test_memory() -> None:
    dask = pytest.importorskip("dask.sizeof")
    own = tensor()
    assert own.nbytes == sum(a.nbytes for a in own.arrays.values())
    assert own.nbytes < sys.getsizeof(own) < own.nbytes + 200
    assert dask.sizeof(own) == sys.getsizeof(own)
    assert sys.getsizeof(spfgen.asarray(own)) < 200


def test_arrays_that_are_read_from_a_file_are_not_copied(tmp_path) -> None:
    arrays = {}
    for name, array in tensor().arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
        arrays[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    own = spfgen.tensor("csr", shape=DENSE.shape, **arrays)
    again = spfgen.tensor("csr", shape=DENSE.shape, **{n: a.copy() for n, a in arrays.items()})
    for array in again.arrays.values():
        array.flags.writeable = False
    for made, given in ((own, arrays), (again, again.arrays)):
        assert all(np.shares_memory(made.arrays[n], given[n]) for n in given)
        assert all(np.shares_memory(made.T.arrays[n], given[m]) for n, m in zip(made.T.arrays, given, strict=True))
        assert np.array_equal(np.asarray(made + 2 * again), 3 * DENSE)
        assert np.array_equal(spfgen.evaluate("y[i] = A[i, j]", A=made), DENSE.sum(axis=1))
        scipys = made.to_scipy()
        assert np.shares_memory(scipys.data, given["val"])


# --- copies and pickles ---------------------------------------------------------------------------------------------

MINE = """layout mine(n) { relation { [p] -> [i] : 0 <= p < n and i = p }  value val[n] at [p] }"""


def test_copies() -> None:
    for own in (tensor(), tensor() + 1):
        near, far = copy.copy(own), copy.deepcopy([own, own])[0]
        assert near is not own
        assert near.arrays["val"] is own.arrays["val"]
        assert not np.shares_memory(far.arrays["val"], own.arrays["val"])
        assert all(np.array_equal(np.asarray(t), np.asarray(own)) and t.fill == own.fill for t in (near, far))
    lazy = spfgen.asarray(tensor()) * 2
    assert np.array_equal(np.asarray(copy.copy(lazy)), DENSE * 2)
    assert np.array_equal(np.asarray(copy.deepcopy(lazy)), DENSE * 2)


@pytest.mark.parametrize("layout", ["csr", "coo fill 3", "bcsr(R=2, C=3) fill nan", "dia", "mine", "dense"])
def test_a_pickle_holds_the_text_of_the_layout(layout: str) -> None:
    """So that versions read it in which layouts are other objects of Python."""
    handle = spfgen.parse(MINE).layouts["mine"] if layout == "mine" else layout
    own = xp.asarray(DENSE) if layout == "dense" else spfgen.pack(DENSE[:, 1] if layout == "mine" else DENSE, handle)
    assert not any(isinstance(p, type(own.layout)) for p in own.__reduce__()[1])
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(own, protocol))
        assert again.layout is pickle.loads(pickle.dumps(own)).layout
        assert again.layout == own.layout
        assert np.array_equal(np.asarray(again), np.asarray(own), equal_nan=True)
    lazy = pickle.loads(pickle.dumps(spfgen.asarray(own) + own))
    assert np.array_equal(np.asarray(lazy), np.asarray(own) * 2, equal_nan=True)


def test_pickles_of_other_versions_say_what_to_do() -> None:
    own = tensor()
    about, text = own.__reduce__()[1][:2]
    parts = dict(own.sizes), dict(own.arrays)
    with pytest.raises(DataError, match="that this version of spfgen reads, but its format is 9"):
        store.unpickled({**about, "format": 9}, text, *parts)
    with pytest.raises(DataError, match="a pickled tensor that this version of spfgen reads"):
        store.unpickled(about, text.replace("relation", "relations"), *parts)
    layout = object.__new__(type(own.layout))  # as pickle makes one, of which some fields were not yet there
    for name in ("name", "parameters"):
        object.__setattr__(layout, name, getattr(own.layout, name))
    with pytest.raises(DataError, match=r"another one did(.|\n)*Tensor\.save"):
        tensors._rebuilt(layout, *parts)
    assert np.array_equal(np.asarray(tensors._rebuilt(own.layout, *parts)), DENSE)  # as versions up to 0.2 wrote it


def test_tensors_of_an_earlier_import() -> None:
    script = """
import sys, pickle, numpy as np, spfgen
old, text = spfgen.pack(np.eye(3), "csr"), pickle.dumps(spfgen.pack(np.eye(3), "csr"))
lazy = spfgen.asarray(old)
for name in [n for n in sys.modules if n.partition(".")[0] == "spfgen"]:
    del sys.modules[name]
import spfgen
new = spfgen.pack(np.eye(3), "csr")
for use in (lambda: old + old, lambda: old + new, lambda: new + old, lambda: old @ np.ones(3), lambda: np.add(old, new),
            lambda: spfgen.asarray(old), lambda: lazy + spfgen.asarray(new), lambda: pickle.dumps(old),
            lambda: np.array_equal(old, new), lambda: spfgen.concatenate([old, new])):
    try:
        use()
    except Exception as error:  # of this import or of the other one
        assert type(error).__name__ == "UsageError", error
        assert "of an earlier one" in str(error) and "make the object anew" in str(error), error
    else:
        raise AssertionError
assert (pickle.loads(text) + new).nse == 3
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True)
    assert not done.returncode, done.stderr
