"""Results in their layout: how the entries that a kernel computes become the arrays of a layout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class Assembled(Protocol):
    """How the arrays of a result are made of its entries."""

    def lines(self) -> Iterator[tuple[str, str]]:
        """What is done, in words, each with the reason."""
