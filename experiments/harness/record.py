"""The JSON record of a run: everything that the table was made of, every sample included."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.harness.options import Options
from experiments.harness.race import Entry, Outcome
from experiments.harness.table import share_of_roof


def record(
    options: Options,
    machine: Mapping[str, object],
    outcomes: Sequence[Outcome],
    kept: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The run as plain data, behind the cases that are `kept` of one that was stopped."""
    return {
        "experiment": options.name,
        "quick": options.quick,
        "threads": options.threads,
        "rounds": options.rounds,
        "machine": dict(machine),
        "cases": [*kept, *(_case(outcome, options.threads) for outcome in outcomes)],
    }


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Write the record; the folder is made when it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def kept_cases(options: Options, machine: Mapping[str, object]) -> list[dict[str, Any]]:
    """The cases of the record that a run goes on with. Raises ValueError where that is of another kind of run."""
    if not options.resume or not options.json.exists():
        return []
    found = json.loads(options.json.read_text())
    wanted = {**record(options, machine, ()), "machine": machine.get("cpu")}
    before = {**found, "machine": found["machine"].get("cpu")}
    for what in ("experiment", "quick", "threads", "rounds", "machine"):
        if before[what] != wanted[what]:
            raise ValueError(f"expected a record of {what} {wanted[what]}, but {options.json} is of {before[what]}")
    cases: list[dict[str, Any]] = found["cases"]
    return cases


def _case(outcome: Outcome, threads: int) -> dict[str, Any]:
    best = outcome.best()
    return {
        "label": outcome.label,
        "threads": outcome.threads or threads,
        "facts": outcome.facts,
        "bytes_moved": outcome.bytes_moved,
        "limit_seconds": outcome.limit_seconds,
        "bandwidth_bytes_per_second": outcome.roofs,
        "contestants": [_entry(e, outcome, e in best) for e in outcome.entries],
    }


def _entry(entry: Entry, outcome: Outcome, best: bool) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "name": entry.name,
        "setting": entry.setting,
        "best_setting": best,
        "status": entry.status,
        "reason": entry.reason,
    }
    if entry.remark:
        plain["remark"] = entry.remark
    if entry.timing is not None:
        samples = entry.timing.samples
        plain |= {
            "median_ns": entry.timing.median,
            "min_ns": min(samples),
            "max_ns": max(samples),
            "time_over_ours": entry.ratio,
            "share_of_roofline": share_of_roof(entry, outcome),
            "disturbed_samples": entry.timing.disturbed,
            "calls_per_sample": entry.timing.calls_per_sample,
            "samples_ns": samples,
        }
    return plain
