"""Sums of products with what lies scattered, by vectors that gather where processors do that well."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

import spfgen

SPMV = "y[i] = A[i,j]*x[j]"
LOWER = "x[i] = (b[i] - sum(j < i: L[i,j]*x[j]))/L[i,i]"
UPPER = "x[i] = (b[i] - sum(j > i: L[i,j]*x[j]))/L[i,i]"


def rows(lengths: list[int], kind: type, index: type) -> csr_array:
    """Rows of these lengths, their entries anywhere but in column 0 and the last one."""
    random, columns = np.random.default_rng(3), max(lengths) + 7
    inner = np.arange(1, columns - 1)
    indices = np.concatenate([np.sort(random.permutation(inner)[:n]) for n in lengths]).astype(index)
    values = random.integers(1, 5, len(indices)).astype(kind)
    return csr_array((values, indices, np.cumsum([0, *lengths]).astype(index)), shape=(len(lengths), columns))


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_rows_of_many_lengths(kind: type, index: type) -> None:
    """What a vector has behind the end of a row is neither read nor added, be it infinite."""
    lengths = [*range(36), 100, 0, 7, 8, 9, 63, 64, 65] * 8
    a = rows(lengths, kind, index)
    x = (np.arange(a.shape[1]) % 7 - 3).astype(kind)
    x[0] = x[-1] = np.inf
    for threads in (1, 3):
        kernel = spfgen.compile(SPMV, A="csr", x="dense", y="dense", threads=threads)
        assert np.array_equal(kernel(A=a, x=x), a @ x)
        values = a.copy()
        values.data[values.indptr[36] :] = np.nan  # of the rows behind these
        assert np.array_equal(kernel(A=values, x=x)[:36], (a @ x)[:36])


@pytest.mark.parametrize(
    ("statement", "layouts", "gathers"),
    [
        (SPMV, {"A": "csr"}, True),
        (SPMV, {"A": "dcsr"}, True),
        ("y[i] = x[j]*A[i,j]", {"A": "csr"}, True),
        ("y[i] = A[i,j]*x[j]*z[i]", {"A": "csr", "z": "dense"}, False),  # another product
        ("y[i] = A[i,j]", {"A": "csr"}, False),  # nothing is scattered
        (SPMV, {"A": "csr<float32>", "x": "dense<float64>", "y": "dense<float64>"}, False),  # of two types
        (SPMV, {"A": "csr<int64>", "x": "dense<int64>", "y": "dense<int64>"}, False),
        (SPMV, {"A": "bcsr"}, False),  # blocks lie side by side
    ],
)
def test_what_gathers(statement: str, layouts: dict[str, str], gathers: bool) -> None:
    used = {n: layouts.get(n, "dense") for n in ("A", "x", "y", "z") if f"{n}[" in statement}
    source = spfgen.compile(statement, **used).source
    assert ("SPFGEN_GATHERS ?" in source) == gathers
    assert bool(re.search(r"\+= spfgen_dot_", source)) == gathers


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("text", [LOWER, UPPER])
def test_rows_that_need_those_just_computed(text: str, kind: type, index: type) -> None:
    """Rows of a solve need all of some rows before them, the last one among these. Whole numbers: exact."""
    size = 90
    lower = np.tril(np.random.default_rng(5).integers(1, 3, (size, size)), -1) * (np.arange(size) % 5 > 0)
    for row in range(size):
        lower[row, : row - row % 60] = 0
    dense = (lower if text == LOWER else lower.T) + np.eye(size, dtype=int)
    wanted = np.arange(size) % 3 - 1
    triangle = csr_array(dense.astype(kind))
    triangle.indices, triangle.indptr = triangle.indices.astype(index), triangle.indptr.astype(index)
    kernel = spfgen.compile(text, L="csr", b="dense", x="dense")
    assert re.search(r"-= spfgen_eights_", kernel.source)
    assert np.array_equal(kernel(L=triangle, b=(dense @ wanted).astype(kind)), wanted)
    triangle.data[triangle.indptr[70] if text == LOWER else 0 :][:5] = np.nan
    assert np.isnan(kernel(L=triangle, b=wanted.astype(kind))).any(), "each entry counts"


@pytest.mark.parametrize(
    ("statement", "layouts", "gathers"),
    [
        (LOWER, {"L": "csr"}, True),
        (UPPER, {"L": "csr"}, True),
        ("x[i] = b[i] - sum(j < i: L[i,j]*x[j]*b[j])", {"L": "csr"}, False),  # another product
        (LOWER, {"L": "csr<float32>", "x": "dense<float64>"}, False),  # of two types
        (LOWER, {"L": "bcsr(R=2, C=2)"}, False),  # blocks lie side by side
        (LOWER, {"L": "dense"}, False),
    ],
)
def test_what_is_taken_off_by_vectors(statement: str, layouts: dict[str, str], gathers: bool) -> None:
    source = spfgen.compile(statement, **{"b": "dense", "x": "dense", **layouts}).source
    assert bool(re.search(r"-= spfgen_eights_", source)) == gathers


@pytest.mark.parametrize(("text", "layouts"), [(SPMV, {"A": "csr", "y": "dense"}), (LOWER, {"L": "csr", "b": "dense"})])
def test_other_processors_are_asked_nothing(text: str, layouts: dict[str, str], tmp_path: Path) -> None:
    """The same text is right, and warns of nothing, where the feature is not there."""
    source = tmp_path / "kernel.c"
    source.write_text(spfgen.compile(text, **layouts, x="dense").generated.whole)
    flags = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-fopenmp", "-U__AVX512FP16__"]
    subprocess.run(["gcc", *flags, "-c", source, "-o", tmp_path / "kernel.o"], check=True)
    expanded = subprocess.run(["gcc", *flags, "-E", source], check=True, capture_output=True, text=True).stdout
    assert "_mm512" not in expanded
