"""What users do to tensors, kernels and folders: errors that say what to do, never a wrong result or a traceback."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
import zipfile

import numpy as np
import pytest

import spfgen
from spfgen.errors import DataError, SpfgenError, UsageError
from spfgen.run import cache

FAR = 10**9


@pytest.fixture
def matrix():
    return spfgen.tensor("csr", shape=(3, 4), rowptr=np.array([0, 1, 2, 3]), colidx=np.array([0, 1, 2]), val=np.ones(3))


@pytest.fixture(scope="module")
def product():
    return spfgen.compile("y[i] = A[i, j]*x[j]", A="csr", x="dense", y="dense", threads=1)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
def test_changed_copy(matrix, product, copied):
    other = copied(matrix)
    other.arrays["colidx"][2] = FAR
    with pytest.raises(DataError):
        product(A=other, x=np.ones(4))
    assert product(A=matrix, x=np.ones(4)).tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("colidx", np.array([0, 1, FAR])),
        ("val", np.ones(1)),
        ("val", np.ones(6)[::2]),
        ("colidx", np.zeros(3)),
        ("val", [1.0, 1.0, 1.0]),
    ],
)
def test_exchanged_array(matrix, product, name, array):
    assert product(A=matrix, x=np.ones(4)).tolist() == [1, 1, 1]
    matrix.arrays[name] = array
    with pytest.raises(DataError):
        product(A=matrix, x=np.ones(4))


def test_resized_array(matrix, product):
    product(A=matrix, x=np.ones(4))
    matrix.arrays["val"].resize(1, refcheck=False)
    with pytest.raises(DataError, match="with shape"):
        product(A=matrix, x=np.ones(4))


@pytest.mark.parametrize("export", ["to_numpy", "to_coo", "to_scipy"])
def test_export_of_changed_tensor(matrix, export):
    matrix.arrays["colidx"][2] = FAR
    with pytest.raises(DataError):
        getattr(matrix, export)()


def test_pattern_that_is_not_shared():
    text = "kernel k { tensor A : csr  tensor C : csr shares A on i, j  C[i, j] = 2*A[i, j] }"
    double = spfgen.parse(text).kernels["k"].compile(threads=1)
    parts = {"rowptr": np.array([0, 2, 3]), "colidx": np.array([0, 2, 1]), "val": np.array([1.0, 2.0, 3.0])}
    first = spfgen.tensor("csr", shape=(2, 3), **parts)
    other = spfgen.tensor("csr", shape=(2, 3), **{**parts, "colidx": np.array([0, 1, 1]), "val": np.zeros(3)})
    with pytest.raises(DataError, match="to share `colidx` of `A`"):
        double(A=first, C=other)
    equal = spfgen.tensor("csr", shape=(2, 3), **{n: a.copy() for n, a in parts.items()})
    double(A=first, C=equal)
    assert equal.arrays["val"].tolist() == [2, 4, 6]


def test_value_arrays_of_an_output_that_overlap():
    spec = spfgen.parse("""
        layout two(n) {
            relation { [part, a] -> [i] : 0 <= part < 2 and 0 <= a < n and i = 2*a + part and i < n }
            value even[n] at [a] when part = 0
            value odd[n] at [a] when part = 1
        }
        kernel k { tensor x : dense  tensor y : two  y[i] = 2*x[i] }
    """)
    one = np.zeros(4)
    out = spfgen.tensor(spec.layouts["two"], shape=4, even=one, odd=one)
    with pytest.raises(DataError, match="overlaps"):
        spec.kernels["k"].compile(threads=1)(x=np.ones(4), y=out)


@pytest.mark.parametrize(("name", "text"), [("spfgen.npy", "[" * 100000), ("spfgen.npy", '{"format": 1e400}')])
def test_damaged_text(matrix, tmp_path, name, text):
    with pytest.raises(DataError, match="cannot be read"):
        spfgen.load_tensor(_with_entry(matrix, tmp_path, name, np.array(text)))


def test_entry_that_says_it_is_huge(matrix, tmp_path):
    file = tmp_path / "a.npz"
    matrix.save(file)
    with zipfile.ZipFile(file) as whole:
        entries = {n: whole.read(n) for n in whole.namelist()}
    huge = entries["array.colidx.npy"].replace(b"(3,), }           ", b"(90000000000,), } ")[:]
    assert huge != entries["array.colidx.npy"]
    with zipfile.ZipFile(file, "w") as damaged:
        for name, data in {**entries, "array.colidx.npy": huge}.items():
            damaged.writestr(name, data)
    with pytest.raises(DataError, match="damaged"):
        spfgen.load_tensor(file)


def _with_entry(matrix, folder, name, value):
    file = folder / "a.npz"
    matrix.save(file)
    with np.load(file) as whole:
        entries = {n: whole[n] for n in whole}
    np.savez(file, **{**entries, name.removesuffix(".npy"): value})
    return file


def test_cache_folder_of_nobody(monkeypatch):
    monkeypatch.delenv("SPFGEN_CACHE", raising=False)
    monkeypatch.setenv("SPFGEN_CACHE_DIR", "~nosuchuser-of-this-machine/x")
    assert "cannot be found" in cache.where().problem


def test_cache_folder_of_a_group(monkeypatch, tmp_path):
    monkeypatch.delenv("SPFGEN_CACHE", raising=False)
    monkeypatch.setenv("SPFGEN_CACHE_DIR", str(tmp_path))
    tmp_path.chmod(0o770)
    assert "others may write" in cache.where().problem
    tmp_path.chmod(0o700)
    assert not cache.where().problem


def test_pickled_kernel(matrix, product):
    again = pickle.loads(pickle.dumps(product))
    assert again(A=matrix, x=np.ones(4)).tolist() == [1, 1, 1]
    assert again.threads == product.threads


def test_pickled_after_a_call(matrix, product):
    product(A=matrix, x=np.ones(4))
    assert copy.deepcopy(product)(A=matrix, x=np.ones(4)).tolist() == [1, 1, 1]


def test_operands_by_position(matrix, product):
    with pytest.raises(UsageError, match="by name"):
        product(matrix, np.ones(4))
    with pytest.raises(UsageError, match="by name"):
        product.bind(matrix, np.ones(4))


def test_operand_called_sizes(matrix):
    kernel = spfgen.compile("y[i] = A[i, j]*sizes[j]", A="csr", sizes="dense", y="dense", threads=1)
    with pytest.raises(UsageError, match="`sizes` is a"):
        kernel(A=matrix, sizes=np.ones(4))


class _WithGradient:
    """As tensors of torch behave."""

    requires_grad = True

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")


def test_tensor_with_gradients(matrix, product):
    with pytest.raises(DataError, match="without gradients") as error:
        product(A=matrix, x=_WithGradient())
    assert "x.detach()" in str(error.value)


def test_index_arrays_that_spfgen_made_are_read_only(matrix):
    coords, values = (np.array([0, 1], dtype=np.int64), np.array([1, 0], dtype=np.int64)), np.ones(2)
    for made in (matrix.convert("csc"), matrix.convert("csr"), spfgen.pack((coords, values), "coo", shape=(2, 2))):
        for index in made.layout.indexes:
            assert not made.arrays[index.name].flags.writeable
        assert all(made.arrays[v.name].flags.writeable for v in made.layout.values)
    assert all(a.flags.writeable for a in (*matrix.arrays.values(), *coords, values))


def test_shared_patterns_are_compared_once(monkeypatch):
    text = "kernel k { tensor A : csr  tensor C : csr shares A on i, j  C[i, j] = 2*A[i, j] }"
    spec = spfgen.parse(text).kernels["k"]
    parts = {"rowptr": np.array([0, 2, 3]), "colidx": np.array([0, 2, 1])}
    first = spfgen.tensor("csr", shape=(2, 3), **parts, val=np.ones(3))
    second = spfgen.tensor("csr", shape=(2, 3), **{n: a.copy() for n, a in parts.items()}, val=np.zeros(3))
    same = spfgen.tensor("csr", shape=(2, 3), **parts, val=np.zeros(3))
    compared = []
    monkeypatch.setattr(np, "array_equal", lambda a, b: compared.append(a) or bool((a == b).all()))
    for validate, count in (("once", 2), ("always", 6), ("never", 0)):
        double = spec.compile(threads=1, validate=validate)
        compared.clear()
        for other in (second, second, second, same):
            double(A=first, C=other)
        assert len(compared) == count
    second.arrays["colidx"][:] = [1, 2, 1]
    with pytest.raises(DataError, match="to share `colidx` of `A`"):
        spec.compile(threads=1)(A=first, C=second)


@pytest.mark.parametrize("use", [spfgen.Tensor.validate, spfgen.Tensor.to_coo, lambda t: t.convert("csc")])
@pytest.mark.parametrize(
    ("name", "array"), [("colidx", [0, 1, 2]), ("colidx", np.zeros(3)), ("val", np.ones(2)), ("val", np.ones(3, ">f8"))]
)
def test_use_of_an_exchanged_array(matrix, use, name, array):
    matrix.arrays[name] = array
    with pytest.raises(DataError):
        use(matrix)


def test_a_changed_tensor_is_not_saved(matrix, tmp_path):
    matrix.arrays["colidx"][2] = FAR
    with pytest.raises(DataError, match="colidx"):
        matrix.save(tmp_path / "a.npz")


def test_an_output_with_an_exchanged_array(matrix):
    double = spfgen.compile("B[i, j] = 2*A[i, j]", A="csr", B="dense", threads=1)
    target = spfgen.tensor("dense", shape=(3, 4), val=np.zeros((3, 4)))
    target.arrays["val"] = [[0.0] * 4] * 3
    with pytest.raises(DataError, match="expected `val` to be an array of numpy"):
        double(A=matrix, B=target)


def test_arrays_in_a_file_that_is_mapped(matrix, product, tmp_path):
    """As joblib hands large arrays to other processes."""
    np.save(tmp_path / "val.npy", matrix.arrays["val"])
    matrix.arrays["val"] = np.load(tmp_path / "val.npy", mmap_mode="r")
    assert product(A=pickle.loads(pickle.dumps(matrix)), x=np.ones(4)).tolist() == [1, 1, 1]
    assert product(A=matrix, x=np.ones(4)).tolist() == [1, 1, 1]


def test_a_bound_kernel_keeps_the_arrays_that_it_reads(matrix, product):
    bound = product.bind(A=matrix, x=np.ones(4))
    values = weakref.ref(matrix.arrays["val"])
    matrix.arrays["val"] = np.zeros(3)
    gc.collect()
    assert values() is not None
    bound()


@pytest.mark.parametrize("name", ["threads", "schedule", "order", "finds", "optimize", "validate", "name"])
def test_a_tensor_with_the_name_of_a_setting(name):
    with pytest.raises(SpfgenError, match=f"`{name}` is a setting of compile"):
        spfgen.compile(f"y[i] = {name}[i]", y="dense", **{name: "dense"})
    kernel = spfgen.parse(f"kernel k {{ tensor {name}, y : dense  y[i] = 2*{name}[i] }}").kernels["k"].compile()
    assert kernel(**{name: np.ones(2)}).tolist() == [2, 2]


@pytest.mark.parametrize("name", ["sizes", "threads", "validate"])
def test_an_operand_with_the_name_of_a_setting(name):
    with pytest.raises(SpfgenError, match="expected"):
        spfgen.evaluate(f"y[i] = {name}[i]", **{name: np.ones(2)})


def test_operands_and_layouts_by_position():
    with pytest.raises(SpfgenError, match="by position"):
        spfgen.evaluate("y[i] = x[i]", np.ones(2))
    with pytest.raises(SpfgenError, match="by position"):
        spfgen.compile("y[i] = x[i]", "dense", "dense")


@pytest.mark.parametrize("odd", ["folder", "link"])
def test_an_odd_lock_in_the_cache(odd, tmp_path, monkeypatch):

    monkeypatch.setenv("SPFGEN_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("SPFGEN_CACHE", raising=False)
    tmp_path.chmod(0o700)
    key = "a" * 64
    lock = tmp_path / f"{key}.lock"
    if odd == "folder":
        (lock / "inside").mkdir(parents=True)
    else:
        lock.symlink_to(tmp_path / "nothing" / "there")
    assert cache.fetch(key, lambda file: file.write_bytes(b"object") and None).read_bytes() == b"object"
