"""Arrays of torch go in and out; jax's where it is installed."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import spfgen
from spfgen.errors import CopyWarning, DataError, UsageError
from tests.unit.run.test_arrays import agrees

DENSE = np.array([[1.0, 0, 2, 0], [0, 0, 0, 0], [0, 3, 0, 4]])


@pytest.fixture
def torch():
    found = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sparse tensors of torch are in beta, it says
        yield found


def forms(torch):
    whole = torch.from_numpy(DENSE)
    return whole, whole.to_sparse_coo(), whole.to_sparse_csr(), whole.to_sparse_csc(), whole.T.contiguous().T


def test_torch_in(torch) -> None:
    x = torch.arange(4.0, dtype=torch.float64)
    for one in forms(torch):
        agrees(spfgen.evaluate("y[i] = A[i, j]*x[j]", A=one, x=x), DENSE @ x.numpy())
        agrees(spfgen.pack(one, "dcsr"), DENSE)
        agrees(spfgen.pack(DENSE, "csr") + one, DENSE + DENSE)
        agrees(spfgen.asarray(one).T.compute(), DENSE.T)
        agrees(spfgen.flip(one), np.flip(DENSE))
        agrees(spfgen.einsum("ij,j", one, x), DENSE @ x.numpy())
    agrees(spfgen.pack(DENSE, "csr") @ x, DENSE @ x.numpy())
    twice = torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (2, 2))
    assert spfgen.pack(twice, "csr")[0, 1] == 3
    kernel = spfgen.compile("y[i] = A[i, j]*x[j]", A="csr", x="dense", y="dense")
    y = torch.zeros(3, dtype=torch.float64)
    kernel(A=forms(torch)[2], x=x, y=y)
    agrees(y.numpy(), DENSE @ x.numpy())


def test_torch_out(torch) -> None:
    for name, layout in [
        ("csr", torch.sparse_csr),
        ("csc", torch.sparse_csc),
        ("bcsr", None),
        ("ell", torch.sparse_coo),
    ]:
        tensor = spfgen.pack(DENSE, name)
        made = tensor.to_torch()
        assert layout in (None, made.layout)
        for one in (made, *(tensor.to_torch(form) for form in ("coo", "csr", "csc", "strided"))):
            agrees(one.to_dense().numpy(), DENSE)
    assert tensor.to_torch("csc").layout == torch.sparse_csc
    dense = spfgen.tensor("dense", val=DENSE)
    agrees(torch.from_dlpack(dense).numpy(), DENSE)
    assert torch.from_dlpack(dense).data_ptr() == dense.arrays["val"].ctypes.data
    with pytest.raises(UsageError, match="one of"):
        tensor.to_torch("ell")
    with pytest.raises(DataError, match="fill value"):
        (tensor + 1).to_torch("coo")


def test_what_is_wrong_with_torch(torch) -> None:
    with pytest.raises(DataError, match=r"detach\(\)"):
        spfgen.pack(torch.ones(3, requires_grad=True), "sv")
    with pytest.raises(DataError, match="to_sparse_coo"):
        spfgen.pack(torch.ones(4, 4).to_sparse_bsr((2, 2)), "csr")


def test_jax_has_32_bits() -> None:
    """What jax would cut is refused, or said where it is rounded."""
    pytest.importorskip("jax")
    far = spfgen.pack((np.array([[5, 10**11], [1, 2]]), np.array([1.0, 2.0])), "coo", shape=(10**12, 4))
    with pytest.raises(DataError, match=r"coordinates that fit int32, but there is 100000000000(.|\n)*enable_x64"):
        far.to_jax()
    with pytest.raises(DataError, match="values that fit int32"):
        spfgen.pack(np.array([[2**40 + 3, 7]]), "csr").to_jax()
    with pytest.warns(CopyWarning, match="rounded to float32") as warned:
        spfgen.pack(np.array([[1e-300, 1.0]]), "csr").to_jax()
    assert warned[0].filename == __file__
    small = spfgen.pack(np.array([[2**31 - 1, 0, 7]]), "csr").to_jax()
    assert sorted(np.asarray(small.data).tolist()) == [7, 2**31 - 1]


def test_other_forms_of_jax() -> None:
    jax = pytest.importorskip("jax")
    from jax.experimental import sparse

    dense = DENSE.astype(np.float32)
    agrees(spfgen.pack(sparse.BCSR.fromdense(dense, nse=6), "csr"), dense)
    agrees(spfgen.evaluate("y[i] = A[i, j]", A=sparse.BCSR.fromdense(dense)), dense.sum(1))
    with pytest.raises(DataError, match=r"without batch and dense(.|\n)*fromdense"):
        spfgen.pack(sparse.BCOO.fromdense(dense, n_batch=1), "csr")
    with pytest.raises(DataError, match=r"jax traces it(.|\n)*outside of jax.jit"):
        jax.jit(lambda v: spfgen.evaluate("y[i] = A[i, j]*x[j]", A=dense, x=v))(np.ones(4, np.float32))


def test_a_tensor_of_an_earlier_import() -> None:
    earlier = type("Tensor", (), {"__module__": "spfgen.run.tensor"})()
    for use in (lambda: spfgen.evaluate("y[i] = A[i, j]", A=earlier), lambda: spfgen.pack(earlier, "csr"),
                lambda: spfgen.einsum("ij->i", earlier), lambda: spfgen.pack(DENSE, earlier)):  # fmt: skip
        with pytest.raises(UsageError, match=r"of an earlier one(.|\n)*make the object anew"):
            use()


def test_jax() -> None:
    pytest.importorskip("jax")
    from jax.experimental import sparse

    tensor = spfgen.pack(DENSE, "csr")
    made = tensor.to_jax()
    agrees(np.asarray(made.todense()), DENSE.astype(made.dtype))
    agrees(spfgen.pack(sparse.BCOO.fromdense(DENSE), "csr"), DENSE.astype(made.dtype))


def test_without_them(monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    monkeypatch.setitem(__import__("sys").modules, "jax.experimental", None)
    tensor = spfgen.pack(DENSE, "csr")
    with pytest.raises(UsageError, match="torch to be installed"):
        tensor.to_torch()
    with pytest.raises(UsageError, match="jax to be installed"):
        tensor.to_jax()
