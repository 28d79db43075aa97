"""Parts of loops on threads."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import spfgen
from spfgen.cir.lower.files import runtime
from spfgen.cir.tree.openmp import HEAD
from spfgen.run.compile import build, load

TAKE = """
static void note(int *thread, int *order, int part, int *count) {
    thread[part] = thread[part] ? -1 : 1 + spfgen_thread();
    order[part] = (*count)++;
}
void take(int wanted, int parts, int *thread, int *order) {
    int taken = 0;
    #pragma omp parallel num_threads(wanted)
    {
        int count = 0;
        for (int part = spfgen_thread(); part < parts; part = spfgen_next_part(&taken, parts)) {
            note(thread, order, part, &count);
        }
    }
}
int turns(int threads, double work) {
    return spfgen_chunks(threads, work, 8);
}
"""
NEEDED = ("thread.h", "next_part.h", "chunks.h")


@pytest.fixture(scope="module")
def made() -> ctypes.CDLL:
    library = load(build("\n".join([HEAD, *map(runtime, NEEDED), TAKE]), optimise=False))
    library.turns.argtypes = (ctypes.c_int, ctypes.c_double)
    return library


def address(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


@pytest.mark.parametrize("parts", [0, 1, 2, 3, 7, 64])
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_each_part_is_taken_once_and_a_thread_only_goes_on(made: ctypes.CDLL, threads: int, parts: int) -> None:
    """Whatever the team: none of its threads goes back, and the first part of each is that of its number."""
    for _ in range(20):
        thread, order = np.zeros(parts, np.int32), np.zeros(parts, np.int32)
        made.take(threads, parts, address(thread), address(order))
        assert np.all((thread >= 1) & (thread <= threads))
        for k in range(threads):
            own = order[thread == k + 1]
            assert np.array_equal(own, np.arange(own.size))
        assert np.array_equal(thread[:threads], 1 + np.arange(min(threads, parts)))


@pytest.mark.parametrize("threads", [1, 2, 4, 7])
def test_the_number_of_parts(made: ctypes.CDLL, threads: int) -> None:
    """As many for each thread, up to eight."""
    for work in (0.0, 1e4, 1e5, 1e6, 1e7, 1e30, float("inf")):
        parts = made.turns(threads, work)
        assert parts == 1 if threads == 1 else parts % threads == 0 and threads <= parts <= 8 * threads


@pytest.mark.parametrize(("layout", "turns"), [("ell", True), ("dia", True), ("dense", False)])
def test_a_thread_that_is_done_early_goes_on_where_iterations_look_things_up(layout: str, turns: bool) -> None:
    """Where none does they take as long as one another, and the loop is as plain as a person writes it."""
    text = spfgen.compile("y[i] = A[i,j]*x[j]", A=layout, x="dense", y="dense").source
    assert ("schedule(monotonic: dynamic, 1)" in text) == turns
    assert ("omp parallel for schedule(static)" in text) != turns
