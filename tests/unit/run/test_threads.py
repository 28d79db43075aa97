"""How many threads run, and what a loaded kernel does to the arithmetic of the process: nothing."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import spfgen
from spfgen.cir.lower.files import runtime
from spfgen.run.compile import build, find_compiler, load
from spfgen.run.threads import threads_by_default

CODE = """
import os, sys
import numpy as np
import spfgen

def tasks():
    return len(os.listdir("/proc/self/task"))

x = np.ones(1_000_000)
def run(threads):
    assert np.array_equal(spfgen.evaluate("y[i] = 2*x[i]", x=x, threads=threads), 2*x)
    return tasks() - before

spfgen.evaluate("y[i] = 2*x[i]", x=x, threads=1)
before = tasks() - 1
print(*[run(eval(text)) for text in sys.argv[1:]])
"""


@pytest.mark.sampled(1)
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in /proc")
@pytest.mark.parametrize(
    ("setting", "threads", "counts"),
    [
        ("1", ["None"], "1"),
        ("3", ["None"], "3"),
        ("1", ["2", "4"], "2 4"),
        ("3", ["1", "2"], "1 2"),
        ("3,2", ["None"], "3"),
    ],
)
def test_numbers_of_threads(setting, threads, counts) -> None:
    """OMP_NUM_THREADS decides where the call does not; OpenMP keeps the threads that it has started."""
    if not find_compiler().openmp:
        pytest.skip("this compiler has no OpenMP")
    environment = {**os.environ, "OMP_NUM_THREADS": setting, "OPENBLAS_NUM_THREADS": "1"}
    result = subprocess.run(
        [sys.executable, "-c", CODE, *threads], env=environment, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == counts


@pytest.mark.parametrize(
    ("setting", "threads"), [("3", 3), (" 4,2", 4), ("", None), ("none", None), ("0", None), ("-2", None), ("²", None)]
)
def test_the_default_that_openmp_is_told(setting, threads, monkeypatch) -> None:
    """What OpenMP would pass over is passed over here."""
    monkeypatch.setenv("OMP_NUM_THREADS", setting)
    assert threads_by_default() == (threads or os.cpu_count())
    places = (np.arange(30000), np.arange(30000)[::-1])
    assert spfgen.pack((places, np.ones(30000)), "csr").nse == 30000


@pytest.mark.parametrize("threads", [1, 3])
def test_subnormal_numbers_survive(threads) -> None:
    """A kernel that was linked with -ffast-math would flush them to zero, in the whole process."""
    for kind in (np.float64, np.float32):
        least = np.finfo(kind).smallest_subnormal
        x = np.full(20000, 2 * least, kind)
        found = spfgen.evaluate("y[i] = x[i]/2", x=x, threads=threads)
        assert np.array_equal(found, np.full(20000, least, kind))
        assert np.array_equal(x / kind(2), found)
        assert found[0] > 0
    assert sys.float_info.min / 4 > 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_special_values_are_kept(value) -> None:
    given = np.array([[value, 1.0], [0.0, 2.0]])
    for layout in ("csr", "dense"):
        made = spfgen.pack(given, layout) if layout == "csr" else given
        found = spfgen.evaluate("C[i, j] = A[i, j]*b[i]", A=made, b=np.ones(2))
        assert np.array_equal(found, given, equal_nan=True)


def test_a_team_nobody_asked_for_starts_only_where_it_gains() -> None:
    """Started for a call of some microseconds, a team takes milliseconds on a machine that is busy."""
    text = (
        "#include <omp.h>\n" + runtime("threads.h") + "\nint team(int n, double w) { return spfgen_threads(n, w); }\n"
    )
    library = load(build(text))
    library.team.argtypes = [ctypes.c_int, ctypes.c_double]
    library.team.restype = ctypes.c_int
    library.omp_set_num_threads(3)
    try:
        assert [library.team(0, work) for work in (17_000, 110_000, 260_000, 270_000)] == [1, 1, 1, 3]
        assert [library.team(2, work) for work in (8_000, 17_000)] == [1, 2]
    finally:
        library.omp_set_num_threads(threads_by_default())
