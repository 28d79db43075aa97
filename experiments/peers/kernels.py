"""Kernels of spfgen that return what they make, and results of anyone as dense arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from experiments.harness.case import Runner
from experiments.harness.memory import peak_remark
from experiments.peers.spfgen import module_or_missing

Array = np.ndarray[Any, Any]


def returning(
    text: str,
    layouts: Mapping[str, str],
    operands: Mapping[str, Any],
    threads: int,
    sizes: Mapping[str, int] | None = None,
) -> Runner:
    """The kernel of a text; a call makes the results and returns them, as those of the peers do."""
    kernel = compiled(text, tuple(layouts.items()), threads)
    held = packed(layouts, operands)

    def call() -> Any:
        return kernel(sizes=sizes, **held) if sizes else kernel(**held)

    return measured(call, (held,))


def measured(call: Callable[[], Any], keep: tuple[Any, ...] = ()) -> Runner:
    """A runner whose remark is the memory that a call takes."""
    call()
    return Runner(call, keep=keep, remark=peak_remark(call))


@lru_cache(maxsize=64)
def compiled(text: str, layouts: tuple[tuple[str, str], ...], threads: int) -> Any:
    """The kernel; the cases of a text share it."""
    return module_or_missing("spfgen").compile(text, threads=threads, **dict(layouts))


def packed(layouts: Mapping[str, str], operands: Mapping[str, Any]) -> dict[str, Any]:
    """Operands as the kernel takes them: packed, where a layout is not that of numpy."""
    spfgen = module_or_missing("spfgen")
    return {
        name: operand if layouts.get(name, "dense") == "dense" else spfgen.pack(operand, layouts[name])
        for name, operand in operands.items()
    }


def dense(found: Any) -> Array:
    """A result of spfgen, scipy, PyData/Sparse or numpy as a dense array."""
    for name in ("toarray", "todense"):
        if hasattr(found, name):
            return np.asarray(getattr(found, name)())
    return np.asarray(found)


def same(expected: Array) -> Callable[[Any], str]:
    """A function from a result to a complaint: each element equals that of the dense array; nan equals nan."""

    def complain(found: Any) -> str:
        result = dense(found)
        if result.shape != expected.shape:
            return f"shape {result.shape}, expected {expected.shape}"
        wrong = ~((result == expected) | ((result != result) & (expected != expected)))
        count = int(np.count_nonzero(wrong))
        if not count:
            return ""
        first = tuple(int(i) for i in np.argwhere(wrong)[0])
        return f"{count} of {wrong.size} elements differ; first at {first}: {result[first]}, expected {expected[first]}"

    return complain
