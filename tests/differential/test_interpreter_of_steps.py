"""Kernels that are more than sums of products, their plans carried out by the interpreter: what C is tested with gives
the same, in all layouts. Nothing is compiled."""

from __future__ import annotations

import pytest

from tests.differential import test_steps
from tests.fuzz.carried import by_the_interpreter


@pytest.mark.parametrize("case", test_steps.EQUATIONS)
def test_equations(case: str) -> None:
    with by_the_interpreter() as ran:
        test_steps.test_equations(case, 2)
    assert ran


@pytest.mark.parametrize("case", test_steps.KERNELS)
def test_kernels(case: str) -> None:
    with by_the_interpreter() as ran:
        test_steps.test_kernels(case, 2)
    assert ran
