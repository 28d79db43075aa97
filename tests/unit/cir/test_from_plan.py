"""Plan nodes to C, compiled and run: the branches that no kernel reaches yet."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from spfgen.ir import rewrite
from spfgen.lang.nodes import Constant
from spfgen.lang.spec import parse_tree
from spfgen.pipeline import make_plans, print_kernel, resolve
from spfgen.plan.nodes import Find, Store
from spfgen.run.calls.call import Bound
from spfgen.run.compile import build, load
from spfgen.run.tensor import make_tensor
from spfgen.space.from_lang import join

SPEC = "kernel missing { tensor x : dense  tensor y : sv_unsorted  s = x[i]*y[i] schedule { order i } }"
ALGORITHMS = ("loop", "hash", "array", "bitmap", "search", "sequential", "gallop")
SORTED = ("search", "sequential", "gallop")
"""These need another layout for y."""


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("stored", [[], [2], [3, 0], [4, 1, 2, 0, 3]])
def test_a_find_has_a_hit_and_a_miss(stored: list[int], algorithm: str) -> None:
    """Where y stores nothing at i, the miss branch adds 1000."""
    text = SPEC.replace("order i", f"order i  find y.p : {algorithm}")
    if algorithm in SORTED:
        text, stored = text.replace("sv_unsorted", "sv"), sorted(stored)
    tree = parse_tree(text)
    kernel = tree.kernels["missing"]
    layouts = resolve(kernel, tree)
    program = join(kernel, layouts)

    def with_miss(node: object) -> object:
        if isinstance(node, Find):
            do = next(n for n in [node.hit] if isinstance(n, Store))
            return replace(node, miss=replace(do, value=Constant(1000)))
        return None

    plans = tuple(rewrite(with_miss, p) for p in make_plans(program))
    assert plans != make_plans(program)
    library = load(build(print_kernel(program, plans).whole, optimise=False))
    x = np.arange(1.0, 6.0)
    val = np.arange(10.0, 10.0 + len(stored))
    tensors = {
        "x": make_tensor(layouts["x"], {"val": x}),
        "y": make_tensor(layouts["y"], {"idx": np.array(stored, np.int32), "val": val}, (5,)),
        "s": make_tensor(program.tensor("s").layout, {"val": np.zeros(())}),
    }
    Bound(program, library.missing, tensors, {}, 1)()
    expected = sum(x[i] * v for i, v in zip(stored, val, strict=True)) + 1000 * (5 - len(stored))
    assert float(tensors["s"].arrays["val"]) == expected


def test_error_codes_reach_the_caller() -> None:
    """A null pointer and extents that differ are reported, and nothing is written."""
    tree = parse_tree("kernel copy { tensor x, y : dense  y[i] = x[i] }")
    kernel = tree.kernels["copy"]
    program = join(kernel, resolve(kernel, tree))
    library = load(build(print_kernel(program, make_plans(program)).whole, optimise=False))

    class Dense(ctypes.Structure):
        _fields_ = (("n_1", ctypes.c_int64), ("val", ctypes.c_void_p))

    source, target = np.ones(3), np.zeros(4)
    x, y = Dense(3, source.ctypes.data), Dense(4, target.ctypes.data)
    assert library.copy(None, ctypes.byref(y), 1) == 1
    assert library.copy(ctypes.byref(x), ctypes.byref(y), 1) == 2
    negative = Dense(-1, source.ctypes.data)
    assert library.copy(ctypes.byref(negative), ctypes.byref(negative), 1) == 2
    assert not target.any()
