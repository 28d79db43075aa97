"""The namespace of the array API standard: its names, its signatures, and each function beside numpy."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import spfgen
import spfgen.array as xp

NAMES = """e inf nan newaxis pi
asarray arange empty empty_like eye from_dlpack full full_like linspace meshgrid ones
ones_like tril triu zeros zeros_like
astype broadcast_arrays broadcast_to can_cast finfo iinfo isdtype result_type
bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128
abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert bitwise_or
bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp expm1 floor floor_divide greater
greater_equal hypot imag isfinite isinf isnan less less_equal log log1p log2 log10 logaddexp logical_and logical_not
logical_or logical_xor maximum minimum multiply negative nextafter not_equal positive pow real reciprocal remainder
round sign signbit sin sinh square sqrt subtract tan tanh trunc
take take_along_axis __array_namespace_info__ matmul tensordot matrix_transpose vecdot
concat expand_dims flip moveaxis permute_dims repeat reshape roll squeeze stack tile unstack
argmax argmin count_nonzero nonzero searchsorted where unique_all unique_counts unique_inverse unique_values
argsort sort cumulative_prod cumulative_sum max mean min prod std sum var all any diff""".split()
LINALG = (
    "cross diagonal matmul matrix_norm matrix_power matrix_transpose outer tensordot trace vecdot vector_norm".split()
)
KEYWORDS = {
    "sum": "axis dtype keepdims",
    "var": "axis correction keepdims",
    "argsort": "axis descending stable",
    "cumulative_sum": "axis dtype include_initial",
    "diff": "axis n prepend append",
    "concat": "axis",
    "linspace": "dtype device endpoint",
    "eye": "k dtype device",
    "searchsorted": "side sorter",
    "take": "axis",
    "reshape": "copy",
    "count_nonzero": "axis keepdims",
}
"""Of these functions the arguments that are given by name alone."""
LAYOUTS = ["csr", "dcsc", "coo"]
KINDS = ["float64", "float32", "int8", "uint64", "complex128"]


def dense(kind: str, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    found = (rng.integers(0, 6, (4, 5)) * (rng.random((4, 5)) < 0.5)).astype(kind)
    return -found if kind[0] in "fi" and seed else found


def same(ours: Any, theirs: Any) -> None:
    """Shape, type and values; tuples part by part."""
    if isinstance(theirs, tuple | list):
        assert isinstance(ours, tuple | list)
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            same(one, other)
        return
    assert isinstance(ours, spfgen.Tensor)
    assert ours.dtype == np.asarray(theirs).dtype
    np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-6)


def test_all_names_are_there() -> None:
    assert not [n for n in NAMES if not hasattr(xp, n)]
    assert set(NAMES) <= {*dir(xp)}
    assert not [n for n in LINALG if not hasattr(xp.linalg, n)]
    assert xp.__array_api_version__ == "2024.12"


@pytest.mark.parametrize("name", KEYWORDS)
def test_arguments_by_name(name: str) -> None:
    parameters = inspect.signature(getattr(xp, name)).parameters.values()
    assert " ".join(p.name for p in parameters if p.kind is p.KEYWORD_ONLY) == KEYWORDS[name]
    if name != "linspace" and name != "eye":
        assert next(iter(parameters)).kind is inspect.Parameter.POSITIONAL_ONLY


ONE = {
    "fc": "cos cosh sin sinh tan tanh exp expm1 log1p sqrt atan asinh",
    "fiuc": "abs negative positive sign square conj isnan isinf isfinite round real",
    "fiu": "ceil floor trunc",
    "iu": "bitwise_invert",
    "f": "signbit",
}
THEIRS = {"atan": "arctan", "asinh": "arcsinh", "bitwise_invert": "invert", "pow": "power", "divide": "true_divide"}
THEIRS |= {"atan2": "arctan2", "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift"}
TWO = {
    "fiuc": "add subtract multiply equal not_equal",
    "fiu": "maximum minimum less less_equal greater greater_equal",
    "f": "atan2 copysign hypot logaddexp nextafter",
    "iu": "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift",
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sampled(7)
def test_functions_of_single_values(layout: str, kind: str) -> None:
    x, y = dense(kind), dense(kind, 1)
    A, B = spfgen.pack(x, layout), spfgen.pack(y, layout)
    with np.errstate(all="ignore"):
        for kinds, names in ONE.items():
            for name in names.split() if x.dtype.kind in kinds else ():
                same(getattr(xp, name)(A), getattr(np, THEIRS.get(name, name))(x))
        for kinds, names in TWO.items():
            for name in names.split() if x.dtype.kind in kinds else ():
                same(getattr(xp, name)(A, B), getattr(np, THEIRS.get(name, name))(x, y))


WHOLE: list[Callable[[Any, Any], Any]] = [
    lambda p, x: p.sum(x, axis=0),
    lambda p, x: p.sum(x, axis=1, keepdims=True),
    lambda p, x: p.prod(x),
    lambda p, x: p.max(x, axis=1),
    lambda p, x: p.min(x),
    lambda p, x: p.any(x, axis=0),
    lambda p, x: p.all(x),
    lambda p, x: p.count_nonzero(x, axis=0),
    lambda p, x: p.argmax(x, axis=1),
    lambda p, x: p.argmin(x),
    lambda p, x: p.cumulative_sum(x, axis=1, include_initial=True),
    lambda p, x: p.cumulative_prod(x, axis=0),
    lambda p, x: p.diff(x, n=2),
    lambda p, x: p.sort(x, axis=0),
    lambda p, x: p.argsort(x, axis=0, stable=True),
    lambda p, x: p.sort(p.unique_values(x)),
    lambda p, x: tuple(p.unique_counts(x)),
    lambda p, x: tuple(p.unique_inverse(x)),
    lambda p, x: tuple(p.unique_all(x)),
    lambda p, x: p.nonzero(x),
    lambda p, x: p.where(x > 2, x, 2),
    lambda p, x: p.clip(x, 1, 3),
    lambda p, x: p.clip(x, max=3),
    lambda p, x: p.concat([x, x], axis=1),
    lambda p, x: p.stack([x, x], axis=1),
    lambda p, x: p.unstack(x, axis=1),
    lambda p, x: p.expand_dims(x, axis=1),
    lambda p, x: p.flip(x, axis=1),
    lambda p, x: p.moveaxis(x, 0, 1),
    lambda p, x: p.permute_dims(x, (1, 0)),
    lambda p, x: p.repeat(x, 2, axis=0),
    lambda p, x: p.reshape(x, (2, 10)),
    lambda p, x: p.roll(x, 2, axis=1),
    lambda p, x: p.squeeze(x[:1], axis=0),
    lambda p, x: p.tile(x, (2, 1)),
    lambda p, x: p.tril(x, k=1),
    lambda p, x: p.triu(x),
    lambda p, x: p.take(x, p.asarray([2, 0]), axis=1),
    lambda p, x: p.take_along_axis(x, p.asarray([[2, 0, 1, 3, 3]]), axis=0),
    lambda p, x: p.broadcast_to(x, (2, 4, 5)),
    lambda p, x: p.broadcast_arrays(x, x[:1]),
    lambda p, x: p.matmul(x, p.matrix_transpose(x)),
    lambda p, x: p.tensordot(x, x, axes=((0,), (0,))),
    lambda p, x: p.vecdot(x, x),
    lambda p, x: p.linalg.outer(x[0], x[1]),
    lambda p, x: p.linalg.diagonal(x, offset=1),
    lambda p, x: p.linalg.trace(x, offset=-1),
    lambda p, x: p.linalg.cross(x[:, :3], x[:, 1:4]),
    lambda p, x: p.astype(x, p.float32),
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["float64", "int8", "uint64"])
@pytest.mark.sampled(4)
def test_functions_of_whole_arrays(layout: str, kind: str) -> None:
    x = dense(kind)
    A = spfgen.pack(x, layout)
    for k, function in enumerate(WHOLE):
        try:
            same(function(xp, A), function(np, x))
        except AssertionError as error:
            raise AssertionError(inspect.getsource(function), k) from error


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_means_deviations_and_norms(layout: str, kind: str) -> None:
    x = dense(kind)
    A = spfgen.pack(x, layout)
    for axis in (None, 0, 1, (0, 1)):
        same(xp.mean(A, axis=axis), np.mean(x, axis=axis))
        same(xp.var(A, axis=axis, correction=1), np.var(x, axis=axis, ddof=1))
        same(xp.std(A, axis=axis, keepdims=True), np.std(x, axis=axis, keepdims=True))
        for order in (0, 1, 2, 3, np.inf, -np.inf):
            same(xp.linalg.vector_norm(A, axis=axis, ord=order), np.linalg.vector_norm(x, axis=axis, ord=order))
    for order in ("fro", 1, -1, np.inf, -np.inf):
        same(xp.linalg.matrix_norm(A, ord=order), np.linalg.matrix_norm(x, ord=order))


def test_the_variance_of_what_fills_an_array() -> None:
    A = spfgen.pack(dense("float64"), "csr") + 2
    assert A.nse < A.size
    same(xp.var(A, axis=0), np.var(A.to_numpy(), axis=0))


def test_powers_of_matrices() -> None:
    x = np.stack([dense("int8")[:, :4], dense("int8", 2)[:, :4]]).astype(np.int64)
    for n in (0, 1, 2, 5):
        same(xp.linalg.matrix_power(spfgen.pack(x, "coo"), n), np.linalg.matrix_power(x, n))
    with pytest.raises(TypeError, match="not negative"):
        xp.linalg.matrix_power(spfgen.pack(x, "coo"), -1)


def test_arrays_from_nothing() -> None:
    same(xp.zeros((2, 3)), np.zeros((2, 3)))
    same(xp.ones(3, dtype=xp.int8), np.ones(3, np.int8))
    same(xp.full((2, 2), 7), np.full((2, 2), 7))
    same(xp.full((), True), np.full((), True))
    assert xp.full((10**6, 10**6), 7).nse == 0
    for n, m, k in ((3, None, 0), (3, 5, 2), (5, 3, -2), (2, 2, 7), (2, 2, -7)):
        same(xp.eye(n, m, k=k), np.eye(n, m, k=k))
    same(xp.arange(2, 9, 3), np.arange(2, 9, 3))
    same(xp.linspace(0, 1, 5, endpoint=False), np.linspace(0, 1, 5, endpoint=False))
    same(xp.meshgrid(xp.arange(3), xp.arange(2)), np.meshgrid(np.arange(3), np.arange(2)))
    same(xp.meshgrid(xp.arange(3), xp.arange(2), indexing="ij"), np.meshgrid(np.arange(3), np.arange(2), indexing="ij"))
    A = spfgen.pack(dense("float32"), "csr")
    assert xp.ones_like(A).layout.name == "csr"
    same(xp.full_like(A, 3), np.full_like(A.to_numpy(), 3))
    same(xp.from_dlpack(np.arange(3)), np.arange(3))
    assert xp.asarray(A) is A
    assert xp.asarray(A, copy=True) is not A
    with pytest.raises(ValueError, match="no copy"):
        xp.asarray(A, dtype=xp.float64, copy=False)


def test_types() -> None:
    A = spfgen.pack(dense("float32"), "csr")
    assert xp.result_type(A, xp.int8) == xp.float32
    assert xp.result_type(A, 1.5) == xp.float32
    assert xp.can_cast(A, xp.float64)
    assert not xp.can_cast(xp.int64, xp.int8)
    assert xp.isdtype(A.dtype, ("integral", "real floating"))
    assert type(xp.finfo(A).eps) is float
    assert xp.finfo(xp.complex64).dtype == xp.float32
    assert xp.iinfo(xp.uint8).max == 255
    info = xp.__array_namespace_info__()
    assert set(info.dtypes(kind=("bool", "real floating"))) == {"bool", "float32", "float64"}
    assert info.default_dtypes()["indexing"] == xp.int64
    assert info.devices() == [info.default_device()] == [A.device]


def test_arrays_know_their_namespace() -> None:
    A = spfgen.pack(dense("float64"), "csr")
    lazy = spfgen.asarray(A)
    for x in (A, lazy):
        assert x.__array_namespace__(api_version="2024.12") is xp
        assert x.to_device("cpu") is x
        assert x.mT.shape == (5, 4)
    with pytest.raises(ValueError, match="version of the array API"):
        A.__array_namespace__(api_version="2030.01")
    with pytest.raises(ValueError, match="the only one"):
        A.to_device("gpu")
    total = xp.sum(xp.multiply(lazy, 2), axis=0)
    assert isinstance(total, spfgen.LazyArray)
    np.testing.assert_allclose(np.asarray(total), 2 * A.to_numpy().sum(axis=0))
    assert operator.index(xp.asarray(3)) == 3
    with pytest.raises(TypeError):
        operator.index(xp.asarray(3.0))


def test_what_is_not_there_says_so() -> None:
    A = spfgen.pack(dense("float64"), "csr")
    with pytest.raises(AttributeError, match=r"numpy\.linalg\.inv"):
        _ = xp.linalg.inv
    with pytest.raises(TypeError, match="two numbers"):
        xp.add(1, 2)
    with pytest.raises(TypeError, match="int8"):
        xp.sin(spfgen.pack(dense("int8"), "csr"))
    with pytest.raises(TypeError, match="norm"):
        xp.linalg.matrix_norm(A, ord=2)
    with pytest.raises(ValueError, match="new arrays"):
        xp.reshape(A, (20,), copy=False)
    with pytest.raises(ValueError, match="the only one"):
        xp.zeros(3, device="gpu")


EXACT = {
    "multiply": np.multiply,
    "divide": np.true_divide,
    "floor_divide": np.floor_divide,
    "remainder": np.remainder,
}


@pytest.mark.filterwarnings("ignore:.*encountered in.*:RuntimeWarning")
@pytest.mark.parametrize("name", EXACT)
def test_what_is_not_stored_is_a_zero_as_any_other(name: str) -> None:
    """The standard knows no other: 0 times infinity and 0 by 0 are nan."""
    random = np.random.default_rng(3)
    values = [0, 0, 0, 1, -2, np.inf, -np.inf, np.nan]
    for _ in range(8):
        a, b, c = random.choice(values, (4, 5)), random.choice(values, (4, 5)), random.choice(values, 5)
        one, two = (spfgen.pack(d, str(random.choice(["csr", "coo", "csc", "bcsr(R=2, C=2)"]))) for d in (a, b))
        sides = [(one, two, a, b), (one, xp.asarray(b), a, b), (xp.asarray(c), one, c, a), (one, xp.asarray(c), a, c)]
        for number in (0.0, np.inf, 2.0):
            sides += [(one, number, a, number), (number, one, number, a)]
        for x, y, first, second in sides:
            wanted = EXACT[name](first, second)
            np.testing.assert_array_equal(np.asarray(getattr(xp, name)(x, y)), wanted)
            if hasattr(x, "dtype"):
                lazy = getattr(xp, name)(spfgen.asarray(x), y)
                np.testing.assert_array_equal(np.asarray(lazy), wanted)


def test_a_product_stays_sparse_beside_finite_numbers() -> None:
    large = spfgen.pack((([3], [4]), [2.0]), "coo", shape=(10**14, 10))
    found = xp.multiply(large, xp.asarray(np.arange(10.0)))
    assert (found.nse, found.fill, found[3, 4]) == (1, 0, 8)
    with pytest.raises(spfgen.SpfgenError, match="memory"):
        xp.divide(large, xp.asarray(np.arange(10.0)))  # nan in each row


@pytest.mark.parametrize("k", [0, 1, -2, 5, 2**63 + 128, -(2**70)])
def test_a_diagonal_may_be_far_away(k: int) -> None:
    for rows, columns in ((3, 4), (0, None), (4, 2)):
        wanted = np.eye(rows, columns, k=max(-9, min(k, 9)))
        assert np.array_equal(np.asarray(xp.eye(rows, columns, k=k)), wanted)
