"""Schedules that `spfgen tune` measured to be fastest, kept beside the compiled kernels.

A kernel without a schedule of its own gets the one that was found for its statements, layouts and number of threads.
`SPFGEN_TUNED=off` leaves them alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields

from spfgen import folder
from spfgen.errors import UsageError
from spfgen.lang.nodes import Kernel
from spfgen.lang.show import show_statement
from spfgen.layout.nodes import Layout

KIND = folder.MEASURED
OWN = "the schedule of the compiler, the fastest that was tried"


@dataclass(frozen=True)
class Tuned:
    """A schedule as clauses; the seconds of a call without it and with it; on what data, with how many threads
    and when (ISO 8601) that was measured."""

    schedule: str
    before: float
    after: float
    data: Mapping[str, str]
    threads: int
    when: str

    @property
    def gain(self) -> float:
        return self.before / self.after

    def __str__(self) -> str:
        data = ", ".join(f"{name}={source}" for name, source in self.data.items())
        text = f"`{self.schedule}`, {self.gain:.2f} times faster" if self.schedule else OWN
        return f"{text} on {data} with {self.threads} threads ({self.when})"


def key_of(kernel: Kernel, layouts: Mapping[str, Layout], threads: int) -> str:
    """What a schedule is kept under: what is computed on which layouts, whatever the kernel is called."""
    statements = [show_statement(s) for s in kernel.statements]
    uses = [f"{name}: {_content(layout)}" for name, layout in sorted(layouts.items())]
    shared = [f"{t.name} {t.shares!r}" for t in kernel.tensors if t.shares is not None and not t.assembled]
    return folder.hash_of(*statements, *uses, *shared, str(threads))


def _content(layout: Layout) -> str:
    """All that the layout says of memory, as text, which is the same in each process. Two layouts may have one name."""
    told = (f.name for f in fields(layout) if f.compare and f.name not in ("doc", "bindings"))
    return ", ".join(f"{name}={getattr(layout, name)!r}" for name in told)


def save(key: str, tuned: Tuned) -> None:
    """Raises UsageError where nothing is kept."""
    folder.save(KIND, key, json.dumps(asdict(tuned)).encode())
    if load(key) != tuned:
        hint = "put the schedule into the spec file, or set SPFGEN_CACHE_DIR to a folder of yours"
        raise UsageError("expected a cache folder for the schedule, but there is none", None, (hint,))


def load(key: str) -> Tuned | None:
    """What was found, if anything was."""
    data = folder.load(KIND, key)
    with suppress(ValueError, TypeError):
        return None if data is None else Tuned(**json.loads(data))
    return None


def drop(key: str) -> None:
    """Forget what was found."""
    folder.remove(KIND, key)


def switched_off() -> bool:
    """Raises UsageError when `SPFGEN_TUNED` is neither on nor off."""
    setting = os.environ.get("SPFGEN_TUNED", "").strip().lower()
    if setting not in ("", "on", "off"):
        raise UsageError(f"expected on or off in the environment variable SPFGEN_TUNED, but it is {setting!r}")
    return setting == "off"


def found_for(kernel: Kernel, layouts: Mapping[str, Layout], threads: int | None) -> Tuned | None:
    """What `spfgen tune` found for a kernel that has no schedule of its own; None when that is nothing."""
    if kernel.is_scheduled or not folder.holds(KIND) or switched_off():
        return None
    from spfgen.run.threads import threads_by_default

    stored = load(key_of(kernel, layouts, threads or threads_by_default()))
    return stored if stored is not None and stored.schedule else None
