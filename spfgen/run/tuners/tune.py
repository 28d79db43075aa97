"""`spfgen tune`: measures schedules on the user's data, and walks from each best one to those near it.

A schedule takes the place of the best one when it is faster in calls that alternate with the best one's: on a machine
that others use too, times from different moments say little.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from spfgen.errors import CheckFailed, SpfgenError, UsageError
from spfgen.kernel import Kernel
from spfgen.kernel_spec import KernelSpec
from spfgen.lang.expressions import counted
from spfgen.pipeline import Generated
from spfgen.progress import task
from spfgen.run.calls.operands import operands
from spfgen.run.calls.requests import Job
from spfgen.run.job import check_job, seconds_text
from spfgen.run.tensor import Array
from spfgen.run.threads import threads_by_default
from spfgen.run.tuners.apart import FIRST_CALL_AT_LEAST, HOPELESS_FIRST, Begun, Overrun, apart
from spfgen.run.tuners.candidates import CandidateSchedule, LoopNames, loops_of, near
from spfgen.run.tuners.compare import compare, flat, stored
from spfgen.run.tuners.forecast import HOPELESS_FORECAST, forecast
from spfgen.run.tuners.interleaved import BETTER, Ready, measured, passed_over, ready
from spfgen.tuned import Tuned, drop, key_of, load, save

REST = 60
REST_AT_LEAST = 2.0
"""So many such calls, and seconds, may all others take."""


@dataclass(frozen=True)
class Trial:
    """A schedule and the seconds of its fastest call; `verdict` is why it was not taken, or what it gained."""

    schedule: str
    seconds: float | None
    verdict: str


@dataclass(frozen=True)
class Tuning:
    """What `spfgen tune` found: `tuned` is what is kept, `trials` all that was looked at in its order; `complete` says
    that everything near the best schedule was tried, `interrupted` that the user did not want to wait for that."""

    kernel: str
    tuned: Tuned
    trials: tuple[Trial, ...]
    complete: bool
    interrupted: bool = False

    def as_dict(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "schedule": self.tuned.schedule,
            "seconds": {"before": self.tuned.before, "after": self.tuned.after},
            "gain": self.tuned.gain,
            "data": dict(self.tuned.data),
            "threads": self.tuned.threads,
            "complete": self.complete,
            "interrupted": self.interrupted,
            "trials": [{"schedule": t.schedule, "seconds": t.seconds, "verdict": t.verdict} for t in self.trials],
        }

    def text(self) -> str:
        measured = sorted((t for t in self.trials if t.seconds is not None), key=lambda t: t.seconds or 0.0)
        refused = len(self.trials) - len(measured)
        rows = [(seconds_text(t.seconds or 0.0), t.schedule or "(no schedule)", t.verdict) for t in measured]
        width = max(len(r[0]) for r in rows)
        lines = [
            f"{self.kernel}, {counted(self.tuned.threads, 'thread')}: {counted(len(measured), 'schedule')} measured "
            f"(fastest calls), {refused} refused, not started or ended"
        ]
        lines += [f"  {seconds:>{width}}  {text}  {verdict}".rstrip() for seconds, text, verdict in rows]
        if self.interrupted:
            lines.append("  interrupted: this is the best so far")
        elif not self.complete:
            lines.append("  the time limit was reached, --seconds sets it: this is the best so far")
        if self.tuned.schedule:
            times = f"{seconds_text(self.tuned.before)} -> {seconds_text(self.tuned.after)}"
            lines.append(
                f"  fastest: schedule {{ {self.tuned.schedule} }}  ({times}, {self.tuned.gain:.2f} times faster)"
            )
            lines.append(
                f"  stored, because it took less than {BETTER:.0%} of the time without a schedule, twice, in "
                "alternating calls:"
            )
            lines.append("  used for kernels with these statements and layouts that have no schedule of their own")
            lines.append(
                f'  the same C anywhere: spfgen generate FILE.spf -k {self.kernel} --schedule "{self.tuned.schedule}"'
            )
        else:
            compilers_choice = "what the compiler chooses by itself"
            lines.append(
                f"  nothing is faster than {compilers_choice}: no schedule takes less than {BETTER:.0%} of its time"
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class _Made(Ready):
    """A compiled schedule with its operands in place."""

    schedule: CandidateSchedule
    loops: LoopNames
    generated: Generated
    steps: float | None
    """About how many steps its loops take, if that is known."""
    seconds: float = 0.0


def tune(spec: KernelSpec, job: Job, threads: int | None, seconds: float, say: Callable[[str], None]) -> Tuning:
    """Look for `seconds`, keep the best schedule. `say` is told of each one that is better than those before.

    Raises DataError, UsageError for what is wrong with the call or the data, and for a kernel with a schedule of its
    own, which would hide what is found.
    """
    end = time.monotonic() + seconds
    plain = spec.compile(threads, schedule="")
    if spec.kernel.is_scheduled:
        message = f"expected a kernel without a schedule, but `{spec.name}` has one, which comes before what is found"
        raise UsageError(message, None, ("leave the schedule out of the spec file, and write the winner there",))
    program = plain.generated.program
    check_job(program, job)
    given = operands(program, job)
    first = _made(plain, CandidateSchedule(), job, given)
    started, expected = apart(partial(_started, first))
    search = _Search(spec, threads, job, given, expected, first, replace(first, seconds=started), {plain.source})
    search.trials.append(Trial("", started, ""))
    complete, interrupted = False, False
    try:
        with task("tuning", seconds) as step:
            complete = search.run(end, lambda text: step(seconds - (end - time.monotonic()), text), say)
    except KeyboardInterrupt:  # what was found is kept
        interrupted = True
    best, whole, after = search.best, 1.0, started
    if best.schedule != first.schedule and not interrupted:
        whole, after = apart(lambda _: _confirmed(first, best))
    elif best.schedule != first.schedule:
        whole, after = search.gained, best.seconds
    if whole > BETTER:
        best, whole = first, 1.0
    schedule = _pruned(spec, threads, best)
    number = threads or threads_by_default()
    when = datetime.now().astimezone().isoformat(timespec="seconds")
    tuned = Tuned(schedule, after / whole, after, dict(job.data), number, when)
    save(key_of(plain.parsed, plain.layouts, number), tuned)
    return Tuning(spec.name, tuned, tuple(search.trials), complete, interrupted)


def _started(first: _Made, begun: Begun) -> tuple[float, dict[str, Array]]:
    """The seconds of a call without a schedule, and what it gives."""
    first.call()
    begun()
    tensors = first.bound.tensors
    expected = {t.name: flat(stored(tensors[t.name])).copy() for t in first.bound.program.tensors if t.is_output}
    return first.fastest(), expected


@dataclass
class _Search:
    """The walk from each best schedule to those near it. `gained` is the best one's time over that of no schedule, as
    far as the steps of the walk say it."""

    spec: KernelSpec
    threads: int | None
    job: Job
    given: Mapping[str, object]
    expected: Mapping[str, Array]
    first: _Made
    best: _Made
    sources: set[str]
    trials: list[Trial] = field(default_factory=list)
    tried: set[str] = field(default_factory=lambda: {""})
    gained: float = 1.0

    def run(self, end: float, step: Callable[[str], None], say: Callable[[str], None]) -> bool:
        """Whether all that is near the best schedule was tried before the `end`."""
        positions = _positions(self.first.generated)
        everything = tuple(dict.fromkeys((*self.first.bound.program.sizes.of_index, *positions)))
        pending = near(self.best.schedule, self.best.loops, everything)
        while (candidate := next(pending, None)) is not None:
            if candidate.text in self.tried:
                continue
            if time.monotonic() > end:
                return False
            self.tried.add(candidate.text)
            step(candidate.text)
            try:
                measured = self.measured(candidate, end)
            except CheckFailed:
                raise
            except SpfgenError as error:
                passed_over(f"schedule {{ {candidate.text} }}", error)
                self.trials.append(Trial(candidate.text, None, error.message))
                continue
            if measured is None:
                continue
            faster, ratio = measured
            better = ratio <= BETTER
            self.trials.append(
                Trial(candidate.text, faster.seconds, f"{1 / ratio:.2f} times the best so far" if better else "")
            )
            if better:
                self.best, self.gained = faster, self.gained * ratio
                pending = near(faster.schedule, faster.loops, everything)
                say(f"{1 / ratio:.2f} times faster: {candidate.text}")
        return True

    def measured(self, candidate: CandidateSchedule, end: float) -> tuple[_Made, float] | None:
        """A candidate and its time over that of the best one; None where that is the same program as another one, or it
        was not started, or ended."""
        kernel = self.spec.compile(self.threads, schedule=candidate.text)
        if kernel.source in self.sources:
            return None
        self.sources.add(kernel.source)
        tried = _made(kernel, candidate, self.job, self.given)
        steps, least = tried.steps, self.best.steps
        if steps is not None and least is not None and steps > HOPELESS_FORECAST * max(least, 1.0):
            about = f"not started: its loops take about {steps / max(least, 1.0):.0f} times the steps of the best one"
            self.trials.append(Trial(candidate.text, None, about))
            return None
        left = max(0.0, end - time.monotonic())
        longest = FIRST_CALL_AT_LEAST + HOPELESS_FIRST * self.best.seconds
        later = REST_AT_LEAST + REST * (longest + self.best.seconds)
        try:
            ratio, seconds = apart(
                partial(_beside, self.best, tried, self.expected), min(longest, left), min(later, left)
            )
        except Overrun:
            late = time.monotonic() >= end
            what = "when the time was up" if late else f"its first call took more than {seconds_text(longest)}"
            self.trials.append(Trial(candidate.text, None, f"ended: {what}"))
            return None
        return replace(tried, seconds=seconds), ratio


def _beside(best: _Made, tried: _Made, expected: Mapping[str, Array], begun: Begun) -> tuple[float, float]:
    """The time over that of the best one, and the seconds, of a schedule that changes nothing else."""
    tried.call()
    begun()
    _check(tried, expected)
    return _confirmed(best, tried)


def _confirmed(best: _Made, other: _Made) -> tuple[float, float]:
    """As `measured`; what seems to gain is measured twice, and the worse of both counts: of many schedules that take
    the same time one is lucky, and it would be another one the next time."""
    ratio, seconds = measured(best, other)
    if ratio > BETTER:
        return ratio, seconds
    again, later = measured(best, other)
    return max(ratio, again), min(seconds, later)


def forget(spec: KernelSpec, threads: int | None) -> Tuned | None:
    """Drop what was found for a kernel; returns it."""
    plain = spec.compile(schedule="")
    key = key_of(plain.parsed, plain.layouts, threads or threads_by_default())
    stored = load(key)
    drop(key)
    return stored


def _pruned(spec: KernelSpec, threads: int | None, best: _Made) -> str:
    """The schedule without the names of what is no loop, where that is the same kernel."""
    shorter = replace(best.schedule, order=best.loops.names)
    if not best.schedule.order or shorter == best.schedule:
        return best.schedule.text
    try:
        sources = {spec.compile(threads, schedule=s.text).source for s in (shorter, best.schedule)}
    except SpfgenError:
        return best.schedule.text
    return shorter.text if len(sources) == 1 else best.schedule.text


def _made(kernel: Kernel, schedule: CandidateSchedule, job: Job, given: Mapping[str, object]) -> _Made:
    started = ready(kernel.bind(sizes=job.sizes, **given))
    generated = kernel.generated
    return _Made(
        started.bound, started.before, schedule, loops_of(generated), generated, forecast(generated, started.bound)
    )


def _check(tried: _Made, expected: Mapping[str, Array]) -> None:
    """The schedule changes nothing but the time."""
    for name, values in expected.items():
        try:
            compare(name, flat(stored(tried.bound.tensors[name])), values)
        except CheckFailed as error:
            message = f"expected the same results from the schedule `{tried.schedule.text}`, but {error.message}"
            raise CheckFailed(message, None, error.notes) from None


def _positions(generated: Generated) -> list[str]:
    """All positions of operands with index arrays: each may drive."""
    tensors = generated.program.tensors
    return [f"{t.name}.{p}" for t in tensors if t.layout.indexes for p in t.layout.positions]
