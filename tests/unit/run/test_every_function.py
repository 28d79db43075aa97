"""Every function of arrays with values of every type means what it means in numpy: values, type, shape, nan, signs of
zeros; few elements and so many that kernels compute it, at once and when it is asked for, in several layouts and with
several fill values.

They differ in what docs/arrays.md says: what is not stored decides a product or a quotient alone, the zero of a fill
value that is computed has no sign, and float16 is float32.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen import folder
from spfgen.folder import load
from spfgen.lang.types import TYPES
from spfgen.run import later
from spfgen.run.arrays.eager import ENOUGH
from spfgen.run.tensor import Tensor

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*encountered in.*:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:Casting complex values:numpy.exceptions.ComplexWarning"),
]
SMALL, LARGE = (4, 6), (160, 175)
LAYOUTS = ("csr", "coo", "dcsr", "csc", "bcsr(R=2, C=3)", "ell", "dense")
KINDS = tuple(TYPES)
UFUNCS = sorted(
    {
        f.__name__
        for n in dir(np)
        if isinstance(f := getattr(np, n), np.ufunc) and f.signature is None and f.nin < 3 and f.nout == 1
    }
    - {"isnat"}
)
PRODUCTS = ("kron", "matmul", "matmul of a vector", "dot", "inner", "outer", "tensordot")
"""Their operands are finite: what is not stored is left out of sums."""
DECIDED = {"multiply": (0, 1), "divide": (0,), "floor_divide": (0,), "remainder": (0,), "fmod": (0,)}
"""The places at which a 0 that is not stored decides the result of floating-point numbers."""


def whole(size: tuple[int, ...]) -> dict[str, Callable[..., Any]]:
    """Functions of whole arrays, by name."""
    rows, columns = size
    mask = np.arange(rows * columns).reshape(size) % 3 == 1
    found: dict[str, Callable[..., Any]] = {
        "where": lambda a, b: np.where(mask, a, b),
        "where of one": lambda a, b: np.where(a, b, a),
        "clip": lambda a, b: np.clip(a, 1, 2),
        "round": lambda a, b: np.round(a, 1),
        "isclose": lambda a, b: np.isclose(a, b),
        "array_equal": lambda a, b: np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"),
        "real": lambda a, b: a.real,
        "imag": lambda a, b: a.imag,
        "conj": lambda a, b: a.conj(),
        "nonzero": lambda a, b: a.nonzero(),
        "count_nonzero": lambda a, b: np.count_nonzero(a, axis=0),
        "take": lambda a, b: a[1::2, ::-1],
        "take rows": lambda a, b: a[[2, 0, 2]],
        "take mask": lambda a, b: a[a == a[0, 0]],
        "new": lambda a, b: a[:, None, 1:],
        "transpose": lambda a, b: np.transpose(a),
        "reshape": lambda a, b: np.reshape(a, (columns, rows)),
        "flip": lambda a, b: np.flip(a, 0),
        "roll": lambda a, b: np.roll(a, 2, 1),
        "tril": lambda a, b: np.tril(a, 1),
        "triu": lambda a, b: np.triu(a, -1),
        "diagonal": lambda a, b: np.diagonal(a, 1),
        "expand_dims": lambda a, b: np.expand_dims(a, 1),
        "broadcast_to": lambda a, b: np.broadcast_to(a[:1], (3, columns)),
        "tile": lambda a, b: np.tile(a[:3], (2, 1)),
        "repeat": lambda a, b: np.repeat(a[:3], 2, 0),
        "concatenate": lambda a, b: np.concatenate([a, b[:2]]),
        "stack": lambda a, b: np.stack([a[:3], b[:3]], 1),
        "hstack": lambda a, b: np.hstack([a, b]),
        "kron": lambda a, b: np.kron(a[:2, :3], b[:3, :2]),
        "pad": lambda a, b: np.pad(a, 1),
        "matmul": lambda a, b: a @ b.T,
        "matmul of a vector": lambda a, b: a @ np.ones(columns, b.dtype),
        "dot": lambda a, b: np.dot(a[:3], b[:4].T),
        "inner": lambda a, b: np.inner(a[:3], b[:4]),
        "outer": lambda a, b: np.outer(a[0], b[1]),
        "tensordot": lambda a, b: np.tensordot(a, b, 2),
        "trace": lambda a, b: np.trace(a),
        "norm": lambda a, b: np.linalg.norm(a),
        "norm of columns": lambda a, b: np.linalg.norm(a, 1, 0),
    }
    for name in "sum prod max min any all mean".split():
        for axis in (None, 0, 1, (0, 1)):
            found[f"{name} {axis}"] = lambda a, b, name=name, axis=axis: getattr(np, name)(a, axis=axis)
        found[f"{name} where"] = lambda a, b, name=name: getattr(np, name)(
            a, axis=0, where=mask, **({"initial": 1} if name in ("max", "min") else {})
        )
        found[f"{name} keepdims"] = lambda a, b, name=name: getattr(a, name)(axis=1, keepdims=True)
    for name in ("argmax", "argmin"):
        found[f"{name} None"] = lambda a, b, name=name: getattr(np, name)(a)
        found[f"{name} 1"] = lambda a, b, name=name: getattr(np, name)(a, axis=1)
    for name in "sum prod mean".split():
        for kind in ("uint8", "int16", "float32", "complex128"):
            found[f"{name} {kind}"] = lambda a, b, name=name, kind=kind: getattr(np, name)(a, axis=0, dtype=kind)
    for name in ("bitwise_xor", "logical_xor", "bitwise_and", "bitwise_or", "fmax", "fmin", "hypot", "subtract", "gcd"):
        found[f"{name}.reduce"] = lambda a, b, name=name: getattr(np, name).reduce(a, axis=1)
    for kind in KINDS:
        found[f"astype {kind}"] = lambda a, b, kind=kind: a.astype(kind)
    return found


NAMES = [*(f"np.{n}" for n in UFUNCS), *whole(SMALL)]
LAZY_TOO = [
    n for n in NAMES if n.startswith("np.") or n.split()[0] in "sum prod max min any all mean matmul take".split()
]


@cache
def drawn(kind: str, seed: int, size: tuple[int, int], fill: Any, special: bool) -> tuple[np.ndarray, np.ndarray]:
    """(a dense array, where it is to be stored): small numbers, zeros of both signs and what is not finite."""
    random = np.random.default_rng(seed)
    letter = np.dtype(kind).kind
    values = random.integers(0 if letter in "ub" else -3, 4, size).astype("float64")
    if letter == "c":
        values = values + 1j * random.integers(-2, 3, size)
    if letter in "fc" and special:
        at = random.random(size)
        values = np.where(at < 0.06, -0.0, np.where(at > 0.97, np.nan, np.where(at > 0.94, np.inf, values)))
    values = values.astype(bool).astype(kind) if letter == "b" else values.astype(kind)
    stored = random.random(size) < 0.8
    return np.where(stored, values, np.asarray(fill).astype(kind)), stored


def fill_of(kind: str, which: int) -> Any:
    """0, or a number that only the type has."""
    if not which:
        return 0
    letter, bits = np.dtype(kind).kind, 8 * np.dtype(kind).itemsize
    return {"b": True, "u": 2**bits - 1, "i": -(2 ** (bits - 1)), "f": (2.0, np.inf)[which - 1], "c": 1 + 2j}[letter]


def tensor_of(dense: np.ndarray, stored: np.ndarray, layout: str, fill: Any) -> Tensor:
    """What is to be stored is, also where it is the fill value."""
    if layout == "dense":
        return spfgen.pack(dense, layout)
    at = np.nonzero(stored)
    found = spfgen.pack((at, dense[at]), layout, shape=dense.shape, fill=fill)
    assert found.dtype == dense.dtype
    return found


@dataclass(frozen=True)
class Case:
    name: str
    kind: str
    other: str
    layout: str
    second: str
    """The layout of the second operand; `array` or `number` stand for themselves."""
    fill: int
    large: bool
    lazy: bool
    special: bool
    seed: int

    def __str__(self) -> str:
        said = [self.name, self.kind, self.other, self.layout, self.second, f"fill{self.fill}"]
        return "-".join((*said, *(n for n in ("large", "lazy", "special") if getattr(self, n)), str(self.seed)))


def case_of(seed: int, name: str | None = None, large: bool | None = None) -> Case:
    random = np.random.default_rng([seed, zlib.crc32((name or "").encode())])
    name = str(random.choice(NAMES)) if name is None else name
    kind, other = (str(random.choice(KINDS)) for _ in range(2))
    return Case(
        name,
        kind,
        kind if random.random() < 0.6 else other,
        str(random.choice(LAYOUTS)),
        str(random.choice([*LAYOUTS[:3], *LAYOUTS, "array", "number"])),
        int(random.integers(3)),
        bool(random.random() < 0.15) if large is None else large,
        bool(random.random() < 0.4) and name in LAZY_TOO,
        bool(random.random() < 0.5),
        seed,
    )


def check(case: Case) -> None:
    size = LARGE if case.large else SMALL
    fill, second_fill = fill_of(case.kind, case.fill), fill_of(case.other, case.seed % 3)
    if case.name in PRODUCTS:
        case = replace(case, special=False)
        fill, second_fill = (2 if f and k != "bool" else f for f, k in ((fill, case.kind), (second_fill, case.other)))
    a, stored = drawn(case.kind, case.seed, size, fill, case.special)
    b, also = drawn(case.other, case.seed + 1, size, second_fill, case.special)
    if case.layout == "dense":
        stored = np.ones_like(stored)
    own = tensor_of(a, stored, case.layout, fill)
    if case.second == "array":
        two, also = b, np.ones_like(also)
    elif case.second == "number" and case.name.startswith("np."):
        two = b = b[0, 0]
        also = np.ones_like(also)
    else:
        second = "csr" if case.second == "number" else case.second
        also = np.ones_like(also) if second == "dense" else also
        two = tensor_of(b, also, second, second_fill)
    one = spfgen.asarray(own) if case.lazy else own
    assert not case.large or own.nse > ENOUGH
    function: Callable[..., Any]
    unary = False
    if case.name.startswith("np."):
        function = getattr(np, case.name[3:])
        unary = function.nin == 1
    else:
        function = whole(size)[case.name]
    given, wanted_of = ((one,), (a,)) if unary else ((one, two), (a, b))
    with np.errstate(all="ignore"):
        wanted, refused = outcome(function, wanted_of)
        if refused is not None:
            with pytest.raises(spfgen.SpfgenError) as raised:
                done(function(*given))
            assert isinstance(raised.value, refused), raised.value
            return
        if getattr(wanted, "dtype", None) == np.float16:
            single = wanted_of[:1] if case.name == "np.ldexp" else wanted_of  # whose exponent stays an integer
            few = (x.astype(np.float32) if x.dtype.itemsize == 1 else x for x in single)
            wanted = function(*few, *wanted_of[len(single) :])
        found = done(function(*given))
    if isinstance(wanted, tuple):
        assert all(np.array_equal(f, w) for f, w in zip(found, wanted, strict=True))
        return
    agrees(case, found, np.asarray(wanted), stored, also, fill, second_fill, unary)


def outcome(function: Callable[..., Any], given: Sequence[Any]) -> tuple[Any, type[Exception] | None]:
    """What numpy gives, or which kind of error it raises."""
    try:
        return function(*given), None
    except (TypeError, ValueError, OverflowError) as error:
        return None, next(k for k in (TypeError, ValueError, OverflowError) if isinstance(error, k))


def done(value: Any) -> Any:
    return value.compute() if isinstance(value, spfgen.LazyArray) else value


def agrees(
    case: Case,
    found: Any,
    wanted: np.ndarray,
    stored: np.ndarray,
    also: np.ndarray,
    fill: Any,
    second: Any,
    unary: bool,
) -> None:
    got = np.asarray(found)
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype
    name = case.name.removeprefix("np.")
    pointwise = case.name.startswith("np.") and got.shape == stored.shape
    if pointwise and not unary and got.dtype.kind in "fc":
        for place, (where, number) in enumerate(((stored, fill), (also, second))):
            if place in DECIDED.get(name, ()) and number == 0:
                left = ~where & (np.nan_to_num(got) == 0)  # 0 is right there, whatever numpy computes
                wanted = np.where(left, got, wanted)
    if case.name.startswith("prod") and got.dtype.kind == "f":  # what overflows first depends on the order
        wanted = np.where(np.isfinite(got) & np.isfinite(wanted), wanted, got)
    if got.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, wanted)
        return
    rough_order = case.name.startswith("prod")
    rough = 2e-4 if got.dtype.name in ("float32", "complex64") else 1e-9
    if got.dtype.kind == "c":  # which of its parts is nan is left to the library, as is an infinity times a number
        finite = np.isfinite(got) & np.isfinite(wanted)
        assert np.array_equal(np.isfinite(got), np.isfinite(wanted)) or case.special or case.fill == 2 or rough_order
        np.testing.assert_allclose(got[finite], wanted[finite], rough, rough)
        return
    np.testing.assert_allclose(got, wanted, rough, rough)
    if pointwise and isinstance(found, Tensor) and name not in ("maximum", "minimum", "fmax", "fmin"):
        at = (stored if unary else stored & also) & (got == 0)
        assert np.array_equal(np.signbit(got[at]), np.signbit(wanted[at])), "the sign of a zero"


@pytest.fixture
def numpy_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel is used, however many entries there are."""
    monkeypatch.setenv("SPFGEN_COMPILE", "never")
    monkeypatch.setattr(later, "_STATES", {})
    monkeypatch.setattr(folder, "load", lambda kind, key: None if kind == later.MARKS else load(kind, key))


@pytest.fixture
def kernels_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are used wherever there is one, however few entries there are."""
    monkeypatch.setenv("SPFGEN_COMPILE", later.WARM)
    monkeypatch.setattr(later, "_STATES", {})
    monkeypatch.setattr(later, "marked", lambda mark: None)


@pytest.mark.usefixtures("numpy_serves")
@pytest.mark.parametrize("name", NAMES)
def test_a_few(name: str) -> None:
    for seed in range(2):
        check(case_of(seed, name, large=False))


@pytest.mark.usefixtures("kernels_serve")
@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [*LAZY_TOO, *PRODUCTS])
def test_by_kernels(name: str) -> None:
    check(replace(case_of(1, name, large=False), lazy=name in LAZY_TOO))


@pytest.mark.usefixtures("numpy_serves")
@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", NAMES)
def test_large_by_numpy(name: str) -> None:
    check(case_of(100, name, large=True))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
def test_more(name: str) -> None:
    for seed in range(2, 40):
        check(case_of(seed, name))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", NAMES)
def test_large(name: str) -> None:
    check(case_of(100, name, large=True))


@pytest.mark.fuzz
def test_random() -> None:
    for seed in range(1000, 5000):
        check(case_of(seed))


@pytest.mark.usefixtures("kernels_serve")
@pytest.mark.fuzz
def test_random_by_kernels() -> None:
    for seed in range(5000, 9000):
        case = case_of(seed, large=False)
        if case.lazy or case.name in PRODUCTS:
            check(case)


@pytest.mark.parametrize("kind", KINDS)
def test_several_results(kind: str) -> None:
    dense, stored = drawn(kind, 5, SMALL, 0, False)
    tensor = tensor_of(dense, stored, "csr", 0)
    single = dense.astype(np.float32) if dense.dtype.itemsize == 1 else dense
    for call in (
        lambda a: np.modf(a),
        lambda a: np.frexp(a),
        lambda a: divmod(a, a.dtype.type(2)),
        lambda a: np.divmod(a, 3),
    ):
        try:
            wanted = call(dense)
        except TypeError:
            with pytest.raises(TypeError):
                call(tensor)
            continue
        if any(w.dtype == np.float16 for w in wanted):
            wanted = call(single)
        for found, right in zip(call(tensor), wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(found), right)
            assert found.dtype == right.dtype
