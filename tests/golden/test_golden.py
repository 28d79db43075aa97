"""A few kernels as a reader sees them: the plan in words and the C. A change here is a change of the product."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spfgen import parse
from spfgen.run.validate import c_source

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
    tensor y : dense
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


@pytest.mark.parametrize("name", KERNELS)
def test_golden(name: str, golden: Callable[[str, str], None]) -> None:
    kernel = KERNELS[name].compile()
    golden(f"{name}.explain.txt", kernel.explain() + "\n")
    golden(f"{name}.c", kernel.source)


def test_golden_header(golden: Callable[[str, str], None]) -> None:
    golden("spmv.h", KERNELS["spmv"].compile().header)


def test_golden_checks(golden: Callable[[str, str], None]) -> None:
    """The checks of index arrays: segments in one pass, a hash table."""
    rows, list_ = parse("").layouts["csr"].layout(), parse("").layouts["sv_unsorted"].layout()
    golden("csr_check.c", c_source(rows, {"rowptr": "int32", "colidx": "int32"}))
    golden("sv_unsorted_check.c", c_source(list_, {"idx": "int64"}))
