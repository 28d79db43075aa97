"""Neighbouring places that a loop goes through again and again have an array of their own."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

import spfgen
from spfgen.ir import walk
from spfgen.plan.nodes import Clear, Whole

STATEMENT = "y[i] = A[i,j]*x[j]"
SPEC = spfgen.parse("""
layout strips(nrow, ncol; R = 32) {
    size nd
    relation { [ps, pd, r] -> [i, j] :
        0 <= R*ps < nrow and stripptr(ps) <= pd < stripptr(ps + 1) and 0 <= r < R
        and i = R*ps + r and j = start(pd) - r and 0 <= i < nrow and 0 <= j < ncol }
    index stripptr[ceil(nrow/R) + 1] {
        range 0 <= stripptr(p) <= nd
        property increasing
        property stripptr(0) = 0
        property stripptr(ceil(nrow/R)) = nd
    }
    index start[nd] { range -R < start(p) < ncol + R  property strictly increasing within stripptr }
    value val[nd, R] at [pd, r]
}
""")
"""Antidiagonals in strips: nothing that the compiler knows by name."""


def windows(kernel: spfgen.Kernel) -> list[int]:
    return [n.window for p in kernel.generated.plans for n in walk(p) if isinstance(n, Clear) and n.window]


@pytest.mark.parametrize(
    ("statement", "layouts", "wanted"),
    [
        (STATEMENT, {"A": "sdia(R=64)", "x": "dense", "y": "dense"}, [64]),
        (STATEMENT, {"A": "sdia(R=8)", "x": "dense", "y": "dense"}, []),  # few: sums of their own
        (STATEMENT, {"A": "sdia(R=4096)", "x": "dense", "y": "dense"}, []),  # more than the first cache should hold
        ("y[j] = A[i,j]*x[i]", {"A": "sdia(R=64)", "x": "dense", "y": "dense"}, []),  # others write these places too
        (STATEMENT, {"A": "csr", "x": "dense", "y": "dense"}, []),  # each place is written once
        ("y[i] = 2*A[i,j]*x[j]", {"A": "sdia(R=64)", "x": "dense", "y": "dense"}, [64]),
        (STATEMENT, {"A": "bcsr(R=32, C=1)", "x": "dense", "y": "dense"}, [32]),
        ("y[i] = A[i,j]*x[j]*z[i]", {"A": "sdia(R=64)", "x": "dense", "y": "dense", "z": "dense"}, [64]),
    ],
)
def test_what_has_a_window(statement: str, layouts: dict[str, str], wanted: list[int]) -> None:
    assert windows(spfgen.compile(statement, **layouts)) == wanted


def test_a_window_needs_one_type() -> None:
    """In an array of another type sums would be rounded differently."""
    for kind, wanted in (("float64", [128]), ("float32", [])):
        assert windows(spfgen.compile(STATEMENT, A=f"sdia<{kind}>", x="dense<float64>", y="dense<float64>")) == wanted


def test_places_that_are_not_this_iteration_s_alone_have_none() -> None:
    """What is added to with += is not cleared, so that it is not known to be written by one iteration."""
    assert windows(spfgen.compile("y[i] += A[i,j]*x[j]", A="sdia", x="dense", y="dense")) == []


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (31, 40), (32, 32), (33, 20), (97, 200), (200, 31), (5, 0)])
@pytest.mark.parametrize("name", ["sdia(R=32)", "dia", "strips", "bcsr(R=32, C=1)", "bcsr(R=17, C=3)"])
def test_results(name: str, shape: tuple[int, int], threads: int) -> None:
    rng = np.random.default_rng(sum(shape))
    a = csr_array(random_array(shape, density=0.2, rng=rng) if 0 not in shape else np.zeros(shape))
    layout = SPEC.layouts["strips"] if name == "strips" else name
    stored = spfgen.pack(a, layout)
    x = rng.random(shape[1])
    y = spfgen.compile(STATEMENT, A=layout, x="dense", y="dense", threads=threads)(A=stored, x=x)
    assert np.allclose(y, a.toarray() @ x)
    z = rng.random(shape[0])
    y = spfgen.compile("y[j] = A[i,j]*x[i]", A=layout, x="dense", y="dense", threads=threads)(A=stored, x=z)
    assert np.allclose(y, z @ a.toarray())


def test_whole_windows_are_asked_for_once() -> None:
    kernel = spfgen.compile(STATEMENT, A=SPEC.layouts["strips"], x="dense", y="dense")
    assert windows(kernel) == [32]
    assert sum(isinstance(n, Whole) for p in kernel.generated.plans for n in walk(p)) == 1


@pytest.mark.parametrize("layout", ["sdia", "csr", "dia", "bcsr", "ell"])
def test_packed_arrays_begin_where_lines_of_memory_do(layout: str) -> None:
    """Those of as many entries as are packed in C."""
    a = csr_array(random_array((300, 300), density=0.3, rng=np.random.default_rng(2)))
    stored = spfgen.pack(spfgen.pack(a, "coo"), layout)
    assert all(array.ctypes.data % 64 == 0 for array in stored.arrays.values() if array.size > 600)
