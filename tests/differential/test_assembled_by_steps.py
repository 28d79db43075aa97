"""Results in their layout, assembled in C: the arrays are those that numpy's packer makes, for every layout."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import spfgen
from spfgen.errors import SpfgenError
from spfgen.layout.nodes import Layout
from spfgen.layout.pack import key_orders
from spfgen.plan.assemble.from_pack_plan import assembly_of
from tests.differential.assembled import assembled, packed
from tests.fuzz import unseen
from tests.unit.layout.test_pack import all_layouts
from tests.unit.layout.test_pack_random import layouts as random_layouts

SHAPES = {0: [()], 1: [(0,), (11,), (16,)], 2: [(0, 3), (1, 1), (8, 8), (7, 10)], 3: [(0, 2, 2), (4, 5, 6)]}


def packs(layout: Layout) -> bool:
    try:
        key_orders(layout)
    except SpfgenError:
        return False
    return True


LAYOUTS = {layout.title: layout for layout in (*all_layouts(), *(unseen.resolved(n) for n in unseen.ALL))}


def entries(rng: np.random.Generator, shape: tuple[int, ...], count: int) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Unsorted, some of them twice; where a matrix is square, often symmetric."""
    places = rng.choice(int(np.prod(shape)), count, replace=False) if count else np.zeros(0, np.int64)
    places = np.concatenate([places, places[: count // 8]])
    coords = tuple(np.asarray(c) for c in np.unravel_index(places, shape)) if shape else ()
    values = rng.integers(-3, 4, len(places)).astype(float) if rng.random() < 0.7 else np.full(len(places), 2.0)
    if len(shape) == 2 and shape[0] == shape[1] and rng.random() < 0.6:
        low = coords[0] > coords[1]
        half = tuple(c[low] for c in coords)
        coords = tuple(np.concatenate(c) for c in zip(half, half[::-1], strict=True))
        values = np.concatenate([values[low], values[low]])
    return coords, values


@pytest.mark.sampled(6)
@pytest.mark.parametrize("title", LAYOUTS)
def test_arrays_are_those_of_numpy(title: str) -> None:
    layout = LAYOUTS[title]
    if not packs(layout):
        pytest.skip("it does not pack")
    rng = np.random.default_rng(len(title))
    for shape in SHAPES.get(layout.rank, [(2, 3) * (layout.rank // 2)]):
        size = int(np.prod(shape))
        for count in {0, min(1, size), size // 4, size}:
            coords, values = entries(rng, shape, count)
            found = assembled(layout, shape, coords, values, narrow=bool(rng.integers(2)))
            wanted = packed(layout, shape, coords, values)
            assert (found.status == 0) == (wanted is not None), (shape, count, found.status)
            if wanted is not None:
                assert found.sizes == wanted.sizes
                for name, array in wanted.arrays.items():
                    assert np.array_equal(found.arrays[name], array), (shape, count, name)


def test_all_layouts_that_pack_are_assembled_in_c() -> None:
    for layout in LAYOUTS.values():
        if packs(layout):
            assembly_of(layout)


@pytest.mark.parametrize("kind", ["float32", "int64", "complex64", "bool", "uint8"])
def test_values_of_any_type_add_up(kind: str) -> None:
    layout = LAYOUTS["csr"]
    coords, values = (np.array([1, 0, 1]), np.array([2, 1, 2])), np.array([1, 1, 1]).astype(kind)
    found = assembled(layout, (2, 3), coords, values)
    assert found.status == 0
    assert found.arrays["val"].tolist() == [values[1], values[0] + values[2]]


def test_an_index_that_does_not_fit_its_type_is_refused() -> None:
    layout = LAYOUTS["coo(rank=1)"]
    far = np.array([2**31])
    types = tuple((a.name, "int32") for a in layout.indexes)
    wide = tuple((a.name, "int64") for a in layout.indexes)
    assert assembled(layout, (2**40,), (far,), np.ones(1), types=types).status == 6
    assert assembled(layout, (2**40,), (far,), np.ones(1), types=wide).status == 0


SOURCE = """
#include <stdio.h>
#include <string.h>
static long allowed = -1, alive = 0;
static void *counted(size_t bytes) {
    if (allowed == 0) { return NULL; }
    allowed -= allowed > 0;
    void *found = malloc(bytes);
    alive += found != NULL;
    return found;
}
static void *counted_zeros(size_t n, size_t bytes) {
    void *found = counted(n * bytes);
    if (found) { memset(found, 0, n * bytes); }
    return found;
}
static void *counted_again(void *old, size_t bytes) {
    if (allowed == 0) { return NULL; }
    allowed -= allowed > 0;
    void *found = realloc(old, bytes);
    alive += found != NULL && !old;
    return found;
}
static void given_back(void *old) { alive -= old != NULL; free(old); }
"""
DEFINED = """
#define malloc counted
#define calloc counted_zeros
#define realloc counted_again
#define free given_back
"""
COUNTED = """
#undef malloc
#undef calloc
#undef realloc
#undef free
int failing(void) {
    double val[] = {5, 6, 7, 1};
    int32_t rowptr[] = {0, 2, 3, 4}, colidx[] = {0, 1, 1, 2};
    csr_f64_i32_t A = {3, 3, 4, rowptr, colidx, val};
    for (long most = 0; most < 10000; most++) {
        RESULT C, before;
        memset(&C, 7, sizeof C);
        memcpy(&before, &C, sizeof C);
        allowed = most;
        const int status = both(&A, &A, &C, 2);
        allowed = -1;
        if (status == SPFGEN_OK) {
            FREE(&C);
            return alive == 0 ? (int)most : -1;
        }
        if (status != SPFGEN_ERROR_MEMORY || memcmp(&C, &before, sizeof C) != 0) { return -2; }
        if (alive != 0) { return -3; }
    }
    return -4;
}
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["csr", "coo", "bcsr(R=2, C=2)", "dia", "csf(rank=2)", "sym_csr"])
def test_every_allocation_may_fail_once(layout: str) -> None:
    """Nothing is left allocated, and the result holds what it held."""
    from spfgen.run.compile import build, load

    text = f"kernel both {{ tensor A, B : csr  tensor C : {layout}  C[i, j] = A[i, k]*B[k, j] }}"
    made = spfgen.parse(text).kernels["both"].compile().generated
    struct = made.header.split("int both_in(")[1].split("*C")[0].split(",")[-1].strip().removesuffix("*").strip()
    whole = made.whole.replace('#include "both.h"', "")
    head = "#define _DEFAULT_SOURCE\n#include <stdlib.h>\n#include <stdint.h>\n#include <stdbool.h>\n"
    tail = COUNTED.replace("RESULT", struct).replace("FREE", f"{struct.removesuffix('_t')}_free")
    found = load(build(head + SOURCE + DEFINED + whole + tail, optimise=False))
    found.failing.restype = ctypes.c_int
    assert found.failing() > 10


@pytest.mark.fuzz
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(made=random_layouts(), seed=st.integers(0, 2**16))
def test_random_layouts(made: tuple[str, Layout], seed: int) -> None:
    """Layouts that nobody wrote."""
    text, layout = made
    if not packs(layout):
        return
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 7, layout.rank))
    for count in (0, 1, int(np.prod(shape)) // 2):
        coords, values = entries(rng, shape, count)
        found, wanted = assembled(layout, shape, coords, values), packed(layout, shape, coords, values)
        assert (found.status == 0) == (wanted is not None), (text, shape, count, found.status)
        if wanted is not None:
            assert found.sizes == wanted.sizes, (text, shape, count)
            for name, array in wanted.arrays.items():
                assert np.array_equal(found.arrays[name], array), (text, shape, count, name)
