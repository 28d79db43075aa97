"""The same program is the same C, whatever order Python's sets have."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAMS = """
import spfgen

def shown(text, **layouts):
    print(spfgen.compile(text, **layouts).generated.source)

traces = "sum(k, l, m: abs(A[k, k])*abs(A[l, l])*abs(A[m, m]))"
shown(f"y[i] = {traces}*x[i]; z[i] = {traces} + abs(x[i])", A="csc", x="dense", y="dense", z="dense")
shown("C[i, k] = A[i, j]*B[j, k]", A="csr", B="dense", C="dense")
shown("C[i, j] = max(A[i, j], B[j, i]) + x[j]", A="csr", B="dcsr", x="sv", C="csr")
shown("C[m, k] = sum(l: A[m, l]*B[l, k])", A="bcsr", B="bcsr", C="csr")
"""


def generated(seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    command = [sys.executable, "-c", PROGRAMS]
    made = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return made.stdout


@pytest.mark.exhaustive
def test_the_order_of_sets_does_not_show() -> None:
    one, other = (generated(seed) for seed in ("1", "2"))
    assert one == other
