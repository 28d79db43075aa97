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


def test_other_processors_are_asked_nothing(tmp_path: Path) -> None:
    """The same text is right, and warns of nothing, where the feature is not there."""
    source = tmp_path / "kernel.c"
    source.write_text(spfgen.compile(SPMV, A="csr", x="dense", y="dense").generated.whole)
    flags = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-fopenmp", "-U__AVX512FP16__"]
    subprocess.run(["gcc", *flags, "-c", source, "-o", tmp_path / "kernel.o"], check=True)
    expanded = subprocess.run(["gcc", *flags, "-E", source], check=True, capture_output=True, text=True).stdout
    assert "_mm512" not in expanded
