"""After a fork, in the child of a process that has used threads, kernels run on one thread instead of waiting."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CODE = """
import os
import numpy as np
import spfgen

kernel = spfgen.compile("y[i] = 2*x[i]", x="dense", y="dense", threads=4)
x = np.arange(100000.0)
assert (kernel(x=x) == 2*x).all()
child = os.fork()
if child == 0:
    os._exit(0 if (kernel(x=x) == 2*x).all() else 1)
_, status = os.waitpid(child, 0)
print("child", status)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_does_not_hang() -> None:
    result = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=120, check=True)
    assert result.stdout.strip() == "child 0"


EVERYTHING = """
import os
import numpy as np
import scipy.sparse as sp
import spfgen

x = np.ones(40000)

def work(k):
    A = sp.random_array((40000, 40000), density=1e-4, format="coo", rng=np.random.default_rng(k))
    y = spfgen.evaluate("y[i] = A[i, j]*x[j]", A=A, x=x, threads=4)
    T = spfgen.pack(A, "csr")
    T.validate(threads=4)
    return np.allclose(y, A @ x) and np.allclose(spfgen.einsum("ij,j->i", T, x), y)

assert work(0)
child = os.fork()
if child == 0:
    os._exit(0 if work(1) else 1)
_, status = os.waitpid(child, 0)
print("child", status)
"""


@pytest.mark.exhaustive
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_packing_and_checks_do_not_hang_either() -> None:
    result = subprocess.run([sys.executable, "-c", EVERYTHING], capture_output=True, text=True, timeout=120, check=True)
    assert result.stdout.strip() == "child 0"
