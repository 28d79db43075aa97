"""The experiment validation: who takes part, and what it makes of the figures."""

from __future__ import annotations

import shutil
from functools import partial

import pytest

from experiments import validation
from experiments.data import made
from experiments.harness.case import OURS
from experiments.harness.race import RIGHT, Entry, Outcome, run_case
from experiments.harness.timing import Timing

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@needs_compiler
def test_all_find_nothing_wrong() -> None:
    case = validation.case("tiny", partial(made.stencil, 4), 1)
    outcome = run_case(case, rounds=1, between=lambda: None, waited=lambda: 0)
    assert {e.name: e.status for e in outcome.entries} == dict.fromkeys((OURS, "spmv", "scipy"), RIGHT)
    assert outcome.facts == {"rows": 16, "entries": 64}
    assert case.check(case.data())(("increasing",)) == "expected nothing to be found, but ('increasing',)"


@pytest.mark.parametrize(("ratio", "verdict"), [(2.0, "met"), (0.5, "NOT met")])
def test_closing(ratio: float, verdict: str) -> None:
    timing = Timing((1000.0,), 1)
    entries = (Entry(OURS, "", RIGHT, "", timing, 1.0), Entry("spmv", "", RIGHT, "", timing, ratio))
    text = validation.closing([Outcome("validate csr, m, 2 threads", {}, None, None, entries, 2)])
    mean = f"{ratio:.2f}"
    wanted = f"mean {mean}, least {mean} (validate csr, m, 2 threads), target 1: {verdict}"
    assert text == f"spmv / ours, 2 threads: {wanted}"
