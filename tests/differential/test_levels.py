"""Loops that run level by level: the same values, bit for bit, whatever the number of threads and the blocks are."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import spfgen
from spfgen.errors import SpecError
from spfgen.pipeline import Generated
from spfgen.run.calls.call import Bound, LevelsStruct
from spfgen.run.compile import find_compiler
from tests.differential.support import Batch, Program, eager_source, packed

LOWER = "x[i] = (b[i] - sum(j < i: L[i, j]*x[j]))/L[i, i]"
UPPER = "x[i] = (b[i] - sum(j > i: L[i, j]*x[j]))/L[i, i]"
ROWS = "X[i, r] = (B[i, r] - sum(j < i: L[i, j]*X[j, r]))/L[i, i]"
SHIFTED = "x[i] = b[i] + sum(j < i - 2: L[i, j]*x[j + 1]*L[i, j + 2])"
PART = "x[i] = b[i] - sum(j > i: L[i, j]*x[j])/2 where 5 <= i"
TEXTS = (LOWER, UPPER, ROWS, SHIFTED, PART)
LAYOUTS = ("csr", "coo", "bcsr(R=2, C=2)", "dcsr", "ell", "dia", "coo_unsorted", "jds")
THREADS = (1, 2, 4, 7)
RNG = np.random.default_rng(23)


def matrix(size: int, density: float) -> np.ndarray:
    """A density of 1 is that of a band."""
    dense = np.where(RNG.random((size, size)) < density, RNG.random((size, size)), 0)
    dense = np.tril(np.triu(dense, -3), 3) if density == 1 else dense
    np.fill_diagonal(dense, 1 + RNG.random(size))
    return dense


def keen(made: Generated) -> Generated:
    """The kernel as if threads met and blocks began in no time: then levels are worth it however small the loop is. All
    comes from memory."""
    source, count = re.subn(r"(SPFGEN_LEVELS_(WAIT|CACHE|LEAST|RUN|CALLS)) = [0-9]+", r"\1 = 0", made.source)
    source, bytes_ = re.subn(r"SPFGEN_LEVELS_BYTES = [0-9]+", "SPFGEN_LEVELS_BYTES = 1000000", source)
    assert (count, bytes_) == (5 * bool(made.program.levels), bool(made.program.levels)), "they are not where they were"
    return replace(made, source=source)


def listed(made: Generated) -> Generated:
    """The kernel as if lists cost nothing, and levels much: each iteration is a part of its own."""
    source, waits = re.subn(r"SPFGEN_LEVELS_WAIT = 0", "SPFGEN_LEVELS_WAIT = 1000000", doubled(made).source)
    source, likely = re.subn(r"SPFGEN_LEVELS_LIKELY = [0-9]+", "SPFGEN_LEVELS_LIKELY = 1", source)
    assert (waits, likely) == (bool(made.program.levels),) * 2
    return replace(made, source=source)


def doubled(made: Generated) -> Generated:
    """The kernel as if lists cost nothing, nor levels: there are both."""
    source, lists = re.subn(r"(SPFGEN_LISTS_(MESSAGE|PART|TELL)) = [0-9]+", r"\1 = 0", keen(made).source)
    source, likely = re.subn(r"SPFGEN_LEVELS_LIKELY = [0-9]+", "SPFGEN_LEVELS_LIKELY = 1000000", source)
    assert (lists, likely) == (3 * bool(made.program.levels), bool(made.program.levels))
    return replace(made, source=source)


@cache
def generated(half: int) -> tuple[list[Program], list[Generated]]:
    programs = []
    for number, text in enumerate(TEXTS):
        vectors = dict.fromkeys("XB" if text == ROWS else "xb", "dense")
        for layout in LAYOUTS[half::2] if number < 2 else (LAYOUTS[number - 2 + 2 * half],):
            programs.append(Program(text, {**vectors, "L": layout}))
    return programs, [p.generated(f"kernel_{n}") for n, p in enumerate(programs)]


@pytest.fixture(scope="module", params=[keen, listed, doubled])
def way(request: pytest.FixtureRequest) -> Callable[[Generated], Generated]:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="module", params=[0, 1])
def batch(request: pytest.FixtureRequest, way: Callable[[Generated], Generated]) -> Batch:
    """Half of the programs, one of the ways."""
    programs, made = generated(request.param)
    return Batch(programs, ("-O1",), eager=True, generated=[way(m) for m in made])


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("size", "density"), [(0, 0.5), (1, 0.5), (40, 0.0), (40, 0.3), (90, 0.01), (90, 1.0)])
def test_threads_do_not_change_a_bit(batch: Batch, size: int, density: float) -> None:
    dense = matrix(size, density)
    used, both, text = 0, 0, batch.generated[0].source
    lists, are_both = "SPFGEN_LEVELS_WAIT = 1000000" in text, "SPFGEN_LEVELS_LIKELY = 1000000" in text
    for program, made in zip(batch.programs, batch.generated, strict=True):
        right = RNG.random((size, 3) if program.text == ROWS else size)
        function = getattr(batch.library, made.program.name)
        expected = None
        for threads in (1, *(THREADS if program.layouts["L"] == "csr" else THREADS[1::2])):
            tensors = {
                t.name: packed(t.layout, dense if t.name == "L" else right if t.name in "bB" else np.ones_like(right))
                for t in made.program.tensors
            }
            bound = Bound(made.program, function, tensors, {}, threads)
            if expected is not None:
                bound.keep_levels()
            for _ in range(9 if threads == 2 else 4):  # serial, by one thread, by several in one way or two
                bound()
                found = tensors["X" if program.text == ROWS else "x"].to_numpy()
                expected = found if expected is None else expected
                np.testing.assert_array_equal(found, expected, err_msg=f"{program} on {threads} threads")
            if made.program.levels and bound._arguments[-1] is not None:
                kept = bound._arguments[-1][0]
                used += kept.levels > 1 and kept.listed == lists
                both += bool(kept.other)
        if program.text in (LOWER, UPPER, ROWS):
            triangle = np.triu(dense) if program.text == UPPER else np.tril(dense)
            np.testing.assert_allclose(expected, np.linalg.solve(triangle, right), rtol=1e-9)
    assert used or size < 2 or not density, "levels, or lists, are what is tested here"
    assert both or not (used and are_both)


def test_values_may_change_between_calls() -> None:
    lower = scipy.sparse.csr_array(np.tril(matrix(50, 0.1)))
    kernel = spfgen.compile(LOWER, L="csr", b="dense", x="dense", threads=2)
    b, x = RNG.random(50), np.empty(50)
    bound = kernel.bind(L=lower, b=b, x=x)
    for _ in range(3):
        bound()
        np.testing.assert_allclose(lower @ x, b)
        lower.data *= 2
        b += 1


def test_calls_at_the_same_time_are_serial() -> None:
    """What is kept says how far the threads of one call are: it is left to that call."""
    kernel = spfgen.compile(LOWER, L="csr", b="dense", x="dense", threads=2, schedule="levels i")
    lower, b = scipy.sparse.csr_array(np.tril(matrix(50, 0.1))), RNG.random(50)
    bound = kernel.bind(L=lower, b=b)
    kept = bound._arguments[-1][0]
    kept.busy = 1
    bound()
    assert (kept.busy, kept.levels) == (1, 0)
    np.testing.assert_allclose(lower @ bound.tensors["x"].to_numpy(), b)
    kept.busy = 0
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: bound(), range(40)))
    assert kept.busy == 0
    assert kept.levels > 1
    np.testing.assert_allclose(lower @ bound.tensors["x"].to_numpy(), b)


@pytest.mark.parametrize(("threads", "expected"), [(1, {2, 3}), (2, {1, 2, 3})])
def test_what_would_be_the_same_way_is_not_tried(threads: int, expected: set[int]) -> None:
    """One thread that does its units does all units."""
    kernel = spfgen.compile(LOWER, L="csr", b="dense", x="dense", threads=threads)
    lower, b = scipy.sparse.eye_array(50_000, format="csr") * 2.0, RNG.random(50_000)
    bound = kernel.bind(L=lower, b=b)
    bound()
    kept, tried = bound._arguments[-1][0], set()
    assert kept.size > 0
    while kept.turn < 5:
        bound()
        tried.add(kept.way)
        np.testing.assert_array_equal(bound.tensors["x"].to_numpy(), b / 2)
    assert kept.threads == threads
    assert tried == expected


def test_the_levels_of_a_call_are_given_back() -> None:
    """Their memory goes with the kernel that was bound, not before."""
    kernel = spfgen.compile(LOWER, L="csr", b="dense", x="dense", threads=2)
    bound = kernel.bind(L=scipy.sparse.eye_array(20000, format="csr"), b=np.ones(20000))
    bound()
    kept = bound._arguments[-1][0]
    assert isinstance(kept, LevelsStruct)
    assert kept.iterations == 20000
    del kept, bound
    gc.collect()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("text", [LOWER, UPPER])
def test_few_long_rows_are_shared_out(text: str) -> None:
    """They are neighbours, but not one block; all rows before them, which need nothing, are one run for each thread.
    The last one is longer than the others together: it has a thread of its own."""
    size, lengths = 30000, [2000, 1000, 2000, 6000]
    dense = scipy.sparse.eye_array(size, format="lil")
    for row, length in enumerate(lengths, size - len(lengths)):
        dense[row, :length] = 1 / 4096
    triangle = scipy.sparse.csr_array(dense)
    if text == UPPER:
        triangle = scipy.sparse.csr_array(triangle[::-1, ::-1])
        triangle.sort_indices()
    kernel = spfgen.compile(text, L="csr", b="dense", x="dense", threads=2)
    bound = kernel.bind(L=triangle, b=RNG.random(size))
    bound()
    kept = bound._arguments[-1][0]
    assert (kept.levels, kept.size) == (2, 1)
    units = [int(n) for n in ctypes.cast(kept.unit, ctypes.POINTER(ctypes.c_int64))[: kept.units + 1]]
    runs = np.array(ctypes.cast(kept.run, ctypes.POINTER(ctypes.c_int32))[: 2 * units[-1]]).reshape(-1, 2)
    assert units == [0, 1, 2, 3, 4], "one run for each thread in each level"
    assert runs[:, 0].tolist() == [0, runs[0, 1], size - 4, size - 1]
    assert runs[:, 1].tolist() == [runs[1, 0], size - 4, size - 1, size]
    np.testing.assert_allclose(triangle @ bound.tensors["x"].to_numpy(), bound.tensors["b"].to_numpy())


@pytest.mark.parametrize(("rows", "expected"), [(300, 1), (3000, 2)])
def test_loops_of_a_few_microseconds_are_serial(rows: int, expected: int) -> None:
    """To find out what is faster would take longer than that saves: neither is time taken nor is there an order."""
    lower = scipy.sparse.eye_array(rows, format="lil")
    lower[rows // 2 :, 0] = 1
    kernel = spfgen.compile(LOWER, L="csr", b="dense", x="dense", threads=2)
    bound = kernel.bind(L=scipy.sparse.csr_array(lower), b=np.ones(rows))
    for _ in range(3):
        bound()
    kept = bound._arguments[-1][0]
    assert kept.levels == expected
    assert bool(kept.size) == bool(kept.calls or kept.turn) == (expected > 1)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("text", [LOWER, UPPER])
def test_planes_of_a_mesh_are_a_list_each(text: str) -> None:
    """Rows of a plane need the one before, and their neighbours in the plane before: a thread has every second plane,
    and one more where one was cut in two. With as much between planes as in one, levels are as long as planes."""
    planes, rows = 60, 400
    n = planes * rows
    diagonals = [(np.ones(n), 0), *((np.full(n, 2.0**-8), -d) for d in (1, 2, 3, *range(rows - 20, rows + 4)))]
    dense = scipy.sparse.dia_array((np.array([d for d, _ in diagonals]), [d for _, d in diagonals]), shape=(n, n))
    lower = scipy.sparse.coo_array(dense)
    same = lower.row // rows == lower.col // rows
    keep = same | (lower.row - lower.col > 3)
    triangle = scipy.sparse.csr_array((lower.data[keep], (lower.row[keep], lower.col[keep])), shape=(n, n))
    if text == UPPER:
        triangle = scipy.sparse.csr_array(triangle[::-1, ::-1])
        triangle.sort_indices()
    kernel = spfgen.compile(text, L="csr", b="dense", x="dense", threads=2)
    b = RNG.random(n)
    bound = kernel.bind(L=triangle, b=b)
    bound()
    kept = bound._arguments[-1][0]
    assert kept.listed or kept.other
    kept = kept if kept.listed else LevelsStruct.from_address(kept.other)
    assert kept.listed
    units = np.array(ctypes.cast(kept.unit, ctypes.POINTER(ctypes.c_int64))[: kept.units + 3])
    runs = np.array(ctypes.cast(kept.run, ctypes.POINTER(ctypes.c_int32))[: 2 * units[-1]]).reshape(-1, 2)
    assert runs[-1].tolist() == [0, n], "for a team of one"
    owner = np.full(n, -1)
    for unit, (first, last) in enumerate(pairwise(units[:-2])):
        for begin, end in runs[first:last]:
            assert (owner[begin:end] == -1).all(), "each row once"
            owner[begin:end] = unit % 2
    assert (owner.reshape(planes, rows) == owner[::rows, None]).all()
    assert abs(owner[::rows].mean() - 0.5) < 0.1
    for _ in range(3):
        np.testing.assert_allclose(triangle @ bound.tensors["x"].to_numpy(), b)
        bound()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("rows", [1, 2, 8])
def test_rows_that_need_one_another_are_a_block(rows: int) -> None:
    """Then no thread waits for another one; blocks are no larger than that takes."""
    lower = scipy.sparse.block_diag([np.tril(np.ones((rows, rows)))] * 4000, format="csr")
    kernel = spfgen.compile(LOWER, L="csr", b="dense", x="dense", threads=2, schedule="levels i")
    bound = kernel.bind(L=scipy.sparse.csr_array(lower), b=np.ones(lower.shape[0]))
    bound()
    kept = bound._arguments[-1][0]
    assert (kept.size, kept.levels) == (rows, 1)
    assert bound.tensors["x"].to_numpy().tolist() == [1, *[0] * (rows - 1)] * 4000


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("text", [LOWER, UPPER])
def test_without_levels_the_plain_loop_runs(text: str, layout: str) -> None:
    """In a function of its own, the same but for names: a compiler makes the same of both."""

    def lines(schedule: str) -> list[str]:
        """The parameters and statements of the function, however long names break their lines."""
        made = spfgen.compile(text, L=layout, b="dense", x="dense", schedule=schedule).generated
        assert bool(made.program.levels) == (not schedule)
        found = re.findall(r"^[\w ]*\bkernel_serial(\([^()]*\)\n\{\n.*?)^\}$", made.source, re.DOTALL | re.MULTILINE)
        assert len(found) == 1
        code = re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/", "", found[0], flags=re.DOTALL))
        return [line.strip() for line in re.findall(r"[^;{}]+[;{}]|[;{}]", code)]

    def shape(code: list[str]) -> str:
        names: dict[str, str] = {}
        return re.sub(r"[a-z]\w*", lambda m: names.setdefault(m[0], f"v{len(names)}"), "\n".join(code), flags=re.I)

    assert shape(lines("")) == shape(lines("serial i"))


def test_a_kernel_with_two_solves_keeps_levels_of_both() -> None:
    kernel = spfgen.compile(
        "y[i] = (b[i] - sum(j < i: L[i, j]*y[j]))/L[i, i]; x[i] = (y[i] - sum(j > i: U[i, j]*x[j]))/U[i, i]",
        L="csr", U="csr", b="dense", x="dense", y="dense", threads=2,
    )  # fmt: skip
    assert kernel.generated.program.levels == 2
    dense = matrix(60, 0.1)
    lower, upper = np.tril(dense), np.triu(dense)
    b = RNG.random(60)
    bound = kernel.bind(L=scipy.sparse.csr_array(lower), U=scipy.sparse.csr_array(upper), b=b)
    bound()
    np.testing.assert_allclose(lower @ (upper @ bound.tensors["x"].to_numpy()), b)


USE = """
#include <stdio.h>
#include "solve.h"
int main(void) {
    int32_t rowptr[] = {0, 1, 3, 4}, colidx[] = {0, 0, 1, 2};
    double val[] = {2, 1, 4, 5}, right[] = {2, 9, 10}, out[3];
    csr_f64_i32_t L = {.nrow = 3, .ncol = 3, .nnz = 4, .rowptr = rowptr, .colidx = colidx, .val = val};
    dense_rank1_f64_t b = {.n_1 = 3, .val = right}, x = {.n_1 = 3, .val = out};
    spfgen_levels levels = {0};
    int status = 0;
    for (int k = 0; k < 3; k++) status |= solve(&x, &b, &L, 2, &levels);
    status |= solve(&x, &b, &L, 2, NULL);
    printf("%d %g %g %g, %d levels", status, out[0], out[1], out[2], (int)levels.levels);
    spfgen_levels_free(&levels);
    return 0;
}
"""


@pytest.mark.parametrize("way", [keen, listed])
def test_the_header_is_enough_for_c(way: Callable[[Generated], Generated], tmp_path: Path) -> None:
    made = way(spfgen.compile(LOWER, name="solve", x="dense", b="dense", L="csr").generated)
    (tmp_path / "solve.c").write_text(eager_source(made.source))
    (tmp_path / "solve.h").write_text(made.header)
    (tmp_path / "use.c").write_text(USE)
    compiler = find_compiler()
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", *compiler.openmp]
    subprocess.run([*compiler.command, *flags, "use.c", "solve.c", "-lm", "-o", "use"], cwd=tmp_path, check=True)
    for limit in "21":  # a team may be smaller than the one that the levels are made for
        environment = {**os.environ, "OMP_THREAD_LIMIT": limit}
        found = subprocess.run(
            [tmp_path / "use"], capture_output=True, text=True, check=True, env=environment, timeout=60
        )
        assert found.stdout == "0 1 2 2, 2 levels"


CLOCK = """
#include <stdio.h>
static spfgen_levels levels;
static double now;
static int reads, calls, counts[4];
static double test_clock(void) { /* a call reads it twice */
    if (reads++ % 2) {
        counts[levels.way]++;
        now += levels.way == 3 ? 5.0e-6 : 5.5e-6;
        now += DISTURB;
    }
    return now;
}
"""
CALLS = """
int main(void) {
    enum {ROWS = 64, CALLS = 200000};
    int32_t rowptr[ROWS + 1], colidx[ROWS];
    double val[ROWS], right[ROWS], out[ROWS];
    for (int k = 0; k < ROWS; k++) rowptr[k + 1] = k + 1, colidx[k] = k, val[k] = right[k] = 1;
    rowptr[0] = 0;
    csr_f64_i32_t L = {.nrow = ROWS, .ncol = ROWS, .nnz = ROWS, .rowptr = rowptr, .colidx = colidx, .val = val};
    dense_rank1_f64_t b = {.n_1 = ROWS, .val = right}, x = {.n_1 = ROWS, .val = out};
    for (calls = 0; calls < CALLS; calls++) {
        if (solve(&x, &b, &L, 2, &levels)) return 1;
    }
    printf("%d %d %d", counts[1], counts[2], counts[3]);
    spfgen_levels_free(&levels);
    return 0;
}
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "disturb",
    [
        pytest.param("calls % 397 == 396 ? 5.0e-5 : 0", id="one call in 397 is interrupted"),
        pytest.param("calls / 20000 % 2 ? 4.0e-6 : 0", id="the machine is slower now and then"),
    ],
)
def test_what_disturbs_all_ways_alike_does_not_change_the_way(disturb: str, tmp_path: Path) -> None:
    """The serial loop is a tenth faster: it stays the one that runs, but for the trials of the other ways."""
    threads, one, serial = ways_taken(disturb, tmp_path)
    assert min(threads, one) > 0
    assert serial > 9 * (threads + one)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("gain", "chosen"), [(0.04, False), (0.2, True)])
def test_another_way_must_gain_a_tenth(gain: float, chosen: bool, tmp_path: Path) -> None:
    """What is measured in passing is not exact: the loop stays serial where threads seem to gain little."""
    threads, _, serial = ways_taken(f"levels.way == 1 ? -0.5e-6 - {gain}*5.0e-6 : 0", tmp_path)
    assert (threads > 9 * serial) if chosen else (serial > 9 * threads)


def test_threads_that_find_no_cores_are_not_tried_for_long(tmp_path: Path) -> None:
    """They wait for 20 ms in each call: the second call of a trial is its last one, and the next trial is far away."""
    threads, _, serial = ways_taken("levels.way > 1 ? 0 : 0.02", tmp_path)
    assert 0 < threads <= 6
    assert serial > 150_000


def test_long_calls_that_are_interrupted_are_no_reason_for_trials_again_and_again(tmp_path: Path) -> None:
    """Calls of a millisecond, of two for one thread; each 20th is interrupted for 10. Trials are a small part."""
    longer = "1e-3 + (levels.way == 2 ? 1e-3 : levels.way == 1 ? -5e-5 : 0) + (calls % 20 == 19 ? 1e-2 : 0)"
    _, one, _ = ways_taken(longer, tmp_path)
    assert 0 < one < 10_000


def ways_taken(disturb: str, folder: Path) -> list[int]:
    """How many of 200,000 calls run by threads, by one thread and serial, where `disturb` seconds more are lost."""
    made = spfgen.compile(LOWER, name="solve", x="dense", b="dense", L="csr").generated
    source, count = re.subn(r"omp_get_wtime\(\)", "test_clock()", eager_source(made.source))
    assert count == 1
    source, count = re.subn(r"(SPFGEN_LEVELS_(WAIT|LEAST)) = [0-9]+", r"\1 = 0", source)
    assert count == 2
    (folder / "solve.h").write_text(made.header)
    (folder / "use.c").write_text(f'#include "solve.h"\n{CLOCK}{source}{CALLS}')
    compiler = find_compiler()
    flags = ["-std=c99", "-O1", f"-DDISTURB=({disturb})", *compiler.openmp]
    subprocess.run([*compiler.command, *flags, "use.c", "-lm", "-o", "use"], cwd=folder, check=True)
    found = subprocess.run([folder / "use"], capture_output=True, text=True, check=True, timeout=60)
    return [int(n) for n in found.stdout.split()]


def test_the_struct_in_python_is_the_one_in_c(tmp_path: Path) -> None:
    """Each field lies where it lies there."""
    made = spfgen.compile(LOWER, name="solve", x="dense", b="dense", L="csr").generated
    (tmp_path / "solve.h").write_text(made.header)
    fields = [name for name, _ in LevelsStruct._fields_]
    offsets = "".join(f'printf("%zu ", offsetof(spfgen_levels, {f}));' for f in fields)
    text = 'printf("%zu", sizeof(spfgen_levels)); return 0;'
    includes = '#include <stddef.h>\n#include <stdio.h>\n#include "solve.h"\n'
    (tmp_path / "use.c").write_text(f"{includes}int main(void) {{ {offsets}{text} }}")
    compiler = find_compiler()
    subprocess.run([*compiler.command, "-std=c99", "use.c", "-o", "use"], cwd=tmp_path, check=True)
    found = subprocess.run([tmp_path / "use"], capture_output=True, text=True, check=True).stdout
    assert found.split() == [
        str(n) for n in (*(getattr(LevelsStruct, f).offset for f in fields), ctypes.sizeof(LevelsStruct))
    ]


def test_the_schedule_asks_for_levels_and_forbids_them() -> None:
    vectors = {"b": "dense", "x": "dense"}
    wanted = spfgen.compile(LOWER, L="csr", **vectors, threads=2, schedule="levels i")
    lower = np.tril(matrix(3000, 0.002))
    b = RNG.random(3000)
    bound = wanted.bind(L=scipy.sparse.csr_array(lower), b=b)
    bound()
    assert bound._arguments[-1][0].levels > 1
    np.testing.assert_allclose(lower @ bound.tensors["x"].to_numpy(), b)
    forbidden = spfgen.compile(LOWER, L="csr", **vectors, schedule="serial i")
    assert not forbidden.generated.program.levels
    with pytest.raises(SpecError, match="expected a loop whose iterations need others as index arrays say"):
        spfgen.compile("y[i] = A[i, j]*x[j]", A="csr", x="dense", y="dense", schedule="levels i")
