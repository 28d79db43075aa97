"""Element types: whatever operands and target are, the result is what numpy's promotion of them gives."""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen.errors import DataError, SpecError
from spfgen.ir import walk
from spfgen.lang.parse import parse_statements
from spfgen.lang.types import TYPES
from spfgen.plan.nodes import Versions
from tests.fuzz import runner
from tests.fuzz.programs import Case, Data
from tests.oracle import Stored, evaluate

Array = np.ndarray[Any, Any]
KINDS = list(TYPES)
PAIRS = list(combinations_with_replacement(KINDS, 2))
DATA = tuple(Data((("n0", 4), ("n1", 5)), (), density, seed) for density, seed in ((0.5, 1), (1.0, 2)))
DIMS = (("A", ("n0", "n1")), ("B", ("n0", "n1")), ("x", ("n1",)), ("y", ("n0",)), ("Y", ("n0", "n1")))


def checked(kernels: list[str]) -> None:
    cases = [Case(k, tuple((n, d) for n, d in DIMS if f"tensor {n} " in k), (), DATA) for k in kernels]
    outcomes = runner.run(cases)
    problems = [o.report() for o in outcomes if o.problem or o.refused]
    assert not problems, f"{len(problems)} of {len(cases)}:\n" + min(problems, key=len)
    assert all(o.runs == len(DATA) for o in outcomes)


def kernel(statement: str, **layouts: str) -> str:
    lines = [*(f"tensor {n} : {use}" for n, use in layouts.items()), statement]
    return "kernel NAME {\n    " + "\n    ".join(lines) + "\n}"


# --- every pair of types, against the reference ----------------------------------------------------------


@pytest.mark.parametrize("part", range(4))
@pytest.mark.exhaustive
def test_every_pair_of_operands(part: int) -> None:
    """The target has the type of both together, of the first or of the second, in turn."""
    kernels = []
    for k, (a, b) in enumerate(PAIRS[part::4]):
        target = (np.result_type(a, b).name, a, b)[k % 3]
        left, right = ((a, b), (b, a))[k % 2]
        kernels.append(
            kernel("y[i] = A[i, j]*x[j]", A=f"csr<{left}>", x=f"dense<{right}>", y=f"dense<{target}>")
            if k % 4
            else kernel("Y[i, j] += A[i, j]*B[i, j]", A=f"csr<{left}>", B=f"coo<{right}>", Y=f"dense<{target}>")
        )
    checked(kernels)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("half", [0, 1])
def test_every_type_alone(half: int) -> None:
    """Differences, negation, numbers, several terms."""
    kernels = [
        kernel(
            "y[i] = A[i, j]*x[j] + 2*A[i, j] - x[j]*A[i, j]*A[i, j] - 1",
            A=f"csr<{k}>",
            x=f"dense<{k}>",
            y=f"dense<{k}>",
        )
        for k in KINDS
        if k != "bool"
    ]
    kernels += [kernel("Y[i, j] = -A[i, j]", A=f"coo<{k}>", Y=f"csr<{k}>") for k in KINDS if k != "bool"]
    kernels.append(kernel("y[i] = A[i, j]*x[j] + x[j]*A[i, j]", A="csr<bool>", x="dense<bool>", y="dense<bool>"))
    checked(kernels[half::2])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("half", [0, 1])
def test_quotients_and_fractions(half: int) -> None:
    """Beside a target of whole numbers, a quotient or a fraction is computed in float64."""
    kernels = []
    for kind in KINDS:
        if kind == "bool":
            continue
        kernels.append(kernel("Y[i, j] = A[i, j]/2", A=f"csr<{kind}>", Y="dense<float64>"))
        kernels.append(kernel("Y[i, j] = 0.5*A[i, j]*4.0", A=f"csr<{kind}>", Y=f"dense<{kind}>"))
        kernels.append(kernel("y[i] = A[i, j]/0.25", A=f"csr<{kind}>", y=f"dense<{kind}>"))
    checked(kernels[half::2])


def test_index_types_mixed_per_array() -> None:
    kernels = []
    for a in ("int32", "int64"):
        for b in ("int32", "int64"):
            kernels.append(
                kernel("y[i] = A[i, j]*x[j]", A=f"csr<float64, rowptr : {a}, colidx : {b}>", x="dense", y="dense")
            )
            kernels.append(
                kernel(
                    "Y[i, j] += A[i, j]*B[i, j]",
                    A=f"csr<float32, rowptr : {a}, colidx : {b}>",
                    B=f"coo<float64, idx_1 : {b}, idx_2 : {a}>",
                    Y=f"bcsr<float64, browptr : {b}, bcolidx : {a}>",
                )
            )
            kernels.append(kernel("y[i] = A[i, j]", A=f"jds<jdptr : {a}, perm : {b}, colidx : {a}>", y="dense"))
            kernels.append(kernel("y[i] = A[i, j]*A[i, j]", A=f"ell<{a}>", y=f"dense<{b}>"))
    checked(kernels)


# --- through the Python door -----------------------------------------------------------------------------


def csr(values: Array, pointer: str = "int32", column: str = "int32") -> spfgen.Tensor:
    """A 3 x 4 matrix: (0, 1), (0, 3), (2, 0), (2, 1)."""
    handle = spfgen.parse("").layouts["csr"]
    return spfgen.tensor(
        handle, shape=(3, 4), rowptr=np.array([0, 2, 2, 4], pointer), colidx=np.array([1, 3, 0, 1], column), val=values
    )


def as_stored(values: Array) -> Stored:
    return Stored((3, 4), (np.array([0, 0, 2, 2]), np.array([1, 3, 0, 1])), values)


MIXES = [
    ("float32", "float64", "float64"),
    ("int32", "float32", "float64"),
    ("int8", "int16", "int16"),
    ("uint8", "int8", "int16"),
    ("bool", "bool", "bool"),
    ("bool", "int64", "int64"),
    ("uint64", "int64", "float64"),
    ("complex64", "float64", "complex128"),
    ("complex64", "float32", "complex64"),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("left", "right", "both"), MIXES)
def test_compiled_for_the_types_of_a_call(left: str, right: str, both: str) -> None:
    """The types are those of the operands; a new output has the type of both together."""
    kernel = spfgen.compile("y[i] = A[i,j]*x[j]", A="csr", x="dense", y="dense")
    values, x = np.array([1, 2, 3, 4]).astype(left), np.array([1, 0, 1, 1]).astype(right)
    found = kernel(A=csr(values), x=x)
    wanted = evaluate(parse_statements("y[i] = A[i,j]*x[j]"), {"A": as_stored(values), "x": x, "y": np.zeros(3, both)})[
        "y"
    ]
    assert found.dtype == both
    assert np.array_equal(found, wanted)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("pointer", "column"), [("int32", "int64"), ("int64", "int32"), ("int64", "int64")])
def test_index_types_of_a_call(pointer: str, column: str) -> None:
    kernel = spfgen.compile("y[i] = A[i,j]*x[j]", A="csr", x="dense", y="dense")
    found = kernel(A=csr(np.array([1.0, 2.0, 3.0, 4.0]), pointer, column), x=np.array([1.0, 10.0, 100.0, 1000.0]))
    assert found.tolist() == [2010.0, 0.0, 43.0]
    assert f"{column}_t *colidx" in kernel._variants[next(iter(kernel._variants))][0].header


def test_one_kernel_for_several_types() -> None:
    """Each choice of types is compiled once and does not disturb the others."""
    kernel = spfgen.compile("s = x[i]*y[i]", x="dense", y="dense")
    for _ in range(2):
        assert kernel(x=np.array([True, False]), y=np.array([True, True])) == np.True_
        assert kernel(x=np.array([2, 3], np.int8), y=np.array([2, 3], np.int8)) == 13
        assert kernel(x=np.array([1j, 2]), y=np.array([1j, 2])) == 3
    assert len(kernel._variants) == 3


def test_declared_types() -> None:
    spec = spfgen.parse(
        "kernel k { tensor A : csr<float, rowptr : int64>  tensor x : dense<int8>  tensor y : dense<double>"
        " y[i] = A[i, j]*x[j] }"
    )
    kernel = spec.kernels["k"].compile()
    assert "const int64_t *rowptr;" in kernel.header
    assert "const int32_t *colidx;" in kernel.header
    values, x = np.array([1, 2, 3, 4], np.float32), np.array([1, 2, 3, 4], np.int8)
    found = kernel(A=csr(values, "int64"), x=x)
    assert found.dtype == np.float64
    assert found.tolist() == [10.0, 0.0, 11.0]
    with pytest.raises(DataError, match="expected `x` with int8 values"):
        kernel(A=csr(values, "int64"), x=x.astype(np.int16))
    with pytest.raises(DataError, match="expected `A` with float32 values, rowptr : int64"):
        kernel(A=csr(values), x=x)


@pytest.mark.parametrize("use", ["csr<float16>", "csr<int32, uint32>", "csr<float, nothing : int32>", "dense<string>"])
def test_types_that_are_none(use: str) -> None:
    subscripts = "i, j" if use.startswith("csr") else "i"
    with pytest.raises(SpecError):
        spfgen.parse(f"kernel k {{ tensor A : {use}  s = A[{subscripts}] }}").kernels["k"].compile()


# --- what each type does, in so many numbers -----------------------------------------------------------------


def run(statement: str, **operands: Array) -> Any:
    """The kernel with the types of its operands declared (an output may then be narrower than what is added)."""
    lines = [f"tensor {n} : {'dense' if a.ndim else 'scalar'}<{a.dtype.name}>" for n, a in operands.items()]
    text = "kernel k { " + "; ".join([*lines, statement]) + " }"
    return spfgen.parse(text).kernels["k"].compile()(**operands)


def test_an_output_that_cannot_hold_the_result_must_be_declared() -> None:
    kernel = spfgen.compile("z[i] = n[i]/4", n="dense", z="dense")
    with pytest.raises(DataError, match="expected `z` to hold float64"):
        kernel(n=np.array([7]), z=np.zeros(1, np.int64))
    assert kernel(n=np.array([7])).tolist() == [1.75]
    assert kernel(n=np.array([7]), z=np.zeros(1, np.float32)).tolist() == [1.75]


def test_booleans_add_by_or_and_multiply_by_and() -> None:
    x, y = np.array([True, True, False, False]), np.array([True, False, True, False])
    assert run("z[i] = x[i]*y[i]", x=x, y=y, z=np.zeros(4, bool)).tolist() == [True, False, False, False]
    assert run("z[i] = x[i] + y[i]", x=x, y=y, z=np.zeros(4, bool)).tolist() == [True, True, True, False]
    assert run("z[i] += x[i]", x=x, z=y.copy()).tolist() == [True, True, True, False]
    assert run("s = x[i]", x=x, s=np.zeros((), bool)) == np.True_
    assert run("z[i] = x[i] + x[i]", x=x, z=np.zeros(4, np.int8)).tolist() == [1, 1, 0, 0]  # True + True is True


def test_narrow_integers_wrap_as_in_numpy() -> None:
    x = np.array([127, -128, 100], np.int8)
    assert run("z[i] = x[i] + x[i]", x=x, z=np.zeros(3, np.int8)).tolist() == [-2, 0, -56]
    assert run("z[i] = x[i]*x[i]", x=x, z=np.zeros(3, np.int8)).tolist() == (x * x).tolist()
    assert run("z[i] = -x[i]", x=x, z=np.zeros(3, np.int8)).tolist() == [-127, -128, -100]
    assert run("z[i] = x[i] + x[i]", x=x, z=np.zeros(3, np.int16)).tolist() == (x + x).tolist()
    u = np.array([255, 0, 200], np.uint8)
    assert run("z[i] = u[i] + u[i]", u=u, z=np.zeros(3, np.uint8)).tolist() == [254, 0, 144]
    assert run("z[i] = -u[i]", u=u, z=np.zeros(3, np.uint8)).tolist() == [1, 0, 56]
    assert run("s = u[i]", u=u, s=np.zeros((), np.uint8)) == 199
    w = np.array([2**32 - 1], np.uint32)
    assert run("z[i] = w[i]*w[i]", w=w, z=np.zeros(1, np.uint32)).tolist() == [1]
    assert run("z[i] = w[i]*w[i]", w=w, z=np.zeros(1, np.uint64)).tolist() == [1]  # made in uint32
    assert run("z[i] = w[i]*v[i]", w=w, v=w.astype(np.uint64), z=np.zeros(1, np.uint64)).tolist() == [(2**32 - 1) ** 2]
    h = np.array([65535], np.uint16)  # an int in C, whose square overflows
    assert run("z[i] = h[i]*h[i]", h=h, z=np.zeros(1, np.uint16)).tolist() == [1]
    mixed = run("z[i] = x[i] - y[i]", x=np.array([5], np.int32), y=np.array([7], np.int32), z=np.zeros(1, np.uint32))
    assert mixed.tolist() == [2**32 - 2]


NARROW = [
    ("bool", "int8"),
    ("bool", "uint8"),
    ("bool", "int64"),
    ("bool", "float64"),
    ("bool", "complex64"),
    ("int8", "float32"),
    ("int32", "float64"),
    ("uint8", "float64"),
    ("uint64", "float32"),
    ("int64", "complex128"),
]


SUMS = "y[i] = A[i, j]*x[j]; z[i] += A[i, j]*x[j]; w[i] = A[i, j] + A[i, j]*x[j]; s += A[i, j]"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layouts", [("csr", "dense"), ("csc", "coo")])
@pytest.mark.parametrize(("target", "kind"), NARROW)
def test_targets_that_cannot_hold_the_parts_are_cast_once(target: str, kind: str, layouts: tuple[str, str]) -> None:
    """1 - 1 is no truth and 0.5 + 0.5 is one: whether what is added lies in memory or not."""
    layout = layouts[NARROW.index((target, kind)) % 2]
    random = np.random.default_rng(7)
    whole, signed = np.dtype(kind).kind in "iu", kind != "uint8" and target[0] != "u"
    choice = [1, 2, 128, *([-1] if signed else [])] if whole else [0.5, 0.25, 1.0, *([-0.5] if signed else [])]
    values = np.where(random.random((6, 8)) < 0.6, random.choice(choice, (6, 8)), 0).astype(kind)
    values[:2] = 0
    values[1, :2] = np.array([1, -1 if signed else 255 if whole else 1]).astype(kind)
    places = np.nonzero(values)
    operand = values if layout == "dense" else Stored(values.shape, places, values[places])
    targets = {"y": np.zeros(6, target), "z": np.ones(6, target), "w": np.zeros(6, target), "s": np.ones((), target)}
    wanted = evaluate(parse_statements(SUMS), {"A": operand, "x": np.ones(8, kind), **targets})
    text = f"tensor A : {layout}<{kind}>; tensor x : dense<{kind}>; tensor y, z, w : dense<{target}>; "
    text = f"kernel k {{ {text} tensor s : scalar<{target}>; {SUMS} }}"
    made = spfgen.parse(text).kernels["k"].compile(threads=2)
    made(A=values, x=np.ones(8, kind), **targets)
    for name, found in targets.items():
        assert np.array_equal(found, wanted[name]), name


@pytest.mark.sampled(1)
@pytest.mark.parametrize("target", ["bool", "int32"])
def test_they_are_in_each_variant_too(target: str) -> None:
    text = f"tensor A, B : csr<float64>  tensor C : dense<{target}>  C[i, k] = A[i, j]*B[k, j]"
    made = spfgen.parse(f"kernel k {{ {text} }}").kernels["k"].compile()
    assert any(isinstance(n, Versions) and n.by_cost for plan in made.generated.plans for n in walk(plan))
    a = np.array([[0.5, -0.5, 0], [0.5, 0.5, 2], [0, 0, 0]])
    b = np.array([[1.0, 1, 0], [0, 1, 1]])
    assert np.array_equal(made(A=a, B=b, C=np.ones((3, 2), target)), (a @ b.T).astype(target))


def test_large_integers_stay_exact() -> None:
    """No way through float64."""
    x = np.array([2**62 + 1, -(2**53) - 1])
    assert run("z[i] = x[i]", x=x, z=np.zeros(2, np.int64)).tolist() == x.tolist()
    assert run("s = x[i]", x=x, s=np.zeros((), np.int64)) == x.sum()
    assert run("z[i] = 3*x[i]", x=np.array([2**60 + 1]), z=np.zeros(1, np.int64)).tolist() == [3 * (2**60 + 1)]
    u = np.array([2**64 - 1], np.uint64)
    assert run("z[i] = u[i]", u=u, z=np.zeros(1, np.uint64)).tolist() == [2**64 - 1]


def test_numbers_take_the_type_of_the_operands() -> None:
    """A fraction beside float32 is float32, as a Python number is for numpy."""
    x = np.array([1.0], np.float32)
    found = run("z[i] = 0.1*x[i]", x=x, z=np.zeros(1, np.float32))
    assert found.dtype == np.float32
    assert found[0] == np.float32(0.1)
    assert run("z[i] = x[i]/3", x=x, z=np.zeros(1, np.float32))[0] == np.float32(1) / np.float32(3)
    assert run("z[i] = x[i]/3", x=x, z=np.zeros(1))[0] == np.float32(1) / np.float32(3)  # the result converts at last
    assert run("z[i] = n[i]/4", n=np.array([7]), z=np.zeros(1, np.int64)).tolist() == [1]
    assert run("z[i] = n[i]*0.5", n=np.array([7, -7]), z=np.zeros(2, np.int64)).tolist() == [3, -3]


def test_float32_sums_are_float32_and_sums_into_float64_are_not() -> None:
    x = np.array([1.0, 2.0**-30], np.float32)
    assert run("s = x[i]", x=x, s=np.zeros((), np.float32)) == 1.0
    assert run("s = x[i]", x=x, s=np.zeros(())) == 1.0 + 2.0**-30


def test_complex() -> None:
    x, y = np.array([1 + 2j, 3j]), np.array([2 - 1j, 1j])
    assert run("s = x[i]*y[i]", x=x, y=y, s=np.zeros((), complex)) == (x * y).sum()
    assert run("z[i] = x[i]*a", x=x, a=np.asarray(2j), z=np.zeros(2, complex)).tolist() == (x * 2j).tolist()
    assert run("z[i] = x[i]/a", x=x, a=np.asarray(2j), z=np.zeros(2, complex)).tolist() == (x / 2j).tolist()
    assert run("z[i] = x[i]", x=x, z=np.zeros(2)).tolist() == [1.0, 0.0]
    assert run("z[i] = x[i]*y[i]", x=x, y=y, z=np.zeros(2)).tolist() == (x * y).real.tolist()
    assert run("z[i] = x[i] + y[i]", x=x.astype(np.complex64), y=np.ones(2), z=np.zeros(2, complex)).tolist() == [
        2 + 2j,
        1 + 3j,
    ]
    assert run("z[i] = -x[i]", x=x, z=np.zeros(2, np.complex64)).dtype == np.complex64
