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


@pytest.fixture(scope="module")
def take() -> ctypes.CDLL:
    return load(build("\n".join([SERIAL, runtime("thread.h"), runtime("next_part.h"), TAKE]), optimise=False))


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
