"""The oracle (lang/interpret.py) for tensors as tests draw them: lists of stored coordinates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from spfgen.lang.interpret import interpret
from spfgen.lang.nodes import Kernel, Statement
from spfgen.run.coordinates import Coordinates

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Stored:
    """A list of stored coordinates, one array per dimension, and their values. The values of equal coordinates add up,
    truth values to whether one is true."""

    shape: tuple[int, ...]
    coords: tuple[Array, ...]
    values: Array

    def dense(self) -> Array:
        """With 0 where nothing is stored."""
        found = np.zeros(self.shape, self.values.dtype)
        with np.errstate(all="ignore"):
            np.add.at(found.reshape(-1), self.places(), self.values)
        return found

    def places(self) -> Array:
        """The numbers of the coordinates, row after row."""
        if not self.shape:
            return np.zeros(len(self.values), np.int64)
        return np.ravel_multi_index(tuple(np.asarray(c, np.int64) for c in self.coords), self.shape)


Tensor = Stored | Array


def evaluate(
    program: Kernel | Statement | Sequence[Statement],
    tensors: Mapping[str, Stored | Coordinates | npt.ArrayLike],
    sizes: Mapping[str, int] | None = None,
) -> dict[str, Tensor]:
    """The targets after the program has run; of a sparse one, the values at its coordinates. Raises ValueError where
    it has no meaning."""
    dense: dict[str, Array] = {}
    stored: dict[str, Array] = {}
    for name, tensor in tensors.items():
        tensor = Stored(tensor.shape, tensor.coords, tensor.values) if isinstance(tensor, Coordinates) else tensor
        dense[name] = tensor.dense() if isinstance(tensor, Stored) else np.asarray(tensor)
        if isinstance(tensor, Stored):
            stored[name] = np.zeros(tensor.shape, bool)
            stored[name].reshape(-1)[tensor.places()] = True
    steps = (program,) if isinstance(program, Statement) else program
    parts = [replace(steps, statements=(s,)) for s in steps.statements] if isinstance(steps, Kernel) else [steps]
    found: dict[str, Tensor] = {}
    for part in parts:  # what has no place in a result is not there for the next statement either
        for name, result in interpret(part, dense, dict.fromkeys(stored, 0), sizes, stored).items():
            dense[name] = found[name] = np.where(stored[name], result, 0) if name in stored else result
    for name, result in found.items():
        own = tensors.get(name)
        if isinstance(own, Stored):
            assert isinstance(result, np.ndarray)
            found[name] = Stored(own.shape, own.coords, result.reshape(-1)[own.places()])
    return found
