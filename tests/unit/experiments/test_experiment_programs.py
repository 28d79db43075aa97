"""The experiments of programs that are more than sums of products: what takes part computes what it should."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import numpy as np
import pytest

from experiments import conv, semiring, shape, structured, ufunc
from experiments.harness.case import Case, Missing
from experiments.harness.memory import LEAST_SEEN, peak_bytes
from experiments.peers.kernels import same

THREADS = 1
EVERY: Sequence[tuple[ModuleType, str]] = (
    (ufunc, "sparse result"),
    (semiring, "R-MAT"),
    (shape, "csr"),
    (conv, "9"),
    (structured, ""),
)
"""Experiments, and which of their small cases are tried here: those whose label has the text."""
CASES = [c for experiment, part in EVERY for c in experiment.cases(quick=True, threads=THREADS) if part in c.label]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.label)
def test_whoever_takes_part_is_right(case: Case) -> None:
    data = case.data()
    complaint = case.check(data)
    for contestant in (case.contestants[0], *case.peers):
        if contestant.name.startswith("ours-"):
            continue  # other layouts, which cost the time to compile
        try:
            runner = contestant.prepare(data)
        except Missing:
            assert contestant.name != "ours"
            continue
        found = runner.call()
        assert complaint(found if runner.result is None else runner.result()) == "", contestant.title


def test_exact_comparison_sees_shapes_and_single_elements() -> None:
    expected = np.array([[0.0, np.nan], [2.0, 3.0]])
    complain = same(expected)
    assert complain(expected.copy()) == ""
    assert "shape" in complain(expected[:1])
    wrong = expected.copy()
    wrong[1, 0] = 2.5
    assert "(1, 0)" in complain(wrong)
    wrong = np.nan_to_num(expected)
    assert "(0, 1)" in complain(wrong)


def test_the_peak_of_a_call_is_seen() -> None:
    size = 64 * LEAST_SEEN
    found = peak_bytes(lambda: np.ones(size // 8))
    assert found is None or found > size // 2
