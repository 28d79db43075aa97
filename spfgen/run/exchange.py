"""What tensors become: entries, another layout, files, arrays of other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np

from spfgen.errors import DataError, UsageError, warn_of_copy
from spfgen.run.arrays.entries import own_entries
from spfgen.run.calls.entries import pack
from spfgen.run.files.export import to_scipy
from spfgen.run.pack import coordinates
from spfgen.run.store import pickled, save
from spfgen.run.tensor import Tensor

__all__ = ["coordinates", "pack", "pickled", "save", "to_jax", "to_scipy", "to_torch"]


COMPRESSED = tuple("csr csc".split())
DENSE = "strided"
FORMS = (*COMPRESSED, *"coo strided".split())
"""Of torch, by its own names."""


def to_torch(tensor: Tensor, form: str | None = None) -> Any:
    """A tensor of torch: in torch's own form "csr" or "csc" where it has these arrays, else "coo"; or "strided"."""
    try:
        import torch
    except ImportError:
        raise UsageError("expected torch to be installed, but it is not", None, ("pip install torch",)) from None
    if form is not None and form not in FORMS:
        raise UsageError(f"expected a form of torch, one of {', '.join(FORMS)}, but it is {form!r}")
    if form == DENSE:
        return torch.from_numpy(np.ascontiguousarray(np.asarray(tensor)))
    if tensor.ndim == 2 and (form is None or form in COMPRESSED) and tensor.fill_value == 0:
        matrix = tensor.to_scipy(form)
        if matrix.format in COMPRESSED:
            parts = (torch.from_numpy(np.array(a)) for a in (matrix.indptr, matrix.indices, matrix.data))
            return getattr(torch, f"sparse_{matrix.format}_tensor")(*parts, size=tensor.shape)
    entries = own_entries(tensor)
    if entries.fill != 0:
        raise DataError(f"expected the fill value 0, which torch has, but it is {entries.fill}")
    coords = torch.from_numpy(np.stack(entries.coords)) if entries.coords else torch.zeros((0, len(entries.values)))
    return torch.sparse_coo_tensor(coords, torch.from_numpy(entries.values), size=tensor.shape, is_coalesced=True)


def to_jax(tensor: Tensor) -> Any:
    """A BCOO array of jax.experimental.sparse."""
    try:
        from jax.experimental import sparse
    except ImportError:
        raise UsageError("expected jax to be installed, but it is not", None, ("pip install jax",)) from None
    entries = own_entries(tensor)
    if entries.fill != 0:
        raise DataError(f"expected the fill value 0, which jax has, but it is {entries.fill}")
    coords = np.stack(entries.coords, axis=1) if entries.coords else np.zeros((len(entries.values), 0), np.int64)
    parts: Any = _for_jax(entries.values, "values"), _for_jax(coords, "coordinates")
    return sparse.BCOO(parts, shape=tensor.shape)


def _for_jax(array: Any, name: str) -> Any:
    """An array of 64 bits as one of 32, where jax is set to have no more. Raises DataError for integers that do not
    fit; a CopyWarning says that floats are rounded."""
    import jax

    if jax.config.jax_enable_x64 or array.dtype.kind == "b":
        return array
    narrow = np.dtype({"i": "int32", "u": "uint32", "f": "float32", "c": "complex64"}[array.dtype.kind])
    if array.dtype.itemsize <= narrow.itemsize:
        return array
    with np.errstate(over="ignore"):
        narrowed = array.astype(narrow)
    if np.array_equal(narrowed, array, equal_nan=array.dtype.kind in "fc"):
        return narrowed
    remedy = "jax has 64 bits after jax.config.update('jax_enable_x64', True)"
    if array.dtype.kind in "iu":
        raise DataError(
            f"expected {name} that fit {narrow}, but there is {array[narrowed != array][0]}", None, (remedy,)
        )
    warn_of_copy(f"the {name} are rounded to {narrow}: {remedy}")
    return narrowed
