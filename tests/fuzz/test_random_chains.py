"""Chains of operations on arrays, at once and lazily, few elements and many, by numpy and by kernels, against numpy.

`pytest -m fuzz tests/fuzz/test_random_chains.py` tries as many as SPFGEN_FUZZ_CHAINS says, 20,000 by default.
"""

from __future__ import annotations

import os
import warnings

import pytest

from spfgen import folder
from spfgen.folder import load
from spfgen.run import later
from spfgen.run.arrays import plan_cache
from spfgen.run.calls import call_cache
from tests.fuzz.chains import chain_of, problem


def try_one(seed: int, by_kernels: bool, large: bool) -> str:
    """A report of what is wrong; "" where nothing is."""
    chain = chain_of(seed, large)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(later, "_STATES", {})
        patch.setattr(call_cache, "_CALLS", {})
        patch.setattr(plan_cache, "_PLANS", {})
        if by_kernels:  # wherever there is one, however few elements there are
            patch.setenv("SPFGEN_COMPILE", later.WARM)
            patch.setattr(later, "marked", lambda mark: None)
        else:
            patch.setenv("SPFGEN_COMPILE", "never")
            patch.setattr(folder, "load", lambda kind, key: None if kind == later.MARKS else load(kind, key))
        reports = [f"{'lazily, ' * lazy}{found}" for lazy in (False, True) if (found := problem(chain, lazy))]
    said = f"{'large ' * large}{'by kernels' if by_kernels else 'by numpy'}"
    return f"{chain.text()}\n{said}: {'; '.join(reports)}" if reports else ""


def test_a_few() -> None:
    reports = [r for seed in range(12) if (r := try_one(seed, False, False))]
    assert not reports, "\n\n".join(reports)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", [3, 5, 7, 11])
def test_by_kernels(seed: int) -> None:
    report = try_one(seed, True, False)
    assert not report, report


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", [1, 2, 4, 8])
def test_large(seed: int) -> None:
    report = try_one(seed, False, True)
    assert not report, report


@pytest.mark.fuzz
@pytest.mark.timeout(0)
def test_many() -> None:
    first, count = (int(os.environ.get(f"SPFGEN_FUZZ_{n}", d)) for n, d in (("SEED", "1000"), ("CHAINS", "20000")))
    reports: list[str] = []
    for seed in range(first, first + count):
        report = try_one(seed, seed % 10 == 0, seed % 25 == 7)
        reports += [report] if report else []
        if len(reports) == 10:
            break
    assert not reports, "\n\n".join(reports)
