"""Values that are more than sums of products, and statements that read their own target, against dense numpy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest

import spfgen
from spfgen.errors import Unsupported
from spfgen.layout.nodes import Layout
from spfgen.run.tensor import Tensor
from spfgen.run.tuners.compare import stored
from tests.differential.support import Batch, Program, packed
from tests.oracle import evaluate

LAYOUTS = ("csr", "csc", "coo", "dcsr", "dense", "bcsr(R=2, C=3)", "dia", "ell", "coo_unsorted")
TEXTS = (
    "y[i] = sum(j: A[i, j]*x[j])/d[i]",
    "y[i] = A[i, j]*x[j]/d[i]",
    "y[i] = d[i] - sum(j: A[i, j]*x[j])",
    "s = sum(i: x[i]*x[i])/sum(i: d[i]*x[i])",
    "y[i] = sum(j: A[i, j])*sum(j < i: A[i, j] where j > 1)",
    "y[i] = (sum(j: A[i, j]*x[j]) + 2)/(A[i, i] - d[i])",
    "Y[i, j] = A[i, j]/B[i, j]",
    "y[i] = sum(j: A[i, j]/d[j])/d[i]",
    "y[i] = y[i]*d[i]",
    "y[i] += x[i]/d[i]",
    "y[i] = y[i - 1] + x[i]",
    "y[i] += y[i + 2]",
    "y[i] = y[i]/d[i] where i > 2",
    "y[i] = x[i]/d[i] where i > 2",
    "Y[i, j] = Y[i - 1, j] + Y[i, j - 1] + A[i, j]",
    "Y[i, j] = Y[i - 1, j + 1] + A[i, j]",
    "Y[i, j] = Y[i + 1, j] - Y[i, j - 1] + A[i, j]",
    "y[i] = (y[i] - sum(j < i: A[i, j]*y[j]))/d[i]",
    "y[i] = x[i] - sum(k < j < i: A[i, j]*A[j, k]*y[k])/2",
    "y[i] = x[i] - sum(j < i: A[i, j]*y[j]) - sum(j > i: A[i, j]*d[j])",
    "y[2*i] = 1/(sum(j: A[i, j]) + i2[2*i])",
    "y[i] = -sum(j < i - 1: A[i, j]*y[j])/d[i]",
)
SIZE = 7
RNG = np.random.default_rng(17)


@dataclass(frozen=True)
class Solve:
    """A triangular solve: `lower` or not, its diagonal stored or taken for ones, one right-hand side or several."""

    lower: bool
    unit: bool = False
    several: bool = False

    @property
    def text(self) -> str:
        x, b = ("X[i, r]", "B[i, r]") if self.several else ("x[i]", "b[i]")
        total = f"sum(j {'<' if self.lower else '>'} i: L[i, j]*{x.replace('i', 'j')})"
        return f"{x} = {b} - {total}" if self.unit else f"{x} = ({b} - {total})/L[i, i]"

    def solved(self, matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
        triangle = np.tril(matrix) if self.lower else np.triu(matrix)
        if self.unit:
            np.fill_diagonal(triangle, 1)
        return np.linalg.solve(triangle, right)


SOLVES = (Solve(True), Solve(False), Solve(True, unit=True), Solve(False, several=True), Solve(True, several=True))


def matrix(shape: tuple[int, ...], density: float = 0.5) -> np.ndarray:
    return np.where(RNG.random(shape) < density, RNG.integers(1, 5, shape), 0).astype(float)


def names_of(text: str) -> list[str]:
    return [n for n in ("A", "B", "Y", "x", "y", "d", "i2", "s") if f"{n}[" in text or text.startswith(f"{n} ")]


def vector(size: int) -> np.ndarray:
    return RNG.integers(1, 5, size).astype(float)


@pytest.fixture(scope="module", params=[0, 1])
def batch(request: pytest.FixtureRequest) -> Batch:
    """Half of the texts in their layouts."""
    programs = []
    for number, text in enumerate(TEXTS):
        sparse = {n: "dense" for n in names_of(text) if n != "s"}
        for layout in LAYOUTS if number < 3 else (LAYOUTS[number % len(LAYOUTS)],):
            programs.append(Program(text, {**sparse, **{n: layout for n in "AB" if n in sparse}}))
    return Batch(programs[request.param :: 2], ("-O1",), eager=True)


@pytest.fixture(scope="module", params=[0, 1])
def solves(request: pytest.FixtureRequest) -> Batch:
    """Half of the solves in their layouts."""
    programs = []
    for solve in SOLVES:
        for layout in LAYOUTS[:-1] if not solve.several else ("csr", "csc"):
            vectors = dict.fromkeys("XB" if solve.several else "xb", "dense")
            programs.append(Program(solve.text, {**vectors, "L": layout}))
    return Batch(programs[request.param :: 2], ("-O1",), eager=True)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("size", [0, 1, SIZE])
def test_values_equal_those_of_the_reference(batch: Batch, size: int) -> None:
    for number, program in enumerate(batch.programs):
        made = batch.generated[number]
        tensors = {t.name: _operand(t.name, t.layout, size) for t in made.program.tensors}
        expected = evaluate(program.kernel("k"), {n: stored(t) for n, t in tensors.items()})
        batch.run(number, tensors)
        for name, value in expected.items():
            np.testing.assert_allclose(tensors[name].to_numpy(), value, rtol=1e-12, err_msg=str(program))


def _operand(name: str, layout: Layout, size: int) -> Tensor:
    dense = matrix((size, size)) if layout.rank == 2 else vector(2 * size if name == "i2" else size)
    return packed(layout, dense if layout.rank else np.array(3.0))


@pytest.mark.parametrize("size", [0, 1, SIZE, 40])
@pytest.mark.exhaustive
def test_solves_equal_those_of_numpy(solves: Batch, size: int) -> None:
    """The layouts hold more than the triangle: what is not in it is not read."""
    for number, program in enumerate(solves.programs):
        for solve in SOLVES:
            if program.text != solve.text:
                continue
            made = solves.generated[number].program
            dense = matrix((size, size), 0.2) / 8
            np.fill_diagonal(dense, vector(size))
            right = matrix((size, 3), 1) if solve.several else vector(size)
            outputs = {"X" if solve.several else "x": np.full_like(right, np.nan), "B" if solve.several else "b": right}
            tensors = {t.name: packed(t.layout, outputs.get(t.name, dense)) for t in made.tensors}
            for name in "xX":
                if name in tensors:
                    tensors[name].arrays["val"][...] = np.nan
            solves.run(number, tensors)
            found = tensors["X" if solve.several else "x"].to_numpy()
            np.testing.assert_allclose(found, solve.solved(dense, right), rtol=1e-9, err_msg=str(program))


def test_a_missing_diagonal_divides_by_zero() -> None:
    kernel = spfgen.compile(Solve(True).text, L="csr", b="dense", x="dense")
    lower = np.array([[0.0, 0, 0], [1, 2, 0], [0, 0, 0]])
    found = kernel(L=spfgen.pack(lower, "csr"), b=np.array([1.0, 2.0, 0.0]))
    np.testing.assert_array_equal(found, [np.inf, -np.inf, np.nan])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.complex128])
def test_solves_in_other_types(dtype: type) -> None:
    dense = np.tril(matrix((9, 9)) + 5 * np.eye(9)).astype(dtype)
    right = vector(9).astype(dtype)
    kernel = spfgen.compile(Solve(True).text, L="csr", b="dense", x="dense")
    found = kernel(L=spfgen.pack(dense, "csr"), b=right)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, np.linalg.solve(dense, right), rtol=1e-4)


def test_whole_numbers_give_fractions() -> None:
    """The quotient of whole numbers is float64, as in numpy; sums alone stay whole."""
    kernel = spfgen.compile("y[i] = sum(j: A[i, j]*x[j])/d[i]", A="csr", x="dense", d="dense", y="dense")
    dense = matrix((4, 4)).astype(np.int64)
    x, d = vector(4).astype(np.int64), vector(4).astype(np.int64)
    found = kernel(A=spfgen.pack(dense, "csr"), x=x, d=d)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, dense @ x / d)
    running = spfgen.compile("y[i] = y[i - 1] + x[i]", x="dense", y="dense")
    assert running(x=x).dtype == np.int64
    np.testing.assert_array_equal(running(x=x), np.cumsum(x))


def test_a_sparse_target_is_computed_where_it_stores() -> None:
    kernel = spfgen.parse(
        "kernel scale { tensor A : csr tensor C : csr shares A  C[i, j] = A[i, j]/sum(k: A[i, k]) }"
    ).kernels["scale"]
    dense = matrix((5, 6))
    found = kernel.compile()(A=spfgen.pack(dense, "csr"))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found.to_numpy(), np.nan_to_num(dense / dense.sum(1, keepdims=True)))


@pytest.mark.parametrize(
    ("text", "example"),
    [
        ("y[i] = A[i, j]*y[j]", r"y\[1\] needs y\[0\], and y\[0\] needs y\[1\]"),
        ("y[i] = x[i] + sum(j <= i: A[i, j]*y[j])", r"y\[0\] needs itself"),
        ("y[i] = y[2*i] + x[i]", r"y\[0\] needs itself"),
        ("y[i] = y[i - 1] + y[i + 1]", r"y\[1\] needs y\[0\], and y\[0\] needs y\[1\]"),
        ("Y[i, j] = Y[j, i]/2", "needs Y"),
    ],
)
def test_values_that_need_each_other_are_refused(text: str, example: str) -> None:
    layouts: Mapping[str, str] = dict.fromkeys(names_of(text), "dense") | ({"A": "csr"} if "A[" in text else {})
    with pytest.raises(Unsupported, match="in every order of the loops") as caught:
        spfgen.compile(text, **layouts)
    assert any(re.search(example, note) for note in caught.value.notes)


def test_the_reference_refuses_a_circle() -> None:
    statements = spfgen.lang.parse.parse_statements("y[i] = 2*y[i - 1] + 2*y[i + 1] + 1")
    with pytest.raises(ValueError, match="need each other"):
        evaluate(statements, {"y": np.ones(3)})


def test_explain_shows_what_needs_what() -> None:
    text = spfgen.compile(Solve(False).text, L="csr", b="dense", x="dense").explain()
    assert "it runs downwards, one iteration after another: it reads x[j], written by { [i'] -> [i] : " in text
