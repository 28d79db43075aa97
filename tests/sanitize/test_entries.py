"""Results whose pattern is computed, in C programs: sanitizers see all of it, and each allocation fails in turn."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import spfgen
from spfgen.run.compile import find_compiler
from spfgen.run.examining.sanitized import ENVIRONMENT, FLAGS
from tests.differential.support import eager_source
from tests.sanitize import test_races

COUNTED = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
static int64_t left = INT64_MAX, live;
static int counted_may(void) {
    int64_t before;
    #pragma omp atomic capture
    before = left--;
    return before > 0;
}
static void counted_more(int64_t by) {
    #pragma omp atomic
    live += by;
}
static void *counted_calloc(size_t count, size_t size) {
    void *made = counted_may() ? calloc(count, size) : NULL;
    counted_more(made != NULL);
    return made;
}
static void *counted_malloc(size_t size) {
    void *made = counted_may() ? malloc(size) : NULL;
    counted_more(made != NULL);
    return made;
}
static void *counted_realloc(void *memory, size_t size) {
    void *made = counted_may() ? realloc(memory, size) : NULL;
    counted_more(made != NULL && memory == NULL);
    return made;
}
static void counted_free(void *memory) {
    counted_more(-(memory != NULL));
    free(memory);
}
"""

MAIN = """
%(arrays)s
int main(void) {
    %(structs)s
    /* with all memory, then every allocation fails in turn */
    for (int round = 0; round < 2; round++) {
        int64_t allowed = 0, status;
        csr_f64_i32_t made = {0};
        do {
            left = round < 1 ? INT64_MAX : allowed++;
            status = kernel(%(made)s, 3);
            if (status == SPFGEN_ERROR_MEMORY && (round < 1 || live != 0 || made.rowptr || made.colidx || made.val)) {
                printf("round %%d: %%d are not given back\\n", round, (int)live);
                return 6;
            }
        } while (status == SPFGEN_ERROR_MEMORY && allowed < 500);
        if (status != SPFGEN_OK || (round >= 1 && allowed < 2) || made.nrow != %(rows)d || made.ncol != %(columns)d) {
            return 7;
        }
        double found[%(rows)d][%(columns)d] = {{0}};
        for (int64_t i = 0; i < made.nrow; i++) {
            for (int64_t p = made.rowptr[i]; p < made.rowptr[i + 1]; p++) {
                found[i][made.colidx[p]] = made.val[p];
            }
        }
        csr_f64_i32_free(&made);
        if (memcmp(found, wanted, sizeof found) != 0 || live != 0) {
            printf("round %%d: wrong values, or %%d are not given back\\n", round, (int)live);
            return 8;
        }
    }
    return 0;
}
"""

RANDOM = np.random.default_rng(3)
A, B = (np.where(RANDOM.random((40, 40)) < 0.2, RANDOM.integers(1, 9, (40, 40)), 0).astype(float) for _ in range(2))
KERNELS: dict[str, tuple[str, np.ndarray]] = {
    "rows": ("C[i,j] = A[i,k]*B[k,j]", A @ B),
    "hash tables": ("C[i,j] = A[i,k]*B[k,j]", A @ B),
    "rows of two": ("C[i,j] = A[i,j] + B[i,j]", A + B),
    "entries": ("C[j,i] = A[i,j] + 2*B[j,i]", A.T + 2 * B),
    "statements": ("C[i,j] = max(A[i,j], B[i,j])", np.maximum(A, B)),
    "copies of index arrays": ("C[i,j] = 3*A[i,j]", 3 * A),
    "two statements": ("C[i,j] = A[i,k]*B[k,j]; C[i,j] += 2*A[i,j]", A @ B + 2 * A),
}


def numbers(values: Any) -> str:
    return ", ".join(str(v) for v in np.asarray(values).tolist())


def program(name: str) -> str:
    text, dense = KERNELS[name]
    operands = [n for n in "AB" if f"{n}[" in text]
    kernel = spfgen.compile(text, C="csr", **dict.fromkeys(operands, "csr"))
    source = eager_source(kernel.generated.whole)
    if name == "hash tables":
        source, count = re.subn(r"const bool C_hashed =[^;]*;", "const bool C_hashed = true;", source)
        assert count == 1
    source = re.sub(r"(?<!\w)(calloc|malloc|realloc|free)\(", r"counted_\1(", source)
    arrays, structs = [], []
    for operand in operands:
        values = {"A": A, "B": B}[operand]
        held = scipy.sparse.csr_array(values)
        arrays += [
            f"static const int32_t {operand}_rowptr[] = {{{numbers(held.indptr)}}};",
            f"static const int32_t {operand}_colidx[] = {{{numbers(held.indices)}}};",
            f"static double {operand}_val[] = {{{numbers(held.data)}}};",
        ]
        fields = f"40, 40, {held.nnz}, {operand}_rowptr, {operand}_colidx, {operand}_val"
        structs.append(f"const csr_f64_i32_t {operand} = {{{fields}}};")
    rows = ", ".join(f"{{{numbers(row)}}}" for row in dense)
    arrays.append(f"static const double wanted[40][40] = {{{rows}}};")
    given = ", ".join(f"&{t.name}" for t in kernel.program.tensors)
    words = {"arrays": "\n".join(arrays), "structs": "\n    ".join(structs), "rows": 40, "columns": 40}
    words["made"] = given.replace("&C", "&made")
    return f"{COUNTED}{source}{MAIN % words}"


def ran(text: str, flags: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    compiler = find_compiler()
    (folder / "main.c").write_text(text, encoding="utf-8")
    command = [*compiler.command, *flags, *compiler.openmp, "main.c", "-lm", "-o", "main"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return subprocess.run(["./main"], cwd=folder, check=False, capture_output=True, text=True, env={**ENVIRONMENT})


def has(flags: list[str], folder: Path) -> bool:
    try:
        return ran("int main(void) { return 0; }", flags, folder).returncode == 0
    except subprocess.CalledProcessError:
        return False


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", KERNELS)
def test_entries_stay_within_their_memory_and_give_it_back(name: str, tmp_path: Path) -> None:
    flags = list(FLAGS) if has(list(FLAGS), tmp_path) else ["-std=c99", "-O1"]
    done = ran(program(name), [*flags, "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


COPIED = """
static const int32_t rowptr[] = {%(rowptr)s}, colidx[] = {%(colidx)s};
static double val[] = {%(val)s};
int main(void) {
    const csr_f64_i32_t A = {40, 40, %(count)d, rowptr, colidx, val};
    for (int round = 0; round < 2; round++) {
        int64_t allowed = 0, status;
        %(struct)s_t made = {0};
        do {
            left = round < 1 ? INT64_MAX : allowed++;
            status = kernel(&A, &made, 3);
            if (status == SPFGEN_ERROR_MEMORY && (round < 1 || live != 0 || made.val)) {
                return 6;
            }
        } while (status == SPFGEN_ERROR_MEMORY && allowed < 500);
        %(struct)s_free(&made);
        if (status != SPFGEN_OK || live != 0 || (round >= 1 && allowed < 5)) {
            return 7;
        }
    }
    return 0;
}
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("target", ["bcsr(R=2, C=2)", "csf"])
def test_marks_and_keys_give_their_memory_back(target: str, tmp_path: Path) -> None:
    """Positions that are marked, and keys that are listed: every allocation fails in turn."""
    kernel = spfgen.compile("C[i,j] = A[i,j]", A="csr", C=target)
    source = re.sub(r"(?<!\w)(calloc|malloc|realloc|free)\(", r"counted_\1(", eager_source(kernel.generated.whole))
    struct = re.findall(r"int kernel\(const csr_f64_i32_t \*A, (\w+)_t \*C", source)[0]
    held = scipy.sparse.csr_array(A)
    arrays = {"rowptr": held.indptr, "colidx": held.indices, "val": held.data}
    words = {n: numbers(v) for n, v in arrays.items()} | {"count": held.nnz, "struct": struct}
    flags = list(FLAGS) if has(list(FLAGS), tmp_path) else ["-std=c99", "-O1"]
    done = ran(f"{COUNTED}{source}{COPIED % words}", flags, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_threads_do_not_race(tmp_path: Path) -> None:
    """All kernels, one after the other, under the thread sanitizer."""
    if shutil.which("clang") is None or not test_races.archer():
        pytest.skip("clang, or libarcher, is not here")
    for name in KERNELS:
        (tmp_path / "main.c").write_text(program(name), encoding="utf-8")
        command = [*test_races.command(), "main.c", "-lm", "-o", "main"]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        done = subprocess.run(
            ["./main"], cwd=tmp_path, check=False, capture_output=True, text=True, env=test_races.environment()
        )
        if "unexpected memory mapping" in done.stderr:
            pytest.skip("the thread sanitizer does not run here")
        assert done.returncode == 0, done.stdout + done.stderr
