"""Whether a kernel computed what it should: its outputs beside the numpy reference, or beside others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from spfgen.errors import CheckFailed
from spfgen.kernel import Kernel
from spfgen.lang.blocks import all_steps
from spfgen.lang.nodes import Statement
from spfgen.lang.oracle.tree import accesses_of
from spfgen.lang.oracle.values import Frame
from spfgen.lang.sampled import MOST, Sampled, TooManyPoints, entries_of
from spfgen.run.calls.call import size_value
from spfgen.run.coordinates import Coordinates
from spfgen.run.tensor import Array, Tensor

MOST_PLACES = 1000
"""Of a result that are compared, where all of them are too many to be computed."""


@dataclass(frozen=True, eq=False)
class ResultSample:
    """Some places of a tensor, an array for each dimension, and its values there."""

    places: tuple[Array, ...]
    values: Array


@dataclass(frozen=True)
class ResultVerdict:
    """What a comparison found, in words. `failure`: a result differs; `is_compared`: it was possible."""

    text: str
    failure: CheckFailed | None = None
    is_compared: bool = True


def verdict(
    kernel: Kernel, tensors: Mapping[str, Tensor], sizes: Mapping[str, int], before: Mapping[str, Mapping[str, Array]]
) -> ResultVerdict:
    """Compare every output with the oracle, at some places where its values are too many.

    `before` has the values of outputs before the kernel ran, none of those whose pattern is computed; `sizes` what the
    caller passed.
    """
    given: dict[str, Any] = {}
    fills: dict[str, Any] = {}
    for name, tensor in tensors.items():
        if tensor.layout.indexes:
            fills[name] = tensor.layout.fill
        if name not in kernel.assembled or before.get(name):
            given[name] = _as_array(Tensor(tensor.layout, tensor.sizes, {**tensor.arrays, **before.get(name, {})}))
        elif not _is_small(tensor):
            given[name] = _as_array(tensor).emptied()
    followed = ((n, size_value(kernel.program, n, tensors, sizes)) for n in kernel.parsed.sizes if n not in sizes)
    sizes = {**sizes, **{n: value for n, value in followed if value is not None}}
    try:
        with np.errstate(all="ignore"):
            run, steps = Sampled.prepared(kernel.parsed, given, fills, sizes)
            texts = [*_compared(run, steps, tensors)]
    except CheckFailed as error:
        return ResultVerdict(f"failed: {error.message}", error)
    except (ValueError, MemoryError) as error:
        return ResultVerdict(f"not compared: {error}", is_compared=False)
    return ResultVerdict("ok: " + "; ".join(texts))


def _compared(run: Sampled, steps: Sequence[Any], tensors: Mapping[str, Tensor]) -> Iterator[str]:
    """Each result, and what is found of it. One that is too large is compared at some places as soon as all is written
    to it; what follows reads what the kernel computed."""
    scalars: dict[str, Any] = {}
    samples: dict[str, ResultSample] = {}
    whole = [t for t in _targets(steps) if t in tensors]
    for k, step in enumerate(steps):
        read = [a for s in all_steps([step]) for a in accesses_of(s) if a != getattr(step, "target", None)]
        if any(a.tensor in samples for a in read):
            raise TooManyPoints("what is compared at some places only is read before all is written to it")
        sample = _carried_out(run, step, scalars, samples, tensors)
        if sample is None:
            continue
        name = step.target.tensor
        samples[name] = sample
        if name in _targets(steps[k + 1 :]):
            continue
        del samples[name]
        whole.remove(name)
        result = run.tensors[name] = _as_array(tensors[name])
        text = compare(name, np.asarray(result[sample.places]), sample.values, sample.places)
        yield f"{name} {text} at {sample.values.size} of {prod(result.shape)} places"
    for name in whole:
        got, expected = np.asarray(_as_array(tensors[name])), np.asarray(run.tensors[name])
        yield f"{name} {compare(name, got.ravel(), expected.ravel())}"


def _targets(steps: Sequence[Any]) -> list[str]:
    return list(dict.fromkeys(s.target.tensor for s in all_steps(steps) if isinstance(s, Statement)))


def _carried_out(
    run: Sampled, step: Any, scalars: dict[str, Any], samples: Mapping[str, ResultSample], tensors: Mapping[str, Tensor]
) -> ResultSample | None:
    """None: the step is carried out; else what it gives to some places of its target."""
    name = step.target.tensor if isinstance(step, Statement) else ""
    if name not in samples:
        try:
            run.step(step, Frame(), scalars)
            return None
        except TooManyPoints:
            if name not in tensors:
                raise
    sample = samples.get(name) or _sample(run.tensors[name], tensors[name], step.within)
    while True:
        try:
            return ResultSample(sample.places, run.values_at(step, sample.places, sample.values, scalars))
        except TooManyPoints:
            if sample.values.size <= 1:
                raise
            sample = ResultSample(tuple(p[::4] for p in sample.places), sample.values[::4])


def _sample(before: Any, tensor: Tensor, stored: bool) -> ResultSample:
    """Places of a result: half of them where something is stored that is not the fill value, the others anywhere;
    `stored`: all of them where something is."""
    entries = tensor.to_coo()
    chosen = np.flatnonzero(np.ones(entries.values.size) if stored else entries.values != tensor.layout.fill)
    count = MOST_PLACES if stored else MOST_PLACES // 2
    some = np.unique(np.linspace(0, max(chosen.size - 1, 0), count, dtype=np.int64))
    stored_places = [
        np.asarray(c, np.int64)[chosen[some]] if chosen.size else np.zeros(0, np.int64) for c in entries.coords
    ]
    random = np.random.default_rng(0)
    others = [random.integers(0, e, 0 if stored or 0 in tensor.shape else count) for e in tensor.shape]
    if not others:
        return ResultSample((), np.asarray(before))
    order = random.permutation(len(stored_places[0]) + len(others[0]))
    places = tuple(np.append(c, o)[order] for c, o in zip(stored_places, others, strict=True))
    return ResultSample(places, np.asarray(before[places]))


def _as_array(tensor: Tensor) -> Any:
    """A tensor as the oracle takes it: a dense array, or what can be subscripted as one."""
    if _is_small(tensor):
        return np.asarray(tensor.to_numpy())
    entries = tensor.to_coo()
    if not tensor.layout.indexes and entries.values.size == prod(tensor.shape):
        return np.asarray(tensor.to_numpy())
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
    return prod(tensor.shape) <= MOST


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
        tolerance = float(1e4 * np.finfo(got.dtype).eps)
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
