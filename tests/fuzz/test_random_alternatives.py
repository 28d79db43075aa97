"""Layouts with alternatives, read through random windows, against the oracle of the language."""

from __future__ import annotations

import pytest

from tests.fuzz.alternatives import try_one
from tests.fuzz.seeds import reports_of


@pytest.mark.parametrize("seed", range(6))
def test_random_alternatives(seed: int) -> None:
    report = try_one(seed)
    assert not report, report


@pytest.mark.fuzz
@pytest.mark.timeout(0)
def test_many_random_alternatives() -> None:
    reports = reports_of(try_one)
    assert not reports, "\n\n".join(reports)
