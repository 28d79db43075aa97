"""Whether a kernel computed what it should: its outputs beside the numpy reference, or beside others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from spfgen.api import Kernel
from spfgen.errors import CheckFailed
from spfgen.lang.interpret import Run, prepared
from spfgen.lang.sampled import Entries, can_be_sampled, entries_of, inner_points, points_of, values_at
from spfgen.run.calls.call import size_value
from spfgen.run.files.read import Coordinates
from spfgen.run.tensor import Array, Tensor

MOST_DENSE = 1 << 24
"""Values of a dense array that is made for a comparison."""
MOST_PLACES = 1000
"""Of a result that are compared, where it or an operand is larger than that."""


def verdict(
    kernel: Kernel, tensors: Mapping[str, Tensor], sizes: Mapping[str, int], before: Mapping[str, Mapping[str, Array]]
) -> tuple[str, CheckFailed | None]:
    """Compare every output with the oracle: in words, and the error when one differs. Where dense arrays would be too
    large some places of each output are compared.

    `before` has the values of outputs before the kernel ran, none of those whose pattern is computed; `sizes` what the
    caller passed.
    """
    given: dict[str, Any] = {}
    fills: dict[str, Any] = {}
    known: dict[str, Any] = {}
    for name, tensor in tensors.items():
        if tensor.layout.indexes:
            fills[name] = tensor.layout.fill
        if name in kernel.assembled and not before.get(name) and _is_small(tensor):
            continue
        given[name] = _as_array(Tensor(tensor.layout, tensor.sizes, {**tensor.arrays, **before.get(name, {})}))
        if isinstance(given[name], Entries):
            known[name] = given[name].stored
    followed = ((n, size_value(kernel.program, n, tensors, sizes)) for n in kernel.parsed.sizes if n not in sizes)
    sizes = {**sizes, **{n: value for n, value in followed if value is not None}}
    try:
        run, steps = prepared(kernel.parsed, given, fills, sizes, known)
    except ValueError as error:
        return f"not compared: the numpy reference {error}", None
    if known or points_of(run, steps) > MOST_DENSE:
        return _sampled(run, steps, tensors)
    texts = []
    for name, expected in run.carried_out(kernel.parsed, steps).items():
        got = np.asarray(tensors[name].to_numpy())
        try:
            texts.append(f"{name} {compare(name, got.ravel(), np.asarray(expected).ravel())}")
        except CheckFailed as error:
            return f"failed: {error.message}", error
    return "ok: " + "; ".join(texts), None


def _sampled(run: Run, steps: Sequence[Any], tensors: Mapping[str, Tensor]) -> tuple[str, CheckFailed | None]:
    """The same at some places of each output; a statement reads what the kernel wrote before."""
    if not can_be_sampled(run, steps, MOST_DENSE):
        return "not compared: the operands are too large for the numpy reference", None
    texts = []
    for step in steps:
        name = step.target.tensor
        result = _as_array(tensors[name])
        places = _places(tensors[name], min(MOST_PLACES, MOST_DENSE // inner_points(run, step)), step.within)
        got, expected = result[places], values_at(run, step, places)
        try:
            text = compare(name, np.asarray(got).ravel(), np.asarray(expected).ravel(), places)
            texts.append(f"{name} {text} at {got.size} of {prod(tensors[name].shape)} places")
        except CheckFailed as error:
            return f"failed: {error.message}", error
        run.tensors[name] = result
        if isinstance(result, Entries):
            run.stored[name] = result.stored
    return "ok: " + "; ".join(texts), None


def _places(tensor: Tensor, count: int, stored: bool) -> tuple[Array, ...]:
    """Coordinates: half of them where something is stored that is not the fill value, the others anywhere; `stored`:
    all of them where something is."""
    entries = tensor.to_coo()
    chosen = np.flatnonzero(np.ones(entries.values.size) if stored else entries.values != tensor.layout.fill)
    half = np.unique(np.linspace(0, max(chosen.size - 1, 0), count if stored else -(-count // 2), dtype=np.int64))
    own = [np.asarray(c, np.int64)[chosen[half]] if chosen.size else np.zeros(0, np.int64) for c in entries.coords]
    if stored:
        return tuple(own)
    random = np.random.default_rng(0)
    return tuple(np.append(c, random.integers(0, e, count // 2)) for c, e in zip(own, tensor.shape, strict=True))


def _as_array(tensor: Tensor) -> Any:
    """A tensor as the oracle takes it: a dense array, or what can be subscripted as one."""
    if _is_small(tensor) or (not tensor.layout.indexes and tensor.to_coo().values.size == prod(tensor.shape)):
        return np.asarray(tensor.to_numpy())
    entries = tensor.to_coo()
    return entries_of(entries.shape, entries.coords, entries.values, tensor.layout.fill)


def stored(tensor: Tensor) -> Any:
    """The values of a tensor, to be compared: a dense array where all is stored, else its entries."""
    if not tensor.layout.indexes and tensor.layout.rank == 0:
        return tensor.arrays[tensor.layout.values[0].name].reshape(())
    entries = tensor.to_coo()
    if not tensor.layout.indexes and entries.values.size == prod(entries.shape):
        return tensor.to_numpy()
    return entries


def _is_small(tensor: Tensor) -> bool:
    """Whether it may be a dense array for a while."""
    return prod(tensor.shape) <= MOST_DENSE


def flat(value: Any) -> Array:
    return value.values if isinstance(value, Coordinates) else np.asarray(value).reshape(-1)


def compare(name: str, got: Array, expected: Array, places: Sequence[Array] = ()) -> str:
    """The largest difference, relative to the largest value; a tolerance that grows with rounding. `places` are those
    of the values, where they are some of many."""
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
        what = f"{name}[{', '.join(str(p[worst]) for p in places)}]" if places else f"value {worst}"
        raise CheckFailed(
            f"`{name}` differs from the reference: {what} is {got[worst]}, but {expected[worst]} is right",
            None,
            (f"relative difference {difference[worst]:.3g}, allowed {tolerance:.3g}",),
        )
    return f"equals the numpy reference (largest relative difference {float(difference[worst]):.2g})"
