"""What users hold becomes an operand: in place where the arrays are the layout's own, by packing otherwise."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import spfgen
from spfgen.errors import CopyWarning, DataError

RANDOM = np.random.default_rng(0)
X = RANDOM.random(6)
SPMV = "y[i] = A[i, j]*x[j]"


def matrix(form: str = "csr", shape: tuple[int, int] = (6, 6)) -> sp.sparray:
    return sp.random_array(shape, density=0.5, rng=np.random.default_rng(1)).asformat(form)


@pytest.fixture(scope="module")
def spmv() -> spfgen.Kernel:
    return spfgen.compile(SPMV, A="csr", x="dense", y="dense", threads=1)


# --- in place ------------------------------------------------------------------------------------------


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("form", "layout", "attributes"),
    [
        ("csr", "csr", ["indptr", "indices", "data"]),
        ("csc", "csc", ["indptr", "indices", "data"]),
        ("coo", "coo", ["row", "col", "data"]),
        ("coo", "coo_unsorted", ["row", "col", "data"]),
        ("bsr", "bcsr(R=3, C=2)", ["indptr", "indices", "data"]),
        ("dia", "dia", ["offsets", "data"]),
    ],
)
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_scipy_is_not_copied(form, layout, attributes, kind) -> None:
    given = matrix().tobsr((3, 2)) if form == "bsr" else matrix(form)
    if form == "coo":
        given.sum_duplicates()
    if kind == "matrix":
        given = getattr(sp, f"{form}_matrix")(given)
    own = [getattr(given, a) for a in attributes]
    kernel = spfgen.compile(SPMV, A=layout, x="dense", y="dense", threads=1)
    bound = kernel.bind(A=given, x=X)
    for array in bound.tensors["A"].arrays.values():
        assert any(np.shares_memory(array, o) for o in own)
    assert np.allclose(kernel(A=given, x=X), given @ X)


@pytest.mark.parametrize(("order", "layout"), [("C", "dense"), ("F", "dense_col")])
def test_numpy_is_not_copied_in_its_own_order(order, layout) -> None:
    given = np.array(RANDOM.random((6, 6)), order=order)
    given.flags.writeable = False
    kernel = spfgen.compile(SPMV, A=layout, x="dense", y="dense", threads=1)
    assert np.shares_memory(kernel.bind(A=given, x=X).tensors["A"].arrays["val"], given)
    assert np.allclose(kernel(A=given, x=X), given @ X)
    other = np.array(given, order="F" if order == "C" else "C")
    assert np.allclose(kernel(A=other, x=X), given @ X)


def test_index_types_make_kernels_of_their_own(spmv) -> None:
    given = matrix()
    for pointer, column in (("int32", "int32"), ("int64", "int64"), ("int64", "int32")):
        tensor = spfgen.tensor(
            "csr",
            shape=given.shape,
            rowptr=given.indptr.astype(pointer),
            colidx=given.indices.astype(column),
            val=given.data,
        )
        bound = spmv.bind(A=tensor, x=X)
        assert dict(bound.program.tensor("A").index_types) == {"rowptr": pointer, "colidx": column}
        assert bound.tensors["A"] is tensor
        assert np.allclose(spmv(A=tensor, x=X), given @ X)


# --- by packing ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["csc", "coo", "bsr", "dia", "dok", "lil"])
def test_other_formats_are_packed(spmv, form) -> None:
    assert np.allclose(spmv(A=matrix(form), x=X), matrix() @ X)


def irregular() -> dict[str, sp.csr_array]:
    unsorted = sp.csr_array((np.array([1.0, 2, 3, 4]), np.array([2, 0, 1, 1]), np.array([0, 2, 4])), shape=(2, 3))
    zeros = sp.csr_array((np.array([0.0, 2]), np.array([0, 1]), np.array([0, 1, 2])), shape=(2, 3))
    return {
        "unsorted and doubled": unsorted,
        "explicit zeros": zeros,
        "no entries": sp.csr_array((2, 3)),
        "big-endian": sp.csr_array((zeros.data.astype(">f8"), zeros.indices, zeros.indptr), shape=(2, 3)),
        "float32": zeros.astype(np.float32),
    }


@pytest.mark.parametrize("name", irregular())
def test_irregular_scipy_matrices(spmv, name) -> None:
    given = irregular()[name]
    x = np.array([1.0, 10.0, 100.0])
    before = given.indices.copy()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert np.array_equal(spmv(A=given, x=x), given @ x)
    assert [w.category for w in warned] == ([CopyWarning] if name.startswith("unsorted") else [])
    assert all("`A` is copied" in str(w.message) and w.filename == __file__ for w in warned)
    assert np.array_equal(given.indices, before), "the user's matrix is not sorted in place"


def test_a_tensor_in_another_layout(spmv) -> None:
    given = spfgen.tensor("coo", shape=(2, 6), idx_1=[0, 1], idx_2=[5, 0], val=[1.0, 2.0])
    assert spmv(A=given, x=X).tolist() == [X[5], 2 * X[0]]


def test_wide_extents_get_wide_indices(spmv) -> None:
    columns = 2**40
    given = sp.coo_array((np.ones(1), (np.array([0]), np.array([columns - 1]))), shape=(1, columns))
    with pytest.raises(DataError, match=f"A.ncol is {columns} and x.n_1 is 6"):
        spmv(A=given, x=X)
    row_sums = spfgen.compile("y[i] = A[i, j]", A="csr", y="dense", threads=1)
    assert row_sums(A=given).tolist() == [1.0]
    assert row_sums.bind(A=given).tensors["A"].arrays["colidx"].dtype == np.int64


# --- what is refused -----------------------------------------------------------------------------------


def broken(change) -> sp.csr_array:
    made = matrix()
    change(made)
    return made


BAD_OPERANDS = {
    "rank": (np.ones(6), ["`A` with 2 dimensions", "it has 1"]),
    "object": (np.array([[None]]), ["`A`", "object"]),
    "float16": (np.ones((6, 6), np.float16), ["`A`", "float16"]),
    "strings": (np.array([["a"]]), ["`A`", "str"]),
    "text": ("matrix.mtx", ["`A`", "but this is a text"]),
    "masked": (np.ma.array(np.ones((6, 6)), mask=np.eye(6)), ["`A`", "masked", "A.filled(0)"]),
    "ragged": ([[1.0], [1.0, 2.0]], ["`A`", "array"]),
    "dict": ({"a": 1}, ["`A`", "a dict"]),
    "shape": (np.ones((6, 5)), ["A.ncol is 5", "x.n_1 is 6", "index `j`"]),
    "column outside": (broken(lambda m: m.indices.__setitem__(0, 77)), ["`A`", "scipy csr", "6"]),
    "column negative": (broken(lambda m: m.indices.__setitem__(0, -1)), ["`A`", "scipy csr"]),
    "pointer outside": (broken(lambda m: m.indptr.__setitem__(3, 10**6)), ["`A`", "scipy csr"]),
    "pointer negative": (broken(lambda m: m.indptr.__setitem__(3, -5)), ["`A`", "scipy csr"]),
}


@pytest.mark.parametrize("name", BAD_OPERANDS)
def test_bad_operands(spmv, name) -> None:
    value, words = BAD_OPERANDS[name]
    with pytest.raises(DataError) as caught:
        spmv(A=value, x=X)
    for word in words:
        assert word in str(caught.value)


def frozen() -> np.ndarray:
    made = np.zeros(6)
    made.flags.writeable = False
    return made


BAD_OUTPUTS = {
    "read-only": (frozen, ["`y`", "writeable", "read-only"]),
    "strided": (lambda: np.zeros(12)[::2], ["`y`", "contiguous"]),
    "byte order": (lambda: np.zeros(6, ">f8"), ["`y`", "byte order"]),
    "rank": (lambda: np.zeros((6, 1)), ["`y` with 1 dimension", "it has 2"]),
    "extent": (lambda: np.zeros(5), ["A.nrow is 6", "y.n_1 is 5", "index `i`"]),
    "integers": (lambda: np.zeros(6, np.int64), ["`y`", "float64", "int64"]),
    "float16": (lambda: np.zeros(6, np.float16), ["`y`", "float16"]),
    "list": (lambda: [0.0] * 6, ["`y`", "list"]),
    "scipy": (lambda: sp.csr_array((1, 6)), ["`y`", "csr_array"]),
    "read-only tensor": (lambda: spfgen.tensor("dense", val=frozen()), ["`y`", "read-only"]),
    "other layout": (lambda: spfgen.tensor("sv", shape=6, idx=[], val=[]), ["`y` in layout", "`sv`"]),
}


@pytest.mark.parametrize("name", BAD_OUTPUTS)
def test_bad_outputs(spmv, name) -> None:
    make, words = BAD_OUTPUTS[name]
    output = make()
    with pytest.raises(DataError) as caught:
        spmv(A=matrix(), x=X, y=output)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("place", ["operand", "part of it", "values of A"])
def test_output_that_overlaps_an_operand(spmv, place) -> None:
    buffer, given = np.ones(12), sp.csr_array(np.eye(6))
    x = buffer[:6]
    y = {"operand": x, "part of it": buffer[3:9], "values of A": given.data}[place]
    with pytest.raises(DataError, match="`y` in memory of its own"):
        spmv(A=given, x=x, y=y)
    assert buffer.tolist() == [1.0] * 12


def test_outputs_are_written_in_place(spmv) -> None:
    for dtype in (np.float64, np.float32, np.complex128):
        y = np.full(6, 7, dtype)
        assert spmv(A=matrix(), x=X, y=y) is y
        assert np.allclose(y, matrix() @ X, rtol=1e-5)


def test_a_scipy_output_in_place() -> None:
    twice = spfgen.compile("C[i, j] = A[i, j]*2 within C", A="dense", C="csr", threads=1)
    output = sp.csr_array(np.eye(3))
    assert twice(A=np.ones((3, 3)), C=output) is output
    assert output.toarray().tolist() == (2 * np.eye(3)).tolist()
    unsorted = sp.csr_array((np.ones(2), np.array([2, 0]), np.array([0, 2, 2, 2])), shape=(3, 3))
    with pytest.raises(DataError, match=r"`C`.*\n*.*colidx\(0\) = 2"):
        twice(A=np.ones((3, 3)), C=unsorted)


# --- declared types ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def narrow() -> spfgen.Kernel:
    text = "kernel f { tensor A : csr<float, int64>\n tensor x, y : dense<double>\n y[i] = a*A[i, j]*x[j] }"
    return spfgen.parse(text).kernels["f"].compile(threads=1)


def test_declared_types_are_met(narrow) -> None:
    given = matrix().astype(np.float32)
    assert given.indices.dtype == np.int32
    assert np.allclose(narrow(A=given, x=X, a=2), 2 * (given @ X))
    assert np.allclose(narrow(A=given, x=[1, 2, 3, 4, 5, 6], a=1.0), given @ np.arange(1.0, 7.0))


@pytest.mark.parametrize(
    ("operands", "words"),
    [
        ({"A": matrix()}, ["`A` with float32 values", "it has float64 values"]),
        ({"x": X.astype(np.float32)}, ["`x` with float64 values", "float32"]),
        ({"x": X * 1j}, ["`x` with float64 values", "complex128"]),
        ({"x": [1j] * 6}, ["`x` to hold float64", "complex128"]),
        ({"y": np.zeros(6, np.float32)}, ["`y` with float64 values", "float32"]),
        ({"y": [0.0] * 6}, ["`y`", "list"]),
        (
            {"A": spfgen.tensor("csr", shape=(1, 6), rowptr=np.int32([0, 0]), colidx=[], val=np.float32([]))},
            ["`A` with float32 values, rowptr : int64", "rowptr : int32"],
        ),
    ],
)
def test_declared_types_that_are_not_met(narrow, operands, words) -> None:
    with pytest.raises(DataError) as caught:
        narrow(**{"A": matrix().astype(np.float32), "x": X, "a": 1.0, **operands})
    for word in words:
        assert word in str(caught.value)
