"""argmin and argmax by rows and by columns, in any layout: numpy's choice among equals, fills and nan."""

from __future__ import annotations

import numpy as np
import pytest

import spfgen

NUMBERS = (-1.0, 0.0, 1.0, 2.0, 3.0, np.nan)


@pytest.mark.sampled(1)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("fill", [0.0, 2.0, np.nan])
@pytest.mark.parametrize("layout", ["csr", "csc", "coo_unsorted"])
@pytest.mark.parametrize("op", ["argmin", "argmax"])
def test_the_first_of_the_best(op: str, layout: str, fill: float) -> None:
    """Also where what is not stored is the best: then its first place."""
    rng = np.random.default_rng(int(fill) if np.isfinite(fill) else 7)
    by_rows = spfgen.compile(f"y[i] = {op}(j: A[i,j])", A=f"{layout} fill {fill}", y="dense")
    by_columns = spfgen.compile(f"y[j] = {op}(i: A[i,j])", A=f"{layout} fill {fill}", y="dense")
    for shape in ((1, 1), (4, 6), (7, 3)):
        values = rng.choice(NUMBERS, shape, p=(0.2, 0.2, 0.2, 0.2, 0.15, 0.05))
        a = np.where(rng.random(shape) < 0.5, values, fill)
        tensor = spfgen.pack(a, layout, fill=fill)
        np.testing.assert_array_equal(by_rows(A=tensor), getattr(np, op)(a, 1))
        np.testing.assert_array_equal(by_columns(A=tensor), getattr(np, op)(a, 0))
