"""How far long work has come: a line with a bar on a terminal.

Nothing is shown in pipes, or with `CI`, `NO_COLOR` or `TERM=dumb` in the environment.

Whoever works says so with `task`; the line is there while the command line `shows` it, from the moment that the work
takes longer than a second.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

DELAY = 1.0
"""Seconds before there is anything to see."""
CLEAR = "\r\x1b[K"
CELLS = 24
"""The length of a bar."""

Step = Callable[[float, str], None]
"""Told how much is done, and what comes next."""


class _Line:
    """One line at the end of a terminal. A timer begins it, so that work in one long step is seen, too."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.lock = threading.RLock()
        self.state: tuple[str, float, float | None, str] | None = None
        self.timer: threading.Timer | None = None
        self.began = 0.0
        self.visible = False

    def begin(self, what: str, total: float | None) -> bool:
        """False while other work is shown: this is then a part of it."""
        with self.lock:
            if self.state is not None:
                return False
            self.state, self.began = (what, 0, total, ""), time.monotonic()
            self.timer = threading.Timer(DELAY, self._appear)
            self.timer.daemon = True
            self.timer.start()
            return True

    def step(self, done: float, label: str) -> None:
        with self.lock:
            if self.state is not None:
                what, _, total, _ = self.state
                self.state = (what, done, total, label)
                if self.timer is None:
                    self._draw()

    def end(self) -> None:
        with self.lock:
            if self.timer is not None:
                self.timer.cancel()
            self.hide()
            self.state = self.timer = None

    def hide(self) -> None:
        """Make room for a message; the next step brings the line back."""
        with self.lock:
            if self.visible:
                self._write(CLEAR)
            self.visible = False

    def _appear(self) -> None:
        with self.lock:
            if self.state is not None:
                self.timer = None
                self._draw()

    def _draw(self) -> None:
        assert self.state is not None
        what, done, total, label = self.state
        self.visible = True
        seconds = f" {time.monotonic() - self.began:.0f} s"
        text = f"{what}{_bar(done, total) if total else ''}{seconds}{': ' if label else ''}{label}"
        self._write(f"{CLEAR}{text[: _width() - 1]}")

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # the terminal has gone
            self.stream.write(text)
            self.stream.flush()


def _width() -> int:
    import shutil

    return shutil.get_terminal_size().columns


def _bar(done: float, total: float) -> str:
    """`[#######.......] 12 of 24`"""
    filled = round(CELLS * min(max(done / total, 0.0), 1.0))
    return f" [{'#' * filled}{'.' * (CELLS - filled)}] {done:.0f} of {total:.0f}"


def _terminal() -> TextIO | None:
    """Where the line is shown: a terminal at which a person sits, as far as can be told."""
    stream, quiet = sys.stderr, any(os.environ.get(name) for name in ("NO_COLOR", "CI"))
    if quiet or os.environ.get("TERM") == "dumb" or stream is None or not stream.isatty():
        return None
    return stream


_line: _Line | None = None


@contextmanager
def shows(wanted: Callable[[], bool]) -> Iterator[None]:
    """Within, tasks show their progress, if stderr is a terminal; `wanted` is asked when a task begins."""
    global _line, _wanted
    before = _line, _wanted
    terminal = _terminal()
    _line, _wanted = (None if terminal is None else _Line(terminal)), wanted
    try:
        yield
    finally:
        if _line is not None:
            _line.end()
        _line, _wanted = before


def _always() -> bool:
    return True


_wanted: Callable[[], bool] = _always


@contextmanager
def task(what: str, total: float | None = None) -> Iterator[Step]:
    """Work that may take long; `total` is what it comes to in steps, if that is known."""
    line = _line
    if line is None or not _wanted() or not line.begin(what, total):
        yield _unseen
        return
    try:
        yield line.step
    finally:
        line.end()


def _unseen(done: float, label: str) -> None:
    pass


def hide() -> None:
    """Before something else is written to the terminal."""
    if _line is not None:
        _line.hide()
