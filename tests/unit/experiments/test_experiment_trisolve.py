"""The triangular systems of the experiment, and that what takes part solves them."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from experiments import trisolve
from experiments.data import made


@pytest.mark.parametrize("lower", [True, False])
def test_systems_have_a_full_diagonal_and_are_solved(lower: bool) -> None:
    data = trisolve.system(partial(made.uniform, 60, 50, 3), lower)
    assert data.triangle.shape == (50, 50)
    assert np.all(data.triangle.diagonal() == 1)
    complaint = trisolve.check(data)
    runner = trisolve.prepare_scipy(data)
    assert complaint(runner.call()) == ""
    ours = trisolve.prepare_ours(data, threads=2)
    ours.call()
    assert ours.result is not None
    assert complaint(ours.result()) == ""
    assert complaint(data.right) != ""


def test_levels_are_counted() -> None:
    data = trisolve.system(partial(made.stencil, 4), lower=True)
    assert trisolve.levels(data) == 7
    coloured = trisolve.coloured(made.stencil(5), 2)  # a point of one colour has neighbours of the other alone
    assert trisolve.levels(trisolve.system(lambda: coloured, lower=False)) == 2
