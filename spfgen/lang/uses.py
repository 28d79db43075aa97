"""What steps speak of: the tensors that they read and write, wherever in loops and subscripts that is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from spfgen.ir import walk
from spfgen.lang.nodes import Access, Statement


def accesses_in(steps: Sequence[Any]) -> Iterator[Access]:
    """All accesses, targets among them."""
    return (n for s in steps for n in walk(s) if isinstance(n, Access))


def statements_in(steps: Sequence[Any]) -> Iterator[Statement]:
    """All equations."""
    return (n for s in steps for n in walk(s) if isinstance(n, Statement))
