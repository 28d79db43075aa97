"""Results of a job in files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spfgen.errors import UsageError
from spfgen.layout.nodes import Layout
from spfgen.run.coordinates import Coordinates
from spfgen.run.files.write import write
from spfgen.run.tensor import Array, Tensor
from spfgen.space.nodes import Tensor as Declared

if TYPE_CHECKING:
    from spfgen.run.calls.requests import Job

COLUMNS = (".mtx", ".mtx.gz")
"""Files of matrices, where a vector is one column."""


def check_target(declared: Declared, path: str, job: Job) -> None:
    """The result can go to that file; asked before any work is done. Raises UsageError."""
    target = Path(path)
    if target.exists() and not job.force and target.is_file():
        raise UsageError(f"expected a new file, but {path} exists", None, ("overwrite it with --force",))
    if target.exists() and not target.is_file():
        raise UsageError(f"expected a file to write, but {path} is something else")
    if not os.access(target.absolute().parent, os.W_OK | os.X_OK):
        raise UsageError(
            f"expected a folder to write {path} to, but {target.absolute().parent} is not one, or cannot be written to"
        )
    if sum(Path(p).absolute() == target.absolute() for p in job.outputs.values()) > 1:
        raise UsageError(f"expected a file for each result, but {path} is given twice")
    with tempfile.TemporaryDirectory() as folder:  # the same kind of data, as small as can be, shows the rest
        trial = Path(folder) / target.name
        try:
            write(trial, _filed(_smallest(declared, path), path))
        except UsageError as error:
            raise UsageError(error.message.replace(str(trial), path), None, error.notes) from None


def _is_dense(layout: Layout, path: str) -> bool:
    """Whether the result goes to that file as a dense array."""
    return not layout.indexes and path.lower().endswith((".npy", ".npz", *COLUMNS))


def _smallest(declared: Declared, path: str) -> Coordinates | Array:
    shape = (1,) * declared.layout.rank
    if _is_dense(declared.final_layout, path):
        return np.zeros(shape, declared.value_type)
    nowhere = tuple(np.zeros(1, np.int64) for _ in shape)
    return Coordinates(shape, nowhere, np.zeros(1, declared.value_type))


def in_file(tensor: Tensor, path: str) -> Coordinates | Array:
    return _filed(tensor.to_numpy() if _is_dense(tensor.layout, path) else tensor.to_coo(), path)


def _filed(data: Coordinates | Array, path: str) -> Coordinates | Array:
    """The result as its file holds it: a vector as one column of a matrix where there are only matrices."""
    if len(data.shape) != 1 or not path.lower().endswith(COLUMNS):
        return data
    if not isinstance(data, Coordinates):
        return data.reshape(-1, 1)
    return Coordinates((*data.shape, 1), (*data.coords, np.zeros_like(data.coords[0])), data.values)
