"""Shared by all tests: `--update-golden`, a cache folder of the run's own, threads that do not spin."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest

from spfgen.run.compile import LIBRARIES, TUNED

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
"""Threads that wait sleep: kernels of the tests are short, and several processes share the processors. Read by OpenMP
when it is loaded."""
os.environ.setdefault("SPFGEN_COMPILE", "eager")
"""Tests of operations on arrays are about their kernels, too; tests of what numpy does say so."""
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts the tests in the background has them ignore interrupts; some tests interrupt on purpose.
    signal.signal(signal.SIGINT, signal.default_int_handler)
GOLDEN = Path(__file__).parent / "golden"
WITHOUT_LIBC = ("-nostdlib", "-lgomp", "-lm", "-lgcc")


def is_gcc_on_linux() -> bool:
    """Whether the compiler that spfgen would take is one that knows these flags."""
    if sys.platform != "linux" or any(os.environ.get(name, "").strip() for name in ("SPFGEN_CC", "CC")):
        return False
    found = shutil.which("cc") or shutil.which("gcc")
    return found is not None and "gcc" in Path(found).resolve().name


def quick_settings() -> dict[str, object]:
    """What of run/compile.py is another than users have it."""
    settings: dict[str, object] = {"OPTIMISED": "-O0", "QUICK": "-O0", "TUNED": ()}
    return {**settings, "LIBRARIES": WITHOUT_LIBC} if is_gcc_on_linux() else settings


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """With `-n`, a process that has nothing left takes tests from another: the long ones stand side by side."""
    if getattr(config.option, "numprocesses", None) and config.option.dist in ("no", "load"):
        config.option.dist = "worksteal"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test that is `sampled(n)` n cases run always, the others are exhaustive. Thousands of random programs may
    take any time."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("fuzz"):
            item.add_marker(pytest.mark.timeout(0))
        if item.get_closest_marker("sampled") and not item.get_closest_marker("exhaustive"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for found in cases.values():
        marker = found[0].get_closest_marker("sampled")
        assert marker is not None
        for item in left_out(found, *marker.args):
            item.add_marker("exhaustive")


def left_out(cases: list[pytest.Item], wanted: int) -> list[pytest.Item]:
    """All but so many of them, which are the same in each run, and have as many values of each parameter as they can,
    each as often as others."""
    left = sorted(cases, key=lambda item: crc32(item.nodeid.encode()))
    values = {item: [*map(repr, item.callspec.params.items())] for item in left}  # type: ignore[attr-defined]
    held: Counter[str] = Counter()
    for _ in range(min(wanted, len(left))):
        best = min(left, key=lambda item: sorted(held[value] for value in values[item]))
        held.update(values[best])
        left.remove(best)
    return left


def pytest_collection_finish() -> None:
    """What thousands of tests consist of stays: a collector that went through it again and again would take a
    fourteenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Kernels compiled by the tests do not go to the user's cache. The processes of `-n` share one: what one has proved
    or compiled the others need not."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "cache_of_all"
    folder.mkdir(mode=0o700, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPFGEN_CACHE_DIR", str(folder))
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_compilation() -> Iterator[None]:
    """Most kernels of the tests are compiled without optimisation, which takes half the time, and are not linked with
    libc, which takes a fifth of the rest: Python has it. Those of the folders whose conftest.py says
    `as_users_have_it`, and of processes that tests start, are compiled as users have them."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in quick_settings().items():
            patch.setattr(f"spfgen.run.compile.{name}", value)
        yield


@pytest.fixture(autouse=True)
def proofs_are_there(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass whose result is not proved is a fault here, where it is left out elsewhere; but not of random programs."""
    monkeypatch.setattr("spfgen.plan.unproved_passes.STRICT", request.node.get_closest_marker("fuzz") is None)


@pytest.fixture
def as_users_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are compiled as they are outside of tests."""
    monkeypatch.setattr("spfgen.run.compile.OPTIMISED", "-O3")
    monkeypatch.setattr("spfgen.run.compile.QUICK", "-O1")
    monkeypatch.setattr("spfgen.run.compile.LIBRARIES", LIBRARIES)
    monkeypatch.setattr("spfgen.run.compile.TUNED", TUNED)


@pytest.fixture
def golden(request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]
    """A function that compares a text with tests/golden/NAME."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path} is missing: run pytest --update-golden and read what it writes"
        assert text == path.read_text(encoding="utf-8"), (
            f"{name} changed: run pytest --update-golden and read the difference"
        )

    return compare
