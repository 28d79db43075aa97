"""Whether a kernel computed what it should: its outputs beside the numpy reference, or beside others."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from spfgen.api import Kernel
from spfgen.errors import CheckFailed
from spfgen.lang.reference import Stored, evaluate
from spfgen.run.calls.call import size_value
from spfgen.run.tensor import Array, Tensor

MOST_DENSE = 1 << 24
"""Values of a dense array that is made for a comparison."""


def verdict(
    kernel: Kernel, tensors: Mapping[str, Tensor], sizes: Mapping[str, int], before: Mapping[str, Mapping[str, Array]]
) -> tuple[str, CheckFailed | None]:
    """Compare every output with the reference: in words, and the error when one differs.

    `before` has the values of outputs before the kernel ran, none of those whose pattern is computed; `sizes` what the
    caller passed.
    """
    if kernel.program.steps:
        return _verdict_of_steps(kernel, tensors, before, sizes)
    given: dict[str, Any] = {}
    whole = {n: tensors[n].to_numpy() for n in kernel.assembled if not before.get(n) and _is_small(tensors[n])}
    for name, tensor in tensors.items():
        if name in whole:
            given[name] = np.zeros_like(whole[name])
            continue
        arrays = {**tensor.arrays, **before.get(name, {})}
        given[name] = stored(Tensor(tensor.layout, tensor.sizes, arrays))
    texts = []
    for name, reference in evaluate(kernel.parsed, given, sizes).items():
        own = whole[name] if name in whole else stored(tensors[name])
        got, expected = np.asarray(flat(own)), np.asarray(flat(reference))
        try:
            texts.append(f"{name} {compare(name, got, expected)}")
        except CheckFailed as error:
            return f"failed: {error.message}", error
    return "ok: " + "; ".join(texts), None


def _verdict_of_steps(
    kernel: Kernel, tensors: Mapping[str, Tensor], before: Mapping[str, Mapping[str, Any]], sizes: Mapping[str, int]
) -> tuple[str, CheckFailed | None]:
    """The same against the oracle of the whole language, which has dense arrays."""
    from spfgen.lang.interpret import interpret

    given, fills = {}, {}
    for name, tensor in tensors.items():
        if name in kernel.assembled and not before.get(name):
            continue
        arrays = {**tensor.arrays, **before.get(name, {})}
        given[name] = Tensor(tensor.layout, tensor.sizes, arrays).to_numpy()
        if tensor.layout.indexes:
            fills[name] = tensor.layout.fill
    texts = []
    followed = ((n, size_value(kernel.program, n, tensors, sizes)) for n in kernel.parsed.sizes if n not in sizes)
    sizes = {**sizes, **{n: value for n, value in followed if value is not None}}
    for name, reference in interpret(kernel.parsed, given, fills, sizes).items():
        got, expected = np.asarray(tensors[name].to_numpy()), np.asarray(reference)
        try:
            texts.append(f"{name} {compare(name, got.ravel(), expected.ravel())}")
        except CheckFailed as error:
            return f"failed: {error.message}", error
    return "ok: " + "; ".join(texts), None


def stored(tensor: Tensor) -> Any:
    """A tensor as the reference takes it: a dense array where all is stored, else its entries."""
    if not tensor.layout.indexes and tensor.layout.rank == 0:
        return tensor.arrays[tensor.layout.values[0].name].reshape(())
    entries = tensor.to_coo()
    if not tensor.layout.indexes and entries.values.size == prod(entries.shape):
        return tensor.to_numpy()
    return Stored(entries.shape, entries.coords, entries.values)


def _is_small(tensor: Tensor) -> bool:
    """Whether a result whose pattern is computed can be compared everywhere, not only where it stores something."""
    return prod(tensor.shape) <= MOST_DENSE


def flat(value: Any) -> Array:
    return value.values if isinstance(value, Stored) else np.asarray(value).reshape(-1)


def compare(name: str, got: Array, expected: Array) -> str:
    """The largest difference, relative to the largest value; a tolerance that grows with rounding."""
    if got.shape != expected.shape:
        raise CheckFailed(f"`{name}` has {got.shape} values, but the reference has {expected.shape}")
    if not got.size:
        return "is empty"
    if got.dtype.kind in "fc":
        same = (got == expected) | (np.isnan(got) & np.isnan(expected))
        scale = np.max(np.abs(expected[np.isfinite(expected)]), initial=0.0) or 1.0
        with np.errstate(invalid="ignore"):  # infinity less infinity, where they are the same
            difference = np.where(same, 0.0, np.abs(got - expected)) / scale
        tolerance = 1e4 * np.finfo(got.dtype).eps
    else:
        difference = (got != expected).astype(float)
        tolerance = 0.0
    worst = int(np.argmax(np.where(np.isnan(difference), np.inf, difference)))
    if not difference[worst] <= tolerance:
        raise CheckFailed(
            f"`{name}` differs from the reference: value {worst} is {got[worst]}, but {expected[worst]} is right",
            None,
            (f"relative difference {difference[worst]:.3g}, allowed {tolerance:.3g}",),
        )
    return f"equals the numpy reference (largest relative difference {float(difference[worst]):.2g})"
