"""Messages go to stderr, so that stdout holds the table only."""

from __future__ import annotations

import sys


def say(message: str) -> None:
    """One message."""
    print(message, file=sys.stderr, flush=True)  # noqa: T201


def show(text: str) -> None:
    """A piece of the report."""
    print(text, flush=True)  # noqa: T201
