"""What is compiled by another process while numpy serves: `SPFGEN_COMPILE` says whether.

`background`, which is the default: from some work on that numpy did, another process compiles what does it faster. It
leaves it in the cache, and a mark that says so, and this process goes on with numpy until then. `eager`: where a kernel
pays, it is compiled at once. `never`: kernels are used that were compiled before, as by `spfgen warm`.

It is about operations on arrays, packing and conversion. What is compiled by name (`compile`, `evaluate`) is compiled
when it is asked for.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import select
import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from spfgen import folder, tuning
from spfgen.errors import UsageError

VARIABLE = "SPFGEN_COMPILE"
MODES = ("background", "eager", "never")
WARM = "warm"
"""Of `spfgen warm`: kernels for operands of any size, with marks for others."""
MARKS = "ready"
"""The kind of the small files that say that something is compiled."""

Task = tuple[str, Any]
"""What to compile: the name of a function here, and its argument."""


def mode() -> str:
    """Raises UsageError when the environment says something else."""
    return _mode(folder.variable(VARIABLE), folder.cache_setting())


@lru_cache(maxsize=32)
def _mode(text: str, cache: str) -> str:
    setting = text.strip().lower() or MODES[0]
    if setting not in (*MODES, WARM):
        known = ", ".join(MODES)
        raise UsageError(f"expected one of {known} in the environment variable {VARIABLE}, but it is {setting!r}")
    if setting == "background" and (cache == "off" or not sys.executable):
        return "eager"  # there is no way from one process to another
    return setting


@dataclass(slots=True)
class _State:
    """Of one thing that may be compiled: whether it is to be used, how much work it could have done before."""

    is_ready: bool = False
    is_refused: bool = False
    is_looked_for: bool = False
    mark: str = ""
    worked: int = 0


_STATES: dict[Hashable, _State] = {}


def is_ready(
    name: Hashable,
    mark: Callable[[], str],
    task: Callable[[], Task],
    work: int,
    least: int = 0,
    at_once: int = tuning.LATER_AT_ONCE,
) -> bool:
    """Whether to use what a task makes; else numpy does this much work. Less than `least` is not worth a compilation,
    and with `at_once` nothing is waited for.

    `name` is for this process, `mark` for all. Raises UsageError.
    """
    state = _STATES.get(name)
    if state is None:
        if len(_STATES) >= tuning.LATER_KNOWN:
            _STATES.clear()
        state = _STATES[name] = _State()
    if state.is_ready:
        return True
    setting = mode()
    if setting == "eager":
        return work >= min(least, at_once)
    if setting == WARM:
        state.is_ready = True
        marked(mark())
        return True
    if not state.is_looked_for:
        state.is_looked_for, state.mark = True, mark()
        state.is_ready = folder.load(MARKS, state.mark) is not None
    if state.is_ready or setting == "never" or state.is_refused:
        return state.is_ready
    if work >= at_once:
        return True
    state.worked += work + tuning.LATER_START
    if state.worked >= tuning.LATER_WORK:
        answer = _worker().asked(state.mark, task)
        state.is_ready, state.is_refused = answer is True, answer is False
    return state.is_ready


def numpy_serves(work: int) -> bool:
    """Whether numpy does this much work where nobody can know before whether there is a kernel for it."""
    setting = mode()
    return setting == "never" or (setting == "background" and work < tuning.LATER_AT_ONCE)


def marked(mark: str) -> None:
    """It is compiled: other processes may use it."""
    folder.save(MARKS, mark, b"")


class _Worker:
    """A process that compiles one thing after the other; `done` has the marks with whether it could."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.done: dict[str, bool | None] = {}
        self.process: Any = None
        self.heard = b""

    def asked(self, mark: str, task: Callable[[], Task]) -> bool | None:
        """Whether it is made; None as long as it is not known."""
        if mark not in self.done:
            self.done[mark] = None
            with contextlib.suppress(OSError, pickle.PicklingError):
                process = self.started()
                process.stdin.write(pickle.dumps((mark, *task())))
                process.stdin.flush()
        elif self.done[mark] is None:
            self.listen()
        return self.done[mark]

    def started(self) -> Any:
        if self.process is None:
            from spfgen.run import cache
            from spfgen.run.compile import companion

            code = f"import sys; sys.path[:] = {sys.path!r}; from spfgen.run.worker import work; work()"
            self.process = companion(code, {"SPFGEN_CACHE_DIR": str(cache.path()), VARIABLE: "eager"})
            atexit.register(self.end)
        return self.process

    def listen(self) -> None:
        """Take what it said by now: a line for each task, `+` or `-` and the mark."""
        if self.process is None:
            return
        descriptor = self.process.stdout.fileno()
        while select.select([descriptor], [], [], 0)[0]:
            data = os.read(descriptor, 1 << 16)
            if not data:  # it has ended: what it did not do is not done
                self.done = {m: d is True for m, d in self.done.items()}
                return
            *lines, self.heard = (self.heard + data).split(b"\n")
            self.done |= {line[1:].decode(): line[:1] == b"+" for line in lines}

    def end(self) -> None:
        """With what it is compiling. A child of this process has no part in it."""
        if self.process is None or self.owner != os.getpid():
            return
        from spfgen.run.compile import end_companion

        end_companion(self.process)


_WORKERS: list[_Worker] = []


def _worker() -> _Worker:
    if not _WORKERS or _WORKERS[-1].owner != os.getpid():
        _WORKERS[:] = [_Worker()]
    return _WORKERS[-1]


def wait(seconds: float = 60.0) -> bool:
    """Until all that was asked for is made; False when it takes longer."""
    worker = _worker()
    for _ in range(int(seconds / 0.02)):
        worker.listen()
        if None not in worker.done.values():
            return True
        if worker.process is not None:
            select.select([worker.process.stdout.fileno()], [], [], 0.02)
    return False
