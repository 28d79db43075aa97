"""What makes a kernel more than sums of products: `explain` says it."""

from __future__ import annotations

import numpy as np
import pytest

import spfgen

CASES = [
    ("y[i] = A[i,j]*x[j]", {"A": "csr", "x": "dense"}, ""),
    ("C[i,j] = max(A[i,j], B[i,j])", {"A": "csr", "B": "csr", "C": "csr"}, "`maximum` is more than sums and products"),
    ("C[i,j] = A[i,j] + B[i,j]", {"A": "csr", "B": "csr", "C": "csr"}, "sorted operands are merged"),
    ("y[i] max= x[i]", {"x": "dense"}, "it updates by `maximum`"),
    ("for i { y[i] = 2*x[i] }", {"x": "dense"}, "it has steps"),
    ("y[i] = x[i(::2)]", {"x": "dense"}, ""),
    ("y[i] = x[i(::2)] + x[i(1::2)]", {"x": "dense"}, "a subscript of `x` is a view or a value"),
    ("y[i] = A[i,j]*x[j]", {"A": "csr fill 1", "x": "dense"}, "`A` has a fill value other than 0"),
    ("y[i] = sum(j: A[i,j])", {"A": "csr_rle"}, "values do not change along runs"),
    ("y[i] = sum(j: A[i,j])", {"A": "csr <bool>"}, ""),
    (
        "y[i] = sum(j: A[i,j])",
        {"A": "coo_unsorted <bool>"},
        "a truth value of `A` may be stored several times",
    ),
]


@pytest.mark.parametrize(("text", "layouts", "why"), CASES)
def test_what_is_beyond(text: str, layouts: dict[str, str], why: str) -> None:
    kernel = spfgen.compile(text, **layouts)
    assert kernel.program.beyond == why
    assert ("by regions" in kernel.explain()) == bool(why)
    assert why in kernel.explain()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("kind", ["bool", "float64"])
@pytest.mark.parametrize("text", ["y[i] = sum(j: A[i,j])", "y[i] = A[i,j]*x[j]", "y[i] += A[i,j]*A[i,k]*x[k]"])
def test_what_stands_twice_adds_up_in_its_own_type(text: str, kind: str, level: int) -> None:
    """Truth values add up to whether one is true."""
    idx_1, idx_2 = np.array([2, 1, 1, 2, 1], np.int32), np.array([3, 1, 1, 3, 2], np.int32)
    stored = np.array([True, True, True, True, False]).astype(kind)
    a = spfgen.tensor("coo_unsorted", shape=(3, 4), idx_1=idx_1, idx_2=idx_2, val=stored)
    dense, x = a.to_numpy(), np.array([2.0, 3.0, 5.0, 7.0])
    assert dense.dtype == kind
    expected = {"sum": dense.sum(1), "A[i,j]*x": dense @ x, "y[i] +": dense.sum(1) * (dense @ x)}
    layouts = {"A": "coo_unsorted", "y": "dense", **({"x": "dense"} if "x" in text else {})}
    found = spfgen.compile(text, optimize=level, **layouts)
    given = {"A": a, **({"x": x} if "x" in text else {}), **({"y": np.zeros(3)} if "+=" in text else {})}
    np.testing.assert_array_equal(found(**given), next(v for k, v in expected.items() if k in text))
