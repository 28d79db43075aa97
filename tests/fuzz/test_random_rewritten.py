"""Random steps that write one result several times, against the oracle of the language."""

from __future__ import annotations

import pytest

from tests.fuzz.rewritten import try_one
from tests.fuzz.seeds import reports_of


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.sampled(3)
def test_random_rewritten(seed: int) -> None:
    report = try_one(seed)
    assert not report, report


@pytest.mark.fuzz
@pytest.mark.timeout(0)
def test_many_random_rewritten() -> None:
    reports = reports_of(try_one)
    assert not reports, "\n\n".join(reports)
