"""Messages go to stderr, so that stdout holds the table only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def say(message: str) -> None:
    """One message."""
    print(message, file=sys.stderr, flush=True)  # noqa: T201


def show(text: str) -> None:
    """A piece of the report."""
    print(text, flush=True)  # noqa: T201


@contextmanager
def cases_done(total: int) -> Iterator[Callable[[int, str], None]]:
    """Says which case comes next: a bar on a terminal, lines elsewhere. Nothing is drawn while a case is timed."""
    bar = None
    if sys.stderr.isatty():
        try:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
            bar = Progress(*columns, console=Console(stderr=True), auto_refresh=False, transient=True)
        except ImportError:
            pass
    if bar is None:
        yield lambda done, label: say(f"[{done + 1}/{total}] {label}")
        return
    with bar:
        bar.add_task("", total=total)
        yield lambda done, label: bar.update(bar.task_ids[0], completed=done, description=label, refresh=True)
