"""A few kernels as a reader sees them: the plan in words and the C. A change here is a change of the product."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from spfgen import parse

SPEC = """
kernel spmv { tensor A : csr  tensor x, y : dense  y[i] = A[i, j]*x[j] }
kernel csr_times_bcsr { tensor A : csr  tensor B : bcsr  tensor C : dense  C[i, j] = A[i, j]*B[i, j] }
kernel bcsr_times_coo { tensor A : bcsr  tensor B : coo  tensor C : dense  C[i, k] += A[i, j]*B[j, k] }
kernel mttkrp { tensor A : csf3  tensor B, C, D : dense  D[i, l] = A[i, j, k]*B[j, l]*C[k, l] }
kernel three_vectors { tensor x : sv  tensor y : sv_decreasing  tensor z : sv_unsorted  s = x[i]*y[i]*z[i] }
kernel lower_sum { tensor A : dia  s = A[i, j] where j < i }
kernel mixed_types {
    tensor A : csr<float, rowptr : int64>
    tensor x : dense<float>
    tensor y : dense<double>
    y[i] += A[i, j]*x[j]
}
kernel triangle { tensor A : lower  tensor x, y : dense  y[i] = A[i, j]*x[j] }
kernel solve {
    tensor L : csr
    tensor b, x : dense
    x[i] = (b[i] - sum(j < i: L[i, j]*x[j]))/L[i, i]
    schedule { serial i }
}
"""
KERNELS = parse(SPEC).kernels


LEVELS = (1, 2)

PLAIN = """
kernel merge { tensor A, B, C : csr  C[i, j] = A[i, j] + B[i, j] }
kernel merge_three { tensor A, B, C, D : csr  D[i, j] = max(A[i, j], B[i, j], C[i, j]) }
kernel product { tensor A, B, C : csr  C[i, k] = A[i, j]*B[j, k] }
kernel slices { tensor A, B, C : csr  C[i, j] = A[i, j(0:10)] + B[i, j(5:15)] }
kernel convolution { tensor A : csr  tensor W, Y : dense  Y[i, j] = A[i + r, j + s]*W[r, s] }
kernel scaled {
    tensor A : csr
    tensor x, y : dense
    local tensor largest : dense
    for i {
        largest[i] = max(j: A[i, j])
        if largest[i] > 0 { y[i] = sum(j: A[i, j]*x[j])/largest[i] }
    }
}
"""
"""Seen at level 1: merges, results whose pattern is computed, views, loops and tensors of a kernel's own."""
PLAIN_KERNELS = parse(PLAIN).kernels


@pytest.mark.parametrize("name", KERNELS)
def test_golden_plan(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{name}.explain.txt", KERNELS[name].compile().explain() + "\n")


@pytest.mark.parametrize("level", LEVELS)
def test_golden_source(level: int, golden: Callable[[str, str], None]) -> None:
    """The C that a person is to read, and the C that is to be fast. What any C computes, other tests say."""
    golden(f"spmv.O{level}.c", KERNELS["spmv"].compile(optimize=level).source)


@pytest.mark.parametrize("name", PLAIN_KERNELS)
def test_golden_plain(name: str, golden: Callable[[str, str], None]) -> None:
    """What `explain` says, and the function with the loops."""
    kernel = PLAIN_KERNELS[name].compile(optimize=1)
    golden(f"{name}.explain.txt", kernel.explain() + "\n")
    golden(f"{name}.O1.c", function_of(kernel.source, name))


def function_of(source: str, name: str) -> str:
    """The function of that name, or the one that lists the entries of its result; with the comment above it."""
    found = re.search(rf"^(/\*((?!\*/).)*\*/\n)?(?:static )?int {name}(_loops)?\(.*?^}}\n", source, re.M | re.S)
    assert found is not None
    return found.group()


def test_golden_header(golden: Callable[[str, str], None]) -> None:
    golden("spmv.h", KERNELS["spmv"].compile().header)


def test_golden_length() -> None:
    """What a person reads with pleasure is short: the function itself, and all of the tuned file."""
    plain, tuned = (KERNELS["spmv"].compile(optimize=level).source for level in LEVELS)
    assert len(plain[plain.index("int spmv(") :].splitlines()) <= 45
    assert len(tuned.splitlines()) <= 215
