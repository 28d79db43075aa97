"""Random programs x random cuts, against the oracle of the language: tests/fuzz/blocks.py.

`-m fuzz` tries PROGRAMS of them, with conditions and sizes of tests/fuzz/programs.py among them, and some on a cluster
of two processes, compiled.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.fuzz import blocks
from tests.fuzz.common import common_cases
from tests.fuzz.programs import Case, cases
from tests.fuzz.reads import cases_of_reads

pytest.importorskip("dask")
PROGRAMS = int(os.environ.get("SPFGEN_FUZZ", "5000"))
QUIET = {
    "deadline": None, "database": None, "phases": (Phase.explicit, Phase.generate),
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
}  # fmt: skip
FOCI = ("dense", "outputs", "common", "order", "schedules", "reads")


def drawn(focus: str) -> st.SearchStrategy[Case]:
    match focus:
        case "common":
            return common_cases()
        case "reads":
            return cases_of_reads()
    return cases(focus)


@pytest.mark.parametrize("kind", blocks.KINDS)
def test_random_programs_in_blocks(kind: str) -> None:
    ran = 0
    for seed in range(8):
        program = blocks.KINDS[kind](seed)
        if program is not None:
            ran += blocks.outcome(program, seed) == ""
            report = blocks.report(program, seed, kind)
            assert not report, report
    assert ran >= 3, "most programs are refused"


def test_random_statements_in_blocks() -> None:
    @settings(derandomize=True, max_examples=10, **QUIET)
    @given(st.one_of([drawn(f) for f in FOCI]))
    def some(case: Case) -> None:
        report = blocks.report(blocks.of_case(case, 0), 0, case.kernel)
        assert not report, report

    some()


@pytest.mark.fuzz
@pytest.mark.parametrize("kind", blocks.KINDS)
def test_many_random_programs_in_blocks(kind: str) -> None:
    for seed in range(1000, 1000 + PROGRAMS // 6):
        program = blocks.KINDS[kind](seed)
        report = "" if program is None else blocks.report(program, seed, kind)
        assert not report, report


@pytest.mark.fuzz
@pytest.mark.parametrize("focus", FOCI)
def test_many_random_statements_in_blocks(focus: str) -> None:
    @settings(max_examples=PROGRAMS // 12, **QUIET)
    @given(drawn(focus))
    def many(case: Case) -> None:
        for number in range(len(case.data)):
            report = blocks.report(blocks.of_case(case, number), number, case.kernel)
            assert not report, report

    many()
