"""`check` runs a program of a paper in the layouts that its test names; with `-m exhaustive` in all layouts, and with
sparse results, whose pattern is computed; with `-m fuzz` their plans are carried out by the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tests.fuzz.carried import by_the_interpreter
from tests.papers import support

EXHAUSTIVE = [
    pytest.param(mode, marks=pytest.mark.exhaustive) for mode in ("every layout", "sparse results", "growth", "blocks")
]
CARRIED = [pytest.param(f"{mode}interpreter", marks=pytest.mark.fuzz) for mode in ("", "sparse results, ")]


@pytest.fixture(params=["", *EXHAUSTIVE, *CARRIED])
def check(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    mode, _, _ = request.param.partition("interpreter")
    if not request.param.endswith("interpreter"):
        yield partial(support.check, mode=mode)
        return
    support.compiled.cache_clear()
    with by_the_interpreter():
        yield partial(support.check, mode=mode.removesuffix(", "))
    support.compiled.cache_clear()
