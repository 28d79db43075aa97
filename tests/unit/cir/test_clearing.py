"""Zeros that go past the caches: where they are right, and what they leave alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import spfgen
from spfgen import tuning
from spfgen.pipeline import make_plans, print_kernel
from spfgen.run.calls.call import Bound
from spfgen.run.compile import build, load

RNG = np.random.default_rng(5)
SOURCES: dict[tuple[str, ...], str] = {}
PRODUCT = "C[i, k] = A[i, j]*B[j, k]"


def run_far(
    monkeypatch: pytest.MonkeyPatch, text: str, result: np.ndarray, layouts: dict[str, str], **operands: Any
) -> str:
    """Run the kernel as if a result of any size were more than caches hold; its C."""
    kernel = spfgen.compile(text, **layouts, threads=2)
    (output,) = (t.name for t in kernel.program.tensors if t.is_output)
    bound = kernel.bind(**operands, **{output: result})
    monkeypatch.setattr(tuning, "STREAMED_BYTES", 1)
    kinds = (text, *layouts.values(), result.dtype.name)
    source = SOURCES.get(kinds) or print_kernel(bound.program, make_plans(bound.program)).whole
    SOURCES[kinds] = source
    library = load(build(source))
    Bound(bound.program, getattr(library, bound.program.name), bound.tensors, bound.sizes, 2)()
    return source


def sparse(shape: tuple[int, int], density: float, dtype: str = "float64") -> np.ndarray:
    values = RNG.integers(1, 9, shape).astype(dtype)
    values[RNG.random(shape) >= density] = 0
    return values


def garbage(shape: tuple[int, ...], dtype: str, offset: int) -> np.ndarray:
    """An array that begins `offset` elements behind a line of the cache, in one that is full of other values."""
    size = int(np.prod(shape))
    room = np.full(size + 192, 77, dtype)
    begin = 64 + (-room.ctypes.data % 64) // room.itemsize + offset
    return room[begin : begin + size].reshape(shape)


def outside(result: np.ndarray) -> bool:
    """Whether what lies around it is as it was."""
    room = result.base
    begin = (result.ctypes.data - room.ctypes.data) // room.itemsize
    return bool((room[:begin] == 77).all() and (room[begin + result.size :] == 77).all())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["csr", "dcsr", "coo", "bcsr"])
def test_products(monkeypatch: pytest.MonkeyPatch, layout: str) -> None:
    """Rows of one element, of less than a line, of whole lines, and of some more; with none, few and many additions."""
    layouts = {"A": layout, "B": "csr", "C": "dense"}
    for columns in (1, 31, 64, 257):
        for density in (0.0, 0.005, 0.3):
            a, b = sparse((60, 40), density), sparse((40, columns), density)
            result = garbage((60, columns), "float64", 3)
            source = run_far(monkeypatch, PRODUCT, result, layouts, A=spfgen.pack(a, layout), B=spfgen.pack(b, "csr"))
            assert "spfgen_clear(C_val" in source
            np.testing.assert_array_equal(result, a @ b)
            assert outside(result)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", ["int8", "float32", "float64", "complex128"])
def test_types_and_places(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    """Lines begin anywhere in the rows; nothing outside of the result is touched."""
    for offset in (0, 1, 7):
        a = sparse((23, 333), 0.01, dtype)
        result = garbage(a.shape, dtype, offset)
        source = run_far(monkeypatch, "C[i, j] = A[i, j]", result, {"A": "csr", "C": "dense"}, A=spfgen.pack(a, "csr"))
        assert "spfgen_clear(C_val" in source
        np.testing.assert_array_equal(result, a)
        assert outside(result)
