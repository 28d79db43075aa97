"""Signs, subscripts, reductions and numpy's functions on tensors mean what they mean for dense arrays."""

from __future__ import annotations

import operator

import numpy as np
import pytest
import scipy.sparse as sp

import spfgen
from spfgen.errors import DataError
from spfgen.lang.spec import SOLVED
from spfgen.run.arrays.eager import dense_of
from spfgen.run.calls.bind import packed
from spfgen.run.calls.layout_signature import refilled
from spfgen.run.coordinates import Coordinates
from spfgen.run.tensor import Tensor
from tests.unit.layout.test_pack import LAYOUTS as EVERY
from tests.unit.layout.test_pack import label, storable

LAYOUTS = [x for x in EVERY if not x.is_pattern]
PATTERNS = [x for x in EVERY if x.is_pattern]
SHAPES = {1: (9,), 2: (5, 6), 3: (3, 4, 2)}
MATRICES = ["csr", "csc", "coo", "dcsr", "bcsr", "dia", "ell", "csr_unsorted", "dense", "dense_col"]
BINARY = (
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod),
    *(operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge),
)
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in.*:RuntimeWarning")


def drawn(layout, seed=0, shape=None, kind="float64"):
    """A tensor in the layout, of random small numbers, and the dense array that it stands for."""
    random = np.random.default_rng(seed)
    shape = SHAPES[layout.rank] if shape is None else shape
    numbers = random.integers(-4, 5, shape) * (random.random(shape) < 0.4)
    dense = storable(layout, shape, np.where(numbers == 0, layout.fill, numbers).astype(float))
    return of_array(layout, dense.astype(kind)), dense.astype(kind)


def of_array(layout, dense):
    coords = np.nonzero(dense != layout.fill)
    return packed(layout, Coordinates(dense.shape, tuple(coords), dense[coords], layout.fill))


def agrees(got, expected, like=None) -> None:
    """The values, shape and type of the result, and that a tensor is one that satisfies its layout."""
    if isinstance(got, Tensor):
        assert got.validate() == ()
        got = dense_of(got)
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)
    assert np.shape(got) == np.shape(expected)
    assert np.asarray(got).dtype == np.asarray(expected).dtype


DECIDED = (operator.mul, operator.truediv, operator.floordiv, operator.mod)
"""Of these a 0 that is not stored is not computed with: the result is 0 there, even if it is divided by 0."""


def agrees_where_stored(got, expected, first, fill, decided) -> None:
    if not decided or fill != 0:
        agrees(got, expected)
        return
    assert isinstance(got, Tensor)
    assert got.fill_value == 0
    values = dense_of(got)
    agrees(np.where((values == 0) & (first == 0), expected, values), expected)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS, ids=label)
def test_signs(layout) -> None:
    one, first = drawn(layout, 1)
    two, second = drawn(layout, 2)
    row = np.arange(first.shape[-1]) - 2.0
    others = ((two, second), (row, row), (2, 2), (second, second), (-1.5, -1.5), (0, 0))
    turn = sum(map(ord, layout.name))  # each layout has some of the pairs: all have all
    for k, sign in enumerate(BINARY):
        for other, dense in others if layout.name in MATRICES[:1] else (others[(k + turn) % 6], others[(k + turn) % 2]):
            with np.errstate(all="ignore"):
                agrees_where_stored(sign(one, other), sign(first, dense), first, layout.fill, sign in DECIDED)
                decided = sign is operator.mul or (sign in DECIDED and isinstance(other, Tensor))
                agrees_where_stored(sign(other, one), sign(dense, first), dense, layout.fill, decided)
    for sign in (operator.neg, operator.pos, abs, np.sin, np.exp, np.sign, np.isnan, lambda a: a**2, lambda a: a > 1):
        agrees(sign(one), sign(first))
        assert sign(one).layout.name == one.layout.name
    whole, numbers = drawn(layout, 3, kind="int32")
    for sign in (operator.and_, operator.or_, operator.xor):
        agrees(sign(whole, 3), sign(numbers, 3))
        agrees(sign(whole > 0, whole == 1), sign(numbers > 0, numbers == 1))
    agrees(~whole, ~numbers)
    agrees(~(whole > 0), ~(numbers > 0))
    for kind in ("float32", "int8", "complex128", "bool"):
        agrees(one.astype(kind), first.astype(kind))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS, ids=label)
def test_reductions(layout) -> None:
    turn = sum(map(ord, layout.name))
    fills = (layout.fill, 2.0, -1.0, np.inf)
    for seed, fill in enumerate(fills if layout.name in MATRICES[:1] else (fills[turn % 2 * 3], fills[turn % 3])):
        own = refilled(layout, fill)
        tensor, dense = drawn(own, seed)
        assert tensor.nnz == np.count_nonzero(dense != fill)
        axes = [None, *range(dense.ndim), tuple(range(dense.ndim))]
        for axis in axes:
            for keepdims in (axis == 0, axis is None):
                for name in ("sum", "prod", "max", "min", "any", "all", "mean"):
                    with np.errstate(all="ignore"):
                        expected = getattr(np, name)(dense, axis=axis, keepdims=keepdims)
                        agrees(getattr(tensor, name)(axis, keepdims=keepdims), expected)
                        agrees(getattr(np, name)(tensor, axis=axis, keepdims=keepdims), expected)
                if not isinstance(axis, tuple):
                    for name in ("argmax", "argmin"):
                        expected = getattr(np, name)(dense, axis=axis, keepdims=keepdims)
                        agrees(getattr(tensor, name)(axis, keepdims=keepdims), expected)
        agrees(np.logical_xor.reduce(tensor, axis=0), np.logical_xor.reduce(dense, axis=0))
        agrees(np.add.reduce(tensor, axis=0, initial=3.0), np.add.reduce(dense, axis=0, initial=3.0))
        agrees(np.subtract.reduce(tensor, axis=0), np.subtract.reduce(dense, axis=0))


KEYS = {
    1: [3, -1, np.s_[1:7:2], np.s_[::-1], np.s_[6:1:-2], np.s_[4:4], ..., None, (None, slice(2, 5)), [2, 2, -1], [],
        np.array([[0, 3], [8, 8]])],
    2: [2, -1, (1, 2), np.s_[:, 3], np.s_[::-1, 1:6:2], np.s_[1:1], np.s_[..., 0], np.s_[:, None, 1:], (None, 2),
        ([0, 4, 4], slice(None)), ([1, 2], [0, 5]), (slice(None), [5, 0]), ([[0], [3]], [1, 2]), (0, [1, 3]),
        (slice(1, 4), None, [2, 2]), np.s_[-2:, :-1]],
    3: [1, (0, 1, 1), np.s_[:, 1], np.s_[::-1, ::2, ::-1], np.s_[..., 1], (slice(None), 0, [1, 0, 1]),
        ([0, 2], slice(None), [1, 1]), ([0, 2], [1, 1]), (slice(None), [1, 1], [0, 1]), np.s_[1:, None, :, 0]],
}  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS, ids=label)
def test_subscripts(layout) -> None:
    for fill in (layout.fill, 3.0)[: 1 + (layout.name in MATRICES)]:
        tensor, dense = drawn(refilled(layout, fill), 5)
        for key in KEYS[layout.rank]:
            agrees(tensor[key], dense[key])
        mask = np.random.default_rng(0).random(dense.shape) < 0.4
        agrees(tensor[mask], dense[mask])
        lines = mask.reshape(len(mask), -1)[:, 0]
        agrees(tensor[lines], dense[lines])
        agrees(tensor[tensor > 1], dense[dense > 1])
        for got, expected in zip(tensor, dense, strict=True):
            agrees(got, expected)
        agrees(tensor.T, dense.T)
        order = np.random.default_rng(1).permutation(dense.ndim).tolist()
        agrees(tensor.transpose(order), dense.transpose(order))
        agrees(tensor.transpose(*order), dense.transpose(order))
    assert len(tensor) == len(dense)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("layout", [x for x in LAYOUTS if x.rank == 2], ids=label)
def test_products_of_sparse_tensors(layout) -> None:
    one, first = drawn(layout, 1, (5, 6))
    two, second = drawn(layout, 2, (6, 4))
    agrees(one @ two, first @ second)
    agrees(np.matmul(one, two), first @ second)
    vector = spfgen.pack(np.array([1.0, 0, 2, 0, 0, 3]), "sv")
    agrees(one @ vector, first @ dense_of(vector))
    agrees(vector @ two, dense_of(vector) @ second)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["csr", "coo_unsorted", "bcsr", "dense_col"])
def test_products_with_dense_arrays(name) -> None:
    dense = np.array([[1.0, 0, 2, 0], [0, 0, 0, 0], [0, 3, 0, 4]])
    tensor = spfgen.pack(dense, name)
    for other in (np.arange(4.0), np.arange(12.0).reshape(4, 3)):
        assert isinstance(tensor @ other, np.ndarray)
        agrees(tensor @ other, dense @ other)
        agrees(other.T @ tensor.T, other.T @ dense.T)
    if name == "csr":
        batch = np.arange(24.0).reshape(2, 4, 3)
        agrees(tensor @ batch, dense @ batch)
        agrees(sp.coo_array(dense.T) @ np.eye(3), dense.T)
        agrees(tensor @ sp.csr_array(dense.T), dense @ dense.T)


def test_the_result_is_in_the_layout_of_an_operand() -> None:
    dense = np.triu(np.arange(36.0).reshape(6, 6))
    one, two = spfgen.pack(dense, "csr"), spfgen.pack(dense, "bcsr", R=2, C=3)
    full = spfgen.pack(np.ones((6, 6)), "dense_col")
    for got, name in [
        *((one + two, "csr"), (two + one, "bcsr"), (two @ one, "bcsr"), (one * full, "csr"), (full * one, "csr")),
        *((one + full, "dense_col"), (full + one, "dense_col"), (one.T, "csc"), (two[1:, ::2], "bcsr")),
        *((one > 0, "csr"), (one == two, "csr"), (one[0], "coo"), (one[None], "coo"), (full[0], "dense_col")),
        ((full @ one), "dense_col"),
    ]:
        assert got.layout.name == name
    assert (one == two).fill_value
    assert dict((two + one).layout.constants) == {"R": 2, "C": 3}
    lower = spfgen.pack(np.tril(np.ones((4, 4))), "lower")
    assert (lower + lower).layout.name == "lower"
    agrees(lower.T, np.triu(np.ones((4, 4))))
    agrees(lower + lower.T, np.ones((4, 4)) + np.eye(4))


def test_broadcasting() -> None:
    random = np.random.default_rng(3)
    shapes = [(4, 5), (1, 5), (4, 1), (5,), (3, 4, 5), (3, 1, 1), ()]
    arrays = [np.round(random.random(s) * 3) * (random.random(s) < 0.6) for s in shapes]
    tensors = [spfgen.pack(a, "coo") if a.ndim else float(a) for a in arrays]
    for a, x in zip(arrays, tensors, strict=True):
        for b, y in zip(arrays, tensors, strict=True):
            if not (isinstance(x, Tensor) or isinstance(y, Tensor)):
                continue
            for sign in (operator.add, operator.mul, np.maximum, operator.lt):
                agrees(sign(x, y), sign(a, b))
            if not a.ndim or not b.ndim:
                continue
            outer = np.multiply.outer(a, b)
            agrees(np.multiply.outer(x, y), outer)
    with pytest.raises(DataError, match=r"broadcast.*\(4, 5\), \(3,\)"):
        tensors[0] + spfgen.pack(np.ones(3), "coo")


def test_functions_of_numpy() -> None:
    dense = np.array([[1.0, 0, -2, 0], [0, 0, 0, 0], [0, 3, 0, 4]])
    tensor = spfgen.pack(dense, "csr")
    agrees(np.where(tensor > 0, tensor, -1.0), np.where(dense > 0, dense, -1.0))
    agrees(np.where(tensor > 0, tensor, tensor * 2), np.where(dense > 0, dense, dense * 2))
    agrees(np.clip(tensor, -1, 2), np.clip(dense, -1, 2))
    natural = np.array([0, 3, 200, 0], np.uint8)
    for bounds in ((-1, 2), (-1, 256), (1, None)):
        agrees(np.clip(spfgen.pack(natural, "sv"), *bounds), np.clip(natural, *bounds))
    agrees(np.dot(tensor, np.ones(4)), dense.sum(1))
    agrees(np.inner(tensor, np.ones(4)), dense.sum(1))
    agrees(np.outer(tensor[0], tensor[2]), np.outer(dense[0], dense[2]))
    for axes in (1, ([1], [0]), ([-1, 0], [0, 1]), 0):
        own, other = (tensor, tensor.T) if axes != 0 else (tensor[0], tensor)
        expected = np.tensordot(own.to_numpy(), other.to_numpy(), axes)
        agrees(np.tensordot(own, other, axes), expected)
        assert np.allclose(np.tensordot(own, other.to_numpy(), axes), expected)
    with pytest.raises(DataError, match=r"equal extents .* \[4\] and \[3\]"):
        np.tensordot(tensor, tensor, 1)
    agrees(np.transpose(tensor), dense.T)
    agrees(np.asarray(tensor), dense)
    agrees(np.array([tensor, tensor]), np.array([dense, dense]))
    agrees(np.real(tensor * 1j), np.zeros_like(dense))
    agrees((tensor * 1j).imag, dense)
    for got, expected in zip(np.nonzero(tensor), np.nonzero(dense), strict=True):
        agrees(got, expected)
    assert np.count_nonzero(tensor) == 4
    assert np.allclose(tensor, dense + 1e-12)
    assert not np.allclose(tensor, tensor + 1)
    assert np.array_equal(tensor, tensor.convert("csc"))
    assert not np.array_equal(tensor, tensor * 2)
    agrees(np.einsum("ij->j", tensor), dense.sum(0))
    agrees(np.einsum("ij,j", tensor, np.ones(4)), dense.sum(1))
    agrees(np.isclose(tensor, 2.0), np.isclose(dense, 2.0))
    agrees(np.round(tensor / 3, 1), np.round(dense / 3, 1))
    agrees(np.swapaxes(tensor, 0, -1), dense.T)
    agrees(round(tensor / 3, 1), (dense / 3).round(1))
    agrees(np.ravel(tensor), dense.ravel())
    agrees(tensor.flatten(), dense.flatten())
    agrees(tensor.clip(-1, 2), dense.clip(-1, 2))
    assert 0.0 in tensor
    assert dense.max() in tensor
    assert dense.max() + 1 not in tensor
    agrees(tensor.reshape(4, -1), dense.reshape(4, -1))
    agrees(tensor.reshape((2, 6)), dense.reshape(2, 6))
    agrees(tensor[:1].squeeze(), dense[0])
    agrees(tensor.diagonal(1), dense.diagonal(1))
    agrees(tensor.trace(), dense.trace())
    agrees(np.trace(tensor, 2), dense.trace(2))
    agrees(tensor.toarray(), dense)
    for order in (None, "fro", 1, np.inf):
        assert np.linalg.norm(tensor, order) == pytest.approx(np.linalg.norm(dense, order))
        assert np.linalg.norm(tensor[2], None if order == "fro" else order) == pytest.approx(
            np.linalg.norm(dense[2], None if order == "fro" else order)
        )
    agrees(np.linalg.norm(tensor, axis=1), np.linalg.norm(dense, axis=1))
    for kind in ("int8", "bool"):  # whose squares and least number do not fit it
        small = np.array([[-128, 0, 100], [0, 90, 0]]).astype(kind)
        for order in (None, 1, np.inf):
            agrees(np.linalg.norm(spfgen.pack(small, "csr"), order), np.linalg.norm(small.astype(float), order))
    with pytest.raises(TypeError, match="norm"):
        np.linalg.norm(tensor, 2)
    quotient, rest = divmod(tensor, 2)
    agrees(quotient, dense // 2)
    agrees(rest, dense % 2)
    total = np.ones((3, 4))
    total += tensor
    agrees(total, dense + 1)
    assert tensor.size == 12
    assert float(spfgen.pack(dense[:1, :1], "csr")) == 1
    for use in (np.linalg.inv, np.fft.fft, np.sort, lambda t: np.add.accumulate(t), lambda t: np.add(t, "a")):
        with pytest.raises(TypeError):
            use(tensor)
    with pytest.raises(ValueError, match="several"):
        bool(tensor)
    with pytest.raises(IndexError, match="from -3 to 2"):
        tensor[3]
    with pytest.raises(IndexError, match="at most 2 subscripts"):
        tensor[0, 0, 0]
    with pytest.raises(IndexError, match=r"mask of extent 3 .* 2"):
        tensor[np.array([True, False])]
    with pytest.raises(DataError, match="4 and 3"):
        tensor @ np.ones(3)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_nothing(shape) -> None:
    for name in MATRICES:
        tensor, dense = spfgen.pack(np.zeros(shape), name), np.zeros(shape)
        for sign in (lambda a: a + a, lambda a: a * 2, lambda a: a.T, lambda a: a[:, ::-1], lambda a: a.sum(0), abs,
                     lambda a: a.sum(), lambda a: a.all(1), lambda a: a > 0):  # fmt: skip
            agrees(sign(tensor), sign(dense))
        agrees(tensor @ tensor.T, dense @ dense.T)
        if 0 in shape:
            with pytest.raises(ValueError, match="zero-size"):
                tensor.max()


def test_entries_at_one_coordinate_are_added_first() -> None:
    tensor = spfgen.tensor("coo_unsorted", shape=(3, 3), idx_1=[2, 0, 2], idx_2=[1, 0, 1], val=[1.0, 2.0, 3.0])
    dense = tensor.to_numpy()
    for use in (lambda a: a**2, lambda a: a > 3, lambda a: a.max(), lambda a: a.T, lambda a: a * a, abs, np.sqrt):
        agrees(use(tensor), use(dense))
    assert tensor.nnz == 2


def test_large_extents() -> None:
    """The row-major index does not fit a word."""
    n = 2**40
    at = (np.array([5, n - 1, 5]), np.array([n - 2, 0, 7]))
    one = spfgen.pack((at, np.array([1.0, 2.0, 3.0])), "coo", shape=(n, n))
    two = spfgen.pack(((at[0][::-1], at[1][::-1]), np.array([10.0, 20.0, 30.0])), "coo", shape=(n, n))
    both = one + two
    assert [both[int(i), int(j)] for i, j in zip(*at, strict=True)] == [31, 22, 13]
    assert (one * two).sum() == 30 + 40 + 30
    assert (one @ two.T)[5, 5] == 30 + 30
    assert one.T[n - 2, 5] == 1
    assert one[5].nnz == 2
    with pytest.raises(DataError, match="memory"):
        one.sum(axis=0)
    with pytest.raises(DataError, match="memory"):
        np.asarray(one)


def test_who_has_the_arrays() -> None:
    own = {"rowptr": np.array([0, 1, 2]), "colidx": np.array([1, 0]), "val": np.array([1.0, 2.0])}
    tensor = spfgen.tensor("csr", shape=(2, 2), **own)
    twice = tensor * 2
    own["colidx"][0] = 0
    agrees(twice, np.array([[0.0, 2], [4, 0]]))
    dense = spfgen.tensor("dense", val=np.arange(6.0).reshape(2, 3))
    turned = spfgen.pack(np.arange(6.0).reshape(2, 3), "dense_col")
    for whole in (dense, turned):
        agrees(np.from_dlpack(whole), np.arange(6.0).reshape(2, 3))
    assert np.shares_memory(np.from_dlpack(dense), dense.arrays["val"])
    with pytest.raises(BufferError, match="to_numpy"):
        np.from_dlpack(tensor)


def test_what_is_shown() -> None:
    tensor = spfgen.pack(np.diag(np.arange(1.0, 10.0)), "csr")
    assert repr(tensor).splitlines() == [
        "<spfgen.Tensor csr, 9 x 9, 9 stored, float64>",
        *(
            "  (0, 0)  1.0",
            "  (1, 1)  2.0",
            "  (2, 2)  3.0",
            "  ...",
            "  (6, 6)  7.0",
            "  (7, 7)  8.0",
            "  (8, 8)  9.0",
        ),
    ]
    with pytest.raises(AttributeError, match="did you mean `shape`"):
        _ = tensor.shpae
    assert not hasattr(tensor, "qwxyz")


def test_large_tensors_are_computed_as_small_ones() -> None:
    """From some size on kernels compute sums, and packing is compiled."""
    one = sp.random_array((400, 300), density=0.3, format="csr", rng=np.random.default_rng(1))
    tensor = spfgen.pack(one, "csr")
    for axis in (None, 0, 1):
        for keepdims in (False, True):
            agrees(tensor.sum(axis, keepdims=keepdims), one.toarray().sum(axis, keepdims=keepdims))
    agrees(tensor + tensor, 2 * one.toarray())
    agrees(tensor[::-2, 5:200:3], one.toarray()[::-2, 5:200:3])
    assert (tensor > 0.5).layout.name == "csr"


def test_a_family_of_the_user_keeps_its_rank() -> None:
    assert SOLVED in dict(spfgen.pack(np.ones((2, 2)), "coo").layout.constants)
    text = "layout mine(n) { size nnz relation { [p] -> [i] : 0 <= p < nnz and i = idx(p) } index idx[nnz] {" \
           " range 0 <= idx(p) < n property strictly increasing } value val[nnz] at [p] }"  # fmt: skip
    tensor = spfgen.pack(np.array([0, 1.0, 0, 2]), spfgen.parse(text).layouts["mine"])
    assert (tensor * 2).layout.name == "mine"
    assert tensor[None].layout.name == "coo"


def test_a_large_product_with_a_fill_value() -> None:
    """Without a dense copy."""
    n = 3000
    tensor = spfgen.pack(([[1, 2], [3, 4]], [5.0, 6.0]), "csr", shape=(n, n), fill=2)
    found = tensor @ np.ones(n)
    assert found[:4].tolist() == [2 * n, 2 * n + 3, 2 * n + 4, 2 * n]


def test_a_dense_tensor_is_its_array() -> None:
    own = np.arange(6.0).reshape(2, 3)
    for tensor in (spfgen.tensor("dense", val=own), spfgen.tensor("dense_col", val=own.T.copy())):
        agrees(np.asarray(tensor), own)
        assert np.shares_memory(np.asarray(tensor), tensor.arrays["val"])
        assert not np.shares_memory(np.array(tensor), tensor.arrays["val"])
        assert not np.shares_memory(tensor.to_numpy(), tensor.arrays["val"])
    with pytest.raises(ValueError, match="copy"):
        np.asarray(spfgen.pack(own, "csr"), copy=False)


def test_types_of_results() -> None:
    """Of all types, with fills that decide and fills that do not: what numpy gives."""
    random = np.random.default_rng(4)
    kinds = "bool int8 uint64 int32 float32 float64 complex64".split()
    arrays = {k: (random.integers(0, 3, (4, 4)) * (random.random((4, 4)) < 0.6)).astype(k) for k in kinds}
    tensors = {k: spfgen.pack(a, "csr") for k, a in arrays.items()}
    for k in kinds:
        for name in ("sum", "prod", "max", "any", "mean", "argmax"):
            agrees(getattr(tensors[k], name)(axis=0), getattr(arrays[k], name)(axis=0))
        agrees(tensors[k] ** 2, arrays[k] ** 2)
        agrees(abs(tensors[k]), abs(arrays[k]))
        for other in kinds:
            for function in (np.add, np.multiply, np.maximum, np.equal, np.logical_and, np.matmul):
                agrees(function(tensors[k], tensors[other]), function(arrays[k], arrays[other]))
        for number in (2, 2.5, True, np.float32(2), np.int8(1)):
            agrees(tensors[k] * number, arrays[k] * number)
            agrees(number + tensors[k], number + arrays[k])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", PATTERNS, ids=label)
def test_patterns(layout) -> None:
    """They have the values that they say, and a result with others is in another layout."""
    dense = (np.random.default_rng(3).random(SHAPES[layout.rank]) < 0.4).astype(float)
    dense = storable(layout, dense.shape, dense) != 0
    tensor = of_array(layout, dense)
    assert tensor.nnz == np.count_nonzero(dense)
    for use in (lambda a: a * 2.5, lambda a: a + a, lambda a: a & a, lambda a: ~a, lambda a: a.sum(0), lambda a: a.T,
                lambda a: a[::-1], lambda a: a.astype(float), lambda a: a * 1.0, lambda a: a.argmax(),
                lambda a: a | (a > 3), lambda a: a @ np.ones(a.shape[-1])):  # fmt: skip
        agrees(use(tensor), use(dense))
    assert (tensor & tensor).layout.name == layout.name
    agrees(spfgen.flip(tensor), np.flip(dense))


# --- values as numpy's: 64 bits, signs, what is stored --------------------------------------------------------------


def test_sums_and_products_of_64_bits_are_exact() -> None:
    dense = np.array([[2**53 + 1, 3, 3], [3, 5, 2**40]], np.uint64)
    for kind in (np.uint64, np.int64):
        own = dense.astype(kind)
        tensor = spfgen.pack(own, "csr", fill=3)
        for axis in (None, 0, 1):
            agrees_exactly(tensor.sum(axis), own.sum(axis))
            agrees_exactly(tensor.prod(axis), own.prod(axis))
    many = np.full((2, 41), 3, np.uint64)
    many[0, 3] = 5
    agrees_exactly(spfgen.pack(many, "csr", fill=3).prod(1), many.prod(1))
    small = np.full((2, 300), -1, np.int8)
    small[1, 7] = 5
    agrees_exactly(spfgen.pack(small, "csr", fill=-1).prod(1, dtype=np.int8), small.prod(1, dtype=np.int8))
    infinite = np.log(np.array([[1 + 1j, 0, 0], [2, 0, 1j]]))
    agrees(np.log(spfgen.pack(np.array([[1 + 1j, 0, 0], [2, 0, 1j]]), "csr")).sum(1), infinite.sum(1))


def agrees_exactly(got, expected) -> None:
    np.testing.assert_array_equal(got, expected)
    assert np.asarray(got).dtype == np.asarray(expected).dtype


def test_unsigned_and_negative_numbers_are_compared() -> None:
    for kind in (np.uint8, np.uint64):
        dense, other = np.array([[1, 0, 0, 2]], kind), np.array([[-1, 0, -1, 3]])
        tensor = spfgen.pack(dense, "csr")
        for function in (np.greater, np.less, np.greater_equal, np.less_equal, np.equal):
            for one, two in (
                (-1, -1),
                (np.int64(-1), np.int64(-1)),
                (2**70, 2**70),
                (spfgen.pack(other, "csr"), other),
                (other, other),
            ):
                assert np.array_equal(np.asarray(function(tensor, one)), function(dense, two)), (function, one)
                assert np.array_equal(np.asarray(function(one, tensor)), function(two, dense)), (function, one)
    unsigned, signed = np.array([0, 3, 0, 2**64 - 1], np.uint64), np.array([-1, -1, 1, -1])
    given = {"A": spfgen.pack(unsigned, "coo"), "B": spfgen.pack(signed, "coo")}
    for out in (None, "coo"):
        found = spfgen.evaluate("y[i] = A[i] > B[i]", **given, out=out)
        assert np.array_equal(np.asarray(found), unsigned > signed)
        found = spfgen.evaluate("y[i] = B[i] >= A[i]", **given, out=out)
        assert np.array_equal(np.asarray(found), signed >= unsigned)


@pytest.mark.parametrize("layout", ["coo", "sv"])
def test_a_stored_zero_is_computed_with(layout) -> None:
    """0 where nothing is stored decides a product, a 0 that is stored does not: at all doors."""
    zeros, infinite = np.array([0.0, 2.0, 0.0]), np.array([np.inf, 1.0, 0.0])
    one = spfgen.pack(((np.array([0, 1]),), np.array([0.0, 2.0])), layout, shape=3)
    two = spfgen.pack(infinite, "coo")
    three = spfgen.pack(np.array([0.0, 1.0, np.inf]), "coo")
    with np.errstate(all="ignore"):
        right = zeros * infinite
        for found in (one * two, two * one, one * infinite, (one[:] * two), (one[::-1] * two[::-1])[::-1],
                      spfgen.evaluate("y[i] = A[i]*B[i]", A=one, B=two), spfgen.concatenate([one[:1], one[1:]]) * two,
                      (spfgen.asarray(one) * two).compute(), spfgen.einsum("i,i->i", one, two)):  # fmt: skip
            assert np.array_equal(np.asarray(found), right, equal_nan=True), found
        assert np.isnan(one @ two)
        assert np.array_equal(np.asarray(one * three), [0, 2, 0]), (
            "what is not stored decides, whatever the other stores"
        )
    assert one.nse == 2
    assert one.nnz == 1
    assert [len(c) for c in one.nonzero()] == [1]


def test_the_sign_of_a_stored_zero() -> None:
    dense = np.array([-0.0, 1.0, 0.0])
    tensor = spfgen.pack(dense, "coo")
    assert (tensor.nse, tensor.nnz) == (2, 1)
    with np.errstate(all="ignore"):
        for found in (
            1 / tensor,
            np.ones(3) / tensor,
            tensor.copy()[:] * 1.0,
            tensor + tensor,
            np.asarray(tensor),
            tensor[::-1][::-1],
            np.copysign(1, tensor),
        ):
            assert np.signbit(np.asarray(found)[0]), found
        assert (1 / spfgen.pack(np.array([-0.0, 1]), "coo", fill=-0.0))[0] == -np.inf


def test_functions_of_small_integers_are_computed_in_float32() -> None:
    for kind in (np.int8, np.uint8, bool):
        dense = np.array([8, 0, 5]).astype(kind)
        tensor, single = spfgen.pack(dense, "coo"), dense.astype(np.float32)
        for function in (np.exp, np.sqrt, np.arctan):
            for found in (function(tensor), function(spfgen.asarray(tensor)).compute()):
                agrees_exactly(np.asarray(found), function(single))
        agrees_exactly(np.asarray(np.hypot(tensor, tensor)), np.hypot(single, single))
        agrees_exactly(np.asarray(np.arctan2(tensor, dense)), np.arctan2(single, single))
    assert np.round(spfgen.pack(np.array([True, False]), "coo")).dtype == np.float32


# --- numpy's arguments ----------------------------------------------------------------------------------------------


def test_arguments_of_reductions() -> None:
    dense = np.array([[1, 2, 0], [0, 0, 7]])
    tensor, mask = spfgen.pack(dense, "csr"), np.array([[True, False, True], [True, True, False]])
    for kind in (np.uint8, np.uint32, np.uint64, np.float32, np.complex128, bool):
        for name in ("sum", "prod", "mean"):
            if (name, kind) == ("mean", bool):
                continue
            agrees_exactly(getattr(tensor, name)(dtype=kind), getattr(dense, name)(dtype=kind))
            agrees_exactly(getattr(np, name)(tensor, 0, kind), getattr(np, name)(dense, 0, kind))
    for axis in (None, 0, 1):
        for name in ("sum", "prod", "any", "all", "mean"):
            with np.errstate(all="ignore"):
                agrees(getattr(np, name)(tensor, axis, where=mask), getattr(np, name)(dense, axis, where=mask))
                agrees(getattr(tensor, name)(axis, where=mask), getattr(dense, name)(axis, where=mask))
        for name in ("max", "min"):
            agrees(
                getattr(np, name)(tensor, axis, initial=1, where=mask),
                getattr(np, name)(dense, axis, initial=1, where=mask),
            )
            agrees(getattr(np, name)(tensor, axis, None, True), getattr(np, name)(dense, axis, None, True))
        out = np.empty(np.shape(dense.sum(axis)))
        for lazy in (tensor, spfgen.asarray(tensor)):
            assert np.sum(lazy, axis=axis, out=out) is out
            assert np.array_equal(out, dense.sum(axis))
            assert lazy.max(axis, out) is out
            assert np.array_equal(out, dense.max(axis))
    out = np.zeros((2, 3))
    assert np.round(tensor, out=out) is out
    assert np.array_equal(out, dense)
    agrees_exactly(np.add.reduce(tensor, axis=1, where=mask), np.add.reduce(dense, axis=1, where=mask))


def test_types_are_looked_at_without_values() -> None:
    tensor = spfgen.pack(np.eye(3, dtype=np.float32), "csr")
    for one in (tensor, spfgen.asarray(tensor)):
        assert np.result_type(one, np.float64) == np.float64
        assert np.result_type(one, one, 1.5) == np.float32
        assert np.can_cast(one, np.float64)
        assert not np.can_cast(one, np.int8)
        assert np.isrealobj(one)
        assert np.common_type(one) is np.float32


def test_products_of_more_dimensions() -> None:
    a, b = np.arange(60.0).reshape(3, 4, 5), np.arange(90.0).reshape(3, 5, 6)
    one, two, v = spfgen.pack(a, "coo"), spfgen.pack(b, "coo"), np.arange(5.0)
    agrees(np.dot(one, two), np.dot(a, b))
    agrees(one.dot(two), np.dot(a, b))
    agrees(np.dot(one, v), np.dot(a, v))
    agrees(np.dot(one, 2), 2 * a)
    agrees(np.matmul(one, two), np.matmul(a, b))
    agrees(np.linalg.vecdot(one, one), np.linalg.vecdot(a, a))
    agrees(np.vecdot(one, v), np.vecdot(a, v))
    agrees(np.matvec(one, v), np.matvec(a, v))
    agrees(np.vecmat(v, two), np.vecmat(v, b))


def test_names_of_linear_algebra() -> None:
    dense = np.array([[1.0, -2, 0], [0, 0, 3], [4, 0, 0]])
    tensor, linalg = spfgen.pack(dense, "csr"), np.linalg
    for name in ("matmul", "tensordot"):
        agrees(getattr(linalg, name)(tensor, tensor), getattr(linalg, name)(dense, dense))
    for name in ("trace", "diagonal", "matrix_transpose", "vector_norm", "matrix_norm", "norm"):
        agrees(getattr(linalg, name)(tensor), getattr(linalg, name)(dense))
    agrees(linalg.outer(tensor[0], tensor[1]), linalg.outer(dense[0], dense[1]))
    for n in (1, 2, 5):
        agrees(linalg.matrix_power(tensor, n), linalg.matrix_power(dense, n))
    for order in (1, -1, np.inf, -np.inf, "fro"):
        for axis in (None, (0, 1), (1, 0)):
            agrees(linalg.norm(tensor, order, axis), linalg.norm(dense, order, axis))
        agrees(
            linalg.matrix_norm(tensor, ord=order, keepdims=True), linalg.matrix_norm(dense, ord=order, keepdims=True)
        )
    for order in (0, 1, 2, 3, np.inf):
        agrees(linalg.norm(tensor, order, 0), linalg.norm(dense, order, 0))
        agrees(linalg.vector_norm(tensor, ord=order, axis=1), linalg.vector_norm(dense, ord=order, axis=1))


def test_what_numpy_raises_is_raised() -> None:
    tensor = spfgen.pack(np.eye(3), "csr")
    for wrong, kind in [
        (lambda: np.max(tensor, where=tensor > 0), ValueError),
        (lambda: np.max(tensor[:0]), ValueError),
        (lambda: tensor.argmax(axis=(0, 1)), TypeError),
        (lambda: np.argmax(tensor[:0], axis=0), ValueError),
        (lambda: np.sum(tensor, axis=2), np.exceptions.AxisError),
        (lambda: np.sum(tensor, axis=2), IndexError),
        (lambda: np.sum(tensor, axis=(0, 0)), ValueError),
        (lambda: np.sum(tensor, axis="x"), TypeError),
        (lambda: np.sum(tensor, out=np.zeros(2)), ValueError),
        (lambda: np.sum(tensor, axis=0, out=np.zeros(3, int)), TypeError),
        (lambda: np.sum(tensor, axis=0, out=[0, 0, 0]), TypeError),
        (lambda: np.sort(tensor), TypeError),
        (lambda: np.concatenate([tensor, tensor], dtype=int), TypeError),
        (lambda: np.tensordot(tensor, tensor, 3), ValueError),
        (lambda: np.transpose(tensor, (0, 0)), ValueError),
        (lambda: np.reshape(tensor, 4), ValueError),
        (lambda: np.reshape(tensor, 9, order="X"), ValueError),
        (lambda: tensor + np.ones(4), ValueError),
        (lambda: tensor @ np.ones(4), ValueError),
        (lambda: tensor @ 2, ValueError),
        (lambda: np.add(tensor, None), TypeError),
        (lambda: np.add(tensor, np.array(["a"])), TypeError),
        (lambda: np.left_shift(tensor, 1), TypeError),
        (lambda: spfgen.evaluate("y[i] = A[i, j]*x[j]", A=tensor, x=np.ones(4)), ValueError),
        (lambda: spfgen.evaluate("y[i] = A[i, j", A=tensor), ValueError),
        (lambda: spfgen.einsum("ij,j", tensor, np.ones(4)), ValueError),
        (lambda: spfgen.pack(None, "csr"), ValueError),
        (lambda: spfgen.pack(3.0, "coo"), ValueError),
        (lambda: spfgen.pack((None, None), "coo"), ValueError),
        (lambda: spfgen.pack(np.eye(3), "csr").reshape(2, -1), ValueError),
        (lambda: np.broadcast_to(tensor, (2, 3)), ValueError),
        (lambda: np.repeat(tensor, [1, 2]), ValueError),
        (lambda: np.concatenate([tensor, tensor[:, :2]]), ValueError),
        (lambda: np.stack([tensor, tensor[:2]]), ValueError),
        (lambda: np.squeeze(tensor, 0), ValueError),
        (lambda: np.swapaxes(tensor, 0, 2), np.exceptions.AxisError),
        (lambda: np.swapaxes(tensor, 0, None), TypeError),
        (lambda: np.sum(tensor, axis=10**30), np.exceptions.AxisError),
        (lambda: np.tril(tensor, "x"), TypeError),
        (lambda: np.diag(tensor, (0, 0)), TypeError),
        (lambda: np.roll(tensor, None), TypeError),
        (lambda: np.expand_dims(tensor, {}), TypeError),
        (lambda: np.stack([tensor, tensor], [1, 2]), TypeError),
        (lambda: np.broadcast_to(tensor, None), TypeError),
        (lambda: np.pad(tensor, 1, constant_values="x"), ValueError),
        (lambda: np.where(tensor, None, 0), ValueError),
        (lambda: np.round(tensor, "x"), TypeError),
        (lambda: spfgen.pack(([0], [1.0]), "coo", shape=1.5), ValueError),
        (lambda: tensor.astype("nothing"), TypeError),
        (lambda: spfgen.asarray(tensor).astype("nothing"), TypeError),
        (lambda: spfgen.asarray(tensor)["x"], IndexError),
        (lambda: tensor.astype(np.int8) + 300, OverflowError),
        (lambda: spfgen.asarray(tensor.astype(np.int8)) + 300, OverflowError),
    ]:
        with pytest.raises(spfgen.SpfgenError) as raised:
            wrong()
        assert isinstance(raised.value, kind), raised.value


@pytest.mark.parametrize("size", [(4, 5), (200, 300)])
def test_a_choice_is_sparse_where_both_have_one_fill(size: tuple[int, int]) -> None:
    random = np.random.default_rng(2)
    dense = random.random(size) * (random.random(size) < 0.4)
    tensor, mask = spfgen.pack(dense, "csr"), random.random(size) < 0.5
    for found in (
        np.where(mask, tensor, np.zeros_like(tensor)),
        np.where(mask, tensor, 0),
        np.where(spfgen.pack(mask, "csr"), tensor, 0),
    ):
        assert isinstance(found, spfgen.Tensor)
        assert np.array_equal(np.asarray(found), np.where(mask, dense, 0))
    assert isinstance(np.where(mask, tensor, 1), np.ndarray)
    assert np.array_equal(np.where(mask, tensor, 1), np.where(mask, dense, 1))


@pytest.mark.parametrize("name", ["var", "std"])
@pytest.mark.parametrize("kind", ["float64", "float32", "int8", "complex64", "bool"])
def test_spread(name: str, kind: str) -> None:
    """The fill value counts as often as it is there; at once and lazily, as a function and as a method."""
    dense = np.where(np.arange(30).reshape(5, 6) % 3, 1, np.arange(30).reshape(5, 6)).astype(kind)
    tensor = spfgen.pack(dense, "csr", fill=1)
    for options in ({}, {"axis": 0}, {"axis": 1, "keepdims": True}, {"axis": (0, 1), "ddof": 1}):
        wanted = getattr(np, name)(dense, **options)
        for found in (getattr(np, name)(tensor, **options), getattr(tensor, name)(**options)):
            assert (found.dtype, np.shape(found)) == (wanted.dtype, np.shape(wanted))
            np.testing.assert_allclose(found, wanted, 1e-5)
        lazy = getattr(spfgen.asarray(tensor), name)(**options)
        assert (lazy.dtype, lazy.shape) == (wanted.dtype, np.shape(wanted))
        np.testing.assert_allclose(lazy.compute(), wanted, 1e-5)


def test_a_type_that_it_has() -> None:
    tensor = spfgen.pack(np.eye(3), "csr")
    assert tensor.astype("float64", copy=False) is tensor
    assert tensor.astype("float32", copy=False).dtype == np.float32


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ["nansum", "nanprod", "nanmax", "nanmin", "nanmean"])
def test_reductions_of_what_is_not_nan(name: str) -> None:
    dense = np.array([[1.0, np.nan, 2.0], [np.nan, 0.0, 0.0], [np.nan, np.nan, np.nan]])
    for own in (dense, np.where(dense == 0, np.nan, dense).astype("float32"), np.eye(3, dtype=np.int32)):
        for fill in (0, np.nan) if own.dtype.kind == "f" else (0,):
            tensor = spfgen.pack(own, "coo", fill=fill)
            for options in ({}, {"axis": 0}, {"axis": 1, "keepdims": True}):
                wanted = getattr(np, name)(own, **options)
                found = getattr(np, name)(tensor, **options)
                assert (found.dtype, np.shape(found)) == (wanted.dtype, np.shape(wanted))
                np.testing.assert_allclose(found, wanted, 1e-6)


@pytest.mark.parametrize("layout", ["csr", "coo", "csc", "ell"])
def test_a_product_that_is_too_large_is_0_beside_a_0(layout: str) -> None:
    for kind in (np.float32, np.float64, np.complex64):
        dense = np.full((3, 200), -1e30, kind)
        dense[0, :50], dense[2, 7] = 0, np.inf
        packed = spfgen.pack(dense[:2], layout)
        assert packed.prod() == 0
        assert np.array_equal(packed.prod(axis=1) == 0, [True, False])
        assert np.isnan(spfgen.pack(dense[[0, 2]], layout).prod())
        filled = spfgen.pack(np.array([[0.0, 3.0, 5.0] + 400 * [3.0]], kind), f"{layout} fill 3")
        assert filled.prod() == 0
