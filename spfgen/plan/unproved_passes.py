"""Passes that were left out because what they made was not proved to be right: the plan of before is used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

STRICT = False
"""Whether a pass whose result is not proved is an error: so in our tests, where a proof that is missing is a fault."""


@dataclass(frozen=True)
class LeftOut:
    name: str
    """Of the pass."""
    why: str

    def __str__(self) -> str:
        return f"`{self.name}`, since what it made is not proved: {self.why}"


_RECORDS: ContextVar[tuple[dict[LeftOut, None], ...]] = ContextVar("_RECORDS", default=())


@contextmanager
def recorded() -> Iterator[dict[LeftOut, None]]:
    """All that is left out meanwhile in this thread, each once."""
    left_out: dict[LeftOut, None] = {}
    token = _RECORDS.set((*_RECORDS.get(), left_out))
    try:
        yield left_out
    finally:
        _RECORDS.reset(token)


def note(name: str, why: str) -> None:
    for record in _RECORDS.get():
        record[LeftOut(name, why)] = None
