"""One run of one experiment: bandwidth, cases, table, record."""

from __future__ import annotations

import importlib
import os
from functools import partial

from experiments.harness.bandwidth import Bandwidth, better, measure
from experiments.harness.case import OURS, Case, Missing
from experiments.harness.log import say, show
from experiments.harness.machine import describe, last_level_cache
from experiments.harness.options import Options
from experiments.harness.race import RIGHT, WRONG, Outcome, run_case
from experiments.harness.record import record, write
from experiments.harness.table import case_table, run_heading, summary
from experiments.harness.timing import pause


def run(options: Options) -> int:
    """Run, print, record; the exit code is 1 when a result was wrong or ours did not take part."""
    experiment = importlib.import_module(f"experiments.{options.name}")
    cases = [c for c in experiment.cases(options.quick, options.threads) if options.label_part in c.label]
    say_unknown_peers(cases, options.peers)
    machine = describe()
    show(run_heading(options.name, options.threads, options.rounds, machine))
    needed = any(case.bytes_moved for case in cases)
    bandwidth = bandwidth_or_none(options.threads) if needed else None
    between = partial(pause, options.threads)
    outcomes = []
    for number, case in enumerate(cases, start=1):
        say(f"[{number}/{len(cases)}] {case.label}")
        outcomes.append(run_case(case, options.rounds, options.peers, between=between))
        if bandwidth:
            # Again after each case: the roof is the best that the machine did during the run.
            bandwidth = better(bandwidth, measure(options.threads))
    if bandwidth:
        show(f"bandwidth: read {bandwidth.read / 1e9:.1f} GB/s, triad {bandwidth.triad / 1e9:.1f} GB/s")
    roof = bandwidth.roof if bandwidth else None
    for outcome in outcomes:
        show("\n" + case_table(outcome, roof, last_level_cache()))
    show("\n" + summary(outcomes))
    machine["load_average_at_end"] = os.getloadavg()
    write(options.json, record(options, machine, bandwidth, outcomes))
    say(f"recorded in {options.json}")
    return 0 if outcomes and all(is_sound(outcome) for outcome in outcomes) else 1


def is_sound(outcome: Outcome) -> bool:
    """Nobody was wrong, and ours took part."""
    return all(e.status != WRONG and (e.name != OURS or e.status == RIGHT) for e in outcome.entries)


def bandwidth_or_none(threads: int) -> Bandwidth | None:
    """The bandwidth, or nothing where there is no C compiler."""
    try:
        return measure(threads)
    except Missing as reason:
        say(f"no bandwidth: {reason}")
        return None


def say_unknown_peers(cases: list[Case], peers: tuple[str, ...] | None) -> None:
    """A misspelt peer would otherwise just be absent."""
    known = {contestant.name for case in cases for contestant in case.contestants}
    for name in peers or ():
        if name not in known:
            say(f"no case has a peer {name!r}; there are: {', '.join(sorted(known))}")
