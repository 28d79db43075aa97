"""The plain text that a run prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median

from experiments.harness.case import OURS
from experiments.harness.race import WRONG, Entry, Outcome
from experiments.harness.timing import Timing, geometric_mean

NAME_WIDTH = 26
CELL_WIDTH = 14

Column = tuple[str, Callable[[Entry, Timing], str]]


def case_table(outcome: Outcome) -> str:
    """One case: a heading, then a line for each contestant at its best setting."""
    facts = [f"{name} {value:,}" for name, value in outcome.facts.items()]
    if outcome.bytes_moved is not None:
        facts.append(f"moves {outcome.bytes_moved / 1e6:,.2f} MB")
    if outcome.roofs:
        facts.append(f"memory {median(outcome.roofs) / 1e9:.1f} GB/s")
    if outcome.limit_seconds is not None:
        facts.append(f"limit {outcome.limit_seconds * 1e6:,.0f} us")
    heading = outcome.label + (f"  ({', '.join(facts)})" if facts else "")
    columns = _columns(outcome)
    return "\n".join([heading, _line("", [title for title, _ in columns]), *(_row(e, columns) for e in outcome.best())])


def share_of_roof(entry: Entry, outcome: Outcome) -> float | None:
    """The declared bytes per second of this contestant, as a share of the bandwidth in the same round: the middle one.
    What memory can do changes from minute to minute where others share the machine."""
    if entry.timing is None or outcome.bytes_moved is None or not outcome.roofs:
        return None
    samples = entry.timing.samples
    moved = 1e9 * outcome.bytes_moved
    if len(samples) != len(outcome.roofs):
        return moved / entry.timing.median / median(outcome.roofs)
    return median(moved / taken / roof for taken, roof in zip(samples, outcome.roofs, strict=True))


def summary(outcomes: Sequence[Outcome]) -> str:
    """For each peer the geometric mean of its ratios; then whether to trust it; then every wrong result."""
    ratios: dict[str, list[float]] = {}
    wrong = []
    for outcome in outcomes:
        for entry in outcome.best():
            # Where there is a limit the others are not peers but further steps: a mean makes no sense.
            if entry.ratio is not None and entry.name != OURS and outcome.limit_seconds is None:
                ratios.setdefault(entry.name, []).append(entry.ratio)
            if entry.status == WRONG:
                wrong.append(f"{WRONG} {outcome.label}: {entry.title}: {entry.reason}")
    lines = ["time/ours over all cases; above 1 means that ours is faster"] if ratios else []
    for name, values in ratios.items():
        mean, least, most = geometric_mean(values), min(values), max(values)
        wins = sum(value > 1 for value in values)
        lines.append(
            f"  {name:<{NAME_WIDTH}}geometric mean {mean:.3f}, least {least:.3f}, most {most:.3f}, "
            f"ours faster in {wins} of {len(values)}"
        )
    timings = [entry.timing for outcome in outcomes for entry in outcome.entries if entry.timing]
    disturbed, taken = sum(t.disturbed for t in timings), sum(len(t.samples) for t in timings)
    if disturbed:
        lines.append(f"DISTURBED: {disturbed} of {taken} samples: other processes had cores; try fewer threads")
    return "\n".join([*lines, *wrong])


def run_heading(name: str, threads: int, rounds: int, machine: Mapping[str, object]) -> str:
    """What is run, and on what."""
    return f"{name}: {threads} threads, {rounds} rounds, {machine['cpu']}, {machine['cores']} cores"


def _columns(outcome: Outcome) -> list[Column]:
    """The columns that mean something for this case."""
    columns: list[Column] = [
        ("median us", lambda _, timing: _microseconds(timing.median)),
        ("min us", lambda _, timing: _microseconds(min(timing.samples))),
        ("max us", lambda _, timing: _microseconds(max(timing.samples))),
        ("time/ours", lambda entry, _: "-" if entry.ratio is None else f"{entry.ratio:.3f}"),
    ]
    if outcome.roofs:
        columns.append(("roofline", lambda entry, _: f"{share_of_roof(entry, outcome) or 0:.0%}"))
    limit = outcome.limit_seconds
    if limit is not None:
        columns.append(("of limit", partial(_share_of_limit, limit)))
    return columns


def _share_of_limit(limit: float, entry: Entry, timing: Timing) -> str:
    return f"{timing.median * 1e-9 / limit:.0%}" if entry.name == OURS else ""


def _row(entry: Entry, columns: Sequence[Column]) -> str:
    timing = entry.timing
    if timing is None:
        return f"  {entry.title:<{NAME_WIDTH}}{entry.status} ({entry.reason})"
    line = _line(entry.title, [cell(entry, timing) for _, cell in columns])
    line += f"   {entry.remark}" if entry.remark else ""
    return f"{line}   {timing.disturbed} of {len(timing.samples)} disturbed" if timing.disturbed else line


def _microseconds(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e3:,.2f}"


def _line(name: str, cells: Sequence[str]) -> str:
    return f"  {name:<{NAME_WIDTH}}{''.join(f'{cell:>{CELL_WIDTH}}' for cell in cells)}".rstrip()
