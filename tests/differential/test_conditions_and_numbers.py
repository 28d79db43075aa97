"""Conditions are written one way in all places, and numbers may have 64 bits."""

from __future__ import annotations

import numpy as np
import pytest

import spfgen
from spfgen.errors import SpecError

X = np.arange(1.0, 7.0)
EVEN = np.where(np.arange(6) % 2 == 0, X, 0)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("condition", ["i % 2 == 0", "i mod 2 = 0", "i mod 2 == 0", "i % 2 = 0", "not i - i//2*2 = 1"])
@pytest.mark.parametrize(
    "text",
    [
        "y[i] = x[i] where {}",
        "for i where {} {{ y[i] = x[i] }}",
        "for i {{ if {} {{ y[i] = x[i] }} }}",
        "y[i] = where({}, x[i], 0)",
        "for i {{ let k = 0  while {} and k = 0 {{ k = 1  y[i] = x[i] }} }}",
    ],
)
def test_a_condition_is_written_one_way(text: str, condition: str) -> None:
    assert np.array_equal(spfgen.evaluate(text.format(condition), x=X), EVEN)


MOST, LEAST = 2**64 - 1, -(2**63)
U = np.array([1, MOST, 0], np.uint64)
S = np.array([1, -LEAST - 1, LEAST])


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f"y[i] = U[i] == {MOST}", U == MOST),
        (f"y[i] = U[i] ^ {MOST}", U ^ np.uint64(MOST)),
        (f"y[i] = max(U[i], {2**63})", np.maximum(U, 2**63)),
        (f"y[i] = U[i]*{MOST}", U * np.uint64(MOST)),
        (f"function f(a) {{ return a & {MOST} }}  y[i] = f(U[i])", U),
        (f"for i {{ let v = U[i]  if v = {MOST} {{ y[i] = 1 }} else {{ y[i] = 0 }} }}", U == MOST),
        (f"y[i] = S[i] == {LEAST}", S == LEAST),
        (f"y[i] = S[i] < {MOST}", np.ones(3, bool)),
        (f"y[i] = {LEAST} + abs(S[i])*0 + S[i]*0", np.full(3, LEAST)),
    ],
)
def test_numbers_of_64_bits(text: str, wanted: np.ndarray) -> None:
    assert np.array_equal(spfgen.evaluate(text, **({"U": U} if "U[" in text else {"S": S})), wanted)


@pytest.mark.parametrize("text", [f"y[i] = S[i] + {MOST}", f"y[i] = S[i] + {MOST + 1}", f"y[i] = S[i + {MOST}]"])
def test_numbers_that_do_not_fit_are_refused(text: str) -> None:
    with pytest.raises(SpecError, match="expected a number"):
        spfgen.evaluate(text, S=S)


def test_a_whole_fill_is_one_of_integers() -> None:
    array = np.array([[1, 2], [0, 1]], np.int32)
    packed = spfgen.pack(array, "csr<int32> fill 1.0")
    assert packed.dtype == np.int32
    assert np.array_equal(packed.to_numpy(), array)
    text = "kernel k { tensor A : csr<int32> fill 1.0  tensor y : dense  y[i] = sum(j: A[i, j]) }"
    assert spfgen.parse(text).kernels["k"].compile()(A=array).tolist() == [3, 1]
