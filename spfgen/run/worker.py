"""The other process, which compiles what later.py asks for."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

from spfgen import tuning
from spfgen.run.later import marked


def work(source: BinaryIO | None = None) -> None:
    """Carry out what comes, until nothing comes any more. What fails is left to the one that asked, who words it."""
    import signal

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that compilers and their files go, too
    with contextlib.suppress(OSError):
        os.nice(tuning.LATER_NICE)
    stream = source or sys.stdin.buffer
    while True:
        try:
            mark, name, argument = pickle.load(stream)
        except EOFError:
            return
        done = b"-"
        with contextlib.suppress(Exception):
            _TASKS[name](argument)
            marked(mark)
            done = b"+"
        sys.stdout.buffer.write(done + mark.encode() + b"\n")
        sys.stdout.buffer.flush()


def _shared_functions(_: object) -> None:
    from spfgen.run.calls.functions import shared

    shared("table_look")


def _statement(sample: Any) -> None:
    from spfgen.run.calls.samples import tried

    tried(sample)


def _conversion(argument: Any) -> None:
    from spfgen.run.conversion import compiled

    compiled(*argument)


_TASKS: dict[str, Callable[[Any], None]] = {
    "shared functions": _shared_functions,
    "statement": _statement,
    "conversion": _conversion,
}
