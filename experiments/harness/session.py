"""One run of one experiment: cases, table, record."""

from __future__ import annotations

import importlib
import os
from functools import partial

from experiments.harness.bandwidth import memory_of
from experiments.harness.case import OURS, Case
from experiments.harness.log import cases_done, say, show
from experiments.harness.machine import describe
from experiments.harness.options import Options
from experiments.harness.race import MISSING, RIGHT, WRONG, Outcome, run_case
from experiments.harness.record import kept_cases, record, write
from experiments.harness.table import case_table, run_heading, summary
from experiments.harness.timing import pause


def run(options: Options) -> int:
    """Run, print, record; the exit code is 1 when a result was wrong or ours did not take part.

    An experiment may define `closing(outcomes)`, the text that ends its report.
    """
    experiment = importlib.import_module(f"experiments.{options.name}")
    everything = list(experiment.cases(options.quick, options.threads))
    cases = [c for c in everything if options.label_part in c.label]
    if not cases:
        say(
            f"no case has {options.label_part!r} in its label; there are:\n  "
            + "\n  ".join(c.label for c in everything)
        )
        return 1
    say_unknown_peers(cases, options.peers)
    machine = describe()
    try:
        kept = kept_cases(options, machine)
    except ValueError as error:
        say(f"cannot go on: {error}")
        return 1
    known = {case["label"] for case in kept}
    cases = [c for c in cases if c.label not in known]
    show(run_heading(options.name, options.threads, options.rounds, machine))
    outcomes: list[Outcome] = []
    with cases_done(len(cases)) as step:
        for done, case in enumerate(cases):
            step(done, case.label)
            threads = case.threads or options.threads
            memory = memory_of(threads) if case.bytes_moved else None
            between = partial(pause, threads)
            outcomes.append(run_case(case, options.rounds, options.peers, between=between, memory=memory))
            machine["load_average_at_end"] = os.getloadavg()
            write(options.json, record(options, machine, outcomes, kept))  # a run of hours may be stopped
    for outcome in outcomes:
        show("\n" + case_table(outcome))
    show("\n" + summary(outcomes))
    for reason, names in missing(outcomes).items():
        show(f"took no part: {', '.join(names)} ({reason})")
    if outcomes and hasattr(experiment, "closing"):
        show("\n" + experiment.closing(outcomes))
    say(f"recorded in {options.json}")
    return 0 if (outcomes or kept) and all(is_sound(outcome) for outcome in outcomes) else 1


def is_sound(outcome: Outcome) -> bool:
    """Nobody was wrong, and ours took part."""
    return all(e.status != WRONG and (e.name != OURS or e.status == RIGHT) for e in outcome.entries)


def missing(outcomes: list[Outcome]) -> dict[str, list[str]]:
    """Who is not installed, by the reason and the remedy."""
    entries = [e for outcome in outcomes for e in outcome.best()]
    present = {e.name for e in entries if e.status != MISSING}
    found: dict[str, dict[str, None]] = {}
    for entry in entries:
        if entry.name not in present:
            found.setdefault(entry.reason, {})[entry.name] = None
    return {reason: list(names) for reason, names in found.items()}


def say_unknown_peers(cases: list[Case], peers: tuple[str, ...] | None) -> None:
    """A misspelt peer would otherwise just be absent."""
    known = {contestant.name for case in cases for contestant in case.contestants}
    for name in peers or ():
        if name not in known:
            say(f"no case has a peer {name!r}; there are: {', '.join(sorted(known))}")
