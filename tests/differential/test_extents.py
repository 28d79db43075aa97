"""Extents of results that no access gives alone, against numpy."""

import numpy as np
import pytest

import spfgen
from spfgen.errors import UsageError
from spfgen.lang.interpret import interpret
from spfgen.lang.parse import parse_statements

C, B = np.array([1.0, 0.0, 3.0, 4.0]), np.array([1.0, 2.0])
IMAGE, FILTER = np.arange(20.0).reshape(4, 5) % 7, np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])


def valid(image, weights):
    windows = np.lib.stride_tricks.sliding_window_view(image, weights.shape)
    return np.einsum("ikjl,jl->ik", windows, weights)


CASES = {
    "A[i+j] = C[i]*B[j]": np.convolve(C, B),
    "A[i] = C[i+j]*B[j]": np.correlate(C, B),
    "A[i] = max(j: C[i+j]*B[j])": np.array([1.0, 6.0, 8.0]),
    "A[i] = C[2*i+j]*B[j]": np.correlate(C, B)[::2],
    "A[i] = C[i+2*j]*B[j]": C[:2] + 2 * C[2:],
    "A[2*i+1] = C[i]": np.array([0.0, 1, 0, 0, 0, 3, 0, 4]),
    "A[2*i+1] = abs(C[i])": np.array([0.0, 1, 0, 0, 0, 3, 0, 4]),
    "A[i] = C[2*i]": C[::2],
    "A[i+1] = C[i]": np.concatenate([[0.0], C]),
    "A[i-j] = C[i]*B[j]": np.array([1.0, 6.0, 11.0, 4.0]),
    "A[i+j] += abs(C[i]*B[j])": np.convolve(C, B),
    "A[i,k] = P[i+j,k+l]*F[j,l]": valid(IMAGE, FILTER),
    "A[i,k] = max(j,l: P[i+j,k+l]*F[j,l])": None,
    "A[i+j,k+l] = P[i,k]*F[j,l]": None,
    "A[i] = C[i+1]*C[i+2]": C[1:3] * C[2:4],
    "A[i] = sum(r: C[i+r] where 0 <= r and r < 3)": C[:2] + C[1:3] + C[2:],
    "A[i] = max(r: C[i+r] where 0 <= r and r < 3)": np.array([3.0, 4.0]),
    "A[i] = max(r: abs(C[i+r]) where r >= -1 and r <= 1)": np.array([1.0, 3.0, 4.0]),
    "A[i] = max(r: C[i-r] where r >= 0 and r < 2)": np.array([1.0, 1.0, 3.0, 4.0]),
    "A[i] = max(r: max(s: C[i+r+s] where 0 <= s and s < 2) where 0 <= r and r < 2)": np.array([3.0, 4.0]),
    "A[i+r] = C[i] where 0 <= r and r < 2": np.convolve(C, [1.0, 1.0]),
    "A[2*i] = C[i+j]*B[j]": np.array([1.0, 0, 6, 0, 11, 0, 4]),
}


@pytest.mark.parametrize("text", CASES)
@pytest.mark.sampled(8)
def test_extents_of_results_follow(text):
    expected = CASES[text]
    if expected is None and "max" in text:
        windows = np.lib.stride_tricks.sliding_window_view(IMAGE, FILTER.shape)
        expected = (windows * FILTER).max(axis=(2, 3))
    elif expected is None:
        expected = np.zeros((5, 7))
        for (row, column), weight in np.ndenumerate(FILTER):
            expected[row : row + 4, column : column + 5] += weight * IMAGE
    operands = {n: v for n, v in {"C": C, "B": B, "P": IMAGE, "F": FILTER}.items() if f"{n}[" in text}
    found = spfgen.evaluate(text, **operands)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected)
    packed = {n: spfgen.pack(v, "coo" if n in "CB" else "csr") for n, v in operands.items()}
    sparse = spfgen.evaluate(text, out="coo", **packed)
    assert sparse.shape == expected.shape
    np.testing.assert_allclose(sparse.to_numpy(), expected)
    np.testing.assert_allclose(interpret(parse_statements(text), operands, {})["A"], expected)


def test_sizes_override():
    found = spfgen.evaluate("A[i] = C[i+j]*B[j]", C=C, B=B, sizes={"i": 4})
    np.testing.assert_allclose(found, np.correlate(C, B, "full")[1:])


def test_a_window_larger_than_its_operand_leaves_nothing():
    assert spfgen.evaluate("A[i] = C[i+j]*B[j]", C=B, B=C).shape == (0,)
    assert spfgen.evaluate("A[i+j] = C[i]*B[j]", C=C[:0], B=B).shape == (1,)


def test_extents_that_several_values_would_do_for_are_asked_for():
    for text in ("A[i] = C[i+j]", "A[i,k] = C[i+k]", "A[i,k] = abs(C[i+k])", "A[i] = max(j: C[i+j])", "A[i+j] = C[i]"):
        with pytest.raises(UsageError, match="extents"):
            spfgen.evaluate(text, C=C)
