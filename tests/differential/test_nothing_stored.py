"""What is not stored, or read outside, makes products 0, whatever the other factor is; all else is as in numpy."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import spfgen
from spfgen.lang.interpret import interpret
from spfgen.lang.parse import parse_statements

RNG = np.random.default_rng(7)


def thin(*shape: int) -> Any:
    return np.where(RNG.random(shape) < 0.4, RNG.integers(-3, 4, shape), 0).astype(float)


A, B = thin(5, 6), thin(5, 6)
A[2] = 0
x = np.array([1, 2, np.inf, 0, 3, np.inf])
z = np.array([np.inf, 1, np.inf, 2, np.inf])


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "text",
    [
        # outside
        "y[i] = abs(z[i - 1])*z[i]",
        "y[i] = z[i + 1]*exp(z[i])",
        "y[i] = (z[i - 1] + abs(z[i + 1]))*z[i]",
        # of a choice that counts which it takes
        "y[i] = sum(j: where(A[i, j] > B[i, j], A[i, j], B[i, j])*x[j])",
        "C[i, j] = where(A[i, j] > 0, B[i, j], A[i, j])*exp(x[j]) + B[i, j]",
        "C[i, j] = abs(where(i < j, A[i, j], B[i, j]))*exp(x[j]) + A[i, j]",
        "C[i, j] = where(i < j, A[i, j], B[i, j])*x[j] + B[i, j] where i < j",
        "C[i, j] = where(x[j] > 1, 1, B[i, j])*x[j]",
        "C[i, j] = coalesce(A[i, j + 1], B[i, j])*x[j] + A[i, j]",
        "C[i, j] = (A[i, j] and B[i, j])*x[j]",
        "y[i] = sum(j: x[j]*where((z[i] > 1) == (A[i, j] > 0), B[i, j], z[i - 1]))",
        # reductions are numbers
        "y[i] = sum(j: A[i, j])*z[i]",
        "y[i] = max(j: A[i, j])*z[i]",
        "y[i] = sum(j: A[i, j]*B[i, j])*exp(z[i])",
        # which stand above what is stored
        "C[i, j] = A[i, j]*sum(k: B[i, k])*x[j]",
        "for i { let t = A[i, i]  y[i] = t*z[i] }",
    ],
)
def test_what_an_infinite_factor_makes_of_it(text: str) -> None:
    dense = {n: v for n, v in (("A", A), ("B", B), ("x", x), ("z", z)) if f"{n}[" in text}
    sparse = [n for n in dense if n in "AB"]
    with np.errstate(all="ignore"):
        (expected,) = (
            v for n, v in interpret(parse_statements(text), dense, dict.fromkeys(sparse, 0.0)).items() if n in "yC"
        )
    packed = {n: scipy.sparse.csr_array(v) if n in sparse else v for n, v in dense.items()}
    np.testing.assert_array_equal(np.asarray(spfgen.evaluate(text, **packed)), expected)


@pytest.mark.parametrize(("layout", "over"), [("csr", "A[i, k]"), ("csc", "A[k, j]"), ("coo", "A[i, k]")])
def test_a_divisor_of_rows_says_nothing_of_the_pattern(layout: str, over: str) -> None:
    sums = np.abs(A).sum(1 if over == "A[i, k]" else 0, keepdims=True)
    result = spfgen.evaluate(f"C[i, j] = A[i, j]/sum(k: abs({over}))", A=spfgen.pack(A, layout), out=layout)
    assert result.nnz == np.count_nonzero(A)
    np.testing.assert_array_equal(result.to_numpy(), A / np.where(sums == 0, 1, sums))
