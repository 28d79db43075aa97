"""Random programs whose sparse results the C alone makes, under sanitizers, with each allocation failing once."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

import spfgen
from spfgen.run.compile import find_compiler
from spfgen.run.examining import sanitized
from tests.fuzz import c_alone, c_programs, trees
from tests.sanitize import test_races

BATCH = 6


def address() -> tuple[Sequence[str], dict[str, str]]:
    """Leaks are told by the program, which counts the blocks."""
    compiler = find_compiler()
    return [*compiler.command, *sanitized.FLAGS, "-O0", *compiler.openmp], sanitized.ENVIRONMENT


def threads() -> tuple[Sequence[str], dict[str, str]]:
    return test_races.command(), test_races.environment()


WAYS = {"address": address, "threads": threads}


@cache
def has_races() -> bool:
    """Whether clang, its header of OpenMP and archer are there."""
    if not (shutil.which("clang") and test_races.archer()):
        return False
    asked = [*test_races.command(), "-fsyntax-only", "-x", "c", "-"]
    return subprocess.run(asked, input="#include <omp.h>\n", capture_output=True, text=True).returncode == 0


def skip_without(way: str) -> None:
    if not (sanitized.available() if way == "address" else has_races()):
        pytest.skip("the compiler has no such sanitizer here")


@pytest.mark.parametrize("way", ["address", pytest.param("threads", marks=pytest.mark.exhaustive)])
def test_some_results(way: str) -> None:
    skip_without(way)
    tally: dict[str, int] = {}
    found = c_alone.reports(next(c_programs.batches(3, 2)), *WAYS[way](), tally)
    assert not found, "\n\n".join(found)
    assert tally["status 0"] > 4


@pytest.mark.exhaustive
@pytest.mark.parametrize("what", ["values", "memory", "writes"])
def test_what_is_wrong_is_noticed(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without("address")
    (trial,) = next(c_programs.batches(20, 1))
    if what == "values":
        trial.expected = [{n: a + 1 for n, a in one.items()} for one in trial.expected]
    elif what == "memory":
        counted = c_alone.COUNTED.replace("__atomic_fetch_sub(&live, memory != NULL, __ATOMIC_RELAXED);", "")
        monkeypatch.setattr(c_alone, "COUNTED", counted)
    else:
        monkeypatch.setattr(
            c_alone, "COUNTED", c_alone.COUNTED.replace("lived(malloc(size))", "lived(malloc(size / 2))")
        )
    found = c_alone.reports([trial], *address(), {})
    assert found
    assert {"values": "wrong", "memory": "blocks", "writes": "heap-buffer-overflow"}[what] in found[0]


@pytest.mark.fuzz
@pytest.mark.parametrize("way", WAYS)
def test_many_results(way: str) -> None:
    """SPFGEN_FUZZ_SECONDS says for how long, SPFGEN_FUZZ_SEED where it begins."""
    skip_without(way)
    end = time.monotonic() + float(os.environ.get("SPFGEN_FUZZ_SECONDS", "600"))
    tally: dict[str, int] = {}
    found: list[str] = []
    for trials in c_programs.batches(int(os.environ.get("SPFGEN_FUZZ_SEED", "1000")), BATCH):
        if time.monotonic() > end or len(found) > 10:
            break
        found += c_alone.reports(trials, *WAYS[way](), tally)
    assert not found, "\n\n".join(found)


@pytest.mark.fuzz
@pytest.mark.parametrize("way", WAYS)
def test_each_layout(way: str) -> None:
    skip_without(way)
    trials = list(c_programs.each_layout())
    assert len(trials) > 80
    found: list[str] = []
    for first in range(0, len(trials), BATCH):
        found += c_alone.reports(trials[first : first + BATCH], *WAYS[way](), {})
    assert not found, "\n\n".join(found)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_random_layouts_hold_what_is_packed(rank: int) -> None:
    for seed in range(4):
        rng = np.random.default_rng([seed, rank])
        text = trees.random_tree(rng, rank, "random_tree")
        shape = tuple(rng.integers(0, 5, rank))
        values = np.where(rng.random(shape) < 0.5, rng.integers(1, 9, shape), 0).astype(float)
        packed = spfgen.pack(values, spfgen.parse(text).layouts["random_tree"])
        assert packed.validate() == (), text
        np.testing.assert_array_equal(packed.to_numpy(), values)
