"""Memory that is not there: every allocation of a kernel fails in turn; nothing is written, all is given back."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

import spfgen
from spfgen.errors import DataError
from spfgen.run.calls.call import Bound
from spfgen.run.compile import find_compiler
from tests.differential.support import eager_source, packed, zeros_like

COUNTED = """
#include <stdint.h>
#include <stdlib.h>
static int64_t left, live;
void spfgen_allow(int64_t count) { left = count; live = 0; }
int64_t spfgen_live(void) { return live; }
static void *counted_calloc(size_t count, size_t size) {
    if (left-- <= 0) {
        return NULL;
    }
    live++;
    return calloc(count, size);
}
static void *counted_malloc(size_t size) {
    if (left-- <= 0) {
        return NULL;
    }
    live++;
    return malloc(size);
}
static void counted_free(void *memory) {
    live -= memory != NULL;
    free(memory);
}
"""

KERNELS = {
    # statement, layouts, order, places that are forced
    "states for rows": ("C[i, j] = A[i, j]*B[i, j]", {"A": "csc", "B": "csr"}, ["A.pj"], {"B.pj": "sequential"}),
    "states for rows and a table": (
        "C[i, j] = A[i, j]*B[i, j]*D[i, j]", {"A": "csc", "B": "csr", "D": "csc"}, ["A.pj"], {"B.pj": "gallop", "D.pi": "hash"},  # noqa: E501
    ),
    **{
        f"{a} in each row": ("C[i, j] = A[i, j]*B[i, j]", {"A": "csr", "B": "csr"}, ["i"], {"B.pj": a})
        for a in ("hash", "array", "bitmap", "scatter")
    },
    **{
        f"{a} of a list": ("C[i, j] = A[i, j]*B[i, j]", {"A": "csr", "B": "coo_unsorted"}, ["i"], {"B.p": a})
        for a in ("hash", "array", "bitmap")
    },
    "two tables": ("C[i, j] = A[i, j]*B[i, j]*D[i, j]", {"A": "csr", "B": "csr", "D": "csr"}, ["i"], {"B.pj": "bitmap", "D.pj": "scatter"}),  # noqa: E501
    "variants": ("C[i, j] = A[i, j]*B[i, j]", {"A": "csr", "B": "csr"}, [], {}),
    "two statements": ("C[i, j] = A[i, j]*B[i, j]; C[i, j] += B[i, j]*A[i, j]", {"A": "csr", "B": "csr"}, [], {"B.pj": "hash"}),  # noqa: E501
}  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", KERNELS)
def test_every_allocation_may_fail(name: str, tmp_path: Path) -> None:
    text, layouts, order, finds = KERNELS[name]
    kernel = spfgen.compile(text, order=order, finds=finds, **layouts, C="dense")
    source = eager_source(kernel.generated.whole)
    assert "calloc(" in source
    for name in ("calloc", "malloc", "free"):
        source = source.replace(f"{name}(", f"counted_{name}(")
    (tmp_path / "kernel.c").write_text(COUNTED + source, encoding="utf-8")
    compiler = find_compiler()
    command = [
        *compiler.command,
        "-std=c99",
        "-O1",
        "-fPIC",
        "-shared",
        *compiler.openmp,
        "kernel.c",
        "-lm",
        "-o",
        "kernel.so",
    ]
    subprocess.run(command, check=True, cwd=tmp_path)
    library = ctypes.CDLL(str(tmp_path / "kernel.so"))
    library.spfgen_live.restype = ctypes.c_int64
    rng = np.random.default_rng(0)
    program = kernel.generated.program
    dense = {n: np.where(rng.random((9, 8)) < 0.5, rng.integers(1, 9, (9, 8)), 0).astype(float) for n in layouts}
    tensors = {n: packed(program.tensor(n).layout, d) for n, d in dense.items()}
    tensors["C"] = zeros_like(kernel.generated, "C", tensors, (9, 8))
    wanted = np.prod(list(dense.values()), axis=0) * (2 if ";" in text else 1)
    for allowed in range(40):
        library.spfgen_allow(ctypes.c_int64(allowed))
        try:
            Bound(program, library.kernel, tensors, {}, 3)()
        except (DataError, MemoryError) as error:
            assert "memory" in str(error)  # noqa: PT017
            assert np.isnan(tensors["C"].arrays["val"]).all(), "something was written"
            assert library.spfgen_live() == 0, f"{library.spfgen_live()} were not given back"
            continue
        assert library.spfgen_live() == 0
        assert np.array_equal(tensors["C"].to_numpy(), wanted)
        assert allowed > 0
        return
    pytest.fail("there is never enough memory")
