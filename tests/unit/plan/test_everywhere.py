"""A sparse result that is as large as a dense one is said before it is made."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import spfgen

R = sp.random_array((300, 300), density=0.01, format="csr", rng=1)
M = np.arange(1.0, 301)
SAYS = "gets an entry at each of its places"


@pytest.mark.parametrize(
    ("value", "is_full"),
    [
        ("R[i,j] - m[i]", True),
        ("sqrt(R[i,j]) - m[j]", True),
        ("maximum(R[i,j], m[j])", True),
        ("R[i,j]*m[i]", False),
        ("R[i,j] + 1", False),  # its fill value is 1
        ("where(R[i,j] > m[i], R[i,j], 0)", False),  # what is left is up to the values
        ("R[i,j] - m[i]*R[j,i]", False),
    ],
)
def test_what_explain_says(value: str, is_full: bool) -> None:
    layouts = {"R": "csr", "C": "csr"} | ({"m": "dense"} if "m[" in value else {})
    kernel = spfgen.compile(f"C[i,j] = {value}", **layouts, schedule="")
    assert (SAYS in kernel.explain()) == is_full
    (found,) = kernel.explain(json=True)["statements"]
    assert any(SAYS in line for line in found["memory_until_packed"]) == is_full
    assert kernel.program.filled == (("C",) if is_full else ())


@pytest.mark.parametrize(("update", "is_full"), [("max= m[i]", True), ("*= m[i]", False), ("+= R[j,i]", False)])
def test_what_explain_says_of_updates(update: str, is_full: bool) -> None:
    layouts = {"R": "csr", "C": "csr"} | ({"m": "dense"} if "m[" in update else {})
    kernel = spfgen.compile(f"C[i,j] = R[i,j]\nC[i,j] {update}", **layouts)
    assert (SAYS in kernel.explain()) == is_full


def test_the_warning() -> None:
    """At the user's line, where it is large; not where fills are dropped, nor for a dense result."""
    text = "C[i,j] = R[i,j] - m[i]"
    with pytest.warns(
        spfgen.DenseResultWarning, match="each of its 90000 places, but its operands store 900"
    ) as warned:
        found = spfgen.evaluate(text, R=R, m=M, out="csr")
    assert [w.filename for w in warned] == [__file__]
    assert np.allclose(found.to_numpy(), R.toarray() - M[:, None])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spfgen.evaluate(text, R=R, m=M)
        spfgen.evaluate(text, R=R, m=M, out="csr", prune=True)
        spfgen.evaluate(text, R=R[:9, :9].tocsr(), m=M[:9], out="csr")
        spfgen.evaluate("C[i,j] = R[i,j]*m[i]", R=R, m=M, out="csr")
        spfgen.evaluate("C[i,j] = D[i,j]", D=R.toarray(), out="csr")
