"""The JSON record of a run: everything that the table was made of, every sample included."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments.harness.bandwidth import Bandwidth
from experiments.harness.options import Options
from experiments.harness.race import Entry, Outcome
from experiments.harness.table import share_of_roof


def record(
    options: Options, machine: Mapping[str, object], bandwidths: Mapping[int, Bandwidth], outcomes: Sequence[Outcome]
) -> dict[str, Any]:
    """The run as plain data; the bandwidths are those of each thread count of the cases."""
    return {
        "experiment": options.name,
        "quick": options.quick,
        "threads": options.threads,
        "rounds": options.rounds,
        "machine": dict(machine),
        "bandwidth_bytes_per_second": {str(threads): asdict(found) for threads, found in bandwidths.items()},
        "cases": [_case(outcome, options.threads, bandwidths) for outcome in outcomes],
    }


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Write the record; the folder is made when it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def _case(outcome: Outcome, threads: int, bandwidths: Mapping[int, Bandwidth]) -> dict[str, Any]:
    best = outcome.best()
    threads = outcome.threads or threads
    roof = bandwidths[threads].roof if threads in bandwidths else None
    return {
        "label": outcome.label,
        "threads": threads,
        "facts": outcome.facts,
        "bytes_moved": outcome.bytes_moved,
        "limit_seconds": outcome.limit_seconds,
        "contestants": [_entry(e, outcome, roof, e in best) for e in outcome.entries],
    }


def _entry(entry: Entry, outcome: Outcome, roof: float | None, best: bool) -> dict[str, Any]:
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
            "share_of_roofline": share_of_roof(entry, outcome, roof),
            "disturbed_samples": entry.timing.disturbed,
            "calls_per_sample": entry.timing.calls_per_sample,
            "samples_ns": samples,
        }
    return plain
