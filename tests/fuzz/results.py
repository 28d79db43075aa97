"""Results in all layouts: dense ones, those that hold any pattern, those that refuse what they have no place for."""

from __future__ import annotations

from typing import Any

import numpy as np

import spfgen
from spfgen.errors import DataError, SpfgenError, Unsupported
from spfgen.layout.fill import differs
from spfgen.run.handles import handle_of
from spfgen.run.tensor import Tensor
from tests.fuzz import unseen
from tests.papers import support

EXACT = ("sv", "sv_unsorted", "csr", "csc", "coo", "dcsr", "dcsc", "csf")
"""They store entries and nothing else."""


def random_layout(rng: np.random.Generator, rank: int) -> str:
    """Dense half of the time, and one that holds any pattern every fourth time."""
    if not rank or rng.random() < 0.5:
        return "dense"
    if rng.random() < 0.5:
        return str(rng.choice(support.SPARSE[rank]))
    ours = [n for n, u in unseen.ALL.items() if u.rank == rank]
    return str(rng.choice([*support.LAYOUTS[rank], *ours]))


def may_refuse(layout: str, expected: np.ndarray, fill: Any, error: SpfgenError) -> bool:
    """Whether packing the result refuses it, too: what it has no place for, or what cannot be packed at all. Where
    places follow from the extents, all that may be computed has to have one, whatever the values are."""
    if layout == "dense" or not isinstance(error, DataError | Unsupported):
        return False
    if "to store all that is computed" in error.message and not _handle(layout, expected.ndim).indexes:
        return True
    try:
        spfgen.pack(expected, _handle(layout, expected.ndim), fill=fill)
    except type(error):
        return True
    except SpfgenError:
        return False
    return False


def _handle(layout: str, rank: int) -> Any:
    return support.unseen_layout(layout) if layout in unseen.ALL else handle_of(layout).layout(rank)


def check(found: Any, expected: np.ndarray, layout: str, pruned: bool, told: str) -> None:
    """The values, and what is stored: a valid tensor; of entries alone each coordinate once, and no fill value where
    they are left out."""
    support.compare(support.to_numpy(found), expected, False, told)
    if not isinstance(found, Tensor) or layout == "dense":
        return
    assert found.validate() == (), told
    if layout.partition("(")[0] not in EXACT:
        return
    coordinates = np.array(found.to_coo().coords)
    assert len(np.unique(coordinates, axis=1).T) == coordinates.shape[1], told
    if pruned:
        assert np.all(differs(found.to_coo().values, found.layout.fill)), told
