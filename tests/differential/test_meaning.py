"""What each construct of the language means: hand-written numpy beside the oracle, and beside compiled kernels.

The oracle is compared here with something that shares nothing with it, and so is what the compiler makes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen.errors import DataError, SpecError
from spfgen.ir import walk
from spfgen.lang.nodes import Access, Statement
from spfgen.lang.parse import parse_statements
from tests.differential.support import Batch, Program, packed
from tests.oracle import Stored, evaluate

Array = np.ndarray[Any, Any]


def thin(seed: int, *shape: int) -> Array:
    rng = np.random.default_rng([seed, *shape])
    return np.where(rng.random(shape) < 0.5, rng.integers(1, 9, shape), 0).astype(float)


def full(seed: int, *shape: int) -> Array:
    return np.random.default_rng([seed, *shape]).integers(1, 9, shape).astype(float)


A, B, S, W = thin(1, 4, 6), thin(2, 4, 6), thin(3, 5, 5), thin(4, 7, 4)
T = thin(5, 3, 4, 5)
b, c, x, d, w, z = full(1, 4), full(2, 4), full(3, 6), full(4, 6), full(5, 3), full(6, 9)
LOWER = np.tril(thin(7, 5, 5), -1) + np.diag(full(8, 5))
f = full(9, 5)
FLAGS, MORE = thin(10, 4, 6) > 0, thin(11, 4, 6) > 0


@dataclass(frozen=True)
class Means:
    """`sizes` are passed by the caller; the result has the values `start` before, or zeros."""

    text: str
    numpy: Callable[[], Any]
    sizes: tuple[tuple[str, int], ...] = ()
    start: Any = None

    def __str__(self) -> str:
        return self.text


def within(index: Array, n: int) -> Array:
    return (index >= 0) & (index < n)


def read(array: Array, index: Array) -> Array:
    """The values at these places; what lies outside is 0."""
    inside = within(index, len(array))
    return np.where(inside, array[np.where(inside, index, 0)], 0)


I4, J6 = np.arange(4), np.arange(6)

CASES = [
    # sums, products, what a term sums over
    Means("y[i] = A[i, j]*x[j]", lambda: A @ x),
    Means("y[j] = A[i, j]*b[i]", lambda: A.T @ b),
    Means("y[i] = A[i, j]*x[j] + 2*b[i] - c[i]", lambda: A @ x + 2 * b - c),
    Means("y[i] = A[i, j] + B[i, k] + b[i] + 2", lambda: A.sum(1) + B.sum(1) + b + 2),
    Means("y[i] = -(A[i, j] - b[i])", lambda: -(A.sum(1) - b)),
    Means("s = A[i, j]*B[i, j]", lambda: (A * B).sum()),
    Means("C[i, j] = A[i, j]*B[i, j] + A[i, j]", lambda: A * B + A),
    Means("C[i, k] = A[i, j]*B[k, j]", lambda: A @ B.T),
    Means("C[j, i] = A[i, j]", lambda: A.T),
    Means("C[i, j] = T[k, i, j]*w[k]", lambda: np.tensordot(w, T, 1)),
    Means("C[i, j] = b[i]*x[j]", lambda: np.outer(b, x)),
    Means("y[i] = (A[i, j] + b[i])*x[j]", lambda: A @ x + b * x.sum()),
    Means("y[i] = (A[i, j] + b[i])*(B[i, k] - 1)", lambda: (A.sum(1) + b) * (B.sum(1) - 1)),
    Means("y[i] = " + "*".join(["(b[i] + c[i])"] * 9), lambda: (b + c) ** 9),
    # quotients: the whole term is summed
    Means("y[i] = A[i, j]*x[j]/d[j]", lambda: A @ (x / d)),
    Means("y[i] = A[i, j]*x[j]/b[i]", lambda: A @ x / b),
    Means("y[i] = A[i, j]/(b[i]*d[j])", lambda: (A / np.outer(b, d)).sum(1)),
    Means("y[i] = 1/d[j] + b[i]", lambda: (1 / d).sum() + b),
    Means("s = x[i]/d[i]", lambda: (x / d).sum()),
    Means("s = x[i]/d[i] + b[k]/c[k]", lambda: (x / d).sum() + (b / c).sum()),
    Means("y[i] = (A[i, j] + B[i, j])/d[j]", lambda: (A + B) @ (1 / d)),
    Means("y[i] = (A[i, j] + b[i])/c[i]", lambda: (A.sum(1) + b) / c),
    Means("y[i] = b[i]/(c[i] + 1)", lambda: b / (c + 1)),
    Means("C[i, j] = A[i, j]/d[j]", lambda: A / d),
    Means("C[i, j] = A[i, j]/(1 + sum(k: A[i, k]))", lambda: A / (1 + A.sum(1, keepdims=True))),
    Means("y[i] = x[j]/d[j]*b[i]", lambda: (x / d).sum() * b),
    Means("y[i] = -x[j]/d[j] + b[i]", lambda: -(x / d).sum() + b),
    Means("y[i] = A[i, j]*x[j]/d[j]/b[i]", lambda: A @ (x / d) / b),
    # sums with indices of their own
    Means("y[i] = sum(j: A[i, j]*x[j])", lambda: A @ x),
    Means("y[i] = sum(j: A[i, j])*sum(j: B[i, j])", lambda: A.sum(1) * B.sum(1)),
    Means("y[i] = f[i] - sum(j < i: S[i, j]*f[j])", lambda: f - np.tril(S, -1) @ f),
    Means("y[i] = sum(j: A[i, j] where j > i)", lambda: np.triu(A, 1).sum(1)),
    Means("y[i] = sum(j, k: A[i, j]*B[i, k])", lambda: A.sum(1) * B.sum(1)),
    Means("y[i] = sum(j: A[i, j] + 1)", lambda: A.sum(1) + 6),
    Means("y[i] = sum(j: A[i, j] + b[i])", lambda: A.sum(1) + 6 * b),
    Means("y[i] = sum(j: 2*(A[i, j] - b[i])*c[i])", lambda: 2 * (A.sum(1) - 6 * b) * c),
    Means("y[i] = sum(j <= i: S[i, j] + 1)", lambda: np.tril(S).sum(1) + np.arange(5) + 1),
    Means("y[i] = sum(j: A[i, j]*sum(k: B[i, k]))", lambda: A.sum(1) * B.sum(1)),
    Means("y[i] = A[i, j]*sum(k: B[k, j])", lambda: A @ B.sum(0)),
    Means("y[i] = b[i]*(1 + sum(j: A[i, j]))/(1 + sum(j: B[i, j]))", lambda: b * (1 + A.sum(1)) / (1 + B.sum(1))),
    Means("s = 1/(1 + sum(i: x[i]))", lambda: 1 / (1 + x.sum())),
    # one range for an index of a statement; a read outside is 0
    Means("y[i] = x[i - 1] + x[i] + x[i + 1]", lambda: read(x, J6 - 1) + x + read(x, J6 + 1)),
    Means("y[i] = z[i + j] + x[j] + b[i]", lambda: [z[i : i + 6].sum() + x.sum() + b[i] for i in I4]),
    Means("y[i] = sum(j: z[i + j] + x[j])", lambda: [z[i : i + 6].sum() + x.sum() for i in I4]),
    Means("y[i] = sum(j: z[2*j - 1] + x[j])*b[i]", lambda: (read(z, 2 * J6 - 1).sum() + x.sum()) * b),
    Means("y[i] = z[2*i] + b[i]", lambda: z[2 * I4] + b),
    Means("y[i] = b[i]/(1 + x[i + 4])", lambda: b / (1 + read(x, I4 + 4))),
    Means("y[i + 1] = b[i]", lambda: [0, *b]),
    Means("y[i + r] = b[i]*w[r]", lambda: np.convolve(b, w)),
    Means("y[i] = z[i + r]*w[r]", lambda: np.correlate(z, w, "valid")),
    Means("y[i] = z[i + r - 1]*w[r]", lambda: np.correlate(z, w, "same")),
    Means("y[i] = z[i + r]*w[r] + b[i]", lambda: np.correlate(z, w, "valid")[:4] + b),
    Means("y[i] = A[i, 2*j + 1]", lambda: A[:, 1::2].sum(1)),
    Means("y[i] = A[i, 2]", lambda: A[:, 2]),
    Means("y[i] = A[i, 5 - i]", lambda: A[I4, 5 - I4]),
    Means("y[i] = x[floor(i/2)] + b[i]", lambda: x[I4 // 2] + b),
    Means("y[i] = x[i mod 2]*b[i]", lambda: x[I4 % 2] * b),
    # diagonals, also of what is not square
    Means("y[i] = A[i, i]", lambda: np.diag(A)),
    Means("y[i] = W[i, i]", lambda: np.diag(W)),
    Means("s = A[i, i]", lambda: np.trace(A)),
    Means("s = W[i, i]", lambda: np.trace(W)),
    Means("y[i] = A[i, i]*b[i] + c[i]", lambda: np.diag(A) * b + c),
    Means("y[i] = 1 + S[i, i]", lambda: 1 + np.diag(S)),
    Means("y[i] = S[i, i]*sum(j: S[i, j])", lambda: np.diag(S) * S.sum(1)),
    Means("y[i] = b[i]/(1 + A[i, i])", lambda: b / (1 + np.diag(A))),
    Means("C[i, i] = f[i]", lambda: np.diag(f)),
    Means("C[i, i] = b[i]", lambda: np.eye(4, 6) * b[:, None]),
    # conditions
    Means("y[i] = A[i, j] where j < i", lambda: np.tril(A, -1).sum(1)),
    Means("C[i, j] = A[i, j] where (i + j) mod 2 = 0", lambda: A * (np.add.outer(I4, J6) % 2 == 0)),
    Means("y[i] = A[i, j]*x[j] where j <= i + n", lambda: np.tril(A, 2) @ x, (("n", 2),)),
    Means("y[i] = 2 where i < 3", lambda: np.where(np.arange(5) < 3, 2.0, 0.0)),
    # statements
    Means("y[i] += A[i, j]", lambda: b + A.sum(1), start=b),
    Means("y[i] = y[i] + A[i, j]", lambda: b + A.sum(1), start=b),
    Means("y[i] = 2*y[i] + A[i, j]", lambda: 2 * b + A.sum(1), start=b),
    Means("y[i] = A[i, j]; y[i] += b[i]", lambda: A.sum(1) + b),
    Means("t[k] = b[k]; y[k] = x[k] + t[0]*x[k]", lambda: x + b[0] * x),
    Means("y[i] = (f[i] - sum(j < i: LOWER[i, j]*y[j]))/LOWER[i, i]", lambda: np.linalg.solve(LOWER, f)),
    Means("y[i] = f[i] + sum(j > i: LOWER[j, i]*y[j])", lambda: np.linalg.solve(np.eye(5) - np.tril(LOWER, -1).T, f)),
    # booleans
    Means("C[i, j] = FLAGS[i, j] + MORE[i, j]", lambda: FLAGS | MORE),
    Means("C[i, j] = FLAGS[i, j]*MORE[i, j]", lambda: FLAGS & MORE),
    Means("y[i] = FLAGS[i, j]", lambda: FLAGS.any(1)),
]  # fmt: skip

TENSORS = {
    "A": A,
    "B": B,
    "S": S,
    "W": W,
    "T": T,
    "LOWER": LOWER,
    "FLAGS": FLAGS,
    "MORE": MORE,
    "b": b,
    "c": c,
    "x": x,
    "d": d,
    "w": w,
    "z": z,
    "f": f,
}
SPARSE = {"A", "B", "S", "W", "T", "LOWER", "FLAGS", "MORE"}


def operands(case: Means) -> tuple[dict[str, Array], Array]:
    """What the text reads, and the result before it runs."""
    wanted = np.asarray(case.numpy())
    used = {a.tensor for s in parse_statements(case.text) for a in _accesses(s)}
    found = {n: a for n, a in TENSORS.items() if n in used}
    if "t" in used:
        found["t"] = np.zeros(4)
    start = np.zeros(wanted.shape, wanted.dtype) if case.start is None else np.array(case.start)
    return found, start


def _accesses(statement: Statement) -> list[Access]:
    return [n for n in walk(statement) if isinstance(n, Access)]


def target(case: Means) -> str:
    return parse_statements(case.text)[-1].target.tensor


def entries(array: Array) -> Stored:
    found = np.nonzero(array)
    return Stored(array.shape, found, array[found])


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_oracle_means_what_numpy_computes(case: Means, sparse: bool) -> None:
    found, start = operands(case)
    tensors: dict[str, Any] = {n: entries(a) if sparse and n in SPARSE else a for n, a in found.items()}
    got = evaluate(parse_statements(case.text), {**tensors, target(case): start}, dict(case.sizes))
    np.testing.assert_allclose(got[target(case)], case.numpy())


LAYOUTS = ("csr", "coo", "csc", "coo_unsorted", "bcsr(R=2, C=3)", "dia", "dcsr", "ell")


def program(case: Means, layout: str) -> Program:
    found, start = operands(case)
    layouts = {}
    for name, array in {**found, target(case): start}.items():
        form = layout if name in SPARSE and array.ndim == 2 else "csf" if name in SPARSE else "dense"
        form = "dense" if layout == "dense" or not array.ndim else form
        if array.ndim:
            layouts[name] = f"{form}<bool>" if array.dtype == bool else form
    return Program(case.text, layouts, sizes=tuple(n for n, _ in case.sizes))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("level", [0, pytest.param(1, marks=pytest.mark.exhaustive), 2])
def test_kernels_compute_what_numpy_does(level: int, half: int) -> None:
    tried = []
    for number, case in [*enumerate(CASES)][half::2]:
        other = LAYOUTS[1 + number % (len(LAYOUTS) - 1)] if number % 2 else "csr"
        others = (other,) if SPARSE & operands(case)[0].keys() else ()
        layouts = ("dense", *others)
        if level == 1 and number % 3:
            continue  # the levels around it have all
        if level < 2 or number % 3:
            layouts = (layouts[(number + level) % len(layouts)],)
        tried += [(case, program(case, layout)) for layout in layouts]
    batch = Batch([replace(p, level=level) for _, p in tried])
    for number, (case, made) in enumerate(tried):
        found, start = operands(case)
        given = {**found, target(case): start}
        tensors = {t.name: packed(t.layout, given[t.name]) for t in batch.generated[number].program.tensors}
        batch.run(number, tensors, sizes=dict(case.sizes))
        np.testing.assert_allclose(tensors[target(case)].to_numpy(), case.numpy(), err_msg=str(made))


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (0, 2), (1, 4), (4, 4)])
@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "dense", "dia"])
def test_a_diagonal_is_as_long_as_the_shorter_side(shape: tuple[int, int], layout: str) -> None:
    matrix = full(1, *shape)
    operand = matrix if layout == "dense" else spfgen.pack(matrix, layout)
    np.testing.assert_array_equal(spfgen.evaluate("d[i] = A[i, i]", A=operand), np.diag(matrix))
    longer = np.ones(max(shape) + 1)
    with pytest.raises(DataError, match="expected extents that agree"):
        spfgen.evaluate("d[i] = A[i, i]*x[i]", A=operand, x=longer)


def test_an_index_has_an_extent_in_each_statement() -> None:
    kernel = spfgen.compile("B[k] = 2*A[k]; C[k] = D[k]", A="sv", B="dense", C="dense", D="sv")
    got = kernel(A=spfgen.pack(x, "sv"), D=spfgen.pack(b, "sv"))
    np.testing.assert_array_equal(got["B"], 2 * x)
    np.testing.assert_array_equal(got["C"], b)


def test_the_extents_of_an_index_agree_within_a_statement() -> None:
    with pytest.raises(DataError, match="expected extents that agree"):
        spfgen.evaluate("y[i] = x[i] + b[i]", x=x, b=b)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "text", ["y[i] = x[i(1:4)] + b[i(0:2)]", "y[i] = b[i(0:2)] + x[i(1:4)]", "s = sum(i: x[i(1:4)]*b[i(0:2)])"]
)
@pytest.mark.parametrize("layout", ["dense", "sv"])
def test_slices_of_an_index_are_as_long_as_each_other(text: str, layout: str) -> None:
    """As numpy demands; else one of them would be read behind its end."""
    x, b = np.arange(1.0, 6), np.arange(1.0, 8)
    kernel = spfgen.compile(text, x=layout, b=layout)
    operands = {"x": x, "b": b} if layout == "dense" else {"x": spfgen.pack(x, layout), "b": spfgen.pack(b, layout)}
    with pytest.raises(DataError, match="expected extents that agree"):
        kernel(**operands)
    equal = spfgen.compile(text.replace("0:2", "2:5"), x=layout, b=layout)
    wanted = x[1:4] * b[2:5] if "sum" in text else x[1:4] + b[2:5]
    np.testing.assert_array_equal(np.asarray(equal(**operands)), wanted.sum() if "sum" in text else wanted)


@pytest.mark.parametrize("text", ["y[i] = a[i] - b[i]", "y[i] = -a[i]", "y[i] = sum(j: m[i, j] - a[j])"])
def test_booleans_have_no_difference(text: str) -> None:
    flags = {"a": np.ones(2, bool), "b": np.ones(2, bool), "m": np.ones((2, 2), bool)}
    used = {n: a for n, a in flags.items() if f"{n}[" in text}
    with pytest.raises(SpecError, match="numpy refuses it, too"):
        spfgen.evaluate(text, **used)
    with pytest.raises(TypeError, match=r"numpy boolean (subtract|negative)"):
        evaluate(parse_statements(text), {**used, "y": np.ones(2, bool)})
