"""Random programs, layouts, loop orders and data against the reference; on failure the program is shown as text.

A refusal (Unsupported) is fine; any other error, C that does not compile, a crash and a wrong value are failures.
`-m fuzz` draws thousands, other ones every time.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from spfgen.errors import DataError
from spfgen.layout.validate import check_arrays
from tests.fuzz import meaning, runner, unseen
from tests.fuzz.common import common_cases
from tests.fuzz.programs import Case, cases, known_layouts
from tests.fuzz.reads import cases_of_reads

FOCI = ("dense", "outputs", "common", "unseen", "order", "finds", "schedules", "reads")
PROGRAMS = 10
"""At most so many programs in one call of the C compiler."""
PATIENCE = 30.0
PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
COMMON = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    "phases": PHASES,
    "print_blob": False,
}


class Checker:
    """Runs lists of programs. Hypothesis makes one that fails smaller, for PATIENCE seconds: then only what is known
    to fail does."""

    def __init__(self, flags: Sequence[str] = ("-O1",)) -> None:
        self.flags = flags
        self.tally = runner.Tally()
        self.failed: dict[str, str] = {}
        self.first = 0.0

    def __call__(self, programs: Sequence[Case]) -> None:
        key = repr(programs)
        if key not in self.failed and not (self.first and time.monotonic() > self.first + PATIENCE):
            outcomes = runner.run(programs, self.flags)
            self.tally.add(outcomes)
            problems = [o.report() for o in outcomes if o.problem]
            if problems:
                self.failed[key] = min(problems, key=len)
                self.first = self.first or time.monotonic()
        if key in self.failed:
            raise AssertionError(self.failed[key])


def drawn(focus: str) -> st.SearchStrategy[Case]:
    match focus:
        case "common":
            return common_cases()
        case "reads":
            return cases_of_reads()
    return cases(focus)


def some_programs(focus: str, flags: Sequence[str]) -> None:
    """The same few programs each time."""
    check = Checker(flags)

    @settings(derandomize=True, max_examples=5 if focus == "schedules" else 2, database=None, **COMMON)
    @given(st.lists(drawn(focus), min_size=1, max_size=PROGRAMS // 2))
    def some(programs: list[Case]) -> None:
        check(programs)

    some()
    most = 2 if focus == "schedules" else 3  # a random schedule often speaks of what is no loop
    assert check.tally.ran > most * check.tally.refused, f"most programs are refused: {check.tally}"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("focus", FOCI[:3])
def test_random_programs(focus: str) -> None:
    some_programs(focus, ("-O1",))


@pytest.mark.fuzz
@pytest.mark.parametrize("focus", FOCI)
def test_many_random_programs(focus: str) -> None:
    """Other programs every time; SPFGEN_FUZZ says how many calls of the compiler (of some five programs each)."""
    check = Checker()

    @settings(max_examples=int(os.environ.get("SPFGEN_FUZZ", "300")), **COMMON)
    @given(st.lists(drawn(focus), min_size=1, max_size=PROGRAMS))
    def many(programs: list[Case]) -> None:
        check(programs)

    many()


# --- the test's own tools -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", unseen.ALL)
def test_makers_keep_their_promises(name: str) -> None:
    """Random arrays satisfy what their layout declares, and not all of them are empty."""
    layout = unseen.resolved(name)
    stored = 0
    for seed in range(20):
        shape = tuple(int(n) for n in np.random.default_rng(seed).integers(0, 7, layout.rank))
        sizes, arrays = unseen.index_arrays(layout, unseen.ALL[name].make, seed, shape, (0.4, 0.0, 1.0)[seed % 3], {})
        try:
            check_arrays(layout, sizes, arrays, thorough=True)
        except DataError as error:
            raise AssertionError(f"{shape} {sizes} {arrays}") from error
        stored += len(meaning.entries(layout, sizes, arrays))
    assert stored > 10


def test_the_brute_force_meaning_of_known_layouts() -> None:
    """Packing a dense array and trying every position gives the array back."""
    from spfgen.lang.parse import parse_layout_use
    from spfgen.pipeline import RANK, layout_of
    from tests.differential.support import operand

    for rank in (1, 2, 3):
        for name in known_layouts(rank):
            declaration, settings_ = unseen.tree().resolve(parse_layout_use(name))
            if RANK in dict(declaration.constants):
                settings_.setdefault(RANK, rank)
            layout = layout_of(declaration, settings_)
            for shape in ((3, 5, 2), (4, 4, 3), (0, 2, 2)):
                tensor, dense = operand(layout, shape[:rank], 0.4, 1)
                found = np.zeros(shape[:rank])
                for entry in meaning.entries(layout, tensor.sizes, tensor.arrays):
                    found[entry.coordinate] += entry.value(tensor.arrays)
                assert np.array_equal(found, dense), (name, shape)


def test_a_wrong_kernel_is_noticed() -> None:
    """A kernel whose reference is another program's, and one that crashes, are reported."""
    from dataclasses import replace

    from tests.fuzz.programs import Data

    data = (Data((("n0", 4), ("n1", 5), ("n2", 3)), (), 1.0, 1),)
    dims = (("x", ("n0",)), ("y", ("n0",)))
    right = Case("kernel NAME { tensor x, y : dense  y[i] = x[i] }", dims, (), data)
    (outcome,) = runner.run([right])
    assert not outcome.problem
    assert outcome.runs == 1
    original = runner._generated

    def exchanged(case: Case, name: str) -> runner.Outcome:
        made = original(case, name)
        other = original(replace(case, kernel=case.kernel.replace("x[i] }", "2*x[i] }")), name)
        return replace(made, kernel=other.kernel)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "_generated", exchanged)
        (outcome,) = runner.run([right])
        assert "expected" in outcome.problem
        patch.setattr(runner, "_generated", original)
        patch.setattr(runner, "check", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        (outcome,) = runner.run([right])
        assert "crashed" in outcome.problem


def test_results_are_equal_as_far_as_they_are_exact() -> None:
    small, large = np.array([1.0, 2.0, np.nan]), np.array([2.0**60, 3.0, np.nan])
    assert runner.is_exact(small)
    assert not runner.is_exact(large)
    assert not runner.same(small, small * (1 + 1e-15), exact=True)
    assert runner.same(large, large * (1 + 1e-15), exact=False)
    assert not runner.same(large, large * (1 + 1e-6), exact=False)
    assert not runner.same(large, np.where(np.isnan(large), 0.0, large), exact=False)


@pytest.mark.parametrize("focus", FOCI[3:])
@pytest.mark.exhaustive
def test_random_programs_too(focus: str) -> None:
    """Apart from the others, so that two processes share them."""
    some_programs(focus, ("-O0",))
