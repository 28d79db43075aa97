"""Fill values: a part of the type of a tensor, in every layout; packing leaves them out, unpacking puts them in."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import spfgen
from spfgen.errors import DataError, SpecError, Unsupported, UsageError
from spfgen.lang.fills import fill_number, fill_text
from spfgen.layout.fill import differs, summed
from spfgen.layout.pack import pack, storable
from spfgen.run.calls.layout_signature import refilled
from spfgen.run.handles import handle_of
from spfgen.run.pack import convert_arrays, coordinates, pack_entries
from spfgen.run.tensor import Tensor
from tests.fuzz import unseen
from tests.unit.layout.test_pack import REFUSED, all_layouts, label

FILLS = [
    (np.inf, "float64"), (-np.inf, "float32"), (np.nan, "float64"), (3, "float32"), (2.5, "float64"), (-0.0, "float64"),
    (0, "float64"), (True, "bool"), (-(2**31), "int32"), (-(2**63), "int64"), (2**64 - 1, "uint64"), (7, "uint8"),
    (2 - 1j, "complex128"), (complex(np.nan, 0), "complex64"),
]  # fmt: skip
TWICE = ("vector_and_its_reverse",)
"""It has two places for a coordinate."""
LAYOUTS = [
    x for x in [*all_layouts(), *map(unseen.resolved, unseen.ALL)] if x.rank and x.name not in (*REFUSED, *TWICE)
]
RANDOM = np.random.default_rng(3)
A = np.where(RANDOM.random((5, 7)) < 0.4, RANDOM.integers(-2, 3, (5, 7)), np.inf)
A[0, :3] = -0.0, 0.0, np.nan


def same(one: np.ndarray, other: np.ndarray) -> bool:
    """Bit by bit, but nan is nan."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    parts = [(one.real, other.real), (one.imag, other.imag)] if one.dtype.kind == "c" else [(one, other)]
    equal = [(a == b) & (np.signbit(a) == np.signbit(b)) if a.dtype.kind == "f" else a == b for a, b in parts]
    return bool((np.logical_and.reduce(equal) | ((one != one) & (other != other))).all())


def dense_for(layout, fill, dtype: str, seed: int) -> np.ndarray:
    """A dense array that the layout can store with that fill value."""
    random = np.random.default_rng(seed)
    shape = (8, 8) if layout.rank == 2 else (7, 9, 4)[: layout.rank]
    places = np.unique(random.integers(0, np.prod(shape), 14))
    values = random.integers(0, 2 if dtype == "bool" else 4, len(places)).astype(dtype)
    if np.dtype(dtype).kind in "fc":
        values *= random.choice(np.array([-1.0, 1.0], dtype), len(values))
    if layout.is_pattern:
        values = np.ones_like(values)
    coords, kept = storable(layout, shape, tuple(np.unravel_index(places, shape)), values)
    return summed(shape, coords, kept, fill)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS, ids=label)
def test_every_layout_keeps_fill_values(layout) -> None:
    fills = [(f, t) for f, t in FILLS if not layout.is_pattern or fill_text(f) not in "01"]
    if layout.value_transforms:
        fills = [(f, t) for f, t in fills if fill_text(f) in ("0", "nan")]
    try:
        pack(layout, (0,) * layout.rank, (np.zeros(0, np.int64),) * layout.rank, np.zeros(0))
    except Unsupported:
        pytest.skip("cannot be packed")
    first = LAYOUTS.index(layout) % 3
    for seed, (fill, dtype) in list(enumerate(fills))[first * (len(fills) > 3) :: 3]:
        own, list_ = refilled(layout, fill), refilled(handle_of("coo").layout(layout.rank), fill)
        dense = dense_for(own, fill, dtype, seed)
        tensor = spfgen.pack(dense, own)
        tensor.validate()
        assert same(np.asarray(tensor.fill), np.asarray(fill).astype(dtype))
        assert same(tensor.to_numpy(), dense)
        other = tensor.convert(list_)
        assert same(other.to_numpy(), dense)
        assert not differs(other.to_coo().values, fill).all() or same(other.convert(own).to_numpy(), dense)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["csr", "bcsr", "four_arrays"])
@pytest.mark.parametrize("number", range(len(FILLS)))
def test_in_c(name: str, number: int) -> None:
    """The generated packing leaves out, and fills up, as numpy does."""
    fill, dtype = FILLS[number]
    own = refilled(next(x for x in LAYOUTS if x.name == name and x.rank in (2, 3)), fill)
    list_ = refilled(handle_of("coo").layout(own.rank), fill)
    dense = dense_for(own, fill, dtype, number)
    coords = np.nonzero(differs(dense, fill))
    made = pack_entries(own, dense.shape, coords, dense[coords], small=0)
    assert same(summed(dense.shape, *coordinates(own, made.sizes, made.arrays, small=0), fill), dense)
    listed = convert_arrays(own, made.sizes, made.arrays, list_, small=0)
    assert differs(listed.arrays["val"], fill).all()
    assert same(Tensor(list_, listed.sizes, listed.arrays).to_numpy(), dense)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("use", ["csr", "csc", "coo", "bcsr(R=2, C=3)", "ell", "dense", "dcsr"])
def test_what_carries_it(use: str, tmp_path) -> None:
    tensor = spfgen.pack(A, f"{use} fill inf")
    assert same(tensor.to_numpy(), A)
    assert spfgen.pack(A, use, fill=np.inf).layout == tensor.layout
    assert "fill inf" in repr(tensor)
    assert tensor.to_coo().fill == np.inf
    assert same(tensor.to_coo().to_dense(), A)
    for made in (copy.copy(tensor), copy.deepcopy(tensor), pickle.loads(pickle.dumps(tensor))):
        assert made.fill == np.inf
        assert same(made.to_numpy(), A)
    tensor.save(tmp_path / "a.npz")
    read = spfgen.load_tensor(tmp_path / "a.npz")
    assert read.layout == tensor.layout
    assert same(read.to_numpy(), A)
    again = spfgen.tensor(handle_of(f"{use} fill inf"), shape=(5, 7), **tensor.arrays)
    assert same(again.to_numpy(), A)
    assert spfgen.tensor(use, shape=(5, 7), fill=np.inf, **tensor.arrays).layout == tensor.layout
    for target in ("csr", "coo_unsorted", "dense_col"):
        assert tensor.convert(target).fill == np.inf
        assert same(tensor.convert(target).to_numpy(), A)
        assert same(spfgen.pack(tensor.to_coo(), target).to_numpy(), A)
        other = tensor.convert(target, fill=0)
        assert other.fill == 0
        assert same(other.to_numpy(), A)
    with pytest.raises(DataError, match=r"the fill value 0, which arrays of scipy\.sparse have, but it is inf"):
        tensor.to_scipy()
    assert (tensor.convert("csr", fill=0).to_scipy().toarray() == np.nan_to_num(A, nan=0, posinf=np.inf)).sum() == 34
    assert tensor._repr_html_()


def test_what_is_stored_is_what_differs_bit_by_bit() -> None:
    row = np.array([[0.0, -0.0, np.nan, -np.nan, 1.0]])
    assert [spfgen.pack(row, "csr", fill=f).nse for f in (0, -0.0, np.nan, 1, 7)] == [4, 4, 3, 4, 5]
    assert spfgen.pack(np.array([[True, False]]), "csr fill True").nse == 1
    assert spfgen.pack(np.array([[1, 0, 2]]), "csr fill True").nse == 2


def test_what_scipy_does_not_store_becomes_the_fill_value() -> None:
    made = sp.csr_array(np.array([[1.0, 0], [0, 2]]))
    assert same(spfgen.pack(made, "csc fill inf").to_numpy(), np.array([[1.0, np.inf], [np.inf, 2]]))
    pairs = spfgen.pack((([0, 1], [1, 0]), [2.0, 3.0]), "csr", fill=-1, shape=(2, 2))
    assert same(pairs.to_numpy(), np.array([[-1.0, 2], [3, -1]]))


def test_fills_that_no_value_has() -> None:
    with pytest.raises(DataError, match="a fill value that int64 has, but it is inf"):
        spfgen.pack(np.ones((2, 2), int), "csr fill inf")
    assert spfgen.pack(np.ones((2, 2), int), "csr<double> fill inf").nse == 4
    assert spfgen.pack(np.ones((2, 2), int), "csr<double> fill 1").nse == 0
    with pytest.raises(DataError, match=r"a fill value that int32 has, but it is 2\.5"):
        spfgen.tensor(handle_of("dense fill 2.5"), val=np.zeros(3, np.int32))
    with pytest.raises(UsageError, match="a number as the fill value"):
        spfgen.pack(A, "csr", fill="much")
    with pytest.raises(SpecError, match="a fill value that int32 has, but it is inf"):
        spfgen.parse("kernel k { tensor A : csr<int> fill inf  tensor y : dense  y[i] = A[i, j] }").kernels[
            "k"
        ].compile()


def test_a_fill_value_follows_the_type_of_the_values() -> None:
    """0.1 of a float is another number than 0.1 of a double."""
    tensor = spfgen.pack(np.float32([[0.1, 2]]), "csr", fill=0.1)
    assert tensor.nse == 1
    wide = spfgen.pack(tensor, "csc<double>")
    assert wide.nse == 1
    assert same(wide.to_numpy(), tensor.to_numpy().astype(float))


def test_a_kernel_refuses_another_fill_value() -> None:
    kernel = spfgen.compile("y[i] = A[i, j]*x[j]", A="csr", x="dense", y="dense")
    for one in (spfgen.pack(A, "csr fill inf"), spfgen.pack(A, "coo fill -0.0")):
        with pytest.raises(DataError, match="`A` with the fill value 0, but it is ") as caught:
            kernel(A=one, x=np.ones(7))
        assert "`tensor A : csr fill " in caught.value.notes[0]


@pytest.mark.parametrize("value", [0, 1, True, -1.5, 1e300, -0.0, np.inf, np.nan, np.float32(0.1), np.int8(-3), 2 + 1j])
def test_the_text_of_a_fill_value_says_all(value) -> None:
    again = fill_number(fill_text(value))
    assert fill_text(again) == fill_text(value)
    assert same(np.asarray(again).astype(complex), np.asarray(value).astype(complex))


def test_zeros_of_the_other_sign_are_left_out_on_request() -> None:
    """Weights that were multiplied by a mask hold -0.0 where they were negative."""
    pruned = np.array([[1.0, -0.0, -0.0, 2.0], [0.0, 3.0, -0.0, -4.0]])
    with pytest.raises(DataError, match="but there are 4") as info:
        spfgen.pack(pruned, "warp24")
    assert "3 of these entries are -0.0" in str(info.value)
    assert "spfgen.pack(..., signed_zeros=False) leaves such zeros out" in str(info.value)
    for given in (pruned, pruned.astype(complex), spfgen.pack(pruned, "csr"), spfgen.pack(pruned, "ell")):
        for layout in ("warp24", "csr", "ell"):
            made = spfgen.pack(given, layout, signed_zeros=False)
            assert made.nnz == 4
            np.testing.assert_array_equal(made.to_numpy(), pruned)
            assert not np.signbit(made.to_numpy().real[pruned == 0]).any()
    assert spfgen.pack(pruned, "csr fill -0.0", signed_zeros=False).nse == 4
    kept = spfgen.pack(sp.csr_array(([1.0, 0.0, -0.0], ([0, 0, 0], [0, 1, 2])), (1, 3)), "csr", signed_zeros=False)
    assert kept.arrays["colidx"].tolist() == [0, 1]  # a stored 0 is none of the other sign


# --- in kernels -----------------------------------------------------------------------------------------------------

IN_KERNELS = [
    ("complex128", 2 - 1j, ["sinh(x[i])", "x[i] == 1", "x[i]*y[i]", "x[i] + y[i]", "abs(x[i])", "-x[i]"]),
    ("complex64", 1j, ["conj(x[i]) * y[i]", "x[i]**2"]),
    ("uint64", 2**64 - 1, ["~x[i]", "x[i] & y[i]", "x[i] | y[i]", "x[i] > 3", "x[i]**2"]),
    ("int64", -(2**63), ["x[i] & y[i]", "max(x[i], y[i])", "x[i] - y[i]"]),
]


@pytest.mark.parametrize(("kind", "fill", "values"), IN_KERNELS, ids=lambda x: str(x) if isinstance(x, str) else "")
def test_kernels_over_fills_of_all_types(kind, fill, values) -> None:
    """Complex ones, and integers of 64 bits: operands and results, dense and sparse, and their sums."""
    dense = np.full(9, fill, kind)
    dense[[1, 2, 6]] = [3, 1, 0]
    other = np.arange(9).astype(kind)
    names = {n: getattr(np, n) for n in ("sinh", "abs", "conj")} | {"max": np.maximum}
    x, y = spfgen.pack(dense, "sv", fill=fill), spfgen.pack(other, "coo")
    for value in values[: 4 if kind == "complex128" else 2]:
        with np.errstate(all="ignore"):
            wanted = np.asarray(eval(value.replace("[i]", ""), {**names, "x": dense, "y": other}))
        given = {"x": x} | ({"y": y} if "y" in value else {})
        for out in (None, "sv"):
            found = spfgen.evaluate(f"z[i] = {value}", **given, out=out)
            found = np.asarray(found) if out is None else found.to_numpy()
            np.testing.assert_allclose(found, wanted, rtol=1e-5)
            assert found.dtype == wanted.dtype
    with np.errstate(all="ignore"):
        assert np.isclose(spfgen.einsum("i->", x), dense.sum())
        assert np.isclose(spfgen.evaluate("s = prod(i: x[i])", x=x), dense.prod())


def test_a_result_has_a_fill_value_of_its_type() -> None:
    """Operands whose type is open take one with which the result holds what it is filled with."""
    made = spfgen.compile("y[i, j] = cos(A[i, j])", A="csr", y=handle_of("csr fill 1-0j"))
    dense = np.array([[1j, 0], [0, 2 + 1j]])
    assert np.allclose(made(A=spfgen.pack(dense, "csr")).to_numpy(), np.cos(dense))
    for operand, result in (
        ("sv<int32>", "sv fill nan"),
        ("sv<int64>", "sv fill inf"),
        ("sv<int8>", "sv fill 300"),
        ("sv<uint8>", "sv fill -1"),
        ("sv<float>", "sv fill 1j"),
    ):
        with pytest.raises(SpecError, match=r"expected a fill value that .* has"):
            spfgen.compile("Y[i] = max(B[i], 1)", B=operand, Y=result)


@pytest.mark.parametrize(
    ("text", "fill"),
    [("1j", 1j), ("-2.5j", complex(0, -2.5)), ("1+2j", 1 + 2j), ("(2-1e3j)", 2 - 1000j), ("-1-1j", -1 - 1j)],
)
def test_complex_fills_are_written(text: str, fill: complex) -> None:
    assert handle_of(f"csr fill {text}").use.fill == fill
    assert spfgen.pack(np.full((2, 2), fill), f"csr fill {text}").nse == 0
    kernel = spfgen.parse(
        f"kernel k {{ tensor A : csr<complex> fill {text} tensor y : dense\n y[i] = sum(j: A[i, j]) }}"
    )
    empty = spfgen.pack(np.full((2, 3), fill), "csr", fill=fill)
    assert np.allclose(kernel.kernels["k"].compile()(A=empty), 3 * fill)


def test_the_text_of_a_complex_fill_is_read() -> None:
    for number in (2 + 3j, -1j, complex(np.inf, -0.0), complex(0, np.nan), complex(-0.0, 1)):
        assert fill_text(handle_of(f"csr fill {fill_text(number)}").use.fill) == fill_text(number)


def test_complex_fills_beside_operands_that_are_whole() -> None:
    """The types that are tried for operands of open type hold their fill values in every choice."""
    far = spfgen.pack(np.array([[1 + 1j, 2 - 1j], [2 - 1j, 0]]), "csr", fill=2 - 1j)
    v = spfgen.pack(np.array([0, 3]), "sv")
    text = "R[i, j] = sqrt(A[i, j])\nS[i, j] = v[j] >> isfinite(A[i, j])"
    found = spfgen.evaluate(text, A=far, v=v, out={"R": "dense", "S": "dense"})
    np.testing.assert_allclose(found["R"], np.sqrt(far.to_numpy()))
    np.testing.assert_array_equal(found["S"], np.broadcast_to([0, 1], (2, 2)))


def test_casts_to_complex_bring_their_header() -> None:
    """Though no tensor is complex."""
    u = np.array([0.0, 2.0])
    assert spfgen.evaluate("R[i] = complex64(u[i]) or false", u=u).tolist() == [False, True]
