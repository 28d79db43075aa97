"""How far long work has come: a line on a terminal, nothing elsewhere.

Whoever works says so with `task`; the line is there while the command line `shows` it, from the moment that the work
takes longer than a second. With rich (`pip install 'spfgen[progress]'`) it has a bar and the time.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

DELAY = 1.0
"""Seconds before there is anything to see."""
CLEAR = "\r\x1b[K"

Step = Callable[[float, str], None]
"""Told how much is done, and what comes next."""


class _Line:
    """One line at the end of a terminal. A timer begins it, so that work in one long step is seen, too."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.lock = threading.RLock()
        self.state: tuple[str, float, float | None, str] | None = None
        self.timer: threading.Timer | None = None
        self.bar: Any = None
        self.visible = False

    def begin(self, what: str, total: float | None) -> bool:
        """False while other work is shown: this is then a part of it."""
        with self.lock:
            if self.state is not None:
                return False
            self.state = (what, 0, total, "")
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
            if self.bar is not None:
                self.bar.stop()
                self.bar = None
            elif self.visible:
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
        if self.bar is None:
            self.bar = _rich_bar(self.stream, what, total)
        if self.bar is not None:
            self.bar.update(0, completed=done, label=label)
            return
        share = f" {done:.0f} of {total:.0f}" if total else ""
        text = f"{what}{share}{': ' if label else ''}{label}"
        self._write(f"{CLEAR}{text[: _width() - 1]}")

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # the terminal has gone
            self.stream.write(text)
            self.stream.flush()


def _width() -> int:
    import shutil

    return shutil.get_terminal_size().columns


def _rich_bar(stream: TextIO, what: str, total: float | None) -> Any:
    """A bar that runs, or None where rich is not installed."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.table import Column
    except ImportError:
        return None
    label = TextColumn("{task.fields[label]}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
    columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=24), TimeElapsedColumn(), label)
    console = Console(file=stream)
    bar = Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
    bar.add_task(what, total=total, label="")
    bar.start()
    return bar


_line: _Line | None = None


@contextmanager
def shows(wanted: Callable[[], bool]) -> Iterator[None]:
    """Within, tasks show their progress, if stderr is a terminal; `wanted` is asked when a task begins."""
    global _line, _wanted
    before = _line, _wanted
    _line, _wanted = (_Line(sys.stderr) if sys.stderr is not None and sys.stderr.isatty() else None), wanted
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
