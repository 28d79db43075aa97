"""What a statement does not reach of its target: empty, or as it was where the value reads the target at the point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen.lang.interpret import interpret
from spfgen.lang.parse import parse_file

Y, X = np.array([1.0, 2.0, 3.0, 4.0]), np.array([10.0, 20.0, 30.0, 40.0])
FIRST = np.arange(4) < 2
KEPT: dict[str, Callable[[Any, Any], Any]] = {
    "y[i] = y[i] + x[i] where i < 2": lambda y, x: y + x,
    "y[i] = y[i] - x[i] where i < 2": lambda y, x: y - x,
    "y[i] = x[i] - y[i] where i < 2": lambda y, x: x - y,
    "y[i] = y[i]*x[i] where i < 2": lambda y, x: y * x,
    "y[i] = y[i] - sin(x[i]) where i < 2": lambda y, x: y - np.sin(x),
    "y[i] = y[i] + sin(x[i]) - x[i] where i < 2": lambda y, x: y + np.sin(x) - x,
    "y[i] = sin(x[i]) - y[i] where i < 2": lambda y, x: np.sin(x) - y,
    "y[i] = sin(y[i]) + x[i] where i < 2": lambda y, x: np.sin(y) + x,
    "y[i] = maximum(y[i], x[i]/8) where i < 2": lambda y, x: np.maximum(y, x / 8),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["dense", "sv", "sv_unsorted", "dense fill 7"])
@pytest.mark.parametrize("text", KEPT)
def test_what_is_updated_keeps_the_rest(text: str, layout: str) -> None:
    """The same whatever functions the value has and however the target is stored."""
    target = spfgen.pack(Y, layout.split()[0], fill=7.0 if "fill" in layout else None)
    result = spfgen.compile(text, y=layout, x="dense")(y=target, x=X)
    np.testing.assert_allclose(np.asarray(result), np.where(FIRST, KEPT[text](Y, X), Y))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["dense", "coo", "csr"])
@pytest.mark.parametrize("text", ["C[i,i] = C[i,i]*2", "C[i,i] = sin(C[i,i])"])
def test_what_is_updated_on_a_diagonal_keeps_the_rest(text: str, layout: str) -> None:
    c = np.arange(1.0, 10.0).reshape(3, 3)
    new = np.diag(c) * 2 if "*2" in text else np.sin(np.diag(c))
    result = spfgen.compile(text, C=layout)(C=spfgen.pack(c, layout))
    np.testing.assert_allclose(np.asarray(result), np.where(np.eye(3, dtype=bool), np.diag(new), c))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["dense", "sv", "sv_unsorted"])
@pytest.mark.parametrize(
    "text", ["y[i] = x[i] where i < 2", "y[i] = sin(x[i]) where i < 2", "y[i] = sin(x[i]) where i < 2 and n < n"]
)
def test_what_is_written_empties_the_rest(text: str, layout: str) -> None:
    spec = spfgen.parse(f"kernel k {{ size n tensor y : {layout} tensor x : dense {text} }}")
    new = np.sin(X) if "sin" in text else X
    result = spec.kernels["k"].compile()(y=spfgen.pack(Y, layout), x=X, n=1)
    np.testing.assert_allclose(np.asarray(result), np.where(FIRST, new, 0) * ("n < n" not in text))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["coo", "csr", "dense"])
def test_a_computed_pattern_is_updated_in_part(layout: str) -> None:
    """What an update removes from a result is gone, also where its entries are kept in a table."""
    a, b = np.diag([1.0, 2.0, 3.0]), np.ones((3, 3))
    b[0, 0] = 0
    spec = spfgen.parse(
        f"kernel k {{ tensor A, B : csr tensor C : {layout}"
        " C[i,j] = maximum(A[i,j], B[i,j])*5  C[i,j] = sqrt(C[i,j]*B[i,j]) where i < 2 }"
    )
    result = spec.kernels["k"].compile()(A=spfgen.pack(a, "csr"), B=spfgen.pack(b, "csr"))
    first = np.maximum(a, b) * 5
    np.testing.assert_allclose(np.asarray(result), np.where(np.arange(3)[:, None] < 2, np.sqrt(first * b), first))


@pytest.mark.parametrize("text", ["y[i(1:3)] = w[i] where i < 1", "y[i(1:3)] = sin(w[i]) where i < 1"])
def test_a_condition_in_a_slice_keeps_the_rest(text: str) -> None:
    w = np.array([7.0, 8.0])
    result = spfgen.compile(text, y="dense", w="dense")(y=Y.copy(), w=w)
    np.testing.assert_allclose(result, [1, np.sin(7) if "sin" in text else 7, 3, 4])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["dense", "coo"])
@pytest.mark.parametrize("factor", ["a", "sin(a)"])
def test_the_target_bounds_an_index(factor: str, layout: str) -> None:
    """Where the index stands nowhere by itself, and nothing on the right has it."""
    c = np.diag([1.0, 2.0, 0.0, 4.0])
    kernel = spfgen.compile(f"y[k - 1, j] += C[j, j]*{factor}", C="csr", y=layout)
    result = kernel(C=spfgen.pack(c, "csr"), y=spfgen.pack(np.ones((4, 4)), layout), a=2.0)
    wanted = 1 + np.diag(c) * (2.0 if factor == "a" else np.sin(2.0))
    np.testing.assert_allclose(np.asarray(result), np.tile(wanted, (4, 1)))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("text", "result"), [("y[i] = A[i,j]/B[i,j]", "dense"), ("Y[i,j] = A[i,j]/B[i,j]", "csr")])
def test_a_divisor_that_is_not_stored_is_zero(text: str, result: str) -> None:
    """What the dividend does not store contributes nothing, what it stores is divided by zero there."""
    a, b = np.array([[0, 2.0, 0], [0, 0, 0], [1, 0, 3]]), np.array([[1.0, 2, 0], [0, 1, 0], [4, 0, 0]])
    kernel = spfgen.compile(text, A="csr", B="csr", **{text[0]: result})
    wanted = np.array([[0, 1, 0], [0, 0, 0], [0.25, 0, np.inf]])
    found = kernel(A=spfgen.pack(a, "csr"), B=spfgen.pack(b, "csr"))
    np.testing.assert_array_equal(np.asarray(found), wanted if text[0] == "Y" else wanted.sum(1))


SPARSE = np.array([2.0, 7.0, 2.0, 9.0])
MATRIX = np.array([[5.0, np.inf], [np.inf, np.inf], [3.0, np.inf], [np.inf, 1.0]])
FILLS: dict[str, tuple[Callable[[], Any], float]] = {
    "a[i]": (lambda: SPARSE, 2),
    "cos(a[i])": (lambda: np.cos(SPARSE), np.cos(2)),
    "a[i] + x[i]": (lambda: SPARSE + X, 0),  # a dense tensor says it
    "x[i]*a[i]": (lambda: X * SPARSE, 0),
    "c*a[i]": (lambda: 3 * SPARSE, 0),  # a scalar
    "a[i] + i": (lambda: SPARSE + np.arange(4), 0),
    "min(j: W[i,j])": (lambda: MATRIX.min(1), np.inf),  # its identity, however long the rows are
    "max(j: W[i,j])": (lambda: MATRIX.max(1), 0),  # of rows without columns it is another
    "sum(j: W[i,j]) + a[i]": (lambda: MATRIX.sum(1) + SPARSE, 0),
}


@pytest.mark.parametrize("target", ["y[i]", "y[2*i]"])
@pytest.mark.parametrize("value", FILLS)
def test_the_rest_is_what_the_value_is_on_the_fills(value: str, target: str) -> None:
    """Where constants and fill values alone say it, whether a condition or a subscript leaves it; else 0."""
    text = f"{target} = {value} where i < 2"
    given = {"a": spfgen.pack(SPARSE, "sv fill 2"), "x": X, "c": 3.0, "W": spfgen.pack(MATRIX, "csr fill inf")}
    layouts = {"a": "sv fill 2", "x": "dense", "c": "dense", "W": "csr fill inf"}
    used = {n: layouts[n] for n in given if f"{n}[" in value or value.startswith(f"{n}*")}
    found = spfgen.compile(text, **used, y="dense")(**{n: given[n] for n in used})
    numpy, fill = FILLS[value]
    expected = np.full(len(found), float(fill))
    step = 2 if "2" in target else 1
    expected[: 2 * step : step] = numpy()[:2]
    np.testing.assert_allclose(found, expected)
    declared = " ".join(f"tensor {n} : {layout}" for n, layout in used.items())
    (kernel,) = parse_file(f"kernel k {{ {declared} tensor y : dense {text} }}").kernels
    dense = {"a": SPARSE, "x": X, "c": 3.0, "W": MATRIX}
    fills = {n: f for n, f in {"a": 2.0, "W": np.inf}.items() if n in used}
    np.testing.assert_allclose(interpret(kernel, {n: dense[n] for n in used}, fills)["y"], expected)


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("text", ["C[i,j] = A[i,j]*B[i,j]", "for i, j { C[i,j] = A[i,j]*B[i,j] }"])
def test_a_product_of_fills_alone_is_that_of_numpy(text: str, layout: str) -> None:
    """What is not stored is nothing beside a stored infinity; where neither is stored, 0*inf is nan."""
    a, b = np.array([[1, np.inf], [np.inf, 2]]), np.array([[0, 5.0], [0, 0]])
    expected = [[0, np.inf], [np.nan, 0]]
    tensors = f"tensor A : csr fill inf  tensor B : csr  tensor C : {layout}"
    found = (
        spfgen.parse(f"kernel k {{ {tensors}  {text} }}")
        .kernels["k"]
        .compile()(A=spfgen.pack(a, "csr fill inf"), B=spfgen.pack(b, "csr"))
    )
    np.testing.assert_array_equal(np.asarray(found), expected)
    (kernel,) = parse_file(f"kernel k {{ {tensors}  {text} }}").kernels
    fills = {"A": np.inf, "B": 0.0} | ({"C": np.nan} if layout == "csr" else {})
    np.testing.assert_array_equal(interpret(kernel, {"A": a, "B": b}, fills)["C"], expected)
