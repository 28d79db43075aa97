"""Kernels under the address and undefined-behaviour sanitizers: no read or write outside an array.

The kernels are called by a C program, not from Python: every array then is one malloc of its exact size, and no
library has to be loaded before others.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spfgen import tuning
from spfgen.run.compile import find_compiler
from spfgen.run.examining.sanitized import ENVIRONMENT, FLAGS
from tests.fuzz.programs import Data
from tests.sanitize.checks import checks
from tests.sanitize.driver import Build, Call, compile_program, differences, prepared, run, told
from tests.sanitize.kernels import (
    DATA,
    FINDS,
    case,
    every_find,
    every_layout,
    every_output,
    every_product,
    every_schedule,
    every_type,
)  # fmt: skip

GROUPS = {
    "layouts": every_layout,
    "outputs": every_output,
    "types": every_type,
    "finds": every_find,
    "schedules": every_schedule,
    "products": every_product,
}


def command() -> list[str]:
    """Without optimisation: every access that the C makes is there, and compiling takes two thirds of the time."""
    compiler = find_compiler()
    return [*compiler.command, *FLAGS, "-O0", *compiler.openmp]


@pytest.fixture(scope="module", autouse=True)
def sanitizers(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips where the compiler has no sanitizers."""
    folder = tmp_path_factory.mktemp("probe")
    try:
        program = compile_program(Build({}, {}), command(), folder)
    except AssertionError as error:
        pytest.skip(f"the C compiler has no address sanitizer: {str(error)[:200]}")
    code, output = run(program, [], folder, ENVIRONMENT)
    if code:
        pytest.skip(f"programs with the address sanitizer do not run here: {output[:200]}")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("group", GROUPS)
def test_kernels_stay_within_their_arrays(group: str, half: int, tmp_path: Path) -> None:
    build, calls = prepared(list(GROUPS[group]())[half::2])
    program = compile_program(build, command(), tmp_path)
    code, output = run(program, calls, tmp_path, ENVIRONMENT)
    assert code == 0, told(calls, output)
    problems = differences(calls, tmp_path / "results")
    assert not problems, "\n".join(problems[:3])


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "threads",
    [
        -5,
        0,
        1,
        9,
    ],
)
def test_any_number_of_threads(threads: int, tmp_path: Path) -> None:
    """0 or less leaves the choice to OpenMP; a kernel without parallel loops has work for threads all the same."""
    chosen = [s for s in FINDS if s[2] in ({"A": "sv"}, {"A": "csr", "B": "csr"})]
    alone = case("s = A[1]*x[1]", {}, 1, DATA[:1])
    build, calls = prepared([*every_find(DATA[:1], chosen), alone], threads=threads)
    assert any("#pragma omp" not in text for text in build.sources.values())
    program = compile_program(build, command(), tmp_path)
    code, output = run(program, calls, tmp_path, ENVIRONMENT)
    assert code == 0, told(calls, output)
    assert not differences(calls, tmp_path / "results")


SHAPES = ((40, 300, 1), (300, 40, 1), (3, 0, 1), (0, 3, 1))
FLATTENED = tuple(
    Data((("n0", a), ("n1", b), ("n2", c)), (), density, 5) for a, b, c in SHAPES for density in (0.003, 0.05, 1.0)
)


@pytest.mark.parametrize("threads", [1, 3])
def test_flattened_loops_stay_within_their_arrays(
    threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are taken where there are many segments: here always, and each group of segments is small."""
    monkeypatch.setattr(tuning, "FLATTENED_SEGMENTS", 5)
    monkeypatch.setattr(tuning, "FLATTENED_SEGMENT", 2)
    texts = (("y[i] += A[i, j]*x[j]", "csc"), ("z[j] += A[i, j]*y[i]", "csr"), ("y[i] += A[i, j]", "csc"))
    sparse = case("y[i] = A[i, j]*x[j]", {"A": "csr", "x": "sv"}, 2, FLATTENED)
    build, calls = prepared([sparse, *(case(text, {"A": a}, 2, FLATTENED) for text, a in texts)], threads=threads)
    found = {n: re.subn(r"(const bool flatten\w* =)[^;]+;", r"\1 true;", text) for n, text in build.sources.items()}
    assert sum(count for _, count in found.values()) == 2
    made = replace(build, sources={n: text for n, (text, _) in found.items()})
    code, output = run(compile_program(made, command(), tmp_path), calls, tmp_path, ENVIRONMENT)
    assert code == 0, told(calls, output)
    assert not differences(calls, tmp_path / "results")


@pytest.mark.parametrize("small", [15, pytest.param(60, marks=pytest.mark.exhaustive)])
def test_checks_stay_within_wrong_arrays(small: int, tmp_path: Path) -> None:
    """Indices that are anything at all: no check reads by them outside of an array, whatever was found before."""
    build, calls = checks(threads=3, small=small)
    program = compile_program(build, command(), tmp_path)
    code, output = run(program, calls, tmp_path, ENVIRONMENT)
    assert code == 0, told(calls, output)
    problems = differences(calls, tmp_path / "results")
    assert not problems, "\n".join(problems[:3])


WRONG = {
    "reads past the end": ("y[0] = x[n];", "heap-buffer-overflow"),
    "writes past the end": ("y[n] = 1.0;", "heap-buffer-overflow"),
    "reads before the start": ("y[0] = x[-1];", "heap-buffer-overflow"),
    "reads an empty array": ("y[0] = e[0];", "heap-buffer-overflow"),
    "overflows": ("y[0] = (double)(9223372036854775807 + n);", "signed integer overflow"),
    "is right": ("y[0] = x[n - 1];", ""),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", WRONG)
def test_the_sanitizers_see_mistakes(name: str, tmp_path: Path) -> None:
    """Kernels written here, one of them right."""
    statement, found = WRONG[name]
    source = f"""
#include <stdint.h>
struct three {{ int64_t n; double *x; double *e; double *y; }};
int kernel_0(struct three *t, int threads) {{
    const int64_t n = t->n;
    double *x = t->x, *y = t->y, *e = t->e;
    (void)threads; (void)x; (void)e; (void)n;
    {statement}
    return 0;
}}
"""
    program = compile_program(Build({0: source}, {0: (1, 0)}), command(), tmp_path)
    arrays = [np.arange(1.0, 4.0), np.zeros(0), np.zeros(3)]
    calls = [Call(0, 1, (), [((3,), arrays)], {(0, 2): np.array([3.0, 0.0, 0.0])}, "")]
    code, output = run(program, calls, tmp_path, ENVIRONMENT)
    if found:
        assert code != 0
        assert found in output
    else:
        assert code == 0, output
        assert not differences(calls, tmp_path / "results")
