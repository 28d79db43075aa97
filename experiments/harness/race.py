"""One case: prepare the contestants, check them, time those that are right, check them again."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from experiments.harness.bandwidth import Memory
from experiments.harness.case import OURS, Case, Contestant, Missing, Refused, Runner
from experiments.harness.log import say
from experiments.harness.machine import waited_for_cores
from experiments.harness.timing import Call, Clock, Timing, interleave, paired_ratio, pause

RIGHT, WRONG, MISSING, FAILED = "right", "WRONG", "missing", "failed"
REFUSED, SKIPPED = "refused", "skipped"


@dataclass(frozen=True, slots=True)
class Entry:
    """How one contestant fared. `timing` is there exactly when it is right; `ratio` is its time / ours; `remark` is
    what it did beforehand."""

    name: str
    setting: str
    status: str
    reason: str = ""
    timing: Timing | None = None
    ratio: float | None = None
    remark: str = ""

    @property
    def title(self) -> str:
        """The name with the setting."""
        return f"{self.name} [{self.setting}]" if self.setting else self.name


@dataclass(frozen=True, slots=True)
class Outcome:
    """A case that was run. `roofs` are the bytes per second that memory moved in each round, where the case's do not
    fit the caches."""

    label: str
    facts: dict[str, int]
    bytes_moved: int | None
    limit_seconds: float | None
    entries: tuple[Entry, ...]
    threads: int | None = None
    roofs: tuple[float, ...] = ()

    def best(self) -> tuple[Entry, ...]:
        """One entry for each contestant: its fastest right setting, or else the first that says why not."""
        chosen: dict[str, Entry] = {}
        for entry in self.entries:
            old = chosen.get(entry.name)
            if old is None or _key(entry) < _key(old):
                chosen[entry.name] = entry
        return tuple(chosen.values())


def _key(entry: Entry) -> tuple[int, float]:
    """Order of the settings of one contestant. A wrong setting comes first: it must not be hidden."""
    if entry.timing is None:
        return (0 if entry.status == WRONG else 2, 0.0)
    return (1, entry.timing.median)


def chosen_contestants(case: Case, peers: tuple[str, ...] | None) -> tuple[Contestant, ...]:
    """Ours and the peers that were asked for."""
    return tuple(c for c in case.contestants if peers is None or c.name == OURS or c.name in peers)


def prepare(contestant: Contestant, data: Any) -> Runner | Entry:
    """A runner, or the entry that says why there is none."""
    entry = Entry(contestant.name, contestant.setting, MISSING)
    try:
        return contestant.prepare(data)
    except Refused as reason:
        return replace(entry, status=REFUSED, reason=str(reason))
    except Missing as reason:
        return replace(entry, reason=str(reason))
    except Exception as error:  # a broken peer must not end the run of the others
        return _failed(entry, error)


def first_result(runner: Runner) -> Any:
    """Call once and find the outcome."""
    returned = runner.call()
    return returned if runner.result is None else runner.result()


def run_case(
    case: Case,
    rounds: int,
    peers: tuple[str, ...] | None = None,
    clock: Clock = time.perf_counter_ns,
    between: Call = pause,
    waited: Clock = waited_for_cores,
    memory: Memory | None = None,
) -> Outcome:
    """Make the data, then prepare, check and time all contestants, and among them the `memory` where data lie there."""
    data = case.data()
    bytes_moved = case.bytes_moved(data) if case.bytes_moved else None
    if memory is not None and (bytes_moved or 0) <= memory.beyond:
        memory = None
    complain = case.check(data)
    entries: dict[str, Entry] = {}
    runners: dict[str, Runner] = {}
    fewer: dict[str, int] = {}
    only: dict[str, Timing] = {}
    for contestant in chosen_contestants(case, peers):
        ready = _too_slow(contestant, case) or prepare(contestant, data)
        entry = ready if isinstance(ready, Entry) else Entry(contestant.name, contestant.setting, RIGHT)
        if isinstance(ready, Runner):
            entry = replace(entry, remark=ready.remark)
            watch = _Watch(clock)
            entry = _checked(entry, ready, complain, watch.first_result)
            if entry.status == RIGHT and case.pace:
                case.pace.note(contestant.title, case.size, watch.seconds)
                entry = _too_slow(contestant, case) or entry
            if entry.status == RIGHT:
                runners[contestant.title] = ready
                count = case.pace.rounds(watch.seconds, rounds) if case.pace else None
                if count is not None:
                    fewer[contestant.title] = count
                if count == 0:
                    only[contestant.title] = Timing((watch.seconds * 1e9,), 1)
        entries[contestant.title] = entry
    calls = {title: runner.call for title, runner in runners.items() if title not in only}
    if memory is not None:
        calls |= memory.calls
    timings = only | interleave(calls, rounds, clock, between, waited, fewer)
    for title, runner in runners.items():
        # Again, after all the runs: a race between threads may show only now and then.
        entry = _checked(entries[title], runner, complain, _last_result)
        entries[title] = replace(entry, timing=timings[title]) if entry.status == RIGHT else entry
    return Outcome(
        label=case.label,
        facts=dict(case.facts(data)) if case.facts else {},
        bytes_moved=bytes_moved,
        limit_seconds=case.limit_seconds,
        entries=with_ratios(tuple(entries.values())),
        threads=case.threads,
        roofs=memory.roofs({name: timings[name].samples for name in memory.calls}) if memory is not None else (),
    )


def with_ratios(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """The entries, each timed one with its ratio to ours."""
    ours = next((e.timing for e in entries if e.name == OURS), None)
    if ours is None:
        return entries
    return tuple(replace(entry, ratio=_ratio(entry.timing, ours)) if entry.timing else entry for entry in entries)


def _ratio(one: Timing, other: Timing) -> float:
    """The ratio of their times; a slow one that had fewer rounds cannot be paired."""
    if len(one.samples) != len(other.samples):
        return one.median / other.median
    return paired_ratio(one.samples, other.samples)


class _Watch:
    """Finds the first result and remembers how long the call took."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.seconds = clock, 0.0

    def first_result(self, runner: Runner) -> Any:
        start = self.clock()
        returned = runner.call()
        self.seconds = (self.clock() - start) * 1e-9
        return returned if runner.result is None else runner.result()


def _too_slow(contestant: Contestant, case: Case) -> Entry | None:
    """The entry of a contestant that would hold up everyone, by what the series has seen of it."""
    expected = case.pace.expected(contestant.title, case.size) if case.pace else 0.0
    if case.pace is None or expected <= case.pace.call_seconds:
        return None
    reason = f"a call takes about {expected:.0f} s, more than {case.pace.call_seconds:.0f} s"
    return Entry(contestant.name, contestant.setting, SKIPPED, reason)


def _last_result(runner: Runner) -> Any:
    """What the timed calls left behind; a runner that returns its outcome has to be called once more."""
    return runner.call() if runner.result is None else runner.result()


def _checked(entry: Entry, runner: Runner, complain: Callable[[Any], str], get: Callable[[Runner], Any]) -> Entry:
    """The entry, marked when the result is wrong or there is none."""
    try:
        complaint = complain(get(runner))
    except Missing as reason:
        return replace(entry, status=MISSING, reason=str(reason))
    except Exception as error:
        return _failed(entry, error)
    return replace(entry, status=WRONG, reason=complaint) if complaint else entry


def _failed(entry: Entry, error: Exception) -> Entry:
    say("".join(traceback.format_exception(error)).rstrip())
    lines = str(error).splitlines()
    return replace(entry, status=FAILED, reason=f"{type(error).__name__}: {lines[0] if lines else ''}")
