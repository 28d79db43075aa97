"""`check` runs a program of a paper in the layouts that its test names; with `-m exhaustive` in all layouts, with
operands in random blocks on dask, and with sparse results, whose pattern is computed; with `-m fuzz` their plans are
carried out by the interpreter, and blocks by two processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from zlib import crc32

import pytest

from tests.fuzz.carried import by_the_interpreter
from tests.papers import support

EXHAUSTIVE = [pytest.param(mode, marks=pytest.mark.exhaustive) for mode in ("every layout", "sparse results", "growth")]
CLUSTER = [pytest.param("blocks on a cluster", marks=pytest.mark.fuzz)]
CARRIED = [pytest.param(f"{mode}interpreter", marks=pytest.mark.fuzz) for mode in ("", "sparse results, ")]


SELDOM = 83
"""In blocks runs always one of so many tests of the usual ones; the others are exhaustive."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if getattr(item, "callspec", None) is None or item.callspec.params.get("check") != "blocks":  # type: ignore[attr-defined]
            continue
        if item.get_closest_marker("exhaustive") is None and crc32(item.nodeid.encode()) % SELDOM:
            item.add_marker(pytest.mark.exhaustive)


@pytest.fixture(scope="session")
def two_processes() -> Iterator[None]:
    """What dask computes goes to a cluster of two processes."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        yield


@pytest.fixture(params=["", "blocks", *EXHAUSTIVE, *CLUSTER, *CARRIED])
def check(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    if request.param == "blocks on a cluster":
        request.getfixturevalue("two_processes")
        yield partial(support.check, mode="blocks")
        return
    mode, _, _ = request.param.partition("interpreter")
    if not request.param.endswith("interpreter"):
        yield partial(support.check, mode=mode)
        return
    support.compiled.cache_clear()
    with by_the_interpreter():
        yield partial(support.check, mode=mode.removesuffix(", "))
    support.compiled.cache_clear()
