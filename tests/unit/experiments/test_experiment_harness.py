"""The harness of the experiments: what it shows and how it computes. Never how long anything takes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.harness import session
from experiments.harness.bandwidth import Memory
from experiments.harness.case import Case, Contestant, Missing, Refused, Runner
from experiments.harness.check import compare, sum_tolerance
from experiments.harness.options import Options
from experiments.harness.pace import Pace
from experiments.harness.race import FAILED, MISSING, REFUSED, RIGHT, SKIPPED, WRONG, Outcome, run_case
from experiments.harness.record import kept_cases, record, write
from experiments.harness.table import case_table, share_of_roof, summary
from experiments.harness.timing import calibrate, geometric_mean, interleave, paired_ratio


class FakeClock:
    """Time passes only when a call says so."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now

    def runner(self, nanoseconds: float, answer: float = 42.0, drift: float = 1.0) -> Runner:
        """A contestant that takes this long, `drift` times longer with each millisecond of the fake time."""

        def call() -> float:
            self.now += round(nanoseconds * drift ** (self.now / 1e6))
            return answer

        return Runner(call)


def race(ours: Runner, *peers: Contestant, clock: FakeClock, memory: Memory | None = None, **more: object) -> Outcome:
    case = Case(
        label="a case",
        data=lambda: 42.0,
        ours=lambda data: ours,
        peers=peers,
        check=lambda data: lambda result: compare(result, data, 1e-9),
        **more,
    )
    return run_case(case, rounds=5, clock=clock, between=lambda: None, waited=lambda: 0, memory=memory)


def missing(data: object) -> Runner:
    raise Missing("not installed")


def broken(data: object) -> Runner:
    raise ZeroDivisionError("oops")


def unwilling(data: object) -> Runner:
    raise Refused("not this one")


def by_title(outcome: Outcome) -> dict:
    return {entry.title: entry for entry in outcome.entries}


def test_ratio_is_the_time_of_the_peer_over_ours() -> None:
    clock = FakeClock()
    peer = clock.runner(3000)
    entries = by_title(race(clock.runner(1000), Contestant("peer", lambda data: peer), clock=clock))
    assert entries["ours"].ratio == 1.0
    assert entries["peer"].ratio == 3.0
    assert entries["peer"].timing.median == 3000


def test_drift_of_the_machine_hardly_changes_the_ratio() -> None:
    clock = FakeClock()
    ours, peer = clock.runner(2e6, drift=1.001), clock.runner(2e6, drift=1.001)
    entries = by_title(race(ours, Contestant("peer", lambda data: peer), clock=clock))
    assert entries["peer"].timing.samples[-1] > 1.01 * entries["peer"].timing.samples[0]
    assert entries["peer"].ratio == pytest.approx(1.0, abs=0.01)


def test_paired_ratio_is_the_median_of_the_rounds() -> None:
    assert paired_ratio([2, 9, 4], [1, 1, 4]) == 2
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="argument 2"):
        paired_ratio([1, 2], [1])


def test_samples_are_interleaved() -> None:
    clock, order = FakeClock(), []

    def contestant(name: str) -> None:
        order.append(name)
        clock.now += 5_000_000

    calls = {"a": lambda: contestant("a"), "b": lambda: contestant("b")}
    timings = interleave(calls, rounds=3, clock=clock, between=lambda: None, waited=lambda: 0)
    # First each is called to warm up and five times to calibrate; then in a round three times untimed, once timed.
    assert "".join(order) == "aaaaaabbbbbb" + "aaaabbbb" * 3
    assert timings["a"].samples == (5e6, 5e6, 5e6)


def test_a_disturbed_sample_is_taken_again() -> None:
    clock, busy = FakeClock(), iter([0, 4_000_000, 4_000_000, 4_000_000])
    call = clock.runner(5_000_000).call
    timing = interleave({"a": call}, 1, clock, lambda: None, lambda: next(busy))["a"]
    assert (timing.samples, timing.disturbed) == ((5e6,), 0)
    assert next(busy, None) is None


def test_patience_ends_and_the_table_says_so() -> None:
    clock = FakeClock()
    case = Case("a case", lambda: 1, lambda data: clock.runner(1e9), (), lambda data: lambda result: "")
    outcome = run_case(case, 3, clock=clock, between=lambda: None, waited=clock)
    assert outcome.entries[0].timing.disturbed == 3
    assert "3 of 3 disturbed" in case_table(outcome)
    assert "DISTURBED: 3 of 3 samples" in summary([outcome])


def test_a_short_call_is_batched_and_a_hiccup_does_not_hide_it() -> None:
    clock = FakeClock()
    count = calibrate(clock.runner(100).call, clock, target=2_000_000)
    assert 20_000 <= count <= 25_000
    costs = iter([3_000_000, 4_000_000])

    def hiccup() -> None:
        clock.now += next(costs, 100)

    assert calibrate(hiccup, clock, target=2_000_000) >= 20_000


@pytest.mark.parametrize("answer", [41.0, float("nan"), np.ones(3)])
def test_a_wrong_result_is_shown_and_not_timed(answer: object) -> None:
    clock = FakeClock()
    wrong = clock.runner(1, answer)
    outcome = race(clock.runner(1000), Contestant("peer", lambda data: wrong), clock=clock)
    entry = by_title(outcome)["peer"]
    assert (entry.status, entry.timing, entry.ratio) == (WRONG, None, None)
    assert "peer                      WRONG (" in case_table(outcome)
    assert "WRONG a case: peer:" in summary([outcome])


def test_a_result_that_is_wrong_only_later_is_wrong() -> None:
    clock, y = FakeClock(), np.array(42.0)

    def call() -> None:
        clock.now += 1000
        if clock.now > 3_000_000:
            y[...] = 0.0

    entry = by_title(race(Runner(call, lambda: y), clock=clock))["ours"]
    assert (entry.status, entry.timing) == (WRONG, None)


def test_wrong_ours_gives_no_ratio() -> None:
    clock = FakeClock()
    peer = clock.runner(1000)
    outcome = race(clock.runner(1000, 0.0), Contestant("peer", lambda data: peer), clock=clock)
    assert by_title(outcome)["peer"].status == RIGHT
    assert by_title(outcome)["peer"].ratio is None


def test_missing_and_broken_peers_are_shown_with_the_reason() -> None:
    clock = FakeClock()
    outcome = race(clock.runner(1000), Contestant("gone", missing), Contestant("bad", broken), clock=clock)
    assert by_title(outcome)["gone"].status == MISSING
    assert by_title(outcome)["bad"].status == FAILED
    table = case_table(outcome)
    assert "missing (not installed)" in table
    assert "failed (ZeroDivisionError: oops)" in table


def test_who_is_not_installed_is_told_once_with_the_remedy() -> None:
    clock = FakeClock()
    peers = [Contestant("gone", missing), Contestant("too", missing), Contestant("bad", broken)]
    outcomes = [race(clock.runner(1000), *peers, clock=clock) for _ in range(2)]
    assert session.missing(outcomes) == {"not installed": ["gone", "too"]}


def test_no_case_of_that_label(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "trisolve.json"
    assert session.run(Options("trisolve", True, None, 1, 1, path, "no such case")) == 1
    assert "there are:" in capsys.readouterr().err
    assert not path.exists()


def test_the_best_setting_of_a_peer_counts() -> None:
    clock = FakeClock()
    slow, fast = clock.runner(4000), clock.runner(2000)
    outcome = race(
        clock.runner(1000),
        Contestant("peer", lambda data: slow, "slow"),
        Contestant("peer", lambda data: fast, "fast"),
        Contestant("peer", missing, "none"),
        clock=clock,
    )
    assert [entry.title for entry in outcome.best()] == ["ours", "peer [fast]"]


def test_a_wrong_setting_is_not_hidden_by_a_right_one() -> None:
    clock = FakeClock()
    right, wrong = clock.runner(4000), clock.runner(2000, 0.0)
    outcome = race(
        clock.runner(1000),
        Contestant("peer", lambda data: right, "right"),
        Contestant("peer", lambda data: wrong, "wrong"),
        clock=clock,
    )
    assert [entry.title for entry in outcome.best()] == ["ours", "peer [wrong]"]


def memory(clock: FakeClock, drift: float = 1.0, beyond: int = 0) -> Memory:
    """Reads 2 bytes a nanosecond, and copies more slowly."""
    calls = {"read": clock.runner(500, drift=drift).call, "triad": clock.runner(1000, drift=drift).call}
    return Memory(calls, {"read": 1000, "triad": 1500}, beyond)


def test_share_of_the_roofline() -> None:
    clock = FakeClock()
    outcome = race(clock.runner(1000), clock=clock, memory=memory(clock), bytes_moved=lambda data: 500)
    # 500 bytes in 1000 ns are 0.5 GB/s.
    assert share_of_roof(outcome.entries[0], outcome) == pytest.approx(0.25)
    assert "memory 2.0 GB/s" in case_table(outcome)
    assert "25%" in case_table(outcome)


def test_the_roof_is_that_of_the_same_round() -> None:
    clock = FakeClock()
    slower = memory(clock, drift=1.01)
    outcome = race(clock.runner(1000, drift=1.01), clock=clock, memory=slower, bytes_moved=lambda data: 500)
    assert min(outcome.roofs) < 0.8 * max(outcome.roofs)
    assert share_of_roof(outcome.entries[0], outcome) == pytest.approx(0.25, rel=0.05)


def test_what_fits_the_caches_is_under_no_roof() -> None:
    clock = FakeClock()
    outcome = race(clock.runner(1000), clock=clock, memory=memory(clock, beyond=500), bytes_moved=lambda data: 500)
    assert outcome.roofs == ()
    assert share_of_roof(outcome.entries[0], outcome) is None
    assert "roofline" not in case_table(outcome)
    assert [entry.name for entry in outcome.entries] == ["ours"]


def test_share_of_a_limit() -> None:
    clock = FakeClock()
    assert "50%" in case_table(race(clock.runner(1000), clock=clock, limit_seconds=2e-6))


def test_only_the_peers_asked_for_are_prepared() -> None:
    peers = (Contestant("one", missing), Contestant("two", missing))
    case = Case("a case", lambda: 1, missing, peers, lambda data: str)
    outcome = run_case(case, 1, peers=("two",), between=lambda: None, waited=lambda: 0)
    assert [entry.name for entry in outcome.entries] == ["ours", "two"]


def test_tolerance_grows_with_the_length_of_the_sum() -> None:
    eps = np.finfo(float).eps
    assert sum_tolerance(0, 0.0) == 0.0
    assert sum_tolerance(9, 1.0) == pytest.approx(20 * eps)
    assert compare([1.0, 0.0], [1.0 + eps, 0.0], sum_tolerance([1, 0], np.array([1.0, 0.0]))) == ""
    assert "1 of 2 elements differ; first at (1,)" in compare([1.0, 1e-300], [1.0, 0.0], [0.0, 0.0])


def test_the_record_is_json_and_has_every_sample(tmp_path: Path) -> None:
    clock = FakeClock()
    outcome = race(clock.runner(1000), Contestant("gone", missing), clock=clock)
    options = Options("name", True, None, 2, 5, tmp_path / "deep" / "name.json")
    write(options.json, record(options, {"cpu": "some"}, [outcome]))
    read = json.loads(options.json.read_text())
    ours, gone = read["cases"][0]["contestants"]
    assert len(ours["samples_ns"]) == 5
    assert (gone["status"], gone["reason"], read["threads"]) == (MISSING, "not installed", 2)


def test_a_run_that_was_stopped_goes_on(tmp_path: Path) -> None:
    """The cases that are recorded stay; a record of another machine or another kind of run is not gone on with."""
    clock = FakeClock()
    first, second = race(clock.runner(1000), clock=clock), race(clock.runner(2000), clock=clock)
    options = Options("name", True, None, 2, 5, tmp_path / "name.json", resume=True)
    assert kept_cases(options, {"cpu": "some"}) == []
    write(options.json, record(options, {"cpu": "some"}, [first]))
    kept = kept_cases(options, {"cpu": "some"})
    both = json.loads(json.dumps(record(options, {"cpu": "some"}, [second], kept)))
    assert [c["contestants"][0]["median_ns"] for c in both["cases"]] == [1000, 2000]
    assert kept_cases(replace(options, resume=False), {"cpu": "some"}) == []
    with pytest.raises(ValueError, match=r"expected a record of rounds 7, but .* is of 5"):
        kept_cases(replace(options, rounds=7), {"cpu": "some"})
    with pytest.raises(ValueError, match="machine"):
        kept_cases(options, {"cpu": "another"})


def test_a_peer_that_declines_is_shown_with_the_reason() -> None:
    clock = FakeClock()
    outcome = race(clock.runner(1000), Contestant("shy", unwilling), clock=clock)
    assert by_title(outcome)["shy"].status == REFUSED
    assert "refused (not this one)" in case_table(outcome)


def test_a_slow_contestant_has_fewer_samples_and_none_is_in_vain() -> None:
    clock, calls = FakeClock(), []

    def call() -> float:
        calls.append(clock.now)
        clock.now += 2_000_000_000
        return 42.0

    peer = Contestant("peer", lambda data: Runner(call, lambda: 42.0))
    outcome = race(clock.runner(1000), peer, clock=clock, pace=Pace(30.0, 4.5))
    entry = by_title(outcome)["peer"]
    assert entry.timing.samples == (2e9, 2e9)
    assert entry.ratio == 2e6
    assert len(calls) == 3


def test_of_a_very_slow_contestant_the_first_call_is_the_sample() -> None:
    clock, calls = FakeClock(), []

    def call() -> float:
        calls.append(clock.now)
        clock.now += 5_000_000_000
        return 42.0

    peer = Contestant("peer", lambda data: Runner(call, lambda: 42.0))
    outcome = race(clock.runner(1000), peer, clock=clock, pace=Pace(30.0, 4.0))
    assert by_title(outcome)["peer"].timing.samples == pytest.approx((5e9,))
    assert len(calls) == 1


def test_a_contestant_that_is_too_slow_is_skipped_and_not_called_at_larger_sizes() -> None:
    clock, pace = FakeClock(), Pace(30.0, 1.0)
    slow = clock.runner(31e9)
    outcome = race(clock.runner(1000), Contestant("peer", lambda data: slow), clock=clock, pace=pace, size=1.0)
    assert by_title(outcome)["peer"].status == SKIPPED
    assert "skipped (a call takes about 31 s, more than 30 s)" in case_table(outcome)
    outcome = race(clock.runner(1000), Contestant("peer", broken), clock=clock, pace=pace, size=2.0)
    assert by_title(outcome)["peer"].status == SKIPPED


def test_pace_goes_on_as_it_did() -> None:
    pace = Pace(30.0, 1.0)
    assert pace.expected("peer", 1.0) == 0.0
    pace.note("peer", 0.01, 0.2)
    assert pace.expected("peer", 0.1) == 0.2
    pace.note("peer", 0.1, 2.0)
    assert pace.expected("peer", 0.5) == pytest.approx(10.0)
    pace.note("flat", 0.01, 7.0)
    pace.note("flat", 0.1, 6.0)
    assert pace.expected("flat", 0.5) == pytest.approx(6.0)
    assert (pace.rounds(0.001, 21), pace.rounds(0.03, 21), pace.rounds(9.0, 21)) == (None, 21, 0)
    assert pace.rounds(0.3, 21) == 3


def test_a_case_may_have_its_own_threads() -> None:
    clock = FakeClock()
    assert race(clock.runner(1000), clock=clock, threads=1).threads == 1
    assert race(clock.runner(1000), clock=clock).threads is None
