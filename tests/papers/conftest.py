"""`check` runs a program of a paper in the layouts that its test names, and with `-m exhaustive` in all layouts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.papers import support


@pytest.fixture(params=["", pytest.param("every layout", marks=pytest.mark.exhaustive)])
def check(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return partial(support.check, every=bool(request.param))
