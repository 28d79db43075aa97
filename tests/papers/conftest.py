"""`check` runs a program of a paper in the layouts that its test names; with `-m exhaustive` in all layouts, and with
sparse results, whose pattern is computed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.papers import support

EXHAUSTIVE = [pytest.param(mode, marks=pytest.mark.exhaustive) for mode in ("every layout", "sparse results")]


@pytest.fixture(params=["", *EXHAUSTIVE])
def check(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return partial(support.check, mode=request.param)
