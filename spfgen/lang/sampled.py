"""What a kernel means at some places of its result: the oracle (interpret.py) where dense arrays would be too large."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from spfgen.facts.formula import Var, conjuncts, variables
from spfgen.lang import nodes as n
from spfgen.lang.interpret import Run
from spfgen.lang.oracle.functions import converted, operator_of
from spfgen.lang.oracle.tree import all_steps, nodes_of, used_in
from spfgen.lang.oracle.values import Frame

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Entries:
    """Values at coordinates, and the fill value elsewhere, subscripted as a dense array of the shape would be. `keys`
    are the coordinates, numbered row after row, in order."""

    shape: tuple[int, ...]
    keys: Array
    values: Array
    fill: Any

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    def __getitem__(self, at: Any) -> Array:
        wanted = np.ravel_multi_index(np.broadcast_arrays(*at), self.shape)
        if not self.keys.size:
            return np.full(wanted.shape, self.fill, self.dtype)
        place = np.minimum(np.searchsorted(self.keys, wanted), self.keys.size - 1)
        return np.where(self.keys[place] == wanted, self.values[place], self.dtype.type(self.fill))

    @property
    def stored(self) -> Entries:
        """Which places are stored."""
        return replace(self, values=np.ones(self.keys.size, np.bool_), fill=False)


def entries_of(shape: Sequence[int], coords: Sequence[Array], values: Array, fill: Any) -> Entries:
    """From a list in any order; the values of equal coordinates add up."""
    keys = np.ravel_multi_index(tuple(np.asarray(c, np.int64) for c in coords), tuple(shape))
    found, place = np.unique(keys, return_inverse=True)
    total = np.zeros(found.size, values.dtype)
    np.add.at(total, place.reshape(-1), values)
    return Entries(tuple(shape), found, total, fill)


def points_of(run: Run, steps: Sequence[Any]) -> int:
    """The points of the largest statement, which all are in memory at a time."""
    return max((_count(run, _indices(run, step)) for step in all_steps(steps)), default=1)


def _indices(run: Run, step: Any) -> set[str]:
    values = (step.target, step.value) if isinstance(step, n.Statement) else (getattr(step, "value", None),)
    return {i for v in values if v is not None for i in used_in(v)} & run.limits.keys() - run.sizes.keys()


def _count(run: Run, indices: set[str]) -> int:
    return prod(max(0, high - low) for low, high in map(run.range_of, indices))


def can_be_sampled(run: Run, steps: Sequence[Any], most: int) -> bool:
    """Whether each target gets its values by one assignment, each of them from at most so many points."""
    targets = [s.target.tensor for s in steps if isinstance(s, n.Statement)]
    return len({*targets}) == len(steps) and all(_is_one_by_one(run, s, most) for s in steps)


def _is_one_by_one(run: Run, step: n.Statement, most: int) -> bool:
    names = [s.name for s in step.target.subscripts if isinstance(s, Var)]
    reads = [v for v in nodes_of(step.value) if isinstance(v, n.Access) and v.tensor == step.target.tensor]
    plain = len({*names} - run.sizes.keys()) == len(step.target.subscripts)
    return plain and not reads and step.op in ("=", "+=") and inner_points(run, step) <= most


def inner_points(run: Run, step: n.Statement) -> int:
    """The points that one place of the target takes."""
    return max(1, _count(run, _indices(run, step) - {*_names(step)}))


def _names(step: n.Statement) -> Iterator[str]:
    return (s.name for s in step.target.subscripts if isinstance(s, Var))


def values_at(run: Run, step: n.Statement, places: Sequence[Array]) -> Array:
    """What the statement gives to these places (an array for each subscript) of its target."""
    name = step.target.tensor
    before = run.tensors[name]
    exact = run.is_exact(step, Frame(), {})
    frame = Frame(tuple(places[0].shape) if places else (), dict(zip(_names(step), places, strict=True)), exact=exact)
    inside: Any = np.ones(frame.shape, np.bool_)
    for index, place in frame.indices.items():
        low, high = run.range_of(index)
        inside = inside & (place >= low) & (place < high)
    for part in conjuncts(step.where) if step.where is not None else ():
        if variables(part) <= {*frame.indices, *run.sizes}:
            inside = inside & run.formula(part, frame.indices)
    frame = replace(frame, mask=inside)
    with np.errstate(all="ignore"):
        found = run.summed(step.value, frame, {}, step.op, step.function, step.where)
        value: Any = found.value
        if step.op == "+=":
            own = before[tuple(places)]
            added = run.apply(operator_of("+="), None, (own, value))
            return np.asarray(np.where(inside & found.inside, added, own))
        fill = converted(np.asarray(run.cleared(step, Frame(exact=exact), {})), before.dtype)
        return np.asarray(np.where(inside & found.inside, converted(np.asarray(value), before.dtype), fill))
