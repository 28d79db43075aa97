"""What makes a kernel more than sums of products: `explain` says it."""

from __future__ import annotations

import pytest

import spfgen

CASES = [
    ("y[i] = A[i,j]*x[j]", {"A": "csr", "x": "dense"}, ""),
    ("C[i,j] = max(A[i,j], B[i,j])", {"A": "csr", "B": "csr", "C": "csr"}, "`maximum` is more than sums and products"),
    ("C[i,j] = A[i,j] + B[i,j]", {"A": "csr", "B": "csr", "C": "csr"}, "operands in one order are merged"),
    ("y[i] max= x[i]", {"x": "dense"}, "it updates by `maximum`"),
    ("for i { y[i] = 2*x[i] }", {"x": "dense"}, "it has steps"),
    ("y[i] = x[i(::2)]", {"x": "dense"}, "a subscript of `x` is a view or a value"),
    ("y[i] = A[i,j]*x[j]", {"A": "csr fill 1", "x": "dense"}, "`A` is not 0 where nothing is stored"),
    ("y[i] = sum(j: A[i,j])", {"A": "csr_rle"}, "values do not change along runs"),
]


@pytest.mark.parametrize(("text", "layouts", "why"), CASES)
def test_what_is_beyond(text: str, layouts: dict[str, str], why: str) -> None:
    kernel = spfgen.compile(text, **layouts)
    assert kernel.program.beyond == why
    assert ("by regions" in kernel.explain()) == bool(why)
    assert why in kernel.explain()
