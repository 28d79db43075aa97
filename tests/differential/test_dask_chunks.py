"""dask.array with tensors as chunks gives what numpy gives of the whole, and keeps sparse what is sparse."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import spfgen

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
pytest.importorskip("spfgen.cluster.backend").register()

SHAPE, CHUNKS = (23, 17), (12, 9)
LAYOUTS = ("csr", "coo", "dcsr")
OF_PAIRS = {
    "matmul": (lambda a, x: a @ a.T, True),
    "dot": (lambda a, x: np.dot(a, a.T), True),
    "vector": (lambda a, x: a @ x, False),
    "tensordot": (lambda a, x: np.tensordot(a, a, ((1,), (1,))), True),
    "tensordot, negative": (lambda a, x: np.tensordot(a, a, ((-2,), (0,))), True),
    "tensordot of all": (lambda a, x: np.tensordot(a, a, 2), False),
    "outer": (lambda a, x: np.tensordot(a, a, 0), True),
    "tensordot, dense": (lambda a, x: np.tensordot(a, x, 1), False),
    "einsum": (lambda a, x: np.einsum("ij,kj->ik", a, a), True),
    "einsum, elementwise": (lambda a, x: np.einsum("ij,ij->ij", a, a), True),
    "einsum, sums": (lambda a, x: np.einsum("ij,ij->i", a, a), True),
    "einsum, a number": (lambda a, x: np.einsum("ij,ij->", a, a), False),
    "einsum, three": (lambda a, x: np.einsum("ij,kj,kl->il", a, a, a), True),
    "einsum, dense": (lambda a, x: np.einsum("ij,j->i", a, x), False),
    "einsum, dense first": (lambda a, x: np.einsum("j,ij->i", x, a), False),
}
OF_ONE = {
    "concatenate": (lambda a: np.concatenate([a, a], axis=1), True),
    "stack": (lambda a: np.stack([a, a]), True),
    "vstack": (lambda a: np.vstack([a, a]), True),
    "T": (lambda a: a.T, True),
    "+": (lambda a: a + 2 * a, True),
    "of values": (lambda a: np.sqrt(abs(a)), True),
    "slice": (lambda a: a[3:20:2, 1:], True),
    "row": (lambda a: a[4], True),
    "places": (lambda a: a[[3, 1, 20]], True),
    "take": (lambda a: np.take(a, [3, 16, 7], axis=1), True),
    "ravel": (lambda a: a.reshape(-1), True),
    "triu": (lambda a: np.triu(a), None),
    "where": (lambda a: np.where(a > 0, a, 0), True),
    "astype": (lambda a: a.astype("float32"), True),
    "clip": (lambda a: np.clip(a, -0.5, 0.5), True),
    "nonzero": (lambda a: np.nonzero(a)[1], False),
    "norm": (lambda a: np.linalg.norm(a), False),
    "fills": (lambda a: np.full_like(a, 3.0), True),
    "ones": (lambda a: np.ones_like(a, dtype="int64") + a, True),
}
REDUCTIONS = "sum prod max min mean any all std var argmax argmin".split()


@pytest.fixture(autouse=True)
def _in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def dense(seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    found = random.uniform(-1, 1, SHAPE)
    return np.where(random.random(SHAPE) < 0.3, found, 0.0)


def chunked(layout: str = "csr", array: np.ndarray | None = None):
    whole = dense() if array is None else array
    return da.from_array(whole, chunks=CHUNKS).map_blocks(spfgen.pack, layout, dtype=whole.dtype)


def agrees(found, wanted, sparse: bool | None) -> None:
    """Equal to what numpy gives; chunks and meta of the kind that is asked for."""
    kind = spfgen.Tensor if sparse else np.ndarray
    if sparse is not None and found.ndim:
        assert type(found._meta) is kind
    result = found.compute()
    if sparse is not None and found.ndim:
        assert type(result) is kind
    assert result.dtype == found.dtype
    np.testing.assert_allclose(np.asarray(result), wanted, atol=1e-12 if result.dtype != "float32" else 1e-6)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", OF_PAIRS)
@pytest.mark.sampled(6)
def test_products(name: str) -> None:
    function, sparse = OF_PAIRS[name]
    x = np.arange(SHAPE[1], dtype=float)
    wanted = function(dense(), x)
    agrees(function(chunked(), da.from_array(x, chunks=9)), wanted, sparse)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_of_layouts(layout: str) -> None:
    a, whole = chunked(layout), dense()
    agrees(a @ a.T, whole @ whole.T, True)
    agrees(da.tensordot(a, chunked("csc"), ((0,), (0,))), whole.T @ whole, True)


@pytest.mark.parametrize("name", OF_ONE)
def test_functions(name: str) -> None:
    function, sparse = OF_ONE[name]
    agrees(function(chunked()), function(dense()), sparse)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str) -> None:
    for axis in (None, 0, 1):
        agrees(getattr(da, name)(chunked(), axis=axis), getattr(np, name)(dense(), axis=axis), False)


def test_sums_of_products_stay_sparse() -> None:
    """A product of matrices with many rows: dense chunks would take 80 GB."""
    n = 100_000
    matrix = spfgen.pack(sparse.coo_array(([2.0, 3.0], ([0, n - 1], [3, n - 1])), shape=(n, n)), "csr")
    a = da.from_array(matrix, chunks=n // 2, asarray=False)
    for product in (a @ a, da.tensordot(a, a, 1), da.einsum("ij,jk->ik", a, a), da.dot(a, a)):
        found = product.compute()
        assert isinstance(found, spfgen.Tensor)
        assert (found.nnz, found[n - 1, n - 1]) == (1, 9.0)


def test_from_array() -> None:
    tensor = spfgen.pack(dense(), "csr")
    a = da.from_array(tensor, chunks=CHUNKS, asarray=False)
    agrees(a, dense(), True)
    agrees(a.map_blocks(lambda b: b.todense(), dtype=float), dense(), None)
    agrees(a.to_backend("numpy"), dense(), False)
    agrees(a.rechunk((23, 4)), dense(), True)
    assert "chunktype=spfgen.Tensor" in repr(a)


def test_overlaps() -> None:
    agrees(chunked().map_overlap(lambda b: 2 * b, depth=1, boundary="none", dtype=float), 2 * dense(), None)


def test_another_fill() -> None:
    whole = np.where(dense() == 0, 1.0, dense())
    tensor = spfgen.pack(whole, "csr", fill=1)
    a = da.from_array(tensor, chunks=CHUNKS, asarray=False)
    assert a._meta.fill_value == 1
    agrees(a, whole, True)
    agrees(a.sum(axis=0), whole.sum(axis=0), False)
    agrees(da.tensordot(a, a, ((1,), (1,))), whole @ whole.T, None)
    agrees(da.einsum("ij,kj->ik", a, a), whole @ whole.T, None)


def test_beside_a_tensor() -> None:
    tensor = spfgen.pack(dense(), "csr")
    for found in (tensor + chunked(), chunked() + tensor):
        agrees(found, 2 * dense(), None)
    agrees(tensor * da.from_array(dense(), chunks=CHUNKS), dense() ** 2, None)


def test_sizes_and_names() -> None:
    from dask.base import tokenize
    from dask.sizeof import sizeof

    for layout in ("csr", "coo", "dense", "ell"):
        tensor = spfgen.pack(dense(), layout)
        stored = sum(a.nbytes for a in tensor.arrays.values())
        assert tensor.nbytes == stored
        assert stored < sizeof(tensor) < stored + 1000
        entries = tensor.to_coo()
        assert sizeof(entries) > 24 * len(entries.values)
    tensor = spfgen.pack(dense(), "csr")
    assert tokenize(tensor) == tokenize(tensor.copy())
    assert len({tokenize(t) for t in (tensor, 2 * tensor, tensor.convert("csc"), tensor.convert("csr_unsorted"))}) == 4


@pytest.mark.exhaustive
def test_in_another_process() -> None:
    """Pickled with its arrays aside, and its product there: C goes as source, registration happens by itself."""
    tensor = spfgen.pack(dense(), "csr")
    aside: list[pickle.PickleBuffer] = []
    data = pickle.dumps(tensor, protocol=5, buffer_callback=aside.append)
    assert len(aside) == len(tensor.arrays)
    assert len(data) < 20_000
    code = """
        import pickle, sys
        data, aside = pickle.load(sys.stdin.buffer)
        T, function = pickle.loads(data, buffers=aside)
        import dask, dask.array as da
        a = da.from_array(T, chunks=(12, 9), asarray=False)
        found = da.tensordot(a, a, ((1,), (1,))).compute(scheduler="threads")
        y = function(A=T, x=[1.0] * 17)
        sys.stdout.buffer.write(pickle.dumps((found, y)))
    """
    function = spfgen.compile("y[i] = A[i,j]*x[j]", A="csr", x="dense")
    data = pickle.dumps((tensor, function), protocol=5, buffer_callback=(aside := []).append)
    sent = pickle.dumps((data, [bytes(b.raw()) for b in aside]))
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], input=sent, stdout=subprocess.PIPE, check=True)
    found, y = pickle.loads(done.stdout)
    assert type(found) is spfgen.Tensor
    np.testing.assert_allclose(found.to_numpy(), dense() @ dense().T, atol=1e-12)
    np.testing.assert_allclose(y, dense().sum(axis=1), atol=1e-12)


def test_dask_registers_what_setup_says() -> None:
    """The entry point imports nothing of dask.array, which is being imported when it is called."""
    code = """
        import configparser, importlib, pathlib, sys
        settings = configparser.ConfigParser()
        settings.read(pathlib.Path("setup.cfg"))
        _, _, target = settings["options.entry_points"]["dask.sizeof"].strip().partition(" = ")
        module, _, name = target.partition(":")
        function = getattr(importlib.import_module(module), name)
        assert not {"dask", "numpy"} & set(sys.modules), "the entry point is cheap"
        import dask.sizeof
        function(dask.sizeof.sizeof)
        assert "dask.array" not in sys.modules
        import numpy, spfgen
        tensor = spfgen.pack(numpy.eye(100), "csr")
        assert tensor.nbytes < dask.sizeof.sizeof(tensor) < tensor.nbytes + 1000
    """
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], cwd=root, check=True)
