"""Libraries that take arrays of the array API standard, with tensors inside; each where it is installed."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import spfgen
import spfgen.array as xp

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


def test_anndata() -> None:
    anndata = pytest.importorskip("anndata")
    data = anndata.AnnData(tensor().to_scipy())
    assert np.array_equal(np.asarray(spfgen.pack(data.X, "csr")), DENSE)


def test_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame.sparse.from_spmatrix(sp.csr_matrix(tensor().to_scipy()))
    assert np.array_equal(np.asarray(spfgen.pack(frame.sparse.to_coo(), "csr")), DENSE)
    assert np.array_equal(np.asarray(spfgen.pack(sp.coo_array(frame.to_numpy()), "csr")), DENSE)
