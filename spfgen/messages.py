"""What the command line says on stderr: through the logger `spfgen` of the standard module, in one format.

Errors always; what was done, and warnings, unless `-q`; how it was done with `-v`. Notes of errors speak of options
here, where they speak of arguments of Python elsewhere.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from spfgen import progress

LOGGER = logging.getLogger("spfgen")
TITLES = {logging.WARNING: "warning", logging.DEBUG: "debug"}


class _Stderr(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        message(record.getMessage(), TITLES.get(record.levelno, ""))


@contextmanager
def logged() -> Iterator[None]:
    """Within, what is logged goes to stderr."""
    handler, level, propagate = _Stderr(), LOGGER.level, LOGGER.propagate
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)
        LOGGER.propagate = propagate


def message(text: str, title: str = "") -> None:
    """A line on stderr, in colour on a terminal."""
    progress.hide()
    prefix = f"spfgen: {title}: " if title else "spfgen: "
    if sys.stderr is not None and sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        colour = {"warning": "yellow", "debug": "blue"}.get(title, "red" if title else "green")
        prefix = click.style(prefix, fg=colour, bold=True)
    click.echo(f"{prefix}{text}", err=True)


def _named_arrays(match: re.Match[str]) -> str:
    names = match[1].replace("=...", "")
    return f"--data NAME=FILE.npz, which numpy.savez wrote with {names} (and shape)"


def _each_size(match: re.Match[str]) -> str:
    return re.sub(r"'(\w+)': \.\.\.,?", r"--size \1=N", match[1])


_OPTIONS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"spfgen\.tensor\(layout, shape=\.\.\., ([^)]*)\)", _named_arrays),
    (r"\bforce=True", "--force"),
    (r"\bpass sizes=\{'(\w+)': \.\.\.\}", r"put `\1` into the archive"),
    (r"\bshape=\.\.\. or sizes=\{'(\w+)': \.\.\.\}", r"--shape, or put `\1` into the archive"),
    (r"\bsizes=\{('\w+': [^}]*)\}", _each_size),
    (r"\bsizes=\{\.\.\.\}", "--size NAME=N"),
    (r"\bshape=\.\.\.", "--shape NAME=NxM"),
    (r"\bis read by spfgen\.parse\b", "is declared in a spec file"),
)


def in_options(text: str) -> str:
    """The text of an error with options of the command line in place of arguments of Python."""
    for pattern, option in _OPTIONS:
        text = re.sub(pattern, option, text)
    return text
