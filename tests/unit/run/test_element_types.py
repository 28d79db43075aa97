"""Every element type gives what numpy gives: the type of the result, and the numbers, overflow included.

What numpy does not do (differences of bool) is not asked here. Index arrays of one tensor are of mixed types.
"""

from __future__ import annotations

import numpy as np
import pytest

import spfgen
from spfgen.lang.types import TYPES
from spfgen.run.calls.bind import bind
from spfgen.run.coordinates import Coordinates
from spfgen.run.tensor import Array

LAYOUTS = ("csr", "coo", "bcsr(R=2, C=2)", "dia", "csc", "ell")
SHAPE = (5, 6)


def numbers(kind: str, count: int, random: np.random.Generator) -> Array:
    """Integers of the whole range, so that sums and products overflow; other numbers that are exact; none is 0."""
    dtype = np.dtype(kind)
    if dtype.kind == "b":
        return np.ones(count, dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        found = random.integers(limits.min, limits.max, count, dtype=dtype, endpoint=True)
        return np.where(found == 0, 1, found).astype(dtype)
    parts = random.integers(-8, 8, (2, count)) + 0.5
    return (parts[0] + 1j * parts[1] if dtype.kind == "c" else parts[0]).astype(dtype)


def matrix(kind: str, seed: int) -> Array:
    random = np.random.default_rng(seed)
    dense = np.zeros(SHAPE, kind)
    there = random.random(SHAPE) < 0.5
    there[0] = True  # a sum of several numbers
    dense[there] = numbers(kind, int(there.sum()), random)
    return dense


KERNEL = """
kernel all {{
    tensor A : {a}
    tensor B : {b}
    tensor x, y, d, F : dense
    y[i] = A[i, j]*x[j]
    d[j] += A[i, j]*B[i, j]
    F[i, j] = A[i, j]*B[i, j] {sign} A[i, j]
    s = A[i, j]*B[i, j]
}}
"""


def expected(a: Array, b: Array, x: Array) -> dict[str, Array]:
    kind = np.result_type(a, b, x)
    is_bool = kind == np.bool_

    def total(values: Array, axis: int | None) -> Array:
        return np.add.reduce(values.astype(kind), axis=axis, dtype=kind)

    return {
        "y": total(a * x, 1),
        "d": np.ones(SHAPE[1], kind) + total(a * b, 0),
        "F": a * b + a if is_bool else a * b - a,
        "s": total(a * b, None),
    }


def check(first: str, second: str, layouts: tuple[str, str], seed: int) -> None:
    a, b = matrix(first, seed), matrix(second, seed + 1)
    x = numbers(second, SHAPE[1], np.random.default_rng(seed + 2))
    sign = "+" if first == second == "bool" else "-"
    text = KERNEL.format(a=layouts[0], b=layouts[1], sign=sign)
    kernel = spfgen.parse(text).kernels["all"].compile(threads=1)
    given: dict[str, object] = {"x": x, "d": np.ones(SHAPE[1], np.result_type(a, b, x))}
    for name, dense in (("A", a), ("B", b)):
        layout = kernel.generated.program.tensor(name).layout
        kinds = {i.name: ("int32", "int64")[(k + seed) % 2] for k, i in enumerate(layout.indexes)}
        coords = tuple(c.astype(np.int64) for c in np.nonzero(dense))
        given[name] = bind(layout, Coordinates(SHAPE, coords, dense[coords]), name, kinds, value_type=dense.dtype.name)
    found = kernel(**given)
    for name, wanted in expected(a, b, x).items():
        output = np.asarray(found[name])
        assert output.dtype == wanted.dtype, name
        if wanted.dtype.kind in "fc":  # sums of whole numbers that a float does not hold
            assert np.allclose(output, wanted, rtol=1e-12), (name, layouts)
        else:
            assert np.array_equal(output, wanted), (name, layouts)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", TYPES)
def test_one_type(kind) -> None:
    with np.errstate(over="ignore"):
        number = list(TYPES).index(kind)
        check(kind, kind, (LAYOUTS[number % 6], LAYOUTS[(number + 1) % 6]), number)


PAIRS = [
    ("bool", "int8"), ("int8", "uint8"), ("uint64", "int64"), ("int64", "float32"), ("float64", "complex64"),
]  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_two_types(first, second) -> None:
    with np.errstate(over="ignore"):
        number = list(TYPES).index(first)
        check(first, second, (LAYOUTS[(number + 2) % 6], LAYOUTS[(number + 4) % 6]), number)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("text", "kind", "numpy"),
    [
        ("C[i, j] = 2*A[i, j]", "bool", lambda a: 2 * a),
        ("C[i, j] = 2*A[i, j]", "uint8", lambda a: 2 * a),
        ("C[i, j] = 0.5*A[i, j]", "int8", lambda a: 0.5 * a),
        ("C[i, j] = A[i, j]/4", "int64", lambda a: a / 4),
        ("C[i, j] = -A[i, j]", "uint16", lambda a: -a),
        ("C[i, j] = 2*A[i, j] + A[i, j]", "bool", lambda a: 2 * a + a),
        ("C[i, j] = 128*int16(A[i, j])", "int8", lambda a: 128 * a.astype(np.int16)),
        ("C[i, j] = 255*A[i, j]", "uint8", lambda a: 255 * a),
    ],
)
def test_numbers_in_the_text(text, kind, numpy) -> None:
    a = matrix(kind, 7)
    found = spfgen.compile(text, A="csr", C="dense", threads=1)(A=a)
    assert found.dtype == numpy(a).dtype
    assert np.array_equal(found, numpy(a))


@pytest.mark.parametrize(("number", "kind"), [(128, "int8"), (256, "uint8"), (-1, "uint16")])
def test_numbers_that_the_type_does_not_hold(number, kind) -> None:
    """Refused, as in numpy, which would have to compute in another type."""
    a = matrix(kind, 7)
    with pytest.raises(OverflowError):
        number * a
    with pytest.raises(spfgen.SpfgenError, match=f"a number that {kind} holds"):
        spfgen.compile(f"C[i, j] = {number}*A[i, j]", A="csr", C="dense", threads=1)(A=a)


@pytest.mark.parametrize(
    ("kind", "wraps"), [("int16", True), ("uint16", True), ("float64", False), ("complex64", False)]
)
def test_the_c_says_that_integers_wrap_around(kind, wraps) -> None:
    text = f"kernel f {{ tensor A : csr<{kind}>\n tensor y : dense<{kind}>\n y[i] = A[i, j] }}"
    first = spfgen.parse(text).kernels["f"].compile().source.splitlines()[0]
    assert ("-fwrapv" in first) == wraps
