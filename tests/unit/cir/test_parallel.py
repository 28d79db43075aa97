"""Parts of loops on threads."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from spfgen.cir.files import SERIAL, runtime
from spfgen.run.compile import build, load

TAKE = """
void take(int wanted, int parts, int *thread, int *order) {
    int taken = 0;
    #pragma omp parallel num_threads(wanted)
    {
        int count = 0;
        for (int part = spfgen_thread(); part < parts; part = spfgen_next_part(&taken, parts)) {
            thread[part] = thread[part] ? -1 : 1 + spfgen_thread();
            order[part] = count++;
        }
    }
}
"""


BEGINS = """
int units(int parts, int threads, int *begin) {
    for (int part = 0; part <= parts; part++) {
        begin[part] = spfgen_unit(part, parts, threads);
    }
    return spfgen_units(parts, threads);
}
int turns(int threads, double work) {
    return spfgen_turns(threads, work, 8);
}
"""
NEEDED = ("thread.h", "next_part.h", "turns.h", "units.h")


@pytest.fixture(scope="module")
def take() -> ctypes.CDLL:
    library = load(build("\n".join([SERIAL, *map(runtime, NEEDED), TAKE, BEGINS]), optimise=False))
    library.turns.argtypes = (ctypes.c_int, ctypes.c_double)
    return library


@pytest.mark.parametrize("parts", [0, 1, 2, 3, 7, 64])
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_each_part_is_taken_once_and_a_thread_only_goes_on(take: ctypes.CDLL, threads: int, parts: int) -> None:
    """Whatever the team: none of its threads goes back, and the first part of each is that of its number."""
    for _ in range(20):
        thread, order = np.zeros(parts, np.int32), np.zeros(parts, np.int32)
        take.take(threads, parts, *(ctypes.c_void_p(a.ctypes.data) for a in (thread, order)))
        assert np.all((thread >= 1) & (thread <= threads))
        for k in range(threads):
            own = order[thread == k + 1]
            assert np.array_equal(own, np.arange(own.size))
        assert np.array_equal(thread[:threads], 1 + np.arange(min(threads, parts)))


@pytest.mark.parametrize("threads", [1, 2, 4, 7])
def test_the_parts_of_any_work_are_all_of_it(take: ctypes.CDLL, threads: int) -> None:
    """One behind the other, the first ones of all threads larger than the others, each for as many threads."""
    for work in (0.0, 1e4, 1e5, 1e6, 1e7, 1e30, float("inf")):
        parts = take.turns(threads, work)
        assert parts == 1 if threads == 1 else parts % threads == 0 and threads <= parts <= 8 * threads
        begin = np.zeros(parts + 1, np.int32)
        units = take.units(parts, threads, ctypes.c_void_p(begin.ctypes.data))
        assert (begin[0], begin[-1]) == (0, units)
        first = 4 if parts > threads else 1
        assert np.array_equal(np.diff(begin), np.where(np.arange(parts) < threads, first, 1))
