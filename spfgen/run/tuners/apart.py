"""Work in a child process, which can be ended: a call of C cannot.

The child is forked by a thread of its own. GNU OpenMP keeps its threads by the one that started them, and waits for
ever for those that a fork has left behind; a thread that has started none has none to wait for. What the child does to
arrays stays there. Where processes cannot be forked, the work is done here, and nothing ends it.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from spfgen.run.threads import Forks

HOPELESS_FIRST = 4
FIRST_CALL_AT_LEAST = 0.5
"""What has not come back from its first call after so many times the best one's seconds, and these, is ended."""
Result = TypeVar("Result")
Begun = Callable[[], None]
"""What the work calls when its first call has come back."""


class Overrun(Exception):
    """The work was ended: it took too long."""


def apart(work: Callable[[Begun], Result], first: float = float("inf"), later: float = float("inf")) -> Result:
    """What the work gives, or raises, in a child process. Its first call may take `first` seconds, all that comes after
    it `rest`. Raises Overrun; the child is ended when this is left in any way."""
    if not hasattr(os, "fork"):
        return work(lambda: None)
    reading, writing = os.pipe()
    pids: list[int] = []
    forking = threading.Thread(target=lambda: pids.append(_forked(work, reading, writing)))
    forking.start()
    forking.join()
    os.close(writing)
    (pid,) = pids
    try:
        return _answer(reading, first, later)  # type: ignore[no-any-return]
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(reading)


def _forked(work: Callable[[Begun], Any], reading: int, writing: int) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads hold nothing that the child needs
        pid = os.fork()
    if pid:
        return pid
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
        Forks.child_of_parallel = False
        os.close(reading)
        try:
            told = pickle.dumps((True, work(lambda: _tell(writing, b"."))))
        except Exception as error:
            told = _as_bytes(error)
        _tell(writing, b"!" + told)
    finally:
        os._exit(0)


def _tell(writing: int, data: bytes) -> None:
    while data:
        data = data[os.write(writing, data) :]


def _as_bytes(error: Exception) -> bytes:
    with suppress(Exception):
        data = pickle.dumps((False, error))
        pickle.loads(data)
        return data
    return pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))


def _answer(reading: int, first: float, later: float) -> Any:
    data = b""
    end = time.monotonic() + first
    while True:
        left = end - time.monotonic()
        if left <= 0 or not select.select([reading], [], [], min(left, 3600.0))[0]:
            if left < 3600:
                raise Overrun
            continue
        part = os.read(reading, 1 << 20)
        if not data and part.startswith(b"."):
            end, part = time.monotonic() + later, part[1:]
            if not part:
                continue
        data += part
        if data and not data.startswith(b"!"):
            raise RuntimeError("the child says what it should not")
        if not part:
            break
    if not data:
        raise RuntimeError("the process of a call ended without an answer")
    is_result, result = pickle.loads(data[1:])
    if is_result:
        return result
    raise result
