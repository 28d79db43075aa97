"""Segments at whose end is what a loop asks for."""

from __future__ import annotations

import numpy as np
import pytest

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import Guard, Versions

LOWER = "x[i] = (b[i] - sum(j < i: L[i,j]*x[j]))/L[i,i]"
UPPER = "x[i] = (b[i] - sum(j > i: L[i,j]*x[j]))/L[i,i]"
SWEEP = "x[i] = (b[i] - sum(j != i: L[i,j]*b[j]))/L[i,i]"
RNG = np.random.default_rng(5)


@pytest.mark.parametrize(
    ("text", "layout", "asked"),
    [
        (LOWER, "csr", True),
        (UPPER, "csr", True),
        (LOWER, "csr_unsorted", False),  # a diagonal that is stored last says nothing of the others
        (SWEEP, "csr", False),  # nothing says that rows end with their diagonals
    ],
)
def test_where_one_question_answers_all(text: str, layout: str, asked: bool) -> None:
    kernel = spfgen.compile(text, L=layout, b="dense", x="dense", schedule="serial i")
    found = [n for p in kernel.generated.plans for n in walk(p) if isinstance(n, Versions)]
    assert len(found) == asked
    for node in found:
        special, general = node.versions
        assert not any(isinstance(n, Guard) for n in walk(special.body))
        assert any(isinstance(n, Guard) for n in walk(general.body))
    assert ("the others need no test" in kernel.source) == asked
    assert ("the others need no test" in kernel.explain()) == asked


@pytest.mark.sampled(1)
@pytest.mark.parametrize("text", [LOWER, UPPER])
@pytest.mark.parametrize("size", [0, 1, 2, 9, 90])
def test_rows_may_end_as_they_like(text: str, size: int) -> None:
    """With the diagonal, with what is not asked for, or without either; nothing, a little or much before it."""
    kernel = spfgen.compile(text, L="csr", b="dense", x="dense")
    keep = np.tril if text == LOWER else np.triu
    whole = np.where(RNG.random((size, size)) < 0.5, RNG.random((size, size)), 0)
    whole[np.arange(size) % 3 == 0] = keep(whole)[np.arange(size) % 3 == 0]
    whole[np.arange(size) % 4 == 1] = 0
    np.fill_diagonal(whole, size)
    b = RNG.random(size)
    np.testing.assert_allclose(kernel(L=spfgen.pack(whole, "csr"), b=b), np.linalg.solve(keep(whole), b))
    np.fill_diagonal(whole, np.where(np.arange(size) % 5 == 2, 0, size))
    whole[:, np.arange(size) % 5 == 2] = 0  # nobody needs what is divided by nothing
    b[np.arange(size) % 5 == 2] = 1 + np.abs(whole).sum()
    with np.errstate(divide="ignore"):
        found = kernel(L=spfgen.pack(whole, "csr"), b=b)
    here = np.arange(size) % 5 != 2
    assert np.all(np.isinf(found[~here]))
    np.testing.assert_allclose(found[here], np.linalg.solve(keep(whole)[here][:, here], b[here]))
