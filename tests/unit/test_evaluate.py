"""spfgen.evaluate takes operands as they are: their layouts are found, what scipy allows comes out right."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings
from copy import deepcopy
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, settings
from hypothesis import given as drawn
from hypothesis import strategies as st
from scipy import special

import spfgen
from spfgen.errors import CopyWarning, DataError, SpecError, UsageError
from spfgen.run.calls import evaluate as module
from spfgen.run.calls.detect_layout import tensor_of

SPMV = "y[i] = A[i, j]*x[j]"
X = np.arange(1.0, 7.0)


def matrix(form: str = "csr", kind: str = "array") -> sp.sparray:
    made = sp.random_array((6, 6), density=0.5, rng=np.random.default_rng(1))
    made = made.tocsr().tobsr((3, 2)) if form == "bsr" else made.asformat(form)
    return made if kind == "array" else getattr(sp, f"{form}_matrix")(made)


@pytest.fixture(autouse=True)
def no_copies() -> None:
    """A copy that is not expected is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", CopyWarning)
        yield


# --- layouts of operands -------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize(
    ("form", "layout", "attributes"),
    [
        ("csr", "csr", ["indptr", "indices", "data"]),
        ("csc", "csc", ["indptr", "indices", "data"]),
        ("coo", "coo_unsorted", ["row", "col", "data"]),
        ("bsr", "bcsr", ["indptr", "indices", "data"]),
        ("dia", "dia", ["offsets", "data"]),
        ("dok", "csr", []),
        ("lil", "csr", []),
    ],
)
def test_scipy(form, layout, attributes, kind) -> None:
    given = matrix(form, kind)
    own = [getattr(given, a) for a in attributes]
    found = tensor_of(given, "A")
    assert found.layout.name == layout
    assert not own or all(any(np.shares_memory(a, o) for o in own) for a in found.arrays.values())
    assert np.allclose(spfgen.evaluate(SPMV, A=given, x=X, threads=1), matrix() @ X)


def test_the_size_of_blocks_is_read_from_the_arrays() -> None:
    given = matrix("bsr")
    assert tensor_of(given, "A").layout.constants == (("R", 3), ("C", 2))
    other = given.tobsr((2, 3))
    assert tensor_of(other, "A").layout.constants == (("R", 2), ("C", 3))
    assert np.allclose(spfgen.evaluate(SPMV, A=other, x=X), matrix() @ X)


def test_numpy() -> None:
    dense = matrix().toarray()
    for given, layout in ((dense, "dense"), (np.asfortranarray(dense), "dense_col"), (dense[::2, ::2], "dense")):
        found = tensor_of(given, "A")
        assert found.layout.name == layout
        assert np.shares_memory(found.arrays["val"], given) == (given.shape == (6, 6))
        assert np.allclose(spfgen.evaluate(SPMV, A=given, x=X[: len(given)]), given @ X[: len(given)])
    assert np.allclose(spfgen.evaluate(SPMV, A=dense.tolist(), x=X.tolist()), dense @ X)
    assert np.allclose(spfgen.evaluate(SPMV, A=dense.view(np.recarray), x=X.astype(">f8")), dense @ X)


def test_index_types_are_those_of_the_arrays() -> None:
    for pointer, column in (("int32", "int64"), ("int64", "int32"), ("int64", "int64")):
        given = matrix()
        given.indptr, given.indices = given.indptr.astype(pointer), given.indices.astype(column)
        found = tensor_of(given, "A")
        assert [found.arrays[a].dtype.name for a in ("rowptr", "colidx")] == [pointer, column]
        assert np.shares_memory(found.arrays["colidx"], given.indices)
        assert np.allclose(spfgen.evaluate(SPMV, A=given, x=X, threads=1), given @ X)


def test_spfgen_tensors() -> None:
    layout = spfgen.parse(
        "layout rowbe(nrow, ncol) { size nnz\n relation { [pi, pj] -> [i, j] : 0 <= pi < nrow and "
        "rbeg(pi) <= pj < rend(pi) and i = pi and j = colidx(pj) }\n index rbeg[nrow] { range 0 <= rbeg(p) <= nnz }\n"
        "index rend[nrow] { range 0 <= rend(p) <= nnz }\n index colidx[nnz] { range 0 <= colidx(p) < ncol }\n"
        "value val[nnz] at [pj] }"
    ).layouts["rowbe"]
    given = spfgen.tensor(layout, shape=(2, 6), rbeg=[1, 0], rend=[3, 1], colidx=[5, 0, 1], val=[1.0, 2.0, 3.0])
    assert spfgen.evaluate(SPMV, A=given, x=X).tolist() == [8.0, 6.0]


@pytest.mark.parametrize("form", ["COO", "GCXS"])
def test_pydata_sparse_by_its_attributes(form) -> None:
    """Without the package: what is used of its arrays is shape, coords, data, fill_value and tocoo."""
    kind = type(form, (SimpleNamespace,), {"__module__": "sparse.numba_backend._coo"})
    dense = matrix().toarray()
    made = kind(shape=(6, 6), coords=np.array(np.nonzero(dense)), data=dense[np.nonzero(dense)], fill_value=0.0)
    given = made if form == "COO" else kind(fill_value=0.0, shape=(6, 6), tocoo=lambda: made)
    assert np.allclose(spfgen.evaluate(SPMV, A=given, x=X, threads=1), dense @ X)
    made.fill_value = given.fill_value = 1.0
    packed = spfgen.pack(given, "csr")
    assert packed.fill == 1
    assert np.array_equal(packed.to_numpy(), np.where(dense == 0, 1, dense))
    with pytest.raises(DataError, match="`A` with the fill value 0, but it is 1"):
        spfgen.compile(SPMV, A="csr", x="dense", y="dense")(A=given, x=X)


# --- what scipy allows ---------------------------------------------------------------------------------


def unsorted(form: str) -> sp.sparray:
    """The matrix [[3, 0, 1], [0, 0, 0], [0, 5, 0], [7, 0, 0]], or its like, with parts out of order and doubled."""
    if form == "coo":
        rows, columns = np.array([3, 0, 2, 0, 0, 1]), np.array([0, 2, 1, 0, 0, 1])
        return sp.coo_array((np.array([7.0, 1, 5, 1, 2, 0]), (rows, columns)), shape=(4, 3))
    if form == "bsr":
        data = np.array([[[0.0, 1.0]], [[1.0, 0.0]], [[2.0, 0.0]], [[0.0, 5.0]]])
        return sp.bsr_array((data, np.array([1, 0, 0, 0]), np.array([0, 3, 3, 4, 4])), shape=(4, 4))
    made = getattr(sp, f"{form}_array")
    data, indices, indptr = np.array([1.0, 1, 2, 0, 5, 7]), np.array([2, 0, 0, 1, 1, 0]), np.array([0, 4, 4, 5, 6])
    return made((data, indices, indptr), shape=(4, 3) if form == "csr" else (3, 4))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr"])
@pytest.mark.parametrize("flags", [None, True])
def test_unsorted_duplicates_zeros_and_stale_flags(form, flags, kind) -> None:
    given = unsorted(form)
    if kind == "matrix":
        given = getattr(sp, f"{form}_matrix")(given)
    if flags:
        for name in ("has_sorted_indices", "has_canonical_format"):
            if hasattr(given, name):
                setattr(given, name, True)
    found = tensor_of(given, "A")
    assert found.layout.name.endswith("_unsorted")
    assert np.shares_memory(found.arrays["val"], given.data)
    before = given.data.copy()
    dense = given.toarray()
    x = np.arange(1.0, 1 + given.shape[1])
    for threads in (1, 3):
        assert spfgen.evaluate(SPMV, A=given, x=x, threads=threads).tolist() == (dense @ x).tolist()
    squared = spfgen.evaluate("C[i, j] = A[i, j]*A[i, j]", A=given)
    assert squared.tolist() == (dense * dense).tolist(), "entries of one place are added before they are squared"
    assert np.array_equal(given.data, before)


def test_sorted_arrays_whose_flags_say_nothing() -> None:
    given = matrix()
    given.has_sorted_indices = given.has_canonical_format = False
    assert tensor_of(given, "A").layout.name == "csr"


def test_arrays_that_grow_beyond_their_entries_are_copied_with_a_warning() -> None:
    given = matrix()
    given.indices, given.data = np.append(given.indices, [0, 0]), np.append(given.data, [9.0, 9.0])
    with pytest.warns(CopyWarning, match="`A` is copied(.|\n)*rowptr") as warned:
        assert np.allclose(spfgen.evaluate(SPMV, A=given, x=X), matrix() @ X)
    assert len(given.indices) == matrix().nnz + 2
    assert warned[0].filename == __file__


@pytest.mark.parametrize("width", [4, 9])
def test_diagonals_of_another_length(width) -> None:
    given = sp.dia_array((np.ones((2, width)), np.array([0, 1])), shape=(6, 6))
    with pytest.warns(CopyWarning, match="`A`"):
        assert np.allclose(spfgen.evaluate(SPMV, A=given, x=X), given @ X)


def test_values_and_indices_changed_between_calls() -> None:
    given, x = sp.csr_array(np.eye(3)), np.array([1.0, 2.0, 3.0])
    assert spfgen.evaluate(SPMV, A=given, x=x).tolist() == [1, 2, 3]
    given.data[:] = 2
    x[0] = 5
    assert spfgen.evaluate(SPMV, A=given, x=x).tolist() == [10, 4, 6]
    given.indptr[:] = [0, 3, 3, 3]
    given.indices[:] = [2, 0, 2]
    assert spfgen.evaluate(SPMV, A=given, x=x).tolist() == [22, 0, 0]
    given.sum_duplicates()
    assert spfgen.evaluate(SPMV, A=given, x=x).tolist() == [22, 0, 0]
    given.indices[0] = 3
    with pytest.raises(DataError, match="`A`"):
        spfgen.evaluate(SPMV, A=given, x=x)


@pytest.mark.parametrize("attribute", ["indices", "indptr", "coords", "offsets"])
@pytest.mark.parametrize("value", [-1, 6, 2**31 - 1])
def test_indices_out_of_range(attribute, value) -> None:
    form = {"indices": "csr", "indptr": "csc", "coords": "coo", "offsets": "dia"}[attribute]
    given = matrix(form)
    array = getattr(given, attribute)
    array = array[0] if attribute == "coords" else array
    if attribute == "offsets":
        array[:2] = array[1]
    else:
        array[2] = value * (100 if attribute == "indptr" and 0 < value < 100 else 1)
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if attribute == "offsets":
                assert spfgen.evaluate(SPMV, A=given, x=X).shape == (6,)  # two diagonals at one place add up
            else:
                with pytest.raises(DataError, match="`A`"):
                    spfgen.evaluate(SPMV, A=given, x=X)


# --- targets and sizes ---------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["bool", "int8", "uint8", "int32", "float32"])
def test_a_sum_has_the_type_that_numpy_gives_it(kind) -> None:
    """Written sums are those of numpy.sum; implied ones keep the type, as those of numpy.einsum do."""
    x = np.full(5, 100).astype(kind)
    for text, wanted in {
        "s = sum(i: x[i])": x.sum(),
        "s = sum(i: x[i]*x[i])": np.sum(x * x),
        "s = sum(i: abs(x[i]))": x.sum(),
        "s = x[i]": np.einsum("i->", x),
    }.items():
        found = spfgen.evaluate(text, x=x)
        assert (found, found.dtype) == (wanted, wanted.dtype), text


def test_each_result_has_a_type_of_its_own() -> None:
    m, x = np.array([True, False]), np.array([1.5, 2.5])
    found = spfgen.evaluate("y[i] = m[i]; z[i] = x[i]*m[i]", m=m, x=x)
    assert found["y"].dtype == bool
    assert found["z"].dtype == x.dtype


@pytest.mark.parametrize("text", ["x[i] = max(x[i], 2)", "x[i] = x[i]*2 + 1", "x[i] += abs(x[i])"])
@pytest.mark.parametrize("kind", ["int32", "uint8", "float32"])
def test_a_result_that_is_read_counts_with_its_own_type(text, kind) -> None:
    x = np.array([1, 3, 2], kind)
    wanted = {"max": np.maximum(x, 2), "x[i] =": x * 2 + 1, "x[i] +=": x + x}
    spfgen.evaluate(text, x=x)
    assert np.array_equal(x, next(v for k, v in wanted.items() if k in text))


def test_targets_that_are_given() -> None:
    a, y = matrix(), np.ones(6)
    assert spfgen.evaluate("y[i] += A[i, j]*x[j]", A=a, x=X, y=y) is y
    assert np.allclose(y, 1 + a @ X)
    turned = np.zeros((6, 6), order="F")
    assert spfgen.evaluate("C[i, j] = 2*A[i, j]", A=a, C=turned) is turned
    assert np.allclose(turned, 2 * a.toarray())
    pattern = sp.csr_array(np.eye(6))
    assert spfgen.evaluate("C[i, j] = A[i, j] within C", A=a.toarray(), C=pattern) is pattern
    assert np.allclose(pattern.toarray(), np.diag(a.diagonal()))
    blocks = matrix("bsr")
    values = blocks.toarray()
    spfgen.evaluate("C[i, j] += C2[i, j]", C=blocks, C2=values)
    assert np.allclose(blocks.toarray(), 2 * values)
    for wrong, words in ((np.zeros(12)[::2], "contiguous"), ([0.0] * 6, "list"), (unsorted("csr"), "`y`")):
        with pytest.raises(DataError, match=words):
            spfgen.evaluate(SPMV, A=a, x=X, y=wrong)
    with pytest.raises(DataError, match=r"`C`(.|\n)*colidx"):
        spfgen.evaluate("C[i, j] = A[i, j]", A=unsorted("csr").toarray(), C=unsorted("csr"))


@pytest.mark.parametrize("number", ["inf", "-inf", "nan", "1e400"])
def test_numbers_that_are_not_finite(number) -> None:
    np.testing.assert_array_equal(spfgen.evaluate(f"y[i] = {number}*x[i]", x=X), float(number) * X)


def test_several_results_scalars_and_sizes() -> None:
    results = spfgen.evaluate("s = A[i, j]*x[j]\n d[i] = a*A[i, i]", A=matrix(), x=X, a=2)
    assert np.isclose(results["s"], (matrix() @ X).sum())
    assert isinstance(results["s"], np.float64)
    assert np.allclose(results["d"], 2 * matrix().diagonal())
    assert spfgen.evaluate("y[i] = a", a=1.5, sizes={"i": 2}).tolist() == [1.5, 1.5]


@pytest.mark.parametrize(
    ("statements", "operands", "kind", "words"),
    [
        (SPMV, {"A": matrix()}, UsageError, ["`x`", "missing"]),
        (SPMV, {"A": matrix(), "x": X, "z": X}, UsageError, ["`z`", "A, x, y"]),
        (SPMV, {"A": X, "x": X}, DataError, ["`A` with 2 dimensions", "has 1"]),
        (SPMV, {"A": matrix(), "x": X[:5]}, DataError, ["A.ncol is 6", "x.n_1 is 5"]),
        (SPMV, {"A": matrix(), "x": 2.0}, DataError, ["`x`", "1 dimension"]),
        (SPMV, {"A": matrix(), "x": "x"}, DataError, ["`x`", "numbers"]),
        (SPMV, {"A": matrix(), "x": X.astype(np.float16)}, DataError, ["`x`", "float16", "complex128"]),
        (SPMV, {"A": matrix(), "x": X.astype(np.longdouble)}, DataError, ["`x`", "complex128"]),
        (SPMV, {"A": matrix(), "x": np.ma.array(X, mask=X > 2)}, DataError, ["`x`", "masked"]),
        (SPMV, {"A": matrix(), "x": X, "validate": "no"}, UsageError, ["'once', 'always', 'never'"]),
        (SPMV, {"A": matrix(), "x": X, "threads": 0}, UsageError, ["threads"]),
        ("y[i] = A[i, j", {"A": matrix()}, SpecError, ["<expression>:1:"]),
        (3, {}, UsageError, ["int"]),
    ],
)
def test_what_is_refused(statements, operands, kind, words) -> None:
    with pytest.raises(kind) as caught:
        spfgen.evaluate(statements, **operands)
    for word in words:
        assert word in str(caught.value)


# --- calls ---------------------------------------------------------------------------------------------


def test_a_kernel_is_made_once(monkeypatch) -> None:
    made = []
    real = module.made
    monkeypatch.setattr(module, "made", lambda *a, **k: made.append(1) or real(*a, **k))
    text = "y[i] = A[i, j]*x[j] - 2*x[i]"
    for _ in range(3):
        for given in (matrix(), matrix("coo"), matrix().toarray()):
            assert np.allclose(spfgen.evaluate(text, A=given, x=X), matrix() @ X - 2 * X)
    assert len(made) == 3


def test_equal_layouts_share_a_kernel(monkeypatch, tmp_path) -> None:
    made = []
    real = module.made
    monkeypatch.setattr(module, "made", lambda *a, **k: made.append(1) or real(*a, **k))
    text = "layout mine(n) { relation { [p] -> [i] : 0 <= p < n and i = p } value val[n] at [p] }"
    tensors = [spfgen.tensor(spfgen.parse(text).layouts["mine"], val=X) for _ in range(3)]
    tensors[0].save(tmp_path / "t.npz")
    tensors += [spfgen.load_tensor(tmp_path / "t.npz"), pickle.loads(pickle.dumps(tensors[0])), deepcopy(tensors[1])]
    for tensor in tensors:
        assert spfgen.evaluate("y[i] = 3*x[i]", x=tensor).tolist() == (3 * X).tolist()
    assert len(made) == 1


def test_dimensions_of_scipy() -> None:
    """One and three, where scipy has them."""
    vector = sp.coo_array(np.array([0.0, 1.0, 0.0, 2.0]))
    for form in ("coo", "csr", "dok"):
        assert spfgen.evaluate("s = x[i]*x[i]", x=vector.asformat(form)) == 5.0
    cube = np.arange(24.0).reshape(2, 3, 4)
    assert np.array_equal(spfgen.evaluate("y[k] = A[i, j, k]", A=sp.coo_array(cube)), cube.sum(axis=(0, 1)))


def test_a_call_that_was_made_before_needs_no_solver() -> None:
    code = """
import sys, numpy as np, scipy.sparse as sp, spfgen
A, x = sp.eye_array(3, format="csr"), np.ones(3)
spfgen.evaluate("y[i] = A[i, j]*x[j]", A=A, x=x)
for name in ("islpy", "z3", "sympy", "lark"):
    for module in [m for m in sys.modules if m.split(".")[0] == name]:
        sys.modules[module] = None
print(spfgen.evaluate("y[i] = A[i, j]*x[j]", A=A, x=x))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[1. 1. 1.]"


def test_several_threads_of_python_at_once(tmp_path) -> None:
    """With nothing in the cache all of them ask Z3, which answers one at a time."""
    code = """
import concurrent.futures as futures
import numpy as np, scipy.sparse as sp, spfgen
made = sp.random_array((30, 20), density=0.2, rng=np.random.default_rng(0))
matrices, x = [made.asformat(f) for f in ("csr", "csc", "coo", "lil")], np.arange(20.0)
def run(k):
    A = matrices[k % 4]
    return np.allclose(spfgen.evaluate("y[i] = A[i, j]*x[j] + A[i, j]", A=A, x=x), A @ (x + 1))
with futures.ThreadPoolExecutor(8) as pool:
    print(all(pool.map(run, range(80))))
"""
    environment = {**os.environ, "SPFGEN_CACHE_DIR": str(tmp_path)}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "True"


# --- random operands -----------------------------------------------------------------------------------

STATEMENTS = {
    "C[i, j] = A[i, j]*B[i, j]": lambda a, b: a * b,
    "C[i, j] = A[i, j] - B[j, i]": lambda a, b: a - b.T,
    "y[i] = A[i, j]*B[j, k]": lambda a, b: a @ b.sum(axis=1),
    "s = A[i, j]*B[j, i]*A[i, i]": lambda a, b: np.einsum("ij,ji,ii->", a, b, a),
}


def scrambled(draw: np.random.Generator, n: int, form: str, canonical: bool) -> sp.sparray:
    """A matrix with entries in any order and several at one place, unless it is to be canonical."""
    count = int(draw.integers(0, 3 * n + 1)) if n else 0
    rows, columns = draw.integers(0, max(n, 1), (2, count))
    made = sp.coo_array((draw.integers(-4, 5, count).astype(float), (rows, columns)), shape=(n, n))
    if form in ("csr", "csc"):
        key = rows if form == "csr" else columns
        order = draw.permutation(count)
        order = order[np.argsort(key[order], kind="stable")]
        pointer = np.concatenate([[0], np.cumsum(np.bincount(key, minlength=n)[:n])])
        other = columns if form == "csr" else rows
        made = getattr(sp, f"{form}_array")((made.data[order], other[order], pointer), shape=(n, n))
    elif form == "bsr" and n:
        made = made.tobsr((1, n)) if n % 2 else made.tobsr((2, 1))
    if canonical:
        made.sum_duplicates()
    return made


@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@drawn(
    st.sampled_from(sorted(STATEMENTS)),
    st.sampled_from((0, 1, 2, 5, 12)),
    st.sampled_from(("csr", "csc", "coo", "bsr")),
    st.sampled_from(("csr", "coo")),
    st.booleans(),
    st.integers(0, 10**6),
)
def test_random_operands(statement, n, first, second, canonical, seed) -> None:
    draw = np.random.default_rng(seed)
    a, b = scrambled(draw, n, first, canonical), scrambled(draw, n, second, not canonical)
    found = spfgen.evaluate(statement, A=a, B=b, threads=1 + seed % 2)
    assert np.allclose(found, STATEMENTS[statement](a.toarray(), b.toarray()))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("text", "fill", "stored"), [("A[i,j] + 1", 1, 2), ("2 - A[i,j]/2", 2, 2), ("A[i,j]*3", 0, 2)])
def test_the_fill_value_of_a_sum(text: str, fill: float, stored: int) -> None:
    """As that of any other function: what no operand stores is not stored."""
    dense = np.array([[4.0, 0, 0], [0, 0, 2.0]])
    found = spfgen.evaluate(f"C[i,j] = {text}", out="csr", A=spfgen.pack(dense, "csr"))
    assert (found.fill, found.nnz) == (fill, stored) if fill else found.nnz == stored
    assert np.array_equal(found.to_numpy() if fill else found.toarray(), eval(text.replace("[i,j]", ""), {"A": dense}))


def test_subscripts_are_integers() -> None:
    x, at = np.arange(4.0), np.array([3, 1])
    assert spfgen.evaluate("y[i] = x[at[i]]", x=x, at=at).tolist() == [3, 1]
    for wrong in (at + 0.5, at + 0j):
        with pytest.raises(SpecError, match="an integer as a subscript of `x`"):
            spfgen.evaluate("y[i] = x[at[i]]", x=x, at=wrong)
    assert spfgen.evaluate("y[i] = x[int64(at[i])]", x=x, at=at + 0.5).tolist() == [3, 1]
    kernel = spfgen.compile("y[i] = x[at[i]]", x="dense", at="dense")  # also where no type is said
    assert kernel(x=x, at=at).tolist() == [3, 1]


def test_an_array_is_no_layout_of_a_result() -> None:
    with pytest.raises(UsageError, match=r"layout for `y` as `out`, but this is an ndarray(.|\n)*y=\.\.\."):
        spfgen.evaluate("y[i] = x[i]", x=np.ones(3), out=np.ones(3))


def test_functions_of_scipy() -> None:
    """Their types and values are those of scipy.special; what maps 0 to 0 keeps a sparse result sparse."""
    x = np.array([0, 0.5, -1, 2])
    stored = spfgen.pack(x, "sv")
    assert np.allclose(spfgen.evaluate("y[i] = erf(x[i])", x=x), special.erf(x), rtol=1e-14)
    assert spfgen.evaluate("y[i] = erf(x[i])", x=stored, out="sv").nnz == 3
    assert np.allclose(special.erf(stored).to_numpy(), special.erf(x))
    with pytest.raises(SpecError, match="in `erf`, but this is complex128"):
        spfgen.evaluate("y[i] = erf(x[i])", x=x + 1j)
