"""A sparse result that is given stores all that is computed, or the call fails: functions, views, reductions, loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import spfgen
from spfgen.errors import DataError
from spfgen.run.calls import pattern_overflow

FULL = np.arange(1.0, 10).reshape(3, 3)
UPPER = np.triu(np.ones((3, 3)))
UNIT = np.eye(3)
TURN = np.array([2, 1, 0])

CASES: list[tuple[str, np.ndarray, dict[str, np.ndarray], Any]] = [
    # the text, the pattern of C, the operands, what C holds then or where something has no place
    ("C[i,j] = abs(A[i,j])", FULL, {"A": -UPPER}, UPPER),
    ("C[i,j] = abs(A[i,j])", UNIT, {"A": -UPPER}, "[0, 1]"),
    ("C[i,j] = max(A[i,j], B[i,j])", UPPER, {"A": UNIT, "B": UPPER}, UPPER),
    ("C[i,j] = max(A[i,j], B[i,j])", UNIT, {"A": UNIT, "B": UPPER}, "[0, 1]"),
    ("C[i,j] = exp(A[i,j])", FULL, {"A": UPPER}, np.exp(UPPER)),
    ("C[i,j] = exp(A[i,j])", UPPER, {"A": UPPER}, "[1, 0]"),
    ("C[i,j] max= A[i,j]", UPPER, {"A": 3 * UNIT}, np.maximum(UPPER, 3 * UNIT)),
    ("C[i,j] max= A[i,j]", UNIT, {"A": UPPER}, "[0, 1]"),
    ("C[i,j] *= A[i,j]", UNIT, {"A": FULL}, UNIT * FULL),
    ("C[i,j] = abs(A[i,j]) where i <= j", UPPER, {"A": FULL}, np.triu(FULL)),
    ("C[i,j] = abs(A[i,j]) where i >= j", UPPER, {"A": FULL}, "[1, 0]"),
    ("C[i,j] = where(i <= j, A[i,j], 0)", UPPER, {"A": FULL}, np.triu(FULL)),
    ("C[i,j] = A[i,j]*(i == j)", UNIT, {"A": FULL}, UNIT * FULL),
    ("C[i,j] = A[i,j] + (i == j)", UPPER, {"A": FULL}, "[1, 0]"),
    ("C[i,j] = max(k: A[i,k]*A[k,j])", FULL, {"A": UPPER}, UPPER),
    ("C[i,j] = max(k: A[i,k]*A[k,j])", UNIT, {"A": UPPER}, "[0, 1]"),
    ("C[i,j] = A[i(::-1), j]", FULL, {"A": UPPER}, UPPER[::-1]),
    ("C[i,j] = A[i(::-1), j]", UNIT, {"A": UPPER}, "[0, 2]"),
    ("C[i, p[j]] += abs(A[i,j])", FULL, {"A": UPPER, "p": TURN}, FULL + UPPER[:, ::-1]),
    ("C[i, p[j]] += abs(A[i,j])", UNIT, {"A": UPPER, "p": TURN}, "[0, 1]"),
    ("C[i,j] = abs(C[j,i])", UPPER, {}, "[1, 0]"),
    ("C[i,j] = abs(C[i,j]) + A[i,j]", UPPER, {"A": UNIT}, UPPER + UNIT),
    ("C[i,j] = abs(A[i,j]) within C", UNIT, {"A": FULL}, UNIT * FULL),
    ("for i, j { C[i,j] = abs(A[i,j]) }", FULL, {"A": UPPER}, UPPER),
    ("for i, j { C[i,j] = abs(A[i,j]) }", UNIT, {"A": UPPER}, "has no place"),
    ("for i, j { if A[i,j] > 1 { C[i,j] += A[i,j] } }", UNIT, {"A": UPPER}, UNIT),
    ("for i, j { if A[i,j] > 0 { C[i,j] += A[i,j] } }", UNIT, {"A": UPPER}, "has no place"),
    ("for i { C[i,j] += A[i,j] }", UPPER, {"A": UNIT}, UPPER + UNIT),
    ("for i { C[i,j] += A[i,j] }", UNIT, {"A": UPPER}, "has no place"),
    ("for i { C[i,j] = 2*A[i,j] within C }", UNIT, {"A": UPPER}, 2 * UNIT),
    ("for i, j { C[i, p[j]] += A[i,j] }", FULL, {"A": UPPER, "p": TURN}, FULL + UPPER[:, ::-1]),
    ("for i, j { C[i, p[j]] += A[i,j] }", UNIT, {"A": UPPER, "p": TURN}, "has no place"),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_a_given_result(case: int, level: int) -> None:
    text, pattern, operands, expected = CASES[case]
    given: dict[str, Any] = {n: scipy.sparse.csr_array(a) if a.ndim == 2 else a for n, a in operands.items()}
    layouts = {n: "csr" if a.ndim == 2 else "dense<int64>" for n, a in operands.items()}
    kernel = spfgen.compile(text, C="csr", optimize=level, **layouts)
    result = scipy.sparse.csr_array(pattern)
    if isinstance(expected, np.ndarray):
        kernel(C=result, **given)
        np.testing.assert_array_equal(result.toarray(), expected)
        kernel(C=result, **given)  # what is known of the patterns now
    else:
        with pytest.raises(DataError, match="expected `C` to store all") as caught:
            kernel(C=result, **given)
        assert expected in str(caught.value)
        assert "within C" in str(caught.value)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["lower", "diagonal", "band"])
def test_a_layout_with_few_places(layout: str) -> None:
    """No pattern has to be given where the extents alone say which coordinates are stored."""
    kernel = spfgen.compile("C[i,j] = abs(A[i,j])", A="csr", C=layout)
    result = kernel(A=scipy.sparse.csr_array(-UNIT))
    np.testing.assert_array_equal(result.to_numpy(), UNIT)
    with pytest.raises(DataError, match="stores nothing at"):
        kernel(A=scipy.sparse.csr_array(FULL))


def test_patterns_that_change_are_looked_at_again() -> None:
    kernel = spfgen.compile("C[i,j] = abs(A[i,j])", A="csr", C="csr")
    result = scipy.sparse.csr_array(UPPER)
    for _ in range(2):
        kernel(A=scipy.sparse.csr_array(-UNIT), C=result)
        with pytest.raises(DataError, match=r"stores nothing at \[1, 0\]"):
            kernel(A=scipy.sparse.csr_array(FULL), C=result)


def test_values_may_lose_something_where_others_did_not() -> None:
    """The second call has the patterns of the first one."""
    spec = spfgen.parse("""
        layout reversed(n) { relation { [p] -> [i] : 0 <= p < n and i = n - 1 - p } value val[n] at [p] }
        kernel k { tensor T : reversed  tensor R : band  R[i,j] = max(k: split(split(T[m], m -> (i,l)), l -> (k,j))) }
    """)
    kernel = spec.kernels["k"].compile()
    for values in (np.zeros(24), np.arange(24.0)):
        given = spfgen.pack(values, spec.layouts["reversed"])
        if values.any():
            with pytest.raises(spfgen.SpfgenError, match="to store all that is computed"):
                kernel(T=given, sizes={"j": 3, "l": 6})
        else:
            assert not kernel(T=given, sizes={"j": 3, "l": 6}).to_numpy().any()


def test_places_that_values_lead_to_are_looked_at_by_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is not made a second time to see what it stores, and nothing is written where something is lost."""
    monkeypatch.setattr(pattern_overflow, "_Listed", None)
    kernel = spfgen.compile("C[p[e,a], p[e,b]] += E[e,a,b]", C="csr", p="dense<int64>", E="dense")
    p, values = np.array([[0, 1], [1, 2]]), np.arange(8.0).reshape(2, 2, 2) + 1
    expected = np.zeros((3, 3))
    np.add.at(expected, (p[:, :, None], p[:, None, :]), values)
    result = scipy.sparse.csr_array(expected != 0).astype(float)
    result.data[:] = 0
    kernel(C=result, p=p, E=values)
    np.testing.assert_array_equal(result.toarray(), expected)
    monkeypatch.undo()
    with pytest.raises(DataError, match=r"stores nothing at \[0, 2\]"):
        kernel(C=result, p=np.array([[0, 1], [0, 2]]), E=values)
    np.testing.assert_array_equal(result.toarray(), expected)
