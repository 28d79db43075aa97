"""Kernels of spfgen that return what they make, and results of anyone as dense arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array

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


def bound(
    text: str,
    layouts: Mapping[str, str],
    operands: Mapping[str, Any],
    threads: int,
    name: str,
    into: Array | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Runner:
    """The same with operands that are bound once, for data so small that a call counts. A dense result is written
    `into` an array; another one is made in each call."""
    kernel = compiled(text, tuple(layouts.items()), threads)
    held = packed(layouts, operands)
    if into is not None:
        held[name] = into
    call = kernel.bind(sizes=sizes, **held)
    ready = measured(call, (held,))
    return Runner(call, lambda: call.tensors[name] if into is None else into, ready.keep, ready.remark)


def measured(call: Callable[[], Any], keep: tuple[Any, ...] = ()) -> Runner:
    """A runner whose remark is the memory that a call takes."""
    call()
    return Runner(call, keep=keep, remark=peak_remark(call))


@lru_cache(maxsize=64)
def compiled(text: str, layouts: tuple[tuple[str, str], ...], threads: int) -> Any:
    """The kernel; the cases of a text share it. A text that declares workspaces or sizes is the body of a kernel."""
    spfgen = module_or_missing("spfgen")
    if not text.lstrip().startswith(("local tensor", "size")):
        return spfgen.compile(text, threads=threads, **dict(layouts))
    declared = "\n".join(f"tensor {name} : {layout}" for name, layout in layouts)
    return (
        spfgen.parse(f"kernel of_experiment {{\n{declared}\n{text}\n}}")
        .kernels["of_experiment"]
        .compile(threads=threads)
    )


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


def in_csr(found: Any) -> csr_array:
    """A result of spfgen, scipy, PyData/Sparse or numpy as csr; a vector has one row."""
    if isinstance(found, np.ndarray):
        return csr_array(np.atleast_2d(found))
    if hasattr(found, "to_scipy_sparse"):
        found = found.to_scipy_sparse()
    elif hasattr(found, "to_coo"):
        entries = found.to_coo()
        found = coo_array((entries.values, entries.coords), shape=found.shape)
    return csr_array(found.reshape((1, -1)) if found.ndim == 1 else found)


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
