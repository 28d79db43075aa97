"""Arrays that do not fit a layout are refused with their name, those that only look odd are used; nothing between.

Every layout gets its arrays changed in every way, one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import scipy.sparse as sp

import spfgen
from spfgen.catalogue import layouts_of_rank
from spfgen.errors import DataError
from spfgen.lang.types import MARK_TYPES
from spfgen.layout.nodes import Layout
from spfgen.layout.pack import storable
from spfgen.run.calls.bind import bind
from spfgen.run.coordinates import Coordinates
from spfgen.run.tensor import Array, Tensor, make_tensor

pytestmark = pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")

SHAPES = {1: (9,), 2: (7, 8), 3: (4, 5, 3)}


def sample(layout: Layout, dtype: str = "float64") -> Tensor:
    """A tensor with a third of its places filled, as far as the layout can store them."""
    shape = SHAPES[layout.rank]
    random = np.random.default_rng(layout.rank)
    dense = np.where(random.random(shape) < 0.35, random.integers(1, 9, shape), 0)
    coords, values = storable(layout, shape, np.nonzero(dense), dense[np.nonzero(dense)].astype(dtype))
    return bind(layout, Coordinates(shape, tuple(coords), values), "A", {a.name: "int64" for a in layout.indexes})


TENSORS = {text: sample(layout) for rank in SHAPES for text, layout in layouts_of_rank(rank).items()}


def remade(text: str, name: str, array: object) -> Tensor:
    """The tensor with one array exchanged; its sizes are what they were."""
    tensor = TENSORS[text]
    return make_tensor(tensor.layout, {**tensor.arrays, name: array}, tensor.shape, tensor.sizes)


def arrays(*, values: bool = True) -> Iterator[tuple[str, str]]:
    for text, tensor in TENSORS.items():
        for name in tensor.layout.arrays:
            if values or name not in {v.name for v in tensor.layout.values}:
                yield text, name


def with_sizes(array: Array, change: int) -> Array:
    """Shorter or longer in the first dimension."""
    return array[:change] if change < 0 else np.concatenate([array, array[:1]])


def misaligned(array: Array) -> Array:
    return np.frombuffer(b"x" + array.tobytes(), array.dtype, array.size, 1).reshape(array.shape)


def frozen(array: Array) -> Array:
    made = array.copy()
    made.flags.writeable = False
    return made


class Special(np.ndarray):
    """A subclass, whatever it is for."""


ODD: dict[str, Callable[[Array], object]] = {
    "read-only": frozen,
    "strided": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "backwards": lambda a: a[::-1].copy()[::-1],
    "in Fortran's order": np.asfortranarray,
    "of the other byte order": lambda a: a.astype(a.dtype.newbyteorder("S")),
    "misaligned": misaligned,
    "of a subclass": lambda a: a.view(Special),
    "masked without a masked value": lambda a: np.ma.masked_array(a, mask=False),
    "a list": lambda a: a.tolist(),
    "flat": np.ravel,
    "a view of a matrix": lambda a: np.asarray(np.matrix(a.reshape(1, -1)))[0],
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("how", ODD)
def test_odd_arrays_are_used(how) -> None:
    used = 0
    for text, name in arrays():
        before = TENSORS[text].arrays[name]
        if not before.size:
            continue
        given = ODD[how](before)
        made = remade(text, name, given)
        assert np.array_equal(made.arrays[name], before), (text, name)
        assert made.arrays[name].flags.c_contiguous
        assert made.arrays[name].flags.aligned
        assert made.arrays[name].dtype.isnative
        assert np.array_equal(made.to_numpy(), TENSORS[text].to_numpy())
        if isinstance(given, np.ndarray) and how == "read-only":
            assert np.shares_memory(made.arrays[name], given)
        used += 1
    assert used > 40


WRONG_INDEX: dict[str, tuple[Callable[[Array], object], str]] = {
    "float": (lambda a: a.astype(float), "type is float64"),
    "complex": (lambda a: a.astype(complex), "type is complex128"),
    "bool": (lambda a: a.astype(bool), "type is bool"),
    "int8": (lambda a: a.astype(np.int8), r"type is int8.*\n.*astype\('int32'\)"),
    "int16": (lambda a: a.astype(np.int16), r"type is int16.*\n.*astype\('int32'\)"),
    "uint16": (lambda a: a.astype(np.uint16), r"type is uint16.*\n.*astype\('int32'\)"),
    "uint32": (lambda a: a.astype(np.uint32), r"type is uint32.*\n.*astype\('int64'\)"),
    "uint64": (lambda a: a.astype(np.uint64), r"type is uint64.*\n.*astype\('int64'\)"),
    "object": (lambda a: a.astype(object), "type is object"),
    "text": (lambda a: a.astype(str), "type is str"),
    "date": (lambda a: a.astype("M8[s]"), "type is datetime64"),
    "masked": (lambda a: np.ma.masked_array(a, mask=True), r"without masked.*\n.*filled\(0\)"),
    "nothing": (lambda a: None, "type is object"),
    "sparse": (lambda a: sp.csr_array(np.eye(2)), "type is object"),
    "of no dimension": (lambda a: a.reshape(-1)[0], r"it has 0|its shape is \(\)"),
    "of one more dimension": (lambda a: a[None], r"dimension|its shape is \(1, "),
}


@pytest.mark.parametrize("how", WRONG_INDEX)
def test_wrong_index_arrays_are_refused(how) -> None:
    change, words = WRONG_INDEX[how]
    refused = 0
    for text, name in arrays(values=False):
        before = TENSORS[text].arrays[name]
        index = next(a for a in TENSORS[text].layout.indexes if a.name == name)
        if before.size and not (how == "bool" and index.types == MARK_TYPES):
            with pytest.raises(DataError, match=f"(?s)`{name}`.*{words}"):
                remade(text, name, change(before))
            refused += 1
    assert refused > 25


WRONG_VALUES = {
    "float16": np.float16,
    "longdouble": np.longdouble,
    "object": object,
    "text": str,
    "date": "M8[s]",
    "record": [("re", float)],
}


@pytest.mark.parametrize("how", [h for h in WRONG_VALUES if np.dtype(WRONG_VALUES[h]) != np.float64])
def test_values_that_c_does_not_have_are_refused(how) -> None:
    for text, tensor in TENSORS.items():
        if tensor.layout.is_pattern:  # it has no values
            continue
        name = tensor.layout.values[0].name
        with pytest.raises(DataError, match=f"(?s)`{name}`.*types are bool, int8"):
            remade(text, name, np.zeros(tensor.arrays[name].shape, WRONG_VALUES[how]))


@pytest.mark.parametrize("change", [-1, 1])
def test_lengths_that_are_wrong_are_refused(change) -> None:
    for text, name in arrays():
        before = TENSORS[text].arrays[name]
        with pytest.raises(DataError, match=f"`{name}`"):
            remade(text, name, with_sizes(before, change))


NUMBERS = (-(2**31), -2, -1, 10**6, 2**31 - 1, 2**62, -(2**63), 2**63 - 1)


def test_numbers_out_of_range_are_refused_or_mean_nothing() -> None:
    """At every place of every index array. What is not refused may be read; -1 stands for `nothing` in some."""
    refused = kept = 0
    for text, name in arrays(values=False):
        before = TENSORS[text].arrays[name]
        for place in range(before.size):
            for number in NUMBERS:
                changed = before.copy()
                changed.reshape(-1)[place] = number
                try:
                    made = remade(text, name, changed)
                except DataError as error:
                    refused += f"`{name}`" in str(error)
                else:
                    made.to_numpy()
                    assert abs(number) <= 2, "a diagonal, or a mark of what is not used"
                    kept += 1
    assert refused > 2000
    assert 0 < kept < refused / 10


def test_order_and_repetition_are_checked() -> None:
    """Two neighbours exchanged, or made equal: refused, or the arrays say the same or something else that is valid."""
    refused = 0
    for text, name in arrays(values=False):
        before = TENSORS[text].arrays[name]
        flat = before.reshape(-1)
        for place in range(before.size - 1):
            for pair in (
                (flat[place + 1], flat[place]),
                (flat[place], flat[place]),
                (flat[place + 1], flat[place + 1]),
            ):
                changed = before.copy()
                changed.reshape(-1)[place : place + 2] = pair
                try:
                    made = remade(text, name, changed)
                except DataError as error:
                    refused += f"`{name}`" in str(error) or "layout" in str(error)
                else:
                    assert made.to_numpy().shape == made.shape
    assert refused > 400


# --- through kernels ------------------------------------------------------------------------------------

CSR = {
    "rowptr": np.array([0, 2, 2, 3]),
    "colidx": np.array([0, 2, 1], np.int32),
    "val": np.array([5.0, 6.0, 7.0]),
}
X = np.array([1.0, 2.0, 3.0])


@pytest.fixture(scope="module")
def spmv() -> spfgen.Kernel:
    return spfgen.compile("y[i] = A[i, j]*x[j]", A="csr", x="dense", y="dense", threads=1)


def csr(**changes: object) -> Tensor:
    return spfgen.tensor("csr", shape=(3, 3), **{**CSR, **changes})


@pytest.mark.parametrize("how", ODD)
def test_kernels_take_odd_arrays(spmv, how) -> None:
    for name, array in CSR.items():
        assert spmv(A=csr(**{name: ODD[how](array)}), x=X).tolist() == [23, 0, 14]
    if how != "flat":
        assert spmv(A=csr(), x=ODD[how](X)).tolist() == [23, 0, 14]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.0, 5e-324, 1.7e308])
def test_special_values_are_kept(spmv, value) -> None:
    """They take part where an entry is stored, and only there."""
    with np.errstate(invalid="ignore", over="ignore"):
        expected = [value * 1.0 + 6.0 * 3.0, 0.0, 14.0]
        assert np.array_equal(spmv(A=csr(val=np.array([value, 6.0, 7.0])), x=X), expected, equal_nan=True)
        expected = [5.0 + 6.0 * value, 0.0, 14.0]
        assert np.array_equal(spmv(A=csr(), x=np.array([1.0, 2.0, value])), expected, equal_nan=True)
    empty = spfgen.tensor("csr", shape=(3, 3), rowptr=np.zeros(4, np.int64), colidx=[], val=[])
    assert spmv(A=empty, x=np.full(3, value)).tolist() == [0, 0, 0], "nothing is stored"


def test_special_values_survive_conversion() -> None:
    special = np.array([[np.nan, 0, np.inf], [-np.inf, 1, 0]])
    kept = 0
    for text, layout in layouts_of_rank(2).items():
        if layout.is_pattern:  # its values are ones
            continue
        kinds = {a.name: "int32" for a in layout.indexes}
        try:
            made = bind(layout, special, "A", kinds)
        except DataError:
            with pytest.raises(DataError):  # the pattern is what it cannot hold
                bind(layout, np.where(special == 0, 0.0, 1.0), "A", kinds)
            continue
        assert np.array_equal(made.to_numpy(), special, equal_nan=True), text
        kept += 1
    assert kept > 10


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (3, 3)])
def test_without_entries(spmv, shape) -> None:
    for value in (np.zeros(shape), sp.csr_array(shape), sp.coo_array(shape), sp.csc_array(shape)):
        found = spmv(A=value, x=np.ones(shape[1]))
        assert found.shape == shape[:1]
        assert not found.any()


@pytest.mark.parametrize("value", [np.matrix(X), np.matrix(X).T, np.array(3.0), np.float64(3), [[1.0, 2.0, 3.0]]])
def test_vectors_of_other_dimensions(spmv, value) -> None:
    with pytest.raises(DataError, match=r"expected `x` with 1 dimension, but it has [02]"):
        spmv(A=csr(), x=value)


def test_a_matrix_of_numpy(spmv) -> None:
    assert spmv(A=np.matrix(csr().to_numpy()), x=X).tolist() == [23, 0, 14]


@pytest.mark.parametrize("name", CSR)
def test_outputs_that_lie_in_an_operand(spmv, name) -> None:
    memory = np.zeros(32)
    own = memory[3:].view(CSR[name].dtype)[: CSR[name].size]
    own[...] = CSR[name]
    given = csr(**{name: own})
    assert np.shares_memory(given.arrays[name], memory)
    with pytest.raises(DataError, match=f"expected `y` in memory of its own, but it overlaps `{name}` of `A`"):
        spmv(A=given, x=X, y=memory[1:4])
    assert spmv(A=given, x=X, y=memory[29:]).tolist() == [23, 0, 14]


BAD_OUTPUTS = {
    "read-only": (lambda: frozen(np.zeros(3)), "read-only"),
    "strided": (lambda: np.zeros(6)[::2], "contiguous"),
    "misaligned": (lambda: np.frombuffer(bytearray(25), float, 3, 1), "aligned"),
    "byte order": (lambda: np.zeros(3, np.dtype(float).newbyteorder("S")), "byte order"),
    "matrix": (lambda: np.matrix(np.zeros(3)), "1 dimension"),
    "no dimension": (lambda: np.array(0.0), "1 dimension"),
    "masked": (lambda: np.ma.masked_array(np.zeros(3), mask=[1, 0, 0]), "masked"),
    "too short": (lambda: np.zeros(2), "extents that agree"),
    "integers": (lambda: np.zeros(3, int), "to hold float64"),
    "a list": (lambda: [0.0] * 3, "list"),
}


@pytest.mark.parametrize("how", BAD_OUTPUTS)
def test_outputs_that_cannot_be_written_in_place(spmv, how) -> None:
    make, words = BAD_OUTPUTS[how]
    with pytest.raises(DataError, match=words) as caught:
        spmv(A=csr(), x=X, y=make())
    assert "y" in str(caught.value)


def test_outputs_of_a_subclass_are_written_in_place(spmv) -> None:
    given = np.full(3, 7.0).view(Special)
    assert spmv(A=csr(), x=X, y=given) is given
    assert given.tolist() == [23, 0, 14]


# --- extents without memory -----------------------------------------------------------------------------

N = 2**40


def test_results_that_no_memory_holds() -> None:
    wide = spfgen.tensor("csr", shape=(3, N), rowptr=CSR["rowptr"], colidx=np.array([0, N - 1, 2**33]), val=CSR["val"])
    square = spfgen.tensor("coo", shape=(N, N), idx_1=np.array([0]), idx_2=np.array([N - 1]), val=np.ones(1))
    for text, layouts, given in (
        ("C[i, j] = A[i, j]", {"A": "csr", "C": "dense"}, wide),
        ("y[j] = A[i, j]", {"A": "csr", "y": "dense"}, wide),
        ("C[i, j] = A[i, j]", {"A": "coo", "C": "dense"}, square),  # N*N is beyond int64
        ("C[i, j] = A[i, j]", {"A": "coo", "C": "dense_col"}, square),
        ("C[i, j] = A[i, j]", {"A": "coo", "C": "lower"}, square),
    ):
        with pytest.raises(DataError, match="fits in memory"):
            spfgen.compile(text, threads=1, **layouts)(A=given)
    with pytest.raises(DataError, match="fits in memory"):
        wide.to_numpy()
    for text in ("csr", "ell", "dia", "dense", "warp24"):
        with pytest.raises(DataError, match=r"`A`.*fit in memory"):
            spfgen.compile("s = A[i, j]", A=text, threads=1)(A=square)


def test_extents_that_no_number_holds() -> None:
    for shape, words in (
        ((3, 2**63), r"`ncol` to be below 2\^63"),
        ((3, -1), "`ncol` not to be negative"),
        ((3, 2.5), "an integer for `ncol`"),
        ((3, None), "an integer for `ncol`"),
    ):
        with pytest.raises(DataError, match=words):
            spfgen.tensor("csr", shape=shape, **CSR)
    with pytest.raises(DataError, match=r"`val` of shape \(604462909807\d+,\)"):
        spfgen.tensor("lower", shape=(N, N), val=np.zeros(0))


def test_narrow_indices_that_do_not_suffice() -> None:
    """A copy into int32 is refused where a coordinate does not fit; without declared types it is wide."""
    far = sp.coo_array((np.ones(1), (np.array([0]), np.array([2**33]))), shape=(1, 2**34))
    text = "kernel f { tensor A : csr<double, int32>\n s = A[i, j] }"
    with pytest.raises(DataError, match=r"indices of `colidx` that fit int32.*\n.*int64"):
        spfgen.parse(text).kernels["f"].compile(threads=1)(A=far)
    assert spfgen.compile("s = A[i, j]", A="csr", threads=1)(A=far) == 1
