"""Z3's verdicts on disk: one small file each, named by a hash of all that determines the verdict (see folder.py)."""

from __future__ import annotations

import json
from dataclasses import dataclass

from spfgen import folder

FORMAT = "1"
"""Changes when entries mean something else."""
_VERDICTS = ("unsat", "sat", "unknown")

Values = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Verdict:
    """What Z3 said of a script, in how many seconds; for `sat` the values of names and of calls."""

    word: str
    model: Values = ()
    values: Values = ()
    seconds: float = 0.0


def key(*parts: str) -> str:
    """The name of the entry for a script, a budget, a version, ..."""
    return folder.hash_of(FORMAT, *parts)


def load(key: str) -> Verdict | None:
    """The verdict that was stored under the key, if there is an intact one."""
    data = folder.load("answers", key)
    if data is None:
        return None
    try:
        word, model, values, seconds = json.loads(data)
        verdict = Verdict(word, _pairs(model), _pairs(values), float(seconds))
    except (ValueError, TypeError):
        return None
    return verdict if word in _VERDICTS else None


def save(key: str, verdict: Verdict) -> None:
    """Store a verdict where that is possible."""
    data = [verdict.word, verdict.model, verdict.values, verdict.seconds]
    folder.save("answers", key, json.dumps(data).encode())


def _pairs(listed: list[list[object]]) -> Values:
    return tuple((str(name), int(str(value))) for name, value in listed)
